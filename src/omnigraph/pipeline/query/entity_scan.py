"""The task that reads entities: groups of fragments of one table, only what is asked of them.

Distances of vectors and words that are alike are computed where the rows are read, by the
functions of the engine, so that neither vectors nor texts cross into the JVM for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph.clock import SystemClock
from omnigraph.errors import SnapshotReclaimed
from omnigraph.graph.arrays import one_array, text_array
from omnigraph.graph.query.budget import Budget
from omnigraph.graph.query.fuzzy import fuzzy_matches
from omnigraph.graph.query.vectors import cosine_distances
from omnigraph.pipeline.spark.arrow_types import spark_type
from omnigraph.pipeline.spark.task_storage import open_task_storage, open_task_table
from omnigraph.storage.reading import ROW_ID

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.lang.catalog import EdgeType, NodeType
    from omnigraph.pipeline.spark.task_storage import TaskTable
    from omnigraph.storage.predicates import Predicate


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """How far a vector of each row is from another."""

    column: str
    vector: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """Whether a text of each row has a word like one of these."""

    column: str
    text: str
    edits: int


RowCall: TypeAlias = Distance | Likeness


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityScan:
    """Some fragments of one table, and what is wanted of them, by the name of its column."""

    root: str
    table: TaskTable
    item: NodeType | EdgeType
    columns: tuple[tuple[str, str], ...]
    """Stored columns, and their names in the frame."""
    calls: tuple[tuple[RowCall, str], ...]
    row_ids: str | None
    """The name of the column with the row ids."""
    predicate: Predicate | None
    fragments: tuple[int, ...]

    @property
    def schema(self) -> pa.Schema:
        """What the scan gives, as Spark takes it."""
        stored = self.item.arrow_schema
        fields = [
            pa.field(name, spark_type(stored.field(column).type), stored.field(column).nullable)
            for column, name in self.columns
        ]
        fields += [
            pa.field(name, pa.float64() if isinstance(call, Distance) else pa.bool_())
            for call, name in self.calls
        ]
        if self.row_ids is not None:
            fields.append(pa.field(self.row_ids, pa.int64()))
        return pa.schema(fields)


def read_entities(task: EntityScan) -> Iterator[pa.RecordBatch]:
    """The rows of one task, as Spark takes them."""
    from omnigraph.storage.signals import ObjectMissing

    storage = open_task_storage(task.root)
    wanted = [column for column, _ in task.columns] + [call.column for call, _ in task.calls]
    try:
        for batch in storage.tables.scan(
            open_task_table(storage, task.table),
            columns=list(dict.fromkeys(wanted)),
            predicate=task.predicate,
            fragments=task.fragments,
            with_row_ids=task.row_ids is not None,
        ):
            yield _converted(task, batch)
    except ObjectMissing as error:
        raise SnapshotReclaimed(
            f"version {task.table.pin.version} of {task.item.name} is gone: cleanup removed it,"
            " or its branch was deleted; read a newer commit of a live branch",
            type=task.item.name,
        ) from error


def _converted(task: EntityScan, batch: pa.RecordBatch) -> pa.RecordBatch:
    schema = task.schema
    arrays: list[pa.Array[Any]] = [  # Any: columns of every type
        batch.column(column).cast(schema.field(name).type) for column, name in task.columns
    ]
    arrays += [_called(call, batch.column(call.column)) for call, _ in task.calls]
    if task.row_ids is not None:
        arrays.append(batch.column(ROW_ID).cast(pa.int64()))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _called(call: RowCall, values: pa.Array[Any]) -> pa.Array[Any]:  # Any: of every type
    match call:
        case Distance():
            distances = cosine_distances(one_array(values), np.asarray(call.vector, np.float64))
            return pa.array(distances, pa.float64(), mask=np.isnan(distances))
        case Likeness():
            found = fuzzy_matches(text_array(values), call.text, call.edits, _unlimited())
            return pa.array(found, pa.bool_())


def _unlimited() -> Budget:
    """Of time the driver takes care, and of memory Spark."""
    return Budget(clock=SystemClock(), timeout_ms=0, max_rows=2**63, memory_bytes=2**63)
