"""Blobs by row: those of many rows at once, and the one of an entity with what tells it apart.

What lies outside the graph is never opened: it is known by its address alone. Bytes are read only
when somebody asks a `Blob` for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.blobs import Blob
from omnigraph.storage.calls import StoreCalls
from omnigraph.storage.layout import column_of
from omnigraph.storage.predicates import In
from omnigraph.storage.reading import ROW_ID, scanner_filter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance.blob import BlobFile

    from omnigraph.storage.handles import TableHandle

BlobValue: TypeAlias = "Blob | str | None"
"""A value of the graph, the address of one outside it, or null."""

_CALLS: Final = StoreCalls()
_EXTERNAL_KIND: Final = 3
"""The kind by which Lance describes a value that is only an address."""

_CHANGED_AT: Final = "_row_last_updated_at_version"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobCell:
    """The blob of one entity."""

    value: BlobValue
    row_id: int
    changed_at: int
    """The version of the line in which the row got its present form."""


def blobs_of_rows(handle: TableHandle, row_ids: Sequence[int], name: str) -> list[BlobValue]:
    """The blobs of the rows with these row ids, in their order; every one must be in the table."""
    column = column_of(handle.layout, name)
    if not row_ids or column not in handle.dataset.schema.names:
        return [None] * len(row_ids)
    with _CALLS.making("describe_blobs", handle.layout.table_key):
        rows = handle.dataset._take_rows(  # noqa: SLF001 - `take` knows only positions
            pa.array(row_ids, pa.uint64()), columns=[column]
        )
    return _values(handle, column, row_ids, rows[column])


def blob_cell(handle: TableHandle, entity_id: str, name: str) -> BlobCell | None:
    """The blob of the row with this id, or `None` if there is no such row."""
    column = column_of(handle.layout, name)
    present = [column] if column in handle.dataset.schema.names else []
    wanted = pa.array([entity_id], pa.string())
    expression = scanner_filter(handle, In("id", wanted))
    with _CALLS.making("describe_blobs", handle.layout.table_key):
        rows = handle.dataset.to_table(
            columns=["id", ROW_ID, _CHANGED_AT, *present], filter=expression
        )
    if expression is None:  # The scanner takes no filter on this table.
        rows = rows.filter(pc.is_in(rows["id"], value_set=wanted))
    if not rows.num_rows:
        return None
    row_id = int(rows[ROW_ID][0].as_py())
    (value,) = _values(handle, column, [row_id], rows[column]) if present else (None,)
    return BlobCell(value=value, row_id=row_id, changed_at=int(rows[_CHANGED_AT][0].as_py()))


def _values(
    handle: TableHandle,
    column: str,
    row_ids: Sequence[int],
    described: pa.ChunkedArray[Any],  # Any: how Lance describes blobs
) -> list[BlobValue]:
    cells = described.to_pylist()
    values: list[BlobValue] = [
        cell["blob_uri"] if cell is not None and cell["kind"] == _EXTERNAL_KIND else None
        for cell in cells
    ]
    inside = [at for at, cell in enumerate(cells) if cell is not None and values[at] is None]
    if not inside:
        return values
    with _CALLS.making("open_blob", handle.layout.table_key):
        files = handle.dataset.take_blobs(column, ids=[row_ids[at] for at in inside])
        for at, file in zip(inside, files, strict=True):
            values[at] = None if file is None else _blob(file)
    return values


def _blob(file: BlobFile) -> Blob:
    return Blob(length=file.size(), uri=None, calls=_CALLS, file=file)
