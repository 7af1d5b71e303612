"""Stored queries: the catalog, and calls by name.

Who may not call a query gets what it would get for a name that does not exist, byte for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from omnigraph.errors import StoredQueryNotFound
from omnigraph.graph.access import Action
from omnigraph.graph.bodies import mutation_body
from omnigraph.graph.results.mutation_result import MutationResult
from omnigraph.graph.results.query_result import QueryResult
from omnigraph.ids import MAIN_BRANCH
from omnigraph.server.answers import JsonAnswer
from omnigraph.server.bodies.stored_queries import (
    InvokeStoredQueryRequest,
    InvokeStoredQueryResponse,
    QueryCatalogOutput,
)
from omnigraph.server.bodies.writes import ChangeOutput
from omnigraph.server.operations import GRAPH_PATH, Operation
from omnigraph.server.receipts import answer_receipt
from omnigraph.server.routes.mutations import (
    CONDITION,
    CONDITIONAL_STATUSES,
    IDEMPOTENCY_KEY,
    WRITE_STATUSES,
    condition_of,
)
from omnigraph.server.routes.queries import JS_SAFE
from omnigraph.server.rows import MEDIA_TYPES, accepted_form, answer_rows, wants_js_safe

if TYPE_CHECKING:
    from starlette.responses import Response

    from omnigraph.lang import StoredQuery
    from omnigraph.server.request_context import RequestContext


async def list_queries(context: RequestContext) -> Response:
    """The catalog; of queries that differ in who may call them, those that the actor may."""
    await context.authorize(Action.READ, MAIN_BRANCH)
    entries = await context.read(context.graph.queries.list)
    return JsonAnswer({"queries": [entry.to_dict() for entry in entries]})


async def invoke_query(context: RequestContext) -> Response:
    """Run a stored query: a read on one snapshot, or a mutation as one commit."""
    body = await context.decode(InvokeStoredQueryRequest, is_optional=True)
    if_commit, key = condition_of(context), context.idempotency_key
    form, js_safe = accepted_form(context), wants_js_safe(context)
    entry = await _find(context, context.path["name"])
    context.record.trail.runs(entry.name)
    if entry.mutation:
        branch = MAIN_BRANCH if body.branch is None else body.branch
        await context.authorize(Action.CHANGE, branch)
    else:
        await context.authorize_state(Action.READ, body.branch, body.snapshot)
    timeout_s = context.write_timeout_s() if entry.mutation else context.query_timeout_s()

    def run() -> QueryResult | MutationResult:
        return context.graph.queries.invoke(
            entry.name,
            body.params,
            branch=body.branch,
            snapshot=body.snapshot,
            if_commit=if_commit,
            idempotency_key=key,
            expect_mutation=body.expect_mutation,
            timeout_s=timeout_s,
        )

    def rows() -> Response:
        result = run()
        if not isinstance(result, QueryResult):
            raise TypeError(f"stored query {entry.name} is no read")
        limits = context.server.settings.queries
        return answer_rows(result, form, limits, js_safe=js_safe)

    if not entry.mutation:
        return await context.read(rows)
    receipt = await context.write(run, context.received_bytes)
    if not isinstance(receipt, MutationResult):
        raise TypeError(f"stored query {entry.name} is no mutation")
    return answer_receipt(context, mutation_body(receipt), receipt.commit)


async def _find(context: RequestContext, name: str) -> StoredQuery:
    """The query of a name that the actor may call.

    Raises:
        StoredQueryNotFound: there is none, or the actor may not; the two are told alike.
    """
    decision = await context.decide(Action.INVOKE_QUERY, query_name=name)
    queries = context.served.graph.queries
    entry = await context.run(lambda: queries.get(name))
    if decision is not None and not decision.allowed:
        raise StoredQueryNotFound("stored query not found")
    return entry


OPERATIONS: Final = (
    Operation(
        method="GET",
        path=f"{GRAPH_PATH}/queries",
        operation_id="cluster_list_queries",
        tag="queries",
        summary="The stored queries",
        handler=list_queries,
        answer=QueryCatalogOutput,
        statuses=(400, 410, 413, 429, 504),
    ),
    Operation(
        method="POST",
        path=f"{GRAPH_PATH}/queries/{{name}}",
        operation_id="cluster_invoke_query",
        tag="queries",
        summary="Run a stored query",
        handler=invoke_query,
        request=InvokeStoredQueryRequest,
        is_request_optional=True,
        answer=InvokeStoredQueryResponse,
        media_types=MEDIA_TYPES,
        statuses=(*WRITE_STATUSES, 410),
        parameters=(JS_SAFE, IDEMPOTENCY_KEY),
        inflight="write",
    ),
    Operation(
        method="POST",
        path=f"{GRAPH_PATH}/queries/{{name}}/if-graph-commit",
        operation_id="cluster_invoke_query_if_graph_commit",
        tag="queries",
        summary="Run a stored mutation while a commit is the head of the branch",
        handler=invoke_query,
        request=InvokeStoredQueryRequest,
        is_request_optional=True,
        answer=ChangeOutput,
        statuses=(*CONDITIONAL_STATUSES, 410),
        parameters=(CONDITION, IDEMPOTENCY_KEY),
        is_conditional=True,
        inflight="write",
    ),
)
