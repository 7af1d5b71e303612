"""Runs one function over many task descriptions, one Spark partition each.

The driver gets exactly one result per partition, whatever was tried again. An error of ours that
no retry can mend travels as the result of its partition, so that Spark does not run it four times,
and is raised on the driver; anything else is raised in the task, and Spark decides. Functions and
descriptions are pickled; a function imports Lance when it is called, never before, because the
daemon of the workers forks.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import pyarrow as pa

from omnigraph.errors import InternalError, ResourceLimit
from omnigraph.graph.jobs.stage_teller import NOTHING_KNOWN
from omnigraph.pipeline.spark.conform import conform, from_ipc, to_ipc
from omnigraph.pipeline.spark.errors import (
    can_be_retried,
    describe_failure,
    is_failure,
    read_failure,
)
from omnigraph.pipeline.spark.stage_runner import StageRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.graph.jobs.stage_teller import Amount, StageTeller
    from omnigraph.pipeline.spark.session import PipelineSession

_Task = TypeVar("_Task")

MAX_RESULT_BYTES: Final = 64 << 20
"""What one task may return: a result is metadata, rows belong into files."""

_COLUMNS: Final[Mapping[str, pa.DataType]] = {
    "partition": pa.int32(),
    "attempt": pa.int32(),
    "failure": pa.string(),
    "result": pa.binary(),
}
_RESULTS: Final = pa.schema(_COLUMNS)
_RESULTS_DDL: Final = "partition int, attempt int, failure string, result binary"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """What the task of one partition returned, at which attempt (1 is the first)."""

    partition: int
    attempt: int
    batches: tuple[pa.RecordBatch, ...]


def run_tasks(
    session: PipelineSession,
    stage: str,
    tasks: Sequence[_Task],
    function: Callable[[_Task], Iterable[pa.RecordBatch]],
    schema: pa.Schema,
    *,
    progress: Progress | None = None,
    runner: StageRunner | None = None,
    work: Amount = NOTHING_KNOWN,
) -> list[TaskResult]:
    """Call the function once for each task on the executors; the results, in the order of `tasks`.

    Args:
        session: where to run.
        stage: the name that progress and errors show.
        tasks: what each call gets; no tasks, no Spark job.
        function: its batches are made to fit `schema` before they leave the task.
        schema: of the result; any Arrow type, also those that Spark lacks.
        progress: told how many tasks are done.
        runner: of the job that this stage belongs to, to be cancelled with it.
        work: what all tasks together have to do; progress shows the share of those that are done.

    Raises:
        OmnigraphError: a task raised it and no retry can mend it; of several, the one of the first
            partition.
        PipelineTaskError: a task failed all its attempts, or its worker was killed.
        SparkUnavailable: the session was lost.
        Cancelled: the job was cancelled.
    """
    if not tasks:
        return []
    runner = runner or StageRunner(session, progress)
    body = _CollectedTask(function=function, schema=schema)

    def action() -> pa.Table:
        frame = _one_partition_each(session, tasks)
        return frame.mapInArrow(body, _RESULTS_DDL).toArrow()

    rows = runner.run(stage, action, tasks=len(tasks), work=work)
    return _read_results(rows, stage, len(tasks))


def run_here(
    stage: str,
    tasks: Sequence[_Task],
    function: Callable[[_Task], Iterable[pa.RecordBatch]],
    schema: pa.Schema,
    teller: StageTeller,
    work: Amount = NOTHING_KNOWN,
) -> list[TaskResult]:
    """As `run_tasks`, but in this process, one task after the other."""
    results = []
    for partition, task in enumerate(tasks):
        teller.tell_tasks(stage, partition, len(tasks), work)
        batches = tuple(conform(batch, schema) for batch in function(task))
        results.append(TaskResult(partition=partition, attempt=1, batches=batches))
    if tasks:
        teller.tell_tasks(stage, len(tasks), len(tasks), work)
    return results


def run_partitions(
    session: PipelineSession,
    stage: str,
    frame: DataFrame,
    function: Callable[[int, Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]],
    schema: pa.Schema,
    *,
    runner: StageRunner | None = None,
) -> list[TaskResult]:
    """Call the function once for each partition of a frame; the results, in their order.

    The frame is run exactly once. `function` gets the number of the partition and its batches; the
    rest, and what is raised, is as for `run_tasks`.
    """
    runner = runner or StageRunner(session)
    body = _CollectedPartition(function=function, schema=schema)
    rows = runner.run(stage, lambda: frame.mapInArrow(body, _RESULTS_DDL).toArrow())
    return _results(rows, stage)


def frame_of_tasks(
    session: PipelineSession,
    tasks: Sequence[_Task],
    function: Callable[[_Task], Iterable[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """The rows that the function gives for each task, as a lazy frame for joins and groups.

    Every action on it, and every retry, calls the function again, so it must only read. Run the
    action through a `StageRunner`: it translates what a task raises.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = _StreamedTask(function=function, schema=schema)
    return _one_partition_each(session, tasks).mapInArrow(
        rows, from_arrow_schema(schema, prefer_timestamp_ntz=False)
    )


