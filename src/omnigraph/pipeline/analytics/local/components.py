"""Connected components: trees are hooked onto smaller neighbours, then edges join their roots.

No round depends on how long paths are: after each one, every tree that has a neighbour is joined to
another, or another to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from omnigraph.graph.arrays import Numbers
    from omnigraph.pipeline.analytics.local.topology import Topology


def connected_components(topology: Topology) -> Numbers:
    """For each node the smallest one of its component."""
    parents = np.arange(topology.nodes)
    one, other = topology.sources, topology.targets
    while True:
        one, other = parents[one], parents[other]
        apart = one != other
        one, other = one[apart], other[apart]
        if not len(one):
            return parents
        np.minimum.at(parents, np.maximum(one, other), np.minimum(one, other))
        parents = _roots(parents)


def _roots(parents: Numbers) -> Numbers:
    """Where each node ends up that goes from parent to parent."""
    while True:
        above = parents[parents]
        if np.array_equal(above, parents):
            return parents
        parents = above
