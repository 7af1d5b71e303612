"""Lets the tests import the module beside them by the name that the type checker knows."""

import sys
from pathlib import Path

import pytest

_ROOT = str(Path(__file__).parents[3])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)

from tests.unit.storage.workbench import Workbench  # noqa: E402 - needs the path above


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    """An empty local root with full durability, and every foreign call recorded."""
    return Workbench(tmp_path / "graph")
