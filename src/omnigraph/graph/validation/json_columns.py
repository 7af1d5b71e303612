"""Columns of JSON values, and fitting of one to a property type: the stored type, or no value.

The values are what the JSON parser gives: text, numbers, booleans, lists, objects and None. A
column whose values are plainly of the type is converted as a whole; any other is read value by
value, by the one reader of JSON values, which also says why a value does not fit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.arrays import nulls
from omnigraph.graph.validation.columns import FittedColumn
from omnigraph.lang.arrow_schema import arrow_type
from omnigraph.lang.types import PropType, Scalar
from omnigraph.lang.values import UnfitValue, read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from omnigraph.graph.arrays import Column, Mask

_FIRST_DAY: Final = -719_162
_DAY_MS: Final = 86_400_000
_SECONDS_Z: Final = len("0000-00-00T00:00:00Z")
_NONE: Final = type(None)
_ABSENT: Final = msgspec.UNSET
_ABSENT_KIND: Final = type(_ABSENT)


@dataclass(frozen=True, slots=True)
class JsonValues:
    """One column of JSON values, as its rows were given."""

    values: Sequence[object]
    """`msgspec.UNSET` where a row does not mention the column."""
    kinds: frozenset[type]
    """The types of the values, and perhaps None."""
    texts: pa.StringArray | None = None
    """The values as Arrow has them, where all are texts or None and somebody asked."""

    @classmethod
    def of(cls, values: Sequence[object]) -> JsonValues:
        """Values with their types."""
        return cls(values, frozenset(map(type, values)))

    @classmethod
    def of_texts(cls, values: Sequence[object]) -> JsonValues:
        """JSON values that most likely are texts."""
        try:
            # Of all JSON values Arrow takes texts and None alone for texts.
            texts = pa.array(values, pa.utf8())
        except pa.ArrowTypeError:
            return cls.of(values)
        return cls(values, frozenset({str, _NONE}), texts)

    @property
    def absent_count(self) -> int:
        """How many rows do not mention the column."""
        return self.values.count(_ABSENT) if _ABSENT_KIND in self.kinds else 0

    def absent(self) -> Mask:
        """The rows that do not mention the column."""
        if _ABSENT_KIND not in self.kinds:
            return np.zeros(len(self.values), np.bool_)
        return np.fromiter((each is _ABSENT for each in self.values), np.bool_, len(self.values))

    def or_null(self) -> JsonValues:
        """The same with None where a row does not mention the column."""
        if _ABSENT_KIND not in self.kinds:
            return self
        if self.kinds == {_ABSENT_KIND}:
            return JsonValues([None] * len(self.values), frozenset({_NONE}))
        values = [None if each is _ABSENT else each for each in self.values]
        return JsonValues(values, self.kinds - {_ABSENT_KIND} | {_NONE})


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRows:
    """Rows of JSON values, column by column; a column may be left out that no row mentions."""

    count: int
    columns: Mapping[str, JsonValues]

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, object]]) -> JsonRows:
        """The columns of rows that are given one by one."""
        names = dict.fromkeys(chain.from_iterable(rows))
        return cls(
            count=len(rows),
            columns={
                name: JsonValues.of([each.get(name, _ABSENT) for each in rows]) for name in names
            },
        )

    def column(self, name: str) -> JsonValues:
        """The values of a column."""
        values = self.columns.get(name)
        if values is None:
            values = JsonValues([_ABSENT] * self.count, frozenset({_ABSENT_KIND}))
        return values

    def mentions(self, name: str) -> bool:
        """Whether any row mentions the column, be it with a null."""
        values = self.columns.get(name)
        return values is not None and bool(values.kinds - {_ABSENT_KIND})


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonColumn:
    """A column in the stored type, and why the values that are null here did not fit."""

    fitted: FittedColumn
    reasons: Mapping[int, str] = field(default_factory=dict)


def fit_json_column(given: JsonValues, kind: PropType) -> JsonColumn:
    """The values in the Arrow type of `kind`; never fails. None of them is absent.

    Enums are texts here: check 4 judges.
    """
    kind = kind.as_nullable(nullable=False)
    whole = _as_a_whole(given, kind)
    if whole is not None:
        return JsonColumn(
            fitted=FittedColumn(values=whole, unfit=np.zeros(len(given.values), np.bool_))
        )
    return _one_by_one(given.values, kind)


def _as_a_whole(given: JsonValues, kind: PropType) -> Column | None:
    """The column if every value is plainly of the type, else `None`."""
    if given.kinds <= {_NONE}:
        return nulls(len(given.values), arrow_type(kind))
    convert, allowed = (
        (_lists, {list})
        if kind.is_list or kind.scalar is Scalar.VECTOR
        else _CONVERTERS[kind.scalar]
    )
    if not given.kinds <= {_NONE, *allowed}:
        return None
    try:
        return convert(given, kind)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return None


def _same(given: JsonValues, kind: PropType) -> Column | None:
    return pa.array(given.values, arrow_type(kind))


def _texts(given: JsonValues, _: PropType) -> pa.StringArray:
    return pa.array(given.values, pa.utf8()) if given.texts is None else given.texts


def _floats(given: JsonValues, kind: PropType) -> Column | None:
    wide = pa.array(given.values, pa.float64())
    # cast: the stubs lose the type
    floats = cast("Column", wide.cast(arrow_type(kind), safe=False))
    if not _all_true(pc.is_finite(floats)):
        return None
    # Adding zero turns -0.0 into 0.0 and changes nothing else.
    return cast("Column", pc.add(floats, pa.scalar(0.0, floats.type)))


def _days(given: JsonValues, kind: PropType) -> Column | None:
    # Arrow takes `YYYY-MM-DD` and no other form.
    days = _texts(given, kind).cast(pa.date32())
    is_known = pc.greater_equal(days.view(pa.int32()), pa.scalar(_FIRST_DAY, pa.int32()))
    return days if _all_true(is_known) else None


def _moments(given: JsonValues, kind: PropType) -> Column | None:
    texts = _texts(given, kind)
    # Arrow takes hours and minutes alone too, and other spellings of zones.
    is_long = pc.greater_equal(pc.binary_length(texts), pa.scalar(_SECONDS_Z, pa.int32()))
    if not (_all_true(is_long) and _all_true(pc.ends_with(texts, "Z"))):
        return None
    moments = texts.cast(arrow_type(kind))
    first_ms = pa.scalar(_FIRST_DAY * _DAY_MS, pa.int64())
    return moments if _all_true(pc.greater_equal(moments.view(pa.int64()), first_ms)) else None


def _lists(given: JsonValues, kind: PropType) -> Column | None:
    lists = cast("Sequence[list[object] | None]", given.values)
    if kind.scalar is Scalar.VECTOR:
        return _vectors(lists, kind)
    flat = list(chain.from_iterable(each or () for each in lists))
    items = _as_a_whole(JsonValues.of(flat), kind.item)
    return None if items is None else _list_array(lists, items)


def _vectors(lists: Sequence[list[object] | None], kind: PropType) -> Column | None:
    size = kind.vector_dim or 0
    if any(each is not None and len(each) != size for each in lists):
        return None
    blank = [0.0] * size
    flat = list(chain.from_iterable(blank if each is None else each for each in lists))
    if not set(map(type, flat)) <= {float, int}:
        return None
    with np.errstate(over="ignore"):
        parts = np.array(pa.array(flat, pa.float64()), np.float64).astype(np.float32)
    if not np.isfinite(parts).all():
        return None
    return pa.FixedSizeListArray.from_arrays(
        pa.array(parts, pa.float32()), size, mask=_absent(lists)
    )


def _one_by_one(values: Sequence[object], kind: PropType) -> JsonColumn:
    held: list[object] = []
    reasons: dict[int, str] = {}
    for at, value in enumerate(values):
        try:
            held.append(None if value is None else _read(value, kind))
        except UnfitValue as error:
            reasons[at] = str(error)
            held.append(None)
    unfit = np.zeros(len(held), np.bool_)
    unfit[list(reasons)] = True
    return JsonColumn(
        fitted=FittedColumn(values=_held_array(held, kind), unfit=unfit), reasons=reasons
    )


def _read(value: object, kind: PropType) -> object:
    if kind.enum_values is not None and isinstance(value, str):
        return value
    return read_json(value, kind, epoch_numbers=True)


def _held_array(held: Sequence[Any], kind: PropType) -> Column:  # Any: values of every type
    """Values as Python holds the stored ones."""
    stored = arrow_type(kind)
    if kind.is_list:
        items = list(chain.from_iterable(each or () for each in held))
        return _list_array(held, _held_array(items, kind.item))
    if kind.scalar is Scalar.DATE:
        return cast("Column", pa.array(held, pa.int32()).view(stored))  # cast: as above
    if kind.scalar is Scalar.DATETIME:
        return cast("Column", pa.array(held, pa.int64()).view(stored))  # cast: as above
    return pa.array(held, stored)


def _list_array(lists: Sequence[Sequence[object] | None], items: Column) -> Column:
    lengths = np.fromiter((len(each or ()) for each in lists), np.int64, len(lists))
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, mask=_absent(lists))


def _absent(values: Sequence[object]) -> pa.Array[pa.BooleanScalar]:
    absent: Mask = np.fromiter((each is None for each in values), np.bool_, len(values))
    return pa.array(absent, pa.bool_())


def _all_true(values: Column) -> bool:
    return bool(pc.all(values, min_count=0).as_py())


_CONVERTERS: Final[
    dict[Scalar, tuple[Callable[[JsonValues, PropType], Column | None], set[type]]]
] = {
    Scalar.STRING: (_texts, {str}),
    Scalar.BLOB: (_same, {bytes}),
    Scalar.BOOL: (_same, {bool}),
    Scalar.I32: (_same, {int}),
    Scalar.I64: (_same, {int}),
    Scalar.U32: (_same, {int}),
    Scalar.U64: (_same, {int}),
    Scalar.F32: (_floats, {int, float}),
    Scalar.F64: (_floats, {int, float}),
    Scalar.DATE: (_days, {str}),
    Scalar.DATETIME: (_moments, {str}),
}
