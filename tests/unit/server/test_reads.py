"""What a client reads: rows, snapshots, the schema, and what it gets for a wrong request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.serving import TOKEN

if TYPE_CHECKING:
    import httpx
    from tests.serving import LiveServer

PEOPLE = "query people() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }"
G = "/graphs/default"


def test_a_query_gives_rows_and_the_head_it_was_pinned_to(http: httpx.Client) -> None:
    answer = http.post(f"{G}/query", json={"query": PEOPLE})
    assert answer.status_code == 200
    body = answer.json()
    commit = body.pop("graph_commit_id")
    assert body == {
        "query_name": "people",
        "target": {"branch": "main", "snapshot": None},
        "row_count": 2,
        "columns": ["p.name", "p.age"],
        "rows": [{"p.name": "Ada", "p.age": 36}, {"p.name": "Bob", "p.age": 9007199254740993}],
    }
    again = http.post(f"{G}/query", json={"query": PEOPLE, "snapshot": commit}).json()
    assert again["target"] == {"branch": None, "snapshot": commit}
    assert again["rows"] == body["rows"]


def test_rows_come_in_the_form_that_is_accepted(http: httpx.Client) -> None:
    body = {"query": PEOPLE}
    arrow = http.post(
        f"{G}/query", json=body, headers={"Accept": "application/vnd.apache.arrow.stream"}
    )
    assert arrow.headers["Omnigraph-Row-Count"] == "2"
    assert arrow.headers["Omnigraph-Query-Name"] == "people"
    table = pa.ipc.open_stream(arrow.content).read_all()
    assert table.column("p.name").to_pylist() == ["Ada", "Bob"]
    lines = http.post(f"{G}/query", json=body, headers={"Accept": "application/x-ndjson"})
    assert len(lines.text.splitlines()) == 3
    safe = http.post(f"{G}/query?js_safe=true", json=body).json()
    assert safe["rows"][1]["p.age"] == "9007199254740993"


def test_snapshot_and_schema(http: httpx.Client) -> None:
    body = http.get(f"{G}/snapshot", params={"branch": " main "}).json()
    assert body["graph_branch"] == "main"
    kinds = [(item["entity_kind"], item["type_name"]) for item in body["datasets"]]
    assert kinds == [("node", "Person"), ("edge", "Knows")]
    assert "node Person" in http.get(f"{G}/schema").json()["schema_source"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "reason"),
    [
        ("POST", f"{G}/query", {"query": 1}, 400, "invalid_argument"),
        ("POST", f"{G}/query", {}, 400, "invalid_argument"),
        ("POST", f"{G}/query", [], 400, "invalid_argument"),
        ("POST", f"{G}/query", {"query": "query q("}, 400, "query_invalid"),
        ("POST", f"{G}/query", {"query": PEOPLE, "branch": "b", "snapshot": "x"}, 400, None),
        ("POST", f"{G}/query", {"query": PEOPLE, "branch": "  "}, 400, None),
        ("POST", f"{G}/query", {"query": PEOPLE, "branch": "no"}, 404, "branch_not_found"),
        ("POST", "/graphs/other/query", {"query": PEOPLE}, 404, "graph_not_found"),
        ("POST", "/graphs/a_b/query", {"query": PEOPLE}, 400, "invalid_argument"),
        ("POST", "/query", {"query": PEOPLE}, 404, "route_not_found"),
        ("GET", f"{G}/query", None, 405, "method_not_allowed"),
        ("GET", "/graphs", None, 403, "policy_denied"),
    ],
)
def test_every_failure_is_the_envelope(
    http: httpx.Client, method: str, path: str, body: object, status: int, reason: str | None
) -> None:
    answer = http.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["reason"] == (reason or "invalid_argument")
    if status == 405:
        assert answer.headers["Allow"] == "POST"


def test_a_content_type_that_is_no_json_is_415(http: httpx.Client) -> None:
    answer = http.post(f"{G}/query", content=b"{}", headers={"Content-Type": "text/plain"})
    assert (answer.status_code, answer.json()["code"]) == (415, "bad_request")
    broken = http.post(f"{G}/query", content=b"{", headers={"Content-Type": "application/json"})
    assert (broken.status_code, broken.json()["code"]) == (400, "bad_request")


def test_the_actor_follows_from_the_token_alone(denying: LiveServer) -> None:
    with denying.client() as nobody:
        missing = nobody.get(f"{G}/schema", headers={"X-Actor-Id": "alice"})
        assert missing.status_code == 401
        assert missing.headers["WWW-Authenticate"] == "Bearer"
        assert missing.json()["error"] == "missing bearer token"
        assert nobody.get("/healthz").json()["status"] == "ok"
        assert nobody.get("/readyz").json() == {"status": "ready", "graphs": 1}
    with denying.client("wrong") as stranger:
        assert stranger.get(f"{G}/schema").json()["error"] == "invalid bearer token"
    with denying.client(TOKEN) as alice:
        assert alice.get(f"{G}/schema").status_code == 200
        twice = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer other")]
        for headers in (twice, twice[::-1]):
            assert alice.get(f"{G}/schema", headers=headers).status_code == 401


def test_an_id_from_the_client_is_echoed_if_it_is_one(http: httpx.Client) -> None:
    given = http.get("/healthz", headers={"X-Request-Id": "abc-1"})
    assert given.headers["X-Request-Id"] == "abc-1"
    made = http.get("/nowhere", headers={"X-Request-Id": "no spaces"})
    assert len(made.headers["X-Request-Id"]) == 26
