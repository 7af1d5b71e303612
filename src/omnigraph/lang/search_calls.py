"""Checking of the search functions: fields, query operands and where each may stand."""

from typing import TYPE_CHECKING

from omnigraph.lang import ir
from omnigraph.lang import query_ast as ast
from omnigraph.lang.checked import Context, SearchUse, Typed
from omnigraph.lang.types import BOOL, F64, PropType, Scalar
from omnigraph.lang.values import UnfitValue, read_vector

if TYPE_CHECKING:
    from omnigraph.lang.expressions import ExprChecker

_SCORE = F64.as_nullable(nullable=True)
_OPERAND_CODE = {
    ast.Function.SEARCH: "T19",
    ast.Function.FUZZY: "T19",
    ast.Function.MATCH_TEXT: "T20",
    ast.Function.BM25: "T20",
}
DEFAULT_MAX_EDITS = 2
DEFAULT_RRF_K = 60
_INTEGER = PropType(scalar=Scalar.I64)


def check_search(checker: "ExprChecker", expr: ast.Call) -> Typed | None:
    """A search function call as typed IR, or None with its findings."""
    match expr.function:
        case ast.Function.RRF:
            return _check_rrf(checker, expr)
        case ast.Function.NEAREST:
            return _check_nearest(checker, expr)
        case _:
            return _check_text(checker, expr)


def _check_text(checker: "ExprChecker", expr: ast.Call) -> Typed | None:
    code = _OPERAND_CODE[expr.function]
    field = _field(checker, expr)
    query = _operand(checker, expr, expr.args[1])
    edits = _max_edits(checker, expr) if expr.function is ast.Function.FUZZY else None
    if field is not None and not field.type.is_text:
        checker.report(
            code,
            "search_field_type",
            f"`{expr.function}` searches a String property; `{field.property}` is {field.type}",
            expr.args[0].extent,
        )
        return None
    if query is not None and not query.type.is_text:
        checker.report(
            code,
            "search_query_type",
            f"`{expr.function}` takes its query as a String, not {query.type}",
            expr.args[1].extent,
        )
        return None
    if field is None or query is None:
        return None
    match expr.function:
        case ast.Function.SEARCH:
            return Typed(ir.Search(field.var, field.property, query), BOOL)
        case ast.Function.MATCH_TEXT:
            return Typed(ir.MatchText(field.var, field.property, query), BOOL)
        case ast.Function.BM25:
            return Typed(ir.Bm25(field.var, field.property, query), _SCORE)
        case _:
            if edits is None:
                return None
            return Typed(ir.Fuzzy(field.var, field.property, query, edits), BOOL)


def _max_edits(checker: "ExprChecker", expr: ast.Call) -> ir.Param | ir.Lit | None:
    if len(expr.args) < 3:
        return ir.Lit(DEFAULT_MAX_EDITS, _INTEGER)
    edits = _operand(checker, expr, expr.args[2])
    if edits is None:
        return None
    match edits:
        case ir.Lit(value=int() as value) if not isinstance(value, bool) and 0 <= value <= 2:
            return edits
        case ir.Param(type=kind) if kind.scalar.is_integer and not kind.is_list:
            return edits
    checker.report(
        "T19",
        "max_edits",
        "`fuzzy` allows 0, 1 or 2 edits; give an integer in that range",
        expr.args[2].extent,
    )
    return None


def _check_nearest(checker: "ExprChecker", expr: ast.Call) -> Typed | None:
    field = _field(checker, expr)
    query = _operand(checker, expr, expr.args[1])
    if field is None or query is None:
        return None
    if field.type.scalar is not Scalar.VECTOR:
        checker.report(
            "T15",
            "nearest_field",
            f"`nearest` ranks a Vector property; `{field.property}` is {field.type}",
            expr.args[0].extent,
        )
        return None
    fitted = _query_vector(query, field.type)
    if fitted is None:
        checker.report(
            "T15",
            "nearest_query",
            f"`nearest` on {field.type} takes a list of {field.type.vector_dim} numbers, a "
            f"Vector({field.type.vector_dim}) parameter or a text, not {_given(query)}",
            expr.args[1].extent,
        )
        return None
    return Typed(ir.Nearest(field.var, field.property, fitted), _SCORE)


def _query_vector(query: ir.Param | ir.Lit, field: PropType) -> ir.Param | ir.Lit | None:
    """The query operand of `nearest`, a list literal as a vector; None when it does not fit."""
    if query.type.is_text and query.type.enum_values is None:
        return query
    match query:
        case ir.Param(type=kind) if kind.scalar is Scalar.VECTOR:
            return query if kind.vector_dim == field.vector_dim else None
        case ir.Lit(value=tuple() as parts, type=kind) if kind.is_list and kind.scalar.is_numeric:
            vector = PropType(scalar=Scalar.VECTOR, vector_dim=field.vector_dim)
            try:
                return ir.Lit(tuple(read_vector(parts, vector)), vector)
            except UnfitValue:
                return None
    return None


