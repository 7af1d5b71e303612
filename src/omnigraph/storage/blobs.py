"""Blob values: their length, their address if they lie outside the graph, and their bytes.

A scan never reads a blob. One value is read in ranges; the values of many rows are read at once
only to be written again, when a row is updated and its blob is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InternalError
from omnigraph.storage.layout import column_of, schema_of
from omnigraph.storage.predicates import In
from omnigraph.storage.reading import Ids, chunks, scanner_filter
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance.blob import BlobFile

    from omnigraph.storage.calls import StoreCalls
    from omnigraph.storage.handles import TableHandle

STORED_BLOB = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
"""How rows carry a blob that may lie outside: bytes, or an address, or neither."""

_DESCRIBED = schema_of(id=pa.string(), row_id=pa.uint64(), length=pa.uint64(), uri=pa.string())
_EXTERNAL = pa.scalar(3, pa.uint8())
"""The kind by which Lance describes a value that is only an address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """One blob value of one row."""

    length: int
    uri: str | None
    """Where the bytes are, if the graph only holds their address."""

    calls: StoreCalls = field(repr=False, compare=False)
    file: BlobFile | None = field(repr=False, compare=False)
    """`None` for bytes elsewhere: nobody opens them."""

    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end`, fewer if the value ends before.

        Raises:
            InternalError: they lie outside the graph.
        """
        if self.file is None:
            raise InternalError("the bytes of a blob outside the graph are never read")
        with self.calls.making("read_blob", self.uri or "blob"):
            self.file.seek(start)
            return self.file.read(max(0, min(end, self.length) - start))


def blob(calls: StoreCalls, handle: TableHandle, entity_id: str, name: str) -> Blob | None:
    """The blob of one row, or `None` if it is null.

    Raises:
        ObjectMissing: there is no row with this id.
    """
    described = _descriptors(calls, handle, pa.array([entity_id], pa.string()), name)
    if not described.num_rows:
        raise ObjectMissing(f"{handle.layout.table_key} has no row {entity_id!r}")
    row = described.to_pylist()[0]
    if row["length"] is None:
        return None
    if row["uri"] is not None:
        return Blob(length=0, uri=row["uri"], calls=calls, file=None)
    with calls.making("open_blob", handle.layout.table_key):
        (file,) = handle.dataset.take_blobs(column_of(handle.layout, name), ids=[row["row_id"]])
        if file is None:
            return None
        return Blob(length=file.size(), uri=None, calls=calls, file=file)


def _descriptors(calls: StoreCalls, handle: TableHandle, ids: Ids, name: str) -> pa.Table:
    """`id`, `row_id`, `length` and `uri` of the blobs of these rows, without their bytes.

    `length` is null for a null blob; for one outside the graph it is 0, since nobody looked.
    """
    column = column_of(handle.layout, name)
    parts = []
    for chunk in chunks(ids):
        expression = scanner_filter(handle, In("id", chunk))
        with calls.making("describe_blobs", handle.layout.table_key):
            part = handle.dataset.to_table(columns=["id", "_rowid", column], filter=expression)
        if expression is None:  # The scanner takes no filter on this table.
            part = part.filter(pc.is_in(part["id"], value_set=chunk))
        parts.append(part)
    if not parts:
        return _DESCRIBED.empty_table()
    rows = pa.concat_tables(parts)
    described = rows[column].combine_chunks()
    if isinstance(described, pa.ExtensionArray):
        described = described.storage
    external = pc.equal(pc.struct_field(described, "kind"), _EXTERNAL)
    return pa.table(
        [
            rows["id"],
            rows["_rowid"],
            pc.struct_field(described, "size"),
            pc.if_else(external, pc.struct_field(described, "blob_uri"), None),
        ],
        schema=_DESCRIBED,
    )


def blob_lengths(calls: StoreCalls, handle: TableHandle, name: str) -> pa.Table:
    """`_rowid` and `length` of every row, without bytes; the length of a null blob is null."""
    column = column_of(handle.layout, name)
    with calls.making("describe_blobs", handle.layout.table_key):
        rows = handle.dataset.to_table(columns=["_rowid", column])
    described = rows[column].combine_chunks()
    if isinstance(described, pa.ExtensionArray):
        described = described.storage
    return pa.table({"_rowid": rows["_rowid"], "length": pc.struct_field(described, "size")})


def blob_bytes(calls: StoreCalls, handle: TableHandle, name: str, fragments: Sequence[int]) -> int:
    """The length of all blobs of a property in some fragments; those outside count as nothing."""
    column = column_of(handle.layout, name)
    if column not in handle.dataset.schema.names:
        return 0
    chosen = set(fragments)
    wanted = [
        fragment for fragment in handle.dataset.get_fragments() if fragment.fragment_id in chosen
    ]
    total = 0
    with calls.making("describe_blobs", handle.layout.table_key):
        for batch in handle.dataset.scanner(columns=[column], fragments=wanted).to_batches():
            described = batch.column(column)
            if isinstance(described, pa.ExtensionArray):
                described = described.storage
            total += pc.sum(pc.struct_field(described, "size")).as_py() or 0
    return total


def lost_blobs(calls: StoreCalls, handle: TableHandle, name: str) -> Iterator[str]:
    """For each file of blobs that is gone or cut short, the id of a row whose blob it holds.

    Reads one byte of each file: the last that any row of the version needs. Holds a few numbers for
    each file.
    """
    column = column_of(handle.layout, name)
    if column not in handle.dataset.schema.names:
        return
    ends: dict[tuple[int, ...], tuple[int, int, str]] = {}
    with calls.making("describe_blobs", handle.layout.table_key):
        for batch in handle.dataset.to_batches(columns=["id", "_rowid", "_rowaddr", column]):
            for file, end in _last_of_files(batch, column):
                ends[file] = max(end, ends.get(file, end))
    for _, row_id, entity_id in ends.values():
        if not _reaches_its_end(calls, handle, column, row_id):
            yield entity_id


def _last_of_files(
    batch: pa.RecordBatch, column: str
) -> Iterator[tuple[tuple[int, ...], tuple[int, int, str]]]:
    """Per file of blobs where the last one in it ends, with its row id and its entity."""
    described = batch.column(column)
    if isinstance(described, pa.ExtensionArray):
        described = described.storage
    kind, blob_id, position, size = (
        pc.struct_field(described, each).fill_null(0).to_numpy(zero_copy_only=False)
        for each in ("kind", "blob_id", "position", "size")
    )
    inside = np.flatnonzero((size > 0) & (kind != _EXTERNAL.as_py()))
    if not len(inside):
        return
    fragment = batch.column("_rowaddr").to_numpy() >> 32
    ends = position + size
    files = np.stack([fragment, kind, blob_id], axis=1)[inside]
    order = np.lexsort((ends[inside], *files.T))
    files, inside = files[order], inside[order]
    is_last = np.append(np.any(files[1:] != files[:-1], axis=1), [True])
    for at, file in zip(map(int, inside[is_last]), files[is_last], strict=True):
        row_id, entity_id = batch.column("_rowid")[at], batch.column("id")[at]
        yield tuple(map(int, file)), (int(ends[at]), int(row_id.as_py()), str(entity_id))


def _reaches_its_end(calls: StoreCalls, handle: TableHandle, column: str, row_id: int) -> bool:
    try:
        with calls.making("read_blob", handle.layout.table_key):
            (file,) = handle.dataset.take_blobs(column, ids=[row_id])
            if file is None:
                return False
            file.seek(file.size() - 1)
            return len(file.read(1)) == 1
    except ObjectMissing:
        return False


def stored_blobs(
    calls: StoreCalls, handle: TableHandle, ids: Ids, name: str
) -> pa.Array[pa.Scalar[pa.StructType]]:
    """The blobs of these rows as `STORED_BLOB`, in the order of the ids; absent rows give null.

    Holds all their bytes: whoever calls it has compared their lengths with the budget.
    """
    column = column_of(handle.layout, name)
    by_id: dict[str, dict[str, object]] = {}
    for row in _descriptors(calls, handle, ids, name).to_pylist():
        if row["length"] is None:
            continue
        data: bytes | None = None
        if row["uri"] is None:
            with calls.making("read_blob", handle.layout.table_key):
                (file,) = handle.dataset.take_blobs(column, ids=[row["row_id"]])
                data = None if file is None else file.read()
        by_id[row["id"]] = {"data": data, "uri": row["uri"]}
    values = [by_id.get(cast("str", entity_id)) for entity_id in ids.to_pylist()]
    return pa.array(values, STORED_BLOB)
