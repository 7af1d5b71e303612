"""From the rows of a match to the rows of a result: order, limit, columns, in that order.

Properties that only the result shows are read last, for the rows that are left, one read for each
variable.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph.engine.aggregate import Grouped, group
from omnigraph.engine.computed import Computer
from omnigraph.engine.entities import distinct
from omnigraph.engine.evaluate import entity_values
from omnigraph.engine.order import SortKey, candidates, order_rows, value_codes
from omnigraph.engine.ranking import fuse, rank_rows
from omnigraph.errors import InternalError
from omnigraph.graph.query.compare import Column, Const
from omnigraph.graph.query.gather import gather, repeat
from omnigraph.lang import ir
from omnigraph.lang.arrow_schema import arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.engine.bindings import Bindings
    from omnigraph.engine.evaluate import Evaluator
    from omnigraph.graph.arrays import Floats, Numbers, Values
    from omnigraph.graph.query.budget import Budget
    from omnigraph.graph.query.compare import Operand
    from omnigraph.lang.types import PropType

Read: TypeAlias = "Mapping[tuple[str, str], Values]"
"""Properties that were read for all rows, by variable and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Projector:
    """Orders, cuts and projects the matches of one query."""

    query: ir.QueryIR
    schema: pa.Schema
    """What the descriptor promises."""

    evaluator: Evaluator
    budget: Budget

    def groups(self, bindings: Bindings) -> pa.Table:
        """The result of an aggregate query."""
        query = self.query
        groups = group(query.returns, bindings, self.evaluator)
        computer = Computer(
            leaf=self._group_column,
            size=lambda given: given.size,
            keep=Grouped.keep,
            budget=self.budget,
        )
        for item in query.having or ():
            groups = groups.keep(np.flatnonzero(computer.truth(item, groups)))
        groups = self._best_groups(groups)
        keys = [self._group_key(ordering, groups) for ordering in query.order]
        keys += [
            SortKey(self._group_values(self._resolved(projection.expr), groups, is_tie=True))
            for projection in query.returns
            if not isinstance(projection.expr, ir.Agg | ir.Param | ir.Lit)
        ]
        groups = groups.keep(order_rows(keys, groups.size, query.limit, self.budget))
        return self._table(
            [
                groups.aggregates[projection.name]
                if isinstance(projection.expr, ir.Agg)
                else self._values(projection.expr, column.type, groups.first)
                for projection, column in zip(query.returns, query.result_schema, strict=True)
            ]
        )

    def _group_column(self, expr: ir.Expr, groups: Grouped) -> Operand:
        """A column of the groups, or a constant."""
        if not isinstance(expr, ir.Alias):
            return self.evaluator.operand(expr, groups.first)
        at = [projection.name for projection in self.query.returns].index(expr.name)
        kind = self.query.result_schema[at].type
        if expr.name in groups.aggregates:
            return Column(groups.aggregates[expr.name], kind)
        return Column(self._values(self._resolved(expr), kind, groups.first), kind)

    def streamed(self, columns: Sequence[Values]) -> pa.Table:
        """The result of an aggregate query whose columns are computed already."""
        query = self.query
        by_name = dict(zip((projection.name for projection in query.returns), columns, strict=True))
        keys = []
        for ordering in query.order:
            if not isinstance(ordering.expr, ir.Alias):
                raise InternalError("groups are ordered by their columns")
            keys.append(SortKey(by_name[ordering.expr.name], ordering.descending))
        keys += [
            SortKey(by_name[projection.name])
            for projection in query.returns
            if not isinstance(projection.expr, ir.Agg)
        ]
        order = order_rows(keys, len(columns[0]), query.limit, self.budget)
        return self._table([column.take(order) for column in columns])

    def _best_groups(self, groups: Grouped) -> Grouped:
        """The groups that can be among the first, if an aggregate decides that."""
        if not self.query.order or self.query.limit is None:
            return groups
        first = self.query.order[0]
        key = self._group_key(first, groups) if self._is_aggregate(first.expr) else None
        at = None if key is None else candidates(key, groups.size, self.query.limit)
        return groups if at is None else groups.keep(at)

    def _is_aggregate(self, expr: ir.Expr) -> bool:
        return isinstance(self._resolved(expr), ir.Agg)

    def _group_key(self, item: ir.Ordering, groups: Grouped) -> SortKey:
        if isinstance(item.expr, ir.Alias) and self._is_aggregate(item.expr):
            return SortKey(groups.aggregates[item.expr.name], item.descending)
        return SortKey(self._group_values(self._resolved(item.expr), groups), item.descending)

    def _group_values(
        self, expr: ir.Expr, groups: Grouped, *, is_tie: bool = False
    ) -> Values | Numbers:
        """What groups are compared by; nodes that tie also by their types."""
        if isinstance(expr, ir.Param | ir.Lit):
            return np.zeros(groups.size, np.int64)
        if is_tie and isinstance(expr, ir.NodeId):
            bound = groups.first.columns[expr.var]
            return bound.entities.rank(bound.at)
        match expr:
            case ir.Prop(var, name) if name == groups.first.columns[var].entities.identity:
                expr = ir.NodeId(var)
        values = self._sort_values(expr, groups.first)
        if values is None:
            raise InternalError("a group key is a column")
        return values

    def rows(self, bindings: Bindings) -> pa.Table:
        """The result of a query without aggregates."""
        fused: dict[ir.Rrf, Floats] = {
            expr: self._fused(expr, bindings)
            for expr in (projection.expr for projection in self.query.returns)
            if isinstance(expr, ir.Rrf)
        }
        keys: list[SortKey] = []
        chosen: Numbers | None = None
        for number, item in enumerate(self.query.order):
            expr = self._resolved(item.expr)
            if number == 0 and isinstance(expr, ir.Nearest | ir.Bm25 | ir.Rrf):
                ranked = rank_rows(
                    expr,
                    bindings,
                    self.evaluator,
                    is_descending=item.descending,
                    limit=self.query.limit,
                )
                keys.extend(ranked.keys)
                chosen = np.flatnonzero(ranked.is_scored)
                bindings = bindings.keep(chosen)
                continue
            values = self._sort_values(expr, bindings)
            if values is not None:
                keys.append(SortKey(values, item.descending))
        keys.extend(_tie_keys(bindings))
        order = order_rows(keys, bindings.rows, self.query.limit, self.budget)
        if chosen is not None:
            fused = {expr: scores[chosen] for expr, scores in fused.items()}
        fused = {expr: scores[order] for expr, scores in fused.items()}
        return self._project(bindings.keep(order), fused)

    def _fused(self, expr: ir.Rrf, bindings: Bindings) -> Floats:
        fused = fuse(expr, bindings, self.evaluator, self.query.limit)
        return fused.scores[fused.inverse]

    def _resolved(self, expr: ir.Expr) -> ir.Expr:
        """What an alias stands for."""
        while isinstance(expr, ir.Alias):
            name = expr.name
            expr = next(
                projection.expr for projection in self.query.returns if projection.name == name
            )
        return expr

    def _sort_values(self, expr: ir.Expr, bindings: Bindings) -> Values | Numbers | None:
        """What rows are compared by; `None` if it is the same for all."""
        if isinstance(expr, ir.NodeId):
            bound = bindings.columns[expr.var]
            return bound.entities.id_rank(bound.at)
        if isinstance(expr, ir.Prop):
            bound = bindings.columns[expr.var]
            values, at = entity_values(bound, expr.property)
            # Where entities repeat, their places among each other are enough.
            return values if bound.entities.is_everything(at) else value_codes(values)[at]
        operand, places = self.evaluator.of_entities(expr, bindings)
        if isinstance(operand, Const):
            return None
        return operand.values if places is None else value_codes(operand.values)[places]

    def _project(self, bindings: Bindings, fused: Mapping[ir.Rrf, Floats]) -> pa.Table:
        read = self._read(bindings)
        columns = []
        for item, column in zip(self.query.returns, self.query.result_schema, strict=True):
            expr = self._resolved(item.expr)
            match expr:
                case ir.Prop(var, name):
                    values = read[var, name]
                case ir.Rrf():
                    values = pa.array(fused[expr], pa.float64())
                case _:
                    values = self._values(expr, column.type, bindings)
            columns.append(values)
        return self._table(columns)

    def _values(self, expr: ir.Expr, kind: PropType, bindings: Bindings) -> Values:
        if isinstance(expr, ir.Prop):
            bound = bindings.columns[expr.var]
            values, at = entity_values(bound, expr.property)
            is_all = bound.entities.is_everything(at)
            return values if is_all else gather(values, at, self.budget, "the result")
        operand = self.evaluator.operand(expr, bindings)
        if isinstance(operand, Const):
            type_ = arrow_type(kind)
            return repeat(operand.value, type_, bindings.rows, self.budget, "the result")
        return operand.values

    def _read(self, bindings: Bindings) -> Read:
        wanted: dict[str, list[str]] = defaultdict(list)
        for item in self.query.returns:
            expr = self._resolved(item.expr)
            if isinstance(expr, ir.Prop):
                wanted[expr.var].append(expr.property)
        out: dict[tuple[str, str], Values] = {}
        size_bytes = 0
        for var, names in wanted.items():
            bound = bindings.columns[var]
            used, inverse = distinct(bound.at, bound.entities)
            for name, values in bound.entities.read(names, used).items():
                out[var, name] = gather(
                    values, inverse, self.budget, "the result", held_bytes=size_bytes
                )
                size_bytes += out[var, name].nbytes
        return out

    def _table(self, columns: Sequence[Values]) -> pa.Table:
        schema = self.schema
        fitted = [
            values if values.type == kind.type else values.cast(kind.type)
            for values, kind in zip(columns, schema, strict=True)
        ]
        return pa.Table.from_arrays(fitted, schema=schema)


def _tie_keys(bindings: Bindings) -> Iterator[SortKey]:
    """The ids of all variables in name order, hidden ones last."""
    names = (name for name in bindings.columns if not ir.is_walk_var(name))
    for name in sorted(names, key=lambda name: (name.startswith("#"), name)):
        bound = bindings.columns[name]
        yield SortKey(bound.entities.rank(bound.at))
