"""A write that others overtook by so much that a cleanup took the versions it was prepared on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.extended import thinned
from tests.unit.graph.graphs import (
    Opened,
    age_files,
    delete,
    names,
    once,
    people,
    require_settled,
    upsert,
)

from omnigraph.errors import InternalError, ReadSetChanged
from omnigraph.failpoints import armed

if TYPE_CHECKING:
    from collections.abc import Callable

    from _pytest.mark.structures import ParameterSet

    from omnigraph import Graph

POINTS = ("mutation.post_capture", "mutation.post_stage_pre_lease")


def add(graph: Graph) -> None:
    """A new person; the e-mail address must be free."""
    upsert(graph, "new", email="new@x")


def take_out(graph: Graph) -> None:
    """A person that nobody else touches goes."""
    delete(graph, "p1")


def change(graph: Graph) -> None:
    """What rows hold is read first."""
    graph.mutate('query q() { update Person set { age: 7 } where name = "p1" }')


def link(graph: Graph) -> None:
    """The ends must be there."""
    graph.mutate('query q() { insert Knows { from: "p1", to: "p2" } }')


def replace(graph: Graph) -> None:
    """All rows are replaced, whatever they are."""
    with graph.write() as writer:
        writer.overwrite("Person", people("only"))
        writer.commit()


WRITES = (add, take_out, change, link)
DAILY = {(POINTS[0], add), (POINTS[1], change)}


def cases() -> list[ParameterSet]:
    return [
        pytest.param(point, write, marks=() if (point, write) in DAILY else pytest.mark.extended)
        for point in POINTS
        for write in WRITES
    ]


@pytest.fixture
def graph(graphs: Opened) -> Graph:
    graph = graphs.init(AUTO_MAINTENANCE="0")
    upsert(graph, *(f"p{number}" for number in range(9)))
    return graph


def overtake(graphs: Opened) -> None:
    """Others write, a day goes by, and a cleanup leaves only the newest versions."""
    other = graphs.open(AUTO_MAINTENANCE="0")
    for number in range(3, 8):
        delete(other, f"p{number}")
        upsert(other, f"q{number}", email=f"{number}@x")
    other.maintenance.optimize()
    for age in range(3):
        upsert(other, "q3", email="3@x", age=age)
    age_files(graphs.root)
    removed = other.maintenance.cleanup(keep=3, confirm=True)
    assert any(table.old_versions_removed for table in removed.tables)


@pytest.mark.parametrize(("point", "write"), cases())
def test_it_is_prepared_again_where_that_is_allowed(
    graphs: Opened, graph: Graph, write: Callable[[Graph], None], point: str
) -> None:
    with armed(point, once(lambda: overtake(graphs))):
        try:
            write(graph)
        except ReadSetChanged:
            assert write in (take_out, change), "only what replaces rows may be refused"
            write(graph)
    there = {"p0", "p2", "p8"} | {f"q{number}" for number in range(3, 8)}
    there |= {"p1"} if write is not take_out else set()
    there |= {"new"} if write is add else set()
    assert set(names(graphs.open())) == there
    require_settled(graph)


@pytest.mark.parametrize("point", thinned(POINTS))
def test_one_that_replaces_all_rows_is_told_that_they_changed(
    graphs: Opened, graph: Graph, point: str
) -> None:
    with armed(point, once(lambda: overtake(graphs))):
        try:
            replace(graph)
        except ReadSetChanged:
            replace(graph)
    assert names(graphs.open()) == ["only"]
    require_settled(graph)


def test_a_version_that_is_gone_though_nobody_wrote_is_no_overtaking(
    graphs: Opened, graph: Graph
) -> None:
    def damage() -> None:
        for path in graphs.root.glob("nodes/*/data/*"):
            path.unlink()

    with armed(POINTS[0], once(damage)), pytest.raises(InternalError):
        upsert(graph, "p1", age=3)
