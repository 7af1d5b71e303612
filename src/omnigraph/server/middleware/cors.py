"""Pages of other origins, if the settings name them; credentials of a browser are never used.

The contract allows whole families of headers, `Omnigraph-*` and `If-*`. A browser knows no such
pattern, so a preflight is answered with the names of a family that it asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware

from omnigraph.errors import InvalidArgument
from omnigraph.graph.results.envelope import envelope_of
from omnigraph.server.answers import JsonAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import FastAPI
    from starlette.responses import Response

_METHODS: Final = ("GET", "HEAD", "POST", "DELETE")
_TAKEN: Final = (
    *("Authorization", "Content-Type", "X-Request-Id", "Idempotency-Key", "Range"),
    *("Omnigraph-If-Graph-Commit", "Omnigraph-Timeout-Ms"),
    *("If-Match", "If-None-Match", "If-Range"),
)
_TAKEN_FAMILIES: Final = ("omnigraph-", "if-")
_SHOWN: Final = (
    *("ETag", "Content-Range", "Retry-After", "Deprecation", "Link", "X-Request-Id"),
    *("Idempotent-Replayed", "Omnigraph-Snapshot-Id", "Omnigraph-Query-Name"),
    *("Omnigraph-Graph-Commit", "Omnigraph-Row-Count", "Omnigraph-Target"),
    *("Omnigraph-Policy-Filtered", "Omnigraph-Schema-Hash"),
)
_ASKED: Final = "access-control-request-headers"
_ALLOWED: Final = "Access-Control-Allow-Headers"
_FIRST_ERROR: Final = 400


class _Preflights(CORSMiddleware):
    """Answers of preflights: what a page may send, and the envelope if it may not."""

    def preflight_response(self, request_headers: Headers) -> Response:
        """What the page may send, with the names of families that it asks for."""
        asked = [name.strip().lower() for name in request_headers.get(_ASKED, "").split(",")]
        ours = dict.fromkeys(name for name in asked if name.startswith(_TAKEN_FAMILIES))
        others = MutableHeaders(raw=list(request_headers.raw))
        # Its base allows a list of names: the families are left out of what it is asked for.
        others[_ASKED] = ", ".join(name for name in asked if name and name not in ours) or "accept"
        allowed = super().preflight_response(request_headers=Headers(raw=others.raw))
        if allowed.status_code >= _FIRST_ERROR:
            refusal = InvalidArgument(
                f"a page of this origin may not: {bytes(allowed.body).decode()}"
            )
            return JsonAnswer(envelope_of(refusal), status_code=allowed.status_code)
        told = allowed.headers[_ALLOWED]
        known = {name.strip().lower() for name in told.split(",")}
        allowed.headers[_ALLOWED] = ", ".join([told, *(name for name in ours if name not in known)])
        return allowed


def add_cors(app: FastAPI, origins: Sequence[str]) -> None:
    """Let pages of these origins ask; without any, no page of another origin can."""
    if origins:
        app.add_middleware(
            _Preflights,
            allow_origins=list(origins),
            allow_methods=list(_METHODS),
            allow_headers=list(_TAKEN),
            expose_headers=list(_SHOWN),
        )