def _given(query: ir.Param | ir.Lit) -> str:
    if isinstance(query, ir.Lit) and isinstance(query.value, tuple):
        return f"a list of {len(query.value)} ({query.type})"
    return str(query.type)


def _check_rrf(checker: "ExprChecker", expr: ast.Call) -> Typed | None:
    if checker.context is Context.MATCH:
        checker.report(
            "T31",
            "search_misplaced",
            "`rrf` ranks whole results and cannot stand in `match`; use it in `return` or `order`",
            expr.extent,
        )
        return None
    arms = [_arm(checker, arg) for arg in expr.args[:2]]
    k = _rrf_k(checker, expr)
    first, second = arms
    if first is None or second is None or k is None:
        return None
    if first.var != second.var:
        checker.report(
            "T21",
            "rrf_variables",
            f"both arms of `rrf` must rank the same variable, "
            f"not `${first.var}` and `${second.var}`",
            expr.extent,
        )
        return None
    return Typed(ir.Rrf(first, second, k), F64)


def _arm(checker: "ExprChecker", arg: ast.Expr) -> ir.Nearest | ir.Bm25 | None:
    is_rank = isinstance(arg, ast.Call) and arg.function in (
        ast.Function.NEAREST,
        ast.Function.BM25,
    )
    if not is_rank:
        checker.report(
            "T21", "rrf_arm", "an arm of `rrf` is a call of `nearest` or `bm25`", arg.extent
        )
        return None
    typed = checker.check(arg)
    if typed is None or not isinstance(typed.expr, ir.Nearest | ir.Bm25):
        return None
    return typed.expr


def _rrf_k(checker: "ExprChecker", expr: ast.Call) -> ir.Param | ir.Lit | None:
    if len(expr.args) < 3:
        return ir.Lit(DEFAULT_RRF_K, _INTEGER)
    k = _operand(checker, expr, expr.args[2])
    match k:
        case None:
            return None
        case ir.Lit(value=int() | float() as value) if not isinstance(value, bool) and value > 0:
            return k
        case ir.Param(type=kind) if kind.scalar.is_numeric and not kind.is_list:
            return k
    checker.report("T21", "rrf_k", "the `k` of `rrf` is a number above 0", expr.args[2].extent)
    return None


def _field(checker: "ExprChecker", expr: ast.Call) -> ir.Prop | None:
    """The searched property of a node variable."""
    arg = expr.args[0]
    if is_nested_aggregate(checker, expr, arg):
        return None
    if not isinstance(arg, ast.PropAccess):
        checker.report(
            "T31",
            "search_non_property",
            f"the first argument of `{expr.function}` is a property of a node variable: `$d.title`",
            arg.extent,
        )
        return None
    if checker.scope.edge(arg.var) is not None:
        checker.scope.mention(arg.var)
        checker.report(
            "T23",
            "edge_binding_searched",
            f"`${arg.var}` is an edge; only node properties can be searched",
            arg.extent,
        )
        return None
    typed = checker.check(arg)
    types = checker.scope.types(arg.var)
    if typed is None or not types or not isinstance(typed.expr, ir.Prop):
        return None
    checker.searches += [
        SearchUse(
            function=expr.function.value,
            type_name=type_name,
            property=arg.property,
            extent=expr.extent,
        )
        for type_name in types
    ]
    return typed.expr


def _operand(checker: "ExprChecker", call: ast.Call, arg: ast.Expr) -> ir.Param | ir.Lit | None:
    """A literal or parameter; anything that depends on a row is T34."""
    if is_nested_aggregate(checker, call, arg):
        return None
    is_param = isinstance(arg, ast.Var) and arg.name in checker.scope.params
    is_literal = not isinstance(arg, ast.Var | ast.PropAccess | ast.AliasRef | ast.Call)
    if not is_param and not is_literal:
        checker.report(
            "T34",
            "search_operand",
            f"an operand of `{call.function}` is a literal or a parameter, never a row's value",
            arg.extent,
        )
        return None
    typed = checker.check(arg)
    if typed is None or not isinstance(typed.expr, ir.Param | ir.Lit):
        return None
    return typed.expr


def is_nested_aggregate(checker: "ExprChecker", call: ast.Call, arg: ast.Expr) -> bool:
    """True, with T29, when an argument is an aggregate."""
    if not isinstance(arg, ast.Call) or arg.function not in ast.AGGREGATES:
        return False
    checker.report(
        "T29",
        "aggregate_nested",
        f"aggregate `{arg.function}` cannot stand inside `{call.function}`",
        arg.extent,
    )
    return True
