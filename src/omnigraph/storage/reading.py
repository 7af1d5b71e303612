"""Reads a table at a pin: scans, and lookups by id.

Everything here speaks in property names. A predicate goes to Lance's own scanner when its types
allow it and to DataFusion over the table provider otherwise; the rows are the same.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, cast

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance.dataset import ColumnOrdering

from omnigraph.errors import InternalError
from omnigraph.storage.layout import (
    column_of,
    logical_schema,
    readable_names,
    schema_of,
    to_logical,
)
from omnigraph.storage.predicates import (
    And,
    In,
    Not,
    Predicate,
    columns_of,
    has_scanner_filters,
    to_arrow,
    to_datafusion,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from datafusion import DataFrame, Expr, SessionContext
    from lance import LanceDataset
    from lance.fragment import LanceFragment

    from omnigraph.storage.calls import StoreCalls
    from omnigraph.storage.handles import TableHandle

IDS_PER_LOOKUP = 8192

ROW_ID = "_rowid"
FILTERED_ROWS = 256
"""So few rows of a version that is read once are looked for by a filter."""
"""The column of row ids, which are stable: within one version they name a row."""

ROW_ADDRESS = "_rowaddr"
"""The column of row addresses: fragment in the upper 32 bits, offset in the lower."""

Ids: TypeAlias = "pa.Array[pa.StringScalar]"


_ROW_ID = pa.field(ROW_ID, pa.uint64())
_ROW_ADDRESS = pa.field(ROW_ADDRESS, pa.uint64())
_PLACES = schema_of(id=pa.string(), _rowid=pa.uint64(), _rowaddr=pa.uint64())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """One key of an order: nulls are the smallest, first ascending and last descending."""

    column: str
    is_descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """What a scan returns and how."""

    columns: Sequence[str] | None = None
    predicate: Predicate | None = None
    order: Sequence[Ordering] = ()
    limit: int | None = None
    batch_bytes: int | None = None
    with_row_ids: bool = False
    """Add the column `ROW_ID`."""
    with_row_addresses: bool = False
    """Add the column `ROW_ADDRESS`; only together with `fragments`."""
    fragments: Sequence[int] | None = None
    """Only rows of these fragments, in their order."""


@dataclass(frozen=True, kw_only=True)
class Reads:
    """What every read needs."""

    calls: StoreCalls

    @cached_property
    def session(self) -> SessionContext:
        """For predicates that Lance's scanner does not take.

        It outlives every frame that was made of it: a provider whose session is gone fails.
        """
        from datafusion import SessionContext  # most graphs never need it, and it loads slowly

        return SessionContext()

    def frame(
        self, dataset: LanceDataset, *, with_row_address: bool = False, with_row_ids: bool = False
    ) -> DataFrame:
        """The pinned table as a DataFusion frame."""
        provider = lance.FFILanceTableProvider(
            dataset, with_row_id=with_row_ids, with_row_addr=with_row_address
        )
        return self.session.read_table(provider)


def scan(reads: Reads, handle: TableHandle, options: ScanOptions) -> pa.RecordBatchReader:
    """The rows of a table, read as they are asked for."""
    names = readable_names(handle.layout, options.columns)
    schema = logical_schema(handle.layout, names)
    if options.with_row_ids:
        schema = schema.append(_ROW_ID)
    if options.with_row_addresses:
        schema = schema.append(_ROW_ADDRESS)
    if options.limit == 0:
        # Sorted, the scanner panics on such a limit.
        return pa.RecordBatchReader.from_batches(schema, [])
    if (
        options.fragments is not None
        and options.predicate is not None
        and scanner_filter(handle, options.predicate) is None
    ):
        batches = _filtered_fragments(reads, handle, options, options.predicate, schema)
        return pa.RecordBatchReader.from_batches(schema, _limited(batches, options.limit))
    with reads.calls.making("scan", handle.layout.table_key):
        source = _source(reads, handle, names, options)
    batches = _limited(_pulled(reads, handle, source, names), options.limit)
    return pa.RecordBatchReader.from_batches(schema, batches)


def scan_with_pending(
    reads: Reads, handle: TableHandle, options: ScanOptions, pending: pa.Table
) -> pa.RecordBatchReader:
    """The rows as they will be once `pending` has landed: it hides committed rows of its ids.

    Pending rows come last; `order` and `limit` are not for this kind of scan.
    """
    names = readable_names(handle.layout, options.columns)
    hidden = Not(In("id", pa.array(pending["id"].combine_chunks(), pa.string())))
    predicate = hidden if options.predicate is None else And((options.predicate, hidden))
    committed = scan(
        reads,
        handle,
        ScanOptions(columns=names, predicate=predicate, batch_bytes=options.batch_bytes),
    )
    waiting = filtered(reads, pending, options.predicate).select(names)
    schema = logical_schema(handle.layout, names)
    return pa.RecordBatchReader.from_batches(
        schema, itertools.chain(committed, waiting.cast(schema).to_batches())
    )


def filtered(reads: Reads, rows: pa.Table, predicate: Predicate | None) -> pa.Table:
    """The rows of a table in memory that satisfy a predicate, as a scan would judge them."""
    if predicate is None or not rows.num_rows:
        return rows
    # Positions cross into DataFusion and back, so columns that it cannot hold stay as they are.
    names = sorted(columns_of(predicate))
    kept = rows.select(names).append_column("_position", pa.array(range(rows.num_rows)))
    with reads.calls.making("filter", "rows in memory"):
        # A session of its own: one that is shared would keep every table for good.
        from datafusion import SessionContext

        session = SessionContext()
        frame = session.from_arrow(kept).filter(to_datafusion(predicate, {}))
        positions = frame.select(_quoted("_position")).to_arrow_table()["_position"]
    return rows.take(positions.sort())


def scanner_filter(handle: TableHandle, predicate: Predicate) -> pc.Expression | None:
    """The predicate for Lance's own scanner, or `None` where only DataFusion can evaluate it."""
    if not has_scanner_filters(handle.dataset.schema):
        return None
    return to_arrow(predicate, handle.layout.schema, handle.layout.columns)


