"""Checking of `return`, `having` and `order`: columns, grouping, sort keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omnigraph.lang import ir
from omnigraph.lang import query_ast as ast
from omnigraph.lang.checked import Context, Typed
from omnigraph.lang.conditions import check_condition, conjuncts
from omnigraph.lang.expressions import ExprChecker
from omnigraph.lang.ir_parts import leaves_of, operands_of, over_columns
from omnigraph.lang.query_printer import print_expr
from omnigraph.lang.source import Extent

_COLUMNS = (ir.Param, ir.Lit, ir.Alias)
_RANKS = (ir.Nearest, ir.Bm25, ir.Rrf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """The checked columns of a query."""

    returns: tuple[ir.Projection, ...]
    columns: tuple[ir.Column, ...]
    is_aggregate: bool
    is_grouped: bool
    """A row stands for a group: there is an aggregate, or rows are made distinct."""
    column_of: Mapping[ir.Expr, str]
    """The first column of each projected expression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """The checked sort keys of a query, and aliases of scores sorted worst first."""

    order: tuple[ir.Ordering, ...]
    worst_first: tuple[tuple[str, Extent], ...]


def check_returns(
    checker: ExprChecker, projections: Sequence[ast.Projection], *, distinct: bool
) -> Returned:
    """The result columns; aliases are left in `checker` for the order clause."""
    checker.context = Context.RETURN
    typed: list[tuple[ast.Projection, Typed]] = []
    names: set[str] = set()
    for item in projections:
        checked = checker.check(item.expr)
        name = _column_name(item)
        if name in names:
            checker.report(
                "T32",
                "duplicate_column",
                f"`{print_expr(item.expr)}` is a second column called `{name}`; "
                "give one an alias with `as`",
                item.extent,
            )
        names.add(name)
        if checked is not None:
            typed.append((item, checked))
        if item.alias is not None:
            checker.aliases.setdefault(item.alias, checked)
    is_aggregate = any(isinstance(checked.expr, ir.Agg) for _, checked in typed)
    if is_aggregate:
        _check_groups(checker, typed)
    elif distinct:
        _check_distinct(checker, typed)
    column_of: dict[ir.Expr, str] = {}
    for item, checked in typed:
        column_of.setdefault(checked.expr, _column_name(item))
    return Returned(
        returns=tuple(ir.Projection(checked.expr, _column_name(item)) for item, checked in typed),
        columns=tuple(ir.Column(_column_name(item), checked.type) for item, checked in typed),
        is_aggregate=is_aggregate,
        is_grouped=is_aggregate or distinct,
        column_of=column_of,
    )


def _column_name(item: ast.Projection) -> str:
    if item.alias is not None:
        return item.alias
    match item.expr:
        case ast.PropAccess(var=var, property=name):
            return f"{var}.{name}"
        case ast.Var(name=name) | ast.AliasRef(name=name):
            return name
        case ast.Call(function=function):
            return function.value
        case ast.If():
            return ast.Function.IF.value
        case ast.CountBlock():
            return ast.Function.COUNT.value
        case ast.Arithmetic() | ast.Negative():
            return print_expr(item.expr).replace("$", "")
        case _:
            return "literal"


def _check_groups(checker: ExprChecker, typed: Sequence[tuple[ast.Projection, Typed]]) -> None:
    """Beside an aggregate every column is a group key: a value of each row that compares."""
    for item, checked in typed:
        match checked.expr:
            case ir.Agg() | ir.NodeId():
                continue
            case ir.Prop() | ir.Computed() | ir.If() | ir.TypeOf() | ir.CountOf() if (
                checked.type.is_plain
            ):
                continue
            case ir.Prop(type=kind) | ir.Computed(type=kind) | ir.If(type=kind):
                detail = f"a value of type {kind} cannot be a group key"
            case _:
                detail = (
                    "only a value of each row can stand beside an aggregate: a property, a node "
                    "variable, or what is computed from them"
                )
        checker.report("T9", "not_groupable", f"`{print_expr(item.expr)}`: {detail}", item.extent)


def _check_distinct(checker: ExprChecker, typed: Sequence[tuple[ast.Projection, Typed]]) -> None:
    """Rows are made distinct by columns that can be compared."""
    for item, checked in typed:
        if not checked.type.is_plain or isinstance(checked.expr, ir.Rrf):
            what = "`rrf`" if isinstance(checked.expr, ir.Rrf) else f"type {checked.type}"
            checker.report(
                "T9",
                "not_groupable",
                f"`{print_expr(item.expr)}`: rows cannot be made distinct by {what}",
                item.extent,
            )


