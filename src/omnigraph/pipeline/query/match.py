"""Runs the operators of a match over frames, from rows to rows.

Parts of a match that no edge connects stay apart until the end and are then joined by the values
that a filter equates, or combined. A block runs once for the distinct rows of the variables that it
takes from outside, and its solutions are joined back by them. A variable of an interface is scanned
type by type, and the name of its type goes with its id.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from omnigraph.graph.query.pushdown import push_filters
from omnigraph.lang import ir
from omnigraph.lang.ir import FilterOp
from omnigraph.lang.ir_parts import (
    blocks_of,
    expr_variables,
    of_type_name,
    sides_of,
    variables_of,
)
from omnigraph.pipeline.query.match_frame import KIND, MatchFrame, is_about

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from omnigraph.pipeline.query.expand import Expander
    from omnigraph.pipeline.query.expressions import Expressions
    from omnigraph.pipeline.query.match_frame import Content, Names
    from omnigraph.pipeline.query.tables import SparkTables

_Test: TypeAlias = ir.Where | ir.AntiJoin | ir.SemiJoin


@dataclass(kw_only=True)
class _Parts:
    """The parts of a match that are not combined yet, and what waits for them."""

    parts: list[MatchFrame] = field(default_factory=list)
    waiting: list[_Test] = field(default_factory=list)

    def owner(self, names: Iterable[str]) -> int | None:
        """The part that binds all of these; a test of nothing waits for the end."""
        wanted = set(names)
        if not wanted:
            return None
        return next((at for at, part in enumerate(self.parts) if wanted <= part.variables), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matcher:
    """Evaluates the match of one query."""

    tables: SparkTables
    expander: Expander
    expressions: Expressions
    names: Names

    def run(self, ops: Sequence[ir.Op], start: MatchFrame | None = None) -> MatchFrame:
        """The rows that the operators leave of a start."""
        found = _Parts(parts=[] if start is None else [start])
        for op in ops:
            match op:
                case ir.NodeScan():
                    found.parts.append(self._scan(op))
                case ir.Expand():
                    at = found.owner([op.src_var]) or 0
                    begun = found.parts[at].of_type(op.src_var, self.expander.source(op))
                    rows, rest = self.expander.expand(op, begun)
                    rows = replace(rows, may_miss=rows.may_miss - {op.src_var})
                    found.parts[at] = self._filter(rows, rest)
                case ir.Optional():
                    owner = found.owner(op.outer_vars)
                    if owner is None:
                        found = _Parts(parts=[self._combine(found)])
                        owner = 0
                    found.parts[owner] = self._extend(op, found.parts[owner])
                case ir.Where() | ir.AntiJoin() | ir.SemiJoin():
                    owner = found.owner(_mentioned(op))
                    if owner is None:
                        found.waiting.append(op)
                    else:
                        found.parts[owner] = self._keep(op, found.parts[owner])
        return self._combine(found)

    def _scan(self, op: ir.NodeScan) -> MatchFrame:
        if op.types is None:
            return self._scan_type(op.var, op.type, op.filters)
        # A block walks from what it is given, so it is given the nodes with their types.
        late = [item for item in op.filters if any(blocks_of(sides_of(item)))]
        early = [item for item in op.filters if item not in late]
        parts = [
            self._scan_type(op.var, name, [of_type_name(item, op.var, name) for item in early])
            for name in op.types
        ]
        contents = [
            content
            for content in parts[0].columns
            if is_about(content, {op.var}) and all(content in part.columns for part in parts)
        ]
        columns = {content: self.names.fresh() for content in (*contents, (op.var, KIND))}
        frames = [
            part.frame.select(
                *(part.column(content).alias(columns[content]) for content in contents),
                F.lit(name).alias(columns[op.var, KIND]),
            )
            for name, part in zip(op.types, parts, strict=True)
        ]
        rows = MatchFrame(
            frame=functools.reduce(lambda one, other: one.unionByName(other), frames),
            columns=columns,
            variables=frozenset({op.var}),
        )
        return self._filter(rows, late)

    def _scan_type(self, var: str, name: str, filters: Sequence[ir.Condition]) -> MatchFrame:
        pushed = push_filters(filters, self.tables.params)
        entities = self.tables.entities(
            var, self.tables.node(name), predicate=pushed.predicate, is_none=pushed.is_never
        )
        rows = MatchFrame(
            frame=entities.frame, columns=entities.columns, variables=frozenset({var})
        )
        return self._filter(rows, pushed.rest)

    def _filter(self, rows: MatchFrame, conditions: Sequence[ir.Condition]) -> MatchFrame:
        for item in conditions:
            rows = self.counted(rows, sides_of(item))
            rows = rows.keep(self.expressions.truth(item, rows))
        return rows

    def _keep(self, op: _Test, rows: MatchFrame) -> MatchFrame:
        match op:
            case ir.Where():
                return self._filter(rows, (op.filter,))
            case ir.AntiJoin():
                return self._tested(op, rows, "left_anti")
            case ir.SemiJoin():
                return self._tested(op, rows, "left_semi")

    def _combine(self, found: _Parts) -> MatchFrame:
        if not found.parts:
            nothing = self.tables.session.spark.range(1).select(F.lit(1).alias(self.names.fresh()))
            found.parts.append(MatchFrame(frame=nothing, columns={}))
        joined, parts, waiting = found.parts[0], found.parts[1:], found.waiting
        while True:
            still: list[_Test] = []
            for op in waiting:
                if parts and not _mentioned(op) <= joined.variables:
                    still.append(op)
                else:
                    joined = self._keep(op, joined)
            waiting = still
            if not parts:
                return joined
            at = _next_part(joined, parts, waiting)
            part = parts.pop(at)
            joined = MatchFrame(
                frame=joined.frame.crossJoin(part.frame),
                columns={**joined.columns, **part.columns},
                variables=joined.variables | part.variables,
                may_miss=joined.may_miss | part.may_miss,
            )

    def _solve(self, op: ir.Join | ir.CountOf, rows: MatchFrame) -> tuple[MatchFrame, MatchFrame]:
        """The distinct rows outside a block, in columns of their own, and its solutions."""
        outer = rows.only([name for name in op.outer_vars if name in rows.variables], self.names)
        return outer, self.run(op.inner, outer)

    def _tested(self, op: ir.AntiJoin | ir.SemiJoin, rows: MatchFrame, how: str) -> MatchFrame:
        outer, solutions = self._solve(op, rows)
        keys = outer.identity(outer.variables)
        told = replace(outer, frame=solutions.frame.select(*map(outer.column, keys)).distinct())
        return replace(rows, frame=rows.frame.join(told.frame, rows.matches(told, keys), how))

    def _extend(self, op: ir.Optional, rows: MatchFrame) -> MatchFrame:
        """The rows, each once for each of its solutions, or once with nothing bound."""
        outer, solutions = self._solve(op, rows)
        walks = {name for name in solutions.variables if ir.is_walk_var(name)}
        bound = {*op.vars, *walks} - outer.variables
        keys = outer.identity(outer.variables)
        new: dict[Content, str] = {
            content: name for content, name in solutions.columns.items() if is_about(content, bound)
        }
        told = solutions.frame.select(
            *map(outer.column, keys), *(F.col(name) for name in new.values())
        )
        return MatchFrame(
            frame=rows.frame.join(told, rows.matches(replace(outer, frame=told), keys), "left"),
            columns={**rows.columns, **new},
            variables=rows.variables | bound,
            may_miss=rows.may_miss | bound,
        )

    def counted(self, rows: MatchFrame, exprs: Iterable[ir.Expr]) -> MatchFrame:
        """The rows with the number of solutions of every block that these expressions count."""
        for block in blocks_of(exprs):
            if block in rows.columns:
                continue
            outer, solutions = self._solve(block, rows)
            keys = outer.identity(outer.variables)
            count, shown = self.names.fresh(), self.names.fresh()
            told = solutions.frame.groupBy(*map(outer.column, keys)).agg(
                F.count(F.lit(1)).alias(count)
            )
            joined = rows.frame.join(told, rows.matches(outer, keys), "left")
            frame = joined.withColumn(shown, F.coalesce(F.col(count), F.lit(0).cast("bigint")))
            rows = replace(rows, frame=frame, columns={**rows.columns, block: shown})
        return rows


def _mentioned(op: _Test) -> set[str]:
    match op:
        case ir.Where():
            return variables_of([op.filter])
        case ir.AntiJoin() | ir.SemiJoin():
            return set(op.outer_vars)


def _next_part(joined: MatchFrame, parts: Sequence[MatchFrame], waiting: Sequence[_Test]) -> int:
    """The part that a filter equates with what is joined, or the first."""
    for op in waiting:
        match op:
            case ir.Where(ir.Filter(ir.Prop() as left, FilterOp.EQ, ir.Prop() as right)):
                names = expr_variables(left) | expr_variables(right)
                for at, part in enumerate(parts):
                    if names <= joined.variables | part.variables and names & part.variables:
                        return at
            case _:
                pass
    return 0
