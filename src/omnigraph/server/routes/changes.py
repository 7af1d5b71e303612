"""Changes: of one commit, of a branch by and by, and the base to begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from omnigraph.errors import CommitNotFound, InvalidArgument
from omnigraph.graph.access import Action
from omnigraph.graph.changes.change_pages import DEFAULT_PAGE
from omnigraph.ids import MAIN_BRANCH
from omnigraph.server.answers import JsonAnswer
from omnigraph.server.bodies.changes import (
    ChangeBaselineRequest,
    ChangeFeedOutput,
    CommitChangesOutput,
    DiffOutput,
    ExportRequest,
)
from omnigraph.server.operations import GRAPH_PATH, Operation, Parameter
from omnigraph.server.parameters import flag_of, known_parameters, number_of
from omnigraph.server.routes.snapshot import BRANCH
from omnigraph.server.rows import NDJSON
from omnigraph.server.streams import answer_stream

if TYPE_CHECKING:
    from starlette.responses import Response

    from omnigraph.server.request_context import RequestContext

_STREAM_TYPE: Final = f"{NDJSON}; charset=utf-8"
_STREAM_STATUSES: Final = (400, 409, 410, 413, 415, 429)
_CHANGE_STATUSES: Final = (400, 409, 410, 413, 429, 504)
_PAGE: Final = (
    Parameter(name="page_token", description="`next_page_token` of the page before."),
    Parameter(
        name="limit", kind="integer", description="How many changes a page has; 1,000 without it."
    ),
    Parameter(name="kind", is_list=True, enum=("node", "edge"), description="Only of these kinds."),
    Parameter(name="type", is_list=True, description="Only of these types."),
    Parameter(
        name="op",
        is_list=True,
        enum=("insert", "update", "delete"),
        description="Only these operations.",
    ),
)


async def commit_changes(context: RequestContext) -> Response:
    """What a commit changed; who may not read its branch is told that there is no such commit."""
    single, several = known_parameters(context)
    limit = number_of(single, "limit", default=DEFAULT_PAGE)
    commit_id = context.path["commit_id"]
    branch = await _branch_of(context, commit_id)
    decision = await context.decide(Action.READ, branch)
    if decision is not None and not decision.allowed:
        raise _no_commit(commit_id)
    return await context.read(
        lambda: JsonAnswer(
            context.graph.commits.changes(
                commit_id,
                kinds=several["kind"],
                types=several["type"],
                ops=several["op"],
                limit=limit,
                page_token=single.get("page_token"),
            ).to_dict()
        )
    )


async def _branch_of(context: RequestContext, commit_id: str) -> str:
    commits = context.served.graph.commits
    try:
        return await context.run(lambda: commits.get(commit_id).graph_branch)
    except CommitNotFound:
        raise _no_commit(commit_id) from None


def _no_commit(commit_id: str) -> CommitNotFound:
    return CommitNotFound(f"there is no commit '{commit_id}'", graph_commit_id=commit_id)


async def poll_changes(context: RequestContext) -> Response:
    """What happened on a branch since a cursor."""
    single, several = known_parameters(context)
    branch = context.query_branch()
    limit = number_of(single, "limit", default=DEFAULT_PAGE)
    if len({"cursor", "start", "page_token"} & single.keys()) > 1:
        raise InvalidArgument(
            "give one of cursor, start and page_token: each tells where to begin",
            argument="cursor",
        )
    has_cursors = flag_of(single, "cursors")
    await context.authorize(Action.READ, branch)

    def run() -> Response:
        page = context.graph.changes.poll(
            branch=branch,
            cursor=single.get("cursor"),
            start=single.get("start"),
            page_token=single.get("page_token"),
            kinds=several["kind"],
            types=several["type"],
            ops=several["op"],
            limit=limit,
        )
        body = page.to_dict()
        if has_cursors:
            for block, told in zip(page.blocks, body["blocks"], strict=True):
                told.update({} if block.cursor is None else {"cursor": block.cursor})
        return JsonAnswer(body)

    return await context.read(run)


async def diff(context: RequestContext) -> Response:
    """What differs between two states: heads of branches, commits or tags."""
    single, several = known_parameters(context)
    limit = number_of(single, "limit", default=DEFAULT_PAGE)
    has_stats = flag_of(single, "stats")
    for name in ("from", "to"):
        if name not in single:
            raise InvalidArgument(f"the parameter {name} is missing", argument=name)
    for name in ("from", "to"):
        await context.authorize_either(single[name])

    def run() -> Response:
        changes = context.graph.diff(
            single["from"],
            single["to"],
            kinds=several["kind"],
            types=several["type"],
            ops=several["op"],
        )
        body = changes.page(limit=limit, page_token=single.get("page_token")).to_dict()
        return JsonAnswer(body | ({"stats": changes.stats} if has_stats else {}))

    return await context.read(run)


async def capture_baseline(context: RequestContext) -> Response:
    """Every entity of a branch's head, and the cursor to go on from."""
    body = await context.decode(ChangeBaselineRequest, is_optional=True)
    branch = MAIN_BRANCH if body.branch is None else body.branch
    await context.authorize(Action.EXPORT, branch)
    return await answer_stream(
        context,
        lambda: iter(
            context.graph.changes.baseline(
                branch=branch, kinds=body.kind, types=body.type, ops=body.op
            )
        ),
        _STREAM_TYPE,
    )


