"""A walk that keeps its paths is held against the budget while it goes on, not when it is done."""

import tracemalloc

import numpy as np
import pytest

from omnigraph.clock import SystemClock
from omnigraph.engine.paths import walk_paths
from omnigraph.errors import ResourceLimit
from omnigraph.graph.query.budget import Budget
from omnigraph.graph.query.topology import Adjacency

NODES, HOPS = 1_000, (1, 64)
"""Each node of a ring has the next four as neighbours: 256,000 paths of 8,576,000 nodes in all."""
MEGABYTE = 1_000_000


def ring() -> Adjacency:
    targets = (np.arange(NODES)[:, None] + np.arange(1, 5)) % NODES
    return Adjacency(starts=np.arange(0, 4 * NODES + 1, 4), targets=np.sort(targets).ravel())


@pytest.mark.parametrize("from_source", [True, False], ids=["path", "path_back"])
@pytest.mark.parametrize(
    ("resource", "rows", "memory"),
    [("query_binding_rows", 9_000, 1_000 * MEGABYTE), ("query_memory_bytes", 10**7, MEGABYTE)],
)
def test_too_many_paths_are_refused_before_they_are_held(
    resource: str, rows: int, memory: int, *, from_source: bool
) -> None:
    budget = Budget(clock=SystemClock(), timeout_ms=0, max_rows=rows, memory_bytes=memory)
    tracemalloc.start()
    try:
        with pytest.raises(ResourceLimit) as caught:
            walk_paths(ring(), np.arange(NODES), HOPS, budget, from_source=from_source)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.details["resource"] == resource
    assert peak < 10 * MEGABYTE


def test_paths_of_many_nodes_take_little_more_than_their_numbers() -> None:
    budget = Budget(clock=SystemClock(), timeout_ms=0, max_rows=10**7, memory_bytes=10**9)
    tracemalloc.start()
    try:
        reached, paths = walk_paths(ring(), np.arange(NODES), HOPS, budget, from_source=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(reached.targets) == NODES * 256
    assert len(paths.nodes) == NODES * 4 * sum(range(2, 66))
    assert peak < 100 * MEGABYTE
