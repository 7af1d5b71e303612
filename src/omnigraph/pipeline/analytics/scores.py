"""`Scores`: the result of one measure, made when it is first asked for, and in the form asked for.

What is wrong with the question is told when it is asked. The state that is measured is the one of
that moment. Once computed the rows are kept, so every form has the same ones.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from omnigraph.errors import ResourceLimit
from omnigraph.graph.access import Action
from omnigraph.graph.history.snapshot import open_snapshot, reclaimed
from omnigraph.graph.lifecycle.coordinator import OpenMode
from omnigraph.graph.results.query_result import QueryResult
from omnigraph.ids import MAIN_BRANCH
from omnigraph.lang.arrow_schema import arrow_field
from omnigraph.pipeline.analytics.local.compute import compute_here
from omnigraph.pipeline.analytics.scope import result_columns
from omnigraph.pipeline.analytics.write_back import plan_target, write_update
from omnigraph.pipeline.spark.lanes import require_spark
from omnigraph.settings import Engine
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from omnigraph.graph.blobs.addresses import ExternalBlobs
    from omnigraph.graph.gate import Gate
    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.query.target import QueryTarget
    from omnigraph.pipeline.analytics.measures import Measure
    from omnigraph.pipeline.analytics.scope import Scope
    from omnigraph.pipeline.spark.job import JobContext
    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.settings import Settings

_ROW_BYTES: Final = 64
"""What a row of a result takes in this process, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """What a measure needs of the pipeline that it belongs to."""

    graph: GraphCoordinator
    gate: Gate
    settings: Settings
    actor_id: str | None
    external: ExternalBlobs
    session: Callable[[], PipelineSession]
    """Starts Spark if it must."""
    open_job: Callable[[str, Progress | None, Engine], JobContext]
    """A job of a kind, of which somebody is told, in this process or on Spark."""


class Scores:
    """The rows of one measure: `type`, `id` and its values, by type and id."""

    def __init__(
        self,
        place: Workplace,
        scope: Scope,
        measure: Measure,
        *,
        target: QueryTarget,
        engine: Engine,
        progress: Progress | None,
    ) -> None:
        self._place = place
        self._scope = scope
        self._measure = measure
        self._target = target
        self._progress = progress
        self._lock = threading.Lock()
        self._table: pa.Table | None = None
        self._frame: DataFrame | None = None
        self.engine: Final = engine
        """Where it is computed: `local`, in this process, or `spark`."""
        self.graph_commit_id: Final = scope.snapshot.graph_commit_id
        """The state that is measured."""

    def __repr__(self) -> str:
        return f"<Scores: {self._measure.name} of {self._scope.edge.name} on {self._target}>"

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._schema.names

    @property
    def df(self) -> DataFrame:
        """The rows as a Spark frame, ordered; starts Spark if there is none.

        Raises:
            SparkUnavailable, PipelineTaskError: Spark could not do it.
        """
        if self.engine is Engine.SPARK:
            return self._kept_frame().orderBy(*self._order)
        rows = self.to_arrow()
        session = self._place.session()
        with session.configured():
            return session.spark.createDataFrame(rows)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table; a measure of this process needs no Spark.

        Raises:
            ResourceLimit: they were computed on Spark and do not fit this process.
        """
        with self._lock:
            if self._table is None:
                is_local = self.engine is Engine.LOCAL
                self._table = self._computed_here() if is_local else self._collected()
            return self._table

    def result(self) -> QueryResult:
        """The rows as those of a query: for tables, CSV, JSON, pandas."""
        return QueryResult(
            self.to_arrow(),
            result_columns(self._measure),
            query_name=self._measure.name,
            target=self._target,
            graph_commit_id=self.graph_commit_id,
        )

    def write_to(
        self, target: str, *, branch: str = MAIN_BRANCH, column: str | None = None
    ) -> JobReport:
        """Write the values to a property of the nodes, as one commit; none if nothing changes.

        Other properties keep their values. Nodes that were added since the measure keep what they
        have; if one was removed, the write is refused.

        Args:
            target: the property, as `Person.rank`.
            branch: where to write.
            column: which values, where a measure has several: `in_degree`.

        Raises:
            InvalidArgument: there is no such property, or it is of another type; nothing is run.
            LoadRejected: a node is gone meanwhile, or a value breaks a rule of the schema.
            ReadSetChanged: others changed the nodes again and again.
        """
        place = self._place
        place.gate.require(Action.CHANGE, branch)
        place.graph.require_writable()
        catalog = open_snapshot(place.graph, None, branch).catalog
        planned = plan_target(catalog, self._scope, self._measure, target, column)
        if self.engine is Engine.LOCAL:
            source = planned.rows_of(self.to_arrow())
        else:
            source = planned.frame_of(self._kept_frame(), place.settings)
        job = place.open_job("load", self._progress, self.engine)
        return write_update(
            job, source, branch=branch, actor_id=place.actor_id, external=place.external
        )

    @property
    def _schema(self) -> pa.Schema:
        columns = result_columns(self._measure)
        return pa.schema([arrow_field(column.name, column.type) for column in columns])

    @property
    def _order(self) -> list[str]:
        return [name for name in ("type", "id", "landmark") if name in self._schema.names]

    def _computed_here(self) -> pa.Table:
        job = self._place.open_job("analytics", self._progress, self.engine)
        with job.running():
            self._hold(job)
            table = compute_here(self._scope, self._measure, job.stages)
            job.stages.end()
            return table

    def _kept_frame(self) -> DataFrame:
        with self._lock:
            if self._frame is None:
                self._frame = self._computed_on_spark()
            return self._frame

    def _computed_on_spark(self) -> DataFrame:
        from omnigraph.pipeline.analytics.distributed.compute import compute_frame

        job = self._place.open_job("analytics", self._progress, self.engine)
        with job.running():
            self._hold(job)
            job.require_executors()
            try:
                frame = compute_frame(job, self._scope, self._measure)
            except ObjectMissing as error:
                raise reclaimed(self._scope.snapshot) from error
            job.stages.end()
            return frame

    def _hold(self, job: JobContext) -> None:
        """Keep the versions from a cleanup; who may not write cannot."""
        if job.graph.mode is OpenMode.READ_WRITE:
            scope = self._scope
            handles = [scope.snapshot.handle(item) for item in scope.nodes]
            job.pin.hold([scope.snapshot.handle(scope.edge), *handles])

    def _collected(self) -> pa.Table:
        rows = self._scope.result_rows(self._measure)
        limit = self._place.settings.pipeline.analytics_local_bytes
        if rows * _ROW_BYTES > limit:
            raise ResourceLimit(
                f"{rows:,} rows take about {rows * _ROW_BYTES:,} bytes in this process, which may"
                f" use {limit:,}; take them as a frame (.df), write them to a property, or raise"
                " OMNIGRAPH_PIPELINE_ANALYTICS_LOCAL_BYTES",
                resource="analytics_local_bytes",
                limit=limit,
                actual=rows * _ROW_BYTES,
            )
        if self._frame is None:
            self._frame = self._computed_on_spark()
        frame = self._frame.orderBy(*self._order)
        job = self._place.open_job("analytics", self._progress, self.engine)
        lane = require_spark(job.lane)
        with lane.configured():
            given = lane.runner.run("collect", frame.toArrow)
        columns = [given[field.name].cast(field.type) for field in self._schema]
        return pa.Table.from_arrays(columns, schema=self._schema)
