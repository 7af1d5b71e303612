"""Checking of comparisons: operands that can be compared, membership, prefixes and substrings."""

from typing import TYPE_CHECKING

from omnigraph.lang import ir
from omnigraph.lang import query_ast as ast
from omnigraph.lang.checked import Typed
from omnigraph.lang.interfaces import as_nodes
from omnigraph.lang.source import Extent
from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.types import PropType, Scalar

if TYPE_CHECKING:
    from omnigraph.lang.expressions import ExprChecker

_EQUALITY = frozenset({ast.CompareOp.EQ, ast.CompareOp.NE})
COMPARE_OPS = {
    ast.CompareOp.EQ: ir.FilterOp.EQ,
    ast.CompareOp.NE: ir.FilterOp.NE,
    ast.CompareOp.LT: ir.FilterOp.LT,
    ast.CompareOp.LE: ir.FilterOp.LE,
    ast.CompareOp.GT: ir.FilterOp.GT,
    ast.CompareOp.GE: ir.FilterOp.GE,
}


def check_comparison(
    checker: "ExprChecker", left: ast.Expr, op: ast.CompareOp, right: ast.Expr, extent: Extent
) -> ir.Condition | None:
    """A filter of two comparable operands."""
    if _is_joined_walk(checker, left, op, right):
        return None
    typed_left, typed_right = checker.check(left), checker.check(right)
    if typed_left is None or typed_right is None:
        return None
    match op:
        case ast.CompareOp.CONTAINS:
            return _check_contains(checker, typed_left, typed_right, extent)
        case ast.CompareOp.IN | ast.CompareOp.NOT_IN:
            negated = op is ast.CompareOp.NOT_IN
            return check_in(checker, typed_left, typed_right, negated=negated, extent=extent)
        case ast.CompareOp.STARTS_WITH:
            if typed_left.type.is_text and typed_right.type.is_text:
                return ir.Filter(typed_left.expr, ir.FilterOp.STARTS_WITH, typed_right.expr)
            _incomparable(checker, op, typed_left, typed_right, extent)
            return None
        case _:
            found = check_compare(checker, typed_left, op, typed_right, extent)
            return None if found is None else as_nodes(checker, found)


def _is_joined_walk(
    checker: "ExprChecker", left: ast.Expr, op: ast.CompareOp, right: ast.Expr
) -> bool:
    """True, with T6, for `$a in $b` under `and`, `or` or `not` where `$b` is nothing yet.

    Alone it would be a traversal, which binds it.
    """
    match left, op, right:
        case ast.Var(), ast.CompareOp.IN, ast.Var(name=name) if not (
            checker.scope.is_taken(name) or checker.scope.is_broken(name)
        ):
            checker.scope.mark_broken(name)
            checker.report(
                "T6",
                "unbound_variable",
                f"variable `${name}` is not bound; `in` takes a list here, as a traversal over "
                "`In` stands alone and is joined by no `and` or `or`",
                right.extent,
            )
            return True
        case _:
            return False


def check_compare(
    checker: "ExprChecker", left: Typed, op: ast.CompareOp, right: Typed, extent: Extent
) -> ir.Filter | None:
    """An equality or order comparison of two plain scalars."""
    plain = left.type.is_plain and right.type.is_plain
    if not plain or not left.type.is_compatible_with(right.type):
        _incomparable(checker, op, left, right, extent)
        return None
    if op in _EQUALITY:
        for column, value in ((left, right), (right, left)):
            if not in_enum(checker, column.type, value, extent):
                return None
    return ir.Filter(left.expr, COMPARE_OPS[op], right.expr)


def _check_contains(
    checker: "ExprChecker", left: Typed, right: Typed, extent: Extent
) -> ir.Condition | None:
    """List membership, or substring; in a list parameter it is the same test as `in`."""
    if isinstance(left.expr, ir.Param) and left.type.is_list:
        fits = right.type.is_plain and left.type.item.is_compatible_with(right.type)
        if fits:
            return check_in(checker, right, left, negated=False, extent=extent)
    if left.type.is_list and right.type.is_plain:
        is_empty = isinstance(left.expr, ir.Lit) and left.expr.value == ()
        if is_empty or left.type.item.is_compatible_with(right.type):
            return ir.Filter(left.expr, ir.FilterOp.LIST_CONTAINS, right.expr)
    elif left.type.is_text and right.type.is_text:
        return ir.Filter(left.expr, ir.FilterOp.STR_CONTAINS, right.expr)
    _incomparable(checker, ast.CompareOp.CONTAINS, left, right, extent)
    return None


