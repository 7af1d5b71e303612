"""The one owner of time.

Code that needs the time takes a `Clock`, so that a run can be replayed and a test never sleeps.
Wall time is for people and for stamps that other machines read; it may jump. Durations and
deadlines are measured with `monotonic_us`, whose zero means nothing outside the process.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time since the Unix epoch, and a time that never goes back."""

    def now_us(self) -> int:
        """Microseconds since the epoch."""
        ...

    def now_ms(self) -> int:
        """Milliseconds since the epoch, rounded down."""
        ...

    def monotonic_us(self) -> int:
        """Microseconds since an arbitrary start; never less than before."""
        ...


class SystemClock:
    """The machine's clock."""

    __slots__ = ()

    def now_us(self) -> int:
        """Microseconds since the epoch."""
        return time.time_ns() // 1_000

    def now_ms(self) -> int:
        """Milliseconds since the epoch, rounded down."""
        return time.time_ns() // 1_000_000

    def monotonic_us(self) -> int:
        """Microseconds since an arbitrary start; never less than before."""
        return time.monotonic_ns() // 1_000


class ManualClock:
    """A clock that moves only when told, for replays and tests."""

    __slots__ = ("_monotonic_us", "_now_us")

    def __init__(self, *, now_us: int = 0) -> None:
        self._now_us = now_us
        self._monotonic_us = 0

    def now_us(self) -> int:
        """Microseconds since the epoch."""
        return self._now_us

    def now_ms(self) -> int:
        """Milliseconds since the epoch, rounded down."""
        return self._now_us // 1_000

    def monotonic_us(self) -> int:
        """Microseconds that `advance` has added."""
        return self._monotonic_us

    def advance(self, *, us: int = 0, ms: int = 0) -> None:
        """Let time pass: both times move by the same amount.

        Raises:
            ValueError: if the amount is negative.
        """
        step_us = us + 1_000 * ms
        if step_us < 0:
            raise ValueError(
                f"time passes forwards; got {step_us} us (jump_to moves wall time back)"
            )
        self._now_us += step_us
        self._monotonic_us += step_us

    def jump_to(self, *, now_us: int) -> None:
        """Set wall time, as an operator or a time service does; no time passes."""
        self._now_us = now_us
