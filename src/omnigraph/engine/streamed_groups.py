"""Groups of one large scan, without holding its rows: DataFusion reads, filters and aggregates.

Only for what DataFusion computes exactly as this engine does: float sums need compensation and are
taken in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
import pyarrow as pa

from omnigraph.engine.relational import collect, open_session
from omnigraph.errors import InternalError
from omnigraph.graph.arrays import one_array
from omnigraph.graph.query.pushdown import push_filters
from omnigraph.lang import ir
from omnigraph.lang.arrow_schema import arrow_type
from omnigraph.lang.ir import AggFunc
from omnigraph.lang.ir_parts import operands_of
from omnigraph.storage.predicates import to_datafusion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from datafusion import Expr

    from omnigraph.engine.tables import QueryTable, QueryTables
    from omnigraph.graph.arrays import Values
    from omnigraph.graph.query.pushdown import Pushed

LARGE_SCAN = 250_000
"""From this many rows on it pays not to hold them."""

_EXACT = pa.decimal128(38, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedScan:
    """A scan whose groups can be streamed."""

    query: ir.QueryIR
    table: QueryTable
    pushed: Pushed

    def columns(self) -> list[Values]:
        """The result columns, one row for each group, in no order."""
        names = sorted({name for item in self.query.returns for name in _properties(item.expr)})
        filtered = {prop.property for item in self.pushed.pushed for prop in _props_of(item)}
        table = self.table
        session = open_session(table.budget)
        frame = table.store.frame(table.handle, session, sorted({*names, *filtered, "id"}))
        if self.pushed.predicate is not None:
            frame = frame.filter(to_datafusion(self.pushed.predicate, {}))
        keys: list[Expr] = []
        computed: list[Expr] = []
        for number, item in enumerate(self.query.returns):
            if isinstance(item.expr, ir.Agg):
                computed.extend(_aggregates(item.expr, number))
            else:
                keys.append(_column(_key_name(item.expr)).alias(f"key{number}"))
        groups = collect(frame.aggregate(keys, computed), table.budget)
        if self.pushed.predicate is None:
            table.note_read(names, table.rows)
        return [self._column(groups, number) for number in range(len(self.query.returns))]

    def _column(self, groups: pa.Table, number: int) -> Values:
        item, column = self.query.returns[number], self.query.result_schema[number]
        kind = arrow_type(column.type)
        if not isinstance(item.expr, ir.Agg):
            return _cast(groups[f"key{number}"], kind)
        values = groups[f"agg{number}"]
        match item.expr.func:
            case AggFunc.SUM:
                return _floats(values)
            case AggFunc.AVG:
                counts = groups[f"count{number}"].to_numpy()
                sums = _floats(values).to_numpy(zero_copy_only=False)
                averages = sums / np.maximum(counts, 1)
                return one_array(pa.array(averages, pa.float64(), mask=counts == 0))
            case AggFunc.COUNT | AggFunc.MIN | AggFunc.MAX | AggFunc.COLLECT:
                return _cast(values, kind)
            case never:
                assert_never(never)


def grouped_scan(
    query: ir.QueryIR, params: Mapping[str, object], tables: QueryTables
) -> GroupedScan | None:
    """The query as a streamed one; `None` if its rows must be held."""
    match query.ops:
        case _ if query.distinct or query.having:
            return None
        case (ir.NodeScan(types=None) as scan,):
            table = tables.node(scan.type)
        case _:
            return None
    if table.rows < LARGE_SCAN or not all(
        _is_exact(projection.expr) for projection in query.returns
    ):
        return None
    pushed = push_filters(scan.filters, params)
    if pushed.rest or pushed.is_never:
        return None
    names = {"id", *(name for item in query.returns for name in _properties(item.expr))}
    is_small = table.rows <= table.budget.max_rows
    if pushed.predicate is None and is_small and table.holds(names):
        return None
    return GroupedScan(query=query, table=table, pushed=pushed)


def _is_exact(expr: ir.Expr) -> bool:
    match expr:
        case ir.Agg(distinct=True) | ir.Agg(AggFunc.COLLECT):
            return False
        case ir.NodeId():
            return True
        case ir.Prop(type=kind):
            return kind.is_plain
        case ir.Agg(AggFunc.SUM | AggFunc.AVG, ir.Prop(type=kind)):
            return kind.scalar.is_integer
        case ir.Agg(AggFunc.COUNT, ir.NodeId()):
            return True
        case ir.Agg(_, ir.Prop(type=kind)):
            return kind.is_plain
        case _:
            return False


def _aggregates(agg: ir.Agg, number: int) -> list[Expr]:
    from datafusion import functions as df

    if not isinstance(agg.arg, ir.Prop):
        return [df.count(_column("id")).alias(f"agg{number}")]
    argument = _column(agg.arg.property)
    match agg.func:
        case AggFunc.COUNT:
            return [df.count(argument).alias(f"agg{number}")]
        case AggFunc.MIN:
            return [df.min(argument).alias(f"agg{number}")]
        case AggFunc.MAX:
            return [df.max(argument).alias(f"agg{number}")]
        case AggFunc.COLLECT:
            raise InternalError("lists are not streamed")
        case AggFunc.SUM | AggFunc.AVG:
            exact = argument.cast(_EXACT) if _is_wide(agg.arg) else argument
            return [
                df.sum(exact).alias(f"agg{number}"),
                df.count(argument).alias(f"count{number}"),
            ]
        case never:
            assert_never(never)


def _is_wide(prop: ir.Prop) -> bool:
    """Whether a sum of so many may leave 64 bits."""
    return arrow_type(prop.type).bit_width > 32


def _column(name: str) -> Expr:
    import datafusion

    quoted = name.replace('"', '""')
    return datafusion.col(f'"{quoted}"')


def _key_name(expr: ir.Expr) -> str:
    return expr.property if isinstance(expr, ir.Prop) else "id"


def _properties(expr: ir.Expr) -> list[str]:
    match expr:
        case ir.Prop(_, name) | ir.Agg(_, ir.Prop(_, name)):
            return [name]
        case _:
            return []


def _props_of(item: ir.Condition) -> list[ir.Prop]:
    return [side for side in operands_of(item) if isinstance(side, ir.Prop)]


def _cast(column: pa.ChunkedArray[Any], kind: pa.DataType) -> Values:
    array = one_array(column)
    return array if array.type == kind else array.cast(kind)


def _floats(sums: pa.ChunkedArray[Any]) -> Values:
    """Exact sums, each converted once."""
    values = [None if total is None else float(int(total)) for total in sums.to_pylist()]
    return pa.array(values, pa.float64())
