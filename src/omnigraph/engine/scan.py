"""`NodeScan`: the rows of a node type that pass the filters of its variable."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph.engine.bindings import NOTHING, Bindings, Bound
from omnigraph.engine.entities import Entities
from omnigraph.engine.union_entities import union
from omnigraph.graph.arrays import plus_zero
from omnigraph.graph.query.pushdown import MANY_VALUES, constant_value, push_filters
from omnigraph.graph.query.topology import ABSENT, find_ids
from omnigraph.lang import fit_members, ir
from omnigraph.lang.ir import FilterOp
from omnigraph.lang.ir_parts import blocks_of, of_type_name, operands_of, sides_of, variables_of
from omnigraph.lang.types import Scalar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from omnigraph.engine.evaluate import Evaluator
    from omnigraph.engine.tables import QueryTable, QueryTables
    from omnigraph.graph.arrays import RowIds
    from omnigraph.graph.query.needs import Needs
    from omnigraph.graph.query.pushdown import Pushed

MANY_HITS = 16
"""Texts that match more than one row in this many are joined with a scan, not read one by one."""

ROWS_PER_VALUE = 32
"""An index that is asked for more than one row in so many takes longer than reading its column."""

COMPARED_IN_MEMORY = 1 << 18
"""Up to so many rows filters compare columns in memory rather than ask an index."""

MOVED_FOR_ONE_ROW = 1 << 18
"""Up to so many rows the numbering of a table is moved to a new version for a look at one row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanner:
    """Scans node types for one query."""

    tables: QueryTables
    evaluator: Evaluator
    params: Mapping[str, object]
    needs: Needs
    reads_at_once: frozenset[str]
    """Variables whose properties are all wanted for all rows: they are read with the scan."""

    def scan(self, op: ir.NodeScan) -> Bindings:
        """A match of one variable."""
        if op.types is not None:
            return self._scan_types(op.var, op.types, op.filters)
        table = self.tables.node(op.type)
        pushed = push_filters(op.filters, self.params)
        if pushed.is_never:
            return _bind(op.var, Entities.none(table))
        if op.var in self.needs.counted_only and not pushed.rest:
            rows = table.rows
            if pushed.predicate is not None:
                rows = table.store.count(table.handle, pushed.predicate)
            return Bindings(rows=1).weigh(np.array([rows]))
        known = self._known_row(op, table, pushed)
        if known is not None:
            return known
        if self._can_filter_in_memory(op, table, pushed):
            return self._filter(op.var, Entities.whole(table, table.type_index()), op.filters)
        texts = _must_match(pushed.rest)
        if texts:
            hits = self._hits(texts, table)
            if len(hits) * MANY_HITS <= table.rows or pushed.predicate is None:
                others = [expr for expr in op.filters if expr not in texts]
                return self._filter(op.var, Entities(table, len(hits), row_ids=hits), others)
        looked_up = self._look_up(op, table, pushed)
        if looked_up is not None:
            return self._filter(op.var, looked_up, op.filters)
        entities = self._read(op, table, pushed)
        return self._filter(op.var, entities, pushed.rest)

    def _can_filter_in_memory(self, op: ir.NodeScan, table: QueryTable, pushed: Pushed) -> bool:
        """Whether all that is read of the rows is in memory, where comparing beats an index."""
        if pushed.predicate is None or table.rows > COMPARED_IN_MEMORY or _must_match(pushed.rest):
            return False
        filtered = {name for item in op.filters for name in _properties(item)}
        return table.holds(filtered | (self.needs.of(op.var, table.item) or frozenset()))

    def _look_up(self, op: ir.NodeScan, table: QueryTable, pushed: Pushed) -> Entities | None:
        """The rows that an index finds for a long list, and that the filters are yet to test."""
        for item in pushed.rest:
            match item:
                case ir.Filter(ir.Prop(property=name, type=kind), FilterOp.IN, ir.Param() as param):
                    values = constant_value(param, self.params)
                case _:
                    continue
            if not isinstance(values, list | tuple) or len(values) <= MANY_VALUES:
                continue
            is_few = len(values) * ROWS_PER_VALUE <= table.rows
            if is_few and table.coverage().get((name, "BTree"), 0.0) >= 1.0:
                wanted = plus_zero(fit_members(kind.scalar, values).unique())
                needed = self.needs.of(op.var, table.item) or frozenset()
                read = needed if op.var in self.reads_at_once else frozenset()
                filtered = {each for part in op.filters for each in _properties(part)}
                columns = _enough({"id"} | read | filtered, table)
                return Entities.scanned(table, table.lookup(wanted, columns, key=name))
        return None

    def _scan_types(
        self, var: str, types: Sequence[str], filters: Sequence[ir.Condition]
    ) -> Bindings:
        """A match of one variable of several types, each scanned by itself."""
        scans: list[Bindings] = []
        for name in types:
            told = [of_type_name(item, var, name) for item in filters]
            known = [item for item in told if not variables_of([item])]
            if all(self.evaluator.truth(item, NOTHING).all() for item in known):
                rest = tuple(item for item in told if variables_of([item]))
                scans.append(self.scan(ir.NodeScan(var, name, rest)))
        found = union(var, scans or [_bind(var, Entities.none(self.tables.node(types[0])))])
        self.tables.budget.require_rows(found.rows, f"the scan of {', '.join(types)}")
        return found

    def _known_row(self, op: ir.NodeScan, table: QueryTable, pushed: Pushed) -> Bindings | None:
        """The one row that a filter names by id, if the ids of the table are in memory."""
        # For one row of a large table its index is asked sooner than a numbering is moved.
        is_moved = table.rows <= MOVED_FOR_ONE_ROW
        index = table.cached_type_index(is_moved=is_moved) if table.identity is not None else None
        named = None if index is None else self._named_id(pushed.pushed, table.identity)
        if index is None or named is None:
            return None
        by_id, wanted = named
        at = find_ids(index.ids, pa.array([wanted], pa.string()))
        entities = Entities.whole(table, index)
        bindings = Bindings(rows=1, columns={op.var: Bound(entities, at)})
        bindings = bindings.keep(at != ABSENT)
        for item in op.filters:
            if item is not by_id:
                bindings = bindings.keep(self.evaluator.truth(item, bindings))
        return bindings

    def _named_id(
        self, filters: Sequence[ir.Condition], identity: str | None
    ) -> tuple[ir.Condition, str] | None:
        """The filter that names an id, and the id."""
        for item in filters:
            match item:
                case ir.Filter(
                    ir.Prop(property=name), FilterOp.EQ, (ir.Param() | ir.Lit()) as constant
                ) if name == identity:
                    value = constant_value(constant, self.params)
                    return (item, value) if isinstance(value, str) else None
        return None

    def _hits(self, texts: Sequence[ir.Filter], table: QueryTable) -> RowIds:
        """The rows that all of these text calls match."""
        hits = [
            self.evaluator.search.hits(item.left, table).row_ids
            for item in texts
            if isinstance(item.left, ir.Search | ir.MatchText)
        ]
        return functools.reduce(np.intersect1d, hits)

    def _read(self, op: ir.NodeScan, table: QueryTable, pushed: Pushed) -> Entities:
        needed = self.needs.of(op.var, table.item) or frozenset()
        reads_all = op.var in self.reads_at_once or _is_point(pushed, table)
        filtered = {name for item in pushed.rest for name in _properties(item)}
        if self.needs.is_aggregate and op.var in self.reads_at_once:
            wanted = set(needed | filtered)
            if op.var in self.needs.identified or table.identity in wanted:
                # Of a key that is the id, one of the two is enough.
                wanted = (wanted - {table.identity}) | {"id"}
            # What is not a column is found by row id.
            with_row_ids = bool(pushed.rest) or not wanted or op.var in self.needs.by_row
            names = sorted(name for name in wanted if name is not None)
            known = self._known_whole(table, pushed, names)
            if known is not None:
                return known
            rows = table.scan(names, pushed.predicate, with_row_ids=with_row_ids)
            _note(table, pushed, names, table.rows)
            return Entities.scanned(table, rows)
        if pushed.predicate is None and not (filtered or reads_all):
            return Entities.whole(table, table.type_index())
        columns = _enough({"id"} | filtered | (needed if reads_all else set()), table)
        known = self._known_whole(table, pushed, columns)
        if known is not None:
            return known
        rows = table.scan(columns, pushed.predicate, with_row_ids=True)
        _note(table, pushed, columns, rows.num_rows)
        return Entities.scanned(table, rows)

    def _known_whole(
        self, table: QueryTable, pushed: Pushed, columns: Sequence[str]
    ) -> Entities | None:
        """All rows of the table, if all that is read of them is in memory."""
        if pushed.predicate is not None:
            return None
        if not {*columns} <= {"id", table.identity}:
            return Entities.whole(table, table.type_index()) if table.holds(columns) else None
        # A walk that a filter counts begins at numbers of the whole type.
        is_walked = any(True for item in pushed.rest for _ in blocks_of(sides_of(item)))
        index = table.type_index() if is_walked else table.cached_type_index()
        return None if index is None else Entities.whole(table, index)

    def _filter(self, var: str, entities: Entities, filters: Sequence[ir.Condition]) -> Bindings:
        bindings = _bind(var, entities)
        self.tables.budget.require_rows(bindings.rows, f"the scan of {entities.table.item.name}")
        for item in filters:
            bindings = bindings.keep(self.evaluator.truth(item, bindings))
        return bindings


