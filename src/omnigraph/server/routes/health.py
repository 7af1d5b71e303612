"""Whether the process lives, and whether it takes requests."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from omnigraph.graph.manifest.stamp import INTERNAL_MANIFEST_SCHEMA_VERSION
from omnigraph.server.answers import JsonAnswer, answer
from omnigraph.server.bodies.management import HealthOutput, ReadyOutput
from omnigraph.server.operations import Operation, Scope
from omnigraph.server.runtime_state import RuntimeState

if TYPE_CHECKING:
    from starlette.responses import Response

    from omnigraph.server.request_context import RequestContext

_VERSION: Final = version("omnigraph")


async def health(_: RequestContext) -> Response:
    """The process answers; no storage is touched."""
    return answer(
        HealthOutput(version=_VERSION, internal_schema_version=INTERNAL_MANIFEST_SCHEMA_VERSION)
    )


async def ready(context: RequestContext) -> Response:
    """The server takes requests, until it is told to stop."""
    if context.server.draining.is_set():
        return answer(ReadyOutput(status="draining"), status=503)
    return answer(ReadyOutput(status="ready", graphs=len(context.server.served.graphs)))


async def openapi(context: RequestContext) -> Response:
    """The document of this server."""
    # The document describes all operations, this one's module among them.
    from omnigraph.server.openapi import openapi_document

    is_open = context.server.served.state is RuntimeState.OPEN
    return JsonAnswer(openapi_document(is_open=is_open))


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/openapi.json",
        operation_id="openapi",
        tag="health",
        summary="The OpenAPI document",
        handler=openapi,
        scope=Scope.PUBLIC,
        is_documented=False,
    ),
    Operation(
        method="GET",
        path="/healthz",
        operation_id="health",
        tag="health",
        summary="Whether the process lives",
        handler=health,
        scope=Scope.PUBLIC,
        answer=HealthOutput,
        statuses=(400,),
    ),
    Operation(
        method="GET",
        path="/readyz",
        operation_id="ready",
        tag="health",
        summary="Whether the server takes requests",
        handler=ready,
        scope=Scope.PUBLIC,
        answer=ReadyOutput,
        statuses=(400,),
        success=(200, 503),
    ),
)
