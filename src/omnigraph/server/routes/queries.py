"""Read queries: rows, and plans of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from omnigraph.graph.access import Action
from omnigraph.graph.bodies import plan_body
from omnigraph.server.answers import JsonAnswer
from omnigraph.server.bodies.reads import (
    ExplainOutput,
    ExplainRequest,
    LegacyReadOutput,
    QueryRequest,
    ReadOutput,
    ReadRequest,
)
from omnigraph.server.operations import GRAPH_PATH, Operation, Parameter
from omnigraph.server.rows import MEDIA_TYPES, accepted_form, answer_rows, wants_js_safe

if TYPE_CHECKING:
    from starlette.responses import Response

    from omnigraph.server.request_context import RequestContext

READ_STATUSES: Final = (400, 410, 413, 415, 429, 504)
JS_SAFE: Final = Parameter(
    name="js_safe",
    description="`true`: integers beyond 2^53 - 1 are strings.",
    enum=("true", "false"),
)


async def query(context: RequestContext) -> Response:
    """Run a read query on one snapshot."""
    return await _rows(context, await context.decode(QueryRequest), has_commit=True)


async def read(context: RequestContext) -> Response:
    """Run a read query that is sent by the names of an earlier version."""
    return await _rows(context, await context.decode(ReadRequest), has_commit=False)


async def explain(context: RequestContext) -> Response:
    """How a query runs; it is run only to be measured."""
    body = await context.decode(ExplainRequest)
    await context.authorize_state(Action.READ, body.branch, body.snapshot)
    return await context.read(
        lambda: JsonAnswer(
            plan_body(
                context.graph.explain(
                    body.query,
                    body.name,
                    body.params,
                    branch=body.branch,
                    snapshot=body.snapshot,
                    analyze=body.analyze,
                )
            )
        )
    )


async def _rows(
    context: RequestContext, body: QueryRequest | ReadRequest, *, has_commit: bool
) -> Response:
    form, js_safe = accepted_form(context), wants_js_safe(context)
    timeout_s = context.query_timeout_s()
    context.record.trail.runs(body.name)
    await context.authorize_state(Action.READ, body.branch, body.snapshot)

    def run() -> Response:
        result = context.graph.query(
            body.query,
            body.name,
            body.params,
            branch=body.branch,
            snapshot=body.snapshot,
            timeout_s=timeout_s,
        )
        context.record.trail.runs(result.query_name)
        context.server.metrics.query_rows.add(context.served.graph_id, amount=len(result))
        limits = context.server.settings.queries
        return answer_rows(result, form, limits, js_safe=js_safe, has_commit=has_commit)

    return await context.read(run)


OPERATIONS: Final = (
    Operation(
        method="POST",
        path=f"{GRAPH_PATH}/query",
        operation_id="cluster_query",
        tag="queries",
        summary="Run a read query",
        handler=query,
        request=QueryRequest,
        answer=ReadOutput,
        media_types=MEDIA_TYPES,
        statuses=READ_STATUSES,
        parameters=(JS_SAFE,),
    ),
    Operation(
        method="POST",
        path=f"{GRAPH_PATH}/read",
        operation_id="cluster_read",
        tag="queries",
        summary="Run a read query",
        handler=read,
        request=ReadRequest,
        answer=LegacyReadOutput,
        media_types=MEDIA_TYPES,
        statuses=READ_STATUSES,
        parameters=(JS_SAFE,),
        successor="query",
    ),
    Operation(
        method="POST",
        path=f"{GRAPH_PATH}/explain",
        operation_id="cluster_explain",
        tag="queries",
        summary="How a read query runs",
        handler=explain,
        request=ExplainRequest,
        answer=ExplainOutput,
        statuses=READ_STATUSES,
    ),
)
