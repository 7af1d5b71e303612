"""The task body of maintenance: one part of what is staged for one table.

It reads a version that is pinned, or that the driver has made of staged files, and writes files
that nothing names. Nothing is committed, and a task that runs again gives the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from omnigraph.clock import SystemClock
from omnigraph.errors import InternalError
from omnigraph.graph.arrays import one_array
from omnigraph.pipeline.spark.conform import from_ipc
from omnigraph.pipeline.spark.task_storage import TaskTable, open_task_storage, open_task_table
from omnigraph.pipeline.staging.job_files import note_files
from omnigraph.pipeline.staging.result_row import result_row
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.shared_work import Outcome, TableTask

_CENTROIDS: Final = "centroids"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTask:
    """One task on one version of a table."""

    root: str
    operation_id: str
    """Of the job, under which is noted what the task writes."""
    table: TaskTable
    task: TableTask
    centroids: str | None = None
    """The object that has the centroids of a vector index, which would be sent to many tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDone:
    """What became of it."""

    outcome: Outcome | None
    """`None` if the version is gone."""
    took_us: int = 0
    missing: str = ""
    """What of the version is gone: no other attempt would find it."""


def do_part(part: PartTask) -> Iterator[pa.RecordBatch]:
    """Do the task; one row with the pickled `PartDone`."""
    from omnigraph.storage.shared_work import Asked

    clock = SystemClock()
    started_us = clock.monotonic_us()
    storage = open_task_storage(part.root)
    try:
        handle = open_task_table(storage, part.table)
        task = _with_centroids(storage, part)
        (outcome,) = storage.tables.perform(Asked(handle=handle, tasks=(task,)))
    except ObjectMissing as missing:
        yield result_row(PartDone(outcome=None, missing=str(missing)))
        return
    files = storage.tables.outcome_files(handle, outcome)
    if files:
        note_files(storage, part.operation_id, files)
    took_us = clock.monotonic_us() - started_us
    yield result_row(PartDone(outcome=outcome, took_us=took_us))


def without_centroids(task: TableTask) -> tuple[TableTask, pa.RecordBatch | None]:
    """The task as it is sent, and the centroids that it needs."""
    from omnigraph.storage.shared_work import SegmentTask

    if not isinstance(task, SegmentTask) or task.centroids is None:
        return task, None
    batch = pa.record_batch([task.centroids], [_CENTROIDS])
    return replace(task, centroids=None), batch


def _with_centroids(storage: GraphStorage, part: PartTask) -> TableTask:
    from omnigraph.storage.shared_work import SegmentTask

    if part.centroids is None or not isinstance(part.task, SegmentTask):
        return part.task
    (batch,) = from_ipc(storage.objects.get(part.centroids))
    centroids = one_array(batch.column(_CENTROIDS))
    if not isinstance(centroids, pa.FixedSizeListArray):
        raise InternalError(f"centroids are {centroids.type}; please report this")
    return replace(part.task, centroids=centroids)