async def export(context: RequestContext) -> Response:
    """A branch or a snapshot as lines of the load format."""
    body = await context.decode(ExportRequest, is_optional=True)
    if body.branch is not None and body.snapshot is not None:
        raise InvalidArgument(
            "give a branch or a snapshot, not both: a snapshot names its branch",
            argument="snapshot",
        )
    await context.authorize_state(Action.EXPORT, body.branch, body.snapshot)
    return await answer_stream(
        context,
        lambda: context.graph.export(
            types=body.type_names, branch=body.branch, snapshot=body.snapshot
        ),
        _STREAM_TYPE,
    )


OPERATIONS: Final = (
    Operation(
        method="GET",
        path=f"{GRAPH_PATH}/commits/{{commit_id}}/changes",
        operation_id="cluster_getCommitChanges",
        tag="changes",
        summary="What a commit changed",
        handler=commit_changes,
        answer=CommitChangesOutput,
        statuses=_CHANGE_STATUSES,
        parameters=_PAGE,
        shows_declared_only=True,
    ),
    Operation(
        method="GET",
        path=f"{GRAPH_PATH}/changes",
        operation_id="cluster_pollChanges",
        tag="changes",
        summary="What happened on a branch",
        handler=poll_changes,
        answer=ChangeFeedOutput,
        statuses=_CHANGE_STATUSES,
        parameters=(
            BRANCH,
            Parameter(name="cursor", description="Where the last poll ended."),
            Parameter(
                name="start",
                description="Without a cursor: `now`, which it is without any, `beginning`, or"
                " `after:` and a commit id.",
            ),
            *_PAGE,
            Parameter(
                name="cursors",
                description="`true`: a block that ends its commit has the cursor behind it.",
                enum=("true", "false"),
            ),
        ),
        shows_declared_only=True,
    ),
    Operation(
        method="GET",
        path=f"{GRAPH_PATH}/diff",
        operation_id="cluster_diff",
        tag="changes",
        summary="What differs between two states",
        handler=diff,
        answer=DiffOutput,
        statuses=_CHANGE_STATUSES,
        parameters=(
            Parameter(
                name="from",
                is_required=True,
                description="The state before: a branch, a commit or a tag.",
            ),
            Parameter(
                name="to",
                is_required=True,
                description="The state after. With a page token, the two are the commits of the"
                " page before.",
            ),
            *_PAGE,
            Parameter(
                name="stats",
                description="`true`: how many entities differ, by type and operation.",
                enum=("true", "false"),
            ),
        ),
        shows_declared_only=True,
    ),
    Operation(
        method="POST",
        path=f"{GRAPH_PATH}/changes/baseline",
        operation_id="cluster_captureChangeBaseline",
        tag="changes",
        summary="Every entity of a branch, and the cursor to go on from",
        handler=capture_baseline,
        request=ChangeBaselineRequest,
        is_request_optional=True,
        media_types=(NDJSON,),
        statuses=_STREAM_STATUSES,
        inflight="stream",
        shows_declared_only=True,
    ),
    Operation(
        method="POST",
        path=f"{GRAPH_PATH}/export",
        operation_id="cluster_export",
        tag="queries",
        summary="A branch as lines of the load format",
        handler=export,
        request=ExportRequest,
        is_request_optional=True,
        media_types=(NDJSON,),
        statuses=_STREAM_STATUSES,
        inflight="stream",
    ),
)
