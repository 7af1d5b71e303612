"""Staged writes of rows: files are written, nothing is visible, the head does not move.

Each function returns a `StagedWrite` bound to the version it was staged at. What has nothing to do
returns one without links, and its table is then left out of the commit.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceOperation

from omnigraph.errors import InternalError
from omnigraph.storage import lance_writes, reading
from omnigraph.storage.blobs import stored_blobs
from omnigraph.storage.indexes import build_segment, index_name, text_specs
from omnigraph.storage.layout import batches_of, to_physical
from omnigraph.storage.moved_lines import require_line
from omnigraph.storage.predicates import In, Predicate
from omnigraph.storage.transactions import Writing, chain, live_rows, nothing, staged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lance.fragment import FragmentMetadata

    from omnigraph.storage.handles import StagedWrite, TableHandle, WriteStamp

Rows: TypeAlias = "pa.Table | Iterable[pa.RecordBatch]"

_SCAN_INSTEAD_OF_INDEX: Final = 10
"""An upsert of more than one row in ten is faster without the index of `id`."""
_HELD_BYTES: Final = 512 << 20
"""An upsert of a table costs Lance two thirds of one from a stream."""


def stage_append(
    writing: Writing, handle: TableHandle, rows: Rows, stamp: WriteStamp
) -> StagedWrite:
    """Adds rows whose ids are proven absent."""
    return append_fragments(writing, handle, write_rows(writing, handle, rows), stamp)


def append_fragments(
    writing: Writing, handle: TableHandle, fragments: list[FragmentMetadata], stamp: WriteStamp
) -> StagedWrite:
    """Adds rows that were written as these fragments."""

    def rebase(newer: TableHandle) -> StagedWrite:
        return append_fragments(writing, newer, fragments, stamp)

    if not fragments:
        return nothing(writing, handle, rebase)
    operation = LanceOperation.Append(fragments)
    added = sum(fragment.num_rows for fragment in fragments)
    return staged(writing, handle, operation, stamp, added=added, rebase=rebase)


def write_rows(
    writing: Writing, handle: TableHandle, rows: Rows, *, rows_per_file: int | None = None
) -> list[FragmentMetadata]:
    """Data files under the line of the handle; none for no rows."""
    require_line(writing.location, handle)
    source = _Source(handle, rows)
    if source.is_empty:
        return []
    with source.failing_as_it_did(), writing.calls.making("write", handle.layout.table_key):
        return lance_writes.write_rows(handle.dataset, source.reader(), rows_per_file=rows_per_file)


class _Source:
    """Rows on their way into a table, which keeps the failure of whoever yields them.

    Lance would turn it into a storage error with its text.
    """

    __slots__ = ("_batches", "_first", "_handle", "failure")

    def __init__(self, handle: TableHandle, rows: Rows) -> None:
        self.failure: Exception | None = None
        self._handle = handle
        self._batches = (batch for batch in batches_of(rows) if batch.num_rows)
        self._first = next(self._batches, None)

    @property
    def is_empty(self) -> bool:
        return self._first is None

    @contextmanager
    def failing_as_it_did(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            if self.failure is not None:
                raise self.failure from None
            raise

    def reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._handle.dataset.schema, self._physical())

    def table_or_reader(self) -> pa.Table | pa.RecordBatchReader:
        """All rows, unless they are many."""
        schema = self._handle.dataset.schema
        batches = self._physical()
        held, held_bytes = [], 0
        for batch in batches:
            held.append(batch)
            held_bytes += batch.nbytes
            if held_bytes > _HELD_BYTES:
                return pa.RecordBatchReader.from_batches(schema, itertools.chain(held, batches))
        return pa.Table.from_batches(held, schema)

    def _physical(self) -> Iterator[pa.RecordBatch]:
        try:
            batch = self._first
            while batch is not None:
                yield to_physical(self._handle.layout, self._handle.dataset.schema, batch)
                batch = next(self._batches, None)
        except Exception as error:
            self.failure = error
            raise


def stage_merge_insert(
    writing: Writing, handle: TableHandle, rows: Rows, stamp: WriteStamp
) -> StagedWrite:
    """Upserts whole rows by `id`; holds all of them. Their ids are unique."""
    table = as_table(handle, rows)

    def rebase(newer: TableHandle) -> StagedWrite:
        return stage_merge_insert(writing, newer, table, stamp)

    if not table.num_rows:
        return nothing(writing, handle, rebase)
    merged = _merge(writing, handle, table, inserts=True)
    return staged(
        writing,
        handle,
        merged.operation,
        stamp,
        added=merged.inserted,
        changed=merged.updated,
        rebase=rebase,
        restaged_rows=table.num_rows,
    )


def stage_update(
    writing: Writing, handle: TableHandle, rows: Rows, stamp: WriteStamp
) -> StagedWrite:
    """Replaces rows that exist; holds all of them. A blob that `rows` leaves out is kept.

    Raises:
        InternalError: some id is not in the table.
    """
    table = as_table(handle, rows)

    def rebase(newer: TableHandle) -> StagedWrite:
        return stage_update(writing, newer, table, stamp)

    if not table.num_rows:
        return nothing(writing, handle, rebase)
    merged = _merge(writing, handle, _with_stored_blobs(writing, handle, table), inserts=False)
    if merged.updated != table.num_rows:
        raise InternalError(
            f"{handle.layout.table_key}: an update of {table.num_rows} rows found"
            f" {merged.updated} of them at version {handle.pin.version}"
        )
    return staged(
        writing,
        handle,
        merged.operation,
        stamp,
        changed=merged.updated,
        rebase=rebase,
        restaged_rows=table.num_rows,
    )


def as_table(handle: TableHandle, rows: Rows) -> pa.Table:
    """All rows at once, in memory."""
    if isinstance(rows, pa.Table):
        return rows
    batches = list(rows)
    if not batches:
        return handle.layout.schema.empty_table()
    return pa.Table.from_batches(batches)


def _merge(
    writing: Writing, handle: TableHandle, rows: pa.Table, *, inserts: bool
) -> lance_writes.Merged:
    if any(_has_addresses(rows, name) for name in handle.layout.blobs):
        return merge_by_hand(writing, handle, rows, inserts=inserts)
    target = handle.dataset.schema
    physical = pa.Table.from_batches(
        [to_physical(handle.layout, target, batch) for batch in rows.to_batches()], target
    )
    return _merged(writing, handle, physical, rows.num_rows, inserts=inserts)


def merge_stream(
    writing: Writing, handle: TableHandle, rows: Iterable[pa.RecordBatch], count: int
) -> lance_writes.Merged:
    """Upserts whole rows of a table without blobs; there are `count` of them.

    Those that fit `_HELD_BYTES` are read before the upsert, the rest as Lance takes them.
    """
    source = _Source(handle, rows)
    with source.failing_as_it_did():
        return _merged(writing, handle, source.table_or_reader(), count, inserts=True)


def _merged(
    writing: Writing,
    handle: TableHandle,
    rows: pa.Table | pa.RecordBatchReader,
    count: int,
    *,
    inserts: bool,
) -> lance_writes.Merged:
    with writing.calls.making("merge", handle.layout.table_key):
        many = count * _SCAN_INSTEAD_OF_INDEX > handle.dataset.count_rows()
        return lance_writes.merge(handle.dataset, rows, inserts=inserts, use_index=not many)


def _has_addresses(rows: pa.Table, name: str) -> bool:
    if name not in rows.schema.names or not pa.types.is_struct(rows.schema.field(name).type):
        return False
    return bool(pc.struct_field(rows[name], "uri").null_count < rows.num_rows)


def _with_stored_blobs(writing: Writing, handle: TableHandle, rows: pa.Table) -> pa.Table:
    """The rows with the stored values of the blobs that they leave out."""
    ids = pa.array(rows["id"].combine_chunks(), pa.string())
    for name in sorted(handle.layout.blobs - set(rows.schema.names)):
        kept = stored_blobs(writing.calls, handle, ids, name)
        rows = rows.append_column(pa.field(name, kept.type), kept)
    return rows


def merge_by_hand(
    writing: Writing, handle: TableHandle, rows: pa.Table, *, inserts: bool
) -> lance_writes.Merged:
    """An upsert of rows with external blobs, which Lance's own upsert refuses.

    Rows that exist keep their row id: their new form is written under it and the old is deleted.
    """
    ids = pa.array(rows["id"].combine_chunks(), pa.string())
    places = reading.places(writing.reads, handle, ids)
    order = pc.index_in(places["id"], value_set=ids)
    known = pc.is_in(ids, value_set=places["id"].combine_chunks())
    new = lance_writes.numbered(
        write_rows(writing, handle, rows.take(order)), reading.integers(places["_rowid"])
    )
    fresh = rows.filter(pc.invert(known)) if inserts else rows.slice(0, 0)
    with writing.calls.making("delete", handle.layout.table_key):
        updated, removed = lance_writes.without_rows(
            handle.dataset, reading.integers(places["_rowaddr"])
        )
    operation = lance_writes.update_of_pieces(
        handle.dataset,
        removed=removed,
        updated=updated,
        new=[*new, *write_rows(writing, handle, fresh)],
    )
    return lance_writes.Merged(
        operation=operation, inserted=fresh.num_rows, updated=places.num_rows
    )


def stage_delete(
    writing: Writing, handle: TableHandle, target: Predicate | reading.Ids, stamp: WriteStamp
) -> StagedWrite:
    """Removes the rows that match a predicate, or have one of these ids."""

    def rebase(newer: TableHandle) -> StagedWrite:
        return stage_delete(writing, newer, target, stamp)

    predicates = (
        [In("id", chunk) for chunk in reading.chunks(target)]
        if isinstance(target, pa.Array)
        else [target]
    )
    addresses = {
        address
        for predicate in predicates
        for address in reading.integers(reading.row_addresses(writing.reads, handle, predicate))
    }
    if not addresses:
        return nothing(writing, handle, rebase)
    with writing.calls.making("delete", handle.layout.table_key):
        operation = lance_writes.delete_rows(handle.dataset, addresses)
    count = len(addresses)
    return staged(
        writing, handle, operation, stamp, removed=count, rebase=rebase, restaged_rows=count
    )


def stage_overwrite(
    writing: Writing, handle: TableHandle, rows: Rows | None, stamp: WriteStamp
) -> StagedWrite:
    """Replaces every row, or empties the table; a second link registers the text indexes again.

    Lance drops all indexes of an overwritten table. Without its text index a property would be
    searched with another analyzer; the other indexes cost only time.
    """
    fragments = [] if rows is None else write_rows(writing, handle, rows)

    def rebase(newer: TableHandle) -> StagedWrite:
        return overwrite_with_fragments(writing, newer, fragments, stamp)

    if not fragments and not live_rows(writing, handle):
        return nothing(writing, handle, rebase)
    return rebase(handle)


def overwrite_with_fragments(
    writing: Writing, handle: TableHandle, fragments: list[FragmentMetadata], stamp: WriteStamp
) -> StagedWrite:
    """Replaces every row by those that were written as these fragments, text indexes kept."""
    replaced = staged(
        writing,
        handle,
        lance_writes.overwrite(handle.dataset, fragments),
        stamp,
        added=sum(fragment.num_rows for fragment in fragments),
        removed=live_rows(writing, handle),
        rebase=lambda newer: overwrite_with_fragments(writing, newer, fragments, stamp),
    )
    if not replaced.base.layout.text_indexes:
        return replaced
    return chain(writing, replaced, lambda base: stage_text_indexes(writing, base, stamp))


def stage_text_indexes(writing: Writing, handle: TableHandle, stamp: WriteStamp) -> StagedWrite:
    """Registers, untrained, the text indexes of the layout that the table does not have."""

    def rebase(newer: TableHandle) -> StagedWrite:
        return stage_text_indexes(writing, newer, stamp)

    operation = text_indexes(writing, handle)
    if operation is None:
        return nothing(writing, handle, rebase)
    return staged(writing, handle, operation, stamp, rebase=rebase)


def text_indexes(writing: Writing, handle: TableHandle) -> LanceOperation.CreateIndex | None:
    """The registration of the text indexes that the layout has and the table has not."""
    layout = handle.layout
    if not layout.text_indexes:
        return None
    with writing.calls.making("build_index", layout.table_key):
        known = {index.name for index in handle.dataset.describe_indices()}
        segments = [
            build_segment(handle.dataset, layout, spec, (), {})
            for spec in text_specs(layout)
            if index_name(layout, spec) not in known
        ]
    return LanceOperation.CreateIndex(segments, []) if segments else None
