"""What of each variable a query needs: which properties, or only that it is there."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.lang import ir
from omnigraph.lang.ir_parts import (
    blocks_of,
    counts_outside,
    filters_of,
    inner_ops,
    leaves_of,
    operands_of,
    sides_of,
)
from omnigraph.lang.types import Scalar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.lang import EdgeType, NodeType


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The needs of one query."""

    properties: Mapping[str, frozenset[str]]
    """By variable whose rows are read: the properties of it; perhaps none, for a text search."""

    counted_only: frozenset[str]
    """Variables that nothing looks at: it is enough to know how many there are."""

    counted_optional: frozenset[str]
    """The same of variables that an optional block binds: whether there is one matters too."""

    identified: frozenset[str]
    """Variables whose ids are shown, compared or grouped by."""

    returned: frozenset[str]
    """Variables that columns, groups or the order read, beside counting them."""

    by_row: frozenset[str]
    """Variables of which something is found by the numbers of their rows: whether a text matches,
    how near a vector is, whether a blob or a list is null."""

    is_aggregate: bool

    def of(self, var: str, item: NodeType | EdgeType) -> frozenset[str] | None:
        """The properties of a variable of this type that something reads; `None`: nothing does.

        Two negations may give one name to different things, so what is needed of the other is not
        asked of this one.
        """
        names = self.properties.get(var)
        return None if names is None else names & item.properties.keys()


def analyse_needs(query: ir.QueryIR) -> Needs:
    """The needs of a query."""
    exprs = [projection.expr for projection in query.returns] + [
        ordering.expr for ordering in query.order
    ]
    is_aggregate = query.is_grouped
    read: dict[str, set[str]] = defaultdict(set)
    # A count of solutions needs of its block what a test for one does.
    counts = tuple(ir.SemiJoin(item.inner, item.outer_vars) for item in counts_outside(query))
    ops = (*query.ops, *counts)
    filters = list(_filters(ops))
    exprs = [leaf for expr in exprs for leaf in _leaves(expr)]
    returned: set[str] = set()
    for expr in exprs:
        _note(expr, read, returned)
        returned |= _found_by_row(expr)
    seen: set[str] = set()
    by_row: set[str] = set()
    for part in (part for item in filters for part in _parts(item)):
        match part:
            case ir.NullTest(ir.Prop(var, type=kind)) if not (kind.is_plain or ir.is_walk_var(var)):
                # The table says whether a list is null, or it is asked of the rows that are left.
                by_row.add(var)
            case _:
                exprs += operands_of(part)
    for expr in exprs:
        _note(expr, read, seen)
        by_row |= _found_by_row(expr)
    for var in by_row:
        read[var] |= set()  # Its rows are needed, and perhaps none of its properties.
        seen.add(var)
    identified = {expr.var for expr in map(_told, exprs) if isinstance(expr, ir.NodeId)}
    # Walks of a block begin at the ids of what is bound around it.
    identified |= {name for item in counts for name in item.outer_vars}
    inner = set(_bound_inside(ops))
    sources = set(_sources(ops))
    outer = set(_outer(ops))
    optional = {name for op in ops if isinstance(op, ir.Optional) for name in op.vars}
    everything = inner | set(_bound_by(ops))
    # Outside negations rows are returned, one for each solution, and ordered by the ids of all.
    candidates = everything if is_aggregate else inner
    return Needs(
        properties={var: frozenset(names) for var, names in read.items()},
        counted_only=frozenset(candidates - seen - sources - outer - set(_optional(ops))),
        counted_optional=frozenset(optional - seen - sources - outer if is_aggregate else ()),
        identified=frozenset(identified),
        returned=frozenset(returned.union(*(item.outer_vars for item in counts))),
        by_row=frozenset(by_row),
        is_aggregate=is_aggregate,
    )


