"""Comparisons in memory, as `execution.md` fixes them: exact, three-valued, only true keeps a row.

An operand is a column of values, or one constant for all rows. The column side is never rounded;
the constant is fitted to it by the one rule that scans use too.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InternalError
from omnigraph.graph.arrays import is_given, mask_of, plus_zero, text_array
from omnigraph.graph.query.pushdown import FLIPPED
from omnigraph.lang import fit_literal, fit_members
from omnigraph.lang.arrow_schema import arrow_type
from omnigraph.lang.ir import FilterOp
from omnigraph.lang.literals import Compare, Constant
from omnigraph.lang.types import PropType, Scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from omnigraph.graph.arrays import Mask, Values


@dataclass(frozen=True, slots=True)
class Column:
    """One value for each row."""

    values: Values
    type: PropType


@dataclass(frozen=True, slots=True)
class Const:
    """One value for all rows; None is null."""

    value: object
    type: PropType
    _members: dict[Scalar, Values] = field(default_factory=dict, compare=False, repr=False)

    def members(self, column: Scalar) -> Values:
        """What a column of this type can equal of a list, fitted once."""
        if column not in self._members:
            items = self.value if isinstance(self.value, list | tuple) else ()
            self._members[column] = plus_zero(fit_members(column, items))
        return self._members[column]


Operand: TypeAlias = Column | Const

_ARROW: Mapping[FilterOp, Callable[[Any, Any], Any]] = {
    # Any: the kernels take arrays and scalars of every type.
    FilterOp.EQ: pc.equal,
    FilterOp.NE: pc.not_equal,
    FilterOp.LT: pc.less,
    FilterOp.LE: pc.less_equal,
    FilterOp.GT: pc.greater,
    FilterOp.GE: pc.greater_equal,
}
_PYTHON: Mapping[FilterOp, Callable[[Any, Any], bool]] = {
    FilterOp.EQ: operator.eq,
    FilterOp.NE: operator.ne,
    FilterOp.LT: operator.lt,
    FilterOp.LE: operator.le,
    FilterOp.GT: operator.gt,
    FilterOp.GE: operator.ge,
}


_NEVER_UNKNOWN = frozenset({FilterOp.LIST_CONTAINS, FilterOp.STR_CONTAINS, FilterOp.STARTS_WITH})


def is_known(left: Operand, op: FilterOp, right: Operand, rows: int) -> Mask:
    """For each row whether the comparison is true or false."""
    if op in _NEVER_UNKNOWN:
        return np.ones(rows, bool)
    return ~is_null(left, rows) & ~is_null(right, rows)


def is_null(operand: Operand, rows: int) -> Mask:
    """For each row whether the value is null."""
    match operand:
        case Column(values):
            return ~is_given(values)
        case Const(value):
            return np.full(rows, value is None)
        case _:
            assert_never(operand)


def is_true(left: Operand, op: FilterOp, right: Operand, rows: int) -> Mask:
    """For each row whether the comparison is true; unknown is not."""
    match op:
        case FilterOp.IN:
            return _list_contains(right, left, rows)
        case FilterOp.LIST_CONTAINS:
            return _list_contains(left, right, rows)
        case FilterOp.STR_CONTAINS | FilterOp.STARTS_WITH:
            return _text_contains(left, op, right, rows)
        case _:
            return _compared(left, op, right, rows)


def _compared(left: Operand, op: FilterOp, right: Operand, rows: int) -> Mask:
    match left, right:
        case Const(), Const():
            return np.full(rows, _compare_constants(left.value, op, right.value))
        case Column(), Const():
            return _compare_constant(left, op, right.value)
        case Const(), Column():
            return _compare_constant(right, FLIPPED[op], left.value)
        case Column(), Column():
            return _compare_columns(left, op, right)
    raise InternalError(f"cannot compare {left} and {right}")


def _compare_constants(left: object, op: FilterOp, right: object) -> bool:
    if left is None or right is None:
        return False
    # Python compares whole numbers and floats exactly; texts compare by code point, as bytes do.
    return _PYTHON[op](left, right)


def _compare_constant(column: Column, op: FilterOp, value: object) -> Mask:
    if value is None:
        return np.zeros(len(column.values), bool)
    match fit_literal(column.type.scalar, op, value):
        case Constant(truth):
            return is_given(column.values) & truth
        case Compare(fitted_op, fitted, scalar):
            kind = arrow_type(PropType(scalar=scalar))
            values = column.values
            if values.type != kind:
                values = values.cast(kind)
            return mask_of(_ARROW[fitted_op](values, pa.scalar(fitted, kind)))
        case never:
            assert_never(never)


def _compare_columns(left: Column, op: FilterOp, right: Column) -> Mask:
    common = common_type(left.type.scalar, right.type.scalar)
    first, second = left.values, right.values
    if common is not None:
        first, second = (operand.cast(common, safe=False) for operand in (first, second))
    return mask_of(_ARROW[op](first, second))


_EXACT_INTEGERS = pa.decimal128(20, 0)
"""Holds every whole number of 64 bits, signed or not."""


def common_type(first: Scalar, second: Scalar) -> pa.DataType | None:
    """What both sides are compared as; `None`: as they are."""
    if first is second or not first.is_numeric:
        return None
    if first.is_float or second.is_float:
        return pa.float64()
    return _EXACT_INTEGERS if Scalar.U64 in (first, second) else pa.int64()


def _text_contains(left: Operand, op: FilterOp, right: Operand, rows: int) -> Mask:
    is_prefix = op is FilterOp.STARTS_WITH
    match left, right:
        case (Const(None), _) | (_, Const(None)):
            return np.zeros(rows, bool)
        case Const(), Const():
            whole, part = str(left.value), str(right.value)
            return np.full(rows, whole.startswith(part) if is_prefix else part in whole)
        case Column(), Const():
            match_part = pc.starts_with if is_prefix else pc.match_substring
            return mask_of(match_part(text_array(left.values), str(right.value)))
        case _:
            return _contains_by_row(_texts(left, rows), _texts(right, rows), is_prefix=is_prefix)


def _texts(operand: Operand, rows: int) -> Values:
    match operand:
        case Column(values):
            return values
        case Const(value):
            return repeated(str(value), pa.string(), rows)
        case _:
            assert_never(operand)


def _contains_by_row(whole: Values, part: Values, *, is_prefix: bool) -> Mask:
    import datafusion  # a comparison of two texts is rare, and it loads slowly

    session = datafusion.SessionContext()
    rows = pa.table({"whole": whole, "part": part, "at": pa.array(np.arange(len(whole)))})
    functions = datafusion.functions
    test = functions.starts_with if is_prefix else functions.contains
    frame = session.from_arrow(rows).filter(test(datafusion.col("whole"), datafusion.col("part")))
    mask = np.zeros(len(whole), bool)
    mask[frame.select("at").to_arrow_table()["at"].to_numpy()] = True
    return mask


def _list_contains(left: Operand, right: Operand, rows: int) -> Mask:
    match left, right:
        case (Const(None), _) | (_, Const(None)):
            return np.zeros(rows, bool)
        case Const(list() | tuple() as items), Const():
            is_member = any(_compare_constants(item, FilterOp.EQ, right.value) for item in items)
            return np.full(rows, is_member)
        case Const(list() | tuple()), Column():
            return _is_one_of(right, left)
        case Column(values), _:
            return _some_item(values, left.type, right)
    raise InternalError(f"cannot look for {right} in {left}")


def _is_one_of(column: Column, items: Const) -> Mask:
    wanted = items.members(column.type.scalar)
    found = plus_zero(column.values.cast(wanted.type))
    return mask_of(pc.is_in(found, value_set=wanted)) & is_given(column.values)


def _some_item(values: Values, kind: PropType, wanted: Operand) -> Mask:
    lists: Any = values  # Any: an array of lists
    items = Column(pc.list_flatten(lists), kind.item)
    owners = np.asarray(pc.list_parent_indices(lists).to_numpy(), np.int64)
    if isinstance(wanted, Column):
        wanted = Column(wanted.values.take(owners), wanted.type)
    mask = np.zeros(len(lists), bool)
    mask[owners[_compared(items, FilterOp.EQ, wanted, len(owners))]] = True
    return mask


def repeated(value: object, kind: pa.DataType, rows: int) -> Values:
    """One value for each row."""
    if isinstance(value, list | tuple):  # Arrow cannot repeat a list.
        lists: Values = pa.array([value], kind).take(np.zeros(rows, np.int64))
        return lists
    if not rows:
        return pa.array([], kind)
    constant: Any = pa.scalar(value, kind)  # Any: a scalar of that type
    values: Values = pa.repeat(constant, rows)
    return values
