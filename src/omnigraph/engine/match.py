"""Runs the operators of a match, set at a time, from bindings to bindings.

Parts of a match that no edge connects are evaluated apart and combined at the end: by the values
that a filter equates, or as a cross product, whose size is checked before it is built.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph.engine.bindings import NOTHING, Bindings, Bound
from omnigraph.engine.counted_walks import CountedWalk, Narrowing, bound_by, mentioned, steps_of
from omnigraph.engine.counts import count_rows
from omnigraph.engine.entities import Entities, distinct
from omnigraph.engine.evaluate import property_values
from omnigraph.engine.optional_entities import OptionalEntities, optional
from omnigraph.engine.relational import join_rows
from omnigraph.engine.union_entities import of_type
from omnigraph.graph.query.compare import common_type
from omnigraph.lang import ir
from omnigraph.lang.ir import FilterOp
from omnigraph.lang.ir_parts import expr_variables, variables_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from omnigraph.engine.counted_walks import Step
    from omnigraph.engine.evaluate import Evaluator
    from omnigraph.engine.expand import Expander
    from omnigraph.engine.scan import Scanner
    from omnigraph.engine.traversal import Choice
    from omnigraph.graph.arrays import Mask, Numbers, Values
    from omnigraph.graph.query.budget import Budget


_Test: TypeAlias = ir.Where | ir.AntiJoin | ir.SemiJoin

FOLDED_ROWS = 1_024
"""Fewer rows are carried along as they are."""

_NOTHING_READ: frozenset[str] = frozenset()


class Observer(Protocol):
    """Hears what each operator did."""

    def ran(self, op: ir.Op, rows: int, elapsed_us: int, choice: Choice | None) -> None:
        """An operator left so many rows."""
        ...


@dataclass(kw_only=True)
class _Part:
    """A part of the match that is not combined with the others yet."""

    bindings: Bindings
    variables: set[str] = field(default_factory=set)

    def fold(self, live: AbstractSet[str]) -> None:
        """Bind no longer what nobody looks at, if there are many rows of it."""
        if self.bindings.rows > FOLDED_ROWS:
            self.bindings = self.bindings.fold(live)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matcher:
    """Evaluates the match of one query."""

    scanner: Scanner
    expander: Expander
    evaluator: Evaluator
    budget: Budget
    observer: Observer | None = None

    def run(
        self,
        ops: Sequence[ir.Op],
        start: Bindings = NOTHING,
        depth: int = 0,
        *,
        read: AbstractSet[str] | None = None,
        is_test: bool = False,
    ) -> Bindings:
        """The rows that the operators leave of a start.

        With `read` only the number of rows matters but for these variables: what nobody looks at is
        not bound, or bound no longer, and rows are weighed instead. For a test it matters only
        whether there is a row.
        """
        steps: Sequence[Step] = ops if read is None else steps_of(ops, read)
        parts: list[_Part] = []
        if start.columns or start.tags:
            parts.append(_Part(bindings=start, variables=set(start.columns)))
        waiting: list[_Test] = []
        for op in steps:
            self.budget.check()
            before_us = self.budget.elapsed_us
            choice = None
            match op:
                case ir.NodeScan():
                    part = _Part(bindings=self.scanner.scan(op), variables={op.var})
                    parts.append(part)
                case CountedWalk():
                    part = _owner(parts, {op.op.src_var})
                    part.bindings, choice = self._weigh(op, part.bindings, is_test=is_test)
                case Narrowing():
                    part = _owner(parts, {op.src_var})
                    part.fold(op.live | mentioned(waiting))
                    continue
                case ir.Expand():
                    part = _owner(parts, {op.src_var})
                    part.bindings, choice = self._expand(op, part.bindings)
                    part.variables |= bound_by(op)
                case ir.Optional():
                    part = self._joined_owner(set(op.outer_vars), parts, waiting, depth)
                    part.bindings = self._extend(op, part.bindings, depth)
                    part.variables |= {*op.vars}
                case ir.Where() | ir.AntiJoin() | ir.SemiJoin():
                    owner = _find_owner(parts, _mentioned(op))
                    if owner is None:
                        waiting.append(op)
                        continue
                    part = owner
                    part.bindings = self._keep(op, part.bindings, depth)
            told = op.op if isinstance(op, CountedWalk) else op
            self._tell(told, part.bindings.rows, before_us, choice)
        return self._combine(parts, waiting, depth)

    def _joined_owner(
        self, names: set[str], parts: list[_Part], waiting: list[_Test], depth: int
    ) -> _Part:
        """The part that binds all of these; if none does, all parts become one first."""
        owner = _find_owner(parts, names)
        if owner is None:
            variables = {name for part in parts for name in part.variables}
            joined = self._combine(parts, waiting, depth)
            owner = _Part(bindings=joined, variables=variables)
            parts[:], waiting[:] = [owner], []
        return owner

    def _expand(self, op: ir.Expand, bindings: Bindings) -> tuple[Bindings, Choice | None]:
        bindings = of_type(bindings, op.src_var, self.expander.source(op))
        return self.expander.expand(op, bindings)

    def _weigh(
        self, walk: CountedWalk, bindings: Bindings, *, is_test: bool
    ) -> tuple[Bindings, Choice | None]:
        """The rows at which a walk begins, each as often as there are such walks."""
        var = walk.op.src_var
        bindings = of_type(bindings, var, self.expander.source(walk.op))
        counts, choice = self.expander.count(walk, bindings.columns[var], is_test=is_test)
        return bindings.weigh(counts), choice

    def _tell(self, op: ir.Op, rows: int, before_us: int, choice: Choice | None) -> None:
        if self.observer is not None:
            self.observer.ran(op, rows, self.budget.elapsed_us - before_us, choice)

    def _keep(self, op: _Test, bindings: Bindings, depth: int) -> Bindings:
        match op:
            case ir.Where():
                return bindings.keep(self.evaluator.truth(op.filter, bindings))
            case ir.AntiJoin():
                return bindings.keep(~self._has_solution(op, bindings, depth))
            case ir.SemiJoin():
                return bindings.keep(self._has_solution(op, bindings, depth))

    def _combine(self, parts: list[_Part], waiting: list[_Test], depth: int) -> Bindings:
        if not parts:
            parts = [_Part(bindings=NOTHING)]
        joined = parts.pop(0)
        while True:
            still: list[_Test] = []
            for op in waiting:
                if parts and not _mentioned(op) <= joined.variables:
                    still.append(op)
                    continue
                before_us = self.budget.elapsed_us
                joined.bindings = self._keep(op, joined.bindings, depth)
                self._tell(op, joined.bindings.rows, before_us, None)
            waiting = still
            if not parts:
                return joined.bindings
            joined = self._join_next(joined, parts, waiting)

    def _join_next(self, joined: _Part, parts: list[_Part], waiting: Sequence[_Test]) -> _Part:
        """One more part beside what is joined: one that a filter equates with it, if there is."""
        for part in parts:
            keys = _equated(joined.variables, part.variables, waiting)
            if keys:
                parts.remove(part)
                return self._join_by_value(joined, part, keys)
        for first, second in itertools.combinations(parts, 2):
            # Two others may be small once they are joined.
            keys = _equated(first.variables, second.variables, waiting)
            if keys:
                parts.remove(second)
                parts[parts.index(first)] = self._join_by_value(first, second, keys)
                return joined
        part = parts.pop(0)
        left, right = joined.bindings, part.bindings
        self.budget.require_rows(
            left.rows * right.rows, "a cross product of unconnected parts of the match"
        )
        rows = np.repeat(np.arange(left.rows), right.rows)
        other = np.tile(np.arange(right.rows), left.rows)
        return _Part(
            bindings=left.pair(rows, right, other), variables=joined.variables | part.variables
        )

    def _join_by_value(
        self, joined: _Part, part: _Part, keys: Sequence[tuple[ir.Prop, ir.Prop]]
    ) -> _Part:
        left: list[Values] = []
        right: list[Values] = []
        for ours, theirs in keys:
            common = common_type(ours.type.scalar, theirs.type.scalar)
            first = property_values(joined.bindings.columns[ours.var], ours.property)
            second = property_values(part.bindings.columns[theirs.var], theirs.property)
            left.append(first if common is None else first.cast(common, safe=False))
            right.append(second if common is None else second.cast(common, safe=False))
        rows, other = join_rows(left, right, self.budget)
        return _Part(
            bindings=joined.bindings.pair(rows, part.bindings, other),
            variables=joined.variables | part.variables,
        )

    def _has_solution(self, op: ir.AntiJoin | ir.SemiJoin, bindings: Bindings, depth: int) -> Mask:
        """For each row whether the inner operators leave any row of it."""
        match op.inner:
            case (ir.Expand(edge_var=None, dst_filters=(), min_hops=1, max_hops=1) as expand,):
                return self._has_neighbour(expand, bindings.columns[expand.src_var])
        solutions, inverse, count = self._solve(op, bindings, depth)
        has = np.zeros(count, bool)
        has[solutions.tags[_tag(depth)]] = True
        return has[inverse]

    def _has_neighbour(self, expand: ir.Expand, source: Bound) -> Mask:
        entities = source.entities
        if not isinstance(entities, OptionalEntities):
            return self.expander.has_neighbour(expand, source)[0]
        has = entities.is_there(source.at)
        has[has] = self.expander.has_neighbour(expand, Bound(entities.given, source.at[has]))[0]
        return has

    def _solve(
        self, op: ir.Join | ir.CountOf, bindings: Bindings, depth: int
    ) -> tuple[Bindings, Numbers, int]:
        """The inner rows for each distinct outer row, by tag; which one each row has; how many."""
        names = [name for name in op.outer_vars if name in bindings.columns]
        first, inverse = _distinct_rows([bindings.columns[name] for name in names], bindings.rows)
        outer = Bindings(
            rows=len(first),
            columns={
                name: Bound(bindings.columns[name].entities, bindings.columns[name].at[first])
                for name in names
            },
            tags={_tag(depth): np.arange(len(first))},
        )
        read = None if isinstance(op, ir.Optional) else _NOTHING_READ
        is_test = isinstance(op, ir.AntiJoin | ir.SemiJoin)
        solutions = self.run(op.inner, outer, depth + 1, read=read, is_test=is_test)
        return solutions, inverse, len(first)

    def count(self, block: ir.CountOf, bindings: Bindings) -> Numbers:
        """How many solutions a block has for each row."""
        match block.inner:
            case (ir.Expand(edge_var=None, walk_var=None, dst_filters=()) as expand,):
                return self._count_reached(expand, bindings.columns[expand.src_var])
        solutions, inverse, count = self._solve(block, bindings, 0)
        counts = count_rows(solutions.tags[_tag(0)], count, solutions.weights)
        return counts[inverse]

    def _count_reached(self, expand: ir.Expand, source: Bound) -> Numbers:
        """How many nodes one walk reaches from each row; none where the walk cannot begin."""
        rows = len(source.at)
        var = expand.src_var
        begun = of_type(
            Bindings(rows=rows, columns={var: source}, tags={var: np.arange(rows)}),
            var,
            self.expander.source(expand),
        )
        reached, _ = self.expander.count(CountedWalk(expand), begun.columns[var])
        if begun.rows == rows:
            return reached
        counts = np.zeros(rows, np.int64)
        counts[begun.tags[var]] = reached
        return counts

    def _extend(self, op: ir.Optional, bindings: Bindings, depth: int) -> Bindings:
        """The rows, each once for each of its solutions, or once with nothing bound."""
        match op.inner:
            case (ir.Expand(edge_var=None, walk_var=None, dst_filters=()) as expand,) if (
                op.vars == (expand.dst_var,)
                and expand.dst_var in self.scanner.needs.counted_optional
            ):
                return self._extend_counted(expand, bindings)
        solutions, inverse, count = self._solve(op, bindings, depth)
        tags = solutions.tags[_tag(depth)]
        order = np.argsort(tags, kind="stable")
        counts = np.bincount(tags, minlength=count)
        starts = np.cumsum(counts) - counts
        of_rows = counts[inverse]
        times = np.maximum(of_rows, 1)
        self.budget.require_rows(int(times.sum()), "an optional block")
        rows = np.repeat(np.arange(bindings.rows), times)
        is_there = np.repeat(of_rows > 0, times)
        nth = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
        chosen = order[(starts[inverse][rows] + nth)[is_there]]
        bound = {
            name: optional(solutions.columns[name], chosen, is_there)
            for name in op.vars
            if name in solutions.columns
        }
        return bindings.keep(rows).bind(bound)

    def _extend_counted(self, expand: ir.Expand, bindings: Bindings) -> Bindings:
        """The rows, each weighed by the nodes it reaches, of which one stands for all, or once."""
        reached = self._count_reached(expand, bindings.columns[expand.src_var])
        table = self.scanner.tables.node(expand.dst_type)
        anybody = OptionalEntities(Entities.of_ids(table, pa.array([""], pa.string())))
        at = np.where(reached > 0, 0, 1)
        weighed = bindings.weigh(np.maximum(reached, 1))
        return weighed.bind({expand.dst_var: Bound(anybody, at)})


def _tag(depth: int) -> str:
    return f"block {depth}"


def _owner(parts: Sequence[_Part], names: set[str]) -> _Part:
    return next(part for part in parts if names <= part.variables)


def _find_owner(parts: Sequence[_Part], names: set[str]) -> _Part | None:
    """The part that binds all of these; a filter on nothing waits for the end."""
    if not names:
        return None
    return next((part for part in parts if names <= part.variables), None)


def _mentioned(op: _Test) -> set[str]:
    match op:
        case ir.Where():
            return variables_of([op.filter])
        case ir.AntiJoin() | ir.SemiJoin():
            return set(op.outer_vars)


def _equated(
    ours: set[str], theirs: set[str], waiting: Sequence[_Test]
) -> list[tuple[ir.Prop, ir.Prop]]:
    """Properties of both sides that some filter requires to be equal."""
    pairs: list[tuple[ir.Prop, ir.Prop]] = []
    for op in waiting:
        match op:
            case ir.Where(ir.Filter(ir.Prop() as left, FilterOp.EQ, ir.Prop() as right)):
                if expr_variables(left) <= ours and expr_variables(right) <= theirs:
                    pairs.append((left, right))
                elif expr_variables(left) <= theirs and expr_variables(right) <= ours:
                    pairs.append((right, left))
            case _:
                pass
    return pairs


def _distinct_rows(columns: Sequence[Bound], rows: int) -> tuple[Numbers, Numbers]:
    """A row for each distinct tuple, and for each row the place of its tuple."""
    if not columns:
        return np.zeros(min(1, rows), np.int64), np.zeros(rows, np.int64)
    if len(columns) == 1:
        used, places = distinct(columns[0].at, columns[0].entities)
        first = np.empty(len(used), np.int64)
        first[places] = np.arange(rows)
        return first, places
    codes = np.zeros(rows, np.int64)
    for column in columns:
        _, places = distinct(column.at, column.entities)
        size = int(places.max()) + 1 if rows else 1
        codes = np.unique(codes * size + places, return_inverse=True)[1]
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return first, inverse
