"""Lets the tests import the modules beside them by the names that the type checker knows."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = str(Path(__file__).parents[3])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)

from tests.unit.engine.graphs import Opened  # noqa: E402 - needs the path above


@pytest.fixture
def graphs(tmp_path: Path) -> Iterator[Opened]:
    """Graphs on local folders, closed at the end of the test."""
    with Opened(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """Graphs that the tests of one module only read."""
    with Opened(tmp_path_factory.mktemp("shared")) as opened:
        yield opened
