"""Every request gets an id, which its response and its log lines carry, and one access line.

The line names the template of the route, never the path, and holds no token, parameter or value.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from omnigraph.server.audit_trail import AuditTrail
from omnigraph.server.logs import current_request

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from omnigraph.graph.access import Action, Decision
    from omnigraph.server.runtime import ServerRuntime

RECORD: Final = "omnigraph.record"
_GIVEN_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_CLIENT_GONE: Final = 499
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER_METHOD: Final = "(other)"

access_log = logging.getLogger("omnigraph.server.access")
policy_log = logging.getLogger("omnigraph.server.policy")


@dataclass(slots=True, kw_only=True)
class RequestRecord:
    """What is told about one request when it ends."""

    request_id: str
    method: str
    route: str = "(none)"
    graph_id: str | None = None
    actor: str | None = None
    status: int = _CLIENT_GONE
    size_bytes: int = 0
    trail: AuditTrail = field(default_factory=AuditTrail)

    def decided(
        self, action: Action, branch: str | None, target_branch: str | None, decision: Decision
    ) -> None:
        """A policy was asked."""
        policy_log.info(
            "policy decision",
            extra={
                "actor": self.actor,
                "action": action.value,
                "branch": branch,
                "target_branch": target_branch,
                "allowed": decision.allowed,
                "rule": decision.rule_id,
                "request_id": self.request_id,
            },
        )


class RequestRecords:
    """The outermost middleware."""

    def __init__(self, app: ASGIApp, server: ServerRuntime) -> None:
        self._app = app
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, and tell about it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        record = RequestRecord(request_id=self._request_id(scope), method=scope["method"])
        scope[RECORD] = record
        current_request.set(record.request_id)
        header = (b"x-request-id", record.request_id.encode())
        started_us = self._server.clock.monotonic_us()

        async def recorded(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                self._audit(record)
                message["headers"] = [*message.get("headers", ()), header]
            else:
                record.size_bytes += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, recorded)
        finally:
            self._audit(record)
            self._tell(record, self._server.clock.monotonic_us() - started_us)

    def _audit(self, record: RequestRecord) -> None:
        """Tell the audit log, before the client is told anything; once."""
        if self._server.audit is not None:
            record.trail.tell(
                self._server.audit,
                request_id=record.request_id,
                graph_id=record.graph_id,
                actor=record.actor,
                status=record.status,
            )

    def _request_id(self, scope: Scope) -> str:
        for name, value in scope["headers"]:
            if name == b"x-request-id" and _GIVEN_ID.fullmatch(value):
                return bytes(value).decode()
        return self._server.ids.next_ulid()

    def _tell(self, record: RequestRecord, duration_us: int) -> None:
        metrics = self._server.metrics
        # A client may make up methods; what is counted by their names must not grow with them.
        method = record.method if record.method in _METHODS else _OTHER_METHOD
        metrics.requests.add(record.route, method, str(record.status))
        metrics.seconds.observe(record.route, duration_us / 1_000_000)
        if access_log.isEnabledFor(logging.INFO):
            access_log.info(
                "request",
                extra={
                    "method": record.method,
                    "route": record.route,
                    "graph": record.graph_id,
                    "actor": record.actor,
                    "status": record.status,
                    "ms": round(duration_us / 1_000, 3),
                    "bytes": record.size_bytes,
                    "request_id": record.request_id,
                },
            )
