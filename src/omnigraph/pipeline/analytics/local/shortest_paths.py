"""Distances from one node: breadth first, or by adding weights that are not negative.

Only nodes that came nearer are looked at again, so a round costs what their edges do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import numpy as np

from omnigraph.pipeline.analytics.measures import Direction

if TYPE_CHECKING:
    from omnigraph.graph.arrays import Floats
    from omnigraph.pipeline.analytics.local.topology import Neighbours, Topology


def distances(topology: Topology, start: int, direction: Direction) -> Floats:
    """How far each node is; infinite where none leads."""
    edges = _edges(topology, direction)
    far = np.full(topology.nodes, np.inf)
    far[start] = 0.0
    nearer = np.array([start])
    while len(nearer):
        which, at = edges.at(nearer)
        steps = 1.0 if edges.weights is None else edges.weights[at]
        with np.errstate(over="ignore"):
            lengths = far[nearer][which] + steps
        reached = edges.targets[at]
        is_nearer = lengths < far[reached]
        reached, lengths = reached[is_nearer], lengths[is_nearer]
        np.minimum.at(far, reached, lengths)
        nearer = np.unique(reached)
    return far


def _edges(topology: Topology, direction: Direction) -> Neighbours:
    match direction:
        case Direction.OUT:
            return topology.out
        case Direction.IN:
            return topology.into
        case Direction.BOTH:
            return topology.both
        case _:
            assert_never(direction)
