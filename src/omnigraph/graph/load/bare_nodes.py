"""What a load says of nodes that it leaves without an edge which they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.graph.arrays import chosen, contained
from omnigraph.graph.history.snapshot import snapshot_at
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.graph.validation.bare_nodes import (
    bare_nodes_text,
    count_bare,
    required_edges,
    stored_ids,
)
from omnigraph.graph.validation.cardinality import without_edges
from omnigraph.graph.validation.delta import prepare_write
from omnigraph.graph.validation.relation_rules import CardinalityRule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from omnigraph.graph.arrays import Column
    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.rows import CommitRow, TableRef
    from omnigraph.graph.validation import CommittedRows, TableDelta
    from omnigraph.lang.catalog import EdgeType


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


def foreseen_bare_nodes(
    txn: WriteTxn,
    deltas: Iterable[TableDelta],
    committed: CommittedRows,
    changed: Callable[[TableDelta], Column],
) -> Iterator[tuple[EdgeType, int]]:
    """How many nodes of a load would lack an edge of a type that asks for one, by type.

    Args:
        txn: what it starts from.
        deltas: what it would do.
        committed: who answers for the rows that are there.
        changed: the ids of the nodes of a table that it would add or change.
    """
    write = prepare_write(txn.catalog, deltas, committed)
    for item in required_edges(txn.catalog):
        node = txn.catalog.node_types[item.from_type]
        rule = CardinalityRule(item=item, node=node)
        nodes, edges = write.delta(node), write.delta(item)
        parts = [] if nodes is None else [nodes.image.ids]
        if edges is not None and edges.replaces_all:
            if nodes is None or not nodes.replaces_all:
                stored = stored_ids(txn.store, txn.readable(ref_of(node)))
                parts += [
                    each if nodes is None else chosen(each, ~contained(each, nodes.touched))
                    for each in stored
                ]
        elif nodes is not None:
            parts = [changed(nodes)]
        yield item, sum(len(without_edges(write, rule, each)) for each in parts)
