"""`repair`: what moved a table from outside is told, undone or adopted; nothing else is touched."""

import lance
import pytest
from tests.unit.graph.graphs import (
    Killed,
    Opened,
    committed,
    killed_at,
    listing,
    names,
    require_settled,
    rows,
    state,
    upsert,
)

from omnigraph import Graph
from omnigraph.errors import (
    DriftNeedsRepair,
    InvalidArgument,
    ReadOnlyGraph,
    RecoveryBlocked,
)
from omnigraph.graph.maintenance.repair import RepairReport
from omnigraph.storage.handles import WriteStamp, lance_branch


def filled(graphs: Opened) -> Graph:
    graph = graphs.init(AUTO_MAINTENANCE="0")
    for name in ("a", "b"):
        upsert(graph, name)
    with graph.write() as writer:
        writer.append("Knows", rows({"src": "a", "dst": "b"}))
        committed(writer.commit())
    return graph


def outside(graph: Graph, name: str = "Person", branch: str = "main") -> lance.LanceDataset:
    """The newest version of a table, as a program has it that knows nothing of the graph."""
    snapshot = graph.snapshot(branch=branch)
    handle = snapshot.handle(snapshot.type(name))
    own = lance_branch(graph._graph.branch_id(branch))
    return handle.dataset.checkout_version((own, None))


def only(report: RepairReport) -> tuple[str, str | None]:
    (table,) = report.tables
    return table.drift_class, table.action


def test_a_graph_that_is_whole_needs_nothing(graphs: Opened) -> None:
    graph = filled(graphs)
    before = listing(graphs.root)
    report = graph.maintenance.repair()
    assert (report.tables, report.blocked, report.is_clean) == ((), (), True)
    assert listing(graphs.root) == before
    assert graphs.read_only().maintenance.repair().is_clean


@pytest.mark.parametrize("branch", ["main", "rev"])
def test_rows_from_outside_need_a_decision_and_go_when_they_are_discarded(
    graphs: Opened, branch: str
) -> None:
    graph = filled(graphs)
    graph.branches.create("rev")
    upsert(graph, "own", branch="rev")
    before = state(graph.snapshot(branch=branch))
    outside(graph, branch=branch).delete("name = 'a'")
    with pytest.raises(DriftNeedsRepair, match="omnigraph repair"):
        upsert(graph, "c", branch=branch)
    shown = graph.maintenance.repair()
    assert (only(shown), shown.is_clean) == (("foreign", None), False)
    left = graph.maintenance.repair(confirm=True)
    assert (only(left), left.is_clean) == (("foreign", None), False)
    assert "--discard" in str(left.tables[0].error)
    done = graph.maintenance.repair(confirm=True, force="discard")
    assert (only(done), done.is_clean) == (("foreign", "discarded"), True)
    assert done.to_dict()["tables"][0]["class"] == "foreign"
    assert state(graph.snapshot(branch=branch)) == before
    upsert(graph, "c", branch=branch)
    assert graph.maintenance.repair().is_clean
    require_settled(graph)


def test_progress_is_told_branch_by_branch(graphs: Opened) -> None:
    graph = filled(graphs)
    graph.branches.create("rev")
    told: list[tuple[str, int, int]] = []
    graph.maintenance.repair(
        confirm=True, progress=lambda now: told.append((now.stage, now.done, now.total))
    )
    assert told == [("branches", 0, 2), ("branches", 1, 2)]


def test_a_value_that_no_write_would_have_taken_is_not_adopted(graphs: Opened) -> None:
    graph = graphs.init("node Point { name: String @key  at: F64? }", AUTO_MAINTENANCE="0")
    with graph.write() as writer:
        writer.append("Point", rows({"name": "a", "at": 1.0}))
        committed(writer.commit())
    outside(graph, "Point").update({"at": "cast('nan' as double)"})
    (table,) = graph.maintenance.repair(confirm=True, force="adopt").tables
    assert (table.action, "is not adopted" in str(table.error)) == (None, True)
    assert graph.snapshot().scan("Point").read_all()["at"].to_pylist() == [1.0]


