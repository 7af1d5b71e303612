"""An index build or `optimize` that dies or stands still does all or nothing; no row changes."""

from __future__ import annotations

import threading
from itertools import count
from typing import TYPE_CHECKING

import pytest
from tests.crash.actors import Actor
from tests.crash.checks import (
    commits_by,
    content_of,
    history,
    open_graph,
    read_only_content,
    require_convergence,
    require_honest,
    require_replayed,
    require_settled,
    settings,
)
from tests.crash.cut_off import crash_cell
from tests.crash.faults import Moment
from tests.crash.places import PLACES, Arranged, Place, arrange
from tests.crash.points import (
    INDEX_POINTS,
    OPTIMIZE_POINTS,
    Cell,
    cells,
    chosen_cells,
    seed,
)
from tests.crash.processes import Starved, child, run_child, run_unstarved
from tests.crash.scripts import INDEX, NEXT, RIVAL, TOUCH
from tests.crash.tiers import covering, traits_of
from tests.crash.writes import WRITES, commit
from tests.extended import thinned

from omnigraph import Graph
from omnigraph.errors import OmnigraphError, RecoveryRequired

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.crash.writes import Write

    from omnigraph.storage.calls import StoreCall

pytestmark = pytest.mark.crash

WANTED = {
    "Person": {"ix_id", "ix_1_btree", "ix_1_inverted"},
    "Note": {"ix_id", "ix_4_btree", "ix_4_inverted"},
    "Knows": {"ix_id", "ix_src", "ix_dst"},
}


POINTS = (*INDEX_POINTS, *OPTIMIZE_POINTS)


