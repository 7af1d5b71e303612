"""Lets the tests import the module beside them by the name that the type checker knows."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.failpoints import disarm_all

_ROOT = str(Path(__file__).parents[3])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)

from tests.unit.graph.graphs import SCHEMA, Opened, made_once  # noqa: E402 - needs the path above


class Copying(Opened):
    """Copies an empty graph where a test wants the usual one: hundreds do, and an init is slow."""

    def __init__(self, root: Path, empty: Path) -> None:
        super().__init__(root)
        self._empty = empty

    def init(self, schema: str = SCHEMA, *, actor: str | None = None, **env: str) -> Graph:
        """A new graph."""
        if schema != SCHEMA or actor is not None or env:
            return super().init(schema, actor=actor, **env)
        return self.copied(self._empty)


@pytest.fixture(scope="session")
def empty_graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of the usual schema as an init leaves it."""
    return made_once(tmp_path_factory.mktemp("empty"), SCHEMA, lambda _: None)


@pytest.fixture
def graphs(tmp_path: Path, empty_graph: Path) -> Iterator[Opened]:
    """Graphs on local folders, closed at the end of the test."""
    opened = Copying(tmp_path, empty_graph)
    yield opened
    disarm_all()
    opened.close()
