"""The committed rows that a load of some columns completes its rows from.

Whatever is read here belongs to the read set of the load: a writer that changes one of these rows
meanwhile makes it complete them again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.graph.arrays import row_ids_of, text_array
from omnigraph.storage.blob_rows import blobs_of_rows
from omnigraph.storage.blobs import STORED_BLOB, Blob
from omnigraph.storage.predicates import In
from omnigraph.storage.reading import IDS_PER_LOOKUP, ROW_ID

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.graph.arrays import Column, Ids
    from omnigraph.lang.catalog import EdgeType, NodeType
    from omnigraph.storage.blob_rows import BlobValue
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.table_storage import TableStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedValues:
    """Rows of one captured state, by id."""

    store: TableStorage
    table: Callable[[NodeType | EdgeType], TableHandle]
    must_exist: bool
    """A row that is not committed breaks a rule."""
    asked: Callable[[NodeType | EdgeType, Ids], None] | None = None
    """Told which rows the outcome depends on."""

    def find(self, item: NodeType | EdgeType, ids: Column) -> pa.Table:
        """The rows of these ids that are committed, whole, each once."""
        wanted, handle = text_array(ids), self.table(item)
        if self.asked is not None:
            self.asked(item, wanted)
        blobs = handle.layout.blobs
        plain = [name for name in item.arrow_schema.names if name not in blobs]
        parts = [
            self.store.scan(
                handle,
                columns=plain,
                predicate=In("id", wanted.slice(start, IDS_PER_LOOKUP)),
                with_row_ids=bool(blobs),
            ).read_all()
            for start in range(0, len(wanted), IDS_PER_LOOKUP)
        ]
        fields = [item.arrow_schema.field(name) for name in plain]
        if not parts:
            return pa.schema(fields).empty_table()
        rows = pa.concat_tables(parts)
        columns: dict[str, Any] = {name: rows[name] for name in plain}  # Any: of every type
        for name in sorted(blobs):
            row_ids = row_ids_of(rows[ROW_ID]).tolist()
            cells = [_stored(value) for value in blobs_of_rows(handle, row_ids, name)]
            columns[name] = pa.array(cells, STORED_BLOB)
        return pa.table(columns)


def _stored(value: BlobValue) -> dict[str, object] | None:
    if isinstance(value, Blob):
        return {"data": value.read(0, value.length), "uri": None}
    return None if value is None else {"data": None, "uri": value}
