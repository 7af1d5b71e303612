"""Drops that may lose data: what goes, what stays for whom, and what a reader of the past hears."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.graph.graphs import Opened, require_settled
from tests.unit.graph.schema_apply.evolving import BEFORE, CITY, IN, content, fill, person

from omnigraph.errors import SnapshotReclaimed
from omnigraph.graph.jobs.pins import pin_for_job
from omnigraph.graph.recovery.leases import MAINTENANCE_SCOPE

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph import Graph

NO_CITY = BEFORE.replace(IN, "").replace(CITY, "")


def _filled(graphs: Opened) -> Graph:
    graph = graphs.init(BEFORE)
    fill(graph)
    return graph


def _table(graph: Graph, name: str) -> Path:
    catalog = graph.schema.catalog
    item = catalog.node_types.get(name) or catalog.edge_types[name]
    folder = "nodes" if name in catalog.node_types else "edges"
    root = graph._graph.storage.location.path("")
    return root / folder / f"{item.type_id:016x}-{item.incarnation:016x}"


def test_a_dropped_property_cannot_be_brought_back(graphs: Opened) -> None:
    graph = _filled(graphs)
    old, others = graphs.open().snapshot(), content(graph)
    applied = graph.schema.apply(person(age=""), allow_data_loss=True)
    assert (applied.applied, applied.kept_data) == (True, ())
    assert [step.details["mode"] for step in applied.steps] == ["hard"]
    with pytest.raises(SnapshotReclaimed):
        graph.snapshot(old.graph_commit_id).scan("Person").read_all()
    assert old.count("City") == len(old.scan("City").read_all()) == 1, "other tables stay"
    assert [row["name"] for row in content(graph)["Person"]] == [
        row["name"] for row in others["Person"]
    ]
    graph.schema.apply(person())
    prop = graph.schema.catalog.node_types["Person"].properties["age"]
    assert prop.column == "age", "the name is free again"
    assert all("age" not in row for row in content(graph)["Person"])
    graph.mutate('query q() { insert Person { name: "cy", age: 3 } }')
    assert graphs.open().snapshot().count("Person") == 3
    require_settled(graph)


def test_the_table_of_a_dropped_type_is_removed(graphs: Opened) -> None:
    graph = _filled(graphs)
    old = graph.snapshot()
    gone = [_table(graph, "City"), _table(graph, "In")]
    assert graph.schema.apply(NO_CITY, allow_data_loss=True).kept_data == ()
    assert [path.exists() for path in gone] == [False, False]
    with pytest.raises(SnapshotReclaimed):
        graphs.open().snapshot(old.graph_commit_id).scan("City").read_all()
    assert len(old.scan("Person").read_all()) == 2
    require_settled(graph)


def test_without_leave_to_lose_data_nothing_is_removed(graphs: Opened) -> None:
    graph = _filled(graphs)
    old, before = graph.snapshot(), content(graph)
    graph.schema.apply(NO_CITY)
    assert content(graphs.open(), old.resolved_snapshot) == before


@pytest.mark.parametrize("wanted", [person(age=""), NO_CITY])
def test_what_a_tag_names_stays_and_is_told(graphs: Opened, wanted: str) -> None:
    graph = _filled(graphs)
    before = content(graph)
    graph.tags.create("kept")
    applied = graph.schema.apply(wanted, allow_data_loss=True)
    assert applied.applied
    assert {"node:Person", "node:City"} & {kept.table_key for kept in applied.kept_data}
    assert content(graphs.open(), graph.tags.get("kept").graph_commit_id) == before


def test_what_a_running_job_reads_stays_while_it_runs(graphs: Opened) -> None:
    graph = _filled(graphs)
    old = graph.snapshot()
    parts = graph._graph
    settings = graph._settings.storage
    with pin_for_job(
        parts.storage.objects, parts.clock, settings, operation_id="01JOB", kind="export"
    ) as pin:
        pin.hold([old.handle(old.type("Person"))])
        applied = graph.schema.apply(person(age=""), allow_data_loss=True)
        assert [kept.table_key for kept in applied.kept_data] == ["node:Person"]
        assert len(graphs.open().snapshot(old.graph_commit_id).scan("Person").read_all()) == 2


def test_a_removal_that_cannot_be_done_is_told_and_the_schema_stands(graphs: Opened) -> None:
    graph, other = _filled(graphs), graphs.open()
    slow = graphs.open(LEASE_WAIT_MS="50")
    with other._graph.leases.holding(MAINTENANCE_SCOPE):
        applied = slow.schema.apply(person(age=""), allow_data_loss=True)
    assert applied.applied
    (kept,) = applied.kept_data
    assert "maintenance" in kept.reason
    assert "age" not in graph.schema.catalog.node_types["Person"].properties
