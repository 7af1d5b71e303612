"""A small graph, served in each of the states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.serving import ACTOR, TOKEN, LiveServer, serving

from omnigraph import Graph

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

SCHEMA = """
node Person { name: String @key  age: I64? }
edge Knows: Person -> Person
"""
DATA = b"""{"type":"Person","data":{"name":"Ada","age":36}}
{"type":"Person","data":{"name":"Bob","age":9007199254740993}}
{"edge":"Knows","from":"Ada","to":"Bob"}
"""


@pytest.fixture(scope="module")
def graph_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared by the tests of a module: what one writes, the next one sees."""
    path = tmp_path_factory.mktemp("served") / "people.omni"
    with Graph.init(path, schema=SCHEMA) as graph:
        graph.load(DATA, mode="append")
    return path


@pytest.fixture(scope="module")
def server(graph_path: Path) -> Iterator[LiveServer]:
    """Open: nobody is asked who they are."""
    with serving({"default": graph_path}) as live:
        yield live


@pytest.fixture
def http(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture(scope="module")
def denying(graph_path: Path) -> Iterator[LiveServer]:
    """Tokens and no policy: only reading is allowed."""
    with serving({"default": graph_path}, tokens={ACTOR: TOKEN}) as live:
        yield live
