"""A schema change that dies or stands still has happened or has not, rows and catalog together."""

from __future__ import annotations

import shutil
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from tests.crash.actors import Actor
from tests.crash.checks import open_graph, require_settled, settings
from tests.crash.cut_off import Work, done_again
from tests.crash.faults import FailingStore, Moment
from tests.crash.model import EVOLVED, SCHEMA
from tests.crash.places import arrange
from tests.crash.points import seed
from tests.crash.processes import Trap, child, run_unstarved
from tests.crash.scripts import NEXT
from tests.crash.writes import commit
from tests.extended import thinned

from omnigraph import Graph
from omnigraph.errors import OmnigraphError, RecoveryRequired

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.crash

State = dict[str, list[dict[str, Any]]]

POINTS = (
    ("schema_apply.post_capture", 1),
    ("schema_apply.post_stage_pre_lease", 1),
    ("schema_apply.post_lease_pre_sidecar", 1),
    ("schema_apply.post_phase_a", 1),
    ("schema_apply.pre_table_commit", 1),
    ("schema_apply.post_table_commit", 1),
    ("schema_apply.between_links", 1),
    ("schema_apply.between_links", 2),
    ("schema_apply.pre_table_commit", 4),
    ("schema_apply.post_table_commit", 4),
    ("schema_apply.post_phase_b_pre_manifest_commit", 1),
    ("publish.post_read_pre_commit", 1),
    ("publish.ack_lost", 1),
    ("schema_apply.post_phase_c_pre_phase_d", 1),
    ("schema_apply.post_phase_d_pre_release", 1),
)
DAILY = {
    ("schema_apply.between_links", "stop"),
    ("schema_apply.post_phase_b_pre_manifest_commit", "kill"),
    ("publish.ack_lost", "kill"),
}
"""Amid its effects, behind them, and behind the publish: the points of the default suite."""


def cells() -> list[object]:
    return [
        pytest.param(
            Trap(point=point, action=action, hit=hit),
            id=f"{point}-{hit}-{action}",
            marks=()
            if (point, action) in DAILY and hit == 1
            else pytest.mark.extended
            if action == "kill"
            else pytest.mark.slow,
        )
        for point, hit in POINTS
        for action in ("kill", "stop")
    ]


def state_of(root: Path) -> State:
    """Every row of every type, as a fresh reader sees both."""
    with Graph.open(root, mode="read_only", settings=settings()) as graph:
        snapshot = graph.snapshot()
        names = [*snapshot.catalog.node_types, *snapshot.catalog.edge_types]
        return {name: _rows(snapshot.scan(name).read_all().to_pylist()) for name in names}


def _rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: str(row["id"]))


def evolved(before: State) -> State:
    """What the change makes of the rows."""
    people = [
        {"years" if name == "age" else name: value for name, value in row.items()}
        | {"level": 7, "bio": None}
        for row in before["Person"]
    ]
    memos = [
        {name: value for name, value in row.items() if name != "stars"} | {"tags": None}
        for row in before["Note"]
    ]
    return {
        "Person": people,
        "Memo": memos,
        "Place": [],
        "Knows": before["Knows"],
        "In": [],
    }


