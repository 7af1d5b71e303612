"""What a client writes: mutations, loads, branches, merges, the schema; and the history of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.serving import serving

from omnigraph import Graph
from omnigraph.server.operations import GRAPH_PATH
from omnigraph.server.routes import OPERATIONS

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

ADD = "query add($n: String) { insert Person { name: $n } }"
COUNT = "query n() { match { $p: Person } return { count($p) as n } }"
G = "/graphs/default"
COMMIT_FIELDS = {
    "graph_commit_id",
    "graph_branch",
    "graph_manifest_version",
    "parent_commit_id",
    "merged_parent_commit_id",
    "actor_id",
    "created_at",
    "committed_at",
    "kind",
    "operation_id",
}


def count(http: httpx.Client, branch: str = "main") -> int:
    body = http.post(f"{G}/query", json={"query": COUNT, "branch": branch}).json()
    return int(body["rows"][0]["n"])


def add(http: httpx.Client, name: str, branch: str = "main") -> dict[str, object]:
    answer = http.post(f"{G}/mutate", json={"query": ADD, "params": {"n": name}, "branch": branch})
    assert answer.status_code == 200, answer.text
    body: dict[str, object] = answer.json()
    return body


def test_a_mutation_gives_the_commit_that_it_made(http: httpx.Client) -> None:
    body = add(http, "Mutated")
    commit = body.pop("commit")
    assert body == {
        "branch": "main",
        "query_name": "add",
        "affected_nodes": 1,
        "affected_edges": 0,
        "actor_id": None,
    }
    assert isinstance(commit, dict)
    assert set(commit) == COMMIT_FIELDS
    shown = http.get(f"{G}/commits/{commit['graph_commit_id']}").json()
    tables = {"node:Person": {"added": 1, "changed": 0, "removed": 0}}
    assert shown.pop("stats") == {"affected": {"edges": 0, "nodes": 1}, "tables": tables}
    assert shown == commit


def test_the_old_name_of_a_mutation_takes_old_fields_and_says_so(http: httpx.Client) -> None:
    body = {"query_source": ADD, "query_name": "add", "params": {"n": "Old"}}
    answer = http.post(f"{G}/change", json=body)
    assert answer.status_code == 200
    assert answer.headers["Deprecation"] == "true"
    assert answer.headers["Link"] == '<mutate>; rel="successor-version"'
    refused = http.post(f"{G}/change", json={})
    assert (refused.status_code, refused.headers["Deprecation"]) == (400, "true")
    rows = http.post(f"{G}/read", json={"query_source": COUNT})
    assert "graph_commit_id" not in rows.json()
    assert rows.headers["Link"] == '<query>; rel="successor-version"'


def test_a_conditional_mutation_runs_only_on_the_head_it_names(http: httpx.Client) -> None:
    head = http.get(f"{G}/commits", params={"limit": 1}).json()["commits"][0]["graph_commit_id"]
    path, body = f"{G}/mutate/if-graph-commit", {"query": ADD, "params": {"n": "Conditional"}}
    for bad in ["*", f'"{head}"', f"W/{head}", f"{head},{head}", ""]:
        assert http.post(path, json=body, headers={_IF: bad}).status_code == 400
    assert http.post(path, json=body).status_code == 400
    assert http.post(path, json=body, headers=[(_IF, head), (_IF, head)]).status_code == 400
    assert http.post(path, json=body, headers={_IF: head}).status_code == 200
    lost = http.post(path, json=body | {"params": {"n": "Lost"}}, headers={_IF: head})
    assert lost.status_code == 412
    assert "code" not in lost.json()
    assert lost.json()["precondition_failure"]["expected"] == head
    elsewhere = http.post(f"{G}/mutate", json=body, headers={_IF: head})
    assert elsewhere.status_code == 400
    assert "if-graph-commit" in elsewhere.json()["error"]


def test_no_other_route_takes_a_condition(http: httpx.Client) -> None:
    head = http.get(f"{G}/commits", params={"limit": 1}).json()["commits"][0]["graph_commit_id"]
    others = [operation for operation in OPERATIONS if not operation.is_conditional]
    assert {operation.path for operation in others} >= {
        "/healthz",
        "/graphs",
        f"{GRAPH_PATH}/query",
    }
    for operation in others:
        path = re.sub(r"{[^}]*}", "x", operation.path.replace("{graph_id}", "default"))
        answer = http.request(operation.method, path, headers={_IF: head})
        assert answer.status_code == 400, operation.operation_id
        if operation.method != "HEAD":
            assert "takes no Omnigraph-If-Graph-Commit" in answer.json()["error"]


def test_a_key_makes_a_repeated_write_one_write(http: httpx.Client) -> None:
    request = {"query": ADD, "params": {"n": "Once"}}
    first = http.post(f"{G}/mutate", json=request, headers={"Idempotency-Key": "k1"})
    again = http.post(f"{G}/mutate", json=request, headers={"Idempotency-Key": "k1"})
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json()["commit"] == first.json()["commit"]
    other = http.post(
        f"{G}/mutate", json=request | {"params": {"n": "X"}}, headers={"Idempotency-Key": "k1"}
    )
    assert other.status_code == 409
    assert other.json()["idempotency_key_reused"]["key"] == "k1"


def test_the_receipt_of_a_load_that_made_its_branch_comes_back_whole(http: httpx.Client) -> None:
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": "made"}
    line = b'{"type":"Person","data":{"name":"Made"}}\n'
    first, again = (
        http.post(f"{G}/load/ndjson?branch=made&from=main", content=line, headers=headers)
        for _ in range(2)
    )
    assert again.headers["Idempotent-Replayed"] == "true"
    receipts = [answer.json() for answer in (first, again)]
    assert receipts[0]["branch_created"] is True
    for receipt in receipts:
        del receipt["report"]
    assert receipts[0] == receipts[1]


def test_a_merge_sent_again_after_it_deleted_its_source_is_told_as_a_repetition(
    http: httpx.Client,
) -> None:
    http.post(f"{G}/branches", json={"name": "merged-once"})
    add(http, "MergedOnce", "merged-once")
    request = {"source": "merged-once", "delete_branch": True}
    answers = [
        http.post(f"{G}/branches/merge", json=request, headers={"Idempotency-Key": "m1"})
        for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json()["commit"] == answers[1].json()["commit"]
    assert [answer.headers.get("Idempotent-Replayed") for answer in answers] == [None, "true"]


@pytest.mark.parametrize("route", ["load/ndjson", "load", "ingest"])
def test_a_load_is_one_commit(http: httpx.Client, route: str) -> None:
    branch = f"load-{route.replace('/', '-')}"
    lines = (
        '{"type":"Person","data":{"name":"L1"}}\n\n{"type":"Person","data":{"name":"L2"}}\n'
        '{"edge":"Knows","from":"L1","to":"L2"}\n'
    )
    answer = _load(http, route, lines, branch=branch, from_="main", mode="append")
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["branch_created"] is True
    assert (body["branch"], body["base_branch"], body["mode"]) == (branch, "main", "append")
    assert body["nodes"] == [{"name": "Person", "entities_loaded": 2}]
    assert body["edges"] == [{"name": "Knows", "entities_loaded": 1}]
    assert body["total_entities"] == 3
    assert set(body["commit"]) == COMMIT_FIELDS
    assert ("uri" in body) == (route != "load/ndjson")
    twice = _load(http, route, lines, branch=branch, mode="append")
    assert (twice.status_code, twice.json()["reason"]) == (409, "key_conflict")
    assert twice.json()["key_conflict"]["entity_id"] == "L1"
    missing = _load(http, route, lines, branch="nowhere")
    assert (missing.status_code, missing.json()["reason"]) == (404, "branch_not_found")
    none = _load(http, route, lines, mode="replace")
    assert (none.status_code, none.json()["invalid_argument"]) == (400, {"argument": "mode"})
    assert "'append' (rows must be new)" in none.json()["error"]


def test_bad_lines_refuse_the_batch_with_their_numbers(http: httpx.Client) -> None:
    before = count(http)
    lines = '{"type":"Person","data":{"name":"Good"}}\nno json\n{"type":"Persn","data":{}}\n'
    answer = _load(http, "load/ndjson", lines)
    assert answer.status_code == 400
    body = answer.json()
    assert body["violations"]["total"] == 2
    assert [item["input_line"] for item in body["violations"]["items"]] == [2, 3]
    assert "line 3" in body["error"]
    assert count(http) == before
    wrong = http.post(f"{G}/load/ndjson", content=b"{}", headers={"Content-Type": "text/csv"})
    assert wrong.status_code == 415
    assert _load(http, "load/ndjson", lines, mode="none").status_code == 400


def test_the_old_load_forgives_what_it_does_not_know(http: httpx.Client) -> None:
    lines = '{"type":"Person","data":{"name":"A","name":"Last","shoe":44},"extra":1}\n'
    assert _load(http, "load", lines).status_code == 400
    answer = _load(http, "ingest", lines)
    assert answer.json()["nodes"] == [{"name": "Person", "entities_loaded": 1}]
    assert answer.headers["Link"] == '<load>; rel="successor-version"'
    reserved = '{"edge":"Knows","from":"Last","to":"Last","data":{"src":"x"}}\n'
    assert _load(http, "ingest", reserved).status_code == 400


def test_branches_are_forked_merged_and_deleted(http: httpx.Client) -> None:
    made = http.post(f"{G}/branches", json={"name": " feature/a "})
    assert made.status_code == 200
    body = made.json()
    assert {name: body[name] for name in ("from", "name", "actor_id")} == {
        "from": "main",
        "name": "feature/a",
        "actor_id": None,
    }
    assert "uri" in body
    assert http.post(f"{G}/branches", json={"name": "feature/a"}).status_code == 409
    assert "feature/a" in http.get(f"{G}/branches").json()["branches"]
    add(http, "OnBranch", "feature/a")
    merged = http.post(f"{G}/branches/merge", json={"source": "feature/a"}).json()
    assert (merged["target"], merged["outcome"]) == ("main", "fast_forward")
    assert "branch_deleted" not in merged
    again = http.post(
        f"{G}/branches/merge", json={"source": "feature/a", "delete_branch": True}
    ).json()
    assert (again["outcome"], again["branch_deleted"]) == ("already_up_to_date", True)
    http.post(f"{G}/branches", json={"name": "feature/b"})
    gone = http.delete(f"{G}/branches/feature%2Fb")
    assert (gone.status_code, gone.json()["name"]) == (200, "feature/b")
    assert http.delete(f"{G}/branches/feature/b").status_code == 404
    assert http.delete(f"{G}/branches/main").status_code == 400
    assert http.delete(f"{G}/branches/%20").status_code == 400


def test_conflicts_of_a_merge_are_listed_and_can_be_decided(http: httpx.Client) -> None:
    change = 'query c($a: I64) { update Person set { age: $a } where name = "Ada" }'
    http.post(f"{G}/branches", json={"name": "other"})
    for branch, age in (("main", 1), ("other", 2)):
        done = http.post(
            f"{G}/mutate", json={"query": change, "params": {"a": age}, "branch": branch}
        )
        assert done.status_code == 200, done.text
    refused = http.post(f"{G}/branches/merge", json={"source": "other"})
    assert refused.status_code == 409
    assert refused.json()["merge_conflicts"][0]["kind"] == "divergent_update"
    decided = http.post(
        f"{G}/branches/merge",
        json={"source": "other", "strategy": "theirs", "delete_branch": True},
    )
    assert decided.json()["outcome"] == "merged"


def test_the_history_comes_in_pages(http: httpx.Client) -> None:
    every = http.get(f"{G}/commits").json()
    assert "next_cursor" not in every
    first = http.get(f"{G}/commits", params={"limit": 1}).json()
    rest = http.get(f"{G}/commits", params={"cursor": first["next_cursor"]}).json()
    assert first["commits"] + rest["commits"] == every["commits"]
    assert http.get(f"{G}/commits", params={"limit": "x"}).status_code == 400
    assert http.get(f"{G}/commits/none").status_code == 404


def test_a_plan_is_shown_and_run_only_to_be_measured(http: httpx.Client) -> None:
    body = http.post(f"{G}/explain", json={"query": COUNT}).json()
    assert body["query_name"] == "n"
    assert body["target"] == {"branch": "main", "snapshot": None}
    assert "rows" not in body["plan"]
    measured = http.post(f"{G}/explain", json={"query": COUNT, "analyze": True}).json()
    assert measured["plan"] != body["plan"]


def test_the_schema_is_changed_by_one_commit(tmp_path: Path) -> None:
    Graph.init(tmp_path, schema="node Person { name: String @key  age: I64? }").close()
    with serving({"default": tmp_path}) as server, server.client() as http:
        source = http.get(f"{G}/schema").json()["schema_source"]
        wanted = source.replace("age: I64?", "age: I64?  city: String?")
        body = http.post(f"{G}/schema/apply", json={"schema_source": wanted}).json()
        assert (body["supported"], body["applied"], body["step_count"]) == (True, True, 1)
        assert body["steps"][0]["property_name"] == "city"
        assert body["graph_manifest_version"] == body["commit"]["graph_manifest_version"]
        again = http.post(f"{G}/schema/apply", json={"schema_source": wanted}).json()
        assert (again["applied"], again["commit"]) == (False, None)
        refused = http.post(f"{G}/schema/apply", json={"schema_source": "node {"})
        assert (refused.status_code, refused.json()["reason"]) == (400, "schema_invalid")
        assert refused.json()["diagnostics"]


_IF = "Omnigraph-If-Graph-Commit"


def _load(
    http: httpx.Client,
    route: str,
    lines: str,
    *,
    branch: str = "main",
    from_: str | None = None,
    mode: str | None = None,
) -> httpx.Response:
    given = {"branch": branch, "from": from_, "mode": mode}
    options = {name: value for name, value in given.items() if value is not None}
    if route != "load/ndjson":
        return http.post(f"{G}/{route}", json={"data": lines, **options})
    headers = {"Content-Type": "application/x-ndjson"}
    return http.post(f"{G}/{route}", params=options, content=lines.encode(), headers=headers)
