"""PageRank by power iteration; the mass of nodes without an edge out is spread over all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from omnigraph.graph.arrays import Floats
    from omnigraph.pipeline.analytics.local.steps import Tell
    from omnigraph.pipeline.analytics.local.topology import Topology
    from omnigraph.pipeline.analytics.measures import PageRank


def pagerank(topology: Topology, measure: PageRank, tell: Tell) -> Floats:
    """The rank of each node; none for no nodes."""
    count = topology.nodes
    if not count:
        return np.zeros(0)
    leaving = np.bincount(topology.sources, minlength=count)
    is_dangling = leaving == 0
    shares = 1.0 / np.maximum(leaving, 1)
    ranks = np.full(count, 1.0 / count)
    for step in range(measure.max_iter):
        tell(step, measure.max_iter)
        given = (ranks * shares)[topology.sources]
        taken = np.bincount(topology.targets, weights=given, minlength=count)
        spread = ranks[is_dangling].sum() / count
        after = (1 - measure.damping) / count + measure.damping * (taken + spread)
        moved = np.abs(after - ranks).sum()
        ranks = after
        if moved < measure.tol:
            break
    return ranks
