"""Explains queries: the plan from counts of the manifest and index coverage, without running it.

Estimates are rough on purpose: row counts, one for a key, a third for every other filter. With
`analyze` the query runs and what was measured stands beside them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from omnigraph.engine.counted_walks import CountedWalk, steps_of
from omnigraph.engine.traversal import Choice, WalkShape, choose_mode
from omnigraph.graph.query.ir_text import CALL_NAMES, expr_text, filter_text
from omnigraph.graph.query.plan import Plan
from omnigraph.graph.query.pushdown import can_push
from omnigraph.lang import ir, lint
from omnigraph.lang.catalog import NodeType
from omnigraph.lang.ir import FilterOp
from omnigraph.lang.ir_parts import (
    counts_outside,
    filters_of,
    inner_ops,
    leaves_of,
    of_type_name,
    operands_of,
    variables_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from omnigraph.engine.engine import Engine, QueryRequest, QueryRun
    from omnigraph.engine.tables import QueryTable

_OPAQUE = 1 / 3
"""What a filter lets through of which nothing is known."""

_Call: TypeAlias = ir.Nearest | ir.Bm25 | ir.TextCall

_REPEATED_LINTS = {"L202", "L205"}


def explain(engine: Engine, request: QueryRequest, *, analyze: bool = False) -> Plan:
    """The plan of a query; with `analyze` it is run."""
    query = engine.compile(request)
    measures = _Measures()
    measured: dict[str, Any] = {}
    if analyze:
        run = engine.prepare(request, query, measures)
        rows = run.result().num_rows
        measured = {"rows": rows, "elapsed_ms": run.tables.budget.elapsed_us / 1_000}
        if hot := run.tables.hot_reads():
            measured["hot_columns"] = hot
    else:
        run = engine.plan_only(request, query)
    explainer = _Explainer(run=run, measures=measures)
    ops = tuple(explainer.ops(run.leading or run.query.ops, run.read))
    counts = tuple(explainer.counts())
    return Plan(
        query_name=query.name,
        target=request.target,
        graph_commit_id=request.snapshot.graph_commit_id,
        executor="local",
        ops=ops,
        search=tuple(explainer.search_calls()),
        order=tuple(_order(query.ir)),
        limit=run.query.limit,
        offset=run.query.offset,
        groups=_groups(run.query),
        distinct=bool(run.query.distinct),
        having=tuple(filter_text(item) for item in run.query.having or ()),
        counts=counts,
        warnings=(*_lints(request, query.name), *explainer.warnings),
        measured=measured,
    )


@dataclass(slots=True)
class _Measures:
    """What each operator did, by the operator itself: two may be equal."""

    by_op: dict[int, tuple[int, int, Choice | None]] = field(default_factory=dict)

    def ran(self, op: ir.Op, rows: int, elapsed_us: int, choice: Choice | None) -> None:
        self.by_op[id(op)] = rows, elapsed_us, choice


@dataclass(kw_only=True)
class _Explainer:
    run: QueryRun
    measures: _Measures
    warnings: list[str] = field(default_factory=list)
    _rows: dict[str, float] = field(default_factory=dict)
    """By variable: the estimated rows of the part of the match that binds it."""

    def ops(self, ops: Sequence[ir.Op], read: AbstractSet[str] | None) -> Iterator[dict[str, Any]]:
        """The steps, in the order they run."""
        counted = _counted(ops, read)
        roots: list[str] = []
        for op in ops:
            step = self._counted_step(op) if id(op) in counted else self._step(op)
            if isinstance(op, ir.NodeScan):
                self._warn_of_product(roots, op)
                roots.append(op.var)
            if ops is self.run.leading:
                step["form"] = "as needed"
            measure = self.measures.by_op.get(id(op))
            if measure is not None:
                step |= {"rows": measure[0], "elapsed_ms": measure[1] / 1_000}
            yield step

    def counts(self) -> Iterator[dict[str, Any]]:
        """The blocks that are counted for rows of the result, each once."""
        for block in dict.fromkeys(counts_outside(self.run.query)):
            inner = self._inner(block.inner, frozenset())
            yield {"op": "Count", "text": expr_text(block), "inner": inner}

    def _inner(self, ops: Sequence[ir.Op], read: AbstractSet[str] | None) -> list[dict[str, Any]]:
        inner = _Explainer(
            run=self.run,
            measures=self.measures,
            warnings=self.warnings,
            _rows=dict(self._rows),
        )
        return list(inner.ops(ops, read))

    def _step(self, op: ir.Op) -> dict[str, Any]:
        match op:
            case ir.NodeScan():
                return self._scan(op)
            case ir.Expand():
                return self._expand(op)
            case ir.Where():
                rows = self._narrow(_OPAQUE)
                return {"op": "Where", "filter": filter_text(op.filter), "est_rows": rows}
            case ir.AntiJoin() | ir.SemiJoin() | ir.Optional():
                is_optional = isinstance(op, ir.Optional)
                steps = self._inner(op.inner, None if is_optional else frozenset())
                if is_optional:
                    rows = self._narrow(1.0)
                    return {"op": "Optional", "inner": steps, "est_rows": rows}
                rows = self._narrow(_OPAQUE)
                return {"op": type(op).__name__, "inner": steps, "est_rows": rows}

    def _counted_step(self, op: ir.Op) -> dict[str, Any]:
        """A hop of a walk that multiplies no row of what it begins at."""
        before = dict(self._rows)
        step = self._step(op)
        self._rows |= before
        return step | {"form": "counted"}

    def _scan_types(self, op: ir.NodeScan, types: Sequence[str]) -> dict[str, Any]:
        """The scans of all types of an interface as one."""
        scans: list[dict[str, Any]] = []
        rows = 0.0
        for name in types:
            scans.append(self._scan(ir.NodeScan(op.var, name, op.filters)))
            rows += self._rows[op.var]
        # What a filter says of types alone decides which tables are read.
        pushed = [can_push(each) or not _beyond_type(each, op.var) for each in op.filters]
        for scan in scans:
            for item, is_pushed in zip(scan["filters"], pushed, strict=True):
                item["pushed"] = is_pushed
        self._rows[op.var] = rows
        columns = sorted({name for scan in scans for name in scan["columns"]} - {"id"})
        texts = [filter_text(each) for each in op.filters]
        return {
            "op": "NodeScan",
            "var": op.var,
            "type": op.type,
            "est_rows": round(rows),
            "columns": ["id", *columns],
            "filters": [
                {"text": text, "pushed": is_pushed}
                for text, is_pushed in zip(texts, pushed, strict=True)
            ],
            "types": scans,
        }

    def _scan(self, op: ir.NodeScan) -> dict[str, Any]:
        if op.types is not None:
            return self._scan_types(op, op.types)
        table = self.run.tables.node(op.type)
        rows = table.rows * _selectivity(op.filters, table)
        self._rows[op.var] = rows
        return {
            "op": "NodeScan",
            "var": op.var,
            "type": op.type,
            "est_rows": round(rows),
            "columns": self._columns(op.var, table),
            "filters": [_filter(item, table) for item in op.filters],
        }

    def _expand(self, op: ir.Expand) -> dict[str, Any]:
        edge = self.run.tables.snapshot.catalog.edge_types[op.edge]
        edges, target = self.run.tables.edge(op.edge), self.run.tables.node(op.dst_type)
        is_in = op.direction is ir.ExpandDirection.IN
        source = self.run.tables.node(edge.to_type if is_in else edge.from_type)
        before = self._rows.get(op.src_var, float(source.rows))
        hops = op.max_hops if edge.from_type == edge.to_type else 1
        choice = self._choice(op, edges, source, hops, before)
        fanout = edges.rows / max(1, source.rows)
        if op.direction is ir.ExpandDirection.BOTH:
            fanout *= 2
        reached = _reached(fanout, op.min_hops, hops, target.rows)
        rows = before * reached * _selectivity(op.dst_filters, target, is_walk=True)
        rows *= _selectivity(op.edge_filters, edges, is_walk=True)
        for name in (op.src_var, op.dst_var, op.edge_var, op.walk_var):
            if name is not None:
                self._rows[name] = rows
        step: dict[str, Any] = {
            "op": "Expand",
            "from": op.src_var,
            "to": op.dst_var,
            "edge": op.edge,
            "direction": op.direction.value,
            "hops": [op.min_hops, op.max_hops],
            "est_rows": round(rows),
            "columns": self._columns(op.dst_var, target),
            "filters": [_filter(item, target, is_pushed=False) for item in op.dst_filters],
        }
        if op.walk_var is not None:
            step["tells"] = sorted(self.run.needs.properties.get(op.walk_var, ()))
        if op.edge_var is not None:
            filters = [_filter(item, edges) for item in op.edge_filters]
            step |= {"edge_var": op.edge_var, "edge_filters": filters}
            return step | {"mode": "edges", "why": {"bound_edge": True}}
        return step | {"mode": choice.mode.value, "why": choice.why()}

    def _choice(
        self, op: ir.Expand, edges: QueryTable, source: QueryTable, hops: int, before: float
    ) -> Choice:
        measure = self.measures.by_op.get(id(op))
        if measure is not None and measure[2] is not None:
            return measure[2]
        shape = WalkShape(
            edges=edges,
            source_rows=source.rows,
            direction=op.direction,
            hops=hops,
            frontier_rows=round(min(before, source.rows)),
        )
        return choose_mode(shape, self.run.settings)

    def _columns(self, var: str, table: QueryTable) -> list[str]:
        return ["id", *sorted(self.run.needs.of(var, table.item) or ())]

    def _narrow(self, part: float) -> int:
        for name in self._rows:
            self._rows[name] *= part
        return round(max(self._rows.values(), default=1.0))

    def _warn_of_product(self, roots: Sequence[str], op: ir.NodeScan) -> None:
        if not roots:
            return
        rows = round(self._rows[roots[-1]] * self._rows[op.var])
        self.warnings.append(f"cross product of ${roots[-1]} and ${op.var}: est {rows} rows")

    def search_calls(self) -> Iterator[dict[str, Any]]:
        """The search calls of the query, each once."""
        for call, type_name in dict.fromkeys(_calls(self.run.query)):
            yield self._search_call(call, self.run.tables.node(type_name))

    def _search_call(self, call: _Call, table: QueryTable) -> dict[str, Any]:
        step: dict[str, Any] = {
            "kind": CALL_NAMES[type(call)],
            "property": f"{table.item.name}.{call.property}",
        }
        match call:
            case ir.Fuzzy():
                return step | {"text": "scan"}
            case ir.Nearest():
                coverage = table.coverage().get((call.property, "IVF_FLAT"))
                is_exact = self.run.is_exact(call, table)
                return step | {
                    "mode": "exact" if is_exact else "approximate",
                    "index": None if coverage is None else "IVF_FLAT",
                    "coverage": coverage or 0.0,
                }
            case _:
                if call.property not in table.handle.layout.text_indexes:
                    return step | {"text": "ephemeral", "coverage": 1.0, "statistics": "exact"}
                coverage = table.coverage().get((call.property, "Inverted"), 0.0)
                statistics = "exact" if coverage >= 1.0 else "lagging"
                return step | {"text": "index", "coverage": coverage, "statistics": statistics}


def _counted(ops: Sequence[ir.Op], read: AbstractSet[str] | None) -> set[int]:
    """The operators, by identity, of walks that are only counted."""
    steps = () if read is None else steps_of(ops, read)
    walks = (step for step in steps if isinstance(step, CountedWalk))
    return {id(op) for walk in walks for op in walk.ops()}


def _beyond_type(item: ir.Condition, var: str) -> bool:
    """A filter asks for more of its variable than the type."""
    return bool(variables_of([of_type_name(item, var, "")]))


def _reached(fanout: float, min_hops: int, max_hops: int, most: int) -> float:
    """How many nodes a walk reaches, about, and no more than there are."""
    total, nodes = 0.0, 1.0
    for hop in range(1, max_hops + 1):
        nodes = min(float(most), nodes * fanout)
        if hop >= min_hops:
            total += nodes
    return min(float(most), total)


def _filter(
    item: ir.Condition, table: QueryTable, *, is_pushed: bool | None = None
) -> dict[str, Any]:
    pushed = can_push(item) if is_pushed is None else is_pushed
    out: dict[str, Any] = {"text": filter_text(item), "pushed": pushed}
    name = next((side.property for side in operands_of(item) if isinstance(side, ir.Prop)), None)
    coverage = table.coverage().get((name, "BTree")) if pushed and name is not None else None
    if coverage is not None:
        out |= {"index": f"{name} BTREE", "coverage": coverage}
    return out


def _selectivity(
    filters: Sequence[ir.Condition], table: QueryTable, *, is_walk: bool = False
) -> float:
    """The part of the rows that filters let through."""
    key = table.item.key if isinstance(table.item, NodeType) else None
    pinned = {
        side.property
        for item in filters
        if isinstance(item, ir.Filter) and item.op is FilterOp.EQ
        for side in (item.left, item.right)
        if isinstance(side, ir.Prop)
    }
    unique = [*table.item.unique, *([key] if key else [])]
    if any(set(names) <= pinned for names in unique) and not is_walk:
        return 1 / max(1, table.rows)
    return _OPAQUE ** len(filters)


def _groups(query: ir.QueryIR) -> dict[str, list[str]]:
    """The keys of groups and what is computed of each; nothing where rows are not grouped."""
    if not any(isinstance(item.expr, ir.Agg) for item in query.returns):
        return {}
    told: dict[str, list[str]] = {"by": [], "aggregates": []}
    for item in query.returns:
        text = expr_text(item.expr)
        shown = text if text == item.name else f"{text} as {item.name}"
        told["aggregates" if isinstance(item.expr, ir.Agg) else "by"].append(shown)
    return told


def _order(query: ir.QueryIR) -> Iterator[str]:
    """The user's keys, then those that make the order total."""
    for item in query.order:
        yield f"{expr_text(item.expr)}{' desc' if item.descending else ''}"
    if query.is_grouped:
        yield from (
            projection.name
            for projection in query.returns
            if not isinstance(projection.expr, ir.Agg)
        )
        return
    names = [name for name in _bound_names(query.ops) if not name.startswith("#")]
    hidden = [name for name in _bound_names(query.ops) if name.startswith("#")]
    several = {name for name, types in _bound_types(query.ops) if len(types) > 1}
    for name in (*sorted(names), *sorted(hidden)):
        yield f"{name}.id"
        if name in several:
            yield f"type({name})"


