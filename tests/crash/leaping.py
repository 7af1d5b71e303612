"""Time for tests of leases: waiting for another's lease takes none, and lets it expire."""

from __future__ import annotations

from omnigraph.clock import ManualClock, SystemClock
from omnigraph.graph.manifest.pauses import Pauses
from omnigraph.ids import UlidSource


def standing_clock() -> ManualClock:
    """A clock that shows the time of now and stands still: no lease is renewed by it."""
    return ManualClock(now_us=SystemClock().now_us())


class Leaping(Pauses):
    """Waiting for a lease takes no time and lets every other lease expire."""

    def __init__(self, clock: ManualClock, ttl_ms: int) -> None:
        super().__init__(UlidSource(SystemClock()))
        self._clock = clock
        self._ttl_ms = ttl_ms

    def for_lease(self, attempt: int) -> None:  # noqa: ARG002 - as in the class
        self._clock.advance(ms=self._ttl_ms)
