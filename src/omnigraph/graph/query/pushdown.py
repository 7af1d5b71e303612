"""Filters that a table can evaluate: from the IR to structured predicates, values bound and fitted.

What is not pushed is evaluated by the executor in memory; both give the same rows.
"""

from __future__ import annotations

import operator
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph.graph.arrays import plus_zero
from omnigraph.lang import fit_literal, fit_members, ir
from omnigraph.lang.arrow_schema import arrow_type
from omnigraph.lang.ir import FilterOp
from omnigraph.lang.literals import Compare as FittedCompare
from omnigraph.lang.literals import Constant
from omnigraph.lang.types import PropType, Scalar
from omnigraph.lang.values import UnfitValue, to_f32
from omnigraph.storage.predicates import And, Compare, CompareOp, In, IsNull, Not, Or, Predicate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


FLIPPED: Mapping[FilterOp, FilterOp] = {
    FilterOp.EQ: FilterOp.EQ,
    FilterOp.NE: FilterOp.NE,
    FilterOp.LT: FilterOp.GT,
    FilterOp.LE: FilterOp.GE,
    FilterOp.GT: FilterOp.LT,
    FilterOp.GE: FilterOp.LE,
}
"""The comparison with its sides exchanged."""


NEVER = Or(())
"""True for no row."""

