"""A small graph for servers that run as programs of their own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

_ROOT = str(Path(__file__).parents[2])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)

from omnigraph import Graph  # noqa: E402 - behind the path of the tests

SCHEMA = "node Person { name: String @key  age: I64? }\nedge Knows: Person -> Person\n"


@pytest.fixture
def graph_path(tmp_path: Path) -> Path:
    path = tmp_path / "people.omni"
    with Graph.init(path, schema=SCHEMA) as graph:
        graph.load(b'{"type":"Person","data":{"name":"Ada","age":36}}\n', mode="append")
    return path
