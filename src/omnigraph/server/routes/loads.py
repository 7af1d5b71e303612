"""Loads: the lines of one request are one commit, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from omnigraph.errors import BranchNotFound
from omnigraph.graph.access import Action
from omnigraph.graph.bodies import load_body
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.ndjson.legacy_lines import without_unknown_members
from omnigraph.ids import MAIN_BRANCH
from omnigraph.limits import MAX_REQUEST_LOAD_BYTES
from omnigraph.server.bodies.writes import GraphBatchLoadOutput, IngestOutput, IngestRequest
from omnigraph.server.operations import GRAPH_PATH, Operation, Parameter
from omnigraph.server.receipts import answer_receipt
from omnigraph.server.request_context import trimmed_argument
from omnigraph.server.routes.mutations import IDEMPOTENCY_KEY, WRITE_STATUSES
from omnigraph.server.rows import NDJSON

if TYPE_CHECKING:
    from starlette.responses import Response

    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.server.request_context import RequestContext


async def load_lines(context: RequestContext) -> Response:
    """Load a body of lines; who may not, or not now, is told before a byte of it is read."""
    context.require_media_type(NDJSON)
    key, given = context.idempotency_key, context.query.get("from")
    branch = context.query_branch()
    base = None if given is None else trimmed_argument(given, "from")
    mode = LoadMode.parse(context.query.get("mode", LoadMode.MERGE))
    base = await authorize_load(context, branch, base)
    with context.admission():
        content = await context.body()
        report = await context.run_write(
            lambda: _load(context, content, mode=mode, branch=branch, base=base, key=key)
        )
    return answer_receipt(context, load_body(report), report.commit)


async def load(context: RequestContext) -> Response:
    """Load lines that come as a text of JSON."""
    return await _load_text(context, is_permissive=False)


async def ingest(context: RequestContext) -> Response:
    """Load lines as an earlier version read them: what it does not know is ignored."""
    return await _load_text(context, is_permissive=True)


async def _load_text(context: RequestContext, *, is_permissive: bool) -> Response:
    body = await context.decode(IngestRequest)
    key = context.idempotency_key
    branch = MAIN_BRANCH if body.branch is None else body.branch
    base = await authorize_load(context, branch, body.from_)
    content = body.data.encode("utf-8", "surrogatepass")
    if is_permissive:
        graph = context.served.graph
        content = await context.run(lambda: without_unknown_members(content, graph.schema.catalog))
    report = await context.write(
        lambda: _load(context, content, mode=body.mode, branch=branch, base=base, key=key),
        len(content),
    )
    receipt = load_body(report) | {"uri": context.served.uri}
    return answer_receipt(context, receipt, report.commit)


async def authorize_load(context: RequestContext, branch: str, base: str | None) -> str | None:
    """Ask for what a load does with its branch, and give the base that it may be forked from.

    Raises:
        PolicyError: the actor may not load there, or not create the branch that is missing.
    """
    # First what is asked either way: a refusal does not tell whether the branch is there.
    await context.authorize(Action.CHANGE, branch)
    if base is not None:
        if not await context.run(lambda: _exists(context, branch)):
            await context.authorize(Action.BRANCH_CREATE, base, branch)
        elif not await context.may(Action.BRANCH_CREATE, base, branch):
            base = None
    return base


def _exists(context: RequestContext, branch: str) -> bool:
    try:
        context.served.graph.branches.get(branch)
    except BranchNotFound:
        return False
    return True


def _load(
    context: RequestContext,
    content: bytes,
    *,
    mode: LoadMode,
    branch: str,
    base: str | None,
    key: str | None,
) -> JobReport:
    return context.graph.load(
        content,
        mode=mode.value,
        branch=branch,
        from_=base,
        engine="local",
        idempotency_key=key,
    )


def _text_load(path: str, operation_id: str, summary: str, successor: str | None) -> Operation:
    return Operation(
        method="POST",
        path=f"{GRAPH_PATH}/{path}",
        operation_id=operation_id,
        tag="mutations",
        summary=summary,
        handler=load if successor is None else ingest,
        request=IngestRequest,
        answer=IngestOutput,
        statuses=WRITE_STATUSES,
        parameters=(IDEMPOTENCY_KEY,),
        body_limit=MAX_REQUEST_LOAD_BYTES,
        successor=successor,
        inflight="write",
    )


OPERATIONS: Final = (
    Operation(
        method="POST",
        path=f"{GRAPH_PATH}/load/ndjson",
        operation_id="cluster_loadNdjson",
        tag="mutations",
        summary="Load lines as one commit",
        handler=load_lines,
        reads_media_type=NDJSON,
        answer=GraphBatchLoadOutput,
        statuses=WRITE_STATUSES,
        parameters=(
            Parameter(name="branch", description="Where to write; `main` without it."),
            Parameter(name="from", description="What a missing branch is forked from."),
            Parameter(
                name="mode",
                description="`merge` replaces rows of the same id and is what happens without it,"
                " `append` refuses them, `update` changes what the lines give of rows that exist,"
                " `overwrite` replaces each type of the lines.",
                enum=tuple(LoadMode),
            ),
            IDEMPOTENCY_KEY,
        ),
        body_limit=MAX_REQUEST_LOAD_BYTES,
        body_resource="graph_batch_request_bytes",
        inflight="write",
    ),
    _text_load("load", "cluster_load", "Load lines in a text as one commit", None),
    _text_load("ingest", "cluster_ingest", "Load lines in a text as one commit", "load"),
)
