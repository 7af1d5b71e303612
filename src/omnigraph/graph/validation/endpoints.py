"""Check 6: every edge of the final image joins two nodes of the final image.

Added and changed edges are looked up; committed edges are asked for only where a node goes away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.graph.arrays import column, contained, is_given
from omnigraph.graph.validation.committed import EDGE_ENDS, find_edges_at
from omnigraph.graph.validation.findings import Findings, Rows, gather, masked_findings

if TYPE_CHECKING:
    from omnigraph.graph.arrays import Column, Mask
    from omnigraph.graph.validation.delta import Write
    from omnigraph.graph.validation.relation_rules import EndpointRule, EndRule, KeptEndRule


def end_findings(write: Write, rule: EndRule, *, limit: int) -> Findings:
    """Edges of the write without their nodes."""
    image = write.delta_of(rule.item).image
    ends = image.column(rule.endpoint)
    orphaned = is_given(ends) & ~write.has_nodes(rule.asked, ends)
    return _orphans(rule, image.rows, ends, orphaned, limit)


def kept_end_findings(write: Write, rule: KeptEndRule, *, limit: int) -> Findings:
    """Committed edges that the write would leave behind."""
    nodes, edges = write.delta_of(rule.node), write.delta(rule.item)
    if edges is not None and edges.replaces_all:
        return Findings()
    if nodes.replaces_all:
        tables = (
            pa.Table.from_batches([batch.select(EDGE_ENDS.names)])
            for batch in write.committed.scan_edges(rule.asked)
        )
    elif len(nodes.gone):
        tables = (
            find_edges_at(write.committed, rule.asked, rule.endpoint, ids) for ids in [nodes.gone]
        )
    else:
        return Findings()
    orphans = Findings()
    for table in tables:
        ids, ends = column(table, "id"), column(table, rule.endpoint)
        orphaned = ~write.has_nodes(rule.node, ends)
        if edges is not None:
            orphaned &= ~contained(ids, edges.touched)
        more = _orphans(rule, Rows(ids=ids, are_committed=True), ends, orphaned, limit)
        orphans = gather((orphans, more), limit=limit)
    return orphans


def _orphans(rule: EndpointRule, rows: Rows, ends: Column, orphaned: Mask, limit: int) -> Findings:
    return masked_findings(
        rule.code,
        orphaned,
        rows,
        lambda at, subject: rule.violation(subject, node_id=ends[at].as_py()),
        limit=limit,
    )
