"""Computed values by the rules, one value at a time."""

import math
import operator
from collections.abc import Callable
from typing import Any

from tests.reference.comparison import nearest_f32

from omnigraph.errors import NumericOverflow
from omnigraph.lang import ir
from omnigraph.lang.ir import ValueFunc
from omnigraph.lang.types import INTEGER_RANGES, PropType, Scalar

_ARITHMETIC: dict[ValueFunc, Callable[[Any, Any], Any]] = {  # Any: integers or floats
    ValueFunc.ADD: operator.add,
    ValueFunc.SUBTRACT: operator.sub,
    ValueFunc.MULTIPLY: operator.mul,
}
_OF_ONE: dict[ValueFunc, Callable[[Any], Any]] = {  # Any: values of every type
    ValueFunc.NEGATIVE: operator.neg,
    ValueFunc.LOWER: lambda text: "".join(map(_lower, text)),
    ValueFunc.UPPER: lambda text: "".join(map(_upper, text)),
    ValueFunc.TRIM: str.strip,
    ValueFunc.LENGTH: len,
    ValueFunc.ABS: abs,
    ValueFunc.FLOOR: math.floor,
    ValueFunc.CEIL: math.ceil,
    ValueFunc.ROUND: round,
    ValueFunc.YEAR: operator.attrgetter("year"),
    ValueFunc.MONTH: operator.attrgetter("month"),
    ValueFunc.DAY: operator.attrgetter("day"),
    ValueFunc.HOUR: operator.attrgetter("hour"),
}


def computed(expr: ir.Computed, args: list[Any]) -> object:  # Any: values of every type
    """The value; null for a null anywhere, and for a division by zero."""
    if any(arg is None for arg in args):
        return None
    func, kind = expr.func, expr.type
    if func in _OF_ONE:
        given = _number(args[0], kind) if func is ValueFunc.NEGATIVE else args[0]
        return as_type(_OF_ONE[func](given), kind)
    if func is ValueFunc.CONCAT:
        return args[0] + args[1]
    left, right = (_number(arg, kind) for arg in args)
    if func in _ARITHMETIC:
        return _fits(_ARITHMETIC[func](left, right), kind)
    if right == 0:
        return None
    if func is ValueFunc.DIVIDE:
        return _fits(left / right, kind)
    return int(math.copysign(1, left)) * (abs(left) % abs(right))


def as_type(value: Any, kind: PropType) -> object:  # noqa: ANN401 - a value of any type
    """A value in the type that several have in common."""
    if value is None or kind.is_list or not kind.scalar.is_numeric:
        return value
    if kind.scalar is Scalar.F32:
        return float(value) + 0.0
    return _fits(_number(value, kind), kind)


def _number(value: Any, kind: PropType) -> Any:  # noqa: ANN401 - an integer or a float
    """An operand in the type that is computed in."""
    return float(value) if kind.scalar.is_float else _fits(value, kind)


def _fits(value: Any, kind: PropType) -> Any:  # noqa: ANN401 - an integer or a float
    if kind.scalar is Scalar.F32:
        return nearest_f32(value) if not isinstance(value, float) else value + 0.0
    if kind.scalar.is_float:
        if not math.isfinite(value):
            raise NumericOverflow("a float leaves the range")
        return value + 0.0
    low, high = INTEGER_RANGES[kind.scalar]
    if not low <= value <= high:
        raise NumericOverflow("a whole number leaves the range")
    return value


def _upper(letter: str) -> str:
    """The one letter that Unicode maps a letter to; itself where it needs several, as for ß."""
    # A letter with an iota below has one letter as its title, and that is its simple capital.
    return next((each for each in (letter.upper(), letter.title()) if len(each) == 1), letter)


def _lower(letter: str) -> str:
    # Only of İ there are two: the first is its simple small letter.
    return letter.lower()[0]
