"""Degrees: edges counted at their ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from omnigraph.graph.arrays import Numbers
    from omnigraph.pipeline.analytics.local.topology import Topology


def degrees(topology: Topology) -> tuple[Numbers, Numbers]:
    """How many edges lead to each node, and how many leave it."""
    return (
        np.bincount(topology.targets, minlength=topology.nodes),
        np.bincount(topology.sources, minlength=topology.nodes),
    )
