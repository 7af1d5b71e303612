"""Fitting of a number to the column it is compared with, exactly.

The column is never cast. The result is a comparison whose value has the column's own type (so that
an index can serve it), or a constant for all rows whose column is not null.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.arrow_schema import arrow_type
from omnigraph.lang.ir import FilterOp
from omnigraph.lang.types import INTEGER_RANGES, PropType, Scalar
from omnigraph.lang.values import UnfitValue, to_f32


@dataclass(frozen=True, slots=True)
class Compare:
    """`column op value`, the value being of type `scalar`."""

    op: FilterOp
    value: object
    scalar: Scalar


@dataclass(frozen=True, slots=True)
class Constant:
    """The same answer for every row whose column is not null; null rows stay unknown."""

    truth: bool


Fitted = Compare | Constant


def fit_literal(column: Scalar, op: FilterOp, value: object) -> Fitted:
    """Fit a non-null constant to a column of scalar type `column`.

    `list_contains` compares items and follows the rules of equality. Values that are no numbers
    pass unchanged: the checker has made sure that their type is the column's.
    """
    if not column.is_numeric or not isinstance(value, int | float):
        return Compare(op, value, column)
    item_op = FilterOp.EQ if op is FilterOp.LIST_CONTAINS else op
    fitted = (
        _fit_integer(column, item_op, value)
        if column.is_integer
        else _fit_float(column, item_op, value)
    )
    if op is FilterOp.LIST_CONTAINS and isinstance(fitted, Compare):
        return Compare(op, fitted.value, fitted.scalar)
    return fitted


def fit_members(column: Scalar, values: Sequence[object]) -> "pa.Array[Any]":  # Any: of its type
    """What a column of scalar type `column` can equal of a list: each as `fit_literal` fits it."""
    kind = arrow_type(PropType(scalar=column))
    given: list[Any] = [value for value in values if value is not None]  # Any: as the list has them
    if column.is_integer:
        low, high = INTEGER_RANGES[column]
        whole = [value for value in given if isinstance(value, int) or value.is_integer()]
        return pa.array([int(value) for value in whole if low <= value <= high], kind)
    if column.is_float and not all(isinstance(value, float) for value in given):
        fitted = [fit_literal(column, FilterOp.EQ, value) for value in given]
        given = [each.value for each in fitted if isinstance(each, Compare)]
    if column is Scalar.F32:
        nearest = pa.array(given, pa.float64()).cast(kind, safe=False)
        return nearest.filter(pc.is_finite(nearest))
    return pa.array(given, kind)


def _fit_integer(column: Scalar, op: FilterOp, value: float) -> Fitted:
    if isinstance(value, float) and not math.isfinite(value):
        return _beyond(op, above=value > 0)
    low, high = INTEGER_RANGES[column]
    if isinstance(value, float) and not value.is_integer():
        return _fit_fraction(column, op, value)
    whole = int(value)
    if low <= whole <= high:
        return Compare(op, whole, column)
    return _beyond(op, above=whole > high)


def _fit_fraction(column: Scalar, op: FilterOp, value: float) -> Fitted:
    match op:
        case FilterOp.EQ:
            return Constant(truth=False)
        case FilterOp.NE:
            return Constant(truth=True)
        case FilterOp.LT | FilterOp.LE:
            return _fit_integer(column, FilterOp.LE, math.floor(value))
        case FilterOp.GT | FilterOp.GE:
            return _fit_integer(column, FilterOp.GE, math.ceil(value))
        case _:
            raise ValueError(f"{op} does not compare numbers")


def _beyond(op: FilterOp, *, above: bool) -> Constant:
    """The comparison with a number outside the column's range."""
    match op:
        case FilterOp.EQ:
            return Constant(truth=False)
        case FilterOp.NE:
            return Constant(truth=True)
        case FilterOp.LT | FilterOp.LE:
            return Constant(truth=above)
        case FilterOp.GT | FilterOp.GE:
            return Constant(truth=not above)
        case _:
            raise ValueError(f"{op} does not compare numbers")


def _fit_float(column: Scalar, op: FilterOp, value: float) -> Fitted:
    try:
        as_f64 = float(value)
    except OverflowError:
        return _beyond(op, above=value > 0)
    if column is Scalar.F64 or op not in (FilterOp.EQ, FilterOp.NE):
        return Compare(op, as_f64, Scalar.F64)
    try:
        return Compare(op, to_f32(value), Scalar.F32)
    except UnfitValue:
        return _beyond(op, above=value > 0)
