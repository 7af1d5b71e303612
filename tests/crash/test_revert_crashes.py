"""A revert that dies or stands still has happened or has not; the same one again completes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.crash.places import arrange
from tests.crash.points import REVERT_POINTS, Cell, cells, rotating_cells
from tests.crash.processes import run_unstarved
from tests.crash.reverts import MARK, UNDONE
from tests.crash.test_write_crashes import crash_in
from tests.crash.tiers import covering, traits_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("cell", covering(rotating_cells(REVERT_POINTS), traits_of), ids=str)
def test_a_revert_that_is_cut_off_is_all_or_nothing(
    cell: Cell, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    crash(cell, tmp_path, tmp_path_factory.getbasetemp())


@pytest.mark.slow
@pytest.mark.parametrize("cell", cells(REVERT_POINTS), ids=str)
def test_every_crash_of_a_revert_leaves_all_or_nothing(
    cell: Cell, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    crash(cell, tmp_path, tmp_path_factory.getbasetemp())


def crash(cell: Cell, folder: Path, shared: Path) -> None:
    run_unstarved(
        lambda number: crash_in(
            cell,
            arrange(shared, folder / f"graph-{number}", cell.place, last=UNDONE, actor=MARK),
        )
    )
