"""A branch that another process deletes while it is merged or read: a typed error, nothing else."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.extended import thinned
from tests.unit.graph.graphs import Opened, Watcher
from tests.unit.graph.merge.merges import ages, head, people

from omnigraph.errors import BranchNotFound, ChangeFeedGap, CommitNotFound, SnapshotReclaimed

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph import Graph
    from omnigraph.storage.calls import StoreCall

SCHEMA = "node Person { name: String @key  age: I32? }"
STEPS = (8, 18, 26, 30, *(step for step in range(60) if step not in (8, 18, 26, 30)))
"""Calls to the store before which the branch goes: in history, in tables, among their rows."""

READS: dict[str, Callable[[Graph], object]] = {
    "diff": lambda graph: graph.diff("main", "b").changes,
    "poll": lambda graph: graph.changes.poll(branch="b", start="beginning"),
    "commit changes": lambda graph: graph.commits.changes(head(graph, "b")),
    "commit list": lambda graph: list(graph.commits.list(branch="b")),
}


def _apart(graphs: Opened) -> tuple[Graph, Watcher]:
    graph = graphs.init(SCHEMA)
    people(graph, "main", a=1, x=1)
    graph.branches.create("b")
    people(graph, "b", a=2, c=2)
    people(graph, "main", x=3)
    watcher = Watcher()
    return graphs.coordinated(observer=watcher), watcher


def _delete_before(graphs: Opened, watcher: Watcher, step: int) -> None:
    other = graphs.open()
    left = iter(range(step))

    def act(_: StoreCall) -> None:
        if next(left, None) is None and "b" in [each.name for each in other.branches.list()]:
            other.branches.delete("b")
            other.close()  # Its files are removed by then.
            watcher.before_each = None

    watcher.before_each = act


@pytest.mark.parametrize("step", thinned(STEPS, keep=4))
def test_a_merge_is_made_as_a_whole_or_does_not_find_the_branch(graphs: Opened, step: int) -> None:
    graph, watcher = _apart(graphs)
    before = head(graph)
    _delete_before(graphs, watcher, step)
    try:
        graph.branches.merge("b")
    except BranchNotFound:
        assert head(graph) == before
        assert ages(graph) == {"a": 1, "x": 3}
    else:
        assert ages(graph) == {"a": 2, "c": 2, "x": 3}
    people(graph, "main", after=1)


@pytest.mark.parametrize("step", thinned((9, *range(9), *range(10, 30))))
@pytest.mark.parametrize("read", READS)
def test_a_read_tells_what_is_gone(graphs: Opened, read: str, step: int) -> None:
    graph, watcher = _apart(graphs)
    _delete_before(graphs, watcher, step)
    with suppress(BranchNotFound, ChangeFeedGap, CommitNotFound, SnapshotReclaimed):
        READS[read](graph)
    assert ages(graph) == {"a": 1, "x": 3}
