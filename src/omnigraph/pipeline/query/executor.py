"""Runs read queries of one snapshot on Spark: the IR in, a lazy frame or the rows of a result out.

The rows are those of the engine, in the same order, with the declared types. A frame that is lazy
reads its tables when Spark runs it; only walks of several hops run while it is built.
"""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.errors import Cancelled, DeadlineExceeded
from omnigraph.graph.arrays import one_array
from omnigraph.graph.history.snapshot import reclaimed
from omnigraph.graph.query.query_vectors import QueryEmbedder
from omnigraph.graph.results.query_result import QueryResult
from omnigraph.lang.arrow_schema import arrow_field
from omnigraph.pipeline.query.expand import Expander
from omnigraph.pipeline.query.expressions import Expressions
from omnigraph.pipeline.query.keeper import Keeper
from omnigraph.pipeline.query.leaves import leaves_by_variable
from omnigraph.pipeline.query.match import Matcher
from omnigraph.pipeline.query.match_frame import Names
from omnigraph.pipeline.query.projection import Projector
from omnigraph.pipeline.query.tables import SparkTables
from omnigraph.pipeline.spark.stage_runner import StageRunner
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from omnigraph.embedding import Embedder
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.query.target import QueryTarget
    from omnigraph.lang.ir import QueryIR
    from omnigraph.pipeline.query.prepared import SparkQuery
    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.settings import EmbeddingSettings

STAGE = "query"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkExecutor:
    """Runs queries of one open graph on one session, for callers who have authorised them."""

    graph: GraphCoordinator
    session: PipelineSession
    embedder: QueryEmbedder

    def frame(self, query: SparkQuery) -> DataFrame:
        """The rows as a lazy frame, in the order of the result."""
        with self.session.configured():
            return self._frame(query, Keeper(StageRunner(self.session)))

    def plan_text(self, query: SparkQuery) -> str:
        """What Spark would do; nothing is run."""
        with self.session.configured():
            return self.session.plan_text(self._frame(query, Keeper(None)))

    def result(self, query: SparkQuery, target: QueryTarget, *, timeout_ms: int) -> QueryResult:
        """The rows of the result.

        Raises:
            DeadlineExceeded: the time is up; 0 is no limit.
            SnapshotReclaimed: cleanup removed files while they were read.
            PipelineTaskError, SparkUnavailable: Spark could not do it.
        """
        schema = result_schema(query.query)
        rows = schema.empty_table()
        if query.query.limit != 0:
            runner = StageRunner(self.session)
            with self.session.configured(), _within(timeout_ms, runner):
                frame = self._frame(query, Keeper(runner))
                rows = to_declared(runner.run(STAGE, frame.toArrow), schema)
        return QueryResult(
            rows,
            query.query.result_schema,
            query_name=query.name,
            target=target,
            graph_commit_id=query.snapshot.graph_commit_id,
        )

    def _frame(self, query: SparkQuery, keeper: Keeper) -> DataFrame:
        names = Names()
        leaves = leaves_by_variable(query.query)
        tables = SparkTables(
            session=self.session,
            root=str(self.graph.storage.location),
            store=self.graph.tables,
            snapshot=query.snapshot,
            names=names,
            params=query.params,
            leaves=leaves,
            embed=self.embedder.embed,
        )
        expressions = Expressions(params=query.params)
        matcher = Matcher(
            tables=tables,
            expander=Expander(tables=tables, leaves=leaves, names=names, keeper=keeper),
            expressions=expressions,
            names=names,
        )
        projector = Projector(
            query=query.query,
            matcher=matcher,
            expressions=expressions,
            names=names,
            keeper=keeper,
        )
        try:
            return projector.result(matcher.run(query.query.ops))
        except ObjectMissing as error:
            raise reclaimed(query.snapshot) from error


@contextmanager
def open_executor(
    graph: GraphCoordinator,
    session: PipelineSession,
    settings: EmbeddingSettings,
    embedder: Embedder | None,
    *,
    shared_filesystem: bool = False,
) -> Iterator[SparkExecutor]:
    """The executor of a graph on a session; an embedder that is given wins over the settings.

    Raises:
        InvalidArgument: the graph is on a local path, and tasks run elsewhere.
    """
    session.require_access(graph.storage.location, shared_filesystem=shared_filesystem)
    with closing(QueryEmbedder(settings, graph.clock, given=embedder)) as texts:
        yield SparkExecutor(graph=graph, session=session, embedder=texts)


def result_schema(query: QueryIR) -> pa.Schema:
    """What the descriptor promises."""
    return pa.schema([arrow_field(column.name, column.type) for column in query.result_schema])


def to_declared(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """What Spark gave with the declared types: it has no unsigned numbers and no vectors."""
    columns = [
        one_array(column).cast(field.type)
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


@contextmanager
def _within(timeout_ms: int, runner: StageRunner) -> Iterator[None]:
    """Cancel what runs when the time is up.

    Raises:
        DeadlineExceeded: it was.
    """
    if not timeout_ms:
        yield
        return
    is_late = threading.Event()

    def end() -> None:
        is_late.set()
        runner.cancel()

    timer = threading.Timer(timeout_ms / 1_000, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Cancelled as error:
        if not is_late.is_set():
            raise
        raise DeadlineExceeded(
            f"the query ran longer than {timeout_ms} ms on Spark; narrow it, or give it more time"
            " (timeout, OMNIGRAPH_QUERY_TIMEOUT_MS)",
            timeout_ms=timeout_ms,
            phase="query",
        ) from error
    finally:
        timer.cancel()
