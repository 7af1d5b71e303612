"""Check 6: every edge of the final image joins two nodes of the final image.

Added and changed edges are looked up; committed edges are asked for only where a node goes away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

import pyarrow as pa

from omnigraph.graph.arrays import column, contained, is_given
from omnigraph.graph.validation.committed import EDGE_ENDS, Endpoint, find_edges_at
from omnigraph.graph.validation.findings import Findings, Rows, gather, masked_findings
from omnigraph.graph.validation.violation import Code, orphan_edge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.arrays import Column, Mask
    from omnigraph.graph.validation.delta import Write
    from omnigraph.lang.catalog import EdgeType, NodeType

_ENDPOINTS: Final[tuple[Endpoint, ...]] = get_args(Endpoint)


def endpoint_findings(write: Write, *, limit: int) -> Iterator[Findings]:
    """Edges of the write without their nodes, and committed edges that it would leave behind."""
    for item in sorted(write.catalog.edge_types.values(), key=lambda edge: edge.name):
        for endpoint in _ENDPOINTS:
            name = item.from_type if endpoint == "src" else item.to_type
            node = write.catalog.node_types[name]
            yield _written_edges(write, item, endpoint, node, limit=limit)
            yield from _left_behind(write, item, endpoint, node, limit=limit)


def _written_edges(
    write: Write, item: EdgeType, endpoint: Endpoint, node: NodeType, *, limit: int
) -> Findings:
    delta = write.delta(item)
    if delta is None:
        return Findings()
    ends = delta.image.column(endpoint)
    orphaned = is_given(ends) & ~write.has_nodes(node, ends)
    return _orphans(item, endpoint, delta.image.rows, ends, orphaned, limit)


def _left_behind(
    write: Write, item: EdgeType, endpoint: Endpoint, node: NodeType, *, limit: int
) -> Iterator[Findings]:
    nodes, edges = write.delta(node), write.delta(item)
    if nodes is None or (edges is not None and edges.replaces_all):
        return
    if nodes.replaces_all:
        found = (
            pa.Table.from_batches([batch.select(EDGE_ENDS.names)])
            for batch in write.committed.scan_edges(item)
        )
    elif len(nodes.gone):
        found = (find_edges_at(write.committed, item, endpoint, ids) for ids in [nodes.gone])
    else:
        return
    orphans = Findings()
    for table in found:
        ids, ends = column(table, "id"), column(table, endpoint)
        orphaned = ~write.has_nodes(node, ends)
        if edges is not None:
            orphaned &= ~contained(ids, edges.touched)
        more = _orphans(item, endpoint, Rows(ids=ids, are_committed=True), ends, orphaned, limit)
        orphans = gather((orphans, more), limit=limit)
    yield orphans


def _orphans(
    item: EdgeType, endpoint: Endpoint, rows: Rows, ends: Column, orphaned: Mask, limit: int
) -> Findings:
    return masked_findings(
        Code.ORPHAN_EDGE,
        orphaned,
        rows,
        lambda at, subject: orphan_edge(item, endpoint, subject, node_id=ends[at].as_py()),
        limit=limit,
    )
