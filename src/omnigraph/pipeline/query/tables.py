"""The tables of one snapshot as frames of entities: pinned by the driver, read by tasks.

Text queries run on the driver through the storage, over whole tables, as in the engine: rows and
scores come back and are joined by row id. So members and scores are the same on both executors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from omnigraph.graph.arrays import one_array
from omnigraph.graph.query.pushdown import constant_value
from omnigraph.graph.query.search_values import asked_edits, asked_vector, texts_to_index
from omnigraph.lang import ir
from omnigraph.lang.types import Scalar
from omnigraph.pipeline.query.entity_scan import Distance, EntityScan, Likeness, read_entities
from omnigraph.pipeline.query.leaves import leaves_of_type
from omnigraph.pipeline.query.match_frame import ID
from omnigraph.pipeline.spark.task_storage import TaskTable
from omnigraph.pipeline.spark.tasks import frame_of_tasks
from omnigraph.pipeline.staging.key_frames import group_fragments
from omnigraph.storage.reading import ROW_ID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.graph.query.search_values import EmbedQuery
    from omnigraph.lang.catalog import EdgeType, NodeType
    from omnigraph.pipeline.query.entity_scan import RowCall
    from omnigraph.pipeline.query.leaves import Leaves, SearchCall
    from omnigraph.pipeline.query.match_frame import Content, Names
    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.predicates import Predicate
    from omnigraph.storage.table_storage import TableStorage

SRC = "src"
DST = "dst"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entities:
    """Rows of one type as a frame."""

    frame: DataFrame
    columns: Mapping[Content, str]


@dataclass(kw_only=True)
class SparkTables:
    """The tables that one query reads."""

    session: PipelineSession
    root: str
    store: TableStorage
    snapshot: Snapshot
    names: Names
    params: Mapping[str, object]
    leaves: Leaves
    embed: EmbedQuery
    _facts: dict[tuple[str, str, str, bool], pa.Table] = field(default_factory=dict)
    _vectors: dict[tuple[str, str, ir.Param | ir.Lit], tuple[float, ...] | None] = field(
        default_factory=dict
    )

    def node(self, name: str) -> NodeType:
        """A node type."""
        return self.snapshot.catalog.node_types[name]

    def edge(self, name: str) -> EdgeType:
        """An edge type."""
        return self.snapshot.catalog.edge_types[name]

    def reads(self, var: str, item: NodeType | EdgeType) -> bool:
        """Whether anything of a variable is read but its id."""
        return any(leaves_of_type(self.leaves, var, item))

    def entities(
        self,
        var: str,
        item: NodeType | EdgeType,
        *,
        predicate: Predicate | None = None,
        more: tuple[str, ...] = (),
        is_none: bool = False,
    ) -> Entities:
        """The rows of a type with what is read of a variable, its id, and more system columns."""
        props, calls = leaves_of_type(self.leaves, var, item)
        columns: dict[Content, str] = {(var, ID): self.names.fresh()}
        stored: list[tuple[str, str]] = [("id", columns[var, ID])]
        for column in more:
            columns[var, column] = self.names.fresh()
            stored.append((column, columns[var, column]))
        row_calls: list[tuple[RowCall, str]] = []
        facts: list[tuple[Content, pa.Table]] = []
        for prop in props:
            content: Content = (var, prop.property)
            if content in columns:
                continue
            if prop.type.scalar is Scalar.BLOB:
                facts.append((content, self._blobs(item, prop.property)))
                continue
            columns[content] = self.names.fresh()
            stored.append((prop.property, columns[content]))
        nothing: list[SearchCall] = []
        for call in calls:
            found = self._row_call(call, item)
            if isinstance(call, ir.Search | ir.MatchText | ir.Bm25):
                facts.append((call, self._hits(call, item)))
            elif found is None:
                nothing.append(call)
            else:
                columns[call] = self.names.fresh()
                row_calls.append((found, columns[call]))
        row_ids = self.names.fresh() if facts else None
        frame = self._scan(item, stored, row_calls, row_ids, predicate, is_none=is_none)
        for content, rows in facts:
            columns[content] = self.names.fresh()
            frame = self._joined(frame, rows, str(row_ids), columns[content])
        for call in nothing:
            columns[call] = self.names.fresh()
            kind = "boolean" if isinstance(call, ir.Fuzzy) else "double"
            frame = frame.withColumn(columns[call], F.lit(None).cast(kind))
        return Entities(frame=frame, columns=columns)

    def ends(self, edge: EdgeType) -> tuple[DataFrame, str, str]:
        """The ends of every edge of a type, and the names of their columns."""
        src, dst = self.names.fresh(), self.names.fresh()
        return self._scan(edge, [(SRC, src), (DST, dst)], [], None, None), src, dst

    def _scan(
        self,
        item: NodeType | EdgeType,
        stored: list[tuple[str, str]],
        calls: list[tuple[RowCall, str]],
        row_ids: str | None,
        predicate: Predicate | None,
        *,
        is_none: bool = False,
    ) -> DataFrame:
        handle = self.snapshot.handle(item)
        groups = [] if is_none else group_fragments(self.store.fragments(handle))
        tasks = [
            EntityScan(
                root=self.root,
                table=TaskTable(layout=handle.layout, pin=handle.pin),
                item=item,
                columns=tuple(stored),
                calls=tuple(calls),
                row_ids=row_ids,
                predicate=predicate,
                fragments=group,
            )
            for group in groups or [()]
        ]
        schema = tasks[0].schema
        return frame_of_tasks(self.session, tasks if groups else [], read_entities, schema)

    def _joined(self, frame: DataFrame, rows: pa.Table, row_ids: str, name: str) -> DataFrame:
        """The frame with what is known of some of its rows; null for the others."""
        key = self.names.fresh()
        known = self.session.spark.createDataFrame(
            rows.rename_columns([key, name]), f"{key} bigint, {name} double"
        )
        return frame.join(known, F.col(row_ids) == F.col(key), "left")

    def _row_call(self, call: SearchCall, item: NodeType | EdgeType) -> RowCall | None:
        match call:
            case ir.Nearest():
                vector = self._vector(call, item)
                return None if vector is None else Distance(column=call.property, vector=vector)
            case ir.Fuzzy():
                text = constant_value(call.query, self.params)
                if text is None:
                    return None
                edits = asked_edits(call, self.params)
                return Likeness(column=call.property, text=str(text), edits=edits)
            case _:
                return None

    def _vector(self, call: ir.Nearest, item: NodeType | EdgeType) -> tuple[float, ...] | None:
        key = item.name, call.property, call.query
        if key not in self._vectors:
            vector = asked_vector(call, item, self.params, self.embed)
            self._vectors[key] = None if vector is None else tuple(vector.tolist())
        return self._vectors[key]

    def _hits(
        self, call: ir.Search | ir.MatchText | ir.Bm25, item: NodeType | EdgeType
    ) -> pa.Table:
        """Row ids and scores of every row that a text call matches."""
        text = constant_value(call.query, self.params)
        if text is None:
            return _facts(pa.array([], pa.int64()), pa.array([], pa.float64()))
        is_phrase = isinstance(call, ir.MatchText)
        key = item.name, call.property, str(text), is_phrase
        if key not in self._facts:
            self._facts[key] = self._search(
                self.snapshot.handle(item), call.property, str(text), is_phrase=is_phrase
            )
        return self._facts[key]

    def _search(self, handle: TableHandle, name: str, text: str, *, is_phrase: bool) -> pa.Table:
        if name in handle.layout.text_indexes:
            hits = self.store.search_text(handle, name, text, is_phrase=is_phrase)
            return _facts(hits["row_id"].cast(pa.int64()), hits["score"])
        reader = self.store.scan(handle, columns=[name], with_row_ids=True)
        row_ids, texts = texts_to_index(reader.read_all(), name)
        hits = self.store.ephemeral_text(row_ids, texts).search(text, is_phrase=is_phrase)
        return _facts(hits["id"].cast(pa.int64()), hits["score"])

    def _blobs(self, item: NodeType | EdgeType, name: str) -> pa.Table:
        """Row ids of every row, and how long its blob is; all a match may know of it."""
        rows = self.store.blob_lengths(self.snapshot.handle(item), name)
        return _facts(rows[ROW_ID].cast(pa.int64()), rows["length"])


def _facts(row_ids: pa.ChunkedArray | pa.Array, values: pa.ChunkedArray | pa.Array) -> pa.Table:  # type: ignore[type-arg]  # of any type
    kept = one_array(values).cast(pa.float64())
    return pa.table({"row_id": one_array(row_ids), "value": kept})
