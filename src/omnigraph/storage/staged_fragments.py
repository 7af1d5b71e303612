"""Parts of a large write that many processes make and one puts together.

A piece is plain metadata that can be pickled: whoever wrote the files hands it to the driver, and
only the driver builds the transaction. Files of pieces can be read before they are committed, as a
detached version.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance import LanceOperation, Transaction
from lance.fragment import FragmentMetadata

from omnigraph.errors import InternalError
from omnigraph.ids import new_link_uuid
from omnigraph.storage import lance_writes, sizes
from omnigraph.storage.blob_rows import blobs_of_rows
from omnigraph.storage.blobs import STORED_BLOB, blob_bytes
from omnigraph.storage.files import line_folder, written_files
from omnigraph.storage.handles import Pin, TableHandle
from omnigraph.storage.layout import batches_of
from omnigraph.storage.reading import ROW_ID, ScanOptions, integers, scan, take_rows
from omnigraph.storage.transactions import nothing, staged
from omnigraph.storage.writes import (
    append_fragments,
    merge_stream,
    overwrite_with_fragments,
    stage_merge_insert,
    write_rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from omnigraph.storage.blob_rows import BlobValue
    from omnigraph.storage.handles import StagedWrite, WriteStamp
    from omnigraph.storage.sizes import FragmentInfo
    from omnigraph.storage.transactions import Writing
    from omnigraph.storage.writes import Rows

Mask: TypeAlias = npt.NDArray[np.bool_]

_BLOBS_AT_ONCE: Final = 1 << 10
_BLOB_BYTES: Final = 32 << 20
"""Rows whose blobs are opened, and bytes of them that are held, while rows are written again."""

_BATCH_BYTES: Final = 8 << 20
_ROWS_AT_ONCE: Final = 1 << 12
"""How much is read at once of rows that are copied."""


class PieceKind(StrEnum):
    """What the pieces add up to."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    UPDATE = "update"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """Fragments that were written, and what became of older ones."""

    added: tuple[FragmentMetadata, ...] = ()
    """New rows, which get their row ids at the commit."""

    changed: tuple[FragmentMetadata, ...] = ()
    """New forms of existing rows, which bring their row ids."""

    updated: tuple[FragmentMetadata, ...] = ()
    """Fragments of the table, with more of their rows deleted."""

    emptied: tuple[int, ...] = ()
    """Fragments of the table that have no row left."""

    rows_deleted: int = 0


def pieces_to_json(pieces: Pieces) -> list[str]:
    """New rows that were written, as text that outlives the process."""
    return [json.dumps(fragment.to_json()) for fragment in pieces.added]


def pieces_from_json(texts: Iterable[str]) -> Pieces:
    """The pieces of `pieces_to_json`."""
    return Pieces(added=tuple(FragmentMetadata.from_json(text) for text in texts))


def join_pieces(parts: Iterable[Pieces]) -> Pieces:
    """All pieces as one."""
    joined = list(parts)
    return Pieces(
        added=tuple(fragment for part in joined for fragment in part.added),
        changed=tuple(fragment for part in joined for fragment in part.changed),
        updated=tuple(fragment for part in joined for fragment in part.updated),
        emptied=tuple(number for part in joined for number in part.emptied),
        rows_deleted=sum(part.rows_deleted for part in joined),
    )


def write_pieces(
    writing: Writing, handle: TableHandle, rows: Rows, *, rows_per_file: int | None
) -> Pieces:
    """Data files of new rows."""
    return Pieces(added=tuple(write_rows(writing, handle, rows, rows_per_file=rows_per_file)))


def write_changed(
    writing: Writing, handle: TableHandle, rows: Rows, row_ids: Sequence[int]
) -> Pieces:
    """Data files of new forms of the rows with these row ids, which come in ascending order.

    A blob that `rows` leaves out is kept: it is read for some rows at a time.
    """
    whole = _with_kept_blobs(handle, rows, row_ids) if handle.layout.blobs else rows
    fragments = write_rows(writing, handle, whole)
    return Pieces(changed=tuple(lance_writes.numbered(fragments, row_ids)))


def _with_kept_blobs(
    handle: TableHandle, rows: Rows, row_ids: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in batches_of(rows):
        left_out = sorted(handle.layout.blobs - set(batch.schema.names))
        step = _BLOBS_AT_ONCE if left_out else max(batch.num_rows, 1)
        for at in range(0, batch.num_rows, step):
            part = batch.slice(at, step)
            held = row_ids[start : start + part.num_rows]
            start += part.num_rows
            blobs = {name: blobs_of_rows(handle, held, name) for name in left_out}
            yield from _joined(part, blobs)


def whole_rows(
    writing: Writing, handle: TableHandle, row_ids: pa.Array[pa.UInt64Scalar] | None
) -> Iterator[pa.RecordBatch]:
    """Rows with their blobs, a few at a time: all of them, or those with these row ids."""
    blobs = handle.layout.blobs
    plain = [name for name in handle.layout.schema.names if name not in blobs]
    if row_ids is None:
        options = ScanOptions(columns=plain, batch_bytes=_BATCH_BYTES, with_row_ids=bool(blobs))
        for batch in scan(writing.reads, handle, options):
            if not blobs:
                yield batch
                continue
            held = integers(batch[ROW_ID])
            yield from _with_kept_blobs(handle, [batch.select(plain)], held)
        return
    for start in range(0, len(row_ids), _ROWS_AT_ONCE):
        part = row_ids[start : start + _ROWS_AT_ONCE]
        rows = take_rows(writing.reads, handle, part, plain, is_once=True)
        if blobs:
            yield from _with_kept_blobs(handle, rows, integers(part))
        else:
            yield from rows.to_batches()


def _joined(
    rows: pa.RecordBatch, blobs: Mapping[str, Sequence[BlobValue]]
) -> Iterator[pa.RecordBatch]:
    """The rows with their blobs, in batches that hold few bytes of them."""
    start = held_bytes = 0
    for at in range(rows.num_rows):
        held_bytes += sum(_length(values[at]) for values in blobs.values())
        if held_bytes >= _BLOB_BYTES or at == rows.num_rows - 1:
            part = rows.slice(start, at + 1 - start)
            for name, values in blobs.items():
                cells = [_stored(value) for value in values[start : at + 1]]
                part = part.append_column(pa.field(name, STORED_BLOB), pa.array(cells, STORED_BLOB))
            yield part
            start, held_bytes = at + 1, 0


def _length(value: BlobValue) -> int:
    return 0 if value is None or isinstance(value, str) else value.length


def delete_addresses(writing: Writing, handle: TableHandle, addresses: Sequence[int]) -> Pieces:
    """The fragments without the rows at these addresses; one call per fragment and write."""
    with writing.calls.making("delete", handle.layout.table_key):
        updated, emptied = lance_writes.without_rows(handle.dataset, addresses)
    return Pieces(updated=tuple(updated), emptied=tuple(emptied), rows_deleted=len(addresses))


def stage_pieces(
    writing: Writing, handle: TableHandle, kind: PieceKind, pieces: Pieces, stamp: WriteStamp
) -> StagedWrite:
    """One transaction of pieces that were written for this handle.

    Raises:
        InternalError: the pieces do not fit the kind.
    """
    added = sum(fragment.num_rows for fragment in pieces.added)
    changed = sum(fragment.num_rows for fragment in pieces.changed)
    if kind is PieceKind.UPDATE:
        if not (added or changed or pieces.rows_deleted):
            return nothing(writing, handle, None)
        operation = lance_writes.update_of_pieces(
            handle.dataset,
            removed=pieces.emptied,
            updated=pieces.updated,
            new=[*pieces.changed, *_plain(handle, pieces.added)],
        )
        removed = pieces.rows_deleted - changed
        return staged(
            writing, handle, operation, stamp, added=added, changed=changed, removed=removed
        )
    if changed or pieces.updated or pieces.emptied:
        raise InternalError(f"{handle.layout.table_key}: pieces of an update staged as {kind}")
    fragments = _plain(handle, pieces.added)
    if kind is PieceKind.OVERWRITE:
        return overwrite_with_fragments(writing, handle, fragments, stamp)
    return append_fragments(writing, handle, fragments, stamp)


def _plain(handle: TableHandle, fragments: Iterable[FragmentMetadata]) -> list[FragmentMetadata]:
    """New fragments without row ids.

    Raises:
        InternalError: one has deleted rows; its deletion file is named after a number that the
            commit changes, which would make an unreadable head.
    """
    plain = []
    for fragment in fragments:
        if fragment.deletion_file is not None:
            raise InternalError(
                f"{handle.layout.table_key}: a staged fragment with deleted rows cannot be"
                " committed; write the rows that stay again"
            )
        plain.append(lance_writes.without_row_ids(fragment))
    return plain


def open_staged(writing: Writing, handle: TableHandle, pieces: Pieces) -> TableHandle:
    """The table with the new rows of these pieces, readable before anything is committed.

    It is a detached version, which stays until its `view_files` are deleted.
    """
    operation = LanceOperation.Append(_plain(handle, pieces.added))
    transaction = Transaction(handle.pin.version, operation, new_link_uuid(writing.ids))
    with writing.calls.making("open_staged", handle.layout.table_key):
        dataset = lance_writes.commit_detached(handle.dataset, transaction)
    pin = Pin(location=handle.pin.location, branch=handle.pin.branch, version=dataset.version)
    return TableHandle(layout=handle.layout, pin=pin, dataset=dataset)


def view_files(writing: Writing, view: TableHandle) -> tuple[str, ...]:
    """What makes a detached version readable: its manifest, and its transaction."""
    folder = line_folder(view.pin.location, view.pin.branch)
    with writing.calls.making("read_transaction", view.layout.table_key):
        made = view.dataset.read_transaction(view.pin.version)
    manifest = f"{folder}/_versions/d{view.pin.version}.manifest"
    if made is None:
        return (manifest,)
    return manifest, f"{folder}/_transactions/{made.read_version}-{made.uuid}.txn"


def read_staged(writing: Writing, view: TableHandle, fragments: Sequence[int]) -> pa.Table:
    """Whole rows of some fragments, blobs included; holds all of them."""
    layout = view.layout
    plain = [name for name in layout.schema.names if name not in layout.blobs]
    options = ScanOptions(columns=plain, fragments=fragments, with_row_ids=bool(layout.blobs))
    rows = scan(writing.reads, view, options).read_all()
    if not layout.blobs:
        return rows
    row_ids = [int(row_id) for row_id in rows[ROW_ID].to_numpy()]
    columns: dict[str, Any] = {name: rows[name] for name in plain}  # Any: columns of every type
    for name in layout.blobs:
        cells = [_stored(value) for value in blobs_of_rows(view, row_ids, name)]
        columns[name] = pa.array(cells, STORED_BLOB)
    return pa.table({name: columns[name] for name in layout.schema.names})


def stage_merge_staged(
    writing: Writing,
    handle: TableHandle,
    view: TableHandle,
    fragments: Sequence[int],
    stamp: WriteStamp,
    left_out: Mask | None = None,
) -> StagedWrite:
    """Upserts the rows of some fragments of a view, whose ids are unique.

    Many rows are read as Lance takes them; those of a table with blobs are all held.

    Args:
        writing: how tables are written.
        handle: the table.
        view: where the rows are.
        fragments: which of them.
        stamp: who writes.
        left_out: for each of the rows, in the order of the fragments, whether it is left alone.
    """
    if handle.layout.blobs:
        held = read_staged(writing, view, fragments)
        kept = held if left_out is None else held.filter(pa.array(~left_out))
        return stage_merge_insert(writing, handle, kept, stamp)
    count = sum(fragment.rows for fragment in _of_view(writing, view, fragments))
    count -= 0 if left_out is None else int(left_out.sum())

    def stage(base: TableHandle) -> StagedWrite:
        rows = scan(writing.reads, view, ScanOptions(fragments=fragments))
        merged = merge_stream(writing, base, _without(rows, left_out), count)
        return staged(
            writing,
            base,
            merged.operation,
            stamp,
            added=merged.inserted,
            changed=merged.updated,
            rebase=stage,
            restaged_rows=count,
        )

    return stage(handle) if count else nothing(writing, handle, stage)


def _without(batches: Iterable[pa.RecordBatch], left_out: Mask | None) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in batches:
        end = start + batch.num_rows
        yield batch if left_out is None else batch.filter(pa.array(~left_out[start:end]))
        start = end


def staged_bytes(writing: Writing, view: TableHandle, fragments: Sequence[int]) -> int:
    """How large the rows of some fragments are as they are stored, blobs included."""
    size = sum(fragment.size_bytes for fragment in _of_view(writing, view, fragments))
    return size + sum(
        blob_bytes(writing.calls, view, name, fragments) for name in view.layout.blobs
    )


def _of_view(writing: Writing, view: TableHandle, wanted: Sequence[int]) -> list[FragmentInfo]:
    chosen = set(wanted)
    return [
        fragment
        for fragment in sizes.fragments(writing.calls, view)
        if fragment.fragment_id in chosen
    ]


def _stored(value: BlobValue) -> dict[str, object] | None:
    if value is None or isinstance(value, str):
        return None if value is None else {"data": None, "uri": value}
    return {"data": value.read(0, value.length), "uri": None}


def piece_files(writing: Writing, handle: TableHandle, pieces: Pieces) -> tuple[str, ...]:
    """The files that these pieces made: new rows, and marks of deleted ones; below the root."""
    operation = LanceOperation.Update(
        new_fragments=[*pieces.added, *pieces.changed], updated_fragments=list(pieces.updated)
    )
    return written_files(writing.location, handle.pin, operation)
