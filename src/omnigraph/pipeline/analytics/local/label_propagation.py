"""Label propagation: all nodes at once take the label that most edges bring, or the smallest.

An edge brings the label of its other end, whichever way it goes; parallel edges bring it each, a
loop brings none. A node without edges keeps its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from omnigraph.graph.arrays import Numbers
    from omnigraph.pipeline.analytics.local.steps import Tell
    from omnigraph.pipeline.analytics.local.topology import Topology
    from omnigraph.pipeline.analytics.measures import LabelPropagation


def label_propagation(topology: Topology, measure: LabelPropagation, tell: Tell) -> Numbers:
    """For each node the node whose label it has."""
    count = topology.nodes
    labels = np.arange(count)
    apart = topology.sources != topology.targets
    sources, targets = topology.sources[apart], topology.targets[apart]
    takers = np.concatenate((sources, targets))
    givers = np.concatenate((targets, sources))
    for step in range(measure.max_iter):
        tell(step, measure.max_iter)
        after = labels.copy()
        nodes, taken = _most_frequent(takers * count + labels[givers], count)
        after[nodes] = taken
        if np.array_equal(after, labels):
            break
        labels = after
    return labels


def _most_frequent(brought: Numbers, count: int) -> tuple[Numbers, Numbers]:
    """Of each node that is brought any the label that comes most often, the smallest of equals."""
    keys, times = np.unique(brought, return_counts=True)
    nodes, labels = np.divmod(keys, max(1, count))
    firsts = np.flatnonzero(np.diff(nodes, prepend=-1))
    if not len(firsts):
        return nodes, labels
    most = np.repeat(np.maximum.reduceat(times, firsts), np.diff(firsts, append=len(nodes)))
    is_most = times == most
    nodes, labels = nodes[is_most], labels[is_most]
    smallest = np.diff(nodes, prepend=-1) != 0
    return nodes[smallest], labels[smallest]
