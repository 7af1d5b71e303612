"""The first rows in the order of ids, without the rows behind them.

A query with a limit whose rows are ordered by the ids of its variables needs the rows of the
smallest ids of the first of them. They are matched for a few of these nodes, then for more, until
there are enough.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from omnigraph.engine.counted_walks import bound_by
from omnigraph.lang import ir
from omnigraph.lang.ir_parts import filters_of, leaves_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.engine.bindings import Bindings
    from omnigraph.engine.match import Matcher

FIRST_NODES = 8
"""Of so many nodes the rows are matched first; then of `_GROWTH` times as many, and so on."""

_GROWTH = 8

_MOST_ROWS = 10_000
"""Limits above are no hurry."""


def first_rows(ops: Sequence[ir.Op], limit: int, matcher: Matcher) -> Bindings:
    """At least the first rows of operators that `in_order_of_ids` gave, if there are so many."""
    scan, *others = ops
    found = matcher.run((scan,))
    ((_, nodes),) = found.columns.items()
    in_order = np.argsort(nodes.entities.rank(nodes.at), kind="stable")
    count = FIRST_NODES
    while True:
        rows = matcher.run(others, found.keep(in_order[:count]))
        if rows.rows >= limit or count >= found.rows:
            return rows
        count *= _GROWTH


def in_order_of_ids(query: ir.QueryIR) -> tuple[ir.Op, ...] | None:
    """The operators, from the variable on whose ids order the rows; `None` if this does not pay.

    Walks may be turned for it, if nothing else makes one end the better start.
    """
    scans = [op for op in query.ops if isinstance(op, ir.NodeScan)]
    is_walk = len(query.ops) > 1 and len(scans) == 1 and query.ops[0] is scans[0]
    wanted = query.limit + (query.offset or 0) if query.limit else 0
    if not is_walk or query.is_grouped or not 0 < wanted <= _MOST_ROWS:
        return None
    var = _first_variable(query)
    if var is None or scans[0].types is not None or _ranks(query):
        return None
    return query.ops if scans[0].var == var else _turned(query.ops, scans[0], var)


def _first_variable(query: ir.QueryIR) -> str | None:
    """The variable whose ids come first in the order of the rows."""
    if not query.order:
        names = {name for op in query.ops for name in bound_by(op) if not ir.is_walk_var(name)}
        return min(names, key=lambda name: (name.startswith("#"), name))
    first = query.order[0]
    expr = first.expr
    if isinstance(expr, ir.Alias):
        expr = next(item.expr for item in query.returns if item.name == expr.name)
    return expr.var if isinstance(expr, ir.NodeId) and not first.descending else None


def _ranks(query: ir.QueryIR) -> bool:
    """A column tells of each row where it stands among all."""
    exprs = (leaf for item in query.returns for leaf in leaves_of(item.expr))
    return any(isinstance(expr, ir.Rrf) for expr in exprs)


def _turned(ops: Sequence[ir.Op], scan: ir.NodeScan, var: str) -> tuple[ir.Op, ...] | None:
    """The same walks, begun at another of their nodes."""
    walks = [op for op in ops if isinstance(op, ir.Expand)]
    if len(walks) + 1 < len(ops) or any(filters_of(op) for op in ops):
        return None
    types = {scan.var: scan.type, **{op.dst_var: op.dst_type for op in walks}}
    way = _way(var, {op.dst_var: op for op in walks})
    if var not in types or not all(_may_be_turned(op) for op in way):
        return None
    turned = [
        replace(
            op,
            src_var=op.dst_var,
            dst_var=op.src_var,
            dst_type=types[op.src_var],
            direction=op.direction.flipped,
        )
        for op in way
    ]
    return (ir.NodeScan(var, types[var]), *turned, *(op for op in walks if op not in way))


def _way(var: str, leading_to: Mapping[str, ir.Expand]) -> list[ir.Expand]:
    """The walks from a node back to where all begin."""
    way: list[ir.Expand] = []
    while var in leading_to:
        way.append(leading_to[var])
        var = leading_to[var].src_var
    return way


def _may_be_turned(op: ir.Expand) -> bool:
    """Of several hops the start tells which nodes are reached over a loop, and what is told."""
    return (op.min_hops, op.max_hops) == (1, 1) and op.walk_var is None
