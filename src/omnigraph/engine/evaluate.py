"""Expressions over the rows of a match: values of properties, ids, constants and search calls.

A filter on one variable is evaluated for its distinct entities, not for each row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.engine.bindings import Bindings, Bound
from omnigraph.engine.computed import Computer
from omnigraph.engine.entities import distinct
from omnigraph.engine.optional_entities import OptionalEntities
from omnigraph.errors import InternalError
from omnigraph.graph.arrays import nulled, text_array
from omnigraph.graph.query.compare import Column, Const, Operand, repeated
from omnigraph.graph.query.pushdown import constant_value
from omnigraph.lang import ir
from omnigraph.lang.ir import FilterOp
from omnigraph.lang.ir_parts import expr_variables, variables_of
from omnigraph.lang.types import BOOL, F64, I64, STRING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from omnigraph.engine.search import SearchCalls
    from omnigraph.graph.arrays import Floats, Mask, Numbers, Values
    from omnigraph.graph.query.budget import Budget
    from omnigraph.settings.sections import QuerySettings

ROWS_AT_ONCE = 16_384
"""Rows of several variables whose values are compared at once."""

_SCORE = F64.as_nullable(nullable=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """Evaluates the expressions of one query."""

    params: Mapping[str, object]
    search: SearchCalls
    settings: QuerySettings
    budget: Budget
    count: Callable[[ir.CountOf, Bindings], Numbers]
    """How many solutions a block has for each row."""

    @property
    def computer(self) -> Computer[Bindings]:
        """Computes values of rows of a match."""
        return Computer(
            leaf=self._leaf, size=lambda rows: rows.rows, keep=Bindings.keep, budget=self.budget
        )

    def truth(self, item: ir.Condition, bindings: Bindings) -> Mask:
        """For each row whether the condition is true."""
        match item:
            case ir.Filter(ir.NodeId(left), FilterOp.EQ | FilterOp.NE, ir.NodeId(right)) if (
                not _may_be_nothing(bindings, left, right)
            ):
                is_same = same_entity(bindings.columns[left], bindings.columns[right])
                return is_same if item.op is FilterOp.EQ else ~is_same
        variables = variables_of([item])
        if len(variables) != 1:
            return self._truth(item, bindings)
        (var,) = variables
        bound = bindings.columns[var]
        used, inverse = distinct(bound.at, bound.entities)
        narrow = Bindings(rows=len(used), columns={var: Bound(bound.entities, used)})
        return self._truth(item, narrow)[inverse]

    def _truth(self, item: ir.Condition, bindings: Bindings) -> Mask:
        if bindings.rows <= ROWS_AT_ONCE:
            return self._truth_at_once(item, bindings)
        # Values of rows are wide where numbers are not: no more than some are held.
        parts = [
            self._truth_at_once(item, bindings.keep(np.arange(start, stop)))
            for start, stop in _slices(bindings.rows)
        ]
        return np.concatenate(parts)

    def _truth_at_once(self, item: ir.Condition, bindings: Bindings) -> Mask:
        return self.computer.truth(item, bindings)

    def operand(self, expr: ir.Expr, bindings: Bindings) -> Operand:
        """The value of an expression for each row, or for all."""
        if not isinstance(expr, ir.Value):
            return self._leaf(expr, bindings)
        operand, at = self.of_entities(expr, bindings)
        if at is None or isinstance(operand, Const):
            return operand
        return Column(operand.values.take(at), operand.type)

    def of_entities(self, expr: ir.Expr, bindings: Bindings) -> tuple[Operand, Numbers | None]:
        """A value of one variable for its distinct entities, and which one each row has.

        For what has several variables it is the value of each row, and there are no places.
        """
        variables = expr_variables(expr)
        if len(variables) != 1:
            return self.computer.operand(expr, bindings), None
        (var,) = variables
        bound = bindings.columns[var]
        if bound.entities.is_everything(bound.at):
            return self.computer.operand(expr, bindings), None
        used, inverse = distinct(bound.at, bound.entities)
        narrow = Bindings(rows=len(used), columns={var: Bound(bound.entities, used)})
        return self.computer.operand(expr, narrow), inverse

    def _leaf(self, expr: ir.Expr, bindings: Bindings) -> Operand:
        match expr:
            case ir.Param(_, kind) | ir.Lit(_, kind):
                return Const(constant_value(expr, self.params), kind)
            case ir.Prop(var, name, kind):
                return Column(property_values(bindings.columns[var], name), kind)
            case ir.NodeId(var):
                bound = bindings.columns[var]
                return Column(bound.entities.ids.take(bound.at), STRING)
            case ir.TypeOf(var, name):
                return Column(_type_names(bindings.columns[var], name), STRING)
            case ir.CountOf():
                return Column(pa.array(self.count(expr, bindings), pa.int64()), I64)
            case ir.Search() | ir.MatchText() | ir.Fuzzy():
                bound = bindings.columns[expr.var]
                return Column(
                    pa.array(self.search.text_truth(expr, bound.entities, bound.at)), BOOL
                )
            case ir.Bm25() | ir.Nearest():
                return Column(score_values(self.scores(expr, bindings)), _SCORE)
            case _:
                raise InternalError(f"{type(expr).__name__} has no value for a single row")

    def scores(self, expr: ir.Bm25 | ir.Nearest, bindings: Bindings) -> Floats:
        """The score or distance of each row; NaN where there is none."""
        bound = bindings.columns[expr.var]
        if isinstance(expr, ir.Bm25):
            return self.search.text_scores(expr, bound.entities, bound.at)
        used, inverse = distinct(bound.at, bound.entities)
        return self.search.distances(expr, bound.entities, used)[inverse]


def _type_names(bound: Bound, name: str) -> Values:
    names = repeated(name, pa.string(), len(bound.at))
    if not isinstance(bound.entities, OptionalEntities):
        return names
    return nulled(names, ~bound.entities.is_there(bound.at))


def _may_be_nothing(bindings: Bindings, *names: str) -> bool:
    return any(isinstance(bindings.columns[name].entities, OptionalEntities) for name in names)


def _slices(rows: int) -> Iterator[tuple[int, int]]:
    for start in range(0, rows, ROWS_AT_ONCE):
        yield start, min(rows, start + ROWS_AT_ONCE)


def property_values(bound: Bound, name: str) -> Values:
    """A property of each row; it is read once for each entity."""
    values, at = entity_values(bound, name)
    return values if bound.entities.is_everything(at) else values.take(at)


def entity_values(bound: Bound, name: str) -> tuple[Values, Numbers]:
    """A property of the bound entities, each once, and which one each row has."""
    entities = bound.entities
    if entities.has(name):
        return entities.read([name])[name], bound.at
    used, inverse = distinct(bound.at, entities)
    if len(used) == entities.size:
        return entities.read([name])[name], bound.at
    return entities.read([name], used)[name], inverse


def score_values(scores: Floats) -> pa.Array[pa.DoubleScalar]:
    """Scores as Arrow has them: null where there is none."""
    return pa.array(scores, pa.float64(), mask=np.isnan(scores))


def same_entity(left: Bound, right: Bound) -> Mask:
    """For each row whether both variables have the same id; of two types, as texts."""
    if left.entities is right.entities:
        return _equal(left.at, right.at)
    has_rows = left.entities.knows_rows and right.entities.knows_rows
    if has_rows and left.entities.table is right.entities.table:
        return _equal(left.entities.row_ids[left.at], right.entities.row_ids[right.at])
    if left.entities.ids is right.entities.ids:
        return _equal(left.at, right.at)
    used, inverse = distinct(right.at, right.entities)
    ids = right.entities.read(["id"], used)["id"]
    order = np.argsort(right.entities.rank(used), kind="stable")
    place = np.empty(len(used), np.int64)
    place[order] = np.arange(len(used))
    of_left, back = distinct(left.at, left.entities)
    numbers = left.entities.numbers_among(of_left, text_array(ids.take(order)))
    return _equal(numbers[back], place[inverse])


def _equal(first: NDArray[Any], second: NDArray[Any]) -> Mask:
    return np.asarray(first == second, np.bool_)
