"""Lets the tests import the module beside them by the name that the type checker knows."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.failpoints import disarm_all

_ROOT = str(Path(__file__).parents[3])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)

from tests.unit.graph.graphs import Opened  # noqa: E402 - needs the path above


@pytest.fixture
def graphs(tmp_path: Path) -> Iterator[Opened]:
    """Graphs on local folders, closed at the end of the test."""
    opened = Opened(tmp_path)
    yield opened
    disarm_all()
    opened.close()
