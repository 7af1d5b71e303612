"""What every job has: where its tasks run, how far it is, and the versions that it holds.

A load, an export and an embedding get one `JobContext` and pass on what of it is needed. Whether
there is Spark is decided once, by the lane: who can only work with executors takes a `SparkLane`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from omnigraph.graph.jobs.pins import pin_for_job
from omnigraph.graph.jobs.stage_teller import NOTHING_KNOWN
from omnigraph.graph.jobs.stages import JobStages
from omnigraph.ids import new_operation_id
from omnigraph.pipeline.spark.handshake import require_executors_of
from omnigraph.pipeline.spark.lanes import LocalLane, SparkLane
from omnigraph.pipeline.spark.stage_runner import StageRunner
from omnigraph.pipeline.spark.task_storage import storing_with

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from omnigraph.graph.jobs.pins import JobPin
    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.graph.jobs.stage_teller import Amount
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.pipeline.spark.lanes import TaskLane
    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.pipeline.spark.tasks import TaskResult
    from omnigraph.settings import Settings
    from omnigraph.storage.graph_storage import GraphStorage

_Task = TypeVar("_Task")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """One run of one job."""

    graph: GraphCoordinator
    settings: Settings
    lane: TaskLane
    stages: JobStages
    operation_id: str
    pin: JobPin
    shared_filesystem: bool = False
    """Executors see the local paths of the driver."""

    @property
    def storage(self) -> GraphStorage:
        """Where the graph is stored."""
        return self.graph.storage

    @property
    def root(self) -> str:
        """Where the graph is."""
        return str(self.graph.storage.location)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Hold the pin, and have the tasks of the block run with the settings of the job."""
        spark = self.lane.spark
        settings = storing_with(self.settings.storage) if spark is None else spark.configured()
        with self.pin, settings:
            yield

    def require_executors(self) -> None:
        """Have an executor tell its versions and read the graph; nothing without Spark.

        Raises:
            ExecutorMismatch: they do not fit, or it cannot read the graph.
        """
        spark = self.lane.spark
        if spark is not None:
            require_executors_of(self.root, spark.session, spark.runner)

    def run(
        self,
        stage: str,
        tasks: Sequence[_Task],
        function: Callable[[_Task], Iterable[pa.RecordBatch]],
        schema: pa.Schema,
        *,
        work: Amount = NOTHING_KNOWN,
    ) -> list[TaskResult]:
        """What each task gave; tasks and retries are counted for the stage.

        Raises:
            OmnigraphError: a task raised it; on Spark as `run_tasks` says.
        """
        results = self.lane.run(stage, tasks, function, schema, work=work)
        self.count(results)
        return results

    def count(self, results: Sequence[TaskResult]) -> None:
        """Count tasks that were run for the stage, and how often they were tried again."""
        retries = sum(result.attempt - 1 for result in results)
        self.stages.count(tasks=len(results), retries=retries)


def open_job(
    graph: GraphCoordinator,
    session: PipelineSession | None,
    settings: Settings,
    *,
    kind: str,
    actor_id: str | None = None,
    progress: Progress | None = None,
    operation_id: str | None = None,
    shared_filesystem: bool = False,
) -> JobContext:
    """A job on an open graph; without a session its tasks run in this process.

    Args:
        graph: what it reads or writes.
        session: where tasks run.
        settings: of the process.
        kind: what the pin says that it is for.
        actor_id: whose job it is.
        progress: told how far it is.
        operation_id: of a job that goes on, or that has a name already.
        shared_filesystem: executors see the local paths of the driver.

    Raises:
        InvalidArgument: executors cannot reach the graph.
    """
    if session is not None:
        session.require_access(graph.storage.location, shared_filesystem=shared_filesystem)
    stages = JobStages(graph.clock, progress)
    lane: TaskLane = LocalLane(teller=stages.teller)
    if session is not None:
        lane = SparkLane(session=session, runner=StageRunner(session, teller=stages.teller))
    known = operation_id or new_operation_id(graph.ids)
    return JobContext(
        graph=graph,
        settings=settings,
        lane=lane,
        stages=stages,
        operation_id=known,
        pin=pin_for_job(
            graph.storage.objects,
            graph.clock,
            settings.storage,
            operation_id=known,
            kind=kind,
            owner=actor_id,
        ),
        shared_filesystem=shared_filesystem,
    )
