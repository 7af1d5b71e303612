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
    ir.FilterOp.IN: "is one of",
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
            for word, param in (("limit", query.limit_param), ("offset", query.offset_param)):
                if param is not None:
                    lines.append(f"{word} ${param.name}")
            if query.offset is not None:
                lines.append(f"offset {query.offset}")
            return "\n".join(lines)
        case ir.MutationIR():
            return "\n".join(_mutation(op) for op in query.ops)


def expands(ops: Iterable[ir.Op]) -> Iterator[ir.Expand]:
    """Every traversal, those inside negations too."""
    for op in ops:
        match op:
            case ir.Expand():
                yield op
            case ir.AntiJoin() | ir.SemiJoin() | ir.Optional():
                yield from expands(op.inner)
            case ir.NodeScan() | ir.Where():
                pass


def _ops(ops: Iterable[ir.Op], indent: str = "") -> Iterator[str]:
    for op in ops:
        match op:
            case ir.NodeScan():
                types = f" of {', '.join(op.types)}" if op.types else ""
                yield f"{indent}scan {op.var}: {op.type}{types}{_filters(op.filters)}"
            case ir.Expand():
                before, after = _ARROWS[op.direction]
                low, high = (
                    count if param is None else f"${param.name}"
                    for count, param in (
                        (op.min_hops, op.min_param),
                        (op.max_hops, op.max_param),
                    )
                )
                hops = "" if high == 1 else f"{{{low},{high}}}"
                edge_var = "" if op.edge_var is None else f" as {op.edge_var}"
                edge_var += _filters(op.edge_filters)
                yield (
                    f"{indent}expand {op.src_var} {before}{op.edge}{hops}{after} "
                    f"{op.dst_var}: {op.dst_type}{edge_var}{_filters(op.dst_filters)}"
                )
            case ir.Where():
                yield f"{indent}where {_filter(op.filter)}"
            case ir.AntiJoin() | ir.SemiJoin() | ir.Optional():
                word = {ir.AntiJoin: "not", ir.SemiJoin: "exists", ir.Optional: "optional"}
                yield f"{indent}{word[type(op)]} ({', '.join(op.outer_vars)})"
                yield from _ops(op.inner, indent + "  ")
            case _:
                assert_never(op)


def _filters(filters: Iterable[ir.Condition]) -> str:
    shown = [_filter(item) for item in filters]
    return f" [{', '.join(shown)}]" if shown else ""


def _filter(item: ir.Condition) -> str:
    match item:
        case ir.Filter():
            return f"{_expr(item.left)} {_OPS[item.op]} {_expr(item.right)}"
        case ir.NullTest():
            return f"{_expr(item.expr)} is null"
        case ir.Negated():
            return f"not({_filter(item.part)})"
        case ir.AllOf():
            return f"all({', '.join(_filter(part) for part in item.parts)})"
        case ir.AnyOf():
            return f"any({', '.join(_filter(part) for part in item.parts)})"


def _returned(query: ir.QueryIR) -> Iterator[str]:
    for item in query.returns:
        yield f"{_expr(item.expr)} as {item.name}"


def _ordering(item: ir.Ordering) -> str:
    return f"{_expr(item.expr)} {'desc' if item.descending else 'asc'}"


def _expr(expr: ir.Expr) -> str:
    match expr:
        case ir.Prop():
            return f"{expr.var}.{expr.property}" if expr.var else expr.property
        case ir.NodeId():
            return f"id({expr.var})"
        case ir.Param():
            return f"${expr.name}"
        case ir.Lit():
            return _literal(expr)
        case ir.Alias():
            return expr.name
        case ir.Fuzzy() | ir.Nearest() | ir.Bm25() | ir.Search() | ir.MatchText():
            name = "match_text" if isinstance(expr, ir.MatchText) else type(expr).__name__.lower()
            edits = f", {_expr(expr.max_edits)}" if isinstance(expr, ir.Fuzzy) else ""
            return f"{name}({expr.var}.{expr.property}, {_expr(expr.query)}{edits})"
        case ir.Rrf(first, second, k):
            return f"rrf({', '.join(map(_expr, (first, second, k)))})"
        case ir.Computed() | ir.If() | ir.TypeOf() | ir.CountOf():
            return _value(expr)
        case ir.Agg():
            return f"{expr.func.value}({_expr(expr.arg)})"
        case _:
            assert_never(expr)


def _value(expr: ir.Value) -> str:
    match expr:
        case ir.Computed():
            return f"{expr.func.value}({', '.join(_expr(arg) for arg in expr.args)}): {expr.type}"
        case ir.If():
            parts = _filter(expr.condition), _expr(expr.then), _expr(expr.otherwise)
            return f"if({', '.join(parts)}): {expr.type}"
        case ir.TypeOf():
            return f"type({expr.var}: {expr.name})"
        case ir.CountOf():
            return f"count({'; '.join(line.strip() for line in _ops(expr.inner))})"


def _literal(item: ir.Lit) -> str:
    """JSON; epoch days and milliseconds say what they count."""
    shown = json.dumps(item.value, ensure_ascii=False)
    if item.type.scalar in (Scalar.DATE, Scalar.DATETIME) and item.value is not None:
        return f"{item.type.scalar.value}({shown})"
    return shown


def _mutation(op: ir.MutationOp) -> str:
    match op:
        case ir.Insert():
            absent = " if absent" if op.if_absent else ""
            return f"insert {op.kind.value} {op.type}{absent} {_assignments(op.assignments)}"
        case ir.Update():
            kind = "edge " if op.kind is ir.EntityKind.EDGE else ""
            assigned = _assignments(op.assignments)
            return f"update {kind}{op.type} {assigned} where {_filter(op.where)}"
        case ir.Delete():
            return f"delete {op.kind.value} {op.type} where {_filter(op.where)}"
        case _:
            assert_never(op)


def _assignments(items: Iterable[ir.Assign]) -> str:
    return "{ " + ", ".join(f"{item.property}: {_expr(item.value)}" for item in items) + " }"
