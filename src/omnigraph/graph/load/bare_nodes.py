"""What a load says of nodes that it leaves without an edge which they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.graph.history.snapshot import snapshot_at
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.graph.validation.bare_nodes import (
    bare_nodes_text,
    count_bare,
    required_edges,
    stored_ids,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.rows import CommitRow, TableRef


def bare_node_warnings(
    graph: GraphCoordinator,
    txn: WriteTxn,
    row: CommitRow,
    *,
    mode: LoadMode,
    refs: Sequence[TableRef],
) -> Iterator[str]:
    """One for each edge type that nodes of the load lack.

    Args:
        graph: where it was loaded.
        txn: what it started from.
        row: its commit.
        mode: an overwrite of edges may leave any node without one.
        refs: the tables that it wrote.
    """
    catalog = txn.catalog
    for item in required_edges(catalog):
        node = catalog.node_types[item.from_type]
        takes_all = mode is LoadMode.OVERWRITE and ref_of(item) in refs
        if not takes_all and ref_of(node) not in refs:
            continue
        shown = snapshot_at(graph, graph.lines.read(txn.branch_id), row)
        edges, nodes = shown.handle(item), shown.handle(node)
        if takes_all:
            ids = stored_ids(graph.tables, nodes)
        else:
            changes = graph.tables.changed_since(nodes, txn.readable(ref_of(node)))
            ids = iter([changes.changed])
        count = count_bare(graph.tables, edges, ids)
        if count:
            yield bare_nodes_text(item, count)
