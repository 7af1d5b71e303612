"""Values and their comparison, with exact arithmetic and three truth values.

Nothing here is shared with the code under test: a literal meets a column by the value that the
rules give it, not by rewriting the comparison. `None` is null, and as a truth value unknown.
"""

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any, cast

from omnigraph.lang.ir import FilterOp
from omnigraph.lang.types import PropType, Scalar

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ORDERED: dict[FilterOp, Callable[[Any, Any], bool]] = {
    FilterOp.EQ: operator.eq,
    FilterOp.NE: operator.ne,
    FilterOp.LT: operator.lt,
    FilterOp.LE: operator.le,
    FilterOp.GT: operator.gt,
    FilterOp.GE: operator.ge,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A value with its type; a column is never cast, a constant is fitted to it."""

    value: object
    type: PropType
    is_column: bool


def truth(op: FilterOp, left: Operand, right: Operand) -> bool | None:
    """What a comparison says; None is unknown."""
    match op:
        case FilterOp.IN:
            if left.value is None or right.value is None:
                return None
            return _has_member(right, left)
        case FilterOp.LIST_CONTAINS:
            return _has_member(left, right)
        case FilterOp.STR_CONTAINS:
            return _texts(left, right, lambda text, part: part in text)
        case FilterOp.STARTS_WITH:
            return _texts(left, right, lambda text, part: text.startswith(part))
        case _:
            return compare(op, left, right)


def every(truths: Iterable[bool | None]) -> bool | None:
    """`and` of three truth values."""
    seen = list(truths)
    return False if False in seen else None if None in seen else True


def opposite(value: bool | None) -> bool | None:  # noqa: FBT001 - a truth value
    """`not` of three truth values."""
    return None if value is None else not value


def compare(op: FilterOp, left: Operand, right: Operand) -> bool | None:
    """The comparison; unknown with a null on either side."""
    if left.value is None or right.value is None:
        return None
    if left.type.scalar.is_numeric:
        return _ORDERED[op](*_comparable_numbers(op, left, right))
    return _ORDERED[op](sort_form(left.value), sort_form(right.value))


def sort_form(value: object) -> Any:  # noqa: ANN401 - whatever Python orders as the rules do
    """The value as Python orders it: text by its UTF-8 bytes."""
    return value.encode() if isinstance(value, str) else value


def identity_form(value: object) -> Any:  # noqa: ANN401 - whatever Python hashes as the rules do
    """The value as something that is equal where values are: a list by its items."""
    return tuple(value) if isinstance(value, list) else sort_form(value)


def _has_member(items: Operand, wanted: Operand) -> bool:
    if items.value is None or wanted.value is None:
        return False
    members = [
        Operand(value=item, type=items.type.item, is_column=items.is_column)
        for item in cast("list[object]", items.value)  # the type says that it is a list
    ]
    return any(compare(FilterOp.EQ, member, wanted) is True for member in members)


def _texts(left: Operand, right: Operand, holds: Callable[[str, str], bool]) -> bool:
    if left.value is None or right.value is None:
        return False
    return holds(str(left.value), str(right.value))


def _comparable_numbers(
    op: FilterOp, left: Operand, right: Operand
) -> tuple[Fraction | float, Fraction | float]:
    """Both sides as numbers whose comparison in Python is the one that is meant."""
    if left.is_column and not right.is_column:
        return _column_value(left), _fitted(op, left.type.scalar, _exact(right))
    if right.is_column and not left.is_column:
        return _fitted(op, right.type.scalar, _exact(left)), _column_value(right)
    if left.type.scalar.is_float or right.type.scalar.is_float:
        return float(_exact(left)), float(_exact(right))
    return _exact(left), _exact(right)


def _column_value(column: Operand) -> Fraction | float:
    exact = _exact(column)
    return float(exact) if column.type.scalar.is_float else exact


def _fitted(op: FilterOp, column: Scalar, constant: Fraction) -> Fraction | float:
    """What a constant is for a column: integers are compared exactly, whatever the constant."""
    if column.is_integer:
        return constant
    if column is Scalar.F32 and op in (FilterOp.EQ, FilterOp.NE):
        return nearest_f32(constant)
    return float(constant)


def _exact(operand: Operand) -> Fraction:
    return Fraction(cast("float", operand.value))  # the type says that it is a number


def nearest_f32(exact: Fraction) -> float:
    """The nearest F32, ties to even, or an infinity."""
    if not exact:
        return 0.0
    size, exponent = abs(exact), -126
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    quantum = Fraction(2) ** (exponent - 23)
    rounded = round(size / quantum) * quantum
    found = float("inf") if rounded >= Fraction(2) ** 128 else float(rounded)
    return found if exact > 0 else -found


def constant_value(value: object, kind: PropType) -> object:
    """A constant of the IR as a Python value: dates are epoch days there, times milliseconds."""
    if isinstance(value, tuple | list):
        part = kind.item if kind.is_list else PropType(scalar=Scalar.F32)
        return [constant_value(item, part) for item in value]
    match kind.scalar, value:
        case Scalar.DATE, int():
            return (_EPOCH + timedelta(days=value)).date()
        case Scalar.DATETIME, int():
            return _EPOCH + timedelta(milliseconds=value)
        case _:
            return value


def argument_value(value: object, kind: PropType) -> object:
    """A request's parameter as a Python value of its declared type."""
    if value is None:
        return None
    if isinstance(value, list):
        part = kind.item if kind.is_list else PropType(scalar=Scalar.F32)
        return [argument_value(item, part) for item in value]
    match kind.scalar, value:
        case Scalar.F32, int() | float():
            return nearest_f32(Fraction(value))
        case Scalar.F64, int() | float():
            return float(value)
        case Scalar.DATE, str():
            return date.fromisoformat(value)
        case Scalar.DATETIME, str():
            return datetime.fromisoformat(value)
        case _ if kind.scalar.is_integer:
            return int(cast("int", value))  # a number, or its decimal digits
        case _:
            return value