@pytest.mark.parametrize("trap", cells())
def test_a_schema_change_that_is_cut_off_is_all_or_nothing(
    trap: Trap, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shared = tmp_path_factory.getbasetemp()
    run_unstarved(
        lambda number: change(arrange(shared, tmp_path / f"graph-{number}", "main").root, trap)
    )


def change(root: Path, trap: Trap) -> None:
    before = state_of(root)
    after = evolved(before)

    def again(graph: Graph) -> None:
        graph.schema.apply(EVOLVED)
        assert not graph.schema.apply(EVOLVED).applied

    work = Work(
        script="schema",
        shown=lambda: state_of(root),
        before=before,
        after=after,
        again=again,
    )
    with done_again(root, "main", trap, work) as graph:
        applied = [each for each in graph.commits if each.kind == "schema_apply"]
        assert len(applied) == 1
        graph.mutate('query q() { insert Person { name: "zed", bio: "at rest" } }')
        graph.mutate('query q() { insert Place { name: "rome" } }')
        graph.mutate('query q() { insert Memo { title: "later" } }')
        now = state_of(root)
        assert (len(now["Person"]), len(now["Place"])) == (len(after["Person"]) + 1, 1)


def test_a_crash_without_another_try_leaves_a_graph_that_goes_on(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Before the last table has moved nothing of it may stay, and the old schema takes rows."""
    root = arrange(tmp_path_factory.getbasetemp(), tmp_path / "graph", "main").root
    before = state_of(root)
    trap = Trap(point="schema_apply.post_table_commit", action="kill", hit=2)
    with child(root, "main", "schema", trap) as running:
        assert running.end().was_killed
    assert state_of(root) == before
    with open_graph(root) as graph:
        assert graph.schema.source == SCHEMA
        commit(graph, NEXT)
        require_settled(graph, root)
        assert graph.schema.apply(EVOLVED).applied


def test_two_processes_that_apply_at_once_make_one_commit(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = arrange(tmp_path_factory.getbasetemp(), tmp_path / "graph", "main").root
    after = evolved(state_of(root))
    with child(root, "main", "schema", None) as one, child(root, "main", "schema", None) as two:
        told = [one.end().result, two.end().result]
    made = [each["commit"] for each in told if each.get("commit") is not None]
    assert state_of(root) == after
    with open_graph(root) as graph:
        applied = [each.graph_commit_id for each in graph.commits if each.kind == "schema_apply"]
        assert made == applied, "one made it, the other found it there"
        require_settled(graph, root)


STEP = 3
"""Every third call, of each moment others."""

WIDE_STEP = 40
"""The short run fails a few of them, others every day."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("step", thinned([WIDE_STEP, STEP]))
@pytest.mark.parametrize("moment", [Moment.BEFORE, Moment.AFTER, Moment.OUTAGE])
def test_a_schema_change_survives_a_fault_at_any_call(
    moment: Moment, step: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    first = 1 + list(Moment).index(moment) % STEP
    calls = count(first + seed() * STEP % step, step)
    fail_at_calls(calls, moment, tmp_path, tmp_path_factory.getbasetemp())


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("moment", [Moment.BEFORE, Moment.AFTER, Moment.OUTAGE])
def test_a_schema_change_survives_a_fault_at_every_call(
    moment: Moment, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    fail_at_calls(count(1), moment, tmp_path, tmp_path_factory.getbasetemp())


def fail_at_calls(calls: Iterator[int], moment: Moment, folder: Path, shared: Path) -> None:
    """Each call fails in a graph of its own, until there are no more calls."""
    for number in calls:
        store = FailingStore()
        root = arrange(shared, folder / f"graph-{number}", "main").root
        before = state_of(root)
        after = evolved(before)
        with Actor(root, "faulty", observer=store).graph as graph:
            store.arm(number, moment)
            error = attempt(graph)
            store.disarm()
            label = f"call {number}, {store.hit}"
            shown = state_of(root)
            assert shown in (before, after), label
            if error is None:
                assert shown == after, label
            elif not isinstance(error, RecoveryRequired):
                assert shown == before, (label, error)
            graph.schema.apply(EVOLVED)
            assert state_of(root) == after, label
            graph.mutate('query q() { insert Place { name: "rome" } }')
            require_settled(graph, root)
            applied = [each for each in graph.commits if each.kind == "schema_apply"]
            assert len(applied) == 1, label
        shutil.rmtree(root)
        if store.hit is None:
            return


def attempt(graph: Graph) -> OmnigraphError | None:
    try:
        graph.schema.apply(EVOLVED)
    except OmnigraphError as error:
        return error
    return None
