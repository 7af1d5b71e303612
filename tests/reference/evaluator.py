"""The reference: what a query means, row by row and slowly.

Every step follows the words of the rules and none of the ways in which an engine is fast. One row
at a time goes through all operators; a negation runs its operators for that row alone.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from tests.reference import text
from tests.reference.comparison import (
    Operand,
    argument_value,
    constant_value,
    every,
    identity_form,
    opposite,
    sort_form,
    truth,
)
from tests.reference.computed import as_type, computed

from omnigraph.lang import Catalog, QueryIR, compile_schema, ir
from omnigraph.lang.ir import AggFunc, ExpandDirection
from omnigraph.lang.ir_counts import bind_counts
from omnigraph.lang.types import BOOL, F64, I64, STRING

Entity = Mapping[str, Any]
TYPE = "#type"
"""The member of a bound entity that names its type."""
Bound = Mapping[str, Entity]
"""The entity of each bound variable: one row of a binding table."""
Named = tuple[Any, Any]
"""The id and the type of an entity; both are null for nothing."""


@dataclass(frozen=True, kw_only=True)
class ReferenceGraph:
    """A graph as lists of rows; `id`, and `src` and `dst` of edges, are members of the rows."""

    schema: str
    nodes: Mapping[str, Sequence[Entity]]
    edges: Mapping[str, Sequence[Entity]]

    @cached_property
    def catalog(self) -> Catalog:
        """What the schema means."""
        return compile_schema(self.schema)

    @cached_property
    def typed(self) -> Mapping[str, Sequence[Entity]]:
        """By type its nodes, each with the name of the type."""
        return {name: [{**row, TYPE: name} for row in rows] for name, rows in self.nodes.items()}

    @cached_property
    def node_by_id(self) -> Mapping[tuple[str, str], Entity]:
        """Every node, by type and id."""
        return {(name, row["id"]): row for name, rows in self.typed.items() for row in rows}

    def rows_of(self, name: str) -> Sequence[Entity]:
        """The nodes of a type, or of all types that implement an interface."""
        types = self.catalog.implementing.get(name, (name,))
        return [row for each in types for row in self.nodes[each]]


def evaluate(
    query: QueryIR, graph: ReferenceGraph, params: Mapping[str, object]
) -> list[tuple[object, ...]]:
    """The result rows in their order, values as `to_pylist` gives them.

    `now()` is the parameter `__now`.
    """
    values = {
        param.name: argument_value(params.get(param.name), param.type) for param in query.params
    }
    values.update({name: value for name, value in params.items() if name.startswith("__")})
    query = bind_counts(query, values)
    run = _Run(query=query, graph=graph, params=values)
    run.matched = list(run.rows(query.ops, {}))
    is_aggregate = any(isinstance(column.expr, ir.Agg) for column in query.returns)
    ordered = run.grouped() if is_aggregate or query.distinct else run.plain()
    skipped = ordered[query.offset or 0 :]
    return skipped if query.limit is None else skipped[: query.limit]


class _Nothing(dict[str, object]):
    """What an optional variable is bound to where there is no solution: every property is null."""

    def __missing__(self, key: str) -> None:
        return None


_NOTHING = _Nothing()


@dataclass(slots=True, kw_only=True)
class _Run:
    query: QueryIR
    graph: ReferenceGraph
    params: Mapping[str, object]
    matched: list[Bound] = field(default_factory=list)
    """All rows of the match, once it has run."""
    known: dict[tuple[str, ExpandDirection, str], list[str]] = field(default_factory=dict)
    """Neighbours that were looked up before."""
    columns: Mapping[str, object] = field(default_factory=dict)
    """The columns of the group that is looked at."""
    scores: dict[ir.Rrf, dict[Named, tuple[float, float]]] = field(default_factory=dict)

    def rows(self, ops: Sequence[ir.Op], row: Bound) -> Iterator[Bound]:
        """Every row that the operators make of one row."""
        if not ops:
            yield row
            return
        for after in self.step(ops[0], row):
            yield from self.rows(ops[1:], after)

    def step(self, op: ir.Op, row: Bound) -> Iterator[Bound]:
        match op:
            case ir.NodeScan():
                for name in op.types or (op.type,):
                    for node in self.graph.typed[name]:
                        yield from self.kept(op.filters, {**row, op.var: node})
            case ir.Expand(edge_var=None):
                if row[op.src_var]["id"] is None:
                    return
                for node, told in self.reached(op, str(row[op.src_var]["id"])):
                    walked = {} if op.walk_var is None else {op.walk_var: told}
                    yield from self.kept(op.dst_filters, {**row, op.dst_var: node, **walked})
            case ir.Expand():
                yield from self.edge_rows(op, row)
            case ir.Where():
                yield from self.kept([op.filter], row)
            case _:
                yield from self.joined(op, row)

    def joined(self, op: ir.Join, row: Bound) -> Iterator[Bound]:
        found = list(self.rows(op.inner, row))
        match op:
            case ir.AntiJoin():
                yield from [] if found else [row]
            case ir.SemiJoin():
                yield from [row] if found else []
            case ir.Optional():
                yield from found or [{**row, **dict.fromkeys(op.vars, _NOTHING)}]

    def kept(self, filters: Sequence[ir.Condition], row: Bound) -> Iterator[Bound]:
        if all(self.truth(each, row) is True for each in filters):
            yield row

    def truth(self, condition: ir.Condition, row: Bound) -> bool | None:
        """What a condition says of a row; None is unknown."""
        match condition:
            case ir.Filter(left, op, right):
                return truth(op, self.operand(left, row), self.operand(right, row))
            case ir.NullTest(expr):
                return self.operand(expr, row).value is None
            case ir.Negated(part):
                return opposite(self.truth(part, row))
            case ir.AllOf(parts):
                return every(self.truth(part, row) for part in parts)
            case ir.AnyOf(parts):
                return opposite(every(opposite(self.truth(part, row)) for part in parts))

    def reached(self, op: ir.Expand, start: str) -> Iterator[tuple[Entity, Entity]]:
        """Destinations of a walk without edge variable, each once: breadth first.

        With each comes what the walk tells of itself: the distance, and of all shortest paths the
        one whose ids are smallest as they are read.
        """
        edge = self.graph.catalog.edge_types[op.edge]
        joins_one_type = edge.from_type == edge.to_type
        src_type = edge.to_type if op.direction is ExpandDirection.IN else edge.from_type
        s = (src_type, start)
        visited, frontier, emitted = {s}, [s], list[tuple[str, str]]()
        ways: dict[tuple[str, str], list[list[str]]] = {s: [[start]]}
        told: dict[tuple[str, str], Entity] = {}
        for hop in range(1, (op.max_hops if joins_one_type else 1) + 1):
            following = list[tuple[str, str]]()
            longer: dict[tuple[str, str], list[list[str]]] = {}
            for x in frontier:
                for y in self.neighbours(op, x):
                    if y == x:
                        if hop >= op.min_hops and y not in emitted:
                            emitted.append(y)
                            told[y] = _told(op, hop, [[*way, y[1]] for way in ways[x]])
                        continue
                    if y not in visited or y in following:
                        longer.setdefault(y, []).extend([*way, y[1]] for way in ways[x])
                    if y in visited:
                        continue
                    visited.add(y)
                    following.append(y)
                    if hop >= op.min_hops and y not in emitted:
                        emitted.append(y)
            ways |= longer
            told |= {y: _told(op, hop, longer[y]) for y in following if y in emitted}
            frontier = following
        for found in emitted:
            yield self.graph.node_by_id[op.dst_type, found[1]], told[found]

    def neighbours(self, op: ir.Expand, x: tuple[str, str]) -> list[tuple[str, str]]:
        """`N(x)`: ids ascending, distinct."""
        asked = (op.edge, op.direction, x[1])
        if asked not in self.known:
            ends = {end for edge in self.graph.edges[op.edge] for end in _ends(op, edge, x[1])}
            self.known[asked] = sorted(ends, key=sort_form)
        return [(op.dst_type, end) for end in self.known[asked]]

    def edge_rows(self, op: ir.Expand, row: Bound) -> Iterator[Bound]:
        """One row per stored edge; a self loop once, also when either direction is asked for."""
        if row[op.src_var]["id"] is None:
            return
        start = str(row[op.src_var]["id"])
        for edge in sorted(self.graph.edges[op.edge], key=lambda each: sort_form(each["id"])):
            for end in _ends(op, edge, start):
                node = self.graph.node_by_id[op.dst_type, end]
                walked = {**edge, TYPE: op.edge}
                after = {**row, op.dst_var: node, str(op.edge_var): walked}
                yield from self.kept([*op.dst_filters, *op.edge_filters], after)

    def operand(self, expr: ir.Expr, row: Bound) -> Operand:
        match expr:
            case ir.Prop(var, name, kind):
                return Operand(value=row[var][name], type=kind, is_column=True)
            case ir.NodeId(var):
                return Operand(value=row[var]["id"], type=STRING, is_column=True)
            case ir.Param(name, kind):
                return Operand(value=self.params[name], type=kind, is_column=False)
            case ir.Lit(value, kind):
                return Operand(value=constant_value(value, kind), type=kind, is_column=False)
            case ir.Computed() | ir.If() | ir.TypeOf() | ir.CountOf():
                return self.value(expr, row)
            case ir.Search() | ir.MatchText() | ir.Fuzzy() | ir.Nearest() | ir.Rrf():
                return self.searched(expr, row)
            case ir.Alias(name):
                kind = next(each.type for each in self.query.result_schema if each.name == name)
                return Operand(value=self.columns[name], type=kind, is_column=True)
            case ir.Bm25() | ir.Agg():
                raise NotImplementedError(f"the reference has no value for {expr}")

    def searched(self, expr: ir.TextCall | ir.Nearest | ir.Rrf, row: Bound) -> Operand:
        match expr:
            case ir.Nearest():
                return Operand(value=self.distance(expr, row), type=F64, is_column=True)
            case ir.Rrf():
                found = self.fused(expr).get(_entity(row, expr.first.var), (0.0,))
                return Operand(value=found[0], type=F64, is_column=True)
            case _:
                return Operand(value=self.is_found(expr, row), type=BOOL, is_column=True)

    def value(self, expr: ir.Value, row: Bound) -> Operand:
        """A value that is computed for the row."""
        match expr:
            case ir.Computed(ir.ValueFunc.COALESCE, args, kind):
                values = (self.operand(arg, row).value for arg in args)
                found = next((value for value in values if value is not None), None)
                return Operand(value=as_type(found, kind), type=kind, is_column=True)
            case ir.Computed(_, args, kind):
                given = [self.operand(arg, row).value for arg in args]
                return Operand(value=computed(expr, given), type=kind, is_column=True)
            case ir.If(condition, then, otherwise, kind):
                taken = then if self.truth(condition, row) is True else otherwise
                found = self.operand(taken, row).value
                return Operand(value=as_type(found, kind), type=kind, is_column=True)
            case ir.TypeOf(var, name):
                told = row[var][TYPE]
                if told not in (None, name) and name is not None:
                    raise AssertionError(f"${var} is a {told} and not a {name}")
                return Operand(value=told, type=STRING, is_column=True)
            case ir.CountOf(inner):
                count = sum(1 for _ in self.rows(inner, row))
                return Operand(value=count, type=I64, is_column=True)

    def constant(self, expr: ir.Param | ir.Lit) -> Any:  # noqa: ANN401 - any value
        return self.operand(expr, {}).value

    def is_found(self, call: ir.TextCall, row: Bound) -> bool:
        content, query = row[call.var][call.property], self.constant(call.query)
        if content is None:
            return False
        match call:
            case ir.Search():
                return text.has_any(content, query)
            case ir.MatchText():
                return text.has_phrase(content, query)
            case ir.Fuzzy():
                return text.has_similar(content, query, self.constant(call.max_edits))

    def distance(self, call: ir.Nearest, row: Bound) -> float | None:
        """Cosine distance in F64; none without a direction."""
        vector, query = row[call.var][call.property], self.constant(call.query)
        if vector is None or not any(vector):
            return None
        dot, size, query_size = (
            math.fsum(a * b for a, b in zip(left, right, strict=True))
            for left, right in ((vector, query), (vector, vector), (query, query))
        )
        return 1 - dot / (math.sqrt(size) * math.sqrt(query_size))

    def fused(self, call: ir.Rrf) -> dict[Named, tuple[float, float]]:
        """Score and position in the first arm of each entity that an arm ranks."""
        if call in self.scores:
            return self.scores[call]
        first, second = self.ranked(call.first), self.ranked(call.second)
        k = self.constant(call.k)
        scores: dict[Named, tuple[float, float]] = {}
        for entity in {*first, *second}:
            score = sum(1 / (k + 1 + arm.index(entity)) for arm in (first, second) if entity in arm)
            place = first.index(entity) if entity in first else math.inf
            scores[entity] = (score, place)
        self.scores[call] = scores
        return scores

    @property
    def most(self) -> int | None:
        """How many rows there may be, those that the offset skips included."""
        limit = self.query.limit
        return None if limit is None else limit + (self.query.offset or 0)

    def ranked(self, arm: ir.Nearest | ir.Bm25) -> list[Named]:
        """The entities of the match that an arm ranks, best first."""
        if isinstance(arm, ir.Bm25):
            raise NotImplementedError("the reference has no value for bm25")
        by_id = {_entity(row, arm.var): self.distance(arm, row) for row in self.matched}
        found = [(distance, entity) for entity, distance in by_id.items() if distance is not None]
        found.sort(key=lambda each: (each[0], _in_order(each[1])))
        return [entity for _, entity in found[: self.most]]

    def plain(self) -> list[tuple[object, ...]]:
        """One result row per row of the match."""
        rows = sorted(self.matched, key=_tie_key)
        for ordering in reversed(self.query.order):
            rows = self.sorted_by(ordering, rows)
        return [
            tuple(self.operand(column.expr, row).value for column in self.query.returns)
            for row in rows
        ]

    def sorted_by(self, ordering: ir.Ordering, rows: list[Bound]) -> list[Bound]:
        """Rows by one key, keeping the order of equals; a rank drops what it has no score for."""
        expr = ordering.expr
        if isinstance(expr, ir.Alias):
            expr = next(each.expr for each in self.query.returns if each.name == expr.name)
        if isinstance(expr, ir.Rrf):
            return self.sorted_by_rrf(expr, ordering, rows)
        values = [(self.operand(expr, row).value, row) for row in rows]
        if isinstance(expr, ir.Nearest):
            values = [each for each in values if each[0] is not None]
        values.sort(key=lambda each: _null_first(each[0]), reverse=ordering.descending)
        return [row for _, row in values]

    def sorted_by_rrf(self, call: ir.Rrf, ordering: ir.Ordering, rows: list[Bound]) -> list[Bound]:
        if not ordering.descending:
            raise NotImplementedError("the reference ranks best first")
        scores = self.fused(call)

        def place(row: Bound) -> tuple[float, float, object]:
            entity = _entity(row, call.first.var)
            score, position = scores[entity]
            return -score, position, _in_order(entity)

        return sorted((row for row in rows if _entity(row, call.first.var) in scores), key=place)

    def grouped(self) -> list[tuple[object, ...]]:
        """One result row per group; one in all when there are no keys."""
        columns = self.query.returns
        keys = [each.expr for each in columns if not isinstance(each.expr, ir.Agg)]
        groups: dict[tuple[tuple[object, str], ...], list[Bound]] = {} if keys else {(): []}
        for row in self.matched:
            key = tuple((self.operand(expr, row).value, _type_of(expr, row)) for expr in keys)
            groups.setdefault(key, []).append(row)
        in_order = sorted(groups, key=lambda key: [(_null_first(each), kind) for each, kind in key])
        rows = []
        for key in in_order:
            left = (value for value, _ in key)
            rows.append(
                tuple(
                    self.aggregate(each.expr, groups[key])
                    if isinstance(each.expr, ir.Agg)
                    else next(left)
                    for each in columns
                )
            )
        names = [each.name for each in columns]
        rows = [row for row in rows if self.is_had(dict(zip(names, row, strict=True)))]
        for ordering in reversed(self.query.order):
            at = names.index(cast("ir.Alias", ordering.expr).name)  # every key is a column here
            rows.sort(key=_by_column(at), reverse=ordering.descending)
        return rows

    def is_had(self, columns: Mapping[str, object]) -> bool:
        """Whether a group passes `having`."""
        self.columns = columns
        return all(self.truth(each, {}) is True for each in self.query.having or ())

    def aggregate(self, agg: ir.Agg, rows: Sequence[Bound]) -> object:
        operands = [self.operand(agg.arg, row) for row in rows]
        if agg.distinct:
            once = {
                (identity_form(each.value), _type_of(agg.arg, row)): each
                for each, row in zip(operands, rows, strict=True)
            }
            operands = list(once.values())
        values: list[Any] = [each.value for each in operands if each.value is not None]
        if agg.func is AggFunc.COUNT:
            return len(values)
        if agg.func is AggFunc.COLLECT:
            return sorted(values, key=sort_form)
        if not values:
            return None
        match agg.func:
            case AggFunc.MIN:
                return min(values, key=sort_form)
            case AggFunc.MAX:
                return max(values, key=sort_form)
        # An integer total is exact and converted once.
        is_float = operands[0].type.scalar.is_float
        total = math.fsum(values) if is_float else float(sum(values))
        return total if agg.func is AggFunc.SUM else total / len(values)


def _ends(op: ir.Expand, edge: Entity, x: str) -> set[str]:
    """Where an edge leads from x in the direction: nowhere, or to one node."""
    found = set()
    if op.direction is not ExpandDirection.IN and edge["src"] == x:
        found.add(edge["dst"])
    if op.direction is not ExpandDirection.OUT and edge["dst"] == x:
        found.add(edge["src"])
    return found


def _tie_key(row: Bound) -> list[tuple[bytes, bytes]]:
    """Ids of all bound variables, then types, variables in name order, hidden ones last."""
    entities = (name for name in row if not ir.is_walk_var(name))
    names = sorted(entities, key=lambda name: (name.startswith("#"), name.encode()))
    return [_in_order(_entity(row, name)) for name in names]


def _entity(row: Bound, var: str) -> Named:
    return row[var]["id"], row[var][TYPE]


def _in_order(entity: Named) -> tuple[bytes, bytes]:
    """What sorts entities by id and then by type, nothing first: no id is empty."""
    return (entity[0] or "").encode(), (entity[1] or "").encode()


def _type_of(expr: ir.Expr, row: Bound) -> str:
    """The type of a node variable, which keeps equal ids apart; nothing for other values."""
    return (row[expr.var][TYPE] or "") if isinstance(expr, ir.NodeId) else ""


def _null_first(value: object) -> tuple[bool, Any]:
    return (False, None) if value is None else (True, sort_form(value))


def _by_column(at: int) -> Callable[[tuple[object, ...]], tuple[bool, Any]]:
    return lambda row: _null_first(row[at])


def _told(op: ir.Expand, hops: int, ways: list[list[str]]) -> Entity:
    """What a walk tells, from all its shortest ways."""
    if op.is_turned:
        ways = [way[::-1] for way in ways]

    def smallest(paths: list[list[str]]) -> list[str]:
        return min(paths, key=lambda path: [sort_form(node) for node in path])

    back = [way[::-1] for way in ways]
    return {"hops": hops, "path": smallest(ways), "path_back": smallest(back)}
