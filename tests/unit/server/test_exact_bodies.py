"""Every answer has the members that the document declares for it: those it requires, no others."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.declared import DOCUMENT, differences, model
from tests.serving import LiveServer, serving
from tests.unit.server.access_cases import STORED
from tests.unit.server.conftest import SCHEMA

from omnigraph import Graph
from omnigraph.server.routes import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import httpx
    from tests.declared import Schema

    from omnigraph.server.operations import Operation

G = "/graphs/default"
ALL = "query all() { match { $p: Person } return { $p.name } }"
LINE = '{"type":"Person","data":{"name":"NAME"}}\n'
BY_ID = {operation.operation_id: operation for operation in OPERATIONS}
REFUSALS: Sequence[tuple[str, Mapping[str, object]]] = (
    ("query", {"query": "query q("}),
    ("query", {"query": ALL, "branch": "nowhere"}),
    ("query", {"query": ALL, "name": "other"}),
    ("query", {"query": "query q($n: I64) { match { $p: Person { age: $n } } return { $p } }"}),
    ("load", {"data": '{"type":"Person","data":{"name":5}}\n'}),
    ("load", {"data": LINE.replace("NAME", "Ada"), "mode": "append"}),
    ("branches", {"name": "kept"}),
    ("commits/0/revert", {}),
    ("schema/apply", {"schema_source": SCHEMA.replace("age: I64?", "")}),
    ("branches/merge", {"source": "kept", "if_commit": "01K0000000000000000000000A"}),
)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    root = tmp_path_factory.mktemp("exact")
    schema = SCHEMA.replace("age: I64?", "age: I64?  photo: Blob?")
    with Graph.init(root / "g.omni", schema=schema) as graph:
        photo = base64.b64encode(b"bytes").decode()
        person = {"name": "Ada", "age": 36, "photo": f"base64:{photo}"}
        graph.load(json.dumps({"type": "Person", "data": person}).encode(), mode="append")
        edge = b'{"edge":"Knows","from":"Ada","to":"Ada"}\n'
        graph.load(edge, mode="append")
        graph.branches.create("kept")
        graph.branches.create("draft")
        graph.mutate('query add() { insert Person { name: "Dee" } }', branch="draft")
        graph.tags.create("v1")
    (root / "stored.gq").write_text(STORED, encoding="utf-8")
    with serving({"default": root / "g.omni"}, queries={"default": root / "stored.gq"}) as server:
        yield server


def test_every_answer_of_success_is_as_it_is_declared(live: LiveServer) -> None:
    with live.client() as http:
        schema = http.get(f"{G}/schema").json()["schema_source"]
        head = http.get(f"{G}/commits").json()["commits"][0]["graph_commit_id"]
        asked = dict(_requests(schema, head))
        answered = {name: _sent(http, BY_ID[name], asked[name]) for name in asked}
    described = {
        name
        for name, operation in BY_ID.items()
        if operation.is_documented and operation.answer is not None and operation.path[7:8] == "/"
    }
    assert set(answered) == described
    for name, answer in answered.items():
        operation = BY_ID[name]
        assert answer.status_code in operation.success, (name, answer.text)
        schema = _schema_of(operation, answer.status_code)
        assert list(differences(schema, answer.json(), name)) == []


def test_every_refusal_is_as_it_is_declared(live: LiveServer) -> None:
    schema = model("ErrorOutput")
    with live.client() as http:
        for path, body in REFUSALS:
            answer = http.post(f"{G}/{path}", json=body)
            assert answer.status_code >= 400, path
            assert list(differences(schema, answer.json(), path)) == []


def test_a_member_that_is_not_declared_and_one_that_is_missing_are_found() -> None:
    schema = model("BranchListOutput")
    assert list(differences(schema, {"branches": ["main"]})) == []
    assert list(differences(schema, {"branches": [], "more": 1})) == [".more is not declared"]
    assert list(differences(schema, {})) == [".branches is missing"]


def _requests(schema: str, head: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """How to ask for success, by operation, in an order in which each one finds what it needs."""
    add = 'query add() { insert Person { name: "NAME" } }'
    name = {"branch": "new", "tag": "made", "name": "stored_read", "commit_id": head}
    yield "cluster_query", {"json": {"query": ALL}}
    yield "cluster_read", {"json": {"query_source": ALL}}
    yield "cluster_explain", {"json": {"query": ALL, "analyze": True}}
    yield "cluster_list_queries", {}
    yield "cluster_invoke_query", {"path": name}
    yield "cluster_getSnapshot", {}
    yield "cluster_getSchema", {}
    yield "cluster_planSchema", {"json": {"schema_source": f"{schema}\nnode New {{ a: String }}"}}
    yield "cluster_listBranches", {}
    yield "cluster_planMerge", {"json": {"source": "draft"}}
    yield "cluster_listTags", {}
    yield "cluster_getTag", {"path": {"tag": "v1"}}
    yield "cluster_listCommits", {"params": {"limit": "1"}}
    yield "cluster_getCommit", {"path": name}
    yield "cluster_getCommitChanges", {"path": name}
    yield "cluster_pollChanges", {"params": {"start": "beginning", "cursors": "true"}}
    yield "cluster_diff", {"params": {"from": "main", "to": "draft", "stats": "true"}}
    condition = {"Omnigraph-If-Graph-Commit": head}
    body = {"query": add.replace("NAME", "A")}
    yield "cluster_mutate_if_graph_commit", {"json": body, "headers": condition}
    yield "cluster_mutate", {"json": {"query": add.replace("NAME", "B")}}
    yield "cluster_change", {"json": {"query_source": add.replace("NAME", "C")}}
    yield (
        "cluster_loadNdjson",
        {
            "content": LINE.replace("NAME", "D"),
            "headers": {"Content-Type": "application/x-ndjson"},
            "params": {"branch": "new", "from": "main"},
        },
    )
    yield "cluster_load", {"json": {"data": LINE.replace("NAME", "E")}}
    yield "cluster_ingest", {"json": {"data": LINE.replace("NAME", "F")}}
    yield "cluster_createBranch", {"json": {"name": "other"}}
    yield "cluster_mergeBranches", {"json": {"source": "draft", "delete_branch": True}}
    yield "cluster_deleteBranch", {"path": name}
    yield "cluster_createTag", {"json": {"name": "made"}}
    yield "cluster_deleteTag", {"path": name}
    yield "cluster_revertCommit", {"path": {"commit_id": "2"}, "json": {}}
    stored = {"path": {"name": "stored_write"}, "headers": {}}
    yield "cluster_invoke_query_if_graph_commit", stored
    yield "cluster_applySchema", {"json": {"schema_source": schema}}


def _sent(http: httpx.Client, operation: Operation, asked: dict[str, Any]) -> httpx.Response:
    names = {"graph_id": "default"} | asked.pop("path", {})
    path = operation.path.replace(":path}", "}").format(**names)
    if operation.is_conditional and not asked["headers"]:
        head = http.get(f"{G}/commits?limit=1").json()["commits"][0]["graph_commit_id"]
        asked["headers"] = {"Omnigraph-If-Graph-Commit": head}
    return http.request(operation.method, path, **asked)


def _schema_of(operation: Operation, status: int) -> Schema:
    path = operation.path.replace(":path}", "}")
    responses = DOCUMENT["paths"][path][operation.method.lower()]["responses"]
    found: Schema = responses[str(status)]["content"]["application/json"]["schema"]
    return found
