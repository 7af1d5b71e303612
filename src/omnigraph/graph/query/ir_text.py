"""Expressions of the IR as people read them in a plan: `p.age > 30`."""

from __future__ import annotations

from typing import assert_never

from omnigraph.lang import ir
from omnigraph.lang.ir import FilterOp
from omnigraph.lang.lexemes import write_string
from omnigraph.lang.types import Scalar
from omnigraph.lang.values import format_date, format_datetime

_OPS = {
    FilterOp.EQ: "=",
    FilterOp.NE: "!=",
    FilterOp.LT: "<",
    FilterOp.LE: "<=",
    FilterOp.GT: ">",
    FilterOp.GE: ">=",
    FilterOp.LIST_CONTAINS: "contains",
    FilterOp.STR_CONTAINS: "contains",
    FilterOp.STARTS_WITH: "starts_with",
}
_LONGEST = 8

CALL_NAMES = {
    ir.Nearest: "nearest",
    ir.Bm25: "bm25",
    ir.Search: "search",
    ir.MatchText: "match_text",
    ir.Fuzzy: "fuzzy",
}
"""Search calls as queries spell them."""


def filter_text(item: ir.Filter) -> str:
    """A filter."""
    match item:
        case ir.Filter(
            (ir.Search() | ir.MatchText() | ir.Fuzzy()) as call, FilterOp.EQ, ir.Lit(value=True)
        ):
            return expr_text(call)
    return f"{expr_text(item.left)} {_OPS[item.op]} {expr_text(item.right)}"


def expr_text(expr: ir.Expr) -> str:
    """An expression; long lists and vectors are cut."""
    match expr:
        case ir.Prop(var, name):
            return f"{var}.{name}"
        case ir.NodeId(var):
            return f"{var}.id"
        case ir.Param(name):
            return f"${name}"
        case ir.Lit():
            return _literal(expr)
        case ir.Alias(name):
            return name
        case ir.Nearest() | ir.Bm25() | ir.Search() | ir.MatchText() | ir.Fuzzy():
            edits = f", {expr_text(expr.max_edits)}" if isinstance(expr, ir.Fuzzy) else ""
            field = f"{expr.var}.{expr.property}"
            return f"{CALL_NAMES[type(expr)]}({field}, {expr_text(expr.query)}{edits})"
        case ir.Rrf(first, second, k):
            return f"rrf({expr_text(first)}, {expr_text(second)}, {expr_text(k)})"
        case ir.Agg(func, arg):
            return f"{func}({expr_text(arg)})"
        case _:
            assert_never(expr)


def _literal(literal: ir.Lit) -> str:
    match literal.value:
        case None:
            return "null"
        case bool() as value:
            return "true" if value else "false"
        case list() | tuple() as items:
            shown = ", ".join(_scalar(item, literal.type.scalar) for item in items[:_LONGEST])
            return f"[{shown}{', …' if len(items) > _LONGEST else ''}]"
        case value:
            return _scalar(value, literal.type.scalar)


def _scalar(value: object, scalar: Scalar) -> str:
    match value:
        case str():
            return write_string(value)
        case int() if scalar is Scalar.DATE:
            return f'date("{format_date(value)}")'
        case int() if scalar is Scalar.DATETIME:
            return f'datetime("{format_datetime(value)}")'
        case _:
            return str(value)
