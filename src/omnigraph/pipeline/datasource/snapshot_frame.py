"""A table of one snapshot as a Spark frame: tasks read groups of fragments and nothing else.

The versions are pinned by the driver and shipped; only the columns that were asked for cross.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.pipeline.spark.arrow_types import readable_columns, spark_schema, to_spark
from omnigraph.pipeline.spark.task_storage import TaskTable, open_task_storage, open_task_table
from omnigraph.pipeline.spark.tasks import frame_of_tasks
from omnigraph.pipeline.staging.key_frames import group_fragments

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.lang.catalog import EdgeType, NodeType
    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.storage.predicates import Predicate
    from omnigraph.storage.table_store import TableStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentScan:
    """Some fragments of one table, and what is wanted of them."""

    root: str
    table: TaskTable
    item: NodeType | EdgeType
    columns: tuple[str, ...]
    predicate: Predicate | None
    fragments: tuple[int, ...]

    @property
    def schema(self) -> pa.Schema:
        """What the scan gives, as Spark takes it."""
        return spark_schema(self.item, self.columns)


def plan_scan(
    root: str,
    store: TableStorage,
    snapshot: Snapshot,
    item: NodeType | EdgeType,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
) -> list[FragmentScan]:
    """The tasks that read a table; none for a table without rows."""
    handle = snapshot.handle(item)
    names = tuple(readable_columns(item, columns))
    table = TaskTable(layout=handle.layout, pin=handle.pin)
    return [
        FragmentScan(
            root=root,
            table=table,
            item=item,
            columns=names,
            predicate=predicate,
            fragments=group,
        )
        for group in group_fragments(store.fragments(handle))
    ]


def read_fragments(task: FragmentScan) -> Iterator[pa.RecordBatch]:
    """The rows of one task, as Spark takes them."""
    storage = open_task_storage(task.root)
    handle = open_task_table(storage, task.table)
    for batch in storage.tables.scan(
        handle, columns=task.columns, predicate=task.predicate, fragments=task.fragments
    ):
        yield to_spark(batch, task.schema)


def table_frame(
    session: PipelineSession,
    scans: Sequence[FragmentScan],
    item: NodeType | EdgeType,
    columns: Sequence[str] | None,
) -> DataFrame:
    """The rows of all tasks."""
    schema = spark_schema(item, readable_columns(item, columns))
    return frame_of_tasks(session, scans, read_fragments, schema)
