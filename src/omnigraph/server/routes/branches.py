"""Branches: listed, forked, deleted, merged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from omnigraph.graph.access import Action
from omnigraph.graph.bodies import merge_body
from omnigraph.ids import MAIN_BRANCH
from omnigraph.server.answers import JsonAnswer, answer
from omnigraph.server.bodies.branches import (
    BranchCreateOutput,
    BranchCreateRequest,
    BranchDeleteOutput,
    BranchListOutput,
    BranchMergeOutput,
    BranchMergePlanOutput,
    BranchMergePlanRequest,
    BranchMergeRequest,
)
from omnigraph.server.operations import GRAPH_PATH, Operation
from omnigraph.server.receipts import answer_receipt
from omnigraph.server.request_context import trimmed_argument
from omnigraph.server.routes.mutations import IDEMPOTENCY_KEY
from omnigraph.server.workload import BRANCH_OPERATION_BYTES

if TYPE_CHECKING:
    from starlette.responses import Response

    from omnigraph.server.request_context import RequestContext


async def list_branches(context: RequestContext) -> Response:
    """The names of live branches."""
    await context.authorize(Action.READ)
    branches = await context.read(context.graph.branches.list)
    return answer(BranchListOutput(branches=sorted(branch.name for branch in branches)))


async def create_branch(context: RequestContext) -> Response:
    """Fork a branch at the head of another."""
    body = await context.decode(BranchCreateRequest)
    base = MAIN_BRANCH if body.from_ is None else body.from_
    await context.authorize(Action.BRANCH_CREATE, base, body.name)
    await context.write(
        lambda: context.graph.branches.create(body.name, from_=base), BRANCH_OPERATION_BYTES
    )
    created = {"from": base, "name": body.name, "actor_id": context.actor}
    return answer(BranchCreateOutput.model_validate({"uri": context.served.uri, **created}))


async def delete_branch(context: RequestContext) -> Response:
    """Delete a branch."""
    name = trimmed_argument(context.path["branch"], "branch")
    await context.authorize(Action.BRANCH_DELETE, target_branch=name)
    await context.write(lambda: context.graph.branches.delete(name), BRANCH_OPERATION_BYTES)
    return answer(BranchDeleteOutput(uri=context.served.uri, name=name, actor_id=context.actor))


async def merge_branches(context: RequestContext) -> Response:
    """Merge one branch into another; the source is deleted only by who may delete it.

    The merge stands whatever becomes of the deletion, which therefore never fails the request.
    """
    body = await context.decode(BranchMergeRequest)
    key = context.idempotency_key
    target = MAIN_BRANCH if body.target is None else body.target
    await context.authorize(Action.BRANCH_MERGE, body.source, target)
    refusal = None
    if body.delete_branch:
        decision = await context.decide(Action.BRANCH_DELETE, target_branch=body.source)
        refusal = None if decision is None or decision.allowed else decision.message
    result = await context.write(
        lambda: context.graph.branches.merge(
            body.source,
            into=target,
            strategy=body.strategy,
            resolutions=body.resolutions,
            delete_branch=body.delete_branch and refusal is None,
            if_commit=body.if_commit,
            idempotency_key=key,
        ),
        max(BRANCH_OPERATION_BYTES, context.received_bytes),
    )
    if refusal is not None:
        result = replace(result, branch_deleted=False, branch_delete_error=refusal)
    return answer_receipt(context, merge_body(result), result.commit)


async def plan_merge(context: RequestContext) -> Response:
    """What a merge would do; nothing is written."""
    body = await context.decode(BranchMergePlanRequest)
    target = MAIN_BRANCH if body.target is None else body.target
    for branch in (body.source, target):
        await context.authorize(Action.READ, branch)
    return await context.read(
        lambda: JsonAnswer(
            context.graph.branches.merge_plan(
                body.source, into=target, strategy=body.strategy, resolutions=body.resolutions
            ).to_dict()
        )
    )


OPERATIONS: Final = (
    Operation(
        method="GET",
        path=f"{GRAPH_PATH}/branches",
        operation_id="cluster_listBranches",
        tag="branches",
        summary="The names of the branches",
        handler=list_branches,
        answer=BranchListOutput,
        statuses=(400, 429, 504),
    ),
    Operation(
        method="POST",
        path=f"{GRAPH_PATH}/branches",
        operation_id="cluster_createBranch",
        tag="branches",
        summary="Fork a branch",
        handler=create_branch,
        request=BranchCreateRequest,
        answer=BranchCreateOutput,
        statuses=(400, 409, 413, 415, 429, 504),
        inflight="write",
    ),
    Operation(
        method="POST",
        path=f"{GRAPH_PATH}/branches/merge",
        operation_id="cluster_mergeBranches",
        tag="branches",
        summary="Merge one branch into another",
        handler=merge_branches,
        request=BranchMergeRequest,
        answer=BranchMergeOutput,
        statuses=(400, 409, 410, 412, 413, 415, 424, 429, 504),
        parameters=(IDEMPOTENCY_KEY,),
        inflight="write",
    ),
    Operation(
        method="POST",
        path=f"{GRAPH_PATH}/branches/merge/plan",
        operation_id="cluster_planMerge",
        tag="branches",
        summary="What a merge would do",
        handler=plan_merge,
        request=BranchMergePlanRequest,
        answer=BranchMergePlanOutput,
        statuses=(400, 409, 410, 413, 415, 429, 504),
    ),
    Operation(
        method="DELETE",
        path=f"{GRAPH_PATH}/branches/{{branch:path}}",
        operation_id="cluster_deleteBranch",
        tag="branches",
        summary="Delete a branch",
        handler=delete_branch,
        answer=BranchDeleteOutput,
        statuses=(400, 409, 413, 429, 504),
        inflight="write",
    ),
)
