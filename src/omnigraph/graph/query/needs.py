"""What of each variable a query needs: which properties, or only that it is there."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.lang import ir

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

    identified: frozenset[str]
    """Variables whose ids are shown, compared or grouped by."""

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
    is_aggregate = any(isinstance(expr, ir.Agg) for expr in exprs)
    read: dict[str, set[str]] = defaultdict(set)
    filters = list(_filters(query.ops))
    exprs += [side for item in filters for side in (item.left, item.right)]
    seen: set[str] = set()
    for expr in exprs:
        _note(expr, read, seen)
    identified = {expr.var for expr in exprs if isinstance(expr, ir.NodeId)}
    inner = set(_bound_inside(query.ops))
    sources = set(_sources(query.ops))
    outer = set(_outer(query.ops))
    everything = inner | set(_bound_by(query.ops))
    # Outside negations rows are returned, one for each solution, and ordered by the ids of all.
    candidates = everything if is_aggregate else inner
    return Needs(
        properties={var: frozenset(names) for var, names in read.items()},
        counted_only=frozenset(candidates - seen - sources - outer),
        identified=frozenset(identified),
        is_aggregate=is_aggregate,
    )


def _note(expr: ir.Expr, read: dict[str, set[str]], seen: set[str]) -> None:
    match expr:
        case ir.Prop(var, name) | ir.Nearest(var, name) | ir.Fuzzy(var, name):
            read[var].add(name)
            seen.add(var)
        case ir.Search(var) | ir.MatchText(var) | ir.Bm25(var):
            read[var] |= set()  # Its rows are needed, and none of its properties.
            seen.add(var)
        case ir.NodeId(var):
            seen.add(var)
        case ir.Rrf(first, second):
            _note(first, read, seen)
            _note(second, read, seen)
        case ir.Agg(ir.AggFunc.COUNT, ir.NodeId()):
            pass  # Every bound node counts; which one it is does not matter.
        case ir.Agg(_, arg):
            _note(arg, read, seen)
        case ir.Param() | ir.Lit() | ir.Alias():
            pass


def _filters(ops: Sequence[ir.Op]) -> Iterator[ir.Filter]:
    for op in ops:
        match op:
            case ir.NodeScan():
                yield from op.filters
            case ir.Expand():
                yield from op.dst_filters
            case ir.Where():
                yield op.filter
            case ir.AntiJoin():
                yield from _filters(op.inner)


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
        if isinstance(op, ir.AntiJoin):
            yield from _bound_by(op.inner)
            yield from _bound_inside(op.inner)


def _sources(ops: Sequence[ir.Op]) -> Iterator[str]:
    for op in ops:
        match op:
            case ir.Expand():
                yield op.src_var
            case ir.AntiJoin():
                yield from _sources(op.inner)
            case _:
                pass


def _outer(ops: Sequence[ir.Op]) -> Iterator[str]:
    for op in ops:
        if isinstance(op, ir.AntiJoin):
            yield from op.outer_vars
            yield from _outer(op.inner)