def _bound_types(ops: Sequence[ir.Op]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The node variables that operators bind, and their types; not those inside negations."""
    for op in ops:
        match op:
            case ir.NodeScan():
                yield op.var, op.types or (op.type,)
            case ir.Expand():
                yield op.dst_var, (op.dst_type,)
            case ir.Optional():
                yield from _bound_types(op.inner)
            case _:
                pass


def _bound_names(ops: Sequence[ir.Op]) -> Iterator[str]:
    for op in ops:
        match op:
            case ir.NodeScan():
                yield op.var
            case ir.Expand():
                yield op.dst_var
                if op.edge_var is not None:
                    yield op.edge_var
            case _:
                pass


def _calls(query: ir.QueryIR) -> Iterator[tuple[_Call, str]]:
    """Search calls with the type that each one searches; a name may mean another inside."""
    types = dict(_bound_types(query.ops))
    for expr in [projection.expr for projection in query.returns] + [
        ordering.expr for ordering in query.order
    ]:
        for call in _calls_of(expr):
            yield from ((call, name) for name in types[call.var])
    yield from _calls_in(query.ops, {})
    for block in counts_outside(query):
        yield from _calls_in(block.inner, types)


def _calls_in(
    ops: Sequence[ir.Op], outer: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[_Call, str]]:
    types = {**outer, **dict(_bound_types(ops))}
    for op in ops:
        for inner in inner_ops(op):
            yield from _calls_in(inner, types)
        for item in filters_of(op):
            for side in operands_of(item):
                for call in _calls_of(side):
                    yield from ((call, name) for name in types[call.var])


def _calls_of(expr: ir.Expr) -> Iterator[_Call]:
    match expr:
        case ir.Nearest() | ir.Bm25() | ir.Search() | ir.MatchText() | ir.Fuzzy():
            yield expr
        case ir.Rrf(first, second):
            yield first
            yield second
        case ir.Agg(arg=ir.Computed() | ir.If() as arg) | (ir.Computed() | ir.If() as arg):
            for leaf in leaves_of(arg):
                yield from _calls_of(leaf)
        case _:
            pass


def _lints(request: QueryRequest, name: str) -> Iterator[str]:
    for note in lint(request.snapshot.catalog, request.source).findings:
        if note.code in _REPEATED_LINTS and name in note.query_names:
            yield f"{note.code}: {note.message}"