def _found_by_row(expr: ir.Expr) -> set[str]:
    """The variable whose rows are told by their numbers what the expression is."""
    match expr:
        case ir.Prop(var, type=kind) if kind.scalar is Scalar.BLOB:
            return {var}
        case ir.Search(var) | ir.MatchText(var) | ir.Bm25(var) | ir.Nearest(var):
            return {var}
        case ir.Rrf(first, second):
            return {first.var, second.var}
        case ir.Agg(_, arg):
            return _found_by_row(arg)
        case _:
            return set()


def _leaves(expr: ir.Expr) -> Iterator[ir.Expr]:
    """What of an expression is read; an aggregate stays one."""
    if not isinstance(expr, ir.Agg):
        yield from leaves_of(expr)
        return
    for leaf in leaves_of(expr.arg):
        yield replace(expr, arg=leaf) if leaf is expr.arg else leaf


def _told(expr: ir.Expr) -> ir.Expr:
    """What of an expression is read row by row: of a count of nodes nothing is."""
    match expr:
        case ir.Agg(ir.AggFunc.COUNT, _, None):
            return expr
        case ir.Agg(_, arg):
            return arg
        case _:
            return expr


def _note(expr: ir.Expr, read: dict[str, set[str]], seen: set[str]) -> None:
    match expr:
        case ir.Prop(type=kind) if kind.scalar is Scalar.BLOB:
            pass
        case ir.Prop(var, name) | ir.Nearest(var, name) | ir.Fuzzy(var, name):
            read[var].add(name)
            seen.add(var)
        case ir.NodeId(var) | ir.TypeOf(var):
            seen.add(var)
        case ir.Rrf(first, second):
            _note(first, read, seen)
            _note(second, read, seen)
        case ir.Agg(ir.AggFunc.COUNT, ir.NodeId(), None):
            pass  # Every bound node counts; which one it is does not matter.
        case ir.Agg(_, arg):
            _note(arg, read, seen)
        case _:
            pass  # A constant, what is made of others, or what is found by the rows.


def _parts(item: ir.Condition) -> Iterator[ir.Filter | ir.NullTest]:
    """The tests that a condition is made of."""
    match item:
        case ir.AllOf(parts) | ir.AnyOf(parts):
            for part in parts:
                yield from _parts(part)
        case ir.Negated(part):
            yield from _parts(part)
        case _:
            yield item


def _filters(ops: Sequence[ir.Op]) -> Iterator[ir.Condition]:
    for op in ops:
        yield from filters_of(op)
        for inner in inner_ops(op):
            yield from _filters(inner)


def _bound_by(ops: Sequence[ir.Op]) -> Iterator[str]:
    for op in ops:
        match op:
            case ir.NodeScan():
                yield op.var
            case ir.Expand() if op.edge_var is None:
                yield op.dst_var
            case _:
                pass


def _bound_inside(ops: Sequence[ir.Op]) -> Iterator[str]:
    for op in ops:
        for inner in inner_ops(op):
            if not isinstance(op, ir.Optional):
                yield from _bound_by(inner)
            yield from _bound_inside(inner)


def _sources(ops: Sequence[ir.Op]) -> Iterator[str]:
    for op in ops:
        if isinstance(op, ir.Expand):
            yield op.src_var
        for inner in inner_ops(op):
            yield from _sources(inner)


def _outer(ops: Sequence[ir.Op]) -> Iterator[str]:
    for op in ops:
        if isinstance(op, ir.Join):
            yield from op.outer_vars
        for block in blocks_of(side for item in filters_of(op) for side in sides_of(item)):
            yield from block.outer_vars
        for inner in inner_ops(op):
            yield from _outer(inner)


def _optional(ops: Sequence[ir.Op]) -> Iterator[str]:
    """What optional blocks bind: it may be nothing, so it counts for itself."""
    for op in ops:
        yield from op.vars if isinstance(op, ir.Optional) else ()
        for inner in inner_ops(op):
            yield from _optional(inner)
