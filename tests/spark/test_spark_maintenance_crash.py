"""The driver of an index build or a compaction on Spark dies: all of it or nothing is there.

The drivers are children that share the Java of the run; where one dies is where a writer of this
process would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.crash.checks import commits_by, open_graph, read_only_content
from tests.crash.places import arrange
from tests.crash.points import INDEX_POINTS, OPTIMIZE_POINTS, Cell, cells, seed
from tests.crash.processes import run_child, run_unstarved
from tests.crash.scripts import NEXT
from tests.crash.test_index_crashes import are_indexed, require_true_indexes, require_usable
from tests.crash.writes import WRITES, commit
from tests.extended import thinned

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.crash


def kills() -> list[Cell]:
    """Every kill that needs no lease to run out, in an order of its own every day."""
    found = [
        cell
        for cell in cells((*INDEX_POINTS, *OPTIMIZE_POINTS))
        if cell.trap.action == "kill" and not cell.trap.is_short
    ]
    turn = seed() * 17 % len(found)
    return [*found[turn:], *found[:turn]]


def on_spark(java: dict[str, str]) -> dict[str, str]:
    return {**java, "OMNIGRAPH_ENGINE": "spark"}


@pytest.mark.parametrize("cell", thinned(kills()[:6]), ids=str)
def test_a_driver_killed_at_a_point_leaves_all_or_nothing(
    cell: Cell, java: dict[str, str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kill(cell, java, tmp_path, tmp_path_factory.getbasetemp())


@pytest.mark.slow
@pytest.mark.parametrize("cell", kills(), ids=str)
def test_a_driver_killed_at_every_point_leaves_all_or_nothing(
    cell: Cell, java: dict[str, str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kill(cell, java, tmp_path, tmp_path_factory.getbasetemp())


def kill(cell: Cell, java: dict[str, str], folder: Path, shared: Path) -> None:
    run_unstarved(lambda number: _kill(cell, java, folder / f"graph-{number}", shared))


def _kill(cell: Cell, java: dict[str, str], root: Path, shared: Path) -> None:
    arranged = arrange(shared, root, cell.place)
    branch = arranged.branch
    ended = run_child(root, branch, cell.script, cell.trap, on_spark(java))
    ended.require_killed(cell.trap)
    assert read_only_content(root, branch) == arranged.content
    was_there = are_indexed(root, branch)
    with open_graph(root) as graph:
        commit(graph, NEXT, branch)
        assert not was_there or commits_by(graph, branch, "child")
        require_usable(graph, arranged, WRITES[cell.script])
        assert len(commits_by(graph, branch, "child")) <= 1


@pytest.mark.extended
@pytest.mark.parametrize("script", ["index", "optimize"])
def test_a_job_without_a_crash_is_acknowledged_and_there(
    script: str,
    java: dict[str, str],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    arranged = arrange(tmp_path_factory.getbasetemp(), tmp_path / "graph", "named")
    ended = run_child(arranged.root, arranged.branch, script, None, on_spark(java))
    assert ended.commit is not None, ended
    assert are_indexed(arranged.root, arranged.branch)
    with open_graph(arranged.root) as graph:
        require_true_indexes(graph, arranged.branch)
