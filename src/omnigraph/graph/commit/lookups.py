"""Answers the validator's questions from the tables of one captured state, and records them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.graph.commit.read_set import AllRows, Existence, OtherHolders, RowsById, RowsByText
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.graph.validation.committed import LOOKUP_KEYS
from omnigraph.storage.predicates import In

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import Endpoint
    from omnigraph.lang.catalog import EdgeType, NodeType

_ENDS = ("id", "src", "dst")


class TxnLookups:
    """Committed rows as one attempt to write sees them; every question goes to its read set."""

    lookup_keys: int | None = LOOKUP_KEYS

    def __init__(self, txn: WriteTxn) -> None:
        self._txn = txn

    def _is_empty(self, ref: TableRef) -> bool:
        """A first load asks very many questions of tables that have no rows."""
        return self._txn.line.pins[ref].row_count == 0

    def existing_ids(
        self, item: NodeType | EdgeType, ids: pa.Array[pa.StringScalar]
    ) -> pa.Array[pa.StringScalar]:
        """Those of the ids that are committed."""
        ref = ref_of(item)
        self._txn.read_set.ask(ref, Existence(ids))
        if self._is_empty(ref):
            return ids.slice(0, 0)
        return self._txn.store.existing_ids(self._txn.readable(ref), ids)

    def holders(self, item: NodeType | EdgeType, claims: pa.Table) -> pa.Table:
        """`id` and members of rows that hold a tuple of the claims, and maybe others."""
        ref = ref_of(item)
        self._txn.read_set.ask(ref, OtherHolders(claims))
        if self._is_empty(ref):
            return item.arrow_schema.empty_table().select(claims.column_names)
        first = next(name for name in claims.column_names if name != "id")
        values = claims[first].combine_chunks().unique()
        reader = self._txn.store.scan(
            self._txn.readable(ref),
            columns=claims.column_names,
            predicate=In(first, values),
        )
        return reader.read_all()

    def edges_by_id(self, item: EdgeType, ids: pa.Array[pa.StringScalar]) -> pa.Table:
        """Ends of the edges with these ids."""
        ref = ref_of(item)
        self._txn.read_set.ask(ref, RowsById(ids))
        return self._txn.store.take_ids(self._txn.readable(ref), ids, columns=list(_ENDS))

    def edges_at(
        self, item: EdgeType, endpoint: Endpoint, nodes: pa.Array[pa.StringScalar]
    ) -> pa.Table:
        """Ends of the edges at these nodes."""
        ref = ref_of(item)
        self._txn.read_set.ask(ref, RowsByText(endpoint, nodes))
        reader = self._txn.store.scan(
            self._txn.readable(ref),
            columns=list(_ENDS),
            predicate=In(endpoint, nodes),
        )
        return reader.read_all()

    def scan_edges(self, item: EdgeType) -> Iterable[pa.RecordBatch]:
        """Ends of all edges of the type."""
        ref = ref_of(item)
        self._txn.read_set.ask(ref, AllRows())
        return self._txn.store.scan(self._txn.readable(ref), columns=list(_ENDS))
