"""The tables of a query's snapshot: rows by predicate, by id and by row id, read as it pays.

Every read polls the query's budget. Columns that were read for a whole table are kept for the rest
of the query, so a second use costs a lookup.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph.engine.moved_caches import moved_topology, moved_type
from omnigraph.engine.runtime_cache import Kept, TableVersion
from omnigraph.graph.arrays import one_array, row_ids_of, text_array
from omnigraph.graph.query.topology import (
    ABSENT,
    GraphIndex,
    RowNumbers,
    TypeIndex,
    build_graph_index,
    build_type_index,
)
from omnigraph.lang.catalog import NodeType
from omnigraph.lang.types import Scalar
from omnigraph.storage.predicates import And, In
from omnigraph.storage.reading import IDS_PER_LOOKUP, ROW_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from omnigraph.engine.caches import EngineCaches
    from omnigraph.engine.hot_columns import PropertyKey
    from omnigraph.engine.warming import Warmer
    from omnigraph.graph.arrays import Ids, RowIds, Values
    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.graph.query.budget import Budget
    from omnigraph.lang import EdgeType
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.predicates import Predicate
    from omnigraph.storage.table_storage import TableStorage

SCAN_INSTEAD_OF_TAKE = 16
"""Reading more than one row in this many is cheaper as a scan of the columns."""


@dataclass(kw_only=True)
class QueryTable:
    """One table at the snapshot's version."""

    item: NodeType | EdgeType
    handle: TableHandle
    rows: int
    store: TableStorage
    budget: Budget
    caches: EngineCaches
    warmer: Warmer | None = None
    """Told of reads that a column in memory would have spared."""

    hot_reads: set[str] = field(default_factory=set)
    """The properties that were read from memory."""

    _scanned: dict[str, Values] = field(default_factory=dict)
    _scanned_at: RowNumbers | None = None

    def with_budget(self, budget: Budget) -> QueryTable:
        """The same table, read for somebody else."""
        return QueryTable(
            item=self.item,
            handle=self.handle,
            rows=self.rows,
            store=self.store,
            budget=budget,
            caches=self.caches,
        )

    @cached_property
    def version(self) -> TableVersion:
        """The key of this table in caches."""
        return TableVersion.of(self.handle)

    def column_key(self, name: str) -> tuple[TableVersion, int]:
        """The key of a property in caches: a rename changes no version, and no id."""
        return self.version, self.handle.layout.property_ids[name]

    @cached_property
    def identity(self) -> str | None:
        """The property whose value is the id: the only member of the key, if it is a text."""
        key = self.item.key if isinstance(self.item, NodeType) else None
        if key is None or len(key) != 1 or not self.item.properties[key[0]].type.is_text:
            return None
        return key[0]

    def hot(self, names: Iterable[str]) -> dict[str, Values]:
        """Of these properties those that are in memory: a value for each row, in order of ids."""
        columns, ids = self.caches.columns, self.handle.layout.property_ids
        out: dict[str, Values] = {}
        for name in names:
            number = ids.get(name)
            values = None if number is None else columns.find(self.version, number)
            # One version is read with every schema that it fits; a type may differ between them.
            if values is not None and values.type == self.handle.layout.schema.field(name).type:
                out[name] = values
        self.hot_reads.update(out)
        return out

    def holds(self, names: Iterable[str]) -> bool:
        """Whether all of these columns can be read from memory in the order of the numbering."""
        wanted = {name for name in names if name not in ("id", self.identity)}
        if not wanted and self.identity is None:
            return self.cached_type_index() is not None
        # The numbering comes first: moving it to this version is what moves the columns.
        return self.cached_type_index() is not None and len(self.hot(wanted)) == len(wanted)

    def note_read(self, names: Iterable[str], rows: int) -> None:
        """So many rows of some properties were read from storage."""
        if self.warmer is not None and isinstance(self.item, NodeType):
            self.warmer.read(self, names, rows)

    def load_hot(self, name: str) -> bool:
        """Have a property in memory; whether it is. One that turns out too wide stays away."""
        columns, number = self.caches.columns, self.handle.layout.property_ids.get(name)
        if number is None or not columns.most_bytes or not self.item.properties[name].type.is_plain:
            return False
        # Numbering this version may carry the column over from an older one.
        index = self.type_index()
        if self.hot([name]):
            return True
        most_bytes = columns.most_of(self.rows)
        reader = self.store.scan(self.handle, columns=[name], with_row_ids=True)
        batches: list[pa.RecordBatch] = []
        size_bytes = 0
        for batch in reader:
            self.budget.check()
            batches.append(batch)
            size_bytes += batch.column(name).nbytes
            if size_bytes > most_bytes:
                columns.refuse(self.property_key(number))
                return False
        rows = pa.Table.from_batches(batches, reader.schema)
        at = RowNumbers(row_ids_of(rows[ROW_ID])).find(index.row_ids)
        if len(at) != rows.num_rows or (at == ABSENT).any():
            return False
        columns.keep(self.version, {number: one_array(rows[name]).take(pa.array(at, pa.int64()))})
        return True

    def property_key(self, number: int) -> PropertyKey:
        """A property of any version of this table, by its id."""
        return self.version.table_id, self.version.incarnation, number

    def scan(
        self,
        columns: Sequence[str],
        predicate: Predicate | None = None,
        *,
        with_row_ids: bool = False,
    ) -> pa.Table:
        """The matching rows."""
        self.budget.check()
        reader = self.store.scan(
            self.handle, columns=columns, predicate=predicate, with_row_ids=with_row_ids
        )
        batches: list[pa.RecordBatch] = []
        for batch in reader:
            batches.append(batch)
            self.budget.charge(batch.nbytes, f"a read of {self.item.name}")
        return pa.Table.from_batches(batches, reader.schema)

    def lookup(
        self,
        ids: Ids,
        columns: Sequence[str],
        *,
        key: str = "id",
        predicate: Predicate | None = None,
    ) -> pa.Table:
        """The rows whose `key` is one of the ids, and that match, with row ids, in no order."""
        # One that is empty reads no row and tells the types of the columns.
        wanted = [
            In(key, ids.slice(start, IDS_PER_LOOKUP))
            for start in range(0, max(1, len(ids)), IDS_PER_LOOKUP)
        ]
        return pa.concat_tables(
            self.scan(
                columns,
                each if predicate is None else And((each, predicate)),
                with_row_ids=True,
            )
            for each in wanted
        )

    def take(self, row_ids: RowIds, columns: Sequence[str]) -> dict[str, Values]:
        """The columns of the rows with these row ids, in their order."""
        names = list(dict.fromkeys(columns))
        if not names:
            return {}
        blobs = [name for name in names if self._is_blob(name)]
        if blobs:
            rest = self.take(row_ids, [name for name in names if name not in blobs])
            return rest | {name: self._blob_lengths(row_ids, name) for name in blobs}
        if len(row_ids) * SCAN_INSTEAD_OF_TAKE <= self.rows and not self._has(names):
            self.budget.check()
            rows = self.store.take_rows(self.handle, pa.array(row_ids, pa.uint64()), names)
            self.budget.charge(rows.nbytes, f"a read of {self.item.name}")
            self.note_read(names, len(row_ids))
            return {name: one_array(rows[name]) for name in names}
        at = self._scan_all(names).find(row_ids)
        return {name: self._scanned[name].take(at) for name in names}

    def _is_blob(self, name: str) -> bool:
        declared = self.item.properties.get(name)
        return declared is not None and declared.type.scalar is Scalar.BLOB

    def _blob_lengths(self, row_ids: RowIds, name: str) -> Values:
        """All that a match may know of blobs: which of them are null."""
        self.budget.check()
        rows = self.store.blob_lengths(self.handle, name)
        self.budget.charge(rows.nbytes, f"a read of {self.item.name}")
        return one_array(rows["length"]).take(RowNumbers(row_ids_of(rows[ROW_ID])).find(row_ids))

    def _has(self, names: Sequence[str]) -> bool:
        return all(name in self._scanned for name in names)

    def _scan_all(self, names: Sequence[str]) -> RowNumbers:
        """Read columns of all rows, those that are not there yet; tells where each row is."""
        missing = [name for name in names if name not in self._scanned]
        if not missing and self._scanned_at is not None:
            return self._scanned_at
        rows = self.scan(missing, with_row_ids=True)
        self.note_read(missing, rows.num_rows)
        row_ids = row_ids_of(rows[ROW_ID])
        order = None
        if self._scanned_at is None:
            self._scanned_at = RowNumbers(row_ids)
        else:
            # Another scan may give the rows in another order.
            order = np.argsort(self._scanned_at.find(row_ids), kind="stable")
        for name in missing:
            values = one_array(rows[name])
            self._scanned[name] = values if order is None else values.take(order)
        return self._scanned_at

    def coverage(self) -> dict[tuple[str, str], float]:
        """By property and kind of index: the part of the rows that it covers."""
        key = self.version, tuple(self.handle.layout.property_ids.items())
        coverage = self.caches.coverage.get(key)
        if coverage is None:
            coverage = {
                (index.property_name, index.kind): index.rows_covered / index.rows
                if index.rows
                else 1.0
                for index in self.store.index_coverage(self.handle)
                if index.property_name is not None
            }
            self.caches.keep_coverage(key, coverage)
        return coverage

    def type_index(self) -> TypeIndex:
        """All rows, numbered by id; kept between queries."""
        return self.caches.types.obtain(self.version, self._new_type_index).entry

    def cached_type_index(self, *, is_moved: bool = True) -> TypeIndex | None:
        """The same, if it is there, or can be made of that of an older version."""
        types = self.caches.types
        if is_moved:
            kept = types.attempt(self.version, lambda: moved_type(self))
        else:
            kept = types.peek(self.version)
        return None if kept is None else kept.entry

    def _new_type_index(self) -> Kept[TypeIndex]:
        moved = moved_type(self)
        if moved is not None:
            return moved
        rows = self.scan(["id"], with_row_ids=True)
        index = build_type_index(text_array(rows["id"]), row_ids_of(rows[ROW_ID]))
        return Kept(entry=index, handle=self.handle)

    def cached_graph_index(self) -> GraphIndex | None:
        """The topology of this edge type, if it is there, or can be made of an older one."""
        kept = self.caches.topologies.attempt(self.version, lambda: moved_topology(self))
        return None if kept is None else kept.entry

    def graph_index(self, *, is_same_type: bool) -> GraphIndex:
        """The topology of this edge type; kept between queries."""

        def build() -> Kept[GraphIndex]:
            moved = moved_topology(self)
            if moved is not None:
                return moved
            rows = self.scan(["src", "dst"])
            src, dst = text_array(rows["src"]), text_array(rows["dst"])
            index = build_graph_index(src, dst, is_same_type=is_same_type)
            return Kept(entry=index, handle=self.handle)

        return self.caches.topologies.obtain(self.version, build).entry


@dataclass(kw_only=True)
class QueryTables:
    """The tables of one snapshot, as one query reads them."""

    snapshot: Snapshot
    store: TableStorage
    budget: Budget
    caches: EngineCaches
    warmer: Warmer | None = None
    _opened: dict[str, QueryTable] = field(default_factory=dict)

    def node(self, name: str) -> QueryTable:
        """The table of a node type."""
        return self._open(f"node:{name}", self.snapshot.catalog.node_types[name])

    def edge(self, name: str) -> QueryTable:
        """The table of an edge type."""
        return self._open(f"edge:{name}", self.snapshot.catalog.edge_types[name])

    def hot_reads(self) -> list[str]:
        """The properties that were read from memory, as `Type.property`."""
        tables = self._opened.values()
        return sorted(f"{table.item.name}.{name}" for table in tables for name in table.hot_reads)

    def _open(self, key: str, item: NodeType | EdgeType) -> QueryTable:
        table = self._opened.get(key)
        if table is None:
            table = QueryTable(
                item=item,
                handle=self.snapshot.handle(item),
                rows=self.snapshot.count(key),
                store=self.store,
                budget=self.budget,
                caches=self.caches,
                warmer=self.warmer,
            )
            self._opened[key] = table
        return table
