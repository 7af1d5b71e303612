"""Expressions of the IR as people read them in a plan: `p.age > 30`."""

from __future__ import annotations

from typing import assert_never

from omnigraph.lang import ir
from omnigraph.lang.ir import FilterOp, ValueFunc
from omnigraph.lang.ir_parts import filters_of
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
    FilterOp.IN: "in",
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


def filter_text(item: ir.Condition) -> str:
    """A condition."""
    match item:
        case ir.NullTest(expr):
            return f"{expr_text(expr)} is null"
        case ir.Negated(ir.NullTest(expr)):
            return f"{expr_text(expr)} is not null"
        case ir.Negated(ir.Filter(left, FilterOp.IN, right)):
            return f"{expr_text(left)} not in {expr_text(right)}"
        case ir.Negated(part):
            return f"not ({filter_text(part)})"
        case ir.AllOf(parts):
            return " and ".join(_part_text(part) for part in parts)
        case ir.AnyOf(parts):
            return " or ".join(_part_text(part) for part in parts)
        case ir.Filter(
            (ir.Search() | ir.MatchText() | ir.Fuzzy()) as call, FilterOp.EQ, ir.Lit(value=True)
        ):
            return expr_text(call)
        case ir.Filter(left, op, right):
            return f"{expr_text(left)} {_OPS[op]} {expr_text(right)}"
        case _:
            assert_never(item)


def _part_text(part: ir.Condition) -> str:
    text = filter_text(part)
    return f"({text})" if isinstance(part, ir.AllOf | ir.AnyOf) else text


def expr_text(expr: ir.Expr) -> str:
    """An expression; long lists and vectors are cut."""
    match expr:
        case ir.Prop(var, name):
            return _property_text(var, name)
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
        case ir.Computed() | ir.If() | ir.TypeOf() | ir.CountOf():
            return _value_text(expr)
        case ir.Agg(func, arg):
            return f"{func}({'distinct ' if expr.distinct else ''}{expr_text(arg)})"
        case _:
            assert_never(expr)


_SIGNS = {
    ValueFunc.ADD: "+",
    ValueFunc.SUBTRACT: "-",
    ValueFunc.MULTIPLY: "*",
    ValueFunc.DIVIDE: "/",
    ValueFunc.REMAINDER: "%",
    ValueFunc.CONCAT: "+",
}


def _value_text(expr: ir.Value) -> str:
    match expr:
        case ir.TypeOf(var):
            return f"type({var})"
        case ir.CountOf(inner):
            return f"count {{ {'; '.join(_op_text(op) for op in inner)} }}"
        case ir.If(condition, then, otherwise):
            return f"if({filter_text(condition)}, {expr_text(then)}, {expr_text(otherwise)})"
        case ir.Computed():
            return _computed_text(expr)


def _computed_text(expr: ir.Computed) -> str:
    args = [expr_text(arg) for arg in expr.args]
    if expr.func not in _SIGNS and expr.func is not ValueFunc.NEGATIVE:
        return f"{expr.func}({', '.join(args)})"
    sides = [
        f"({text})" if isinstance(arg, ir.Computed) and arg.func in _SIGNS else text
        for arg, text in zip(expr.args, args, strict=True)
    ]
    return f"-{sides[0]}" if len(sides) == 1 else f" {_SIGNS[expr.func]} ".join(sides)


def _op_text(op: ir.Op) -> str:
    """An operator of a block whose solutions are counted."""
    conditions = ", ".join(filter_text(item) for item in filters_of(op))
    match op:
        case ir.NodeScan(var, type=kind):
            return f"{var}: {kind}" + (f", {conditions}" if conditions else "")
        case ir.Expand():
            hops = "" if op.max_hops == 1 else f"{{{op.min_hops},{op.max_hops}}}"
            text = f"{op.src_var} {op.direction} {op.edge}{hops} {op.dst_var}"
            return text + (f", {conditions}" if conditions else "")
        case ir.Where():
            return conditions
        case ir.AntiJoin() | ir.SemiJoin() | ir.Optional():
            word = {ir.AntiJoin: "not", ir.SemiJoin: "exists", ir.Optional: "optional"}[type(op)]
            return f"{word} {{ {'; '.join(_op_text(inner) for inner in op.inner)} }}"


def _property_text(var: str, name: str) -> str:
    if var == ir.OWN_ROW:
        return name
    return _walk_text(var, name) if ir.is_walk_var(var) else f"{var}.{name}"


def _walk_text(var: str, name: str) -> str:
    """What a walk tells, as the call that asks for it."""
    ends = [f"${end}" for end in var[1:].rstrip("'").split(",")]
    if name == ir.WalkProperty.PATH_BACK:
        return f"path({ends[1]}, {ends[0]})"
    return f"{name}({', '.join(ends)})"


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
