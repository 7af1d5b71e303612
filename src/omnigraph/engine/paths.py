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

from omnigraph.engine.walk import Reached, neighbours, parts_of, sources_at_once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.arrays import Ids, Numbers, Values
    from omnigraph.graph.query.budget import Budget
    from omnigraph.graph.query.topology import Adjacency


_NODE_BYTES = 8
"""What a node on a path takes: its number, and its place among the ids."""

_CELL_BYTES = 16
"""What a cell of a level takes."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Paths one after the other: `nodes[starts[i]:starts[i + 1]]`."""

    starts: Numbers
    nodes: Numbers

    def lists(self, ids: Ids) -> Values:
        """The ids of the nodes of each path."""
        offsets = pa.array(self.starts, pa.int32())
        lists: Values = pa.ListArray.from_arrays(offsets, ids.take(self.nodes))
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


@dataclass(slots=True)
class _Tally:
    """What a walk has found so far, held against the budget while it goes on."""

    budget: Budget
    ends: int = 0
    nodes: int = 0
    """Nodes on all paths."""

    def add(self, ends: int, length: int) -> None:
        """So many more ends, each with a path of so many nodes."""
        self.ends += ends
        self.nodes += ends * length
        self.budget.require_rows(self.ends, "a walk")
        self.hold(0)

    def hold(self, cells: int) -> None:
        """So many cells are held beside the paths."""
        size_bytes = _NODE_BYTES * self.nodes + _CELL_BYTES * cells
        self.budget.require_bytes(size_bytes, "the paths of a walk")


def walk_paths(
    adjacency: Adjacency,
    sources: Numbers,
    hops: tuple[int, int],
    budget: Budget,
    *,
    from_source: bool,
) -> tuple[Reached, Paths]:
    """What distinct sources reach, ascending within a source, and the paths to it.

    A path is read from the source to the end, or from the end to the source.
    """
    at_once = sources_at_once(adjacency, budget, cell_bytes=2 * _CELL_BYTES)
    counts: list[Numbers] = [np.zeros(0, np.int64)]
    targets: list[Numbers] = [np.zeros(0, np.int64)]
    lengths: list[Numbers] = [np.zeros(0, np.int64)]
    nodes: list[Numbers] = [np.zeros(0, np.int32)]
    tally = _Tally(budget)
    size = max(1, len(adjacency.starts) - 1)
    for start in range(0, len(sources), at_once):
        some = sources[start : start + at_once]
        levels, found = _walk_some(adjacency, some, hops, tally, from_source=from_source)
        cells, length, path_nodes = _traced(levels, found, size, budget, from_source=from_source)
        counts.append(np.bincount(cells // size, minlength=len(some)))
        targets.append(cells % size)
        lengths.append(length)
        nodes.append(path_nodes)
    reached = Reached(_starts(np.concatenate(counts)), np.concatenate(targets))
    return reached, Paths(_starts(np.concatenate(lengths)), np.concatenate(nodes))


def _walk_some(
    adjacency: Adjacency,
    sources: Numbers,
    hops: tuple[int, int],
    tally: _Tally,
    *,
    from_source: bool,
) -> tuple[list[_Level], list[_Found]]:
    """The cells of each distance, and which of them the walk ends at."""
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
        for next_cells, next_parents, looped in _followed(adjacency, levels[-1].cells, tally):
            loops.append(looped)
            is_new = ~visited[next_cells]
            fresh, place = np.unique(next_cells[is_new], return_index=True)
            if from_source:
                order = np.argsort(place)
                fresh, place = fresh[order], place[order]
            visited[fresh] = True
            cells.append(fresh)
            parents.append(next_parents[is_new][place])
            tally.add(len(fresh) if hop >= hops[0] else 0, hop + 1)
        if hop == hops[0]:
            # A node at this distance less one was not reached yet; its self loop reaches it.
            found.append(_Found(np.concatenate(loops), hop - 1, is_loop=True))
            tally.add(len(found[-1].places), hop + 1)
        level = _Level(np.concatenate(cells), np.concatenate(parents))
        if not from_source:
            order = np.argsort(level.cells)
            level = _Level(level.cells[order], level.parents[order])
        levels.append(level)
        tally.hold(sum(len(each.cells) for each in levels))
        if hop >= hops[0]:
            found.append(_Found(np.arange(len(level.cells)), hop, is_loop=False))
        if not len(level.cells):
            break
    return levels, found


def _followed(
    adjacency: Adjacency, frontier: Numbers, tally: _Tally
) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
    """The cells that edges lead to, their places in the frontier, and the places of self loops."""
    size = len(adjacency.starts) - 1
    walker, node = np.divmod(frontier, size)
    for start, stop in parts_of(adjacency, node, tally.budget):
        reached = neighbours(adjacency, node[start:stop])
        parents = np.repeat(np.arange(start, stop), reached.counts)
        cells = walker[parents] * size + reached.targets
        yield cells, parents, parents[reached.targets == node[parents]]


def _traced(
    levels: list[_Level], found: list[_Found], size: int, budget: Budget, *, from_source: bool
) -> tuple[Numbers, Numbers, Numbers]:
    """The cells that are reached, ascending, the length of the path to each, and its nodes.

    Paths are followed back, all of one distance at once, and written where they belong.
    """
    none = np.zeros(0, np.int64)
    cells = np.concatenate([none, *(levels[each.level].cells[each.places] for each in found)])
    lengths = np.concatenate(
        [none, *(np.full(len(each.places), each.level + 1 + each.is_loop) for each in found)]
    )
    order = np.argsort(cells, kind="stable")
    counts = lengths[order]
    starts = _starts(counts)
    nodes = np.empty(starts[-1], np.int32 if size < 2**31 else np.int64)
    place = np.empty(len(cells), np.int64)
    place[order] = starts[1:] - 1 if from_source else starts[:-1]
    step, done = (-1 if from_source else 1), 0
    for each in found:
        at = place[done : done + len(each.places)]
        done += len(each.places)
        if each.is_loop:
            nodes[at] = levels[each.level].cells[each.places] % size
            at += step
        places = each.places
        for level in reversed(levels[: each.level + 1]):
            budget.check()
            nodes[at] = level.cells[places] % size
            at += step
            places = level.parents[places] if len(level.parents) else places
    return cells[order], counts, nodes


def _starts(counts: Numbers) -> Numbers:
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts
