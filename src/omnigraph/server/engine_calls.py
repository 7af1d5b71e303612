"""Calls of the engine: in a bounded number of threads, so that the event loop never waits for one.

A caller that goes away, or a time that is up, cancels the call: the engine ends it at its next
step, unless a commit has begun, which always runs to its end.
"""

from __future__ import annotations

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from omnigraph.graph.query.budget import CancelToken

_T = TypeVar("_T")

_QUIET_S: Final = 0.05
"""How long a call may take before somebody watches whether its client is still there."""


class EngineCalls:
    """The threads in which the engine works for requests."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="engine")

    async def run(
        self,
        call: Callable[[], _T],
        *,
        token: CancelToken,
        gone: Callable[[], Awaitable[object]],
    ) -> _T:
        """The result of a call.

        Args:
            call: what to run.
            token: what ends it.
            gone: returns when nobody waits for the result any more.
        """
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._pool, contextvars.copy_context().run, call)
        try:
            await asyncio.wait({future}, timeout=_QUIET_S)
            if not future.done():
                await self._watch(future, token, gone)
        except asyncio.CancelledError:
            token.cancel()
            raise
        return await future

    async def _watch(
        self,
        future: asyncio.Future[_T],
        token: CancelToken,
        gone: Callable[[], Awaitable[object]],
    ) -> None:
        watcher = asyncio.ensure_future(gone())
        # Any: whichever of the two comes first, its result is not looked at here.
        either: set[asyncio.Future[Any]] = {future, watcher}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not future.done():
                token.cancel()
                await asyncio.wait({future})
        finally:
            watcher.cancel()

    def close(self) -> None:
        """Wait for what runs; begin nothing more."""
        self._pool.shutdown(wait=True, cancel_futures=True)
