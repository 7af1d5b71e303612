"""Every error as the answer that a client gets: status, headers and the one body for all of them.

A 500 carries a fixed sentence and the request id; its cause goes to the log alone.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from omnigraph.errors import InternalError, MethodNotAllowed, OmnigraphError, Unauthenticated
from omnigraph.graph.results.envelope import bad_lines, envelope_of
from omnigraph.server.answers import JsonAnswer
from omnigraph.server.statuses import RETRY_AFTER_S, SERVER_ERROR, STATUSES

if TYPE_CHECKING:
    from starlette.responses import Response

log = logging.getLogger(__name__)


def answer_error(error: Exception, request_id: str) -> Response:
    """The answer for anything that ended a request."""
    if not isinstance(error, OmnigraphError):
        log.error("request failed", exc_info=error, extra={"request_id": request_id})
        error = InternalError("unexpected")
    status = STATUSES.get(error.code, SERVER_ERROR)
    if status == SERVER_ERROR:
        return _internal(error, request_id)
    headers = _headers(error)
    return JsonAnswer(_body(error), status_code=status, headers=headers)


def _body(error: OmnigraphError) -> dict[str, object]:
    body = envelope_of(error)
    lines = bad_lines(error.details.get("violations"), error.details.get("total"))
    return body | {"error": f"{body['error']}{lines}"}


def _internal(error: OmnigraphError, request_id: str) -> Response:
    if error.message != "unexpected":
        log.error(
            "request failed",
            exc_info=error,
            extra={"request_id": request_id, "code": error.code, "why": error.message},
        )
    return JsonAnswer(
        {
            "error": "the server could not answer this request; its log has the cause under"
            f" request id {request_id}",
            "code": "internal",
            "reason": "internal",
        },
        status_code=SERVER_ERROR,
    )


def _headers(error: OmnigraphError) -> dict[str, str]:
    headers = {}
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = str(error.details["allow"])
    if error.code in RETRY_AFTER_S:
        wait = error.details.get("retry_after_s", RETRY_AFTER_S[error.code])
        headers["Retry-After"] = str(wait)
    if error.code == "server_unavailable":
        headers["Connection"] = "close"
    return headers
