"""Walks that keep the way: for each source and each node that it reaches, one shortest path.

Of several shortest paths the one whose list of ids is smallest counts, read from the source or from
the end. Read from the source, a node takes the first parent in the order of the paths to them; read
from the end, it takes the parent with the smallest id. Numbers of nodes ascend with their ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph.engine.walk import Reached, neighbours, parts_of, ranges, sources_at_once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.arrays import Ids, Numbers, Values
    from omnigraph.graph.query.budget import Budget
    from omnigraph.graph.query.topology import Adjacency


@dataclass(frozen=True, slots=True)
class Paths:
    """Paths one after the other: `nodes[starts[i]:starts[i + 1]]`, from the source to the end."""

    starts: Numbers
    nodes: Numbers

    def lists(self, ids: Ids, *, is_reversed: bool) -> Values:
        """The ids of the nodes of each path."""
        nodes = self.nodes
        if is_reversed:
            counts = np.diff(self.starts)
            place = np.arange(len(nodes)) - np.repeat(self.starts[:-1], counts)
            nodes = nodes[np.repeat(self.starts[1:] - 1, counts) - place]
        offsets = pa.array(self.starts, pa.int32())
        lists: Values = pa.ListArray.from_arrays(offsets, ids.take(nodes))
        return lists


@dataclass(frozen=True, slots=True)
class _Level:
    """The cells of one distance, and the place of the parent of each in the level before."""

    cells: Numbers
    parents: Numbers


@dataclass(frozen=True, slots=True)
class _Found:
    """Cells that are reached at one distance, their places in a level, and a last self loop."""

    places: Numbers
    level: int
    is_loop: bool


def walk_paths(
    adjacency: Adjacency,
    sources: Numbers,
    hops: tuple[int, int],
    budget: Budget,
    *,
    from_source: bool,
) -> tuple[Reached, Paths]:
    """What distinct sources reach, ascending within a source, and the paths to it."""
    at_once = sources_at_once(adjacency, budget)
    counts: list[Numbers] = [np.zeros(0, np.int64)]
    targets: list[Numbers] = [np.zeros(0, np.int64)]
    lengths: list[Numbers] = [np.zeros(0, np.int64)]
    nodes: list[Numbers] = [np.zeros(0, np.int64)]
    rows = 0
    size = max(1, len(adjacency.starts) - 1)
    for start in range(0, len(sources), at_once):
        some = sources[start : start + at_once]
        cells, length, path_nodes = _walk_some(adjacency, some, hops, budget, from_source)
        rows += len(cells)
        budget.require_rows(rows, "a walk")
        counts.append(np.bincount(cells // size, minlength=len(some)))
        targets.append(cells % size)
        lengths.append(length)
        nodes.append(path_nodes)
        budget.require_bytes(8 * sum(len(part) for part in nodes), "the paths of a walk")
    reached = Reached(_starts(np.concatenate(counts)), np.concatenate(targets))
    return reached, Paths(_starts(np.concatenate(lengths)), np.concatenate(nodes))


def _walk_some(
    adjacency: Adjacency,
    sources: Numbers,
    hops: tuple[int, int],
    budget: Budget,
    from_source: bool,  # noqa: FBT001 - of one caller
) -> tuple[Numbers, Numbers, Numbers]:
    """The cells that are reached, ascending, the length of the path to each, and its nodes."""
    size = len(adjacency.starts) - 1
    first = np.arange(len(sources)) * size + sources
    visited = np.zeros(len(sources) * size, bool)
    visited[first] = True
    levels = [_Level(first, np.zeros(0, np.int64))]
    found: list[_Found] = []
    for hop in range(1, hops[1] + 1):
        cells: list[Numbers] = [np.zeros(0, np.int64)]
        parents: list[Numbers] = [np.zeros(0, np.int64)]
        loops: list[Numbers] = [np.zeros(0, np.int64)]
        for next_cells, next_parents, looped in _followed(adjacency, levels[-1].cells, budget):
            loops.append(looped)
            is_new = ~visited[next_cells]
            fresh, place = np.unique(next_cells[is_new], return_index=True)
            if from_source:
                order = np.argsort(place)
                fresh, place = fresh[order], place[order]
            visited[fresh] = True
            cells.append(fresh)
            parents.append(next_parents[is_new][place])
        if hop == hops[0]:
            # A node at this distance less one was not reached yet; its self loop reaches it.
            found.append(_Found(np.concatenate(loops), hop - 1, is_loop=True))
        level = _Level(np.concatenate(cells), np.concatenate(parents))
        if not from_source:
            order = np.argsort(level.cells)
            level = _Level(level.cells[order], level.parents[order])
        levels.append(level)
        if hop >= hops[0]:
            found.append(_Found(np.arange(len(level.cells)), hop, is_loop=False))
        if not len(level.cells):
            break
    return _traced(levels, found, size, budget)


def _followed(
    adjacency: Adjacency, frontier: Numbers, budget: Budget
) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
    """The cells that edges lead to, their places in the frontier, and the places of self loops."""
    size = len(adjacency.starts) - 1
    walker, node = np.divmod(frontier, size)
    for start, stop in parts_of(adjacency, node, budget):
        reached = neighbours(adjacency, node[start:stop])
        parents = np.repeat(np.arange(start, stop), reached.counts)
        cells = walker[parents] * size + reached.targets
        yield cells, parents, parents[reached.targets == node[parents]]


def _traced(
    levels: list[_Level], found: list[_Found], size: int, budget: Budget
) -> tuple[Numbers, Numbers, Numbers]:
    total = sum(len(each.places) * (each.level + 1 + each.is_loop) for each in found)
    budget.require_bytes(8 * total, "the paths of a walk")
    cells: list[Numbers] = [np.zeros(0, np.int64)]
    lengths: list[Numbers] = [np.zeros(0, np.int64)]
    nodes: list[Numbers] = [np.zeros(0, np.int64)]
    for each in found:
        budget.check()
        reached = levels[each.level].cells[each.places]
        way = [reached % size] if each.is_loop else []
        places = each.places
        for level in reversed(levels[: each.level + 1]):
            way.append(level.cells[places] % size)
            places = level.parents[places] if len(level.parents) else places
        cells.append(reached)
        lengths.append(np.full(len(reached), len(way)))
        nodes.append(np.stack(way[::-1], axis=1).ravel())
    all_cells, all_lengths = np.concatenate(cells), np.concatenate(lengths)
    starts = _starts(all_lengths)
    order = np.argsort(all_cells, kind="stable")
    counts = all_lengths[order]
    places = ranges(starts[:-1][order], counts, _starts(counts))
    return all_cells[order], counts, np.concatenate(nodes)[places]


def _starts(counts: Numbers) -> Numbers:
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts
