"""Counts that parameters give: limits, offsets and hop bounds, bound when a query runs."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from omnigraph.errors import ParameterError
from omnigraph.lang import ir
from omnigraph.lang.ir_parts import (
    blocks_of,
    counts_outside,
    filters_of,
    inner_ops,
    map_condition,
    map_parts,
    sides_of,
)
from omnigraph.limits import MAX_HOPS


def has_counts(query: ir.QueryIR) -> bool:
    """Whether a parameter may give any count of the query."""
    if query.limit_param is not None or query.offset_param is not None:
        return True
    blocks = (block.inner for block in counts_outside(query))
    return any(map(_has_bound, (*query.ops, *(op for inner in blocks for op in inner))))


def _has_bound(op: ir.Op) -> bool:
    if isinstance(op, ir.Expand) and (op.min_param is not None or op.max_param is not None):
        return True
    return any(_has_bound(item) for inner in inner_ops(op) for item in inner)


def bind_counts(query: ir.QueryIR, values: Mapping[str, object]) -> ir.QueryIR:
    """The query with limits, offsets and hop bounds from the parameters that have a value.

    Raises:
        ParameterError: a value is no such count.
    """

    def bound(expr: ir.Expr) -> ir.Expr:
        return _bound_expr(expr, values)

    limit = _count(query.limit_param, values)
    offset = _count(query.offset_param, values)
    return replace(
        query,
        limit=query.limit if limit is None else limit,
        offset=query.offset if offset is None else offset,
        ops=_bind_hops(query.ops, values),
        returns=tuple(replace(item, expr=bound(item.expr)) for item in query.returns),
        order=tuple(replace(item, expr=bound(item.expr)) for item in query.order),
    )


def _bind_hops(ops: tuple[ir.Op, ...], values: Mapping[str, object]) -> tuple[ir.Op, ...]:
    return tuple(_bound_op(op, values) for op in ops)


def _bound_expr(expr: ir.Expr, values: Mapping[str, object]) -> ir.Expr:
    if isinstance(expr, ir.CountOf):
        return replace(expr, inner=_bind_hops(expr.inner, values))
    return map_parts(expr, lambda part: _bound_expr(part, values))


def _bound_filters(op: ir.Op, values: Mapping[str, object]) -> ir.Op:
    """The operator with what its conditions count bound."""

    def bound(conditions: tuple[ir.Condition, ...]) -> tuple[ir.Condition, ...]:
        change = partial(_bound_expr, values=values)
        return tuple(map_condition(item, change) for item in conditions)

    if not any(True for item in filters_of(op) for _ in blocks_of(sides_of(item))):
        return op
    match op:
        case ir.NodeScan():
            return replace(op, filters=bound(op.filters))
        case ir.Expand():
            dst_filters, edge_filters = bound(op.dst_filters), bound(op.edge_filters)
            return replace(op, dst_filters=dst_filters, edge_filters=edge_filters)
        case ir.Where():
            return replace(op, filter=bound((op.filter,))[0])
        case _:
            return op


def _bound_op(op: ir.Op, values: Mapping[str, object]) -> ir.Op:
    op = _bound_filters(op, values)
    match op:
        case ir.Expand(min_param=None, max_param=None) | ir.NodeScan() | ir.Where():
            return op
        case ir.Expand():
            low, high = _count(op.min_param, values), _count(op.max_param, values)
            low = op.min_hops if low is None else low
            high = op.max_hops if high is None else high
            for param, count in ((op.min_param, low), (op.max_param, high)):
                if param is not None and not 1 <= count <= MAX_HOPS:
                    raise _bad_count(param, count, f"hop bounds are 1 to {MAX_HOPS}")
            given = op.max_param or op.min_param
            if given is not None and low > high:
                value = values.get(given.name)
                raise _bad_count(given, value, f"hop bounds from {low} to {high} are empty")
            return replace(op, min_hops=low, max_hops=high)
        case _:
            inner = _bind_hops(op.inner, values)
            return op if inner == op.inner else replace(op, inner=inner)


def _count(param: ir.Param | None, values: Mapping[str, object]) -> int | None:
    value = None if param is None else values.get(param.name)
    if param is None or not isinstance(value, int):
        return None
    if value < 0:
        raise _bad_count(param, value, "it counts, and is 0 or more")
    return value


def _bad_count(param: ir.Param, value: object, why: str) -> ParameterError:
    return ParameterError(
        f"parameter `${param.name}` is {value}: {why}",
        reason="parameter_type",
        parameter=param.name,
        expected=str(param.type),
        got=str(value),
    )