def check_in(
    checker: "ExprChecker", left: Typed, right: Typed, *, negated: bool, extent: Extent
) -> ir.Condition | None:
    """Membership of a plain scalar in a list."""
    is_empty = isinstance(right.expr, ir.Lit) and right.expr.value == ()
    fits = left.type.is_plain and right.type.is_list
    if not fits or not (is_empty or left.type.is_compatible_with(right.type.item)):
        op = ast.CompareOp.NOT_IN if negated else ast.CompareOp.IN
        _incomparable(checker, op, left, right, extent)
        return None
    if isinstance(right.expr, ir.Lit) and isinstance(right.expr.value, tuple):
        for item in right.expr.value:
            value = Typed(ir.Lit(item, right.type.item), right.type.item)
            if not in_enum(checker, left.type, value, extent):
                return None
    test = ir.Filter(left.expr, ir.FilterOp.IN, right.expr)
    return ir.Negated(test) if negated else test


def in_enum(checker: "ExprChecker", column: PropType, value: Typed, extent: Extent) -> bool:
    """False, with T3, when a string literal is outside the enum it is compared with."""
    match value.expr:
        case ir.Lit(value=str() as text) if column.enum_values is not None:
            if text not in column.enum_values:
                checker.report(
                    "T3",
                    "enum_value",
                    f'"{text}" is not a value of {column}{did_you_mean(text, column.enum_values)}',
                    extent,
                )
                return False
    return True


def _incomparable(
    checker: "ExprChecker", op: ast.CompareOp, left: Typed, right: Typed, extent: Extent
) -> None:
    """Report operands that `op` cannot take."""
    if op is ast.CompareOp.CONTAINS and left.type.is_list:
        hint = f"; its items are {left.type.item.as_nullable(nullable=False)}"
    elif op in (ast.CompareOp.IN, ast.CompareOp.NOT_IN):
        hint = _list_hint(left, right)
    elif left.type.is_list or right.type.is_list:
        hint = "; test a list with `contains`"
    elif Scalar.VECTOR in (left.type.scalar, right.type.scalar):
        hint = "; rank vectors with `nearest`"
    else:
        hint = _date_hint(left, right)
    checker.report(
        "T7",
        "incomparable",
        f"`{op}` cannot compare {left.type} with {right.type}{hint}",
        extent,
    )


def _list_hint(left: Typed, right: Typed) -> str:
    """What to write where `in` cannot look for the left side in the right one."""
    if not right.type.is_list:
        return "; a list stands on the right: `[1, 2]`, a list parameter or a list property"
    if left.type.is_list:
        return "; test each item of the list on the left with `contains`"
    item, hint = right.type.item, ""
    match right.expr:
        case ir.Lit(value=(first, *_)):
            hint = _date_hint(left, Typed(ir.Lit(first, item), item))
        case ir.Param(name=name) if left.type.scalar in (Scalar.DATE, Scalar.DATETIME):
            hint = f"; declare `${name}: [{left.type.scalar}]`"
    return hint or f"; its items are {item.as_nullable(nullable=False)}"


def _date_hint(left: Typed, right: Typed) -> str:
    """What to write when a date meets something that is none."""
    for date_side, other in ((left, right), (right, left)):
        kind = date_side.type.scalar
        if kind not in (Scalar.DATE, Scalar.DATETIME):
            continue
        match other.expr:
            case ir.Lit(value=str()):
                return f'; write `{kind.lower()}("…")`'
            case ir.Param(name=name) if name != ast.NOW_PARAM:
                return f"; declare `${name}: {kind}`"
            case _ if other.type.scalar in (Scalar.DATE, Scalar.DATETIME):
                return "; a Date and a DateTime are never compared"
    return ""
