"""A recovery that dies or stands still at any point is finished by the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.crash.checks import (
    commits_by,
    open_graph,
    read_only_content,
    require_convergence,
    require_honest,
    require_replayed,
)
from tests.crash.places import Arranged, arrange
from tests.crash.points import SecondCell, chosen_second_cells, second_cells, seed
from tests.crash.processes import child, run_child, run_unstarved
from tests.crash.scripts import NEXT, RIVAL
from tests.crash.tiers import covering, traits_of_second
from tests.crash.writes import WRITES, commit, play

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph import Graph

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("cell", covering(chosen_second_cells(), traits_of_second), ids=str)
def test_a_crash_in_a_recovery_converges(
    cell: SecondCell, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    crash_twice(cell, tmp_path, tmp_path_factory.getbasetemp())


@pytest.mark.slow
@pytest.mark.parametrize("cell", second_cells(), ids=str)
def test_every_crash_in_every_recovery_converges(
    cell: SecondCell, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    crash_twice(cell, tmp_path, tmp_path_factory.getbasetemp())


def crash_twice(cell: SecondCell, folder: Path, shared: Path) -> None:
    run_unstarved(lambda number: _crash_twice(cell, folder / f"graph-{number}", shared))


def _crash_twice(cell: SecondCell, root: Path, shared: Path) -> None:
    arranged = arrange(shared, root, cell.first.place)
    turn = seed() + len(str(cell))
    bystander = open_graph(arranged.root) if turn % 2 else None
    # The second child either only opens the graph, or means to write to the same tables.
    script = ("none", "rival")[turn // 2 % 2]
    try:
        first = run_child(arranged.root, arranged.branch, cell.first.script, cell.first.trap)
        assert first.was_killed, f"{cell.first.trap.point} was not passed: {first}"
        if cell.trap.action == "kill":
            killed(cell, arranged, bystander, script)
        else:
            stopped(cell, arranged, bystander, script)
    finally:
        if bystander is not None:
            bystander.close()


def killed(cell: SecondCell, arranged: Arranged, bystander: Graph | None, script: str) -> None:
    old, new = arranged.content, play(arranged.content, WRITES[cell.first.script])
    with child(arranged.root, arranged.branch, script, cell.trap, actor="second") as running:
        ended = running.end()
    assert ended.was_killed, f"{cell.trap.point} was not passed: {ended}"
    shown = read_only_content(arranged.root, arranged.branch)
    assert shown in (old, new)
    with bystander or open_graph(arranged.root) as graph:
        require_convergence(
            graph,
            arranged.root,
            arranged.branch,
            WRITES[cell.first.script],
            [new] if shown == new else [old, new],
        )
        assert len(commits_by(graph, arranged.branch, "child")) <= 1


def stopped(cell: SecondCell, arranged: Arranged, bystander: Graph | None, script: str) -> None:
    old, branch, interrupted = arranged.content, arranged.branch, WRITES[cell.first.script]
    writes = {"child": interrupted, "second": RIVAL, "parent": NEXT}
    with child(arranged.root, branch, script, cell.trap, actor="second") as running:
        running.wait_at_trap()
        assert read_only_content(arranged.root, branch) in (old, play(old, interrupted))
        with bystander or open_graph(arranged.root) as graph:
            commit(graph, NEXT, branch)
            require_replayed(graph, arranged, writes)
            ended = running.proceed()
            assert ended.returncode == 0, ended.stderr
            require_honest(graph, branch, "second", ended.commit, ended.result.get("error"))
            now = require_replayed(graph, arranged, writes)
            require_convergence(graph, arranged.root, branch, interrupted, [now], is_strict=False)
