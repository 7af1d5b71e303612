"""The schema of a graph: shown, and brought to another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from omnigraph.errors import ClusterManaged
from omnigraph.graph.access import Action
from omnigraph.graph.bodies import schema_apply_body, schema_plan_body
from omnigraph.ids import MAIN_BRANCH
from omnigraph.lang import SchemaPlan
from omnigraph.server.answers import JsonAnswer, answer
from omnigraph.server.bodies.reads import SchemaOutput
from omnigraph.server.bodies.schema import (
    SchemaApplyOutput,
    SchemaApplyRequest,
    SchemaPlanOutput,
    SchemaPlanRequest,
)
from omnigraph.server.operations import GRAPH_PATH, Operation, Parameter
from omnigraph.server.receipts import answer_receipt

if TYPE_CHECKING:
    from starlette.responses import Response

    from omnigraph.graph.schema_apply.applied import SchemaApplied
    from omnigraph.server.request_context import RequestContext


async def show_schema(context: RequestContext) -> Response:
    """The source of the schema in force on `main`, or at a state of the graph."""
    at = context.query.get("at")
    await context.authorize(Action.READ)

    def run() -> Response:
        schema = context.graph.schema
        if at is not None:
            return answer(SchemaOutput(schema_source=schema.show(at=at)))
        headers = {"Omnigraph-Schema-Hash": schema.hash}
        return answer(SchemaOutput(schema_source=schema.source), headers=headers)

    return await context.read(run)


async def plan_schema(context: RequestContext) -> Response:
    """The steps from the schema of `main` to another; nothing is written."""
    body = await context.decode(SchemaPlanRequest)
    await context.authorize(Action.READ)

    def run() -> Response:
        plan = context.graph.schema.plan(body.schema_source, allow_data_loss=body.allow_data_loss)
        return JsonAnswer(schema_plan_body(plan) | {"schema_from": plan.schema_from})

    return await context.read(run)


async def apply_schema(context: RequestContext) -> Response:
    """Bring `main` to a schema as one commit."""
    body = await context.decode(SchemaApplyRequest)
    await context.authorize(Action.SCHEMA_APPLY, target_branch=MAIN_BRANCH)
    if context.served.is_cluster_managed:
        raise ClusterManaged(
            "the schema of this graph belongs to its cluster: change it there and run"
            " omnigraph cluster apply"
        )

    def run() -> tuple[SchemaApplied, int]:
        applied = context.graph.schema.apply(_wanted(body), allow_data_loss=body.allow_data_loss)
        if applied.commit is not None:
            return applied, applied.commit.graph_manifest_version
        return applied, context.served.graph.snapshot().seq

    applied, version = await context.write(run, context.received_bytes)
    receipt = schema_apply_body(applied, context.served.uri, version)
    return answer_receipt(context, receipt, applied.commit)


def _wanted(body: SchemaApplyRequest) -> str | SchemaPlan:
    """The source, or a plan of it that fits one schema alone; its steps are made anew."""
    if body.schema_from is None:
        return body.schema_source
    return SchemaPlan(
        steps=(),
        diagnostics=(),
        source=body.schema_source,
        schema_from=body.schema_from,
        allow_data_loss=body.allow_data_loss,
    )


OPERATIONS: Final = (
    Operation(
        method="GET",
        path=f"{GRAPH_PATH}/schema",
        operation_id="cluster_getSchema",
        tag="schema",
        summary="The schema of the graph",
        handler=show_schema,
        answer=SchemaOutput,
        statuses=(400, 429),
        parameters=(
            Parameter(name="at", description="A commit, a tag, or a number or time of `main`."),
        ),
    ),
    Operation(
        method="POST",
        path=f"{GRAPH_PATH}/schema/plan",
        operation_id="cluster_planSchema",
        tag="schema",
        summary="The steps to a schema",
        handler=plan_schema,
        request=SchemaPlanRequest,
        answer=SchemaPlanOutput,
        statuses=(400, 413, 415, 429, 504),
    ),
    Operation(
        method="POST",
        path=f"{GRAPH_PATH}/schema/apply",
        operation_id="cluster_applySchema",
        tag="mutations",
        summary="Bring the graph to a schema as one commit",
        handler=apply_schema,
        request=SchemaApplyRequest,
        answer=SchemaApplyOutput,
        statuses=(400, 409, 413, 415, 429, 504),
        inflight="write",
    ),
)
