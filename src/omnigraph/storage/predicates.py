"""The small algebra of predicates that reaches a table, and its two renderings.

Columns are property names; literals are Arrow scalars that were fitted to the column's type before
they came here. A predicate is rendered to a DataFusion expression over the table provider, which
takes every type, or to an Arrow expression for Lance's own scanner, which is the shorter way where
the types allow it. Values never become text.

Logic is three-valued in both: a comparison with null is unknown, and only true keeps a row.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, assert_never

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from datafusion import Expr

_T = TypeVar("_T")


class CompareOp(StrEnum):
    """The comparisons."""

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"


Value: TypeAlias = "pa.Scalar[Any]"
"""Any: a literal of whatever type its column has."""


@dataclass(frozen=True, slots=True)
class Compare:
    """`column op value`; unknown if either is null."""

    column: str
    op: CompareOp
    value: Value


@dataclass(frozen=True, slots=True)
class In:
    """The column holds one of the values, none of which is null."""

    column: str
    values: pa.Array[Value]


@dataclass(frozen=True, slots=True)
class IsNull:
    """The column is null; never unknown."""

    column: str


@dataclass(frozen=True, slots=True)
class And:
    """Every part is true; without parts true."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Some part is true; without parts false."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part is false; unknown if it is unknown."""

    part: Predicate


@dataclass(frozen=True, slots=True)
class IsNotTrue:
    """The part is false or unknown; never unknown itself."""

    part: Predicate


Predicate: TypeAlias = Compare | In | IsNull | And | Or | Not | IsNotTrue

_COMPARE: Mapping[CompareOp, Callable[[Any, Any], Any]] = {
    # Any: the same six operators build expressions of both libraries.
    CompareOp.EQ: operator.eq,
    CompareOp.NE: operator.ne,
    CompareOp.LT: operator.lt,
    CompareOp.LE: operator.le,
    CompareOp.GT: operator.gt,
    CompareOp.GE: operator.ge,
}

Columns: TypeAlias = Mapping[str, str]
"""By property name: the column to name instead, where the two differ."""


def columns_of(predicate: Predicate) -> frozenset[str]:
    """The properties that a predicate looks at."""
    match predicate:
        case Compare(column) | In(column) | IsNull(column):
            return frozenset((column,))
        case And(parts) | Or(parts):
            return frozenset().union(*(columns_of(part) for part in parts))
        case Not(part) | IsNotTrue(part):
            return columns_of(part)
        case _:
            assert_never(predicate)


def to_datafusion(predicate: Predicate, columns: Columns) -> Expr:
    """The predicate over a table registered with DataFusion."""
    import datafusion  # only some predicates need it, and it takes a while to load

    match predicate:
        case Compare(column, op, value):
            if not value.is_valid:
                return _constant(value=None)
            compared: Expr = _COMPARE[op](_column(column, columns), datafusion.lit(value))
            return compared
        case In(column, values):
            if not len(values):
                return _none_of(_column(column, columns))
            return datafusion.functions.in_list(
                _column(column, columns), [datafusion.lit(value) for value in values]
            )
        case IsNull(column):
            return _column(column, columns).is_null()
        case And(parts):
            return _joined(operator.and_, parts, columns, _constant(value=True))
        case Or(parts):
            return _joined(operator.or_, parts, columns, _constant(value=False))
        case Not(part):
            return ~to_datafusion(part, columns)
        case IsNotTrue(part):
            inner = to_datafusion(part, columns)
            return inner.is_null() | ~inner
        case _:
            assert_never(predicate)


def _column(name: str, columns: Columns) -> Expr:
    import datafusion

    # Unquoted names are lowered, and camelCase properties would not exist.
    quoted = columns.get(name, name).replace('"', '""')
    return datafusion.col(f'"{quoted}"')


def _constant(*, value: bool | None) -> Expr:
    import datafusion

    return datafusion.lit(pa.scalar(value, pa.bool_()))


def _none_of(column: Expr) -> Expr:
    """Membership in nothing: false, but unknown for null, as for any other set."""
    return column.is_null() & _constant(value=None)


def _joined(
    join: Callable[[Expr, Expr], Expr],
    parts: tuple[Predicate, ...],
    columns: Columns,
    empty: Expr,
) -> Expr:
    rendered = [to_datafusion(part, columns) for part in parts]
    return _balanced(join, rendered) if rendered else empty


def to_arrow(predicate: Predicate, schema: pa.Schema, columns: Columns) -> pc.Expression | None:
    """The predicate for Lance's scanner, or `None` where only DataFusion can evaluate it.

    `schema` types the properties. Unsigned columns, literals of another type than their column,
    null literals and empty sets take the other way, and so does what is deeply nested.
    """
    return (
        None if _arrow_cost(predicate) > _MOST_ARROW_COST else _rendered(predicate, schema, columns)
    )


_MOST_ARROW_COST: Final = 64
"""Eight tests that are joined. Arrow hands an expression on in a time that doubles with each level
of it, in a call that no deadline ends: twenty tests in a row would take a minute."""


def _arrow_cost(predicate: Predicate) -> int:
    """How long Arrow takes to hand the predicate on, one for a single test."""
    match predicate:
        case And(parts) | Or(parts):
            costs = [_arrow_cost(part) for part in parts]
            return _balanced(lambda one, other: 2 * (one + other), costs) if costs else 1
        case Not(part):
            return 2 * _arrow_cost(part)
        case _:
            return 1


def _balanced(join: Callable[[_T, _T], _T], parts: Sequence[_T]) -> _T:
    """All parts joined by pairs, so that none lies deeper than it must."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return join(_balanced(join, parts[:middle]), _balanced(join, parts[middle:]))


