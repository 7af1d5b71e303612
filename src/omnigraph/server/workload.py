"""Who may run how much at once, per process: writes per actor, reads for the process.

Taking a slot and checking the bound is one step, so that 32 requests that race for 16 slots get
exactly 16. A write never waits for a slot; a read waits for a short while.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from omnigraph.errors import AdmissionRejected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from omnigraph.server.metrics import Metrics
    from omnigraph.settings import ServerSettings

ANONYMOUS: Final = "anonymous"
BRANCH_OPERATION_BYTES: Final = 256
"""What an operation on branches is counted as."""
READ_WAIT_S: Final = 1.0
"""How long a read waits for a slot."""


@dataclass(slots=True)
class _Load:
    requests: int = 0
    size_bytes: int = 0


class WorkloadController:
    """Counts what runs, and refuses what would be too much."""

    def __init__(
        self, settings: ServerSettings, metrics: Metrics, *, read_wait_s: float = READ_WAIT_S
    ) -> None:
        self._read_wait_s = read_wait_s
        self._most_requests = settings.per_actor_inflight_max
        self._most_bytes = settings.per_actor_bytes_max
        self._most_reads = settings.read_inflight_max
        self._metrics = metrics
        self._lock = threading.Lock()
        self._loads: dict[str, _Load] = {}
        self._reads = asyncio.Semaphore(settings.read_inflight_max)

    @contextmanager
    def writing(self, actor: str | None, size_bytes: int) -> Iterator[None]:
        """Hold a slot of an actor for a write.

        Raises:
            AdmissionRejected: the actor has too much in flight; nothing was taken.
        """
        name = ANONYMOUS if actor is None else actor
        self._take(name, size_bytes)
        try:
            yield
        finally:
            self._give_back(name, size_bytes)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Hold one of the slots for reads; waits for it a while.

        Raises:
            AdmissionRejected: none came free.
        """
        if self._reads.locked():
            await self._wait()
        else:
            await self._reads.acquire()
        try:
            yield
        finally:
            self._reads.release()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._read_wait_s):
                await self._reads.acquire()
        except TimeoutError:
            self._metrics.admission_rejected.add("reads")
            raise AdmissionRejected(
                f"{self._most_reads} reads run in this server; send it again in a moment",
                retry_after_s=1,
            ) from None

    def _take(self, name: str, size_bytes: int) -> None:
        with self._lock:
            load = self._loads.setdefault(name, _Load())
            if load.requests >= self._most_requests:
                reason, what = "requests", f"{load.requests} writes"
            elif load.size_bytes + size_bytes > self._most_bytes:
                reason, what = "bytes", f"writes of {load.size_bytes:,} bytes"
            else:
                load.requests += 1
                load.size_bytes += size_bytes
                return
            if not load.requests:
                del self._loads[name]
        self._metrics.admission_rejected.add(reason)
        raise AdmissionRejected(
            f"{what} of this actor are in flight; send it again when they are done"
        )

    def _give_back(self, name: str, size_bytes: int) -> None:
        with self._lock:
            load = self._loads[name]
            load.requests -= 1
            load.size_bytes -= size_bytes
            if not load.requests:
                del self._loads[name]