def _source(
    reads: Reads, handle: TableHandle, names: Sequence[str], options: ScanOptions
) -> pa.RecordBatchReader:
    columns = present_columns(handle, names)
    expression = None
    if options.predicate is not None:
        expression = scanner_filter(handle, options.predicate)
        if expression is None:
            return _provided(reads, handle, columns, options, options.predicate)
    order: list[ColumnOrdering | str] = [
        ColumnOrdering(
            column_of(handle.layout, key.column),
            ascending=not key.is_descending,
            nulls_first=not key.is_descending,
        )
        for key in options.order
    ]
    # The scanner cannot sort by a column that it does not return.
    sorted_by = [column_of(handle.layout, key.column) for key in options.order]
    return handle.dataset.scanner(
        columns=list(dict.fromkeys([*columns, *sorted_by])),
        filter=expression,
        limit=options.limit,
        batch_size_bytes=options.batch_bytes,
        order_by=order or None,
        with_row_id=options.with_row_ids or None,
        with_row_address=options.with_row_addresses or None,
        fragments=None if options.fragments is None else _fragments(handle, options.fragments),
    ).to_reader()


def _filtered_fragments(
    reads: Reads,
    handle: TableHandle,
    options: ScanOptions,
    predicate: Predicate,
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """Rows of some fragments that satisfy a predicate which the scanner does not take."""
    names = readable_names(handle.layout, options.columns)
    wanted = list(dict.fromkeys([*names, *sorted(columns_of(predicate))]))
    everything = scan(reads, handle, replace(options, columns=wanted, predicate=None, limit=None))
    for batch in everything:
        rows = filtered(reads, pa.Table.from_batches([batch]), predicate)
        yield from rows.select(schema.names).to_batches()


def _fragments(handle: TableHandle, wanted: Sequence[int]) -> list[LanceFragment]:
    fragments = [handle.dataset.get_fragment(number) for number in wanted]
    absent = [
        number for number, fragment in zip(wanted, fragments, strict=True) if fragment is None
    ]
    if absent:
        raise InternalError(
            f"{handle.layout.table_key} has no fragments {absent} at version {handle.pin.version}"
        )
    return [fragment for fragment in fragments if fragment is not None]


def present_columns(handle: TableHandle, names: Sequence[str]) -> list[str]:
    """The stored columns of some properties, as far as this version of the table has them."""
    known = set(handle.dataset.schema.names)
    wanted = [column_of(handle.layout, name) for name in names]
    # Without any column the scanner cannot tell how many rows there are.
    return [column for column in wanted if column in known] or ["id"]


def lost_columns(handle: TableHandle) -> list[str]:
    """The properties of the layout, blobs too, that this version has no column for."""
    known = set(handle.dataset.schema.names)
    names = handle.layout.schema.names
    return [name for name in names if column_of(handle.layout, name) not in known]


def _provided(
    reads: Reads,
    handle: TableHandle,
    columns: Sequence[str],
    options: ScanOptions,
    predicate: Predicate,
) -> pa.RecordBatchReader:
    """The scan through DataFusion; a limit is applied to what it yields.

    Over the provider a limit fails when the frame has several partitions.
    """
    frame = reads.frame(handle.dataset, with_row_ids=options.with_row_ids)
    frame = frame.filter(to_datafusion(predicate, handle.layout.columns))
    if options.order:
        frame = frame.sort(
            *(
                _quoted(column_of(handle.layout, key.column)).sort(
                    ascending=not key.is_descending, nulls_first=not key.is_descending
                )
                for key in options.order
            )
        )
    kept = [*columns, ROW_ID] if options.with_row_ids else columns
    frame = frame.select(*(_quoted(column) for column in kept))
    return pa.RecordBatchReader.from_stream(frame)


def _quoted(column: str) -> Expr:
    from datafusion import col

    escaped = column.replace('"', '""')
    return col(f'"{escaped}"')


def _pulled(
    reads: Reads, handle: TableHandle, source: pa.RecordBatchReader, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    while True:
        with reads.calls.making("read", handle.layout.table_key):
            batch = next(source, None)
        if batch is None:
            return
        yield _with_places(batch, to_logical(handle.layout, names, batch))


def _with_places(batch: pa.RecordBatch, logical: pa.RecordBatch) -> pa.RecordBatch:
    """The properties beside the row ids and addresses that were read with them."""
    places = [field for field in (_ROW_ID, _ROW_ADDRESS) if field.name in batch.schema.names]
    if not places:
        return logical
    # Without any property the rows are as many as their ids, and not none.
    columns = [*logical.columns, *(batch.column(field.name) for field in places)]
    return pa.record_batch(columns, schema=pa.schema([*logical.schema, *places]))


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    if limit is None:
        yield from batches
        return
    left = limit
    while left > 0:
        batch = next(batches, None)
        if batch is None:
            return
        yield batch.slice(0, left)
        left -= batch.num_rows


def count(reads: Reads, handle: TableHandle, predicate: Predicate | None) -> int:
    """How many rows there are, or satisfy a predicate."""
    with reads.calls.making("count", handle.layout.table_key):
        if predicate is None:
            return handle.dataset.count_rows()
        expression = scanner_filter(handle, predicate)
        if expression is not None:
            return handle.dataset.count_rows(expression)
        frame = reads.frame(handle.dataset)
        return frame.filter(to_datafusion(predicate, handle.layout.columns)).count()


def provider(calls: StoreCalls, handle: TableHandle) -> object:
    """The pinned table as a DataFusion table provider, by the names of its columns.

    Its session must live as long as every frame that reads it.
    """
    with calls.making("provider", handle.layout.table_key):
        return lance.FFILanceTableProvider(handle.dataset)


def frame(
    calls: StoreCalls,
    handle: TableHandle,
    session: SessionContext,
    columns: Sequence[str] | None,
) -> DataFrame:
    """The pinned table as a frame of a session, by property names; blobs are left out."""
    names = readable_names(handle.layout, columns)
    with calls.making("provider", handle.layout.table_key):
        table = session.read_table(lance.FFILanceTableProvider(handle.dataset))
        return table.select(
            *(_quoted(column_of(handle.layout, name)).alias(name) for name in names)
        )


def take_ids(
    reads: Reads, handle: TableHandle, ids: Ids, columns: Sequence[str] | None
) -> pa.Table:
    """The rows with these ids, in the order of the ids; absent ones are left out."""
    names = readable_names(handle.layout, columns)
    wanted = list(dict.fromkeys(["id", *names]))
    rows = pa.concat_tables(
        [logical_schema(handle.layout, wanted).empty_table()]
        + [
            scan(reads, handle, ScanOptions(columns=wanted, predicate=In("id", chunk))).read_all()
            for chunk in chunks(ids)
        ]
    )
    positions = pc.index_in(rows["id"], value_set=ids)
    return rows.take(pc.sort_indices(positions)).select(names)


def take_rows(
    reads: Reads,
    handle: TableHandle,
    row_ids: pa.Array[pa.UInt64Scalar],
    columns: Sequence[str],
    *,
    is_once: bool = False,
) -> pa.Table:
    """The rows with these row ids, in their order; every one must be in the table.

    Args:
        reads: how tables are read.
        handle: the version of the table.
        row_ids: which rows.
        columns: what of them.
        is_once: nobody reads this version again, so nothing is made ready for a next time.
    """
    names = readable_names(handle.layout, columns)
    schema = logical_schema(handle.layout, names)
    if not len(row_ids):
        return schema.empty_table()
    stored = present_columns(handle, names)
    with reads.calls.making("take", handle.layout.table_key):
        if is_once and stored and len(row_ids) <= FILTERED_ROWS:
            found = rows_with_ids(handle, row_ids, [*stored, ROW_ID])
            order = pc.index_in(row_ids, value_set=found[ROW_ID])
            rows = found.take(order.drop_null()).select(stored)
        else:
            rows = handle.dataset._take_rows(row_ids, columns=stored)  # noqa: SLF001
    if rows.num_rows != len(row_ids):
        raise InternalError(
            f"{handle.layout.table_key} gave {rows.num_rows} rows for {len(row_ids)} row ids"
        )
    batches = (to_logical(handle.layout, names, batch) for batch in rows.to_batches())
    return pa.Table.from_batches(batches, schema)


def rows_with_ids(
    handle: TableHandle,
    row_ids: pa.Array[pa.UInt64Scalar],
    columns: list[str],
    fragments: list[LanceFragment] | None = None,
) -> pa.Table:
    """The rows of a version, or of some of its fragments, with these row ids, as they are stored.

    The first time that Lance takes a row of a version by its id, it lists the ids of every file
    with deleted rows; that costs ten times as much as this.
    """
    # Row ids are reached by filter text only; this one is made here of integers.
    wanted = f"{ROW_ID} in ({', '.join(map(str, integers(row_ids)))})"
    return handle.dataset.scanner(columns=columns, filter=wanted, fragments=fragments).to_table()


def existing_ids(reads: Reads, handle: TableHandle, ids: Ids) -> Ids:
    """Those of the ids that the table has."""
    return _ids(take_ids(reads, handle, ids, ["id"]))


def integers(numbers: pa.Array[pa.UInt64Scalar] | pa.ChunkedArray[pa.UInt64Scalar]) -> list[int]:
    """Row ids or addresses, none of which is null."""
    return cast("list[int]", numbers.to_pylist())


def places(reads: Reads, handle: TableHandle, ids: Ids) -> pa.Table:
    """`id`, `_rowid` and `_rowaddr` of the rows with these ids, by row id."""
    parts = [_PLACES.empty_table()]
    for chunk in chunks(ids):
        with reads.calls.making("scan", handle.layout.table_key):
            part = _places(reads, handle, In("id", chunk))
        parts.append(part.cast(_PLACES))
    return pa.concat_tables(parts).sort_by("_rowid")


def _places(reads: Reads, handle: TableHandle, predicate: Predicate) -> pa.Table:
    expression = scanner_filter(handle, predicate)
    if expression is not None:
        return handle.dataset.to_table(columns=_PLACES.names, filter=expression)
    frame = reads.frame(handle.dataset, with_row_address=True, with_row_ids=True)
    frame = frame.filter(to_datafusion(predicate, handle.layout.columns))
    return frame.select(*(_quoted(name) for name in _PLACES.names)).to_arrow_table()


def chunks(ids: Ids) -> Iterator[Ids]:
    """The ids in portions that one lookup takes."""
    for start in range(0, len(ids), IDS_PER_LOOKUP):
        yield ids.slice(start, IDS_PER_LOOKUP)


def row_addresses(
    reads: Reads, handle: TableHandle, predicate: Predicate | None
) -> pa.Array[pa.UInt64Scalar]:
    """Where the matching rows lie: fragment in the upper 32 bits, offset in the lower."""
    with reads.calls.making("scan", handle.layout.table_key):
        return _addresses(reads, handle, predicate)


def _addresses(
    reads: Reads, handle: TableHandle, predicate: Predicate | None
) -> pa.Array[pa.UInt64Scalar]:
    expression = None
    if predicate is not None:
        expression = scanner_filter(handle, predicate)
        if expression is None:
            frame = reads.frame(handle.dataset, with_row_address=True)
            frame = frame.filter(to_datafusion(predicate, handle.layout.columns))
            rows = frame.select(_quoted("_rowaddr")).to_arrow_table()
            return pa.array(rows["_rowaddr"].combine_chunks(), pa.uint64())
    table = handle.dataset.to_table(columns=[], filter=expression, with_row_address=True)
    return pa.array(table["_rowaddr"].combine_chunks(), pa.uint64())


def _ids(table: pa.Table) -> Ids:
    return pa.array(table["id"].combine_chunks(), pa.string())
