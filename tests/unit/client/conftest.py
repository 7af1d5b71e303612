"""One graph twice, for the tests of a module: open in this process, and behind a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.serving import LiveServer, serving

import omnigraph
from omnigraph import Graph

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from omnigraph.client import RemoteGraph

SCHEMA = """
node Person {
  name: String @key
  age: I64?
  born: Date?
  seen: DateTime?
  weights: [F64]?
  photo: Blob?
}
edge Knows: Person -> Person { since: I32? }
"""
DATA = b"""{"type":"Person","data":{"name":"Ada","age":36,"born":"1815-12-10","weights":[1.5,2]}}
{"type":"Person","data":{"name":"Bob","age":9007199254740993,"seen":"2026-01-31T01:02:03.004Z"}}
{"type":"Person","data":{"name":"Eve","photo":"base64:AAEC"}}
{"edge":"Knows","from":"Ada","to":"Bob","data":{"since":1833}}
"""


@pytest.fixture(scope="module")
def graph_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served") / "people.omni"
    with Graph.init(path, schema=SCHEMA) as graph:
        graph.load(DATA, mode="append")
    return path


@pytest.fixture(scope="module")
def server(graph_path: Path) -> Iterator[LiveServer]:
    with serving({"people": graph_path}) as live:
        yield live


@pytest.fixture(scope="module")
def remote(server: LiveServer) -> Iterator[RemoteGraph]:
    with omnigraph.connect(server.url, graph="people") as graph:
        yield graph


@pytest.fixture(scope="module")
def embedded(graph_path: Path) -> Iterator[Graph]:
    with Graph.open(graph_path) as graph:
        yield graph
