"""Executors as the workers of a call of maintenance.

The steps of all tables go on together: what they ask for at one time is one stage of Spark, so the
number of stages does not grow with that of tables. Steps run in the driver and touch metadata
alone.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Final

from omnigraph.graph.maintenance.workers import Worked
from omnigraph.pipeline.maintenance.tasks import PartDone, PartTask, do_part, without_centroids
from omnigraph.pipeline.spark.task_storage import TaskTable
from omnigraph.pipeline.staging.job_files import (
    keep_batches,
    noted_files,
    remove_folder,
    staging_folder,
)
from omnigraph.pipeline.staging.result_row import RESULT, read_result
from omnigraph.settings import Engine
from omnigraph.storage.shared_work import SegmentTask
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.pipeline.spark.job import JobContext
    from omnigraph.storage.handles import StagedWrite
    from omnigraph.storage.indexes import IndexSpec
    from omnigraph.storage.shared_work import Asked, Outcome, Spread, Steps

_OTHER: Final = "a task of maintenance returned {}; please report this"


class SparkWorkers:
    """The executors of one job, for one call."""

    engine: Final = Engine.SPARK

    def __init__(self, job: JobContext, spread: Spread) -> None:
        self.spread: Final = spread
        self._job = job
        self._is_proven = False
        self._handed_over: set[str] = set()

    def stage(
        self, stage: str, steps: Mapping[TableRef, Steps[StagedWrite]]
    ) -> dict[TableRef, Worked]:
        """What the steps of each table stage.

        Raises:
            ObjectMissing: a version that tasks read is gone.
            PipelineTaskError, SparkUnavailable, ExecutorMismatch: Spark could not do it.
        """
        if steps:
            self._job.stages.enter(stage)
        worked: dict[TableRef, Worked] = {}
        took_us = dict.fromkeys(steps, 0)
        with ExitStack() as leaving:
            for each in steps.values():
                leaving.enter_context(closing(each))
            asked: dict[TableRef, Asked] = {}
            for ref, each in steps.items():
                _go_on(ref, each, None, asked, worked, took_us)
            # What comes later reads what tasks of this call wrote, besides.
            self._job.pin.hold([each.handle for each in asked.values()])
            while asked:
                made = self._performed(stage, asked, took_us)
                asked = {}
                for ref, outcomes in made.items():
                    _go_on(ref, steps[ref], outcomes, asked, worked, took_us)
        return worked

    def _performed(
        self, stage: str, asked: Mapping[TableRef, Asked], took_us: dict[TableRef, int]
    ) -> dict[TableRef, list[Outcome]]:
        """What the tasks that are asked for made."""
        if not self._is_proven:
            self._job.require_executors()
            self._is_proven = True
        owners = [ref for ref, each in asked.items() for _ in each.tasks]
        tasks = [task for each in asked.values() for task in self._tasks(each)]
        results = self._job.run(stage, tasks, do_part, RESULT)
        parts = [read_result(result.batches[0], PartDone, _OTHER) for result in results]
        made: dict[TableRef, list[Outcome]] = {ref: [] for ref in asked}
        for ref, part in zip(owners, parts, strict=True):
            if part.outcome is None:
                raise ObjectMissing(part.missing)
            made[ref].append(part.outcome)
            took_us[ref] += part.took_us
        return made

    def _tasks(self, asked: Asked) -> Iterator[PartTask]:
        """The tasks as they are sent; centroids are stored once for all parts of an index."""
        stored: dict[IndexSpec, str] = {}
        for each in asked.tasks:
            task, centroids = without_centroids(each)
            path = None
            if centroids is not None and isinstance(task, SegmentTask):
                path = stored.get(task.spec)
                if path is None:
                    folder = staging_folder(self._job.operation_id)
                    path = keep_batches(self._job.storage, f"{folder}/centroids", [centroids])
                    stored[task.spec] = path
            yield PartTask(
                root=self._job.root,
                operation_id=self._job.operation_id,
                table=TaskTable(layout=asked.handle.layout, pin=asked.handle.pin),
                task=task,
                centroids=path,
            )

    def hand_over(self, files: Iterable[str]) -> None:
        """These files may be committed from now on, also by a recovery: they stay."""
        self._handed_over.update(files)

    def remove_leftovers(self) -> None:
        """Remove what tasks noted and nobody may commit, and what the job kept beside it."""
        storage, operation_id = self._job.storage, self._job.operation_id
        for path in sorted({*noted_files(storage, operation_id)} - self._handed_over):
            storage.objects.delete_tree(path)
            storage.objects.remove_empty_folders(path)
        remove_folder(storage, staging_folder(operation_id))


def _go_on(
    ref: TableRef,
    steps: Steps[StagedWrite],
    outcomes: Sequence[Outcome] | None,
    asked: dict[TableRef, Asked],
    worked: dict[TableRef, Worked],
    took_us: Mapping[TableRef, int],
) -> None:
    """Take the steps of one table to what they ask for next, or to their end."""
    try:
        asked[ref] = next(steps) if outcomes is None else steps.send(outcomes)
    except StopIteration as ended:
        worked[ref] = Worked(staged=ended.value, took_us=took_us[ref])
