"""Where the tasks of a job run: on Spark, or one after the other in this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from omnigraph.pipeline.arrow_batches import conform
from omnigraph.pipeline.tasks import TaskResult, run_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from omnigraph.pipeline.progress import Progress, StageRunner
    from omnigraph.pipeline.session import PipelineSession

_Task = TypeVar("_Task")


class TaskLane(Protocol):
    """Runs a function once for each task; the results in the order of the tasks."""

    @property
    def slots(self) -> int:
        """How many tasks run at the same time."""
        ...

    def run(
        self,
        stage: str,
        tasks: Sequence[_Task],
        function: Callable[[_Task], Iterable[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> list[TaskResult]:
        """What each task gave.

        Raises:
            OmnigraphError: a task raised it; on Spark as `run_tasks` says.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class SparkLane:
    """Tasks on executors."""

    session: PipelineSession
    runner: StageRunner

    @property
    def slots(self) -> int:
        """How many tasks Spark runs at the same time."""
        context = self.session.classic_context
        if context is not None:
            return max(1, int(context.defaultParallelism))
        # A range is cut into as many partitions as there are cores.
        numbers = self.session.spark.range(1 << 16).selectExpr("spark_partition_id() AS number")
        return max(1, self.runner.run("plan", lambda: numbers.distinct().count()))

    def run(
        self,
        stage: str,
        tasks: Sequence[_Task],
        function: Callable[[_Task], Iterable[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> list[TaskResult]:
        """What each task gave."""
        return run_tasks(self.session, stage, tasks, function, schema, runner=self.runner)


@dataclass(frozen=True, kw_only=True)
class LocalLane:
    """Tasks in this process."""

    progress: Progress | None = None

    @property
    def slots(self) -> int:
        """One."""
        return 1

    def run(
        self,
        stage: str,
        tasks: Sequence[_Task],
        function: Callable[[_Task], Iterable[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> list[TaskResult]:
        """What each task gave."""
        results = []
        for partition, task in enumerate(tasks):
            self._tell(stage, partition, len(tasks))
            batches = tuple(conform(batch, schema) for batch in function(task))
            results.append(TaskResult(partition=partition, attempt=1, batches=batches))
        self._tell(stage, len(tasks), len(tasks))
        return results

    def _tell(self, stage: str, done: int, total: int) -> None:
        if self.progress is not None and total:
            self.progress(stage, done, total)
