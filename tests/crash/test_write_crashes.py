"""A writer that dies or stands still at any point leaves all or nothing, and disturbs nobody."""

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
from tests.crash.cut_off import crash_cell
from tests.crash.places import Arranged, arrange
from tests.crash.points import (
    EMBED_POINTS,
    ENGINE_POINTS,
    WRITE_POINTS,
    Cell,
    cells,
    chosen_cells,
    rotating_cells,
)
from tests.crash.processes import child, run_child, run_unstarved
from tests.crash.scripts import NEXT, RIVAL
from tests.crash.tiers import covering, traits_of
from tests.crash.writes import WRITES, commit, play
from tests.extended import thinned

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph import Graph

pytestmark = pytest.mark.crash


@pytest.mark.parametrize(
    "cell",
    covering(
        [*chosen_cells(WRITE_POINTS), *rotating_cells([*ENGINE_POINTS, *EMBED_POINTS])], traits_of
    ),
    ids=str,
)
def test_a_crash_at_any_point_leaves_all_or_nothing(
    cell: Cell, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    crash(cell, tmp_path, tmp_path_factory.getbasetemp())


@pytest.mark.slow
@pytest.mark.parametrize("cell", cells([*WRITE_POINTS, *ENGINE_POINTS, *EMBED_POINTS]), ids=str)
def test_every_crash_of_every_write_leaves_all_or_nothing(
    cell: Cell, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    crash(cell, tmp_path, tmp_path_factory.getbasetemp())


def crash(cell: Cell, folder: Path, shared: Path) -> None:
    run_unstarved(lambda number: _crash(cell, folder / f"graph-{number}", shared))


def _crash(cell: Cell, root: Path, shared: Path) -> None:
    crash_in(cell, arrange(shared, root, cell.place))


def crash_in(cell: Cell, arranged: Arranged) -> None:
    """The crash of a cell in a graph, and all that must hold afterwards."""
    crash_cell(cell, arranged, killed=killed, stopped=stopped)


def killed(cell: Cell, arranged: Arranged, bystander: Graph | None) -> None:
    old = arranged.content
    new = play(old, WRITES[cell.script])
    ended = run_child(arranged.root, arranged.branch, cell.script, cell.trap)
    ended.require_killed(cell.trap)
    shown = read_only_content(arranged.root, arranged.branch)
    assert shown in (old, new)
    with bystander or open_graph(arranged.root) as graph:
        candidates = [new] if shown == new else [old, new]
        require_convergence(graph, arranged.root, arranged.branch, WRITES[cell.script], candidates)
        assert len(commits_by(graph, arranged.branch, "child")) <= 1


def stopped(cell: Cell, arranged: Arranged, bystander: Graph | None) -> None:
    old, branch, script = arranged.content, arranged.branch, WRITES[cell.script]
    takeover = RIVAL if cell.has_rival else NEXT
    with child(arranged.root, branch, cell.script, cell.trap) as running:
        running.wait_at_trap()
        assert read_only_content(arranged.root, branch) in (old, play(old, script))
        with bystander or open_graph(arranged.root) as graph:
            commit(graph, takeover, branch)
            require_replayed(graph, arranged, {"child": script, "parent": takeover})
            ended = running.proceed()
            assert ended.returncode == 0, ended.stderr
            require_honest(graph, branch, "child", ended.commit, ended.result.get("error"))
            now = require_replayed(graph, arranged, {"child": script, "parent": takeover})
            require_convergence(graph, arranged.root, branch, script, [now], is_strict=False)


@pytest.mark.parametrize("script", thinned(["load_merge", "embed", "replace", "gq_update"], keep=2))
def test_a_write_without_a_crash_is_acknowledged_and_there(
    script: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    arranged = arrange(tmp_path_factory.getbasetemp(), tmp_path / "graph", "named")
    ended = run_child(arranged.root, arranged.branch, script, None)
    new = play(arranged.content, WRITES[script])
    assert ended.commit is not None
    assert read_only_content(arranged.root, arranged.branch) == new
