"""Metrics on a port of their own: without a token, so for an address that only operators reach."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import uvicorn
from starlette.responses import PlainTextResponse, Response

from omnigraph.server.metrics import MEDIA_TYPE

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from starlette.types import Receive, Scope, Send


@contextlib.contextmanager
def metrics_served(listener: socket.socket | None, render: Callable[[], str]) -> Iterator[None]:
    """Serve what `render` gives on a socket while the block runs; without a socket, nothing."""
    if listener is None:
        yield
        return

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        response: Response = PlainTextResponse("not found\n", status_code=404)
        if scope["path"] == "/metrics":
            response = Response(render(), media_type=MEDIA_TYPE)
        await response(scope, receive, send)

    server = uvicorn.Server(
        uvicorn.Config(
            answer, ws="none", http="h11", lifespan="off", log_config=None, access_log=False
        )
    )
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name="metrics", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
