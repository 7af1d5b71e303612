"""Many staged rows that others overtook are staged again while nobody waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.graph.graphs import (
    Killed,
    Opened,
    delete,
    killed_at,
    names,
    once,
    people,
    require_settled,
    sidecars,
    upsert,
)

from omnigraph.errors import ReadSetChanged
from omnigraph.failpoints import armed
from omnigraph.limits import MAX_MOVES_WITHOUT_LEASE, MAX_ROWS_RESTAGED_UNDER_LEASE

if TYPE_CHECKING:
    from collections.abc import Callable

STAGED = "mutation.post_stage_pre_lease"
RESTAGED = "restage.post_move_pre_lease"
MANY = [f"n{number:06}" for number in range(MAX_ROWS_RESTAGED_UNDER_LEASE + 1)]


def counted(act: Callable[[], object]) -> tuple[list[None], Callable[[], None]]:
    """What is called again and again, and how often it was."""
    calls: list[None] = []

    def call() -> None:
        calls.append(None)
        act()

    return calls, call


def test_many_rows_are_staged_again_without_the_lease(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open(LEASE_WAIT_MS="0")
    upsert(graph, "a")
    moves, beside = counted(once(lambda: upsert(other, "c")))
    with armed(STAGED, once(lambda: upsert(other, "b"))), armed(RESTAGED, beside):
        upsert(graph, *MANY)
    # The second write beside it makes it move once more.
    assert len(moves) == 2
    assert names(graph) == ["a", "b", "c", *MANY]
    assert [each.parent_commit_id for each in graph.commits.list()][:-1] == [
        each.graph_commit_id for each in graph.commits.list()
    ][1:]
    require_settled(graph)


def test_a_writer_that_is_always_overtaken_lands_under_the_lease(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    upsert(graph, "a")
    moves, overtake = counted(lambda: upsert(other, f"b{len(moves)}"))
    with armed(STAGED, once(lambda: upsert(other, "b"))), armed(RESTAGED, overtake):
        upsert(graph, *MANY)
    assert len(moves) == MAX_MOVES_WITHOUT_LEASE
    assert graph.snapshot().count("Person") == len(MANY) + 2 + MAX_MOVES_WITHOUT_LEASE
    require_settled(graph)


@pytest.mark.parametrize("rows", [MANY[:1], MANY[1:]])
def test_few_rows_are_staged_again_under_the_lease(graphs: Opened, rows: list[str]) -> None:
    graph, other = graphs.init(), graphs.open()
    upsert(graph, "a")
    moves, count = counted(lambda: None)
    with armed(STAGED, once(lambda: upsert(other, "b"))), armed(RESTAGED, count):
        upsert(graph, *rows)
    assert moves == []
    assert names(graph) == ["a", "b", *rows]


def test_many_appended_rows_move_as_they_are(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    upsert(graph, "a")
    moves, count = counted(lambda: None)
    with (
        armed(STAGED, once(lambda: upsert(other, "b"))),
        armed(RESTAGED, count),
        graph.write() as writer,
    ):
        writer.append("Person", people(*MANY))
        writer.commit()
    assert moves == []
    assert names(graph) == ["a", "b", *MANY]


def test_what_was_staged_again_is_held_against_later_writes_too(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    upsert(graph, "a", *MANY)
    with (
        armed(STAGED, once(lambda: upsert(other, "b"))),
        armed(RESTAGED, once(lambda: upsert(other, MANY[7], age=7))),
        pytest.raises(ReadSetChanged),
    ):
        delete(graph, *MANY)
    assert graph.snapshot().count("Person") == len(MANY) + 2
    require_settled(graph)


def test_a_writer_that_dies_after_it_staged_again_leaves_nothing(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    upsert(graph, "a")
    with (
        armed(STAGED, once(lambda: upsert(other, "b"))),
        killed_at(RESTAGED),
        pytest.raises(Killed),
    ):
        upsert(graph, *MANY)
    assert sidecars(graphs.root) == []
    again = graphs.open()
    upsert(again, *MANY)
    assert names(again) == ["a", "b", *MANY]
    require_settled(again)