@pytest.mark.parametrize("cell", covering(chosen_cells(POINTS), traits_of), ids=str)
def test_a_crash_at_any_point_leaves_all_indexes_or_none(
    cell: Cell, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    crash(cell, tmp_path, tmp_path_factory.getbasetemp())


@pytest.mark.slow
@pytest.mark.parametrize("cell", cells(POINTS), ids=str)
def test_every_crash_leaves_all_indexes_or_none(
    cell: Cell, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    crash(cell, tmp_path, tmp_path_factory.getbasetemp())


def crash(cell: Cell, folder: Path, shared: Path) -> None:
    run_unstarved(lambda number: _crash(cell, folder / f"graph-{number}", shared))


def _crash(cell: Cell, root: Path, shared: Path) -> None:
    arranged = arrange(shared, root, cell.place)
    crash_cell(cell, arranged, killed=killed, stopped=stopped)


def killed(cell: Cell, arranged: Arranged, bystander: Graph | None) -> None:
    root, branch, content = arranged.root, arranged.branch, arranged.content
    ended = run_child(root, branch, cell.script, cell.trap)
    ended.require_killed(cell.trap)
    assert read_only_content(root, branch) == content
    was_there = are_indexed(root, branch)
    with bystander or open_graph(root) as graph:
        commit(graph, NEXT, branch)
        # What was shown stays, and what was not may have lacked its publish only.
        assert not was_there or commits_by(graph, branch, "child")
        are_indexed(root, branch)
        require_usable(graph, arranged, WRITES[cell.script])
        assert len(commits_by(graph, branch, "child")) <= 1


def stopped(cell: Cell, arranged: Arranged, bystander: Graph | None) -> None:
    root, branch = arranged.root, arranged.branch
    takeover = RIVAL if cell.has_rival else NEXT
    writes = {"parent": takeover}
    with child(root, branch, cell.script, cell.trap) as running:
        running.wait_at_trap()
        assert read_only_content(root, branch) == arranged.content
        are_indexed(root, branch)
        with bystander or open_graph(root) as graph:
            commit(graph, takeover, branch)
            require_replayed(graph, arranged, writes)
            ended = running.proceed()
            assert ended.returncode == 0, ended.stderr
            require_honest(graph, branch, "child", ended.commit, ended.result.get("error"))
            if ended.result.get("error") == RecoveryRequired.__name__:
                raise Starved(f"it lost its short lease once more: {ended}")
            # What others wrote turns no builder away, only that they took its write back.
            assert ended.result.get("error") in (None, "Fenced"), ended.result
            require_replayed(graph, arranged, writes)
            require_usable(graph, arranged, WRITES[cell.script])


def require_usable(graph: Graph, arranged: Arranged, write: Write = INDEX) -> None:
    """The next writes work, and after one more build every index covers and finds what is there."""
    root, branch = arranged.root, arranged.branch
    now = content_of(graph, branch)
    require_convergence(graph, root, branch, write, [now], is_strict=False)
    commit(graph, write, branch)
    assert are_indexed(root, branch)
    require_true_indexes(graph, branch)
    require_settled(graph, root)
    assert commit(graph, write, branch) is None
    assert not list(root.rglob("d*.manifest")), "a version of no line was left"


def are_indexed(root: Path, branch: str) -> bool:
    """Whether the declared indexes are there, as a fresh reader sees it; all must be, or none."""
    with Graph.open(root, mode="read_only", settings=settings()) as graph:
        snapshot = graph.snapshot(branch=branch)
        found = {}
        for name, wanted in WANTED.items():
            handle = snapshot.handle(snapshot.type(name))
            trained = {
                each.name for each in graph._graph.tables.index_coverage(handle) if each.fragments
            }
            assert trained in (set(), wanted), f"{name}: {trained}"
            found[name] = bool(trained)
    assert len(set(found.values())) == 1, found
    return found["Person"]


def require_true_indexes(graph: Graph, branch: str) -> None:
    """Every index covers every row, and every person is found by name, once."""
    require_complete(graph, branch)
    snapshot, store = graph.snapshot(branch=branch), graph._graph.tables
    people = snapshot.handle(snapshot.type("Person"))
    for name in content_of(graph, branch)["Person"]:
        assert store.search_text(people, "name", name)["id"].to_pylist() == [name]


def require_complete(graph: Graph, branch: str) -> None:
    snapshot = graph.snapshot(branch=branch)
    for name, wanted in WANTED.items():
        handle = snapshot.handle(snapshot.type(name))
        found = graph._graph.tables.index_coverage(handle)
        assert {each.name for each in found if each.is_complete} == wanted, name


def test_a_build_without_a_crash_is_acknowledged_and_there(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    arranged = arrange(tmp_path_factory.getbasetemp(), tmp_path / "graph", "named")
    assert not are_indexed(arranged.root, arranged.branch)
    ended = run_child(arranged.root, arranged.branch, "index", None)
    assert ended.commit is not None
    assert are_indexed(arranged.root, arranged.branch)
    with open_graph(arranged.root) as graph:
        require_true_indexes(graph, arranged.branch)
        assert commits_by(graph, arranged.branch, "child") == [ended.commit]


class FailingOnce:
    """A `CallObserver` that fails the n-th call, whichever thread makes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left = 0
        self._moment = Moment.BEFORE
        self.hit: StoreCall | None = None

    def arm(self, number: int, moment: Moment) -> None:
        self._left, self._moment, self.hit = number, moment, None

    def before(self, call: StoreCall) -> None:
        if self._moment is Moment.BEFORE:
            self._pass(call)

    def after(self, call: StoreCall) -> None:
        if self._moment is Moment.AFTER:
            self._pass(call)

    def _pass(self, call: StoreCall) -> None:
        with self._lock:
            self._left -= 1
            is_hit = self._left == 0
        if is_hit:
            self.hit = call
            raise OSError(f"injected: {call.operation} of {call.target}")


STEP = 2
"""Continuous integration fails the odd calls before their effect, and the even ones after it."""

WIDE_STEP = 12
"""The short run fails some of them, others every day."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("step", thinned([WIDE_STEP, STEP]))
@pytest.mark.parametrize("moment", [Moment.BEFORE, Moment.AFTER])
def test_a_build_survives_a_fault_at_any_call(
    moment: Moment, step: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = PLACES[(seed() + len(moment)) % len(PLACES)]
    calls = count(1 + (moment is Moment.AFTER) + seed() * STEP % step, step)
    fail_at_calls(calls, moment, place, tmp_path, tmp_path_factory.getbasetemp())


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("moment", [Moment.BEFORE, Moment.AFTER])
def test_every_build_survives_a_fault_at_every_call(
    moment: Moment, place: Place, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    fail_at_calls(count(1), moment, place, tmp_path, tmp_path_factory.getbasetemp())


def fail_at_calls(
    calls: Iterator[int], moment: Moment, place: Place, folder: Path, shared: Path
) -> None:
    """One open graph lives through all of it; each time every table has something to build."""
    arranged = arrange(shared, folder / "graph", place)
    root, branch, store = arranged.root, arranged.branch, FailingOnce()
    with Actor(root, "faulty", observer=store).graph as graph:
        for number in calls:
            content, before = content_of(graph, branch), index_commits(graph, branch)
            store.arm(number, moment)
            outcome = attempt(graph, branch)
            has_hit, label = store.hit is not None, f"call {number}, {store.hit}"
            store.arm(0, moment)
            landed = len(index_commits(graph, branch)) - len(before)
            if isinstance(outcome, OmnigraphError):
                assert landed == 0 or isinstance(outcome, RecoveryRequired), (label, outcome)
            else:
                assert landed == 1, label
                require_complete(graph, branch)
            assert content_of(graph, branch) == content, label
            if not has_hit:
                break
            commit(graph, TOUCH, branch)
            require_settled(graph, root)
        require_usable(graph, arranged)


def attempt(graph: Graph, branch: str) -> object:
    try:
        return commit(graph, INDEX, branch)
    except OmnigraphError as error:
        return error


def index_commits(graph: Graph, branch: str) -> list[str]:
    return [each.graph_commit_id for each in history(graph, branch) if each.kind == "index"]
