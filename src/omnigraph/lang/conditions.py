"""Checking of conditions: comparisons, tests for null, `and`, `or` and `not ( … )`.

Conditions joined by `and` become a list, so that each part can be evaluated where its variables
are. Everything else stays one condition: its parts may be unknown, and only the whole decides.
"""

from collections.abc import Iterator, Sequence

from omnigraph.lang import ir
from omnigraph.lang import query_ast as ast
from omnigraph.lang.checked import Typed
from omnigraph.lang.comparisons import check_comparison
from omnigraph.lang.expressions import ExprChecker
from omnigraph.lang.types import BOOL

_TRUE = ir.Lit(value=True, type=BOOL)


def check_condition(checker: ExprChecker, condition: ast.Condition) -> ir.Condition | None:
    """The checked condition, or None with its findings."""
    match condition:
        case ast.Comparison():
            return check_comparison(
                checker, condition.left, condition.op, condition.right, condition.extent
            )
        case ast.CallClause():
            return _check_call(checker, condition)
        case ast.NullTest():
            tested = _check_tested(checker, condition.expr)
            if tested is None:
                return None
            test = ir.NullTest(tested.expr)
            return ir.Negated(test) if condition.negated else test
        case ast.NotCondition():
            part = check_condition(checker, condition.part)
            if part is None:
                return None
            if any(_is_false_of_null(checker, item) for item in comparisons_of(part)):
                checker.null_negations.append(condition.extent)
            return ir.Negated(part)
        case ast.AllOf():
            parts = _check_parts(checker, condition.parts)
            return None if parts is None else ir.AllOf(parts)
        case ast.AnyOf():
            parts = _check_parts(checker, condition.parts)
            return None if parts is None else ir.AnyOf(parts)


def _check_parts(
    checker: ExprChecker, conditions: Sequence[ast.Condition]
) -> tuple[ir.Condition, ...] | None:
    parts = [check_condition(checker, condition) for condition in conditions]
    known = tuple(part for part in parts if part is not None)
    return known if len(known) == len(parts) else None


def conjuncts(condition: ir.Condition | None) -> Iterator[ir.Condition]:
    """The conditions that must all be true for this one to be."""
    match condition:
        case None:
            return
        case ir.AllOf(parts):
            for part in parts:
                yield from conjuncts(part)
        case _:
            yield condition


def comparisons_of(condition: ir.Condition) -> Iterator[ir.Filter]:
    """The comparisons that a condition is made of."""
    match condition:
        case ir.Filter():
            yield condition
        case ir.AllOf(parts) | ir.AnyOf(parts):
            for part in parts:
                yield from comparisons_of(part)
        case ir.Negated(part):
            yield from comparisons_of(part)
        case ir.NullTest():
            return


_FALSE_OF_NULL = frozenset(
    {ir.FilterOp.LIST_CONTAINS, ir.FilterOp.STR_CONTAINS, ir.FilterOp.STARTS_WITH}
)


def _is_false_of_null(checker: ExprChecker, item: ir.Filter) -> bool:
    """Whether a comparison is false, and not unknown, where a property that may be null is."""
    sides = (item.left, item.right)
    if item.op in _FALSE_OF_NULL:
        return any(isinstance(side, ir.Prop) and side.type.nullable for side in sides)
    calls = (side for side in sides if isinstance(side, ir.TextCall))
    return any(_may_be_null(checker, call) for call in calls)


def _may_be_null(checker: ExprChecker, call: ir.TextCall) -> bool:
    node = checker.scope.node(call.var)
    if node is None or checker.scope.is_optional(call.var):
        return True
    return checker.catalog.readable(node)[call.property].type.nullable


def _check_call(checker: ExprChecker, clause: ast.CallClause) -> ir.Filter | None:
    typed = checker.check(clause.call)
    if typed is None:
        return None
    if clause.call.function not in ast.TEXT_PREDICATES:
        checker.report(
            "T31",
            "search_misplaced",
            f"`{clause.call.function}` is no condition and cannot stand alone in `match`; "
            "compare it (`… > 0.5`)",
            clause.extent,
        )
        return None
    return ir.Filter(typed.expr, ir.FilterOp.EQ, _TRUE)


def _check_tested(checker: ExprChecker, expr: ast.Expr) -> Typed | None:
    """What a test for null takes: any value that a query reads, and a Blob property."""
    if isinstance(expr, ast.PropAccess):
        return checker.resolve_property(expr)
    return checker.check(expr)
