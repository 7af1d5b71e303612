"""Where a read query runs: in this process or on Spark, and how it is handed over.

A request holds a state that was opened for whoever asks, so what comes here is authorised.
"""

from __future__ import annotations

import math
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from omnigraph.errors import InvalidArgument
from omnigraph.settings import Engine as Lane
from omnigraph.settings import SparkSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from omnigraph.engine.engine import Engine, QueryRequest
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.query.plan import Plan
    from omnigraph.graph.results.query_result import QueryResult
    from omnigraph.pipeline.query.executor import SparkExecutor
    from omnigraph.pipeline.query.prepared import SparkQuery
    from omnigraph.settings import Settings

_LANES: Final = frozenset(Lane)
_UNSET_MASTER: Final = SparkSettings().master


@dataclass(frozen=True, slots=True)
class QueryLanes:
    """The lanes of the queries of one open graph."""

    graph: GraphCoordinator
    engine: Engine
    settings: Settings

    def query(self, request: QueryRequest, executor: str) -> QueryResult:
        """The rows of a query, by the lane that it takes.

        Raises:
            InvalidArgument: there is no such lane.
        """
        if not self._takes_spark(request, executor):
            return self.engine.query(request)
        query = self._prepared(request)
        with self._spark() as spark:
            timeout_ms = self.engine.timeout_ms(request.timeout_s)
            return spark.result(query, request.target, timeout_ms=timeout_ms)

    def explain(self, request: QueryRequest, executor: str, *, analyze: bool) -> Plan:
        """The plan of a query, with what Spark would do if it runs there.

        Raises:
            InvalidArgument: there is no such lane, or it is asked to measure, which only the plan
                of this process can.
        """
        from omnigraph.engine.explain import explain

        if not self._takes_spark(request, executor):
            return explain(self.engine, request, analyze=analyze)
        if analyze:
            raise InvalidArgument(
                "a plan for Spark is not measured; leave analyze out, or give executor='local'",
                argument="analyze",
            )
        plan = explain(self.engine, request)
        query = self._prepared(request)
        with self._spark() as spark:
            return plan.on_spark(spark.plan_text(query))

    def _takes_spark(self, request: QueryRequest, executor: str) -> bool:
        """Whether it is asked to, or is too large for here.

        `auto` estimates only where there is a session of Spark, or one is set up.
        """
        if executor not in _LANES:
            raise InvalidArgument(
                f"executor is 'auto', 'local' or 'spark', not {executor!r}", argument="executor"
            )
        lane = self.settings.spark.engine if executor == Lane.AUTO else Lane(executor)
        if lane is not Lane.AUTO:
            return lane is Lane.SPARK
        if not (_is_set_up(self.settings) or _is_active()):
            return False
        from omnigraph.engine.explain import explain

        steps = explain(self.engine, request).ops
        most = max(_largest(steps), _product(steps))
        return most > self.settings.queries.max_binding_rows

    def _prepared(self, request: QueryRequest) -> SparkQuery:
        from omnigraph.pipeline.query.prepared import prepare

        return prepare(
            request.snapshot,
            request.source,
            request.name,
            request.params,
            now_ms=self.engine.now_ms(),
        )

    @contextmanager
    def _spark(self) -> Iterator[SparkExecutor]:
        from omnigraph.pipeline.query.executor import open_executor
        from omnigraph.pipeline.spark.session import open_reachable_session

        location = self.graph.storage.location
        with (
            open_reachable_session(location, self.settings, command="query") as session,
            open_executor(
                self.graph, session, self.settings.embedding, self.engine.given_embedder
            ) as executor,
        ):
            yield executor


def _is_active() -> bool:
    # Of every query this is asked: what would find out is not even imported without PySpark.
    if "pyspark.sql" not in sys.modules:
        return False
    from omnigraph.api.load_source import has_active_session

    return has_active_session()


def _is_set_up(settings: Settings) -> bool:
    spark = settings.spark
    return spark.remote is not None or spark.master != _UNSET_MASTER


def _product(steps: Sequence[Mapping[str, Any]]) -> int:
    """The rows of a cross product; where a condition may join the parts, nothing is said."""
    kinds = [step["op"] for step in steps]
    if kinds.count("NodeScan") < 2 or "Where" in kinds:
        return 0
    return math.prod(int(step["est_rows"]) for step in steps if step["op"] == "NodeScan")


def _largest(ops: Iterable[Mapping[str, Any]]) -> int:
    """The most rows that a step is thought to leave; one with a form of its own leaves few."""
    leaving = (step for step in ops if "form" not in step)
    return max(
        (max(int(step["est_rows"]), _largest(step.get("inner", ()))) for step in leaving), default=0
    )