ALWAYS = And(())
"""True for every row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """The filters of one variable, by who evaluates them."""

    predicate: Predicate | None
    pushed: tuple[ir.Condition, ...]
    rest: tuple[ir.Condition, ...]
    is_never: bool = False
    """Some filter is true for no row at all."""


def push_filters(filters: Sequence[ir.Condition], params: Mapping[str, object]) -> Pushed:
    """What of the filters of one variable its table evaluates."""
    parts: list[Predicate] = []
    pushed: list[ir.Condition] = []
    rest: list[ir.Condition] = []
    is_never = False
    for item in filters:
        predicate_part = _where(item, params, wanted=True)
        if predicate_part is None:
            rest.append(item)
            continue
        pushed.append(item)
        if predicate_part == NEVER:
            is_never = True
        elif predicate_part != ALWAYS:
            parts.append(predicate_part)
    predicate = None if not parts else parts[0] if len(parts) == 1 else And(tuple(parts))
    return Pushed(predicate=predicate, pushed=tuple(pushed), rest=tuple(rest), is_never=is_never)


def can_push(item: ir.Condition) -> bool:
    """Whether the table evaluates a condition, whatever its parameters will be."""
    match item:
        case ir.AllOf(parts) | ir.AnyOf(parts):
            return all(can_push(part) for part in parts)
        case ir.Negated(part):
            return can_push(part)
        case ir.NullTest(expr):
            return isinstance(expr, ir.Prop) and expr.type.scalar is not Scalar.BLOB
    match item.left, item.op, item.right:
        case ir.Prop(), FilterOp.IN, ir.Param() | ir.Lit():
            return True
        case _, FilterOp.IN, _:
            return False
        case ir.Prop(), FilterOp.STARTS_WITH, ir.Param() | ir.Lit():
            return True
        case _, (FilterOp.LIST_CONTAINS | FilterOp.STR_CONTAINS | FilterOp.STARTS_WITH), _:
            return False
        case (ir.Prop(), _, ir.Param() | ir.Lit()) | (ir.Param() | ir.Lit(), _, ir.Prop()):
            return True
        case _:
            return False


def _where(item: ir.Condition, params: Mapping[str, object], *, wanted: bool) -> Predicate | None:
    """A predicate that is true where the condition has the wanted truth, and nowhere else.

    Negation thus ends at the comparisons: what a predicate does with null need not be undone.
    """
    match item:
        case ir.Filter():
            return _push(item, params) if wanted else _push_false(item, params)
        case ir.Negated(part):
            return _where(part, params, wanted=not wanted)
        case ir.NullTest(ir.Prop(property=name, type=kind)) if kind.scalar is not Scalar.BLOB:
            return IsNull(name) if wanted else Not(IsNull(name))
        case ir.NullTest():
            return None
        case ir.AllOf(parts) | ir.AnyOf(parts):
            found = [_where(part, params, wanted=wanted) for part in parts]
            known = tuple(part for part in found if part is not None)
            if len(known) < len(found):
                return None
            return _every(known) if isinstance(item, ir.AllOf) is wanted else _some(known)


def _every(parts: tuple[Predicate, ...]) -> Predicate:
    if NEVER in parts:
        return NEVER
    left = tuple(part for part in parts if part != ALWAYS)
    return left[0] if len(left) == 1 else And(left)


def _some(parts: tuple[Predicate, ...]) -> Predicate:
    if ALWAYS in parts:
        return ALWAYS
    left = tuple(part for part in parts if part != NEVER)
    return left[0] if len(left) == 1 else Or(left)


_OPPOSITE: Mapping[FilterOp, FilterOp] = {
    FilterOp.EQ: FilterOp.NE,
    FilterOp.NE: FilterOp.EQ,
    FilterOp.LT: FilterOp.GE,
    FilterOp.LE: FilterOp.GT,
    FilterOp.GT: FilterOp.LE,
    FilterOp.GE: FilterOp.LT,
}
"""What is true where a comparison is false."""


def _push_false(item: ir.Filter, params: Mapping[str, object]) -> Predicate | None:
    """A predicate that is true where the comparison is false."""
    match item.left, item.op, item.right:
        case ir.Prop() as prop, FilterOp.STARTS_WITH, (ir.Param() | ir.Lit()) as constant:
            predicate = _prefix(prop, constant_value(constant, params))
            if predicate == NEVER:
                return ALWAYS
            return Or((IsNull(prop.property), Not(predicate)))
        case ir.Prop() as prop, FilterOp.IN, (ir.Param() | ir.Lit()) as constant:
            values = constant_value(constant, params)
            some = _one_of(prop, values)
            if some == NEVER:
                return NEVER if values is None else Not(IsNull(prop.property))
            return None if some is None else Not(some)
        case _ if item.op in _OPPOSITE:
            return _push(ir.Filter(item.left, _OPPOSITE[item.op], item.right), params)
        case _:
            return None


def _push(item: ir.Filter, params: Mapping[str, object]) -> Predicate | None:
    match item.left, item.op, item.right:
        case ir.Prop() as prop, FilterOp.IN, (ir.Param() | ir.Lit()) as constant:
            return _one_of(prop, constant_value(constant, params))
        case _, FilterOp.IN, _:
            return None
        case ir.Prop() as prop, FilterOp.STARTS_WITH, (ir.Param() | ir.Lit()) as constant:
            return _prefix(prop, constant_value(constant, params))
        case _, (FilterOp.LIST_CONTAINS | FilterOp.STR_CONTAINS | FilterOp.STARTS_WITH), _:
            return None
        case ir.Prop() as prop, op, (ir.Param() | ir.Lit()) as constant:
            return _compare(prop, op, constant_value(constant, params))
        case (ir.Param() | ir.Lit()) as constant, op, ir.Prop() as prop:
            return _compare(prop, FLIPPED[op], constant_value(constant, params))
        case _:
            return None


def constant_value(constant: ir.Param | ir.Lit, params: Mapping[str, object]) -> object:
    """The value of a literal or parameter."""
    return constant.value if isinstance(constant, ir.Lit) else params[constant.name]


MANY_VALUES = 16_384
"""Beyond so many a list is not handed to the table at once: planning it takes too long."""


def _one_of(prop: ir.Prop, values: object) -> Predicate | None:
    """Membership in a list of constants, each fitted to the column as in an equality."""
    if not isinstance(values, list | tuple):
        return NEVER
    if len(values) > MANY_VALUES:
        return None
    scalar = prop.type.scalar
    if scalar is Scalar.BOOL:
        return _some(tuple(_compare(prop, FilterOp.EQ, value) for value in set(values)))
    wanted = fit_members(scalar, values)
    if not len(wanted):
        return NEVER
    # Minus zero is another number for the table than zero.
    return In(prop.property, plus_zero(wanted))


def _compare(prop: ir.Prop, op: FilterOp, value: object) -> Predicate:
    scalar = prop.type.scalar
    if value is None:
        return NEVER
    if scalar is Scalar.BOOL:
        return _compare_bool(prop.property, op, is_true=bool(value))
    match fit_literal(scalar, op, value):
        case Constant(truth):
            return Not(IsNull(prop.property)) if truth else NEVER
        case FittedCompare(fitted_op, fitted, kind):
            if scalar is Scalar.F32 and kind is Scalar.F64:
                return _compare_f32(prop.property, fitted_op, float(str(fitted)))
            return _predicate(prop.property, fitted_op, fitted, kind)


def _predicate(column: str, op: FilterOp, value: object, kind: Scalar) -> Predicate:
    if isinstance(value, float):
        value += 0.0  # Minus zero is another number for the table than zero.
    literal = pa.scalar(value, arrow_type(PropType(scalar=kind)))
    return Compare(column, CompareOp(op.value), literal)


def _compare_bool(column: str, op: FilterOp, *, is_true: bool) -> Predicate:
    """A comparison with false or true, of which false is the smaller, as an equality."""
    passing = [value for value in (False, True) if _BOOL_COMPARES[op](value, is_true)]
    if len(passing) != 1:
        return Not(IsNull(column)) if passing else NEVER
    return _predicate(column, FilterOp.EQ, passing[0], Scalar.BOOL)


_BOOL_COMPARES = {
    FilterOp.EQ: operator.eq,
    FilterOp.NE: operator.ne,
    FilterOp.LT: operator.lt,
    FilterOp.LE: operator.le,
    FilterOp.GT: operator.gt,
    FilterOp.GE: operator.ge,
}


def _compare_f32(column: str, op: FilterOp, value: float) -> Predicate:
    """An order comparison with a number that F32 may not hold, exactly, in F32."""
    try:
        near = to_f32(value)
    except UnfitValue:
        is_above = value > 0
        holds = is_above if op in (FilterOp.LT, FilterOp.LE) else not is_above
        return Not(IsNull(column)) if holds else NEVER
    if near != value:
        # No F32 lies between the two, so the comparison with the nearer one decides.
        is_low = op in (FilterOp.LT, FilterOp.LE)
        if near > value:
            op = FilterOp.LT if is_low else FilterOp.GE
        else:
            op = FilterOp.LE if is_low else FilterOp.GT
    return _predicate(column, op, float(np.float32(near)), Scalar.F32)


def _prefix(prop: ir.Prop, value: object) -> Predicate:
    """A prefix as a range, which an ordinary index answers."""
    if value is None:
        return NEVER
    prefix = str(value)
    if not prefix:
        return Not(IsNull(prop.property))
    lower = _predicate(prop.property, FilterOp.GE, prefix, Scalar.STRING)
    after = _text_after(prefix)
    if after is None:
        return lower
    return And((lower, _predicate(prop.property, FilterOp.LT, after, Scalar.STRING)))


_SURROGATES = range(0xD800, 0xE000)


def _text_after(prefix: str) -> str | None:
    """The smallest text above every text with this prefix; `None` if there is none."""
    kept = prefix.rstrip(chr(sys.maxunicode))
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    if following in _SURROGATES:
        following = _SURROGATES.stop
    return kept[:-1] + chr(following)