def _note(table: QueryTable, pushed: Pushed, columns: Sequence[str], rows: int) -> None:
    """Count a read that columns in memory would have spared."""
    is_compared = pushed.predicate is None or table.rows <= COMPARED_IN_MEMORY
    if is_compared or (table.identity is not None and _is_point(pushed, table)):
        table.note_read(columns, rows)


def _enough(columns: Iterable[str], table: QueryTable) -> list[str]:
    """The columns without a key that is the id: of the two one is enough."""
    return sorted(name for name in columns if name != table.identity)


def _bind(var: str, entities: Entities) -> Bindings:
    return Bindings(rows=entities.size, columns={var: Bound(entities, entities.everything)})


def _must_match(filters: Sequence[ir.Condition]) -> list[ir.Filter]:
    """Filters by a text call that an index answers and that every row must match."""
    return [
        item
        for item in filters
        if isinstance(item, ir.Filter)
        and isinstance(item.left, ir.Search | ir.MatchText)
        and item.op is FilterOp.EQ
        and isinstance(item.right, ir.Lit)
        and item.right.value is True
    ]


def _is_point(pushed: Pushed, table: QueryTable) -> bool:
    """Whether the filters can leave a few rows only: a key or unique property is given."""
    narrow = {name for names in table.item.unique for name in names}
    narrow |= set(getattr(table.item, "key", None) or ())
    return any(
        isinstance(item, ir.Filter) and item.op is FilterOp.EQ and narrow & set(_properties(item))
        for item in pushed.pushed
    )


def _properties(item: ir.Condition) -> list[str]:
    return [
        expr.property
        for expr in operands_of(item)
        if isinstance(expr, ir.Prop | ir.Fuzzy | ir.Nearest) and not _is_blob(expr)
    ]


def _is_blob(expr: ir.Expr) -> bool:
    return isinstance(expr, ir.Prop) and expr.type.scalar is Scalar.BLOB
