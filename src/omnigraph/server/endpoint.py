"""An operation as an ASGI application: the checks before its handler, and its errors as answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from omnigraph.errors import (
    BranchNotFound,
    Cancelled,
    ConflictError,
    InternalError,
    OmnigraphError,
    PolicyError,
    ServerUnavailable,
    TagNotFound,
)
from omnigraph.server.envelope import answer_error
from omnigraph.server.middleware.request_record import RECORD, RequestRecord
from omnigraph.server.operations import Operation, Scope
from omnigraph.server.request_context import RequestContext
from omnigraph.server.runtime_state import RuntimeState
from omnigraph.server.statuses import SERVER_ERROR, STATUSES

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Receive, Send
    from starlette.types import Scope as AsgiScope

    from omnigraph.server.runtime import ServerRuntime

_DRAINING: Final = "the server is shutting down; send the request again"


class Endpoint:
    """One operation of one server."""

    def __init__(self, operation: Operation, server: ServerRuntime) -> None:
        self._operation = operation
        self._server = server

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer one request; whatever happens is an answer."""
        record: RequestRecord = scope[RECORD]
        record.route = self._operation.path
        inflight = self._server.metrics.inflight
        inflight.add(self._operation.inflight)
        try:
            response = await self._answered(scope, receive, record)
            await response(scope, receive, send)
        finally:
            inflight.add(self._operation.inflight, amount=-1)

    async def _answered(
        self, scope: AsgiScope, receive: Receive, record: RequestRecord
    ) -> Response:
        try:
            response = await self._answer(scope, receive, record)
        except Exception as error:  # noqa: BLE001 - the edge: every failure becomes an answer
            if isinstance(error, ConflictError) and record.graph_id is not None:
                self._server.metrics.conflicts.add(record.graph_id, error.code)
            if isinstance(error, PolicyError):
                record.trail.refused(error)
            response = answer_error(self._discreet(self._shown(error)), record.request_id)
        if self._operation.successor is not None:
            response.headers["Deprecation"] = "true"
            response.headers["Link"] = f'<{self._operation.successor}>; rel="successor-version"'
        return response

    def _discreet(self, error: Exception) -> Exception:
        """The error, without the names of branches and tags that the actor may not know."""
        if self._server.served.state is RuntimeState.POLICY_ENABLED and isinstance(
            error, BranchNotFound | TagNotFound
        ):
            return type(error)(error.message.partition("; live ")[0], **error.details)
        return error

    async def _answer(self, scope: AsgiScope, receive: Receive, record: RequestRecord) -> Response:
        server, operation = self._server, self._operation
        context = RequestContext(
            server=server, operation=operation, scope=scope, receive=receive, record=record
        )
        if operation.scope is Scope.PUBLIC:
            context.refuse_condition()
            return await operation.handler(context)
        if server.draining.is_set():
            raise ServerUnavailable(_DRAINING)
        context.require_declared_size()
        if server.served.state is not RuntimeState.OPEN:
            context.actor = server.tokens.actor_of(context.authorization)
            record.actor = context.actor
        if operation.scope is Scope.GRAPH:
            context.enter(server.served.find(context.path["graph_id"]))
        context.refuse_condition()
        return await operation.handler(context)

    def _shown(self, error: Exception) -> Exception:
        """The error itself, unless the operation tells its own alone and this is none of them."""
        if not self._operation.shows_declared_only or not isinstance(error, OmnigraphError):
            return error
        status = STATUSES.get(error.code, SERVER_ERROR)
        if status in self._operation.failures or isinstance(error, Cancelled):
            return error
        hidden = InternalError(f"{error.code}: {error.message}")
        hidden.__cause__ = error
        return hidden