def pickled(value: object) -> bytes:
    """A value as executors unpickle it; functions that no module names travel with their code."""
    from pyspark import cloudpickle

    data: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return data


def _one_partition_each(session: PipelineSession, tasks: Sequence[_Task]) -> DataFrame:
    table = pa.table(
        {
            "partition": pa.array(range(len(tasks)), pa.int32()),
            "task": pa.array([pickled(task) for task in tasks], pa.binary()),
        }
    )
    # With its types: an empty frame tells Connect nothing.
    frame = session.spark.createDataFrame(table, "partition int, task binary")
    return frame.repartitionById(max(len(tasks), 1), "partition")


@dataclass(frozen=True, kw_only=True)
class _CollectedTask(Generic[_Task]):
    """The body of a partition whose result the driver collects; runs on an executor."""

    function: Callable[[_Task], Iterable[pa.RecordBatch]]
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for partition, task in _descriptions(batches):
            yield self._run(partition, task)

    def _run(self, partition: int, task: bytes) -> pa.RecordBatch:
        # The driver pickled it; nothing else writes to this column.
        return _collected(
            partition,
            lambda: self.function(pickle.loads(task)),  # noqa: S301
            self.schema,
        )


@dataclass(frozen=True, kw_only=True)
class _CollectedPartition:
    """The body of a partition of somebody's frame; runs on an executor."""

    function: Callable[[int, Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise InternalError("a task ran outside of Spark; please report this")
        partition = context.partitionId()
        yield _collected(partition, lambda: self.function(partition, batches), self.schema)


def _collected(
    partition: int, call: Callable[[], Iterable[pa.RecordBatch]], schema: pa.Schema
) -> pa.RecordBatch:
    """The result of one partition, or the failure that no retry can mend."""
    attempt = _attempt()
    try:
        result = to_ipc((conform(batch, schema) for batch in call()), schema)
        _require_small(partition, result)
    except BaseException as error:
        if not is_failure(error):
            raise
        failure = describe_failure(error, partition=partition, attempt=attempt)
        if can_be_retried(error):
            raise failure.to_exception() from error
        return _row(partition, attempt, failure=failure.to_json())
    return _row(partition, attempt, result=result)


def _require_small(partition: int, result: bytes) -> None:
    if len(result) > MAX_RESULT_BYTES:
        raise ResourceLimit(
            f"task {partition} returned {len(result):,} bytes, at most {MAX_RESULT_BYTES:,} are"
            " allowed; make the splits smaller",
            resource="task_result_bytes",
            limit=MAX_RESULT_BYTES,
            actual=len(result),
        )


@dataclass(frozen=True, kw_only=True)
class _StreamedTask(Generic[_Task]):
    """The body of a partition whose rows stay in Spark; runs on an executor."""

    function: Callable[[_Task], Iterable[pa.RecordBatch]]
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for partition, task in _descriptions(batches):
            try:
                for batch in self.function(pickle.loads(task)):  # noqa: S301 - as above
                    yield conform(batch, self.schema)
            except BaseException as error:
                if not is_failure(error):
                    raise
                failure = describe_failure(error, partition=partition, attempt=_attempt())
                raise failure.to_exception() from error


def _descriptions(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
    for batch in batches:
        yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)


def _attempt() -> int:
    """Which attempt this is, counted from 1."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 1 if context is None else context.attemptNumber() + 1


def _row(
    partition: int, attempt: int, *, failure: str | None = None, result: bytes | None = None
) -> pa.RecordBatch:
    values: list[list[Any]] = [[partition], [attempt], [failure], [result]]  # Any: one per type
    arrays = [pa.array(value, field.type) for value, field in zip(values, _RESULTS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_RESULTS)


def _read_results(rows: pa.Table, stage: str, expected: int) -> list[TaskResult]:
    results = _results(rows, stage)
    if [each.partition for each in results] != list(range(expected)):
        raise InternalError(
            f"stage {stage} of {expected} tasks gave {len(results)} results; please report this",
            stage=stage,
        )
    return results


def _results(rows: pa.Table, stage: str) -> list[TaskResult]:
    ordered_rows = sorted(rows.to_pylist(), key=lambda row: row["partition"])
    for row in ordered_rows:
        if row["failure"] is not None:
            raise read_failure(row["failure"]).to_error(stage)
    return [
        TaskResult(
            partition=row["partition"], attempt=row["attempt"], batches=from_ipc(row["result"])
        )
        for row in ordered_rows
    ]
