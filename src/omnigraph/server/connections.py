"""One connection of a client, bounded in time: a client that stands still is cut off.

Headers have a time to arrive, and so has a client to read what it was sent. What is no HTTP gets
the envelope of every other error. The time of a body is bounded where it is read.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

    from omnigraph.ids import IdSource
    from omnigraph.settings import ServerSettings

log = logging.getLogger(__name__)


def connection_type(settings: ServerSettings, ids: IdSource) -> type[H11Protocol]:
    """The class of connections with the times of these settings."""

    class BoundedConnection(_BoundedConnection):
        ids_of_requests = ids
        header_timeout_s = settings.header_timeout_ms / 1_000
        stall_timeout_s = settings.idle_timeout_ms / 1_000

    return BoundedConnection


class _BoundedConnection(H11Protocol):
    ids_of_requests: IdSource
    header_timeout_s: float
    stall_timeout_s: float

    _headers_due: asyncio.TimerHandle | None = None
    _reading_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client came; its request is due."""
        super().connection_made(transport)
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        """Bytes came: perhaps all headers of a request, perhaps not yet."""
        super().data_received(data)
        if self._headers_due is None and self._awaits_headers():
            self._expect_headers()
        elif self._headers_due is not None and not self._awaits_headers():
            self._headers_due.cancel()
            self._headers_due = None

    def _awaits_headers(self) -> bool:
        """Whether a request has begun, or must begin, whose headers are not complete."""
        return self.conn.their_state is h11.IDLE and bool(
            self.cycle is None or self.conn.trailing_data[0]
        )

    def _expect_headers(self) -> None:
        self._headers_due = self.loop.call_later(self.header_timeout_s, self._cut_off, "headers")

    def pause_writing(self) -> None:
        """The client does not read as fast as it is sent to."""
        super().pause_writing()
        self._reading_due = self.loop.call_later(self.stall_timeout_s, self._cut_off, "answer")

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        if self._reading_due is not None:
            self._reading_due.cancel()
            self._reading_due = None

    def connection_lost(self, exc: Exception | None) -> None:
        """The client, or we, ended it."""
        for due in (self._headers_due, self._reading_due):
            if due is not None:
                due.cancel()
        super().connection_lost(exc)

    def _cut_off(self, waiting_for: str) -> None:
        log.info("client stood still", extra={"waiting_for": waiting_for})
        # Closing would wait until the client has read the rest.
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, or has headers beyond every bound; it has an id, too."""
        request_id = self.ids_of_requests.next_ulid()
        log.info("no request of HTTP", extra={"why": msg, "request_id": request_id})
        content = msgspec.json.encode(
            {"error": msg, "code": "bad_request", "reason": "invalid_argument"}
        )
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
            (b"connection", b"close"),
            (b"x-request-id", request_id.encode()),
        ]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=content),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