def _rendered(predicate: Predicate, schema: pa.Schema, columns: Columns) -> pc.Expression | None:
    match predicate:
        case Compare(column, op, value):
            if not value.is_valid or not _is_simple(schema, column, value.type):
                return None
            compared: pc.Expression = _COMPARE[op](_field(column, columns), value)
            return compared
        case In(column, values):
            if not len(values) or not _is_simple(schema, column, values.type):
                return None
            return _field(column, columns).isin(values)
        case IsNull(column):
            is_simple = schema.field(column).type in _SIMPLE
            return _field(column, columns).is_null() if is_simple else None
        case And(parts):
            return _all_arrow(operator.and_, parts, schema, columns)
        case Or(parts):
            return _all_arrow(operator.or_, parts, schema, columns)
        case Not(part):
            inner = _rendered(part, schema, columns)
            return None if inner is None else ~inner
        case IsNotTrue():
            return None
        case _:
            assert_never(predicate)


def _field(name: str, columns: Columns) -> pc.Expression:
    return pc.field(columns.get(name, name))


_SIMPLE = (
    pa.string(),
    pa.bool_(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.date32(),
    pa.timestamp("ms", tz="UTC"),
)
"""Unsigned integers have no form on the way to the scanner; lists and vectors were not tried."""


def has_scanner_filters(schema: pa.Schema) -> bool:
    """Whether Lance's scanner takes any filter on a table with these physical columns.

    The whole schema travels with an Arrow expression, and a list of unsigned integers has no form
    there, whether the filter looks at it or not.
    """
    return not any(
        pa.types.is_list(field.type) and pa.types.is_unsigned_integer(field.type.value_type)
        for field in schema
    )


def _is_simple(schema: pa.Schema, column: str, literal: pa.DataType) -> bool:
    kind = schema.field(column).type
    return kind == literal and kind in _SIMPLE


def _all_arrow(
    join: Callable[[pc.Expression, pc.Expression], pc.Expression],
    parts: tuple[Predicate, ...],
    schema: pa.Schema,
    columns: Columns,
) -> pc.Expression | None:
    rendered = [_rendered(part, schema, columns) for part in parts]
    known = [part for part in rendered if part is not None]
    if not known or len(known) < len(rendered):
        return None
    return _balanced(join, known)
