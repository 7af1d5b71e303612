"""Rows of one table in each format of an export, written in portions that fit in memory.

The same rows give the same bytes. NDJSON is what `export_records` writes. Parquet has the stored
columns and types; a vector is a list of floats and a blob is its bytes, so an address of something
outside the graph has no form there and is refused. CSV has the texts that NDJSON has, without the
quotes around a lone text; lists and vectors are JSON; null is the empty field and the empty text
is `""`.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final, assert_never

import pyarrow as pa

from omnigraph.errors import InvalidArgument
from omnigraph.graph.arrays import row_ids_of
from omnigraph.graph.blobs.blob_values import INLINE
from omnigraph.graph.manifest.table_refs import key_of
from omnigraph.graph.ndjson.record_writer import RecordWriter
from omnigraph.graph.results.csv import render_csv
from omnigraph.lang.types import STRING
from omnigraph.pipeline.export.format import ExportFormat
from omnigraph.pipeline.export.sorted_runs import portions
from omnigraph.storage.blob_rows import blobs_of_rows
from omnigraph.storage.blobs import Blob
from omnigraph.storage.reading import ROW_ID

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.lang.catalog import EdgeType, NodeType
    from omnigraph.storage.blob_rows import BlobValue
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.output_files import OutputFile

_PORTION_BYTES: Final = 1 << 20
_BLOB_ROWS: Final = 256
_BLOB_BYTES: Final = 16 << 20
_ROW_GROUP_ROWS: Final = 1 << 17
_ROW_GROUP_BYTES: Final = 32 << 20


def write_rows(
    form: ExportFormat,
    file: OutputFile,
    item: NodeType | EdgeType,
    handle: TableHandle,
    rows: pa.Table,
) -> None:
    """Write the rows, in their order; with their row ids where the type has blobs.

    Raises:
        InvalidArgument: a blob is an address, and the format has no form for it.
    """
    match form:
        case ExportFormat.NDJSON:
            writer = RecordWriter(item=item, handle=handle)
            for portion in _small(item, rows):
                for part in writer.lines(portion):
                    file.write(part)
        case ExportFormat.PARQUET:
            _write_parquet(file, item, handle, rows)
        case ExportFormat.CSV:
            _write_csv(file, item, handle, rows)
        case _:
            assert_never(form)


def parquet_schema(item: NodeType | EdgeType) -> pa.Schema:
    """The columns of a Parquet file of a type."""
    return pa.schema(
        [
            field.with_type(pa.list_(field.type.value_type))
            if pa.types.is_fixed_size_list(field.type)
            else field
            for field in item.arrow_schema
        ]
    )


def _small(item: NodeType | EdgeType, rows: pa.Table) -> Iterator[pa.Table]:
    for portion in portions(rows, _PORTION_BYTES):
        if not item.blob_properties:
            yield portion
            continue
        # Each row holds its blobs open.
        for start in range(0, portion.num_rows, _BLOB_ROWS):
            yield portion.slice(start, _BLOB_ROWS)


def _write_parquet(
    file: OutputFile, item: NodeType | EdgeType, handle: TableHandle, rows: pa.Table
) -> None:
    import pyarrow.parquet as pq  # only this format needs it

    schema = parquet_schema(item)
    sink = pa.PythonFile(file, mode="w")
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        if not item.blob_properties:
            if rows.num_rows:
                writer.write_table(rows.select(schema.names).cast(schema), _ROW_GROUP_ROWS)
            return
        held: list[pa.Table] = []
        for portion, blobs in _with_blobs(item, handle, rows):
            columns = {name: _bytes_column(item, portion, name, blobs[name]) for name in blobs}
            held.append(_complete(item, portion, columns).cast(schema))
            if sum(each.nbytes for each in held) >= _ROW_GROUP_BYTES:
                writer.write_table(pa.concat_tables(held).combine_chunks())
                held = []
        if held:
            writer.write_table(pa.concat_tables(held).combine_chunks())


def _write_csv(
    file: OutputFile, item: NodeType | EdgeType, handle: TableHandle, rows: pa.Table
) -> None:
    names = item.arrow_schema.names
    kinds = [
        STRING
        if name in item.blob_properties or name not in item.properties
        # Blobs are given as their texts, and `id`, `src` and `dst` are texts.
        else item.properties[name].type
        for name in names
    ]
    file.write(f"{','.join(names)}\n".encode())
    if not item.blob_properties:
        for portion in portions(rows, _PORTION_BYTES):
            file.write(_lines(portion.select(names), kinds))
        return
    for portion, blobs in _with_blobs(item, handle, rows):
        columns = {name: _text_column(values) for name, values in blobs.items()}
        file.write(_lines(_complete(item, portion, columns), kinds))


def _lines(rows: pa.Table, kinds: Sequence[Any]) -> bytes:  # Any: property types
    # Names of columns are plain words: the header is one line.
    return render_csv(rows, kinds).partition("\n")[2].encode()


def _with_blobs(
    item: NodeType | EdgeType, handle: TableHandle, rows: pa.Table
) -> Iterator[tuple[pa.Table, Mapping[str, Sequence[BlobValue]]]]:
    """Portions whose blobs are of a bounded size, unless one row alone has more."""
    names = item.blob_properties
    for portion in _small(item, rows):
        row_ids = row_ids_of(portion[ROW_ID]).tolist()
        blobs = {name: blobs_of_rows(handle, row_ids, name) for name in names}
        start, size_bytes = 0, 0
        for at in range(portion.num_rows):
            row_bytes = sum(_length(blobs[name][at]) for name in names)
            if at > start and size_bytes + row_bytes > _BLOB_BYTES:
                yield portion.slice(start, at - start), _part(blobs, start, at)
                start, size_bytes = at, 0
            size_bytes += row_bytes
        yield portion.slice(start), _part(blobs, start, portion.num_rows)


def _part(
    blobs: Mapping[str, Sequence[BlobValue]], start: int, end: int
) -> dict[str, Sequence[BlobValue]]:
    return {name: values[start:end] for name, values in blobs.items()}


def _length(value: BlobValue) -> int:
    return value.length if isinstance(value, Blob) else 0


def _complete(
    item: NodeType | EdgeType,
    rows: pa.Table,
    blobs: Mapping[str, pa.Array[Any]],  # Any: bytes or texts
) -> pa.Table:
    """The rows with their blobs, in the order of the table's columns."""
    columns = {
        name: blobs[name] if name in blobs else rows[name] for name in item.arrow_schema.names
    }
    return pa.table(columns)


def _bytes_column(
    item: NodeType | EdgeType, rows: pa.Table, name: str, values: Sequence[BlobValue]
) -> pa.Array[Any]:  # Any: of binary
    cells: list[bytes | None] = []
    for at, value in enumerate(values):
        if isinstance(value, str):
            entity = rows["id"][at].as_py()
            raise InvalidArgument(
                f"{key_of(item)} {entity!r}: the blob {name} is the address {value!r} of something"
                " outside the graph, and Parquet files hold bytes only; export as ndjson or csv,"
                " or leave the type out with types",
                type=item.name,
                id=entity,
                property=name,
            )
        cells.append(None if value is None else value.read(0, value.length))
    return pa.array(cells, pa.large_binary())


def _text_column(values: Sequence[BlobValue]) -> pa.Array[Any]:  # Any: of texts
    return pa.array([_blob_text(value) for value in values], pa.string())


def _blob_text(value: BlobValue) -> str | None:
    if not isinstance(value, Blob):
        return value
    return INLINE + base64.b64encode(value.read(0, value.length)).decode()
