"""How a type of the catalog becomes a Lance table, and how rows cross between the two.

Above this package columns carry the property names of the catalog in force; in the table they carry
the name that the property had at its creation. Every property column is nullable in the table,
whatever the catalog says: a softly dropped property is never written again, and what must be given
is checked before a row comes here. Only system columns are never null: `id`, and of an edge `src`
and `dst`. A node may have properties with the names of these two; which column is which is a matter
of the layout, never of the name alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InternalError, StorageUnsupported
from omnigraph.ids import Incarnation, TableId, TableKey
from omnigraph.lang.catalog import NodeType
from omnigraph.lang.types import Scalar
from omnigraph.storage.handles import TableLayout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from omnigraph.lang.catalog import EdgeType, Property

PRIMARY_KEY = {"lance-schema:unenforced-primary-key": "true"}
"""Without it two upserts of one new key both land."""

NODE_COLUMNS = ("id",)
EDGE_COLUMNS = ("id", "src", "dst")


def layout_of(item: NodeType | EdgeType) -> TableLayout:
    """The table of an accepted type.

    Raises:
        InternalError: the type has no ids yet.
    """
    if item.type_id is None or item.incarnation is None:
        raise InternalError(f"type {item.name} was never accepted, so it has no table")
    is_node = isinstance(item, NodeType)
    kind, folder = ("node", "nodes") if is_node else ("edge", "edges")
    return TableLayout(
        table_id=TableId(item.type_id),
        incarnation=Incarnation(item.incarnation),
        table_key=TableKey(f"{kind}:{item.name}"),
        location=f"{folder}/{item.type_id:016x}-{item.incarnation:016x}",
        schema=item.arrow_schema,
        system_columns=NODE_COLUMNS if is_node else EDGE_COLUMNS,
        columns={
            name: declared.column
            for name, declared in item.properties.items()
            if declared.column is not None and declared.column != name
        },
        property_ids={
            name: declared.property_id
            for name, declared in item.properties.items()
            if declared.property_id is not None
        },
        blobs=frozenset(item.blob_properties),
        text_indexes=_text_indexes(item),
    )


def _text_indexes(item: NodeType | EdgeType) -> tuple[str, ...]:
    wished = {name for names in item.indexes for name in names}
    if isinstance(item, NodeType):
        wished |= set(item.key or ())
    return tuple(
        name
        for name, declared in item.properties.items()
        if name in wished and is_free_text(declared)
    )


def is_free_text(item: Property) -> bool:
    """A scalar String that is no enum: what the text analyzer is for."""
    kind = item.type
    return kind.scalar is Scalar.STRING and not kind.is_list and kind.enum_values is None


def schema_of(**kinds: pa.DataType) -> pa.Schema:
    """A schema of nullable columns."""
    return pa.schema(kinds)


def column_of(layout: TableLayout, name: str) -> str:
    """The physical column of a property or system column."""
    return layout.columns.get(name, name)


def physical_field(layout: TableLayout, name: str) -> pa.Field[pa.DataType]:
    """The column that stores a property, as the table declares it."""
    column = column_of(layout, name)
    if name in layout.blobs:
        return lance.blob_field(column)
    field = layout.schema.field(name)
    if name in layout.system_columns:
        metadata = PRIMARY_KEY if name == "id" else None
        return pa.field(column, field.type, nullable=False, metadata=metadata)
    return pa.field(column, field.type, nullable=True)


def physical_schema(layout: TableLayout) -> pa.Schema:
    """The schema that the table is created with."""
    return pa.schema([physical_field(layout, name) for name in layout.schema.names])


def readable_names(layout: TableLayout, names: Sequence[str] | None) -> list[str]:
    """The properties that a scan returns: those asked for, or all that are no blobs.

    Raises:
        InternalError: a name is unknown, or is a blob, whose bytes only `blob` reads.
    """
    if names is None:
        return [name for name in layout.schema.names if name not in layout.blobs]
    for name in names:
        if name in layout.blobs or name not in layout.schema.names:
            raise InternalError(f"{layout.table_key} has no property {name!r} that a scan can read")
    return list(names)


def to_logical(layout: TableLayout, names: Sequence[str], batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch of physical columns as the catalog names and types them.

    A column that this version of the table does not have yet reads as null.
    """
    present = set(batch.schema.names)
    arrays: list[pa.Array[pa.Scalar[pa.DataType]]] = []
    for name in names:
        column, kind = column_of(layout, name), layout.schema.field(name).type
        if column in present:
            array = batch.column(column)
            arrays.append(array if array.type == kind else array.cast(kind))
        else:
            arrays.append(pa.nulls(batch.num_rows, kind))
    return pa.RecordBatch.from_arrays(arrays, schema=logical_schema(layout, names))


def logical_schema(layout: TableLayout, names: Sequence[str]) -> pa.Schema:
    """The schema of a scan that returns these properties."""
    return pa.schema([layout.schema.field(name) for name in names])


def to_physical(layout: TableLayout, target: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch of properties as the columns of the table, all of them, in the table's order.

    A property that the batch leaves out, and a column whose property was dropped, become null.

    Raises:
        InternalError: the batch has a column that is no property of the type.
        StorageUnsupported: a null for a column that an earlier release made without nulls.
    """
    by_column = {column_of(layout, name): name for name in layout.schema.names}
    unknown = set(batch.schema.names) - set(layout.schema.names)
    if unknown:
        raise InternalError(f"{layout.table_key} has no property {sorted(unknown)[0]!r}")
    arrays = []
    for field in target:
        name = by_column.get(field.name)
        if name is None or name not in batch.schema.names:
            array = pa.nulls(batch.num_rows, field.type)
        else:
            given = batch.column(name)
            array = _as_blob(given, field.type) if name in layout.blobs else _fit(given, field)
        if not field.nullable and array.null_count and name not in layout.system_columns:
            raise _no_nulls_there(layout, name or field.name)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _no_nulls_there(layout: TableLayout, name: str) -> StorageUnsupported:
    return StorageUnsupported(
        f"{layout.table_key}: an earlier release made the column {name!r} of this table without"
        " room for nulls, because of its name; `omnigraph clone` makes a graph in which it can be"
        " null",
        table=str(layout.table_key),
        property=name,
    )


def _fit(
    array: pa.Array[pa.Scalar[pa.DataType]], field: pa.Field[pa.DataType]
) -> pa.Array[pa.Scalar[pa.DataType]]:
    return array if array.type == field.type else array.cast(field.type)


def _as_blob(
    array: pa.Array[pa.Scalar[pa.DataType]], kind: pa.DataType
) -> pa.Array[pa.Scalar[pa.DataType]]:
    """Bytes, or structs of `data` and `uri`, in the form that a blob column takes."""
    if array.type == kind:
        return array
    storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    if not isinstance(storage, pa.StructType):
        raise InternalError(f"a blob column cannot have the type {kind}")
    fields = [storage.field(number) for number in range(storage.num_fields)]
    rows = len(array)
    if isinstance(array.type, pa.StructType):
        parts_by_name = {
            array.type.field(number).name: pc.struct_field(array, [number])
            for number in range(array.type.num_fields)
        }
    else:
        parts_by_name = {"data": array}
    parts = [
        parts_by_name[part.name].cast(part.type)
        if part.name in parts_by_name
        else pa.nulls(rows, part.type)
        for part in fields
    ]
    packed = pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null())
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, packed)
    return packed


def batches_of(rows: pa.Table | Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches of a table or of anything that yields them."""
    return iter(rows.to_batches() if isinstance(rows, pa.Table) else rows)
