"""What conditions and expressions of the IR are made of: operands, variables, inner blocks."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from omnigraph.lang import ir
from omnigraph.lang.types import STRING


def variables_of(conditions: Iterable[ir.Condition]) -> set[str]:
    """Node and edge variables that conditions mention."""
    names: set[str] = set()
    for condition in conditions:
        for expr in sides_of(condition):
            names |= expr_variables(expr)
    return names


def sides_of(condition: ir.Condition) -> Iterator[ir.Expr]:
    """Every expression that a condition tests, as a whole."""
    match condition:
        case ir.Filter(left=left, right=right):
            yield left
            yield right
        case ir.NullTest(expr=expr):
            yield expr
        case ir.AllOf(parts=parts) | ir.AnyOf(parts=parts):
            for part in parts:
                yield from sides_of(part)
        case ir.Negated(part=part):
            yield from sides_of(part)


def operands_of(condition: ir.Condition) -> Iterator[ir.Expr]:
    """What a condition looks at, none of it computed from others."""
    for side in sides_of(condition):
        yield from leaves_of(side)


def leaves_of(expr: ir.Expr) -> Iterator[ir.Expr]:
    """What an expression is computed from in the end; itself if from nothing else."""
    match expr:
        case ir.Computed(args=args):
            for arg in args:
                yield from leaves_of(arg)
        case ir.If(condition, then, otherwise):
            yield from operands_of(condition)
            yield from leaves_of(then)
            yield from leaves_of(otherwise)
        case _:
            yield expr


def map_condition(condition: ir.Condition, change: Callable[[ir.Expr], ir.Expr]) -> ir.Condition:
    """The condition with every side changed."""
    match condition:
        case ir.Filter(left, op, right):
            return ir.Filter(change(left), op, change(right))
        case ir.NullTest(expr):
            return ir.NullTest(change(expr))
        case ir.AllOf(parts):
            return ir.AllOf(tuple(map_condition(part, change) for part in parts))
        case ir.AnyOf(parts):
            return ir.AnyOf(tuple(map_condition(part, change) for part in parts))
        case ir.Negated(part):
            return ir.Negated(map_condition(part, change))


def map_parts(expr: ir.Expr, change: Callable[[ir.Expr], ir.Expr]) -> ir.Expr:
    """The expression with everything that it is directly computed from changed."""
    match expr:
        case ir.Computed(args=args):
            return replace(expr, args=tuple(change(arg) for arg in args))
        case ir.If(condition, then, otherwise):
            return replace(
                expr,
                condition=map_condition(condition, change),
                then=change(then),
                otherwise=change(otherwise),
            )
        case ir.Agg(arg=arg):
            return replace(expr, arg=change(arg))
        case _:
            return expr


def of_type_name(condition: ir.Condition, var: str, name: str) -> ir.Condition:
    """The condition with the name in place of the type of a variable."""

    def told(expr: ir.Expr) -> ir.Expr:
        if isinstance(expr, ir.TypeOf) and expr.var == var:
            return ir.Lit(name, STRING)
        return map_parts(expr, told)

    return map_condition(condition, told)


def over_columns(condition: ir.Condition, names: Mapping[ir.Expr, str]) -> ir.Condition:
    """The condition with every projected expression as its column."""
    return map_condition(condition, lambda side: expr_over_columns(side, names))


def expr_over_columns(expr: ir.Expr, names: Mapping[ir.Expr, str]) -> ir.Expr:
    """The expression with every projected expression in it as its column."""
    if expr in names:
        return ir.Alias(names[expr])
    return map_parts(expr, lambda part: expr_over_columns(part, names))


def blocks_of(exprs: Iterable[ir.Expr]) -> Iterator[ir.CountOf]:
    """Blocks whose solutions expressions count; not those inside others."""
    for expr in exprs:
        arg = expr.arg if isinstance(expr, ir.Agg) else expr
        yield from (leaf for leaf in leaves_of(arg) if isinstance(leaf, ir.CountOf))


def filters_of(op: ir.Op) -> tuple[ir.Condition, ...]:
    """The conditions of one operator, without those of operators inside it."""
    match op:
        case ir.NodeScan():
            return op.filters
        case ir.Expand():
            return (*op.dst_filters, *op.edge_filters)
        case ir.Where():
            return (op.filter,)
        case ir.AntiJoin() | ir.SemiJoin() | ir.Optional():
            return ()


def inner_ops(op: ir.Op) -> Iterator[tuple[ir.Op, ...]]:
    """The lists of operators inside one: of a block, and of counts in its conditions."""
    if isinstance(op, ir.Join):
        yield op.inner
    for item in filters_of(op):
        for block in blocks_of(sides_of(item)):
            yield block.inner


def counts_outside(query: ir.QueryIR) -> Iterator[ir.CountOf]:
    """Blocks that columns, groups and the order of a query count."""
    exprs = [item.expr for item in query.returns] + [item.expr for item in query.order]
    for item in query.having or ():
        exprs += sides_of(item)
    return blocks_of(exprs)


def expr_variables(expr: ir.Expr) -> set[str]:
    """Node and edge variables that an expression mentions."""
    match expr:
        case (
            ir.Prop(var=var)
            | ir.NodeId(var=var)
            | ir.TypeOf(var=var)
            | ir.Nearest(var=var)
            | ir.Bm25(var=var)
            | ir.Search(var=var)
            | ir.MatchText(var=var)
            | ir.Fuzzy(var=var)
        ):
            return {var}
        case ir.Rrf(first=first, second=second):
            return {first.var, second.var}
        case ir.Agg(arg=arg):
            return expr_variables(arg)
        case ir.CountOf(outer_vars=names):
            return set(names)
        case ir.Computed() | ir.If():
            return {name for leaf in leaves_of(expr) for name in expr_variables(leaf)}
        case ir.Param() | ir.Lit() | ir.Alias():
            return set()
