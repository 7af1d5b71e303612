"""Columns of a query result as lists: as Python holds the values, and as JSON writes them.

A column is converted as a whole, by its declared type. Null is None in both forms. The JSON form
is exact for integers of any size, names what JSON cannot write (`"NaN"`, `"Infinity"`,
`"-Infinity"`), and gives an F32 its own shortest digits, not those of the F64 that Python holds it
in.
"""

from __future__ import annotations

import math
from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.types import Scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from omnigraph.errors import JsonValue
    from omnigraph.lang.types import PropType

ColumnValues: TypeAlias = "pa.ChunkedArray[Any]"  # Any: the Arrow type is known at run time only

_MAX_JS_INTEGER: Final = 2**53 - 1
_WRITTEN_AS_TEXT: Final = frozenset({Scalar.STRING, Scalar.DATE, Scalar.DATETIME})

_Value = TypeVar("_Value")


def python_rows(table: pa.Table, kinds: Sequence[PropType]) -> list[dict[str, object]]:
    """A dict per row, of Python values."""
    return _rows(
        table, [python_values(*column) for column in zip(table.columns, kinds, strict=True)]
    )


def json_rows(
    table: pa.Table, kinds: Sequence[PropType], *, js_safe: bool = False
) -> list[dict[str, JsonValue]]:
    """A dict per row, of JSON values."""
    convert = partial(json_values, js_safe=js_safe)
    return _rows(table, [convert(*column) for column in zip(table.columns, kinds, strict=True)])


def python_values(values: ColumnValues, kind: PropType) -> list[object]:
    """The values of a column; a moment is an aware datetime in UTC, a vector a list of floats."""
    return _convert(values, kind, _python_scalars)


def json_values(values: ColumnValues, kind: PropType, *, js_safe: bool = False) -> list[JsonValue]:
    """The values of a column as JSON writes them; `js_safe` spells integers beyond ±(2^53 - 1)."""
    return _convert(values, kind, partial(_json_scalars, js_safe=js_safe))


def cell_texts(values: ColumnValues, kind: PropType) -> list[str | None]:
    """The values of a column as text: JSON without the quotes around a lone string."""
    cells = json_values(values, kind)
    if kind.scalar in _WRITTEN_AS_TEXT and not kind.is_list:
        return cast("list[str | None]", cells)  # cast: JSON has only text for these types
    return [
        cell if cell is None or isinstance(cell, str) else msgspec.json.encode(cell).decode()
        for cell in cells
    ]


def _rows(table: pa.Table, columns: Sequence[Sequence[_Value]]) -> list[dict[str, _Value]]:
    names = table.column_names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _convert(
    values: ColumnValues, kind: PropType, scalars: Callable[[ColumnValues, Scalar], list[Any]]
) -> list[Any]:
    """Convert by `scalars`, through the items of lists and vectors. Any: one list per scalar."""
    if not kind.is_list and kind.scalar is not Scalar.VECTOR:
        return scalars(values, kind.scalar)
    lists: Any = values  # Any: a column of lists
    items = scalars(pc.list_flatten(lists), kind.scalar)
    converted: list[list[Any] | None] = []  # Any: as above
    start = 0
    for length in pc.list_value_length(lists).to_pylist():
        converted.append(None if length is None else items[start : start + length])
        start += length or 0
    return converted


def _python_scalars(values: ColumnValues, scalar: Scalar) -> list[Any]:  # Any: as above
    match scalar:
        case Scalar.DATE:
            return list(values.to_numpy().tolist())
        case Scalar.DATETIME:
            # Arrow's own conversion looks up the zone for every value.
            moments = values.to_numpy().tolist()
            return [None if moment is None else moment.replace(tzinfo=UTC) for moment in moments]
        case _:
            return values.to_pylist()


def _json_scalars(
    values: ColumnValues, scalar: Scalar, *, js_safe: bool
) -> list[Any]:  # Any: as above
    match scalar:
        case Scalar.I64 | Scalar.U64 if js_safe:
            return [_js_integer(value) for value in values.to_pylist()]
        case Scalar.F32 | Scalar.VECTOR:
            # Through the shortest text of the F32: the F64 nearest to it has the same digits.
            return _json_floats(values.cast(pa.utf8()).cast(pa.float64()))
        case Scalar.F64:
            return _json_floats(values)
        case Scalar.DATE:
            return values.cast(pa.utf8()).to_pylist()
        case Scalar.DATETIME:
            return _spell_moments(values)
        case _:
            return values.to_pylist()


def _js_integer(value: int | None) -> int | str | None:
    if value is None or -_MAX_JS_INTEGER <= value <= _MAX_JS_INTEGER:
        return value
    return str(value)


def _json_floats(values: ColumnValues) -> list[float | str | None]:
    floats = values.to_pylist()
    if pc.all(pc.is_finite(values)).as_py() is not False:
        return floats
    return [
        value if value is None or math.isfinite(value) else _name_non_finite(value)
        for value in floats
    ]


def _name_non_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _spell_moments(values: ColumnValues) -> list[str | None]:
    # Without the zone Arrow writes the same digits, thirty times faster.
    texts = values.cast(pa.timestamp("ms")).cast(pa.utf8()).to_pylist()
    return [None if text is None else f"{text.replace(' ', 'T')}Z" for text in texts]
