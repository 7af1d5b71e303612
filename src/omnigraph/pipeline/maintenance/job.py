"""Compaction and index builds with executors: staged as tasks, committed by the kernel.

What is planned, kept when others are faster, committed and reported is that of this process
(`graph/maintenance`): only who joins fragments and builds segments differs. A table that needs
nothing costs no task. Whatever ends before the commit leaves the graph as it was, and what tasks
told of is removed.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import OmnigraphError
from omnigraph.graph.history.snapshot import open_snapshot
from omnigraph.graph.jobs.report import JobReport, TableReport
from omnigraph.graph.maintenance.ensure_indices import ensure_indices
from omnigraph.graph.maintenance.optimize import optimize
from omnigraph.pipeline.maintenance.workers import SparkWorkers
from omnigraph.settings import Engine
from omnigraph.storage.shared_work import Spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.jobs.stage_progress import Progress, StageProgress
    from omnigraph.graph.maintenance.index_report import IndexReport
    from omnigraph.graph.maintenance.optimize_report import OptimizeReport
    from omnigraph.pipeline.spark.job import JobContext

log = logging.getLogger(__name__)

ROWS_PER_TASK = 1 << 20
"""So many at least, an index is built of by one task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceOptions:
    """What is asked of the job."""

    branch: str
    types: tuple[str, ...] | None = None
    actor_id: str | None = None
    rows_per_task: int = ROWS_PER_TASK


class MaintenanceJob:
    """One run of one job."""

    def __init__(
        self, job: JobContext, options: MaintenanceOptions, *, progress: Progress | None = None
    ) -> None:
        self._job = job
        self._options = options
        self._progress = progress
        self._workers = SparkWorkers(job, Spread(rows=options.rows_per_task))

    def optimize(self, *, target_rows: int | None = None) -> OptimizeReport:
        """Join small fragments and bring indexes up to date, in at most one commit.

        Raises:
            InvalidArgument, BranchNotFound, RecoveryBlocked, ReadSetChanged: as in this process.
            PipelineTaskError, SparkUnavailable, ExecutorMismatch: Spark could not do it.
        """
        options = self._options
        with self._running():
            return optimize(
                self._job.graph,
                branch=options.branch,
                types=options.types,
                target_rows=target_rows,
                actor_id=options.actor_id,
                progress=self._follow,
                workers=self._workers,
            )

    def ensure_indices(self) -> IndexReport:
        """Build the declared indexes that are missing or stale, in at most one commit.

        Raises:
            InvalidArgument, BranchNotFound, RecoveryBlocked, ReadSetChanged: as in this process.
            PipelineTaskError, SparkUnavailable, ExecutorMismatch: Spark could not do it.
        """
        options = self._options
        with self._running():
            return ensure_indices(
                self._job.graph,
                branch=options.branch,
                types=options.types,
                actor_id=options.actor_id,
                progress=self._follow,
                workers=self._workers,
            )

    @contextmanager
    def _running(self) -> Iterator[None]:
        with self._job.running():
            try:
                yield
            finally:
                self._job.stages.end()
                self._remove_leftovers()

    def _remove_leftovers(self) -> None:
        """Best effort: the job is decided, and neither its success nor its error may be hidden."""
        try:
            self._workers.remove_leftovers()
        except OmnigraphError as error:
            log.warning("files of maintenance stay", extra={"why": error.message})

    def _follow(self, told: StageProgress) -> None:
        """Pass on what the kernel tells, and take the times of its stages."""
        self._job.stages.times.enter(told.stage)
        if self._progress is not None:
            self._progress(told)

    def receipt(self, report: OptimizeReport | IndexReport, mode: str) -> JobReport:
        """The report of the call as that of a job: rows of the tables that got a new version."""
        moved = {table.table_key for table in report.tables if table.committed}
        rows: dict[str, int] = {}
        if report.commit is not None:
            made = open_snapshot(self._job.graph, report.commit.graph_commit_id, report.branch)
            rows = {each.table_key: each.entity_count for each in made.tables}
        return JobReport(
            operation_id=None if report.commit is None else report.commit.operation_id,
            commit=report.commit,
            branch=report.branch,
            mode=mode,
            engine=Engine.SPARK.value,
            actor_id=self._options.actor_id,
            tables=tuple(
                TableReport(table=key, read=rows.get(key, 0), unchanged=rows.get(key, 0))
                for key in (table.table_key for table in report.tables)
                if key in moved
            ),
            stages=self._job.stages.reports(),
            warnings=tuple(
                f"{table.table_key}: others write to it too often; run this again later"
                for table in report.tables
                if table.skipped is not None
            ),
        )
