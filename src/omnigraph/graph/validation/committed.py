"""The questions that validation asks about committed rows, and how many keys one question holds.

An implementation answers for one pinned snapshot and never sees more than its `lookup_keys` keys at
a time; the functions here cut, ask and join. Keys reach it distinct and without nulls; one that
takes any number of them gets them as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

import pyarrow as pa

from omnigraph.graph.arrays import column, distinct, no_texts, one_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.graph.arrays import Column
    from omnigraph.lang.catalog import EdgeType, NodeType

LOOKUP_KEYS: Final = 8_192
"""What a question by key holds at most."""

Endpoint: TypeAlias = Literal["src", "dst"]

EDGE_ENDS: Final = pa.schema(
    [pa.field(name, pa.utf8(), nullable=False) for name in ("id", "src", "dst")]
)
"""What a lookup of edges gives; more columns are allowed and not read."""


class CommittedRows(Protocol):
    """Lookups on the rows of one snapshot; a type without rows answers with nothing.

    Columns come in the types of the type's `arrow_schema`; ids and endpoints are `utf8`.
    """

    @property
    def lookup_keys(self) -> int | None:
        """How many keys one question may hold; `None` for any number, and any of them repeated."""
        ...

    def existing_ids(self, item: NodeType | EdgeType, ids: Column) -> Column:
        """Those of `ids` that are in the table, in any order, and maybe others that are there."""
        ...

    def holders(self, item: NodeType | EdgeType, claims: pa.Table) -> pa.Table:
        """`id` and members of the rows that hold one of the tuples which records are to have.

        `claims` has the id of the record and the members, none null. Rows that share only some
        members with a tuple may be among the answer.
        """
        ...

    def edges_by_id(self, item: EdgeType, ids: Column) -> pa.Table:
        """`id`, `src`, `dst` of the edges with these ids."""
        ...

    def edges_at(self, item: EdgeType, endpoint: Endpoint, nodes: Column) -> pa.Table:
        """`id`, `src`, `dst` of the edges that start (`src`) or end (`dst`) at one of the nodes."""
        ...

    def scan_edges(self, item: EdgeType) -> Iterable[pa.RecordBatch]:
        """`id`, `src`, `dst` of all edges of the type."""
        ...


def find_ids(committed: CommittedRows, item: NodeType | EdgeType, ids: Column) -> Column:
    """Those of `ids` that are committed, and maybe others that are."""
    chunks = [committed.existing_ids(item, keys) for keys in _chunks(committed, ids)]
    return one_array(pa.chunked_array(chunks, pa.utf8())) if chunks else no_texts()


def find_holders(committed: CommittedRows, item: NodeType | EdgeType, claims: pa.Table) -> pa.Table:
    """`id` and members of the committed rows that hold a tuple of the claims, and maybe others."""
    fields = [item.arrow_schema.field(name) for name in claims.column_names]
    wanted = pa.schema([part.with_nullable(nullable=True) for part in fields])
    most = committed.lookup_keys or claims.num_rows or 1
    tables = [
        committed.holders(item, claims.slice(start, most)).select(wanted.names).cast(wanted)
        for start in range(0, claims.num_rows, most)
    ]
    return pa.concat_tables(tables) if tables else wanted.empty_table()


def find_edges(committed: CommittedRows, item: EdgeType, ids: Column) -> pa.Table:
    """Ends of the committed edges with these ids."""
    return _ends(committed.edges_by_id(item, keys) for keys in _chunks(committed, ids))


def find_edges_at(
    committed: CommittedRows, item: EdgeType, endpoint: Endpoint, nodes: Column
) -> pa.Table:
    """Ends of the committed edges at these nodes."""
    return _ends(committed.edges_at(item, endpoint, keys) for keys in _chunks(committed, nodes))


def _chunks(committed: CommittedRows, keys: Column) -> Iterator[Column]:
    most = committed.lookup_keys
    if most is None:
        if len(keys):
            yield keys
        return
    keys = distinct(keys)
    for start in range(0, len(keys), most):
        yield keys.slice(start, most)


def _ends(tables: Iterable[pa.Table]) -> pa.Table:
    parts = [
        pa.Table.from_arrays([column(part, name) for name in EDGE_ENDS.names], schema=EDGE_ENDS)
        for part in tables
    ]
    return pa.concat_tables(parts) if parts else EDGE_ENDS.empty_table()
