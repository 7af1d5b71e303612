"""Where a read query runs: in this process or on Spark, and how it is handed over."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from omnigraph.engine.explain import explain
from omnigraph.errors import InvalidArgument
from omnigraph.settings import Engine as Lane
from omnigraph.settings import SparkSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from omnigraph.engine.engine import Engine, QueryRequest
    from omnigraph.graph.query.plan import Plan
    from omnigraph.graph.results.query_result import QueryResult
    from omnigraph.pipeline.pipeline import Pipeline
    from omnigraph.settings import Settings


def runs_on_spark(executor: str, engine: Engine, request: QueryRequest, settings: Settings) -> bool:
    """Whether a query runs on Spark: when it is asked to, or when it is too large for here.

    `auto` estimates only where there is a session of Spark, or one is set up.

    Raises:
        InvalidArgument: there is no such lane.
    """
    if executor not in set(Lane):
        raise InvalidArgument(
            f"executor is 'auto', 'local' or 'spark', not {executor!r}", argument="executor"
        )
    lane = settings.spark.engine if executor == Lane.AUTO else Lane(executor)
    if lane is not Lane.AUTO:
        return lane is Lane.SPARK
    if not (_is_set_up(settings) or _is_active()):
        return False
    steps = explain(engine, request).ops
    most = max(_largest(steps), _product(steps))
    return most > settings.queries.max_binding_rows


def run_on_spark(pipeline: Pipeline, engine: Engine, request: QueryRequest) -> QueryResult:
    """The rows of a query, by Spark."""
    from omnigraph.pipeline.query.prepared import prepare

    query = prepare(
        request.snapshot, request.source, request.name, request.params, now_ms=engine.now_ms()
    )
    with pipeline:
        return pipeline.run_query(
            query, request.target, timeout_ms=engine.timeout_ms(request.timeout_s)
        )


def explain_on_spark(
    pipeline: Pipeline, engine: Engine, request: QueryRequest, *, analyze: bool
) -> Plan:
    """The plan of a query with what Spark would do; parameters must be given.

    Raises:
        InvalidArgument: it is asked to measure, which only the plan of this process can.
    """
    from omnigraph.pipeline.query.prepared import prepare

    if analyze:
        raise InvalidArgument(
            "a plan for Spark is not measured; leave analyze out, or give executor='local'",
            argument="analyze",
        )
    plan = explain(engine, request)
    query = prepare(
        request.snapshot, request.source, request.name, request.params, now_ms=engine.now_ms()
    )
    with pipeline:
        return plan.on_spark(pipeline.query_plan(query))


def _is_active() -> bool:
    # Of every query this is asked: what would find out is not even imported without PySpark.
    if "pyspark.sql" not in sys.modules:
        return False
    from omnigraph.api.load_source import has_active_session

    return has_active_session()


def _is_set_up(settings: Settings) -> bool:
    spark = settings.spark
    return spark.remote is not None or spark.master != SparkSettings().master


def _product(steps: Sequence[Mapping[str, Any]]) -> int:
    """The rows of a cross product; where a condition may join the parts, nothing is said."""
    kinds = [step["op"] for step in steps]
    if kinds.count("NodeScan") < 2 or "Where" in kinds:
        return 0
    return math.prod(int(step["est_rows"]) for step in steps if step["op"] == "NodeScan")


def _largest(ops: Iterable[Mapping[str, Any]]) -> int:
    """The most rows that a step is thought to leave."""
    return max(
        (max(int(step["est_rows"]), _largest(step.get("inner", ()))) for step in ops), default=0
    )
