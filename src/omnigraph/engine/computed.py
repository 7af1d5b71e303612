"""Values that are computed from others of the same row, a column at a time.

Whole numbers are computed in 64 bits and exactly or not at all; a division by zero is null. `if`
and `coalesce` look only at the rows that need a part, so what a row does not take cannot fail.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.truth import truths
from omnigraph.graph.arrays import is_given
from omnigraph.graph.query.compare import Column, Const
from omnigraph.graph.query.gather import repeat
from omnigraph.graph.query.overflow import value_overflow
from omnigraph.graph.query.text_functions import TEXT_FUNCTIONS
from omnigraph.lang import ir
from omnigraph.lang.arrow_schema import arrow_type
from omnigraph.lang.ir import ValueFunc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from omnigraph.graph.arrays import Mask, Numbers, Values
    from omnigraph.graph.query.budget import Budget
    from omnigraph.graph.query.compare import Operand

Rows = TypeVar("Rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Computer(Generic[Rows]):
    """Computes values of rows, whatever rows are."""

    leaf: Callable[[ir.Expr, Rows], Operand]
    """What is not computed from others."""
    size: Callable[[Rows], int]
    keep: Callable[[Rows, Numbers], Rows]
    """Some of the rows, by position."""
    budget: Budget

    def operand(self, expr: ir.Expr, rows: Rows) -> Operand:
        """The value of an expression for each row, or for all."""
        match expr:
            case ir.Computed(ValueFunc.COALESCE, _, kind):
                values = self._coalesced(expr, rows)
            case ir.Computed(_, args, kind):
                values = _compute(expr, [self._values(arg, rows) for arg in args])
            case ir.If(_, _, _, kind):
                values = self._chosen(expr, rows)
            case _:
                return self.leaf(expr, rows)
        self.budget.require_bytes(values.nbytes, "a computed value")
        return Column(values, kind)

    def truth(self, condition: ir.Condition, rows: Rows) -> Mask:
        """For each row whether the condition is true."""
        return truths(condition, lambda expr: self.operand(expr, rows), self.size(rows))[0]

    def _values(self, expr: ir.Expr, rows: Rows) -> Values:
        operand = self.operand(expr, rows)
        if isinstance(operand, Const):
            kind, size = arrow_type(operand.type), self.size(rows)
            return repeat(operand.value, kind, size, self.budget, "a computed value")
        return operand.values

    def _coalesced(self, expr: ir.Computed, rows: Rows) -> Values:
        """The first value of each row that is not null."""
        kind = arrow_type(expr.type)
        values = _cast(self._values(expr.args[0], rows), kind, expr)
        for arg in expr.args[1:]:
            missing = np.flatnonzero(~is_given(values))
            if not len(missing):
                break
            found = _cast(self._values(arg, self.keep(rows, missing)), kind, expr)
            at = np.arange(len(values))
            at[missing] = len(values) + np.arange(len(missing))
            values = _concat(values, found).take(at)
        return values

    def _chosen(self, expr: ir.If, rows: Rows) -> Values:
        """The value that the condition chooses for each row."""
        kind, holds = arrow_type(expr.type), self.truth(expr.condition, rows)
        taken, left = np.flatnonzero(holds), np.flatnonzero(~holds)
        first = _cast(self._values(expr.then, self.keep(rows, taken)), kind, expr)
        second = _cast(self._values(expr.otherwise, self.keep(rows, left)), kind, expr)
        at = np.empty(len(holds), np.int64)
        at[taken] = np.arange(len(taken))
        at[left] = len(taken) + np.arange(len(left))
        return _concat(first, second).take(at)


def _concat(first: Values, second: Values) -> Values:
    joined: Values = pa.concat_arrays([first, second])
    return joined


def _compute(expr: ir.Computed, args: list[Values]) -> Values:
    try:
        return _result(expr, args)
    except pa.ArrowInvalid as error:
        raise value_overflow(expr) from error


_INTEGERS: Mapping[ValueFunc, Callable[..., Any]] = {  # Any: kernels take arrays of every type
    ValueFunc.ADD: pc.add_checked,
    ValueFunc.SUBTRACT: pc.subtract_checked,
    ValueFunc.MULTIPLY: pc.multiply_checked,
    ValueFunc.NEGATIVE: pc.negate_checked,
}
_FLOATS: Mapping[ValueFunc, Callable[..., Any]] = {  # Any: as above
    ValueFunc.ADD: pc.add,
    ValueFunc.SUBTRACT: pc.subtract,
    ValueFunc.MULTIPLY: pc.multiply,
    ValueFunc.DIVIDE: pc.divide,
    ValueFunc.NEGATIVE: pc.negate,
}
_TIMES: Mapping[ValueFunc, Callable[..., Any]] = {  # Any: as above
    ValueFunc.YEAR: pc.year,
    ValueFunc.MONTH: pc.month,
    ValueFunc.DAY: pc.day,
    ValueFunc.HOUR: pc.hour,
}
_ROUNDINGS: Mapping[ValueFunc, Callable[..., Any]] = {  # Any: as above
    ValueFunc.ABS: pc.abs_checked,
    ValueFunc.FLOOR: pc.floor,
    ValueFunc.CEIL: pc.ceil,
}


def _result(expr: ir.Computed, args: list[Values]) -> Values:
    func, kind = expr.func, arrow_type(expr.type)
    first: Any = args[0]  # Any: kernels take arrays of every type
    if func is ValueFunc.REMAINDER:
        return _remainder(*(_cast(arg, kind, expr) for arg in args))
    if func in _INTEGERS and pa.types.is_integer(kind):
        return _values(_INTEGERS[func](*(_cast(arg, kind, expr) for arg in args)))
    if func in _FLOATS:
        return _float_result(expr, args)
    if func is ValueFunc.CONCAT:
        return _values(pc.binary_join_element_wise(first, args[1], ""))
    if func is ValueFunc.LENGTH:
        is_text = pa.types.is_string(first.type) or pa.types.is_large_string(first.type)
        length = pc.utf8_length if is_text else pc.list_value_length
        return _values(length(first).cast(kind))
    if func in TEXT_FUNCTIONS:
        return _values(TEXT_FUNCTIONS[func](first))
    if func in _TIMES:
        return _values(_TIMES[func](first).cast(kind))
    return _rounded(func, first)


def _values(result: Any) -> Values:  # noqa: ANN401 - what any kernel returned
    values: Values = result
    return values


def _cast(values: Values, kind: pa.DataType, expr: ir.Expr) -> Values:
    """The values in another type; whole numbers become floats by rounding, and never others."""
    if values.type == kind:
        return values
    try:
        return values.cast(kind, safe=not pa.types.is_floating(kind))
    except pa.ArrowInvalid as error:
        raise value_overflow(expr) from error


def _float_result(expr: ir.Computed, args: list[Values]) -> Values:
    operands: list[Any] = [_cast(arg, pa.float64(), expr) for arg in args]  # Any: as above
    if expr.func is ValueFunc.DIVIDE:
        is_zero = pc.equal(operands[1], pa.scalar(0.0))
        operands[1] = pc.if_else(is_zero, pa.scalar(None, pa.float64()), operands[1])
    result = _FLOATS[expr.func](*operands)
    if not pc.all(pc.is_finite(result), min_count=0).as_py():
        raise value_overflow(expr)
    return _values(pc.add(result, 0.0))  # There is one zero.


def _remainder(left: Values, right: Values) -> Values:
    """What is left of whole numbers, with the sign of the first; of zero nothing is."""
    first, second = (_filled(values) for values in (left, right))
    is_known = is_given(left) & is_given(right) & (second != 0)
    # By minus one everything is divided; the smallest number by it does not fit.
    divisor = np.where(np.isin(second, (0, -1)), 1, second)
    return pa.array(np.fmod(first, divisor), pa.int64(), mask=~is_known)


def _filled(values: Values) -> Numbers:
    numbers: Any = values  # Any: as above
    filled: Numbers = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False)
    return filled


def _rounded(func: ValueFunc, values: Any) -> Values:  # noqa: ANN401 - an array of numbers
    if pa.types.is_integer(values.type):
        is_signed = pa.types.is_signed_integer(values.type)
        return _values(pc.abs_checked(values) if func is ValueFunc.ABS and is_signed else values)
    if func is ValueFunc.ROUND:
        result = pc.round(values, ndigits=0, round_mode="half_to_even")
    else:
        result = _ROUNDINGS[func](values)
    return _values(pc.add(result, pa.scalar(0.0, values.type)))  # There is one zero.
