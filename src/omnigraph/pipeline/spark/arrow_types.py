"""The Arrow types in which rows cross into Spark and come back: it has no unsigned integers.

U32 is a long, U64 a decimal of 20 digits, a vector an array of floats, and moments are counted in
microseconds. Every value survives both ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.lang.catalog import EdgeType, NodeType

_U64: Final = pa.decimal128(20, 0)
_MOMENT: Final = pa.timestamp("us", "UTC")


def spark_type(kind: pa.DataType) -> pa.DataType:
    """The type that stands for a stored one in Spark."""
    if pa.types.is_uint32(kind):
        return pa.int64()
    if pa.types.is_uint64(kind):
        return _U64
    if pa.types.is_timestamp(kind):
        return _MOMENT
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind):
        return pa.list_(spark_type(kind.value_type))
    return kind


def readable_columns(item: NodeType | EdgeType, columns: Sequence[str] | None = None) -> list[str]:
    """The columns of a type that a scan gives, or those that were asked for."""
    if columns is not None:
        return list(columns)
    return [name for name in item.arrow_schema.names if name not in item.blob_properties]


def spark_schema(item: NodeType | EdgeType, columns: Sequence[str]) -> pa.Schema:
    """The columns of a type as Spark holds them."""
    stored = item.arrow_schema
    return pa.schema(
        [
            pa.field(name, spark_type(stored.field(name).type), stored.field(name).nullable)
            for name in columns
        ]
    )


def to_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A stored batch as Spark takes it."""
    columns: list[pa.Array[Any]] = [  # Any: columns of every type
        batch.column(field.name).cast(field.type) for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