def test_rows_from_outside_are_adopted_when_they_break_no_rule(graphs: Opened) -> None:
    graph = filled(graphs)
    outside(graph).update({"age": "7"}, where="name = 'a'")
    report = graph.maintenance.repair(confirm=True, force="adopt")
    assert only(report) == ("foreign", "adopted")
    assert state(graph.snapshot())["Person"]["a"]["age"] == 7
    assert next(iter(graph.commits)).kind == "repair"
    upsert(graph, "c")
    require_settled(graph)


@pytest.mark.parametrize("damage", ["orphan", "twice", "unique", "end"])
def test_rows_from_outside_that_break_a_rule_are_not_adopted(graphs: Opened, damage: str) -> None:
    graph = filled(graphs)
    match damage:
        case "orphan":
            outside(graph).delete("name = 'a'")
        case "twice":
            dataset = outside(graph)
            lance.write_dataset(dataset.to_table(limit=1), dataset.uri, mode="append")
        case "unique":
            outside(graph).update({"email": "'same'"})
        case _:
            outside(graph, "Knows").update({"dst": "'nobody'"})
    before = state(graph.snapshot())
    report = graph.maintenance.repair(confirm=True, force="adopt")
    (table,) = report.tables
    assert (table.action, report.is_clean) == (None, False)
    assert "is not adopted" in str(table.error)
    assert state(graph.snapshot()) == before
    assert graph.maintenance.repair(confirm=True, force="discard").is_clean


def test_maintenance_from_outside_is_published(graphs: Opened) -> None:
    graph = filled(graphs)
    before = state(graph.snapshot())
    outside(graph).optimize.compact_files()
    assert only(graph.maintenance.repair()) == ("maintenance", None)
    assert only(graph.maintenance.repair(confirm=True)) == ("maintenance", "published")
    assert state(graph.snapshot()) == before
    upsert(graph, "c")
    require_settled(graph)


def test_what_a_settled_operation_left_is_rolled_back(graphs: Opened) -> None:
    graph = filled(graphs)
    coordinator = graph._graph
    snapshot = graph.snapshot()
    handle = snapshot.handle(snapshot.type("Person"))
    made = next(iter(graph.commits))
    stamp = WriteStamp(operation_id=made.operation_id, kind="recovery")  # type: ignore[arg-type]
    coordinator.tables.restore(handle.layout, None, handle.pin.version, stamp)
    assert only(graph.maintenance.repair()) == ("residue", None)
    assert only(graph.maintenance.repair(confirm=True)) == ("residue", "rolled_back")
    assert graph.maintenance.repair().is_clean
    require_settled(graph)


def test_a_write_that_recovery_may_not_settle_ends_when_it_is_discarded(graphs: Opened) -> None:
    graph = filled(graphs)
    with killed_at("mutation.post_phase_a"), pytest.raises(Killed):
        upsert(graph, "cut off")
    outside(graph).delete("name = 'b'")
    fresh = graphs.open()
    with pytest.raises(RecoveryBlocked, match="omnigraph repair"):
        upsert(fresh, "c")
    (shown,) = fresh.maintenance.repair().blocked
    assert shown.action is None
    for force in (None, "adopt"):
        left = fresh.maintenance.repair(confirm=True, force=force)
        assert not left.is_clean
    done = fresh.maintenance.repair(confirm=True, force="discard")
    assert ([each.action for each in done.blocked], done.is_clean) == (["discarded"], True)
    assert names(fresh) == ["a", "b"]
    upsert(fresh, "c")
    require_settled(fresh)


def test_versions_that_are_gone_cannot_be_repaired(graphs: Opened) -> None:
    graph = filled(graphs)
    snapshot = graph.snapshot()
    pin = snapshot.pin(snapshot.type("Person"))
    name = f"{2**64 - 1 - pin.version:020d}.manifest"
    (graphs.root / pin.location / "_versions" / name).unlink()
    report = graphs.open().maintenance.repair(confirm=True, force="discard")
    assert only(report) == ("lost", None)
    assert "copy" in str(report.tables[0].error)


def test_wrong_words_are_refused(graphs: Opened) -> None:
    graph = filled(graphs)
    with pytest.raises(InvalidArgument, match="confirm"):
        graph.maintenance.repair(force="discard")
    with pytest.raises(InvalidArgument, match="'adopt' or 'discard'"):
        graph.maintenance.repair(confirm=True, force="all")  # type: ignore[arg-type]
    with pytest.raises(ReadOnlyGraph):
        graphs.read_only().maintenance.repair(confirm=True)
