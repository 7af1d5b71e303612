"""The history: commits that a branch reaches, and single ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from omnigraph.graph.access import Action
from omnigraph.graph.bodies import commit_page_body, revert_body, shown_commit_body
from omnigraph.ids import MAIN_BRANCH
from omnigraph.server.answers import JsonAnswer
from omnigraph.server.bodies.commits import (
    CommitListOutput,
    CommitOutput,
    CommitRevertOutput,
    CommitRevertRequest,
)
from omnigraph.server.operations import GRAPH_PATH, Operation, Parameter
from omnigraph.server.parameters import flag_of, number_of
from omnigraph.server.receipts import answer_receipt
from omnigraph.server.routes.snapshot import BRANCH
from omnigraph.server.workload import BRANCH_OPERATION_BYTES

if TYPE_CHECKING:
    from starlette.responses import Response

    from omnigraph.server.request_context import RequestContext


async def list_commits(context: RequestContext) -> Response:
    """What the head of a branch reaches, newest first."""
    given, branch = context.query, context.query_branch()
    most = context.server.settings.queries.max_result_rows
    limit = min(number_of(given, "limit", default=most), most)
    shows_all = flag_of(given, "all")
    await context.authorize(Action.READ, branch)
    return await context.read(
        lambda: JsonAnswer(
            commit_page_body(
                context.graph.commits.list(
                    branch=branch,
                    actor=given.get("actor"),
                    kind=given.get("kind"),
                    operation=given.get("operation"),
                    all=shows_all,
                    limit=limit,
                    cursor=given.get("cursor"),
                )
            )
        )
    )


async def show_commit(context: RequestContext) -> Response:
    """One commit of any branch."""
    commit_id = context.path["commit_id"]
    await context.authorize(Action.READ)
    return await context.read(
        lambda: JsonAnswer(shown_commit_body(context.graph.commits.get(commit_id)))
    )


async def revert_commit(context: RequestContext) -> Response:
    """Undo what a commit changed, as a new commit."""
    body = await context.decode(CommitRevertRequest, is_optional=True)
    undone = context.path["commit_id"]
    branch = MAIN_BRANCH if body.branch is None else body.branch
    await context.authorize(Action.CHANGE, branch)
    await context.authorize_state(Action.READ, branch, undone)
    made = await context.write(
        lambda: context.graph.commits.revert(undone, branch=branch, if_commit=body.if_commit),
        BRANCH_OPERATION_BYTES,
    )
    return answer_receipt(context, revert_body(undone, branch, made), made)


OPERATIONS: Final = (
    Operation(
        method="GET",
        path=f"{GRAPH_PATH}/commits",
        operation_id="cluster_listCommits",
        tag="commits",
        summary="The history of a branch",
        handler=list_commits,
        answer=CommitListOutput,
        statuses=(400, 413, 429, 504),
        parameters=(
            BRANCH,
            Parameter(name="limit", kind="integer", description="How many commits a page has."),
            Parameter(name="cursor", description="`next_cursor` of the page before."),
            Parameter(name="actor", description="Only commits of this actor."),
            Parameter(name="kind", description="Only commits of this kind."),
            Parameter(name="operation", description="Only the commit of this operation."),
            Parameter(
                name="all",
                description="`true`: also commits that change no row.",
                enum=("true", "false"),
            ),
        ),
    ),
    Operation(
        method="GET",
        path=f"{GRAPH_PATH}/commits/{{commit_id}}",
        operation_id="cluster_getCommit",
        tag="commits",
        summary="One commit",
        handler=show_commit,
        answer=CommitOutput,
        statuses=(400, 413, 429, 504),
    ),
    Operation(
        method="POST",
        path=f"{GRAPH_PATH}/commits/{{commit_id}}/revert",
        operation_id="cluster_revertCommit",
        tag="commits",
        summary="Undo what a commit changed, as a new commit",
        handler=revert_commit,
        request=CommitRevertRequest,
        is_request_optional=True,
        answer=CommitRevertOutput,
        statuses=(400, 409, 410, 412, 413, 415, 429, 504),
        inflight="write",
    ),
)
