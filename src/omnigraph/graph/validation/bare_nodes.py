"""Nodes without an edge of a type that asks for at least one.

A write judges the sources whose edges it changes, so a node can come before its edges; what it must
not do is stay so in silence. Only nodes without any edge of the type are looked for: one that has
edges, and too few, was refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.arrays import column, one_array
from omnigraph.storage.predicates import In

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.graph.arrays import Column
    from omnigraph.lang.catalog import Catalog, EdgeType
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.table_store import TableStorage

_IDS_ASKED: Final = 8_192
"""So many ids are looked up by their edges; for more, all edges are read."""
IDS_HELD: Final = 1_000_000


def required_edges(catalog: Catalog) -> Iterator[EdgeType]:
    """The edge types of which a source must have one."""
    return (item for item in catalog.edge_types.values() if item.card[0])


def count_bare(store: TableStorage, edges: TableHandle, nodes: Iterable[Column]) -> int:
    """How many of these nodes no edge starts at; holds the ids of one part at a time."""
    return sum(_bare(store, edges, each) for each in nodes if len(each))


def stored_ids(store: TableStorage, nodes: TableHandle) -> Iterator[Column]:
    """The ids of a table, in parts that fit in memory."""
    held: list[pa.RecordBatch] = []
    for batch in store.scan(nodes, columns=["id"]):
        held.append(batch)
        if sum(each.num_rows for each in held) >= IDS_HELD:
            yield column(pa.Table.from_batches(held), "id")
            held = []
    if held:
        yield column(pa.Table.from_batches(held), "id")


def bare_nodes_text(item: EdgeType, count: int) -> str:
    """What is told of so many nodes."""
    low, high = item.card
    rule = f"@card({low}..{'' if high is None else high})"
    nodes = "1 node" if count == 1 else f"{count:,} nodes"
    has = "has" if count == 1 else "have"
    return f"{nodes} of {item.from_type} {has} no edge {item.name}, and {rule} asks for one or more"


def _bare(store: TableStorage, edges: TableHandle, ids: Column) -> int:
    predicate = In("src", ids) if len(ids) <= _IDS_ASKED else None
    found = [
        pc.filter(starts, pc.is_in(starts, value_set=ids)).unique()
        for batch in store.scan(edges, columns=["src"], predicate=predicate)
        for starts in [batch.column("src")]
    ]
    sources = one_array(pa.chunked_array(found, pa.string())).unique()
    return len(ids) - len(sources)
