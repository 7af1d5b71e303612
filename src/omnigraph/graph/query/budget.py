"""What one query may use: time, rows, memory. Checked between steps and before large ones."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.errors import Cancelled, DeadlineExceeded, ResourceLimit

if TYPE_CHECKING:
    from omnigraph.clock import Clock


class CancelToken:
    """Lets another thread end a query; the query ends at its next step."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def cancel(self) -> None:
        """End the query."""
        self._asked.set()

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._asked.is_set()


@dataclass(slots=True, kw_only=True)
class Budget:
    """The budget of one query."""

    clock: Clock
    timeout_ms: int
    """0: no limit."""
    max_rows: int
    memory_bytes: int
    token: CancelToken | None = None
    _started_us: int = field(init=False)
    _read_bytes: int = 0

    def __post_init__(self) -> None:
        self._started_us = self.clock.monotonic_us()

    @property
    def elapsed_us(self) -> int:
        """Time since the query began."""
        return self.clock.monotonic_us() - self._started_us

    @property
    def left_bytes(self) -> int:
        """Memory that is not taken by what was read."""
        return self.memory_bytes - self._read_bytes

    def check(self) -> None:
        """Go on, or not.

        Raises:
            DeadlineExceeded: the time is up.
            Cancelled: the caller gave up.
        """
        if self.token is not None and self.token.is_cancelled:
            raise Cancelled("the query was cancelled by its caller")
        if self.timeout_ms and self.elapsed_us > self.timeout_ms * 1_000:
            raise DeadlineExceeded(
                f"the query ran longer than {self.timeout_ms} ms; narrow it, or give it more time"
                " (timeout, OMNIGRAPH_QUERY_TIMEOUT_MS)",
                timeout_ms=self.timeout_ms,
                phase="query",
            )

    def require_rows(self, rows: int, what: str) -> None:
        """A table of bindings of this many rows may be built.

        Raises:
            ResourceLimit: it may not.
        """
        self.check()
        if rows > self.max_rows:
            raise ResourceLimit(
                f"{what} has {rows:,} rows and a query may hold {self.max_rows:,}; filter more,"
                " join the parts of the match, or raise OMNIGRAPH_MAX_BINDING_ROWS",
                resource="query_binding_rows",
                limit=self.max_rows,
                actual=rows,
            )

    def charge(self, size_bytes: int, what: str) -> None:
        """This much was read and stays in memory.

        Raises:
            ResourceLimit: with what was read before it is more than the query may hold.
        """
        self._read_bytes += size_bytes
        self.require_bytes(0, what)

    def require_bytes(self, size_bytes: int, what: str) -> None:
        """This much more memory may be used, for a while.

        Raises:
            ResourceLimit: it may not.
        """
        self.check()
        total = self._read_bytes + size_bytes
        if total > self.memory_bytes:
            raise ResourceLimit(
                f"with {what} the query holds {total:,} bytes and may use {self.memory_bytes:,};"
                " return fewer columns or rows, add a limit, or raise"
                " OMNIGRAPH_QUERY_MEMORY_BYTES",
                resource="query_memory_bytes",
                limit=self.memory_bytes,
                actual=total,
            )
