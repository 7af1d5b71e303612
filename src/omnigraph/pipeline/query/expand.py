"""`Expand` as joins: from a bound variable along an edge type to a new one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from omnigraph.graph.query.pushdown import push_filters
from omnigraph.lang.ir import ExpandDirection, WalkProperty
from omnigraph.pipeline.query.match_frame import ID, MatchFrame
from omnigraph.pipeline.query.tables import DST, SRC
from omnigraph.pipeline.query.walk import PATHS, Adjacency, Way, walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from omnigraph.graph.query.pushdown import Pushed
    from omnigraph.lang import EdgeType, ir
    from omnigraph.pipeline.query.keeper import Keeper
    from omnigraph.pipeline.query.leaves import Leaves
    from omnigraph.pipeline.query.match_frame import Content, Names
    from omnigraph.pipeline.query.tables import SparkTables


@dataclass(frozen=True, slots=True, kw_only=True)
class Expander:
    """Follows edges for one query."""

    tables: SparkTables
    leaves: Leaves
    names: Names
    keeper: Keeper

    def source(self, op: ir.Expand) -> str:
        """The node type that the walk begins at."""
        edge = self.tables.edge(op.edge)
        return edge.to_type if op.direction is ExpandDirection.IN else edge.from_type

    def expand(
        self, op: ir.Expand, rows: MatchFrame
    ) -> tuple[MatchFrame, tuple[ir.Condition, ...]]:
        """The rows with the new variables bound, and the filters that are still to be applied."""
        if op.edge_var is None:
            walked, far = self._walk(op, rows)
            return self._bind(op, walked, far)
        pushed = push_filters(op.edge_filters, self.tables.params)
        walked, far = self._edges(op, op.edge_var, rows, pushed)
        bound, rest = self._bind(op, walked, far)
        return bound, (*pushed.rest, *rest)

    def _walk(self, op: ir.Expand, rows: MatchFrame) -> tuple[MatchFrame, str]:
        edge = self.tables.edge(op.edge)
        most = op.max_hops if edge.from_type == edge.to_type else 1
        adjacency = self._adjacency(edge, op.direction)
        if (op.min_hops, most) == (1, 1) and op.walk_var is None:
            is_near = rows.id_of(op.src_var) == F.col(adjacency.near)
            return replace(rows, frame=rows.frame.join(adjacency.frame, is_near)), adjacency.far
        source = self.names.fresh()
        starts = rows.frame.select(rows.id_of(op.src_var).alias(source)).distinct()
        ways = self._ways(op)
        reached = walk(
            starts.filter(F.col(source).isNotNull()),
            source,
            adjacency,
            (op.min_hops, most),
            list(ways.values()),
            self.keeper,
            self.names,
        )
        columns: dict[Content, str] = dict(rows.columns)
        if op.walk_var is not None:
            columns[op.walk_var, WalkProperty.HOPS] = reached.hops
            columns |= {(op.walk_var, name): way.name for name, way in ways.items()}
        is_source = rows.id_of(op.src_var) == F.col(reached.source)
        frame = rows.frame.join(reached.frame, is_source)
        return replace(rows, frame=frame, columns=columns), reached.target

    def _ways(self, op: ir.Expand) -> Mapping[str, Way]:
        """The paths that something reads, by the property that they are."""
        if op.walk_var is None:
            return {}
        asked = {leaf.property for leaf in self.leaves.get(op.walk_var, ())}
        return {
            name: Way(
                name=self.names.fresh(),
                from_source=(name is WalkProperty.PATH) != bool(op.is_turned),
            )
            for name in PATHS
            if name in asked
        }

    def _adjacency(self, edge: EdgeType, direction: ExpandDirection) -> Adjacency:
        """The neighbours of every node, each once."""
        frame, src, dst = self.tables.ends(edge)
        near, far = self.names.fresh(), self.names.fresh()

        def seen(start: str, end: str) -> DataFrame:
            return frame.select(F.col(start).alias(near), F.col(end).alias(far))

        match direction:
            case ExpandDirection.OUT:
                pairs = seen(src, dst)
            case ExpandDirection.IN:
                pairs = seen(dst, src)
            case ExpandDirection.BOTH:
                pairs = seen(src, dst).union(seen(dst, src))
        return Adjacency(frame=pairs.distinct(), near=near, far=far)

    def _edges(
        self, op: ir.Expand, edge_var: str, rows: MatchFrame, pushed: Pushed
    ) -> tuple[MatchFrame, str]:
        """A row for each edge; a self loop once, also when either direction is asked for."""
        edge = self.tables.edge(op.edge)
        entities = self.tables.entities(
            edge_var,
            edge,
            predicate=pushed.predicate,
            more=(SRC, DST),
            is_none=pushed.is_never,
        )
        src, dst = entities.columns[edge_var, SRC], entities.columns[edge_var, DST]
        near, far = self.names.fresh(), self.names.fresh()

        def seen(start: str, end: str) -> DataFrame:
            return entities.frame.withColumns({near: F.col(start), far: F.col(end)})

        match op.direction:
            case ExpandDirection.OUT:
                ways = seen(src, dst)
            case ExpandDirection.IN:
                ways = seen(dst, src)
            case ExpandDirection.BOTH:
                back = seen(dst, src).filter(F.col(src) != F.col(dst))
                ways = seen(src, dst).union(back)
        walked = replace(
            rows,
            frame=rows.frame.join(ways, rows.id_of(op.src_var) == F.col(near)),
            columns={**rows.columns, **entities.columns},
            variables=rows.variables | {edge_var},
        )
        return walked, far

    def _bind(
        self, op: ir.Expand, rows: MatchFrame, far: str
    ) -> tuple[MatchFrame, tuple[ir.Condition, ...]]:
        """The rows with the nodes they lead to, of which only what is asked for is read."""
        node = self.tables.node(op.dst_type)
        told = set() if op.walk_var is None else {op.walk_var}
        variables = rows.variables | {op.dst_var} | told
        if not op.dst_filters and not self.tables.reads(op.dst_var, node):
            columns = {**rows.columns, (op.dst_var, ID): far}
            return replace(rows, columns=columns, variables=variables), ()
        pushed = push_filters(op.dst_filters, self.tables.params)
        entities = self.tables.entities(
            op.dst_var, node, predicate=pushed.predicate, is_none=pushed.is_never
        )
        is_end = F.col(far) == F.col(entities.columns[op.dst_var, ID])
        bound = replace(
            rows,
            frame=rows.frame.join(entities.frame, is_end),
            columns={**rows.columns, **entities.columns},
            variables=variables,
        )
        return bound, pushed.rest
