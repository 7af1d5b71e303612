"""Strongly connected components.

Nodes that no cycle can go through are peeled off, then one large component is found from both
directions: each a few rounds over whole arrays, because that is nearly all of most graphs. What is
left is walked depth first, node by node, which costs the same whatever its shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from omnigraph.pipeline.analytics.local.topology import Topology

if TYPE_CHECKING:
    from omnigraph.graph.arrays import Mask, Numbers
    from omnigraph.pipeline.analytics.local.topology import Neighbours

_PEELINGS: Final = 16
_ROUNDS: Final = 64
"""Longer searches are left to the walk."""


def strong_components(topology: Topology) -> Numbers:
    """For each node the smallest one of its component."""
    labels = np.arange(topology.nodes)
    left = _peeled(topology)
    topology = _within(topology, left)
    if len(topology.sources):
        members = _members_of_one(topology, left)
        labels[members] = members.min(initial=topology.nodes)
        left[members] = False
        topology = _within(topology, left)
    return _walked(topology, left, labels) if left.any() else labels


def _peeled(topology: Topology) -> Mask:
    """The nodes that have edges in and out, among each other."""
    left = np.ones(topology.nodes, np.bool_)
    for _ in range(_PEELINGS):
        topology = _within(topology, left)
        has_out, has_in = np.zeros_like(left), np.zeros_like(left)
        has_out[topology.sources] = True
        has_in[topology.targets] = True
        still = left & has_out & has_in
        if np.array_equal(still, left):
            break
        left = still
    return left


def _within(topology: Topology, left: Mask) -> Topology:
    """The edges between these nodes; loops join nothing."""
    sources, targets = topology.sources, topology.targets
    stays = left[sources] & left[targets] & (sources != targets)
    return Topology(topology.nodes, sources[stays], targets[stays])


def _members_of_one(topology: Topology, left: Mask) -> Numbers:
    """The component of the node with the most edges; nothing if the search is long."""
    leaving = np.bincount(topology.sources, minlength=topology.nodes)
    arriving = np.bincount(topology.targets, minlength=topology.nodes)
    pivot = int(np.argmax(np.where(left, (leaving + 1.0) * (arriving + 1.0), 0.0)))
    reached = _reached(topology.out, pivot, topology.nodes)
    reaching = None if reached is None else _reached(topology.into, pivot, topology.nodes)
    if reached is None or reaching is None:
        return np.zeros(0, np.int64)
    return np.flatnonzero(reached & reaching)


def _reached(edges: Neighbours, start: int, count: int) -> Mask | None:
    seen = np.zeros(count, np.bool_)
    seen[start] = True
    frontier = np.array([start])
    for _ in range(_ROUNDS):
        _, at = edges.at(frontier)
        reached = edges.targets[at]
        frontier = np.unique(reached[~seen[reached]])
        if not len(frontier):
            return seen
        seen[frontier] = True
    return None


@dataclass(slots=True)
class _Walk:
    """Where a walk by Tarjan is; arrays are seen through views that give plain numbers."""

    starts: memoryview
    targets: memoryview
    numbers: memoryview
    """When a node was met, from 1; 0 before."""
    lowest: memoryview
    cursors: memoryview
    labels: memoryview
    met: int = 0

    def from_root(self, root: int) -> None:
        """Label every component that is reached from a node and was not before."""
        path, open_nodes = [root], [root]
        self._meet(root)
        while path:
            node = path[-1]
            at = self.cursors[node]
            if at < self.starts[node + 1]:
                self.cursors[node] = at + 1
                self._follow(node, self.targets[at], path, open_nodes)
                continue
            path.pop()
            if path:
                above = path[-1]
                self.lowest[above] = min(self.lowest[above], self.lowest[node])
            if self.lowest[node] == self.numbers[node]:
                self._close(node, open_nodes)

    def _meet(self, node: int) -> None:
        self.met += 1
        self.numbers[node] = self.lowest[node] = self.met
        self.cursors[node] = self.starts[node]

    def _follow(self, node: int, target: int, path: list[int], open_nodes: list[int]) -> None:
        if not self.numbers[target]:
            self._meet(target)
            path.append(target)
            open_nodes.append(target)
        elif self.numbers[target] != _CLOSED:
            self.lowest[node] = min(self.lowest[node], self.numbers[target])

    def _close(self, node: int, open_nodes: list[int]) -> None:
        at = len(open_nodes) - 1
        while open_nodes[at] != node:
            at -= 1
        members = open_nodes[at:]
        del open_nodes[at:]
        smallest = min(members)
        for member in members:
            self.labels[member] = smallest
            self.numbers[member] = _CLOSED


_CLOSED: Final = 1 << 62
"""The number of a node whose component is known."""


def _walked(topology: Topology, left: Mask, labels: Numbers) -> Numbers:
    """The labels of the nodes that are left, node by node."""
    edges = topology.out
    blank = np.zeros(topology.nodes, np.int64)
    labels = labels.copy()
    walk = _Walk(
        starts=edges.starts.data,
        targets=edges.targets.data,
        numbers=blank.data,
        lowest=blank.copy().data,
        cursors=blank.copy().data,
        labels=labels.data,
    )
    for root in np.flatnonzero(left).tolist():
        if not walk.numbers[root]:
            walk.from_root(root)
    return labels
