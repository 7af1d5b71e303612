"""Triangles: each edge leads to the end of higher degree, and two edges from one node are closed.

So no node has more than about the square root of all edges to look at, and each triangle is found
once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from omnigraph.pipeline.analytics.local.topology import neighbours

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.arrays import Mask, Numbers
    from omnigraph.pipeline.analytics.local.steps import Tell
    from omnigraph.pipeline.analytics.local.topology import Topology

_PAIRS_AT_ONCE: Final = 1 << 22


def triangles(topology: Topology, tell: Tell) -> Numbers:
    """In how many triangles each node is."""
    count = topology.nodes
    places, edges = _oriented(topology)
    lower, higher = np.divmod(edges, max(1, count))
    ends = neighbours(count, lower, higher).starts[lower + 1]
    pairs = ends - np.arange(len(edges)) - 1
    found = np.zeros(count, np.int64)
    for start, end in _cut(pairs):
        tell(start, len(edges))
        first = np.repeat(np.arange(start, end), pairs[start:end])
        before = np.cumsum(pairs[start:end]) - pairs[start:end]
        second = first + 1 + np.arange(len(first)) - np.repeat(before, pairs[start:end])
        is_closed = _contains(edges, higher[first] * count + higher[second])
        first, second = first[is_closed], second[is_closed]
        for corner in (lower[first], higher[first], higher[second]):
            found += np.bincount(corner, minlength=count)
    return found[places]


def _oriented(topology: Topology) -> tuple[Numbers, Numbers]:
    """The place of each node by degree, and the distinct edges, ascending, between places."""
    count = topology.nodes
    one = np.minimum(topology.sources, topology.targets)
    other = np.maximum(topology.sources, topology.targets)
    distinct = np.unique((one * count + other)[one != other])
    one, other = np.divmod(distinct, max(1, count))
    degree = np.bincount(one, minlength=count) + np.bincount(other, minlength=count)
    places = np.empty(count, np.int64)
    places[np.argsort(degree, kind="stable")] = np.arange(count)
    one, other = places[one], places[other]
    return places, np.sort(np.minimum(one, other) * count + np.maximum(one, other))


def _cut(pairs: Numbers) -> Iterator[tuple[int, int]]:
    """Ranges of edges that have about so many pairs together."""
    total = np.cumsum(pairs)
    start = 0
    while start < len(pairs):
        done = int(total[start - 1]) if start else 0
        end = int(np.searchsorted(total, done + _PAIRS_AT_ONCE, side="right"))
        end = max(end, start + 1)
        yield start, end
        start = end


def _contains(ascending: Numbers, wanted: Numbers) -> Mask:
    at = np.searchsorted(ascending, wanted)
    at[at == len(ascending)] = 0
    found: Mask = ascending[at] == wanted
    return found
