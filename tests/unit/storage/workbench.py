"""A graph's tables on a local folder, with every foreign call recorded, for the tests beside it."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.clock import ManualClock
from omnigraph.ids import BranchId, OperationId, seeded_ids
from omnigraph.lang import NodeType, accept_schema, compile_schema
from omnigraph.storage.calls import StoreCall, StoreCalls
from omnigraph.storage.durability import LocalSync
from omnigraph.storage.handles import Pin, StagedWrite, TableHandle, TableLayout, WriteStamp
from omnigraph.storage.layout import layout_of
from omnigraph.storage.location import GraphLocation
from omnigraph.storage.predicates import Predicate
from omnigraph.storage.signals import ObjectMissing
from omnigraph.storage.table_store import TableStorage, TableStore

SCHEMA = """
node Doc {
  slug: String @key
  body: String? @index
  rank: I64?
  big: U64?
  level: enum(low, high)? @index
  data: Blob?
}
node Plain {
  rank: I64?
}
edge Cites: Doc -> Doc {
  note: String?
}
"""
STAMP = WriteStamp(operation_id=OperationId("01J0000000000000000000GRAPH"), kind="load")
FIRST = BranchId("01j00000000000000000000001")
SECOND = BranchId("01j00000000000000000000002")


class Recorder:
    """Sees every foreign call; `fault` may raise before one, or after it."""

    def __init__(self) -> None:
        self.calls: list[StoreCall] = []
        self.fault: Callable[[StoreCall], None] | None = None
        self.late_fault: Callable[[StoreCall], None] | None = None

    def before(self, call: StoreCall) -> None:
        self.calls.append(call)
        if self.fault is not None:
            self.fault(call)

    def after(self, call: StoreCall) -> None:
        if self.late_fault is not None:
            self.late_fault(call)

    def targets(self, operation: str) -> list[str]:
        """What the calls of one operation were made to, in order."""
        return [call.target for call in self.calls if call.operation == operation]


class Workbench:
    """The store, the layouts of `SCHEMA`, and short ways to fill and read tables."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.root.mkdir(exist_ok=True)
        self.location = GraphLocation(root=str(self.root), is_local=True)
        self.seen = Recorder()
        calls = StoreCalls(self.seen)
        self.store: TableStorage = TableStore(
            self.location,
            calls,
            LocalSync(self.root, calls),
            seeded_ids(7, ManualClock()),
            get=self.read_object,
            delete=lambda path: (self.root / path).unlink(missing_ok=True),
            delete_prefix=self.delete_prefix,
        )
        self.doc = layout("Doc")
        self.plain = layout("Plain")

    def read_object(self, relative: str) -> bytes:
        """What the adapter of the object store does."""
        try:
            return (self.root / relative).read_bytes()
        except FileNotFoundError as error:
            raise ObjectMissing(relative) from error

    def delete_prefix(self, relative: str) -> None:
        """What the adapter of the object store does: objects go, folders may stay."""
        for path in sorted((self.root / relative).rglob("*"), reverse=True):
            if path.is_file():
                path.unlink()

    def doc_table(self, *rows: Mapping[str, Any]) -> TableHandle:
        """A new `Doc` table with these rows."""
        return self.filled(self.doc, *rows)

    def filled(self, table: TableLayout, *rows: Mapping[str, Any]) -> TableHandle:
        """A new table with these rows, in one fragment."""
        handle = self.store.open(table, self.store.create_table(table))
        return self.land(self.store.stage_append(handle, rows_of(table, rows), STAMP))

    def land(self, staged: StagedWrite) -> TableHandle:
        """Commits every link."""
        handle = staged.base
        self.store.sync_staged(staged)
        for link in staged.links:
            handle = self.store.commit_staged(handle, link)
        return handle

    def append(self, handle: TableHandle, *rows: Mapping[str, Any]) -> TableHandle:
        """One more fragment."""
        return self.land(self.store.stage_append(handle, rows_of(handle.layout, rows), STAMP))

    def upsert(self, handle: TableHandle, *rows: Mapping[str, Any]) -> TableHandle:
        """Rows replaced or added by id."""
        return self.land(self.store.stage_merge_insert(handle, rows_of(handle.layout, rows), STAMP))

    def delete(self, handle: TableHandle, *ids: str) -> TableHandle:
        """Rows removed by id."""
        return self.land(self.store.stage_delete(handle, id_array(ids), STAMP))

    def forked(self, handle: TableHandle, branch_id: BranchId = FIRST) -> TableHandle:
        """The first version of a new line."""
        return self.store.open(handle.layout, self.store.fork(handle, branch_id))

    def heads(self, handle: TableHandle) -> tuple[int, int]:
        """The newest versions of the main line and of the handle's line."""
        return (
            self.store.head_version(handle.layout, None),
            self.store.head_version(handle.layout, handle.pin.branch),
        )

    def ids(self, handle: TableHandle, predicate: Predicate | None = None) -> list[str]:
        """The ids of the matching rows, sorted, duplicates kept."""
        found = self.store.scan(handle, columns=["id"], predicate=predicate).read_all()
        return sorted(str(each) for each in found["id"].to_pylist())

    def column(self, handle: TableHandle, name: str) -> dict[str, Any]:
        """The values of one property by id."""
        found = self.store.scan(handle, columns=["id", name]).read_all().to_pylist()
        return {row["id"]: row[name] for row in found}

    def pin(self, handle: TableHandle, version: int) -> Pin:
        """Another version of the handle's line."""
        pin = handle.pin
        return Pin(location=pin.location, branch=pin.branch, version=version)


def layout(name: str, source: str = SCHEMA) -> TableLayout:
    """The layout of one type of a schema, with the ids of a first acceptance."""
    catalog = accept_schema(compile_schema(source)).catalog
    found: NodeType | None = catalog.node_types.get(name)
    return layout_of(catalog.edge_types[name] if found is None else found)


def rows_of(table: TableLayout, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Rows of a table, absent properties null; a keyed row's slug is its id."""
    given = [dict(row) for row in rows]
    for row in given:
        if "slug" in table.schema.names:
            row.setdefault("slug", row["id"])
    return pa.Table.from_pylist(given, schema=table.schema)


def id_array(ids: Iterable[str]) -> "pa.Array[pa.StringScalar]":
    """Ids as the store takes them."""
    return pa.array(list(ids), pa.string())
