"""Conditions of the IR as Spark columns that are true, false or null; only true keeps a row.

Spark joins truths as the language does. Constants are fitted to the column they are compared with
by the one rule that scans and the engine use too.
"""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, assert_never

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from omnigraph.errors import InternalError
from omnigraph.graph.query.compare import Const, common_type, is_true
from omnigraph.graph.query.pushdown import FLIPPED
from omnigraph.lang import fit_literal, ir
from omnigraph.lang.arrow_schema import arrow_type
from omnigraph.lang.ir import FilterOp
from omnigraph.lang.literals import Compare, Constant
from omnigraph.lang.types import PropType, Scalar
from omnigraph.pipeline.query.values import Cell, column_of, is_member, literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column

    from omnigraph.pipeline.query.values import Operand

MANY_VALUES = 256
"""A longer list is looked up in a set and not written into the plan."""

_COMPARE: Mapping[FilterOp, Callable[[Column, Column], Column]] = {
    FilterOp.EQ: operator.eq,
    FilterOp.NE: operator.ne,
    FilterOp.LT: operator.lt,
    FilterOp.LE: operator.le,
    FilterOp.GT: operator.gt,
    FilterOp.GE: operator.ge,
}


def truth(item: ir.Condition, operand: Callable[[ir.Expr], Operand]) -> Column:
    """What a condition says of each row."""
    match item:
        case ir.NullTest(expr):
            side = operand(expr)
            return F.lit(side.value is None) if isinstance(side, Const) else side.column.isNull()
        case ir.Negated(part):
            return ~truth(part, operand)
        case ir.AllOf(parts):
            return functools.reduce(operator.and_, [truth(part, operand) for part in parts])
        case ir.AnyOf(parts):
            return functools.reduce(operator.or_, [truth(part, operand) for part in parts])
        case ir.Filter(left, op, right):
            return _compared(operand(left), op, operand(right))
        case _:
            assert_never(item)


def _compared(left: Operand, op: FilterOp, right: Operand) -> Column:
    if isinstance(left, Const) and isinstance(right, Const):
        return _constants(left, op, right)
    match op:
        case FilterOp.IN:
            is_known = column_of(left).isNotNull() & _is_list(right)
            return F.when(is_known, _contains(right, left))
        case FilterOp.LIST_CONTAINS:
            return _contains(left, right)
        case FilterOp.STR_CONTAINS:
            return _never_unknown(F.contains(column_of(left), column_of(right)))
        case FilterOp.STARTS_WITH:
            return _never_unknown(F.startswith(column_of(left), column_of(right)))
        case _:
            return _ordered(left, op, right)


def _constants(left: Const, op: FilterOp, right: Const) -> Column:
    is_lenient = op in (FilterOp.LIST_CONTAINS, FilterOp.STR_CONTAINS, FilterOp.STARTS_WITH)
    if not is_lenient and (left.value is None or right.value is None):
        return F.lit(None).cast("boolean")
    return F.lit(bool(is_true(left, op, right, 1)[0]))


def _never_unknown(column: Column) -> Column:
    return F.coalesce(column, F.lit(False))  # noqa: FBT003 - a literal


def _is_list(operand: Operand) -> Column:
    if isinstance(operand, Const):
        return F.lit(operand.value is not None)
    return operand.column.isNotNull()


def _ordered(left: Operand, op: FilterOp, right: Operand) -> Column:
    if isinstance(left, Cell) and isinstance(right, Cell):
        return _columns(left, op, right)
    if isinstance(left, Cell) and isinstance(right, Const):
        return _constant(left, op, right.value)
    if isinstance(left, Const) and isinstance(right, Cell):
        return _constant(right, FLIPPED[op], left.value)
    raise InternalError(f"cannot compare {left} and {right}; please report this")


def _constant(cell: Cell, op: FilterOp, value: object) -> Column:
    if value is None:
        return F.lit(None).cast("boolean")
    match fit_literal(cell.type.scalar, op, value):
        case Constant(answer):
            return F.when(cell.column.isNotNull(), F.lit(answer))
        case Compare(fitted_op, fitted, scalar):
            column = cell.column
            if scalar is not cell.type.scalar and scalar is Scalar.F64:
                column = column.cast("double")
            return _COMPARE[fitted_op](column, literal(fitted, PropType(scalar=scalar)))
        case never:
            assert_never(never)


def _columns(left: Cell, op: FilterOp, right: Cell) -> Column:
    common = common_type(left.type.scalar, right.type.scalar)
    if common is None:
        return _COMPARE[op](left.column, right.column)
    name = _name(common)
    return _COMPARE[op](left.column.cast(name), right.column.cast(name))


def _name(kind: pa.DataType) -> str:
    if pa.types.is_floating(kind):
        return "double"
    return "bigint" if pa.types.is_integer(kind) else "decimal(20,0)"


def _contains(items: Operand, wanted: Operand) -> Column:
    """Whether some item is equal; false where either is null."""
    match items, wanted:
        case (Const(None), _) | (_, Const(None)):
            return F.lit(False)  # noqa: FBT003 - a literal
        case Const(list() | tuple() as values), Cell():
            return _never_unknown(_is_one_of(wanted, values))
        case Cell(column, kind), _:
            # Spark hands a plan to the function, which no value of ours can be.
            item = kind.item
            found = F.exists(column, lambda each: _ordered(Cell(each, item), FilterOp.EQ, wanted))
            return _never_unknown(found)
    raise InternalError(f"cannot look for {wanted} in {items}; please report this")


def _is_one_of(cell: Cell, values: Sequence[object]) -> Column:
    fitted = [
        fit_literal(cell.type.scalar, FilterOp.EQ, value) for value in values if value is not None
    ]
    found = F.lit(False)  # noqa: FBT003 - a literal
    for scalar in sorted({each.scalar for each in fitted if isinstance(each, Compare)}):
        kind = PropType(scalar=scalar)
        wanted = [
            each.value for each in fitted if isinstance(each, Compare) and each.scalar is scalar
        ]
        column = cell.column
        if scalar is not cell.type.scalar and scalar is Scalar.F64:
            column = column.cast("double")
        if scalar.is_float:
            # Both zeros are one number, and a set looks for the bits.
            column = column + literal(0.0, kind)
            wanted = [float(str(value)) + 0.0 for value in wanted]
        if len(wanted) > MANY_VALUES:
            found = found | is_member(pa.array(wanted, arrow_type(kind)))(column)
        else:
            found = found | column.isin([literal(value, kind) for value in wanted])
    return found
