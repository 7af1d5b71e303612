"""Filters of Spark as predicates of the tables: exactly the same rows, or left to Spark.

Spark's logic is three-valued like that of the tables, so a negation is pushed into the comparison
and never put around a part that stands for "always true where not null". A literal is fitted to the
stored type: U64 comes as a decimal, U32 as a long that it may not hold, a moment with microseconds
where milliseconds are stored. What is not finite, lists and vectors are left to Spark, but for
their null tests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import datasource as spark

from omnigraph.graph.query.pushdown import push_filters
from omnigraph.lang import ir
from omnigraph.lang.ir import FilterOp
from omnigraph.lang.types import STRING, PropType, Scalar
from omnigraph.lang.values import date_days
from omnigraph.storage.predicates import Compare, In, IsNull, Not, Or, Predicate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.lang.catalog import EdgeType, NodeType

NEVER: Final[Predicate] = Or(())
"""True for no row."""

_NEGATED: Final[Mapping[FilterOp, FilterOp]] = {
    FilterOp.EQ: FilterOp.NE,
    FilterOp.NE: FilterOp.EQ,
    FilterOp.LT: FilterOp.GE,
    FilterOp.GE: FilterOp.LT,
    FilterOp.GT: FilterOp.LE,
    FilterOp.LE: FilterOp.GT,
}
_COMPARED: Final[Mapping[type[spark.Filter], FilterOp]] = {
    spark.EqualTo: FilterOp.EQ,
    spark.LessThan: FilterOp.LT,
    spark.LessThanOrEqual: FilterOp.LE,
    spark.GreaterThan: FilterOp.GT,
    spark.GreaterThanOrEqual: FilterOp.GE,
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def table_predicate(item: NodeType | EdgeType, given: spark.Filter) -> Predicate | None:
    """The predicate that keeps the rows which the filter keeps; `None` leaves them to Spark."""
    is_negated = isinstance(given, spark.Not)
    inner = given.child if isinstance(given, spark.Not) else given
    path = getattr(inner, "attribute", ())
    column = _column(item, path)
    return None if column is None else _converted(column, inner, is_negated=is_negated)


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    type: PropType

    @property
    def is_set(self) -> Predicate:
        return Not(IsNull(self.name))


def _column(item: NodeType | EdgeType, path: Sequence[str]) -> _Column | None:
    if len(path) != 1 or path[0] not in item.arrow_schema.names:
        return None
    prop = item.properties.get(path[0])
    return _Column(path[0], STRING if prop is None else prop.type)


def _converted(column: _Column, given: spark.Filter, *, is_negated: bool) -> Predicate | None:
    match given:
        case spark.IsNull():
            return column.is_set if is_negated else IsNull(column.name)
        case spark.IsNotNull():
            return IsNull(column.name) if is_negated else column.is_set
        case spark.EqualNullSafe(value=value):
            return _equal_or_null(column, value, is_negated=is_negated)
        case spark.In(value=values):
            return _in(column, values, is_negated=is_negated)
        case spark.StringStartsWith(value=prefix):
            return _prefix(column, prefix, is_negated=is_negated)
        case (
            spark.EqualTo(value=value)
            | spark.LessThan(value=value)
            | spark.LessThanOrEqual(value=value)
            | spark.GreaterThan(value=value)
            | spark.GreaterThanOrEqual(value=value)
        ):
            op = _COMPARED[type(given)]
            return _compare(column, _NEGATED[op] if is_negated else op, value)
        case _:
            return None


def _equal_or_null(column: _Column, value: object, *, is_negated: bool) -> Predicate | None:
    """Equality that is never unknown: null equals null."""
    if value is None:
        return column.is_set if is_negated else IsNull(column.name)
    if not is_negated:
        return _compare(column, FilterOp.EQ, value)
    differs = _compare(column, FilterOp.NE, value)
    return None if differs is None else Or((differs, IsNull(column.name)))


def _in(column: _Column, values: Sequence[object], *, is_negated: bool) -> Predicate | None:
    if not values:
        # Whether null is in an empty set depends on a setting of Spark.
        return None
    if is_negated and None in values:
        return NEVER
    held: list[Compare] = []
    for each in values:
        predicate = _compare(column, FilterOp.EQ, each)
        if predicate is None:
            return None
        if isinstance(predicate, Compare):
            held.append(predicate)
    if not held:
        return column.is_set if is_negated else NEVER
    among = In(column.name, pa.array([each.value.as_py() for each in held], held[0].value.type))
    return Not(among) if is_negated else among


def _prefix(column: _Column, prefix: object, *, is_negated: bool) -> Predicate | None:
    if not column.type.is_text or not isinstance(prefix, str):
        return None
    if not prefix:
        return NEVER if is_negated else column.is_set
    predicate = _pushed(column, FilterOp.STARTS_WITH, prefix)
    return predicate if predicate is None or not is_negated else Not(predicate)


def _compare(column: _Column, op: FilterOp, value: object) -> Predicate | None:
    if value is None:
        return NEVER
    if not column.type.is_plain:
        return None
    match column.type.scalar, value:
        case Scalar.DATETIME, datetime(tzinfo=zone) if zone is not None:
            return _compare_moment(column, op, (value - _EPOCH) // _MICROSECOND)
        case Scalar.DATE, date() if not isinstance(value, datetime):
            return _pushed(column, op, date_days(value))
        case Scalar.STRING, str():
            return _pushed(column, op, value)
        case Scalar.BOOL, bool():
            return _pushed(column, op, value)
        case Scalar.F32 | Scalar.F64, float() if math.isfinite(value):
            return _pushed(column, op, value)
        case scalar, int() if scalar.is_integer and not isinstance(value, bool):
            return _pushed(column, op, value)
        case scalar, Decimal() if scalar.is_integer and value == value.to_integral_value():
            return _pushed(column, op, int(value))
        case _:
            return None


def _compare_moment(column: _Column, op: FilterOp, at_us: int) -> Predicate | None:
    at_ms, rest_us = divmod(at_us, 1_000)
    if not rest_us:
        return _pushed(column, op, at_ms)
    # No stored moment lies between this millisecond and the next.
    match op:
        case FilterOp.EQ:
            return NEVER
        case FilterOp.NE:
            return column.is_set
        case FilterOp.LT | FilterOp.LE:
            return _pushed(column, FilterOp.LE, at_ms)
        case _:
            return _pushed(column, FilterOp.GT, at_ms)


def _pushed(column: _Column, op: FilterOp, value: object) -> Predicate | None:
    """One comparison with a value as its type holds it, fitted as those of queries are."""
    compared = ir.Filter(
        ir.Prop("", column.name, column.type),
        op,
        ir.Lit(value, column.type.as_nullable(nullable=False)),
    )
    pushed = push_filters([compared], {})
    return NEVER if pushed.is_never else pushed.predicate
