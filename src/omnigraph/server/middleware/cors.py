"""Pages of other origins, if the settings name them; credentials of a browser are never used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.middleware.cors import CORSMiddleware

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import FastAPI

_METHODS: Final = ("GET", "HEAD", "POST", "DELETE")
_TAKEN: Final = (
    *("Authorization", "Content-Type", "X-Request-Id", "Idempotency-Key", "Range"),
    *("Omnigraph-If-Graph-Commit", "Omnigraph-Timeout-Ms"),
    *("If-Match", "If-None-Match", "If-Range"),
)
_SHOWN: Final = (
    *("ETag", "Content-Range", "Retry-After", "Deprecation", "Link", "X-Request-Id"),
    *("Idempotent-Replayed", "Omnigraph-Snapshot-Id", "Omnigraph-Query-Name"),
    *("Omnigraph-Graph-Commit", "Omnigraph-Row-Count", "Omnigraph-Target"),
    "Omnigraph-Policy-Filtered",
)


def add_cors(app: FastAPI, origins: Sequence[str]) -> None:
    """Let pages of these origins ask; without any, no page of another origin can."""
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=list(_METHODS),
            allow_headers=list(_TAKEN),
            expose_headers=list(_SHOWN),
        )
