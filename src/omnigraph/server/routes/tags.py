"""Tags: commits under a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from omnigraph.graph.access import Action
from omnigraph.ids import MAIN_BRANCH
from omnigraph.server.answers import JsonAnswer, answer
from omnigraph.server.bodies.tags import (
    TagCreateRequest,
    TagDeleteOutput,
    TagListOutput,
    TagOutput,
)
from omnigraph.server.operations import GRAPH_PATH, Operation
from omnigraph.server.request_context import trimmed_argument
from omnigraph.server.workload import BRANCH_OPERATION_BYTES

if TYPE_CHECKING:
    from starlette.responses import Response

    from omnigraph.server.request_context import RequestContext


async def list_tags(context: RequestContext) -> Response:
    """Every tag, by name."""
    await context.authorize(Action.READ)
    tags = await context.read(context.graph.tags.list)
    return JsonAnswer({"tags": [tag.to_dict() for tag in tags]})


async def create_tag(context: RequestContext) -> Response:
    """Give a commit a name."""
    body = await context.decode(TagCreateRequest)
    branch = MAIN_BRANCH if body.branch is None else body.branch
    if body.at is None:
        await context.authorize(Action.BRANCH_CREATE, branch, body.name)
    else:
        await context.authorize_state(Action.BRANCH_CREATE, branch, body.at, body.name)
    made = await context.write(
        lambda: context.graph.tags.create(body.name, body.at, branch=branch),
        BRANCH_OPERATION_BYTES,
    )
    return JsonAnswer(made.to_dict())


async def show_tag(context: RequestContext) -> Response:
    """One tag."""
    name = trimmed_argument(context.path["tag"], "tag")
    await context.authorize(Action.READ)
    found = await context.read(lambda: context.graph.tags.get(name))
    return JsonAnswer(found.to_dict())


async def delete_tag(context: RequestContext) -> Response:
    """Delete a tag; its commit stays."""
    name = trimmed_argument(context.path["tag"], "tag")
    await context.authorize(Action.BRANCH_DELETE, target_branch=name)
    await context.write(lambda: context.graph.tags.delete(name), BRANCH_OPERATION_BYTES)
    return answer(TagDeleteOutput(uri=context.served.uri, name=name, actor_id=context.actor))


OPERATIONS: Final = (
    Operation(
        method="GET",
        path=f"{GRAPH_PATH}/tags",
        operation_id="cluster_listTags",
        tag="tags",
        summary="The tags",
        handler=list_tags,
        answer=TagListOutput,
        statuses=(400, 429, 504),
    ),
    Operation(
        method="POST",
        path=f"{GRAPH_PATH}/tags",
        operation_id="cluster_createTag",
        tag="tags",
        summary="Give a commit a name",
        handler=create_tag,
        request=TagCreateRequest,
        answer=TagOutput,
        statuses=(400, 409, 410, 413, 415, 429, 504),
        inflight="write",
    ),
    Operation(
        method="GET",
        path=f"{GRAPH_PATH}/tags/{{tag:path}}",
        operation_id="cluster_getTag",
        tag="tags",
        summary="One tag",
        handler=show_tag,
        answer=TagOutput,
        statuses=(400, 429, 504),
    ),
    Operation(
        method="DELETE",
        path=f"{GRAPH_PATH}/tags/{{tag:path}}",
        operation_id="cluster_deleteTag",
        tag="tags",
        summary="Delete a tag",
        handler=delete_tag,
        answer=TagDeleteOutput,
        statuses=(400, 409, 413, 429, 504),
        inflight="write",
    ),
)
