"""Steps between storage formats, shown with one made for the test."""

import threading

import pytest
from tests.unit.graph.graphs import Killed, Opened, Watcher, merge_raw, names, set_version, upsert

from omnigraph import Graph
from omnigraph.errors import OmnigraphError, StorageVersionTooOld
from omnigraph.graph.manifest.migrations import Migration, migrate_on_open, oldest_migratable
from omnigraph.graph.manifest.stamp import VERSION_KEY
from omnigraph.ids import MAIN_BRANCH_ID, BranchId
from omnigraph.storage.calls import StoreCall
from omnigraph.storage.graph_storage import GraphStorage

_MARK = "migrated"


def _mark(storage: GraphStorage) -> None:
    merge_raw(storage, {"object_id": _MARK, "object_type": "note", "metadata": "{}"})


STEP = Migration(from_version=0, run=_mark)


def _old_graph(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    rev = graph.branches.create("rev")
    upsert(graph, "b", branch="rev")
    graph.close()
    storage = graphs.storage()
    set_version(storage, "0")
    set_version(storage, "0", BranchId(rev.branch_id))


def _require_migrated(graphs: Opened, graph: Graph) -> None:
    manifest = graphs.storage().manifest
    for branch_id in graph._graph.lines.live_branch_ids():
        assert manifest.stamp(manifest.open_line(branch_id))[VERSION_KEY] == "1", branch_id
    main = manifest.rows(manifest.open_line(MAIN_BRANCH_ID))
    assert main["object_id"].to_pylist().count(_MARK) == 1
    upsert(graph, "c")
    upsert(graph, "d", branch="rev")
    later = graphs.open()
    assert names(later) == ["a", "c"]
    assert names(later, "rev") == ["a", "b", "d"]
    assert len(later.commits.list(branch="rev")) == 4


def test_an_older_graph_is_migrated_when_it_is_opened_to_be_written(graphs: Opened) -> None:
    _old_graph(graphs)
    _require_migrated(graphs, graphs.coordinated(migrations=(STEP,)))


def test_a_graph_that_is_up_to_date_is_not_touched(graphs: Opened) -> None:
    graphs.init()
    step = Migration(from_version=0, run=lambda _: pytest.fail("nothing to migrate"))
    graphs.coordinated(migrations=(step,))


def test_a_chain_with_a_gap_leads_nowhere(graphs: Opened) -> None:
    steps = tuple(Migration(from_version=each, run=_mark) for each in (-3, -1, 0))
    assert oldest_migratable(steps, 1) == -1
    assert oldest_migratable((), 1) == 1
    graphs.init()
    set_version(graphs.storage(), "-2")
    with pytest.raises(StorageVersionTooOld):
        graphs.coordinated(migrations=steps)


def test_steps_run_in_order_each_once(graphs: Opened) -> None:
    graphs.init()
    storage = graphs.storage()
    set_version(storage, "-2")
    ran: list[int] = []

    def step(number: int) -> Migration:
        return Migration(from_version=number, run=lambda _: ran.append(number))

    migrate_on_open(storage, (step(0), step(-2), step(-1)))
    assert ran == [-2, -1, 0]


def _calls_of_a_migration(graphs: Opened) -> list[StoreCall]:
    watcher = Watcher()
    storage = graphs.storage(observer=watcher)
    migrate_on_open(storage, (STEP,))
    return watcher.calls


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_migration_killed_at_any_call_is_finished_by_the_next_open(
    graphs: Opened, moment: str
) -> None:
    _old_graph(graphs)
    watcher = Watcher()
    seen = [0]
    stop_at = [0]

    def count(call: StoreCall) -> None:
        seen[0] += 1
        if seen[0] == stop_at[0]:
            raise Killed(call.operation)

    setattr(watcher, f"{moment}_each", count)
    storage = graphs.storage(observer=watcher)
    killed = 0
    for number in range(1, 100):
        seen[0], stop_at[0] = 0, number
        try:
            migrate_on_open(storage, (STEP,))
        except Killed:
            killed += 1
            continue
        break
    assert killed >= 5
    _require_migrated(graphs, graphs.coordinated(migrations=(STEP,)))


def test_a_step_that_fails_leaves_the_graph_as_old_as_it_was(graphs: Opened) -> None:
    _old_graph(graphs)

    def broken(_: GraphStorage) -> None:
        raise OmnigraphError("no")

    with pytest.raises(OmnigraphError, match="no"):
        graphs.coordinated(migrations=(Migration(from_version=0, run=broken),))
    with pytest.raises(StorageVersionTooOld):
        graphs.open()
    _require_migrated(graphs, graphs.coordinated(migrations=(STEP,)))


def test_two_opens_at_once_migrate_once_more_or_less_and_both_work(graphs: Opened) -> None:
    _old_graph(graphs)
    opened: list[Graph] = []
    threads = [
        threading.Thread(target=lambda: opened.append(graphs.coordinated(migrations=(STEP,))))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 2
    _require_migrated(graphs, opened[0])
    assert names(opened[1]) == ["a", "c"]


def test_a_second_runner_inside_a_step_does_no_harm(graphs: Opened) -> None:
    _old_graph(graphs)
    storage = graphs.storage()

    def overtaken(own: GraphStorage) -> None:
        _mark(own)
        migrate_on_open(storage, (STEP,))

    migrate_on_open(graphs.storage(), (Migration(from_version=0, run=overtaken),))
    _require_migrated(graphs, graphs.open())
