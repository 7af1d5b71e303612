"""Which way a walk is done: by probing the edge table, or over the topology in memory.

Both give the same rows. The choice is made from row counts of the manifest, and confirmed with the
real index coverage only when it falls on probing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import OmnigraphError
from omnigraph.lang.ir import ExpandDirection
from omnigraph.settings.values import TraversalMode

if TYPE_CHECKING:
    from omnigraph.engine.tables import QueryTable
    from omnigraph.settings.sections import QuerySettings

CSR_BUILD_FACTOR = 1.5
BYTES_PER_EDGE = 48
"""What a topology takes in memory, about, when every direction is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How a walk is done, and the figures that decided it."""

    mode: TraversalMode
    frontier_rows: int
    edge_rows: int
    source_rows: int
    indexed_cost: float
    csr_cost: float
    csr_cached: bool
    coverage: float | None = None
    """Of the probed columns, the worse of two; `None` if it was not asked for."""
    forced: str | None = None

    def why(self) -> dict[str, object]:
        """The JSON form."""
        out: dict[str, object] = {
            "frontier_rows": self.frontier_rows,
            "edge_rows": self.edge_rows,
            "source_rows": self.source_rows,
            "indexed_cost": self.indexed_cost,
            "csr_cost": self.csr_cost,
            "csr_cached": self.csr_cached,
        }
        if self.coverage is not None:
            out["coverage"] = self.coverage
        if self.forced is not None:
            out["forced"] = self.forced
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkShape:
    """What the choice depends on."""

    edges: QueryTable
    source_rows: int
    direction: ExpandDirection
    hops: int
    frontier_rows: int


def choose_mode(shape: WalkShape, settings: QuerySettings) -> Choice:
    """How to do the walk."""
    edges = shape.edges
    is_cached = edges.cached_graph_index() is not None
    fanout = edges.rows / max(1, shape.source_rows)
    csr_cost = 0.0 if is_cached else CSR_BUILD_FACTOR * edges.rows
    covered_cost = shape.hops * shape.frontier_rows * fanout

    def choice(
        mode: TraversalMode, indexed_cost: float, coverage: float | None, forced: str | None
    ) -> Choice:
        return Choice(
            mode=mode,
            frontier_rows=shape.frontier_rows,
            edge_rows=edges.rows,
            source_rows=shape.source_rows,
            indexed_cost=round(indexed_cost, 3),
            csr_cost=csr_cost,
            csr_cached=is_cached,
            coverage=coverage,
            forced=forced,
        )

    if settings.traversal_mode is not None:
        return choice(settings.traversal_mode, covered_cost, None, "OMNIGRAPH_TRAVERSAL_MODE")
    is_too_large = (
        edges.rows * BYTES_PER_EDGE > settings.topology_cache_bytes
        or edges.caches.topologies.is_too_large(edges.version)
    )
    if not is_cached and is_too_large:
        forced = "the topology is larger than OMNIGRAPH_TOPOLOGY_CACHE_BYTES"
        return choice(TraversalMode.INDEXED, covered_cost, None, forced)
    if (
        shape.hops > settings.expand_indexed_max_hops
        or shape.frontier_rows > settings.expand_indexed_max_frontier
        or covered_cost >= csr_cost
    ):
        return choice(TraversalMode.CSR, covered_cost, None, None)
    coverage = probe_coverage(edges, shape.direction)
    real_cost = covered_cost if coverage >= 1.0 else float(shape.hops * edges.rows)
    mode = TraversalMode.CSR if real_cost >= csr_cost else TraversalMode.INDEXED
    return choice(mode, real_cost, coverage, None)


def probe_coverage(edges: QueryTable, direction: ExpandDirection) -> float:
    """How much of the probed columns their indexes cover; 0 where that cannot be told."""
    columns = {
        ExpandDirection.OUT: ("src",),
        ExpandDirection.IN: ("dst",),
        ExpandDirection.BOTH: ("src", "dst"),
    }[direction]
    try:
        coverage = edges.coverage()
    except OmnigraphError:
        return 0.0
    return min(coverage.get((column, "BTree"), 0.0) for column in columns)
