"""Answers that are sent piece by piece while they are made.

A piece is made in a thread of the engine while the one before is sent, so two are held at most; a
client that does not read stops the making. A client that leaves, or a failure after the first byte,
ends the connection without the mark of a complete body, and always gives back what the stream held.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from omnigraph.errors import Cancelled, ResourceLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from starlette.types import Receive, Scope, Send

    from omnigraph.server.metrics import Metrics
    from omnigraph.server.request_context import RequestContext

STREAMS_PER_GRAPH: Final = 1
STREAMS_PER_PROCESS: Final = 8
_QUEUE_BYTES: Final = 256 * 1024
"""What one stream may have on its way."""
_ROOM_WAIT_S: Final = 0.25


class StreamSlots:
    """Who may stream a graph: one request for each graph, eight for the process."""

    def __init__(self, metrics: Metrics) -> None:
        self._graphs: set[str] = set()
        self._room = asyncio.Semaphore(STREAMS_PER_PROCESS)
        self._metrics = metrics

    async def take(self, graph_id: str) -> None:
        """Take the slot of a graph, and room for one stream.

        Raises:
            ResourceLimit: another stream of the graph runs, or too many of the process.
        """
        if graph_id in self._graphs:
            raise ResourceLimit(
                f"an export of graph '{graph_id}' runs already; send it again when it is done",
                resource="stream_export_slots",
                limit=STREAMS_PER_GRAPH,
                actual=STREAMS_PER_GRAPH + 1,
            )
        self._graphs.add(graph_id)
        try:
            async with asyncio.timeout(_ROOM_WAIT_S):
                await self._room.acquire()
        except BaseException as error:
            self._graphs.discard(graph_id)
            if not isinstance(error, TimeoutError):
                raise
            limit = STREAMS_PER_PROCESS * _QUEUE_BYTES
            raise ResourceLimit(
                f"{STREAMS_PER_PROCESS} exports run in this server; send it again when one is done",
                resource="stream_export_transport_bytes",
                limit=limit,
                actual=limit + _QUEUE_BYTES,
            ) from None
        self._metrics.export_streams.add()

    def give_back(self, graph_id: str) -> None:
        """The stream of a graph is over."""
        self._graphs.discard(graph_id)
        self._room.release()
        self._metrics.export_streams.add(amount=-1)


class StreamAnswer(Response):
    """An answer whose body is an iterator of bytes."""

    def __init__(
        self,
        context: RequestContext,
        pieces: Iterator[bytes],
        *,
        media_type: str,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        first: bytes | None = b"",
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """A stream of pieces.

        Args:
            context: the request.
            pieces: the body.
            media_type: of the body.
            status: of the answer.
            headers: of the answer; without a `Content-Length` the body is sent in chunks.
            first: what was made of the body already; `None` if that was all of it.
            on_end: called once, however it ends.
        """
        super().__init__(status_code=status, media_type=media_type, headers=dict(headers or {}))
        if "content-length" in self.headers and not (headers and "Content-Length" in headers):
            del self.headers["content-length"]
        self._context = context
        self._pieces = pieces
        self._first = first
        self._on_end = on_end

    async def __call__(
        self,
        scope: Scope,  # noqa: ARG002 - the protocol of every answer
        receive: Receive,
        send: Send,
    ) -> None:
        """Send all of it, or end the connection."""
        gone = asyncio.ensure_future(_disconnect(receive))
        try:
            await send(
                {
                    "type": "http.response.start",
                    "status": self.status_code,
                    "headers": self.raw_headers,
                }
            )
            await self._send_pieces(gone, send)
        finally:
            self._context.token.cancel()
            gone.cancel()
            self._on_end()

    async def _send_pieces(self, gone: asyncio.Future[None], send: Send) -> None:
        piece = self._first
        while piece is not None:
            following = asyncio.ensure_future(self._pull(gone))
            try:
                if piece:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                if gone.done():
                    return
                piece = await following
            finally:
                if not following.done():
                    with suppress(asyncio.CancelledError, Cancelled):
                        await following
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pull(self, gone: asyncio.Future[None]) -> bytes | None:
        """The next piece, made in a thread; a pull is waited for, so that none runs on alone."""
        return await self._context.server.calls.run(
            lambda: next(self._pieces, None),
            token=self._context.token,
            gone=lambda: asyncio.shield(gone),
        )


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def answer_stream(
    context: RequestContext, open_pieces: Callable[[], Iterator[bytes]], media_type: str
) -> Response:
    """A stream of the whole graph, which takes its slot; all that can be refused is, before.

    Raises:
        ResourceLimit: another one runs.
    """
    slots, graph_id = context.server.streams, context.served.graph_id
    await slots.take(graph_id)
    try:

        def begin() -> tuple[Iterator[bytes], bytes | None]:
            pieces = iter(open_pieces())
            return pieces, next(pieces, None)

        pieces, first = await context.run(begin)
    except BaseException:
        slots.give_back(graph_id)
        raise
    return StreamAnswer(
        context,
        pieces,
        media_type=media_type,
        first=first,
        on_end=lambda: slots.give_back(graph_id),
    )
