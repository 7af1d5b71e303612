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

if TYPE_CHECKING:
    from omnigraph.graph.arrays import Column
    from omnigraph.graph.validation.delta import TableDelta, Write
    from omnigraph.graph.validation.relation_rules import CardinalityRule


def cardinality_findings(write: Write, rule: CardinalityRule, *, limit: int) -> Findings:
    """Sources of one edge type with too many or too few edges."""
    delta = write.delta_of(rule.item)
    sources = _touched_sources(write, rule, delta)
    counts = _edges_per_source(write, rule, delta, sources)
    failed = counts < rule.low
    if rule.high is not None:
        failed |= counts > rule.high
    return masked_findings(
        rule.code,
        failed,
        Rows(ids=sources, are_committed=True),
        lambda at, _: rule.violation(sources[at].as_py(), edges=int(counts[at])),
        limit=limit,
    )


def without_edges(write: Write, rule: CardinalityRule, nodes: Column) -> Column:
    """Those of the nodes that no edge of the type starts at once the write is done."""
    delta = write.delta(rule.item)
    starts: list[Column] = [] if delta is None else [delta.image.column("src")]
    if delta is None or not delta.replaces_all:
        held = find_edges_at(write.committed, rule.asked, "src", nodes)
        if delta is not None:
            held = held.filter(pa.array(~contained(column(held, "id"), delta.touched)))
        starts.append(column(held, "src"))
    return chosen(nodes, ~contained(nodes, pa.concat_arrays(starts)))


def _touched_sources(write: Write, rule: CardinalityRule, delta: TableDelta) -> Column:
    gained = delta.image.column("src")
    if delta.replaces_all:
        return _without_deleted(write, rule, distinct(gained))
    lost = column(find_edges(write.committed, rule.asked, delta.touched), "src")
    return _without_deleted(write, rule, distinct(pa.concat_arrays([gained, lost])))


def _without_deleted(write: Write, rule: CardinalityRule, sources: Column) -> Column:
    nodes = write.delta(rule.node)
    if nodes is None:
        return sources
    if nodes.replaces_all:
        return chosen(sources, contained(sources, nodes.image.ids))
    return chosen(sources, ~contained(sources, nodes.gone))


def _edges_per_source(
    write: Write, rule: CardinalityRule, delta: TableDelta, sources: Column
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    written = delta.image.column("src")
    counts = _counted(chosen(written, is_given(written)), sources)
    if delta.replaces_all:
        return counts
    held = find_edges_at(write.committed, rule.asked, "src", sources)
    survives = ~contained(column(held, "id"), delta.touched)
    return counts + _counted(chosen(column(held, "src"), survives), sources)


def _counted(starts: Column, sources: Column) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    at = pc.index_in(starts, value_set=sources)
    known = at.drop_null().to_numpy(zero_copy_only=False)
    return np.bincount(known, minlength=len(sources)).astype(np.int64)
