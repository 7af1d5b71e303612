"""What the server counts, for Prometheus; of the process that answers, if there are several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from omnigraph.errors import RouteNotFound
from omnigraph.graph.access import Action
from omnigraph.server.metrics import MEDIA_TYPE
from omnigraph.server.operations import Operation, Scope
from omnigraph.server.routes.graphs import require_server_action

if TYPE_CHECKING:
    from omnigraph.server.request_context import RequestContext


async def metrics(context: RequestContext) -> Response:
    """The counts, unless they have a port of their own."""
    if not context.server.shows_metrics:
        raise RouteNotFound("there is no such path")
    await require_server_action(context, Action.METRICS)
    text = await context.run(context.server.render_metrics)
    return Response(text, media_type=MEDIA_TYPE)


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/metrics",
        operation_id="metrics",
        tag="management",
        summary="Counts for Prometheus",
        handler=metrics,
        scope=Scope.SERVER,
        media_types=("text/plain",),
        statuses=(400, 404),
    ),
)
