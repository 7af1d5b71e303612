"""`Expand`: from a bound variable along an edge type to a new one.

One walk serves both modes: the topology is that of the whole edge type, or of the edges that
probing the frontier found, hop by hop. A bound edge reads the edge rows themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.bindings import Bindings, Bound
from omnigraph.engine.counts import count_between, product
from omnigraph.engine.entities import Entities, distinct, distinct_numbers
from omnigraph.engine.paths import walk_paths
from omnigraph.engine.traversal import Choice, WalkShape, choose_mode
from omnigraph.engine.walk import Reached, count_reached, neighbours, ranges, walk
from omnigraph.errors import NumericOverflow
from omnigraph.graph.arrays import ascending, mask_of, places_in, text_array
from omnigraph.graph.query.pushdown import push_filters
from omnigraph.graph.query.topology import (
    ABSENT,
    GraphIndex,
    build_graph_index,
    find_ids,
    number_texts,
)
from omnigraph.lang.ir import ExpandDirection, WalkProperty
from omnigraph.settings.values import TraversalMode
from omnigraph.storage.predicates import And, In, Or

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.engine.counted_walks import CountedWalk
    from omnigraph.engine.evaluate import Evaluator
    from omnigraph.engine.tables import QueryTable, QueryTables
    from omnigraph.engine.warming import Warmer
    from omnigraph.graph.arrays import Ids, Mask, Numbers, Values
    from omnigraph.graph.query.budget import Budget
    from omnigraph.graph.query.needs import Needs
    from omnigraph.graph.query.topology import Adjacency
    from omnigraph.lang import EdgeType, ir
    from omnigraph.settings.sections import QuerySettings
    from omnigraph.storage.predicates import Predicate

_PATHS = frozenset({WalkProperty.PATH, WalkProperty.PATH_BACK})

FEW_IDS = 1_024
"""Up to here entities are looked up by id rather than numbered with their whole table."""

_BYTES_PER_END = 32
"""What the end of a counted walk takes: its number, where it lies, and what it counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """Where a walk begins: its distinct sources among the nodes of a topology."""

    inverse: Numbers
    """For each row the place of its source."""
    hops: tuple[int, int]
    choice: Choice
    adjacency: Adjacency
    numbers: Numbers
    """The number of each source, or `ABSENT` of one that has no edge."""
    far: Ids
    is_kept: bool
    """The topology is that of the whole edge type."""

    @property
    def has(self) -> Mask:
        """Which sources are numbered."""
        return np.not_equal(self.numbers, ABSENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expander:
    """Follows edges for one query."""

    tables: QueryTables
    evaluator: Evaluator
    settings: QuerySettings
    budget: Budget
    needs: Needs
    warmer: Warmer

    def source(self, op: ir.Expand) -> str:
        """The node type that the walk begins at."""
        edge = self.tables.snapshot.catalog.edge_types[op.edge]
        return edge.to_type if op.direction is ExpandDirection.IN else edge.from_type

    def expand(self, op: ir.Expand, bindings: Bindings) -> tuple[Bindings, Choice | None]:
        """The rows with the new variables bound, and how a walk was done."""
        if op.edge_var is not None:
            return self._expand_edges(op, op.edge_var, bindings), None
        start = self._begin(op, bindings.columns[op.src_var])
        if start is None:
            return self._bind_none(op, bindings), None
        reached, told = self._reach(op, start)
        reached, bound = self._join_nodes(op, reached, start.far, is_kept=start.is_kept)
        columns = {op.dst_var: bound}
        if op.walk_var is not None:
            columns[op.walk_var] = self._walk_bound(op, told, reached.positions)
        return self._bind(bindings, start.inverse, reached, columns), start.choice

    def _walk_bound(
        self, op: ir.Expand, told: Mapping[str, Values], positions: Numbers | None
    ) -> Bound:
        """What the walk tells of itself, for each end that is left."""
        size = max((len(values) for values in told.values()), default=0)
        entities = Entities(self.tables.edge(op.edge), size, columns=told)
        return Bound(entities, np.arange(size) if positions is None else positions)

    def count(
        self, walk: CountedWalk, bound: Bound, *, is_test: bool = False
    ) -> tuple[Numbers, Choice | None]:
        """For each row how many walks begin there, and how the first hops of them were done.

        For a test each counts as one at most, so that no number grows too large.

        Raises:
            NumericOverflow: there are more than a count can say.
        """
        try:
            return self._count(walk, bound, is_test=is_test, is_narrow=False)
        except NumericOverflow:
            # Perhaps of nodes alone that no row leads to; then the rest can be counted.
            return self._count(walk, bound, is_test=is_test, is_narrow=True)

    def _count(
        self, walk: CountedWalk, bound: Bound, *, is_test: bool, is_narrow: bool
    ) -> tuple[Numbers, Choice | None]:
        """The same; narrowly counted is from nothing but what the rows lead to."""
        start = self._begin(walk.op, bound)
        if start is None:
            return np.zeros(len(bound.at), np.int64), None
        if walk.further or walk.op.dst_filters:
            counts = self._count_ends(walk, start, is_test=is_test, is_narrow=is_narrow)
        else:
            counts = np.zeros(len(start.numbers), np.int64)
            counts[start.has] = count_reached(
                start.adjacency, start.numbers[start.has], *start.hops, self.budget
            )
        if is_test:
            counts = np.minimum(counts, 1)
        is_all = bound.entities.is_everything(start.inverse)
        return (counts if is_all else counts[start.inverse]), start.choice

    def _count_ends(
        self, walk: CountedWalk, start: _Start, *, is_test: bool, is_narrow: bool
    ) -> Numbers:
        """How many walks each source begins, counted from what it reaches."""
        if start.hops != (1, 1):
            reached, _ = self._reach(walk.op, start)
            return self._count_reached(walk, start, reached, is_test=is_test, is_narrow=is_narrow)
        # No row is made of the neighbours, so they are held to memory alone.
        adjacency, has = start.adjacency, start.has
        sources = start.numbers[has]
        counts = np.zeros(len(has), np.int64)
        if not is_narrow and 2 * len(sources) > len(adjacency.starts):
            # Of most nodes: to count from all is less than to pick their edges.
            everybody = Reached(adjacency.starts, adjacency.targets)
            of_all = self._count_reached(
                walk, start, everybody, is_test=is_test, is_narrow=is_narrow
            )
            counts[has] = of_all[sources]
            return counts
        self.budget.require_bytes(_BYTES_PER_END * int(adjacency.degrees[sources].sum()), "a walk")
        near = neighbours(adjacency, sources)
        counts[has] = self._count_reached(walk, start, near, is_test=is_test, is_narrow=is_narrow)
        return counts

    def _count_reached(
        self,
        walk: CountedWalk,
        start: _Start,
        reached: Reached,
        *,
        is_test: bool,
        is_narrow: bool,
    ) -> Numbers:
        """How many walks go through, or end at, what each reaches."""
        reached, ends = self._join_nodes(walk.op, reached, start.far, is_kept=start.is_kept)
        if not walk.further:
            return reached.counts
        if is_narrow or len(ends.at) < ends.entities.size:
            used, at = distinct(ends.at, ends.entities)
        else:
            # Most of them are ends: to look at all is less than to find out which.
            used, at = ends.entities.everything, ends.at
        used_ends = Bound(ends.entities, used)
        weights = np.ones(len(used), np.int64)
        for further in walk.further:
            counts, _ = self._count(further, used_ends, is_test=is_test, is_narrow=is_narrow)
            weights = product(weights, counts)
        return count_between(reached.starts, weights[at])

    def has_neighbour(self, op: ir.Expand, bound: Bound) -> tuple[Mask, Choice | None]:
        """For each row whether there is any edge: the walk of a plain negation, without walking."""
        start = self._begin(op, bound)
        if start is None:
            return np.zeros(len(bound.at), bool), None
        has = start.has
        # A node may be numbered for its other end, or have lost its edges.
        has[has] = start.adjacency.degrees[start.numbers[has]] > 0
        is_all = bound.entities.is_everything(start.inverse)
        return (has if is_all else has[start.inverse]), start.choice

    def _begin(self, op: ir.Expand, bound: Bound) -> _Start | None:
        """Where a walk from these rows begins; `None` if it leads nowhere."""
        edge = self.tables.snapshot.catalog.edge_types[op.edge]
        used, inverse = distinct(bound.at, bound.entities)
        hops = _hops(edge, op)
        if hops is None or not len(used):
            return None
        choice = self._choose(op, bound.entities, hops[1], len(used))
        index = self._graph_index(op, edge, choice, bound.entities, used, hops[1])
        adjacency, near, far = _side(index, op.direction)
        is_kept = choice.mode is TraversalMode.CSR
        return _Start(
            inverse=inverse,
            hops=hops,
            choice=choice,
            adjacency=adjacency,
            numbers=bound.entities.numbers_among(used, near, is_kept=is_kept),
            far=far,
            is_kept=is_kept,
        )

    def _choose(self, op: ir.Expand, sources: Entities, hops: int, frontier_rows: int) -> Choice:
        shape = WalkShape(
            edges=self.tables.edge(op.edge),
            source_rows=sources.table.rows,
            direction=op.direction,
            hops=hops,
            frontier_rows=frontier_rows,
        )
        return choose_mode(shape, self.settings)

    def _graph_index(
        self,
        op: ir.Expand,
        edge: EdgeType,
        choice: Choice,
        sources: Entities,
        used: Numbers,
        hops: int,
    ) -> GraphIndex:
        edges = self.tables.edge(op.edge)
        is_same_type = edge.from_type == edge.to_type
        if choice.mode is TraversalMode.CSR:
            cached = edges.cached_graph_index()
            if cached is not None:
                return cached
            self.budget.require_bytes(edges.rows * 16, f"the topology of {op.edge}")
            # Whoever walks a whole topology wants its nodes next; numbering them is cheap beside.
            for name in {edge.from_type, edge.to_type}:
                self.tables.node(name).type_index()
            return edges.graph_index(is_same_type=is_same_type)
        if choice.forced is None:
            ends = [self.tables.node(edge.from_type), self.tables.node(edge.to_type)]
            self.warmer.probed(edges, ends, hops, choice.indexed_cost)
        frontier = text_array(sources.read(["id"], used)["id"])
        edge_rows = _probe(edges, frontier, op.direction, hops)
        src, dst = text_array(edge_rows["src"]), text_array(edge_rows["dst"])
        return build_graph_index(src, dst, is_same_type=is_same_type)

    def _reach(self, op: ir.Expand, start: _Start) -> tuple[Reached, Mapping[str, Values]]:
        """What each source reaches, and what is told of the walk to it.

        One that has no edge reaches nothing.
        """
        adjacency, hops, ids, has = start.adjacency, start.hops, start.far, start.has
        sources = start.numbers[has]
        asked = self._asked(op)
        told: dict[str, Values] = {}
        reached: Reached | None = None
        for name in asked & _PATHS:
            is_reversed = (name == WalkProperty.PATH) == bool(op.is_turned)
            reached, paths = walk_paths(
                adjacency, sources, hops, self.budget, from_source=not is_reversed
            )
            told[name] = paths.lists(ids)
            told[WalkProperty.HOPS] = pa.array(np.diff(paths.starts) - 1)
        if reached is None:
            reached = walk(adjacency, sources, hops, self.budget, is_measured=bool(asked))
            if reached.hops is not None:
                told[WalkProperty.HOPS] = pa.array(reached.hops)
        if has.all():
            return reached, told
        counts = np.zeros(len(start.numbers), np.int64)
        counts[has] = reached.counts
        return Reached(_starts(counts), reached.targets), told

    def _asked(self, op: ir.Expand) -> frozenset[str]:
        """What of a walk something reads."""
        if op.walk_var is None:
            return frozenset()
        return self.needs.properties.get(op.walk_var, frozenset()) | {WalkProperty.HOPS}

    def _join_nodes(
        self, op: ir.Expand, reached: Reached, far: Ids, *, is_kept: bool
    ) -> tuple[Reached, Bound]:
        """The reached nodes as entities that can be read, without those that filters drop."""
        table = self.tables.node(op.dst_type)
        needed = self.needs.of(op.dst_var, table.item)
        if needed is None and not op.dst_filters:
            return reached, Bound(Entities.of_ids(table, far), reached.targets)
        used, inverse = distinct_numbers(reached.targets, len(far))
        entities, at = self._nodes(table, far, used, needed or frozenset(), is_kept=is_kept)
        keep = at != ABSENT
        narrow = Bindings(rows=int(keep.sum()), columns={op.dst_var: Bound(entities, at[keep])})
        passed = np.ones(narrow.rows, bool)
        for item in op.dst_filters:
            passed &= self.evaluator.truth(item, narrow)
        keep[keep] = passed
        return _only(reached, keep[inverse], at[inverse], entities)

    def _nodes(
        self,
        table: QueryTable,
        far: Ids,
        used: Numbers,
        needed: frozenset[str],
        *,
        is_kept: bool,
    ) -> tuple[Entities, Numbers]:
        """The nodes with the used ids, and the number of each; an absent one has none."""
        index = table.cached_type_index()
        few = max(FEW_IDS, table.rows // 64)
        if index is None and len(used) <= few:
            wanted = far.take(used)
            rows = table.lookup(wanted, ["id", *sorted(needed)])
            entities = Entities.scanned(table, rows)
            order = ascending(entities.ids)
            numbers = find_ids(entities.ids.take(order), wanted)
            return entities, np.append(order, ABSENT)[numbers]
        index = index or table.type_index()
        entities = Entities.whole(table, index)
        if is_kept:
            return entities, table.caches.alignments.find(far, index.ids, used)
        return entities, find_ids(index.ids, far.take(used))

    def _expand_edges(self, op: ir.Expand, edge_var: str, bindings: Bindings) -> Bindings:
        """One row for each edge row."""
        edges = self.tables.edge(op.edge)
        source = bindings.columns[op.src_var]
        used, inverse = distinct(source.at, source.entities)
        ids = text_array(source.entities.read(["id"], used)["id"])
        wanted = self.needs.of(edge_var, edges.item) or frozenset()
        columns = list(dict.fromkeys(["id", "src", "dst", *sorted(wanted)]))
        pushed = push_filters(op.edge_filters, self.evaluator.params)
        if pushed.is_never:
            edge_rows = edges.lookup(ids.slice(0, 0), columns)
        elif len(used) > self.settings.expand_indexed_max_frontier:
            edge_rows = edges.scan(columns, pushed.predicate, with_row_ids=True)
        else:
            edge_rows = _edges_at(edges, ids, op.direction, columns, pushed.predicate)
        edge_rows = self._filter_edges(edge_var, edges, edge_rows, pushed.rest)
        rows, near, far = _ends(edge_rows, ids, op.direction)
        order = np.argsort(near, kind="stable")
        counts = np.bincount(near, minlength=len(used))
        far_ids, (targets,) = number_texts((far.take(order),))
        edge_bound = Bound(Entities.scanned(edges, edge_rows), rows[order])
        reached = Reached(_starts(counts), targets)
        kept, node = self._join_nodes(op, reached, far_ids, is_kept=False)
        if kept.positions is not None:
            edge_bound = Bound(edge_bound.entities, edge_bound.at[kept.positions])
        return self._bind(bindings, inverse, kept, {op.dst_var: node, edge_var: edge_bound})

    def _filter_edges(
        self,
        edge_var: str,
        edges: QueryTable,
        edge_rows: pa.Table,
        filters: Sequence[ir.Condition],
    ) -> pa.Table:
        """The edges that pass what their scan could not judge."""
        for item in filters:
            entities = Entities.scanned(edges, edge_rows)
            columns = {edge_var: Bound(entities, entities.everything)}
            passed = self.evaluator.truth(item, Bindings(rows=entities.size, columns=columns))
            edge_rows = edge_rows.filter(pa.array(passed))
        return edge_rows

    def _bind(
        self, bindings: Bindings, inverse: Numbers, reached: Reached, columns: Mapping[str, Bound]
    ) -> Bindings:
        """Every row of the input with everything that its source reaches."""
        counts = reached.counts[inverse]
        total = int(counts.sum())
        self.budget.require_rows(total, "the match")
        self.budget.require_bytes(
            8 * total * (len(bindings.columns) + len(columns)), "the rows of the match"
        )
        rows = np.repeat(np.arange(bindings.rows), counts)
        places = ranges(reached.starts[:-1][inverse], counts, _starts(counts))
        return bindings.keep(rows).bind(
            {name: Bound(bound.entities, bound.at[places]) for name, bound in columns.items()}
        )

    def _bind_none(self, op: ir.Expand, bindings: Bindings) -> Bindings:
        none = np.zeros(0, np.int64)
        nobody = Entities.none(self.tables.node(op.dst_type))
        columns = {op.dst_var: Bound(nobody, none)}
        if op.walk_var is not None:
            told = {
                name: pa.array([], pa.list_(pa.string()) if name in _PATHS else pa.int64())
                for name in self._asked(op)
            }
            columns[op.walk_var] = self._walk_bound(op, told, none)
        return bindings.keep(none).bind(columns)


def _hops(edge: EdgeType, op: ir.Expand) -> tuple[int, int] | None:
    """The bounds that mean something; a second hop exists between equal types only."""
    most = op.max_hops if edge.from_type == edge.to_type else 1
    return (op.min_hops, most) if op.min_hops <= most else None


def _side(index: GraphIndex, direction: ExpandDirection) -> tuple[Adjacency, Ids, Ids]:
    """The adjacency of a direction, and the ids that number its two ends."""
    match direction:
        case ExpandDirection.OUT:
            return index.out, index.from_ids, index.to_ids
        case ExpandDirection.IN:
            return index.into, index.to_ids, index.from_ids
        case ExpandDirection.BOTH:
            return index.both, index.from_ids, index.to_ids


def _probe(edges: QueryTable, frontier: Ids, direction: ExpandDirection, hops: int) -> pa.Table:
    """Every edge of the nodes that a walk of so many hops may stand on."""
    parts: list[pa.Table] = []
    probed = frontier
    for hop in range(hops):
        edge_rows = _edges_at(edges, frontier, direction, ["src", "dst"]).drop_columns(["_rowid"])
        parts.append(edge_rows)
        if hop + 1 == hops:
            break
        ends = _reached_ids(edge_rows, direction)
        frontier = ends.filter(pc.invert(pc.is_in(ends, value_set=probed)))
        if not len(frontier):
            break
        probed = pa.concat_arrays([probed, frontier])
    return pa.concat_tables(parts)


def _reached_ids(edge_rows: pa.Table, direction: ExpandDirection) -> Ids:
    names = {
        ExpandDirection.OUT: ["dst"],
        ExpandDirection.IN: ["src"],
        ExpandDirection.BOTH: ["src", "dst"],
    }[direction]
    ends = pa.concat_arrays([text_array(edge_rows[name]) for name in names])
    return ends.unique()


def _edges_at(
    edges: QueryTable,
    frontier: Ids,
    direction: ExpandDirection,
    columns: list[str],
    predicate: Predicate | None = None,
) -> pa.Table:
    """The edges at the nodes of the frontier that the predicate lets through, each once."""
    match direction:
        case ExpandDirection.OUT:
            return edges.lookup(frontier, columns, key="src", predicate=predicate)
        case ExpandDirection.IN:
            return edges.lookup(frontier, columns, key="dst", predicate=predicate)
        case ExpandDirection.BOTH if len(frontier) <= FEW_IDS:
            either: Predicate = Or((In("src", frontier), In("dst", frontier)))
            both = either if predicate is None else And((either, predicate))
            return edges.scan(columns, both, with_row_ids=True)
        case ExpandDirection.BOTH:
            return edges.scan(columns, predicate, with_row_ids=True)


def _ends(
    edge_rows: pa.Table, ids: Ids, direction: ExpandDirection
) -> tuple[Numbers, Numbers, Ids]:
    """For each way an edge can be followed: its row, the place of its near end, its far end."""
    src, dst = (text_array(edge_rows[name]) for name in ("src", "dst"))
    ways = {
        ExpandDirection.OUT: [(src, dst)],
        ExpandDirection.IN: [(dst, src)],
        ExpandDirection.BOTH: [(src, dst), (dst, src)],
    }[direction]
    rows: list[Numbers] = []
    near: list[Numbers] = []
    far: list[Ids] = []
    for number, (start, end) in enumerate(ways):
        places = places_in(start, ids)
        is_here = places != ABSENT
        if number:
            # Followed both ways, a self loop is still one edge.
            is_here &= mask_of(pc.not_equal(start, end))
        rows.append(np.flatnonzero(is_here))
        near.append(places[is_here])
        far.append(end.filter(pa.array(is_here)))
    return np.concatenate(rows), np.concatenate(near), pa.concat_arrays(far)


def _starts(counts: Numbers) -> Numbers:
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def _only(reached: Reached, keep: Mask, at: Numbers, entities: Entities) -> tuple[Reached, Bound]:
    """What is reached and kept, as numbers of the entities."""
    if keep.all():
        return reached, Bound(entities, at)
    kept_before = _starts(keep.astype(np.int64))
    positions = np.flatnonzero(keep)
    return (
        Reached(kept_before[reached.starts], reached.targets[positions], positions),
        Bound(entities, at[positions]),
    )
