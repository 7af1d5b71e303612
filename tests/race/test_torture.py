"""Processes that are killed and stopped at any step of any write lose nothing and tell no lie."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.race.torture import Torture

if TYPE_CHECKING:
    from pathlib import Path


def _seed() -> int:
    return int(os.environ.get("RACE_SEED") or int.from_bytes(os.urandom(4), "big"))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("count", [6, pytest.param(20, marks=pytest.mark.extended)])
def test_history_explains_what_killed_and_stopped_processes_leave(
    tmp_path: Path, count: int
) -> None:
    Torture(
        root=str(tmp_path / "graph"),
        folder=tmp_path,
        seed=_seed(),
        writers=3,
        count=count,
        seconds=10,
    ).run()


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.timeout(1800)
def test_history_explains_what_many_killed_and_stopped_processes_leave(tmp_path: Path) -> None:
    Torture(
        root=str(tmp_path / "graph"),
        folder=tmp_path,
        seed=_seed(),
        writers=6,
        count=400,
        seconds=120,
    ).run()
