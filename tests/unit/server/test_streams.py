"""Streams of whole graphs: complete or recognisably not, one at a time, gone with their client."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.serving import LiveServer, serving

from omnigraph import Graph

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

G = "/graphs/default"
SCHEMA = """
node Page { name: String @key  text: String? }
edge Link: Page -> Page
"""
ROWS = 240
LINES = "".join(
    json.dumps({"type": "Page", "data": {"name": f"p{number:04}", "text": "x" * 65_536}}) + "\n"
    for number in range(ROWS)
)
LINES += '{"edge":"Link","from":"p0000","to":"p0001"}\n'
"""About 16 MiB: much more than the buffers of two sockets hold."""


@pytest.fixture(scope="module")
def graph_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served") / "pages.omni"
    with Graph.init(path, schema=SCHEMA) as graph:
        graph.load(LINES.encode(), mode="append")
    return path


@pytest.fixture(scope="module")
def server(graph_path: Path) -> Iterator[LiveServer]:
    with serving({"default": graph_path}) as live:
        yield live


def test_an_export_is_what_the_graph_exports(server: LiveServer, http: httpx.Client) -> None:
    answer = http.post(f"{G}/export", json={"branch": " main "})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    assert answer.headers["transfer-encoding"] == "chunked"
    graph = server.runtime.served.graphs["default"].graph
    assert answer.content == b"".join(graph.export())
    links = http.post(f"{G}/export", json={"type_names": ["Link"]}).text.splitlines()
    assert len(links) == 1


@pytest.mark.parametrize("path", ["export", "changes/baseline"])
def test_what_can_be_refused_is_refused_before_the_stream(http: httpx.Client, path: str) -> None:
    assert http.post(f"{G}/{path}", json={"branch": "no"}).status_code == 404
    assert http.post(f"{G}/{path}", json={"unknown": 1}).status_code == 400
    name = "type_names" if path == "export" else "type"
    assert http.post(f"{G}/{path}", json={name: ["Nothing"]}).status_code == 400
    assert http.post(f"{G}/{path}", content=b"x").status_code == 415


def test_a_baseline_ends_with_the_cursor_to_go_on_from(http: httpx.Client) -> None:
    answer = http.post(f"{G}/changes/baseline", json={"kind": ["edge"]})
    *entities, last = map(json.loads, answer.text.splitlines())
    assert [entity["edge"] for entity in entities] == ["Link"]
    cursor = last["baseline"]["resume_cursor"]
    page = http.get(f"{G}/changes", params={"cursor": cursor, "kind": "edge"}).json()
    assert (page["blocks"], page["caught_up"]) == ([], True)


def test_a_graph_has_one_stream_at_a_time_and_a_client_that_leaves_frees_it(
    server: LiveServer, http: httpx.Client
) -> None:
    with server.client() as other, other.stream("POST", f"{G}/export", json={}) as held:
        assert held.status_code == 200
        pieces = held.iter_raw()
        assert next(pieces)
        second = http.post(f"{G}/changes/baseline", json={})
        assert second.status_code == 413
        assert second.json()["resource_limit"] == {
            "resource": "stream_export_slots",
            "limit": 1,
            "actual": 2,
        }
        reads = http.get(f"{G}/schema")
        assert reads.status_code == 200
    _until_free(http)


def test_a_failure_after_the_first_byte_is_no_complete_answer(tmp_path: Path) -> None:
    path = tmp_path / "pages.omni"
    with Graph.init(path, schema=SCHEMA) as graph:
        graph.load(LINES.encode(), mode="append")
        dataset = next(t for t in graph.snapshot().tables if t.table_key == "edge:Link")
    with serving({"default": path}) as live, live.client() as http:
        with http.stream("POST", f"{G}/changes/baseline", json={}) as answer:
            assert answer.status_code == 200
            pieces = answer.iter_raw()
            received = next(pieces)
            for file in (path / dataset.dataset_path).rglob("*.lance"):
                file.unlink()
            with pytest.raises(httpx.RemoteProtocolError):
                received += b"".join(pieces)
        assert b'"baseline"' not in received
        _until_free(http, type_names=["Page"])


def _until_free(http: httpx.Client, **body: object) -> None:
    """Bounded: the server hears of a closed connection in its own time."""
    for _ in range(200):
        with http.stream("POST", f"{G}/export", json=body) as answer:
            if answer.status_code == 200:
                for _ in answer.iter_raw():
                    pass
                return
            answer.read()
    raise AssertionError("the slot stayed taken")