def check_having(
    checker: ExprChecker, conditions: Sequence[ast.Condition], returned: Returned
) -> tuple[ir.Condition, ...]:
    """What groups must be, over the columns of the result."""
    checker.context = Context.ORDER
    found: list[ir.Condition] = []
    for condition in conditions:
        if not returned.is_aggregate:
            checker.report(
                "T30",
                "having_without_groups",
                "`having` tests groups and this query has no aggregate; write the condition in "
                "`match`",
                condition.extent,
            )
            continue
        for item in conjuncts(check_condition(checker, condition)):
            tested = over_columns(item, returned.column_of)
            if not all(isinstance(leaf, _COLUMNS) for leaf in operands_of(tested)):
                checker.report(
                    "T30",
                    "having_not_a_column",
                    "`having` compares columns of the result; return the expression, and name it "
                    "by its alias",
                    condition.extent,
                )
            else:
                found.append(tested)
    return tuple(found)


def check_order(
    checker: ExprChecker, orderings: Sequence[ast.Ordering], returned: Returned, *, has_limit: bool
) -> Ordered:
    """The sort keys, with rank orders resolved to best first."""
    checker.context = Context.ORDER
    order: list[ir.Ordering] = []
    worst_first: list[tuple[str, Extent]] = []
    for position, item in enumerate(orderings):
        typed = checker.check(item.expr)
        if typed is None or not _is_available(checker, item, typed, returned):
            continue
        if isinstance(typed.expr, _RANKS) and returned.is_grouped:
            checker.report(
                "T30",
                "rank_of_distinct",
                f"`{print_expr(item.expr)}` ranks rows of the match; a rank order and "
                "`distinct` do not go together",
                item.extent,
            )
            continue
        is_alias = isinstance(item.expr, ast.AliasRef)
        descending = item.direction is ast.Direction.DESC
        if isinstance(typed.expr, _RANKS):
            _check_rank(checker, item, typed.expr, position=position, has_limit=has_limit)
            if isinstance(typed.expr, ir.Bm25 | ir.Rrf):
                if is_alias and not descending:
                    worst_first.append((print_expr(item.expr), item.extent))
                descending = descending or (item.direction is None and not is_alias)
        order.append(ir.Ordering(_sort_expr(item, typed, returned), descending))
    return Ordered(order=tuple(order), worst_first=tuple(worst_first))


def _is_available(
    checker: ExprChecker, item: ast.Ordering, typed: Typed, returned: Returned
) -> bool:
    """False, with a finding, when rows cannot be sorted by the expression."""
    if not typed.type.is_plain:
        checker.report(
            "T7",
            "incomparable",
            f"rows cannot be sorted by `{print_expr(item.expr)}` of type {typed.type}",
            item.extent,
        )
        return False
    if typed.expr in returned.column_of:
        return True
    if returned.is_grouped:
        checker.report(
            "T30",
            "order_after_grouping",
            f"`{print_expr(item.expr)}` is not a result column; after grouping only columns can "
            "be sorted by: return it, or order by an alias",
            item.extent,
        )
        return False
    if any(isinstance(leaf, ir.Agg) for leaf in leaves_of(typed.expr)):
        checker.report(
            "T29",
            "aggregate_in_order",
            f"`{print_expr(item.expr)}` must be returned to be sorted by",
            item.extent,
        )
        return False
    if isinstance(typed.expr, ir.Param | ir.Lit):
        checker.report(
            "T30",
            "order_constant",
            f"`{print_expr(item.expr)}` is the same in every row; order by a property, a variable, "
            "an alias or a rank",
            item.extent,
        )
        return False
    return True


def _check_rank(
    checker: ExprChecker,
    item: ast.Ordering,
    rank: ir.Nearest | ir.Bm25 | ir.Rrf,
    *,
    position: int,
    has_limit: bool,
) -> None:
    name = {ir.Nearest: "nearest", ir.Bm25: "bm25", ir.Rrf: "rrf"}[type(rank)]
    if position > 0:
        checker.report(
            "T18",
            "rank_not_first",
            f"a rank order (`{name}`) can only be the first key",
            item.extent,
        )
    if isinstance(rank, ir.Nearest) and item.direction is ast.Direction.DESC:
        checker.report(
            "T18",
            "nearest_descending",
            "`nearest` is a distance and sorts the nearest first; it cannot be sorted descending",
            item.extent,
        )
    if not has_limit and isinstance(rank, ir.Nearest | ir.Rrf):
        checker.report(
            "T17" if isinstance(rank, ir.Nearest) else "T21",
            "rank_without_limit",
            f"an order by `{name}` needs a `limit`",
            item.extent,
        )


def _sort_expr(item: ast.Ordering, typed: Typed, returned: Returned) -> ir.Expr:
    """An alias by its column; after grouping every key is a column."""
    if isinstance(item.expr, ast.AliasRef):
        return ir.Alias(item.expr.name)
    if returned.is_grouped:
        return ir.Alias(returned.column_of[typed.expr])
    return typed.expr
