"""Walks over an adjacency, for many sources at once: arrays in, arrays out.

The rule is breadth first, per source: a node counts at its shortest distance only, the source never
comes back through a cycle, and a self loop leads to the node it is on, when that is as far as the
walk must go.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from omnigraph.graph.arrays import Numbers
    from omnigraph.graph.query.budget import Budget
    from omnigraph.graph.query.topology import Adjacency

VISITED_CELLS = 1 << 24
"""Marks of visited nodes that are held at once: one for each source and node."""


WIDE_ROW = 1_024

EDGES_AT_ONCE = 1 << 22
"""Edges that are followed at once."""

BYTES_PER_STEP = 64
"""What following one edge takes for a moment, about."""


@dataclass(frozen=True, slots=True)
class Reached:
    """What each source reaches: `targets[starts[s]:starts[s + 1]]`."""

    starts: Numbers
    targets: Numbers
    positions: Numbers | None = None
    """Where the targets were before some of them were dropped; `None` if none was."""
    hops: Numbers | None = None
    """The distance of each target, where it was asked for."""

    @property
    def counts(self) -> Numbers:
        """How many nodes each source reaches."""
        return np.diff(self.starts)


def neighbours(adjacency: Adjacency, sources: Numbers) -> Reached:
    """The direct neighbours of each source."""
    first = adjacency.starts[sources]
    counts = adjacency.starts[sources + 1] - first
    starts = np.zeros(len(sources) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return Reached(starts, adjacency.targets[ranges(first, counts, starts)])


def ranges(first: Numbers, counts: Numbers, starts: Numbers) -> Numbers:
    """`first[i]`, `first[i] + 1`, … `counts[i]` of them for each i, one after the other."""
    return np.repeat(first - starts[:-1], counts) + np.arange(starts[-1])


def walk(
    adjacency: Adjacency,
    sources: Numbers,
    hops: tuple[int, int],
    budget: Budget,
    *,
    is_measured: bool = False,
) -> Reached:
    """What distinct sources reach within the bounds; in no order within a source."""
    if hops[1] == 1:
        budget.require_rows(
            int((adjacency.starts[sources + 1] - adjacency.starts[sources]).sum()), "a walk"
        )
        near = neighbours(adjacency, sources)
        return replace(near, hops=np.ones(len(near.targets), np.int64)) if is_measured else near
    at_once = sources_at_once(adjacency, budget)
    parts: list[Reached] = []
    total = 0
    for start in range(0, len(sources), at_once):
        part = _walk_some(
            adjacency,
            sources[start : start + at_once],
            hops,
            budget,
            total,
            is_measured=is_measured,
        )
        total += len(part.targets)
        parts.append(part)
    return _joined(parts, is_measured=is_measured)


def count_reached(
    adjacency: Adjacency, sources: Numbers, min_hops: int, max_hops: int, budget: Budget
) -> Numbers:
    """How many nodes each of these distinct sources reaches within the bounds."""
    if (min_hops, max_hops) == (1, 1):
        return adjacency.degrees[sources]
    at_once = sources_at_once(adjacency, budget)
    counts = [
        _count_some(adjacency, sources[start : start + at_once], min_hops, max_hops, budget)
        for start in range(0, len(sources), at_once)
    ]
    return np.concatenate((np.zeros(0, np.int64), *counts))


def _count_some(
    adjacency: Adjacency, sources: Numbers, min_hops: int, max_hops: int, budget: Budget
) -> Numbers:
    size = len(adjacency.starts) - 1
    visited = np.zeros(len(sources) * size, bool)
    frontier = np.arange(len(sources)) * size + sources
    visited[frontier] = True
    counts = np.zeros(len(sources), np.int64)
    for hop in range(1, max_hops + 1):
        if hop == min_hops:
            # Whoever was visited before this hop is too near to count.
            counts -= 1 if hop == 1 else _visits(visited, len(sources))
        fresh: list[Numbers] = []
        for cells, loops in _steps(adjacency, frontier, size, budget):
            if hop == min_hops:
                counts += np.bincount(loops // size, minlength=len(sources))
            if hop == max_hops:
                visited[cells] = True
            else:
                fresh.append(_first_visits(cells, visited))
        frontier = np.concatenate((frontier[:0], *fresh))
    return counts + _visits(visited, len(sources))


def _visits(visited: NDArray[np.bool_], sources: int) -> Numbers:
    """How many cells of each source are marked."""
    rows = visited.reshape(sources, -1)
    if rows.shape[1] < WIDE_ROW:
        return np.asarray(rows.sum(axis=1), np.int64)
    # Over a whole row at once counting is many times faster than along an axis.
    return np.fromiter((np.count_nonzero(row) for row in rows), np.int64, sources)


def sources_at_once(adjacency: Adjacency, budget: Budget, *, cell_bytes: int = 4) -> int:
    """So many that what is held of each cell they visit fits into the memory of the query."""
    size = len(adjacency.starts) - 1
    return max(1, min(VISITED_CELLS, budget.memory_bytes // cell_bytes) // max(1, size))


def _steps(
    adjacency: Adjacency, frontier: Numbers, size: int, budget: Budget
) -> Iterator[tuple[Numbers, Numbers]]:
    """The cells that the edges of a frontier lead to, and those of them that are self loops.

    A frontier with very many edges is followed in parts, so that no more than a bounded number of
    edges is in memory at once.
    """
    walker, node = np.divmod(frontier, size)
    for start, stop in parts_of(adjacency, node, budget):
        part = node[start:stop]
        reached = neighbours(adjacency, part)
        counts = reached.counts
        cells = np.repeat(walker[start:stop] * size, counts) + reached.targets
        yield cells, cells[reached.targets == np.repeat(part, counts)]


def parts_of(adjacency: Adjacency, nodes: Numbers, budget: Budget) -> Iterator[tuple[int, int]]:
    """The nodes of a frontier in parts whose edges can be followed at once."""
    most = max(1, min(EDGES_AT_ONCE, budget.memory_bytes // BYTES_PER_STEP))
    before = np.cumsum(adjacency.degrees[nodes])
    start = 0
    while start < len(nodes):
        budget.check()
        done = int(before[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(before, done + most, side="right")))
        yield start, stop
        start = stop


def _joined(parts: list[Reached], *, is_measured: bool) -> Reached:
    if len(parts) == 1:
        return parts[0]
    counts = [part.counts for part in parts]
    none = np.zeros(0, np.int64)
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.concatenate((none, *counts)))))
    return Reached(
        starts,
        np.concatenate((none, *(part.targets for part in parts))),
        hops=np.concatenate((none, *(part.hops for part in parts if part.hops is not None)))
        if is_measured
        else None,
    )


def _walk_some(
    adjacency: Adjacency,
    sources: Numbers,
    hops: tuple[int, int],
    budget: Budget,
    rows_before: int,
    *,
    is_measured: bool,
) -> Reached:
    min_hops, max_hops = hops
    size = len(adjacency.starts) - 1
    visited = np.zeros(len(sources) * size, bool)
    frontier = np.arange(len(sources)) * size + sources
    visited[frontier] = True
    emitted: list[Numbers] = []
    distances: list[int] = []
    total = rows_before
    for hop in range(1, max_hops + 1):
        fresh: list[Numbers] = []
        for cells, loops in _steps(adjacency, frontier, size, budget):
            if hop == min_hops:
                # A node at this distance less one was not emitted yet; its self loop emits it.
                emitted.append(loops)
                distances.append(hop)
                total += len(loops)
            fresh.append(_first_visits(cells, visited))
        frontier = np.concatenate((frontier[:0], *fresh))
        if hop >= min_hops:
            emitted.append(frontier)
            distances.append(hop)
            total += len(frontier)
            budget.require_rows(total, "a walk")
        if not len(frontier):
            break
    cells = np.concatenate(emitted) if emitted else frontier
    of_cells = np.repeat(distances, [len(part) for part in emitted]) if is_measured else None
    return _by_source(cells, len(sources), size, of_cells)


def _first_visits(cells: Numbers, visited: NDArray[np.bool_]) -> Numbers:
    """The cells that were not visited yet, each once; they are now."""
    fresh = cells[~visited[cells]]
    if len(fresh) * 32 > len(visited):
        marks = np.zeros(len(visited), bool)
        marks[fresh] = True
        reached = np.flatnonzero(marks)
    else:
        fresh.sort()
        is_first = np.ones(len(fresh), bool)
        np.not_equal(fresh[1:], fresh[:-1], out=is_first[1:])
        reached = fresh[is_first]
    visited[reached] = True
    return reached


def _by_source(cells: Numbers, sources: int, size: int, hops: Numbers | None) -> Reached:
    walker, node = np.divmod(cells, max(1, size))
    order = np.argsort(walker, kind="stable")
    starts = np.zeros(sources + 1, np.int64)
    np.cumsum(np.bincount(walker, minlength=sources), out=starts[1:])
    if hops is None:
        return Reached(starts, node[order])
    # Without any row there is no list of distances to repeat, and so no type either.
    return Reached(starts, node[order], hops=hops.astype(np.int64)[order])
