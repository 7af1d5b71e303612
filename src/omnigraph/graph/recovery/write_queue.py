"""One writer at a time per scope inside a process; it only saves work, it guarantees nothing."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class WriteQueueManager:
    """Queues the threads of one open graph before they compete for a lease."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._queues: dict[str, threading.Lock] = {}

    @contextmanager
    def turn(self, scope: str, *, wait_ms: int) -> Iterator[bool]:
        """Wait for a turn; tells whether it came in time."""
        with self._guard:
            queue = self._queues.setdefault(scope, threading.Lock())
        is_ours = queue.acquire(timeout=wait_ms / 1_000)
        try:
            yield is_ours
        finally:
            if is_ours:
                queue.release()
