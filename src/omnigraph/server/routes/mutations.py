"""Mutations: each is one commit, on a condition if the client sends one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from omnigraph.errors import InvalidArgument
from omnigraph.graph.access import Action
from omnigraph.graph.bodies import mutation_body
from omnigraph.ids import MAIN_BRANCH
from omnigraph.server.bodies.writes import ChangeOutput, ChangeRequest
from omnigraph.server.operations import GRAPH_PATH, Operation, Parameter
from omnigraph.server.receipts import answer_receipt
from omnigraph.server.request_context import IF_GRAPH_COMMIT

if TYPE_CHECKING:
    from starlette.responses import Response

    from omnigraph.server.request_context import RequestContext

WRITE_STATUSES: Final = (400, 409, 413, 415, 424, 429, 504)
CONDITIONAL_STATUSES: Final = (*WRITE_STATUSES, 412)
IDEMPOTENCY_KEY: Final = Parameter(
    name="Idempotency-Key",
    where="header",
    description="1 to 200 printable ASCII characters. The same request with the same key again"
    " writes nothing and gets the first receipt.",
)
CONDITION: Final = Parameter(
    name="Omnigraph-If-Graph-Commit",
    where="header",
    is_required=True,
    description="The commit that must be the head of the branch; otherwise nothing is written.",
)
_COMMIT_ID: Final = re.compile("[A-Za-z0-9_.:-]{1,128}")


def condition_of(context: RequestContext) -> str | None:
    """The head that the client expects; `None` on a route that takes no condition.

    Raises:
        InvalidArgument: the header is missing, comes twice, or is not one plain commit id.
    """
    if not context.operation.is_conditional:
        return None
    values = context.header_values(IF_GRAPH_COMMIT)
    if len(values) != 1 or not _COMMIT_ID.fullmatch(values[0]):
        raise InvalidArgument(
            "Omnigraph-If-Graph-Commit is one commit id as a read returned it: sent once, without"
            " quotes, no list and no *",
            argument="Omnigraph-If-Graph-Commit",
        )
    return values[0]


async def mutate(context: RequestContext) -> Response:
    """Run a mutation as one commit."""
    body = await context.decode(ChangeRequest)
    if_commit, key = condition_of(context), context.idempotency_key
    branch = MAIN_BRANCH if body.branch is None else body.branch
    timeout_s = context.write_timeout_s()
    context.record.trail.runs(body.name)
    await context.authorize(Action.CHANGE, branch)
    result = await context.write(
        lambda: context.graph.mutate(
            body.query,
            body.name,
            body.params,
            branch=branch,
            if_commit=if_commit,
            idempotency_key=key,
            timeout_s=timeout_s,
        ),
        context.received_bytes,
    )
    context.record.trail.runs(result.query_name)
    return answer_receipt(context, mutation_body(result), result.commit)


def _mutation(
    path: str, operation_id: str, summary: str, *, successor: str | None = None
) -> Operation:
    return Operation(
        method="POST",
        path=f"{GRAPH_PATH}/{path}",
        operation_id=operation_id,
        tag="mutations",
        summary=summary,
        handler=mutate,
        request=ChangeRequest,
        answer=ChangeOutput,
        statuses=WRITE_STATUSES,
        parameters=(IDEMPOTENCY_KEY,),
        successor=successor,
        inflight="write",
    )


OPERATIONS: Final = (
    _mutation("mutate", "cluster_mutate", "Run a mutation as one commit"),
    Operation(
        method="POST",
        path=f"{GRAPH_PATH}/mutate/if-graph-commit",
        operation_id="cluster_mutate_if_graph_commit",
        tag="mutations",
        summary="Run a mutation while a commit is the head of the branch",
        handler=mutate,
        request=ChangeRequest,
        answer=ChangeOutput,
        statuses=CONDITIONAL_STATUSES,
        parameters=(CONDITION, IDEMPOTENCY_KEY),
        is_conditional=True,
        inflight="write",
    ),
    _mutation("change", "cluster_change", "Run a mutation as one commit", successor="mutate"),
)
