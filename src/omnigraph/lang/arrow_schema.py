"""Property types as Arrow types, the way tables store them.

A Blob is plain binary here; the storage layer swaps in the substrate's own blob field.
"""

from collections.abc import Iterable

import pyarrow as pa

from omnigraph.lang.catalog import Property
from omnigraph.lang.types import STRING, PropType, Scalar

_SCALARS: dict[Scalar, pa.DataType] = {
    Scalar.STRING: pa.utf8(),
    Scalar.BLOB: pa.large_binary(),
    Scalar.BOOL: pa.bool_(),
    Scalar.I32: pa.int32(),
    Scalar.I64: pa.int64(),
    Scalar.U32: pa.uint32(),
    Scalar.U64: pa.uint64(),
    Scalar.F32: pa.float32(),
    Scalar.F64: pa.float64(),
    Scalar.DATE: pa.date32(),
    Scalar.DATETIME: pa.timestamp("ms", tz="UTC"),
}


def arrow_type(kind: PropType) -> pa.DataType:
    """The Arrow type that stores a property type."""
    if kind.scalar is Scalar.VECTOR:
        return pa.list_(pa.float32(), kind.vector_dim or 0)
    scalar = _SCALARS[kind.scalar]
    return pa.list_(scalar) if kind.is_list else scalar


def arrow_field(name: str, kind: PropType) -> "pa.Field[pa.DataType]":
    """A field with the declared nullability."""
    return pa.field(name, arrow_type(kind), nullable=kind.nullable)


_OF_ARROW: dict[pa.DataType, Scalar] = {kind: scalar for scalar, kind in _SCALARS.items()}


def prop_type(field: "pa.Field[pa.DataType]") -> PropType:
    """The type whose values a field holds, but for the words of an enum, which Arrow has not.

    Raises:
        KeyError: no type is stored like this.
    """
    kind = field.type
    if isinstance(kind, pa.FixedSizeListType):
        return PropType(scalar=Scalar.VECTOR, vector_dim=kind.list_size, nullable=field.nullable)
    if isinstance(kind, pa.ListType):
        scalar = _OF_ARROW[kind.value_type]
        return PropType(scalar=scalar, is_list=True, nullable=field.nullable)
    return PropType(scalar=_OF_ARROW[kind], nullable=field.nullable)


def table_schema(system_columns: Iterable[str], properties: Iterable[Property]) -> pa.Schema:
    """System columns (text, never null), then the properties in order."""
    fields = [arrow_field(name, STRING) for name in system_columns]
    fields += [arrow_field(item.name, item.type) for item in properties]
    return pa.schema(fields)
