"""Check 7: the number of edges of a type per source, by distinct edge id, on the final image.

Counted for each source that the write gives an edge, takes one from or moves one between; not for
sources that the write removes, nor for nodes that never had an edge of the type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.arrays import chosen, column, contained, distinct, is_given
from omnigraph.graph.validation.committed import find_edges, find_edges_at
from omnigraph.graph.validation.findings import Findings, Rows, masked_findings
from omnigraph.graph.validation.violation import Code, cardinality_violation

if TYPE_CHECKING:
    from omnigraph.graph.arrays import Column
    from omnigraph.graph.validation.delta import TableDelta, Write
    from omnigraph.lang.catalog import EdgeType


def cardinality_findings(
    write: Write, item: EdgeType, delta: TableDelta, *, limit: int
) -> Findings:
    """Sources of one edge type with too many or too few edges."""
    low, high = item.card
    if low == 0 and high is None:
        return Findings()
    sources = _touched_sources(write, item, delta)
    counts = _edges_per_source(write, item, delta, sources)
    failed = counts < low
    if high is not None:
        failed |= counts > high
    return masked_findings(
        Code.CARDINALITY_VIOLATION,
        failed,
        Rows(ids=sources, are_committed=True),
        lambda at, _: cardinality_violation(item, sources[at].as_py(), edges=int(counts[at])),
        limit=limit,
    )


def _touched_sources(write: Write, item: EdgeType, delta: TableDelta) -> Column:
    gained = delta.image.column("src")
    if delta.replaces_all:
        return _without_deleted(write, item, distinct(gained))
    lost = column(find_edges(write.committed, item, delta.touched), "src")
    return _without_deleted(write, item, distinct(pa.concat_arrays([gained, lost])))


def _without_deleted(write: Write, item: EdgeType, sources: Column) -> Column:
    nodes = write.delta(write.catalog.node_types[item.from_type])
    if nodes is None:
        return sources
    if nodes.replaces_all:
        return chosen(sources, contained(sources, nodes.image.ids))
    return chosen(sources, ~contained(sources, nodes.gone))


def _edges_per_source(
    write: Write, item: EdgeType, delta: TableDelta, sources: Column
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    written = delta.image.column("src")
    counts = _counted(chosen(written, is_given(written)), sources)
    if delta.replaces_all:
        return counts
    held = find_edges_at(write.committed, item, "src", sources)
    survives = ~contained(column(held, "id"), delta.touched)
    return counts + _counted(chosen(column(held, "src"), survives), sources)


def _counted(found: Column, sources: Column) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    at = pc.index_in(found, value_set=sources)
    known = at.drop_null().to_numpy(zero_copy_only=False)
    return np.bincount(known, minlength=len(sources)).astype(np.int64)
