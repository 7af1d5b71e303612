"""Groups and aggregates over the rows of a match.

Keys and arguments are read once for each entity and reach the rows as numbers. A row may stand for
many (its weight).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.counts import count_rows
from omnigraph.engine.entities import distinct_numbers
from omnigraph.engine.evaluate import entity_values
from omnigraph.engine.optional_entities import OptionalEntities
from omnigraph.engine.order import value_codes
from omnigraph.engine.sums import sum_floats, sum_integers
from omnigraph.graph.arrays import encode, equality_codes, is_given
from omnigraph.graph.query.compare import Const, repeated
from omnigraph.graph.query.gather import gather
from omnigraph.graph.query.overflow import sum_overflow, too_long_collect
from omnigraph.lang import ir
from omnigraph.lang.arrow_schema import arrow_type
from omnigraph.lang.ir import AggFunc
from omnigraph.limits import MAX_COLLECTED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from omnigraph.engine.evaluate import Evaluator
    from omnigraph.graph.arrays import Numbers, Values
    from omnigraph.graph.query.budget import Budget


@dataclass(frozen=True, slots=True)
class Groups:
    """Which group each row is in, and one row of each group."""

    of_row: Numbers
    first: Numbers

    @property
    def size(self) -> int:
        """How many groups there are."""
        return len(self.first)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped:
    """The groups of a match: their aggregates, and a row of each that tells its keys."""

    aggregates: Mapping[str, Values]
    """By column name."""
    first: Bindings
    """One row of each group; its keys are read when somebody asks."""
    size: int

    def keep(self, at: Numbers) -> Grouped:
        """Some of the groups, in this order."""
        return Grouped(
            aggregates={name: values.take(at) for name, values in self.aggregates.items()},
            first=self.first.keep(at),
            size=len(at),
        )


def group(
    projections: Sequence[ir.Projection], bindings: Bindings, evaluator: Evaluator
) -> Grouped:
    """The groups of the rows, in no order."""
    keys = [
        projection.expr for projection in projections if not isinstance(projection.expr, ir.Agg)
    ]
    groups = _group(keys, bindings, evaluator)
    return Grouped(
        aggregates={
            projection.name: _aggregated(projection.expr, bindings, groups, evaluator)
            for projection in projections
            if isinstance(projection.expr, ir.Agg)
        },
        first=bindings.keep(groups.first) if keys else Bindings(rows=1),
        size=groups.size,
    )


def _group(keys: Sequence[ir.Expr], bindings: Bindings, evaluator: Evaluator) -> Groups:
    rows = bindings.rows
    if not keys:
        return Groups(np.zeros(rows, np.int64), np.zeros(1, np.int64))
    codes = np.zeros(rows, np.int64)
    size = 1
    for key in keys:
        of_key, of_size = _key_codes(key, bindings, evaluator)
        if size * of_size >= 2**62:
            codes, size = _dense(codes, size)
        codes = codes * of_size + of_key
        size *= of_size
    codes, count = _dense(codes, size)
    first = np.empty(count, np.int64)
    # The last assignment stays, so the first row of a group is written last.
    first[codes[::-1]] = np.arange(rows - 1, -1, -1)
    return Groups(codes, first)


def _dense(codes: Numbers, size: int) -> tuple[Numbers, int]:
    """The codes renumbered without gaps."""
    if size <= 4 * len(codes) + 1024:
        used, places = distinct_numbers(codes, size)
        return places, len(used)
    used, places = np.unique(codes, return_inverse=True)
    return places, len(used)


def _key_codes(key: ir.Expr, bindings: Bindings, evaluator: Evaluator) -> tuple[Numbers, int]:
    """Numbers that are equal where the key is, and a bound that they stay below."""
    match key:
        case ir.NodeId(var):
            bound = bindings.columns[var]
            return bound.at, bound.entities.size
        case ir.Prop(var, name):
            bound = bindings.columns[var]
            entities = bound.entities
            if name == entities.identity:
                return bound.at, entities.size
            values, at = entity_values(bound, name)
            distinct, codes = encode(values)
            codes += 1
            return codes if entities.is_everything(at) else codes[at], len(distinct) + 1
        case _:
            operand, places = evaluator.of_entities(key, bindings)
            if isinstance(operand, Const):
                return np.zeros(bindings.rows, np.int64), 1
            distinct, codes = encode(operand.values)
            return (codes if places is None else codes[places]) + 1, len(distinct) + 1


def _aggregated(agg: ir.Agg, bindings: Bindings, groups: Groups, evaluator: Evaluator) -> Values:
    weights, rows = bindings.weights, groups.of_row
    is_count = agg.func is AggFunc.COUNT and not agg.distinct
    if (
        is_count
        and isinstance(agg.arg, ir.NodeId)
        and not isinstance(
            bindings.columns[agg.arg.var].entities if agg.arg.var in bindings.columns else None,
            OptionalEntities,
        )
    ):
        if weights is None and groups.size == 1:
            return pa.array([bindings.rows], pa.int64())
        return pa.array(count_rows(rows, groups.size, weights), pa.int64())
    values, at = _argument(agg.arg, bindings, evaluator)
    is_set = is_given(values)
    if not is_set.all():
        has = is_set[at]
        rows, at = rows[has], at[has]
        weights = None if weights is None else weights[has]
    if agg.distinct:
        # Of nodes each counts for itself, whatever its id.
        places = at if isinstance(agg.arg, ir.NodeId) else equality_codes(values)[at]
        rows, at = _once(places, at, rows)
        weights = None
    counts = count_rows(rows, groups.size, weights)
    match agg.func:
        case AggFunc.COLLECT:
            return _collected(values, at, rows, weights, counts, evaluator.budget)
        case AggFunc.COUNT:
            return pa.array(counts, pa.int64())
        case AggFunc.SUM:
            return pa.array(_sums(values, at, rows, groups.size, weights), mask=counts == 0)
        case AggFunc.AVG:
            sums = _sums(values, at, rows, groups.size, weights)
            return pa.array(sums / np.maximum(counts, 1), mask=counts == 0)
        case AggFunc.MIN | AggFunc.MAX:
            return _extremes(values, at, rows, groups.size, is_max=agg.func is AggFunc.MAX)


def _once(places: Numbers, at: Numbers, rows: Numbers) -> tuple[Numbers, Numbers]:
    """The rows with each value, told by its place, once for each group."""
    size = int(places.max()) + 1 if len(places) else 1
    _, first = np.unique(rows * size + places, return_index=True)
    return rows[first], at[first]


def _collected(
    values: Values,
    at: Numbers,
    rows: Numbers,
    weights: Numbers | None,
    counts: Numbers,
    budget: Budget,
) -> Values:
    """The values of each group in ascending order, as lists.

    Raises:
        ResourceLimit: a list is too long, or all are too large.
    """
    longest = int(counts.max()) if len(counts) else 0
    if longest > MAX_COLLECTED:
        raise too_long_collect(longest, MAX_COLLECTED)
    if weights is not None:
        budget.require_rows(int(counts.sum()), "a `collect`")
        rows, at = np.repeat(rows, weights), np.repeat(at, weights)
    order = np.lexsort((value_codes(values)[at], rows))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    items = gather(values, at[order], budget, "a `collect`")
    lists: Any = pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), items
    )  # Any: lists of any type
    collected: Values = lists
    return collected


def _argument(expr: ir.Expr, bindings: Bindings, evaluator: Evaluator) -> tuple[Values, Numbers]:
    """The distinct things that the rows give to an aggregate, and which one each row gives."""
    if isinstance(expr, ir.Prop):
        return entity_values(bindings.columns[expr.var], expr.property)
    operand, places = evaluator.of_entities(expr, bindings)
    if isinstance(operand, Const):
        value = repeated(operand.value, arrow_type(operand.type), 1)
        return value, np.zeros(bindings.rows, np.int64)
    return operand.values, np.arange(bindings.rows) if places is None else places


def _sums(
    values: Values, at: Numbers, rows: Numbers, size: int, weights: Numbers | None
) -> NDArray[np.float64]:
    # What is null is not asked for; a number in its place keeps whole numbers whole.
    operands: Any = values  # Any: an array of numbers
    numbers = pc.fill_null(operands, 0).to_numpy(zero_copy_only=False)[at]
    if numbers.dtype.kind != "f":
        return sum_integers(numbers, rows, size, weights)
    sums = sum_floats(numbers, rows, size, weights)
    if not np.isfinite(sums).all():
        raise sum_overflow()
    return sums


def _extremes(values: Values, at: Numbers, rows: Numbers, size: int, *, is_max: bool) -> Values:
    """The smallest or largest value of each group; null where there is none."""
    places = value_codes(values)[at]
    best = np.zeros(size, np.int64) if is_max else np.full(size, np.iinfo(np.int64).max)
    (np.maximum if is_max else np.minimum).at(best, rows, places)
    # Where each group has its value from: any of those that hold it.
    holder = np.full(size, -1, np.int64)
    holds = places == best[rows]
    holder[rows[holds]] = at[holds]
    held: Any = pa.array(holder, mask=holder < 0)  # Any: places and nulls
    return values.take(held)
