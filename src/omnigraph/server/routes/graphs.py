"""The list of graphs. Opening the data is not opening the topology: a policy must allow it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from omnigraph.errors import PolicyError
from omnigraph.graph.access import Action
from omnigraph.server.answers import answer
from omnigraph.server.bodies.management import (
    GraphListOutput,
    GraphOutput,
    QuarantinedGraphOutput,
)
from omnigraph.server.operations import Operation, Parameter, Scope

if TYPE_CHECKING:
    from starlette.responses import Response

    from omnigraph.server.request_context import RequestContext


async def require_server_action(context: RequestContext, action: Action) -> None:
    """The actor may do this to the server itself.

    Raises:
        PolicyError: no policy of the server allows it.
    """
    policy = context.server.served.server_policy
    if policy is None:
        raise PolicyError(
            f"{action} is not allowed: no policy of the server grants it", action=action.value
        )
    decision = await context.ask(policy, action)
    if not decision.allowed:
        raise PolicyError(decision.message or f"{action} is not allowed", action=action.value)


async def list_graphs(context: RequestContext) -> Response:
    """The graphs that are served, by id."""
    await require_server_action(context, Action.GRAPH_LIST)
    served = context.server.served
    graphs = [
        GraphOutput(graph_id=graph.graph_id, uri=graph.uri)
        for _, graph in sorted(served.graphs.items())
    ]
    if context.query.get("include") != "quarantined":
        return answer(GraphListOutput(graphs=graphs))
    quarantined = sorted(served.quarantined, key=lambda graph: graph.graph_id)
    return answer(
        GraphListOutput(
            graphs=graphs,
            quarantined=[QuarantinedGraphOutput.model_validate(graph) for graph in quarantined],
        )
    )


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/graphs",
        operation_id="listGraphs",
        tag="management",
        summary="The graphs that are served",
        handler=list_graphs,
        scope=Scope.SERVER,
        answer=GraphListOutput,
        statuses=(400,),
        parameters=(
            Parameter(
                name="include",
                description="`quarantined` adds the graphs that cannot be served, and why.",
                enum=("quarantined",),
            ),
        ),
    ),
)
