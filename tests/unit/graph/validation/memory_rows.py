"""Committed rows in memory, for tests: the whole of `CommittedRows` over Arrow tables."""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from omnigraph.graph.arrays import Column, column, texts
from omnigraph.graph.validation import LOOKUP_KEYS, Endpoint, FittedRows, TableDelta, fit_rows
from omnigraph.lang import Catalog, EdgeType, NodeType

Record = Mapping[str, object]


def item_of(catalog: Catalog, name: str) -> NodeType | EdgeType:
    """The node type of that name, else the edge type."""
    if name in catalog.node_types:
        return catalog.node_types[name]
    return catalog.edge_types[name]


def rows_of(
    item: NodeType | EdgeType, records: Sequence[Record], *, lines: Sequence[int] | None = None
) -> FittedRows:
    """Records as fitted rows; absent members are null."""
    schema = item.arrow_schema
    table = pa.table(
        {
            name: pa.array([r.get(name) for r in records], schema.field(name).type)
            for name in schema.names
        }
    )
    return fit_rows(item, table, lines=None if lines is None else pa.array(lines, pa.int64()))


def delta_of(
    item: NodeType | EdgeType,
    records: Sequence[Record] = (),
    *,
    removed: Sequence[str] = (),
    strict: Sequence[str] = (),
    replaces_all: bool = False,
    repeats_edge_ids: bool = False,
) -> TableDelta:
    """A delta from records."""
    return TableDelta(
        rows=rows_of(item, records),
        removed=texts(removed),
        strict_ids=texts(strict),
        replaces_all=replaces_all,
        repeats_edge_ids=repeats_edge_ids,
    )


class MemoryRows:
    """Committed rows by (is edge, type name)."""

    lookup_keys: int | None = LOOKUP_KEYS

    def __init__(
        self, catalog: Catalog, records: Mapping[str, Sequence[Record]] | None = None
    ) -> None:
        self.tables = {
            _key(item_of(catalog, name)): rows_of(item_of(catalog, name), rows).table
            for name, rows in (records or {}).items()
        }
        self.questions: list[int] = []

    def put(self, item: NodeType | EdgeType, table: pa.Table) -> None:
        self.tables[_key(item)] = table

    def existing_ids(self, item: NodeType | EdgeType, ids: Column) -> Column:
        self.questions.append(len(ids))
        known = set(self._table(item).column("id").to_pylist())
        return texts(value for value in ids.to_pylist() if value in known)

    def holders(self, item: NodeType | EdgeType, claims: pa.Table) -> pa.Table:
        self.questions.append(claims.num_rows)
        names = [name for name in claims.column_names if name != "id"]
        wanted = set(zip(*(claims.column(name).to_pylist() for name in names), strict=True))
        table = self._table(item).select(["id", *names])
        held = zip(*(table.column(name).to_pylist() for name in names), strict=True)
        return table.filter(pa.array([one in wanted for one in held], pa.bool_()))

    def edges_by_id(self, item: EdgeType, ids: Column) -> pa.Table:
        return self._edges(item, "id", ids)

    def edges_at(self, item: EdgeType, endpoint: Endpoint, nodes: Column) -> pa.Table:
        return self._edges(item, endpoint, nodes)

    def scan_edges(self, item: EdgeType) -> Iterable[pa.RecordBatch]:
        return self._table(item).to_batches(max_chunksize=2)

    def _edges(self, item: EdgeType, name: str, keys: Column) -> pa.Table:
        self.questions.append(len(keys))
        wanted = set(keys.to_pylist())
        table = self._table(item).select(["id", "src", "dst"])
        mask = [value in wanted for value in table.column(name).to_pylist()]
        return table.filter(pa.array(mask, pa.bool_()))

    def _table(self, item: NodeType | EdgeType) -> pa.Table:
        return self.tables.get(_key(item), item.arrow_schema.empty_table())


class WholeRows(MemoryRows):
    """The same rows for any number of keys at a time, whose answers have more than was asked."""

    lookup_keys: int | None = None

    def existing_ids(self, item: NodeType | EdgeType, ids: Column) -> Column:
        self.questions.append(len(ids))
        return column(self._table(item), "id")


def _key(item: NodeType | EdgeType) -> tuple[bool, str]:
    return isinstance(item, EdgeType), item.name
