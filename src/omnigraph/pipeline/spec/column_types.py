"""Which types of a source's columns become which properties, without a cast."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraph.lang.types import Scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from omnigraph.lang.types import PropType

_SQL_TYPES: Final = {
    Scalar.STRING: "string",
    Scalar.BLOB: "binary",
    Scalar.BOOL: "boolean",
    Scalar.I32: "int",
    Scalar.I64: "bigint",
    Scalar.U32: "bigint",
    Scalar.U64: "decimal(20,0)",
    Scalar.F32: "float",
    Scalar.F64: "double",
    Scalar.DATE: "date",
    Scalar.DATETIME: "timestamp",
    Scalar.VECTOR: "array<float>",
}
_U64_DIGITS: Final = 20


def sql_type(kind: PropType) -> str:
    """The Spark type that holds a property."""
    plain = _SQL_TYPES[kind.scalar]
    return f"array<{plain}>" if kind.is_list else plain


def cast_to(text: str, given: pa.DataType, kind: PropType) -> str:
    """What makes values of the kind out of those of a column or an expression, in Spark SQL."""
    wanted = sql_type(kind)
    if kind.is_list and _is_text(given):
        return f"from_json({text}, '{wanted}')"
    return f"cast({text} as {wanted})"


def widens(given: Any, kind: PropType) -> bool:  # noqa: ANN401 - an Arrow type with its members
    """Whether values of the given type are values of the kind; signs are checked row by row."""
    if pa.types.is_dictionary(given):
        given = given.value_type
    if pa.types.is_null(given):
        return True
    if kind.is_list:
        return _is_list(given) and widens(given.value_type, kind.item)
    return _RULES[kind.scalar](given)


def _is_text(given: pa.DataType) -> bool:
    return (
        pa.types.is_string(given)
        or pa.types.is_large_string(given)
        or pa.types.is_string_view(given)
    )


def _is_blob(given: pa.DataType) -> bool:
    """Bytes, or a struct of bytes and an address."""
    return (
        pa.types.is_binary(given)
        or pa.types.is_large_binary(given)
        or pa.types.is_fixed_size_binary(given)
        or pa.types.is_binary_view(given)
        or pa.types.is_struct(given)
    )


def _is_list(given: pa.DataType) -> bool:
    return (
        pa.types.is_list(given)
        or pa.types.is_large_list(given)
        or pa.types.is_fixed_size_list(given)
    )


def _is_vector(given: Any) -> bool:  # noqa: ANN401 - as above
    return (
        _is_list(given)
        and pa.types.is_floating(given.value_type)
        and given.value_type.bit_width <= 32
    )


def _is_moment(given: Any) -> bool:  # noqa: ANN401 - as above
    """A timestamp, which without a zone is one in UTC, or a day."""
    return pa.types.is_timestamp(given) or pa.types.is_date(given)


def _is_number(given: Any, *, float_bits: int = 0, integer_bits: int = 0) -> bool:  # noqa: ANN401 - as above
    """A float or a signed integer of at most so many bits, or an unsigned integer of fewer."""
    if pa.types.is_floating(given):
        return bool(given.bit_width <= float_bits)
    if pa.types.is_signed_integer(given):
        return bool(given.bit_width <= integer_bits)
    return pa.types.is_unsigned_integer(given) and given.bit_width < integer_bits


def _is_u64(given: Any) -> bool:  # noqa: ANN401 - as above
    if pa.types.is_decimal(given):
        return bool(given.scale == 0 and given.precision <= _U64_DIGITS)
    return pa.types.is_integer(given)


_RULES: Final[Mapping[Scalar, Callable[[Any], bool]]] = {  # Any: as above
    Scalar.STRING: _is_text,
    Scalar.BOOL: pa.types.is_boolean,
    Scalar.BLOB: _is_blob,
    Scalar.DATE: pa.types.is_date,
    Scalar.DATETIME: _is_moment,
    Scalar.VECTOR: _is_vector,
    Scalar.F32: partial(_is_number, float_bits=32, integer_bits=16),
    Scalar.F64: partial(_is_number, float_bits=64, integer_bits=32),
    Scalar.I32: partial(_is_number, integer_bits=32),
    Scalar.I64: partial(_is_number, integer_bits=64),
    # Spark has no unsigned integers.
    Scalar.U32: pa.types.is_integer,
    Scalar.U64: _is_u64,
}
