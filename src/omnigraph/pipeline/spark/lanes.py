"""Where the tasks of a job run: on Spark, or one after the other in this process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from omnigraph.errors import InternalError
from omnigraph.graph.jobs.stage_teller import NOTHING_KNOWN, StageTeller
from omnigraph.pipeline.spark.tasks import frame_of_tasks, run_here, run_partitions, run_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from omnigraph.graph.jobs.stage_teller import Amount
    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.pipeline.spark.stage_runner import StageRunner
    from omnigraph.pipeline.spark.tasks import TaskResult

_Task = TypeVar("_Task")


class TaskLane(Protocol):
    """Runs a function once for each task; the results in the order of the tasks."""

    @property
    def slots(self) -> int:
        """How many tasks run at the same time."""
        ...

    @property
    def teller(self) -> StageTeller:
        """Tells how far the tasks are."""
        ...

    @property
    def spark(self) -> SparkLane | None:
        """This lane, for who needs executors; `None` if it has none."""
        ...

    def run(
        self,
        stage: str,
        tasks: Sequence[_Task],
        function: Callable[[_Task], Iterable[pa.RecordBatch]],
        schema: pa.Schema,
        *,
        work: Amount = NOTHING_KNOWN,
    ) -> list[TaskResult]:
        """What each task gave; `work` is what they have to do, for whoever watches.

        Raises:
            OmnigraphError: a task raised it; on Spark as `run_tasks` says.
        """
        ...


def require_spark(lane: TaskLane) -> SparkLane:
    """The lane of what only Spark can do.

    Raises:
        InternalError: there is no Spark.
    """
    if lane.spark is None:
        raise InternalError("a frame needs Spark and there is none; please report this")
    return lane.spark


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

    @property
    def teller(self) -> StageTeller:
        """The one of the runner."""
        return self.runner.teller

    @property
    def spark(self) -> SparkLane:
        """Itself."""
        return self

    def configured(self) -> AbstractContextManager[object]:
        """Have Spark set for our jobs, for the block."""
        return self.session.configured()

    def run(
        self,
        stage: str,
        tasks: Sequence[_Task],
        function: Callable[[_Task], Iterable[pa.RecordBatch]],
        schema: pa.Schema,
        *,
        work: Amount = NOTHING_KNOWN,
    ) -> list[TaskResult]:
        """What each task gave."""
        return run_tasks(
            self.session, stage, tasks, function, schema, runner=self.runner, work=work
        )

    def run_partitions(
        self,
        stage: str,
        frame: DataFrame,
        function: Callable[[int, Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> list[TaskResult]:
        """What the function gave for each partition of a frame, which is run once."""
        return run_partitions(self.session, stage, frame, function, schema, runner=self.runner)

    def frame(
        self,
        tasks: Sequence[_Task],
        function: Callable[[_Task], Iterable[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> DataFrame:
        """The rows that the function gives for each task, as a lazy frame."""
        return frame_of_tasks(self.session, tasks, function, schema)


@dataclass(frozen=True, kw_only=True)
class LocalLane:
    """Tasks in this process."""

    teller: StageTeller = field(default_factory=StageTeller)

    @property
    def slots(self) -> int:
        """One."""
        return 1

    @property
    def spark(self) -> None:
        """There are no executors."""
        return

    def run(
        self,
        stage: str,
        tasks: Sequence[_Task],
        function: Callable[[_Task], Iterable[pa.RecordBatch]],
        schema: pa.Schema,
        *,
        work: Amount = NOTHING_KNOWN,
    ) -> list[TaskResult]:
        """What each task gave."""
        return run_here(stage, tasks, function, schema, self.teller, work)
