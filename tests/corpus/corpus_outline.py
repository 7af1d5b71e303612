"""The IR as a few lines that a person can read and compare."""

import json
from collections.abc import Iterable, Iterator
from typing import assert_never

from omnigraph.lang import ir
from omnigraph.lang.types import Scalar

_OPS = {
    ir.FilterOp.EQ: "=",
    ir.FilterOp.NE: "!=",
    ir.FilterOp.LT: "<",
    ir.FilterOp.LE: "<=",
    ir.FilterOp.GT: ">",
    ir.FilterOp.GE: ">=",
    ir.FilterOp.LIST_CONTAINS: "has member",
    ir.FilterOp.STR_CONTAINS: "has text",
    ir.FilterOp.STARTS_WITH: "starts with",
}
_ARROWS = {
    ir.ExpandDirection.OUT: ("-", "->"),
    ir.ExpandDirection.IN: ("<-", "-"),
    ir.ExpandDirection.BOTH: ("<-", "->"),
}


def outline(query: ir.QueryIR | ir.MutationIR) -> str:
    """The operators of a query, one per line, then what it returns."""
    match query:
        case ir.QueryIR():
            lines = [*_ops(query.ops), f"return {', '.join(_returned(query))}"]
            if query.order:
                lines.append(f"order {', '.join(_ordering(item) for item in query.order)}")
            if query.limit is not None:
                lines.append(f"limit {query.limit}")
            return "\n".join(lines)
        case ir.MutationIR():
            return "\n".join(_mutation(op) for op in query.ops)


def expands(ops: Iterable[ir.Op]) -> Iterator[ir.Expand]:
    """Every traversal, those inside negations too."""
    for op in ops:
        match op:
            case ir.Expand():
                yield op
            case ir.AntiJoin():
                yield from expands(op.inner)
            case ir.NodeScan() | ir.Where():
                pass


def _ops(ops: Iterable[ir.Op], indent: str = "") -> Iterator[str]:
    for op in ops:
        match op:
            case ir.NodeScan():
                yield f"{indent}scan {op.var}: {op.type}{_filters(op.filters)}"
            case ir.Expand():
                before, after = _ARROWS[op.direction]
                hops = "" if op.max_hops == 1 else f"{{{op.min_hops},{op.max_hops}}}"
                edge_var = "" if op.edge_var is None else f" as {op.edge_var}"
                yield (
                    f"{indent}expand {op.src_var} {before}{op.edge}{hops}{after} "
                    f"{op.dst_var}: {op.dst_type}{edge_var}{_filters(op.dst_filters)}"
                )
            case ir.Where():
                yield f"{indent}where {_filter(op.filter)}"
            case ir.AntiJoin():
                yield f"{indent}not ({', '.join(op.outer_vars)})"
                yield from _ops(op.inner, indent + "  ")
            case _:
                assert_never(op)


def _filters(filters: Iterable[ir.Filter]) -> str:
    shown = [_filter(item) for item in filters]
    return f" [{', '.join(shown)}]" if shown else ""


def _filter(item: ir.Filter) -> str:
    return f"{_expr(item.left)} {_OPS[item.op]} {_expr(item.right)}"


def _returned(query: ir.QueryIR) -> Iterator[str]:
    for item in query.returns:
        yield f"{_expr(item.expr)} as {item.name}"


def _ordering(item: ir.Ordering) -> str:
    return f"{_expr(item.expr)} {'desc' if item.descending else 'asc'}"


def _expr(expr: ir.Expr) -> str:
    match expr:
        case ir.Prop():
            return f"{expr.var}.{expr.property}"
        case ir.NodeId():
            return f"id({expr.var})"
        case ir.Param():
            return f"${expr.name}"
        case ir.Lit():
            return _literal(expr)
        case ir.Alias():
            return expr.name
        case ir.Fuzzy():
            return (
                f"fuzzy({expr.var}.{expr.property}, {_expr(expr.query)}, {_expr(expr.max_edits)})"
            )
        case ir.Nearest() | ir.Bm25() | ir.Search() | ir.MatchText():
            name = "match_text" if isinstance(expr, ir.MatchText) else type(expr).__name__.lower()
            return f"{name}({expr.var}.{expr.property}, {_expr(expr.query)})"
        case ir.Rrf():
            return f"rrf({_expr(expr.first)}, {_expr(expr.second)}, {_expr(expr.k)})"
        case ir.Agg():
            return f"{expr.func.value}({_expr(expr.arg)})"
        case _:
            assert_never(expr)


def _literal(item: ir.Lit) -> str:
    """JSON; epoch days and milliseconds say what they count."""
    shown = json.dumps(item.value, ensure_ascii=False)
    if item.type.scalar in (Scalar.DATE, Scalar.DATETIME) and item.value is not None:
        return f"{item.type.scalar.value}({shown})"
    return shown


def _mutation(op: ir.MutationOp) -> str:
    match op:
        case ir.Insert():
            return f"insert {op.kind.value} {op.type} {_assignments(op.assignments)}"
        case ir.Update():
            return f"update {op.type} {_assignments(op.assignments)} where {_pred(op.pred)}"
        case ir.Delete():
            return f"delete {op.kind.value} {op.type} where {_pred(op.pred)}"
        case _:
            assert_never(op)


def _assignments(items: Iterable[ir.Assign]) -> str:
    return "{ " + ", ".join(f"{item.property}: {_expr(item.value)}" for item in items) + " }"


def _pred(item: ir.Pred) -> str:
    return f"{item.property} {_OPS[item.op]} {_expr(item.value)}"
