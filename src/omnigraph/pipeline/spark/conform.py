"""The one gate through which a task's batches leave it: exactly the declared columns and types.

Spark reads a task's Arrow output by position and by declared type. An `int64` array under a
declared `int` ends in an error of the JVM that names neither column nor type, so batches are made
to fit, or refused by name, before Spark sees them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Iterable


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the columns of the schema, in its order and of its types.

    A cast that would change a value is refused.

    Raises:
        InternalError: a column is missing or unknown, does not fit its type, or is null where the
            schema has no nulls.
    """
    if batch.schema.equals(schema) and not _has_forbidden_nulls(batch, schema):
        return batch
    if sorted(batch.schema.names) != sorted(schema.names):
        raise InternalError(
            f"a task gave the columns {batch.schema.names}, and {schema.names} are declared;"
            " please report this",
            given=list(batch.schema.names),
            declared=list(schema.names),
        )
    columns = [_fit(batch.column(field.name), field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def to_ipc(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> bytes:
    """Batches as one Arrow stream, which keeps every type that Spark lacks."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def from_ipc(data: bytes) -> tuple[pa.RecordBatch, ...]:
    """The batches of `to_ipc`."""
    with pa.ipc.open_stream(data) as reader:
        return tuple(reader)


# Any: of whatever type the column has.
def _fit(column: pa.Array[Any], field: pa.Field[Any]) -> pa.Array[Any]:
    try:
        fitted = column if column.type.equals(field.type) else column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InternalError(
            f"a task gave {field.name!r} as {column.type}, which does not fit the declared"
            f" {field.type}: {error}; please report this",
            column=field.name,
            given=str(column.type),
            declared=str(field.type),
        ) from error
    if not field.nullable and fitted.null_count:
        raise InternalError(
            f"a task gave {fitted.null_count} nulls for {field.name!r}, which has none by its"
            " declaration; please report this",
            column=field.name,
        )
    return fitted


def _has_forbidden_nulls(batch: pa.RecordBatch, schema: pa.Schema) -> bool:
    return any(
        not field.nullable and column.null_count
        for field, column in zip(schema, batch.columns, strict=True)
    )
