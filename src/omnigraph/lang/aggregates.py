"""Checking of aggregates: what each takes, and what it gives."""

from typing import TYPE_CHECKING

from omnigraph.lang import ir
from omnigraph.lang import query_ast as ast
from omnigraph.lang.checked import Context, Typed
from omnigraph.lang.query_printer import print_expr
from omnigraph.lang.search_calls import is_nested_aggregate
from omnigraph.lang.types import F64, I64, PropType, Scalar

if TYPE_CHECKING:
    from omnigraph.lang.expressions import ExprChecker

_AGGREGATE_TAKES = {
    ir.AggFunc.COUNT: "anything",
    ir.AggFunc.SUM: "a number",
    ir.AggFunc.AVG: "a number",
    ir.AggFunc.MIN: "a number, String, Date or DateTime",
    ir.AggFunc.MAX: "a number, String, Date or DateTime",
    ir.AggFunc.COLLECT: "anything but a list, a vector or a Blob",
}


def _aggregate_type(func: ir.AggFunc, kind: PropType) -> PropType | None:
    match func:
        case ir.AggFunc.COUNT:
            return I64
        case ir.AggFunc.SUM | ir.AggFunc.AVG:
            numeric = not kind.is_list and kind.scalar.is_numeric
            return F64.as_nullable(nullable=True) if numeric else None
        case ir.AggFunc.MIN | ir.AggFunc.MAX:
            ordered = kind.is_plain and kind.scalar is not Scalar.BOOL
            return kind.as_nullable(nullable=True) if ordered else None
        case ir.AggFunc.COLLECT:
            return PropType(scalar=kind.scalar, is_list=True) if kind.is_plain else None


def check_aggregate(checker: "ExprChecker", expr: ast.Call) -> Typed | None:
    """An aggregate over a suitable expression."""
    if checker.context is Context.MATCH:
        checker.report(
            "T29",
            "aggregate_in_match",
            f"aggregate `{expr.function}` cannot stand in `match`; use it in `return`",
            expr.extent,
        )
        return None
    arg = _check_argument(checker, expr)
    if arg is None:
        return None
    func = ir.AggFunc(expr.function.value)
    kind = _aggregate_type(func, arg.type)
    if kind is None:
        checker.report(
            "T8",
            "aggregate_type",
            f"`{func}` cannot take `{print_expr(expr.args[0])}` of type {arg.type}; "
            f"it takes {_AGGREGATE_TAKES[func]}",
            expr.extent,
        )
        return None
    return Typed(ir.Agg(func, arg.expr, expr.distinct or None), kind)


def _check_argument(checker: "ExprChecker", expr: ast.Call) -> Typed | None:
    """The argument, which may hold neither an aggregate nor a search function."""
    arg_expr = expr.args[0]
    if is_nested_aggregate(checker, expr, arg_expr):
        return None
    arg = checker.check(arg_expr)
    match arg:
        case None:
            return None
        case Typed(expr=ir.Agg()):
            checker.report(
                "T29",
                "aggregate_nested",
                f"`{print_expr(arg_expr)}` is an aggregate already",
                arg_expr.extent,
            )
            return None
        case Typed(
            expr=ir.Nearest() | ir.Bm25() | ir.Rrf() | ir.Search() | ir.MatchText() | ir.Fuzzy()
        ):
            checker.report(
                "T31",
                "search_misplaced",
                f"a search function cannot stand inside `{expr.function}`",
                arg_expr.extent,
            )
            return None
    return arg
