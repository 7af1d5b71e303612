"""The application: every operation of the table as a route, and one shape for every error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from omnigraph.errors import MethodNotAllowed, RouteNotFound
from omnigraph.server.endpoint import Endpoint
from omnigraph.server.envelope import answer_error
from omnigraph.server.middleware.cors import add_cors
from omnigraph.server.middleware.request_record import RECORD, RequestRecords
from omnigraph.server.path_template import PathTemplate, parts_of
from omnigraph.server.routes import OPERATIONS

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Scope

    from omnigraph.server.operations import Operation
    from omnigraph.server.runtime import ServerRuntime


class OperationRoute(Route):
    """The route of one operation; `HEAD` is its own operation or none."""

    def __init__(self, operation: Operation, server: ServerRuntime) -> None:
        super().__init__(operation.path, Endpoint(operation, server), methods=[operation.method])
        self.methods = {operation.method}
        self._template = PathTemplate(operation.path)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether a request is one of this operation, or of its path alone."""
        found = self._template.match(parts_of(scope)) if scope["type"] == "http" else None
        if found is None:
            return Match.NONE, {}
        match = Match.FULL if scope["method"] in (self.methods or ()) else Match.PARTIAL
        return match, {"endpoint": self.endpoint, "path_params": found}


def create_app(server: ServerRuntime) -> FastAPI:
    """The application of one server process."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.router.redirect_slashes = False
    for operation in OPERATIONS:
        app.router.routes.append(OperationRoute(operation, server))
    add_cors(app, server.settings.server.cors_origins)
    app.add_middleware(RequestRecords, server=server)
    app.add_exception_handler(HTTPException, _answer_unrouted)
    return app


async def _answer_unrouted(request: Request, _: Exception) -> Response:
    """The answer for a path that there is not, or not with this method."""
    scope = request.scope
    allowed = allowed_methods(request.app, scope)
    request_id = scope[RECORD].request_id
    if not allowed:
        return answer_error(RouteNotFound("there is no such path"), request_id)
    return answer_error(
        MethodNotAllowed(
            f"this path does not take {scope['method']}; it takes {', '.join(allowed)}",
            allow=", ".join(allowed),
        ),
        request_id,
    )


def allowed_methods(app: FastAPI, scope: Scope) -> list[str]:
    """What a path takes, over all its routes."""
    methods: set[str] = set()
    for route in app.router.routes:
        if isinstance(route, OperationRoute) and route.matches(scope)[0] is not Match.NONE:
            methods |= route.methods or set()
    return sorted(methods)
