"""Maintenance happens by itself: what is due is done, and nobody who reads or writes notices it."""

import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pyarrow as pa
import pytest
from tests.unit.graph.graphs import Opened, names, people, state, upsert

from omnigraph import Graph
from omnigraph.clock import SystemClock
from omnigraph.errors import InvalidArgument, SnapshotReclaimed
from omnigraph.graph.lifecycle import tail_folding
from omnigraph.graph.maintenance import due, reconciler
from omnigraph.graph.maintenance.due import Need
from omnigraph.graph.maintenance.reconciler import MAINTENANCE_ACTOR, LagWatch
from omnigraph.graph.recovery.leases import MAINTENANCE_SCOPE
from omnigraph.ids import MAIN_BRANCH_ID


@pytest.fixture
def sensitive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few fragments and few rows are enough to make something due."""
    monkeypatch.setattr(due, "MOST_FRAGMENTS", 3)
    monkeypatch.setattr(due, "FEWEST_ROWS", 3)


def filled(graph: Graph, *, branch: str = "main", commits: int = 4) -> None:
    for number in range(commits):
        upsert(graph, f"{branch}{number}", branch=branch, age=number)


@pytest.mark.usefixtures("sensitive")
def test_what_is_due_is_done_on_every_branch_and_changes_no_row(graphs: Opened) -> None:
    graph = graphs.init()
    filled(graph)
    graph.branches.create("dev")
    filled(graph, branch="dev", commits=1)
    before = {branch: state(graph.snapshot(branch=branch)) for branch in ("main", "dev")}
    status = graph.maintenance.status()
    assert [(table.branch, table.table_key, table.needs) for table in status.tables] == [
        ("main", "node:Person", (Need.COMPACTION, Need.INDEXES)),
        ("dev", "node:Person", (Need.COMPACTION, Need.INDEXES)),
    ]
    done = graph.maintenance.run_due()
    assert [commit.actor_id for commit in done.commits] == [MAINTENANCE_ACTOR] * 2
    assert done.errors == ()
    assert {branch: state(graph.snapshot(branch=branch)) for branch in before} == before
    assert graph.maintenance.status().tables == ()
    assert graph.maintenance.run_due().commits == ()


@pytest.mark.usefixtures("sensitive")
def test_an_index_of_vectors_is_not_due_before_there_is_one(graphs: Opened) -> None:
    graph = graphs.init("node Doc { name: String @key  vec: Vector(2)? @index }")

    def add(*added: str, vec: list[float] | None = None) -> None:
        vectors = pa.array([vec] * len(added), pa.list_(pa.float32(), 2))
        with graph.write() as writer:
            writer.append("Doc", pa.table({"name": list(added), "vec": vectors}))
            writer.commit()

    add("a", "b", "c", "d")
    assert [commit.kind for commit in graph.maintenance.run_due().commits] == ["index"]
    assert graph.maintenance.status().tables == ()
    add("zero", vec=[0.0, 0.0])
    assert graph.maintenance.status().tables == ()
    add("e", vec=[1.0, 0.0])
    (table,) = graph.maintenance.status().tables
    assert (table.needs, table.uncovered_rows) == ((Need.INDEXES,), 6)
    graph.maintenance.run_due()
    assert graph.maintenance.status().tables == ()


@pytest.mark.usefixtures("sensitive")
def test_a_process_that_finds_another_at_it_does_nothing(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    filled(graph)
    with other._graph.leases.holding(MAINTENANCE_SCOPE):
        assert graph.maintenance.run_due().is_busy
    assert not graph.maintenance.run_due().is_busy


@pytest.mark.usefixtures("sensitive")
def test_rounds_in_the_background_end_with_the_graph(graphs: Opened) -> None:
    graph = graphs.init()
    filled(graph)
    graph.maintenance.start(every_s=3600)
    graph.maintenance.stop()
    assert graph.maintenance.status().tables == ()
    graph.maintenance.start(every_s=3600)
    graph.close()


@pytest.mark.parametrize("every_s", [0, math.nan, math.inf, 1e300, True, "x", None])
def test_a_pause_that_is_none_is_refused(every_s: float, graphs: Opened) -> None:
    with pytest.raises(InvalidArgument, match="every_s"):
        graphs.init().maintenance.start(every_s=every_s)


def test_nothing_is_begun_on_a_graph_that_is_closed(graphs: Opened) -> None:
    graph = graphs.init()
    graph.close()
    with pytest.raises(InvalidArgument, match="closed"):
        graph.maintenance.start(every_s=3600)


def test_rounds_go_on_after_a_failure_that_nobody_expected(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = threading.Semaphore(0)

    def fail(graph: object, **_: object) -> None:
        rounds.release()
        raise ValueError(graph)

    monkeypatch.setattr(reconciler, "run_due", fail)
    graph = graphs.init()
    graph.maintenance.start(every_s=0.01)
    assert rounds.acquire(timeout=60)
    assert rounds.acquire(timeout=60)
    graph.maintenance.stop()


def insert_one(graph: Graph, name: str) -> None:
    graph.mutate(f'query q() {{ insert Person {{ name: "{name}" }} }}')


def load_one(graph: Graph, name: str) -> None:
    line = f'{{"type": "Person", "data": {{"name": "{name}"}}}}\n'
    graph.load(line.encode(), mode="append")


@pytest.mark.usefixtures("sensitive")
@pytest.mark.parametrize("add", [insert_one, load_one])
def test_writes_that_leave_an_index_behind_have_it_brought_up_to_date(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch, add: Callable[[Graph, str], None]
) -> None:
    monkeypatch.setattr(tail_folding, "TIERS", ((64, 4),))
    graph = graphs.init()
    with graph.write() as writer:
        writer.append("Person", people(*(f"old{number}" for number in range(3))))
        writer.commit()
    graph.maintenance.ensure_indices()
    for number in range(8):
        add(graph, f"p{number}")
    graph.close()
    opened = graphs.open()
    kinds = [(commit.kind, commit.actor_id) for commit in opened.commits.list(all=True)]
    assert ("index", MAINTENANCE_ACTOR) in kinds
    assert len(names(opened)) == 11


class Later(SystemClock):
    """The time in eight days."""

    def now_us(self) -> int:
        """Microseconds since the epoch, as they will be then."""
        return super().now_us() + 8 * 86_400 * 1_000_000


def test_a_round_removes_versions_beyond_the_retention_that_no_tag_names(graphs: Opened) -> None:
    graph = graphs.init()
    filled(graph, commits=8)
    second, third = (graph.snapshot(number).graph_commit_id for number in (2, 3))
    graph.tags.create("kept", second)
    now = graphs.coordinated(MAINTENANCE_KEEP_VERSIONS="3")
    assert now.maintenance.run_due().versions_removed == 0
    later = graphs.coordinated(clock=Later(), MAINTENANCE_KEEP_VERSIONS="3")
    assert later.maintenance.run_due().versions_removed > 0
    assert len(state(later.snapshot("kept"))["Person"]) == 2
    with pytest.raises(SnapshotReclaimed):
        state(later.snapshot(third))
    assert len(names(later)) == 8


def test_a_round_keeps_what_the_newest_commits_of_each_branch_show(graphs: Opened) -> None:
    graph = graphs.init(AUTO_MAINTENANCE="0")
    filled(graph, commits=8)
    graph.branches.create("dev")
    filled(graph, branch="dev", commits=8)
    later = graphs.coordinated(clock=Later(), MAINTENANCE_KEEP_VERSIONS="5")
    assert later.maintenance.run_due().versions_removed > 0

    def readable(branch: str) -> list[int]:
        found = []
        for number in range(1, later.snapshot(branch=branch).seq + 1):
            with suppress(SnapshotReclaimed):
                found.append(len(state(later.snapshot(number, branch=branch))["Person"]))
        return found

    assert readable("main") == [4, 5, 6, 7, 8]
    # Where the branch began, which is the head of main, and its own newest.
    assert readable("dev") == [4, 5, 6, 7, 8, 12, 13, 14, 15, 16]


def test_a_round_keeps_the_table_of_a_dropped_type_while_a_newest_commit_shows_it(
    graphs: Opened,
) -> None:
    graph = graphs.init("node Person { name: String @key } node Old { name: String @key }")
    with graph.write() as writer:
        writer.append("Old", people("x"))
        writer.commit()
    with_old = graph.snapshot().graph_commit_id
    graph.schema.apply("node Person { name: String @key }")
    later = graphs.coordinated(clock=Later(), MAINTENANCE_KEEP_VERSIONS="2")
    later.maintenance.run_due()
    assert later.snapshot(with_old).scan("Old").read_all().num_rows == 1
    upsert(later, "one more")
    later.maintenance.run_due()
    with pytest.raises(SnapshotReclaimed):
        graphs.open().snapshot(with_old).scan("Old").read_all()


@pytest.mark.parametrize("is_asked", [True, False], ids=["asked", "background"])
def test_a_round_keeps_work_files_as_long_as_the_settings_say(
    graphs: Opened, *, is_asked: bool
) -> None:
    graphs.init().close()
    note = graphs.root / "__staging" / "01J00000000000000000000000" / "note.json"
    note.parent.mkdir(parents=True)
    note.write_bytes(b"{}")
    made = note.stat().st_mtime - 10 * 86_400
    os.utime(note, (made, made))

    def round_with(days: int) -> None:
        with closing(graphs.open(PIPELINE_STAGING_TTL_DAYS=str(days))) as graph:
            if is_asked:
                assert graph.maintenance.run_due().errors == ()
            else:
                graph.maintenance.start(every_s=3600)
                graph.maintenance.stop()

    round_with(30)
    assert note.exists()
    round_with(7)
    assert not note.exists()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[threading.Thread]]:
    """The threads in which lag is looked at; they stand still until the test is over."""
    seen: list[threading.Thread] = []
    proceed = threading.Event()

    def look(*_: object) -> None:
        seen.append(threading.current_thread())
        proceed.wait(60)

    monkeypatch.setattr(LagWatch, "_catch_up", look)
    yield seen
    proceed.set()
    for thread in seen:
        thread.join()


def test_writers_that_fold_at_once_begin_one_look(
    graphs: Opened, looks: list[threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = LagWatch(graphs.init()._graph)
    both = threading.Barrier(2)
    started = threading.Thread.start

    def start_together(thread: threading.Thread) -> None:
        if thread.name == "index-lag":
            # A second writer that gets here as well lets the first one go on at once.
            with suppress(threading.BrokenBarrierError):
                both.wait(0.5)
        started(thread)

    monkeypatch.setattr(threading.Thread, "start", start_together)
    writers = [threading.Thread(target=watch.after_fold, args=(MAIN_BRANCH_ID,)) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(looks) == 1


def test_a_watch_that_is_closed_begins_nothing(
    graphs: Opened, looks: list[threading.Thread]
) -> None:
    watch = LagWatch(graphs.init()._graph)
    watch.close()
    watch.after_fold(MAIN_BRANCH_ID)
    assert looks == []


def test_a_write_stands_when_no_thread_can_be_had(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_folding, "TIERS", ((64, 2),))
    graph = graphs.init()
    started = threading.Thread.start
    refused = []

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "index-lag":
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        started(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for number in range(3):
        graph.mutate(f'query q() {{ insert Person {{ name: "p{number}" }} }}')
    assert refused
    assert len(names(graph)) == 3
