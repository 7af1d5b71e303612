"""The HTTP server of one process, which ends in order.

At the first signal it accepts nothing more, refuses new requests on connections that are open, and
lets running ones finish for a while; then they are cancelled. A commit that has begun is always
finished, because its thread is waited for. A second signal ends the process at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
from typing import TYPE_CHECKING, Final

import uvicorn

from omnigraph.server.app import create_app
from omnigraph.server.connections import connection_type
from omnigraph.server.listeners import BACKLOG

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from omnigraph.server.runtime import ServerRuntime

log = logging.getLogger(__name__)

INTERRUPTED: Final = 130
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_TICK_S: Final = 0.05
_LAST_WORDS_S: Final = 1
"""What is left for cancelled requests to end."""


class DrainingServer(uvicorn.Server):
    """One process that answers requests until it is told to stop."""

    def __init__(self, runtime: ServerRuntime, signals: Sequence[signal.Signals] = SIGNALS) -> None:
        super().__init__(_config(runtime))
        self._signals = signals
        self.is_listening = threading.Event()
        self._runtime = runtime
        self._grace_s = runtime.settings.server.shutdown_grace_ms / 1_000

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self.is_listening.set()

    def stop(self) -> None:
        """Begin to end; safe from any thread."""
        self._runtime.draining.set()
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - of a signal
        """The first signal begins the end, the second one is the end."""
        if self.should_exit:
            os._exit(INTERRUPTED)
        self.stop()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take signals while serving; unlike those of the base class they do not come again."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in self._signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nothing more, wait for what runs, cancel what is left."""
        self._runtime.draining.set()
        for server in self.servers:
            server.close()
        for listener in sockets or ():
            listener.close()
        await self._wait_for_requests()
        for task in list(self.server_state.tasks):
            task.cancel()
        await super().shutdown(sockets)

    async def _wait_for_requests(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grace_s):
                while self.server_state.tasks:
                    await asyncio.sleep(_TICK_S)
        if self.server_state.tasks:
            log.warning(
                "requests cancelled by shutdown", extra={"count": len(self.server_state.tasks)}
            )


def _config(runtime: ServerRuntime) -> uvicorn.Config:
    settings = runtime.settings.server
    return uvicorn.Config(
        create_app(runtime),
        http=connection_type(settings, runtime.ids),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=max(1, settings.idle_timeout_ms // 1_000),
        timeout_graceful_shutdown=_LAST_WORDS_S,
    )
