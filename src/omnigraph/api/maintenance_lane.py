"""Where maintenance runs that a call asks for: in this process, or on Spark.

Both do the same. Spark takes what one process would work on for long; where there is none, `auto`
stays here.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import SparkNotInstalled
from omnigraph.graph.maintenance.ensure_indices import ensure_indices
from omnigraph.graph.maintenance.lane import (
    MOST_FRAGMENTS,
    MOST_ROWS,
    find_items,
    parse_engine,
    why_spark,
)
from omnigraph.graph.maintenance.optimize import optimize, require_target
from omnigraph.graph.maintenance.table_work import list_of_names
from omnigraph.settings import Engine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.api.graph import Graph
    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.maintenance.index_report import IndexReport
    from omnigraph.graph.maintenance.optimize_report import OptimizeReport
    from omnigraph.pipeline.maintenance.job import MaintenanceJob
    from omnigraph.settings import Settings

_FEW = f"no table has more than {MOST_FRAGMENTS} fragments or {MOST_ROWS:,} rows to work on"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceRequest:
    """What is asked for, in either lane."""

    branch: str
    types: tuple[str, ...] | None
    joins: bool
    """Fragments are joined, not only indexes built."""
    target_rows: int | None = None
    shared_filesystem: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceLane:
    """Where it runs, and why."""

    engine: Engine
    why: str


@dataclass(frozen=True, slots=True)
class MaintenanceLanes:
    """The lanes of one open graph."""

    graph: GraphCoordinator
    settings: Settings
    actor: str | None

    def choose(self, request: MaintenanceRequest, engine: str) -> MaintenanceLane:
        """Where it runs; reads metadata if nobody says.

        Raises:
            InvalidArgument: there is no such lane or type, or the target is not positive.
            BranchNotFound: there is no such branch.
        """
        wished = parse_engine(engine)
        require_target(request.target_rows)
        if wished is not Engine.AUTO:
            return MaintenanceLane(engine=wished, why=f"--engine {wished.value}")
        wished = self.settings.spark.engine
        if wished is not Engine.AUTO:
            return MaintenanceLane(engine=wished, why=f"OMNIGRAPH_ENGINE is {wished.value}")
        why = why_spark(
            self.graph,
            request.branch,
            request.types,
            joins=request.joins,
            target_rows=request.target_rows,
        )
        if why is None:
            return MaintenanceLane(engine=Engine.LOCAL, why=_FEW)
        missing = _missing_spark(self.settings)
        if missing is None:
            return MaintenanceLane(engine=Engine.SPARK, why=why)
        return MaintenanceLane(engine=Engine.LOCAL, why=f"{why}, but {missing}")

    def optimize(
        self, request: MaintenanceRequest, engine: str, progress: Progress | None
    ) -> OptimizeReport:
        """Join fragments and bring indexes up to date, in the lane that is chosen."""
        if self.choose(request, engine).engine is Engine.SPARK:
            with self._job("optimize", request, progress) as job:
                return job.optimize(target_rows=request.target_rows)
        return optimize(
            self.graph,
            branch=request.branch,
            types=request.types,
            target_rows=request.target_rows,
            actor_id=self.actor,
            progress=progress,
        )

    def ensure_indices(
        self, request: MaintenanceRequest, engine: str, progress: Progress | None
    ) -> IndexReport:
        """Build indexes, in the lane that is chosen."""
        if self.choose(request, engine).engine is Engine.SPARK:
            with self._job("ensure_indices", request, progress) as job:
                return job.ensure_indices()
        return ensure_indices(
            self.graph,
            branch=request.branch,
            types=request.types,
            actor_id=self.actor,
            progress=progress,
        )

    @contextmanager
    def _job(
        self, kind: str, request: MaintenanceRequest, progress: Progress | None
    ) -> Iterator[MaintenanceJob]:
        from omnigraph.pipeline.maintenance.job import MaintenanceJob, MaintenanceOptions
        from omnigraph.pipeline.spark.job import open_job
        from omnigraph.pipeline.spark.session import open_reachable_session

        # A mistake is told before Spark is started, which takes seconds.
        find_items(self.graph, request.branch, request.types)
        shared = request.shared_filesystem
        with open_reachable_session(
            self.graph.storage.location,
            self.settings,
            command=kind.replace("_", "-"),
            shared_filesystem=shared,
        ) as session:
            job = open_job(
                self.graph,
                session,
                self.settings,
                kind=kind,
                actor_id=self.actor,
                progress=progress,
                shared_filesystem=shared,
            )
            options = MaintenanceOptions(
                branch=request.branch, types=request.types, actor_id=self.actor
            )
            yield MaintenanceJob(job, options, progress=progress)


def choose_maintenance_lane(
    graph: Graph, request: MaintenanceRequest, engine: str
) -> MaintenanceLane:
    """Where maintenance of an open graph would run, for who tells it before the call."""
    settings = graph._settings  # noqa: SLF001 - both are of the facade
    return MaintenanceLanes(graph._graph, settings, None).choose(request, engine)  # noqa: SLF001


def request_of(
    types: Iterable[str] | None,
    branch: str,
    *,
    joins: bool,
    target_rows: int | None = None,
    shared_filesystem: bool = False,
) -> MaintenanceRequest:
    """The request of a call.

    Raises:
        InvalidArgument: the types are no list of names.
    """
    return MaintenanceRequest(
        branch=branch,
        types=list_of_names(types),
        joins=joins,
        target_rows=target_rows,
        shared_filesystem=shared_filesystem,
    )


def _missing_spark(settings: Settings) -> str | None:
    """Why no session can be had, in words; asks for Java only where one would be started."""
    from omnigraph.api.load_source import has_active_session
    from omnigraph.pipeline.spark.java import find_java
    from omnigraph.pipeline.spark.session import require_pyspark

    if has_active_session():
        return None
    try:
        require_pyspark()
        if settings.spark.remote is None:
            find_java()
    except SparkNotInstalled as missing:
        return missing.message
    return None
