"""Expressions over the rows of a match: values of properties, ids, constants and search calls.

A filter on one variable is evaluated for its distinct entities, not for each row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.engine.bindings import Bindings, Bound
from omnigraph.engine.computed import Computer
from omnigraph.engine.entities import distinct
from omnigraph.engine.optional_entities import OptionalEntities
from omnigraph.engine.union_entities import UnionEntities
from omnigraph.errors import InternalError
from omnigraph.graph.arrays import text_array
from omnigraph.graph.query.compare import Column, Const, Operand
from omnigraph.graph.query.gather import gather
from omnigraph.graph.query.pushdown import constant_value
from omnigraph.lang import ir
from omnigraph.lang.ir import FilterOp
from omnigraph.lang.ir_parts import expr_variables, operands_of, variables_of
from omnigraph.lang.types import BOOL, F64, I64, STRING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
    constants: dict[str, Const] = field(default_factory=dict)
    """Parameters that were looked at."""

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
                _has_rows_of_one_table(bindings, left, right)
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
        at_once = self._rows_at_once(item)
        if bindings.rows <= at_once:
            return self.computer.truth(item, bindings)
        # Values of rows are wide where numbers are not: no more than some are held.
        parts: list[Mask] = []
        for start in range(0, bindings.rows, at_once):
            self.budget.check()
            some = bindings.keep(np.arange(start, min(bindings.rows, start + at_once)))
            parts.append(self.computer.truth(item, some))
        return np.concatenate(parts)

    def _rows_at_once(self, item: ir.Condition) -> int:
        """All where only numbers are held; no list is read into a table for a few rows each."""
        operands = list(operands_of(item))
        if all(map(_is_narrow, operands)):
            return max(1, self.budget.max_rows)
        constants = (expr for expr in operands if isinstance(expr, ir.Param | ir.Lit))
        values = (constant_value(expr, self.params) for expr in constants)
        lengths = (4 * len(value) for value in values if isinstance(value, list | tuple))
        return max(ROWS_AT_ONCE, *lengths, 0)

    def operand(self, expr: ir.Expr, bindings: Bindings) -> Operand:
        """The value of an expression for each row, or for all."""
        if not isinstance(expr, ir.Value):
            return self._leaf(expr, bindings)
        operand, at = self.of_entities(expr, bindings)
        if at is None or isinstance(operand, Const):
            return operand
        values = gather(operand.values, at, self.budget, "a computed value")
        return Column(values, operand.type)

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
            case ir.Param(name):
                return self._parameter(expr, name)
            case ir.Lit(value, kind):
                return Const(value, kind)
            case ir.Prop(var, name, kind):
                return Column(property_values(bindings.columns[var], name), kind)
            case ir.NodeId(var):
                bound = bindings.columns[var]
                return Column(bound.entities.ids.take(bound.at), STRING)
            case ir.TypeOf(var):
                bound = bindings.columns[var]
                return Column(bound.entities.type_names(bound.at), STRING)
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

    def _parameter(self, param: ir.Param, name: str) -> Const:
        """The value of a parameter, the same object for every part of the rows."""
        if name not in self.constants:
            self.constants[name] = Const(constant_value(param, self.params), param.type)
        return self.constants[name]

    def scores(self, expr: ir.Bm25 | ir.Nearest, bindings: Bindings) -> Floats:
        """The score or distance of each row; NaN where there is none."""
        bound = bindings.columns[expr.var]
        if isinstance(expr, ir.Bm25):
            return self.search.text_scores(expr, bound.entities, bound.at)
        used, inverse = distinct(bound.at, bound.entities)
        return self.search.distances(expr, bound.entities, used)[inverse]


def _has_rows_of_one_table(bindings: Bindings, *names: str) -> bool:
    """No variable may be nothing, or of several types."""
    others = (OptionalEntities, UnionEntities)
    return not any(isinstance(bindings.columns[name].entities, others) for name in names)


def _is_narrow(expr: ir.Expr) -> bool:
    """Whether a value is no wider than a number."""
    match expr:
        case ir.CountOf():
            return True
        case ir.Prop(type=kind) | ir.Param(type=kind) | ir.Lit(type=kind):
            return kind.is_plain and not kind.is_text
        case _:
            return False


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
