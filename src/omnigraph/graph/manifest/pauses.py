"""Pauses between attempts, with jitter, from one seeded source per open graph."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.ids import IdSource


class Pauses:
    """Sleeps for the protocols; the jitter comes from the id source."""

    def __init__(self, ids: IdSource) -> None:
        self._ids = ids

    def between_rounds(self, attempt: int) -> None:
        """Between two rounds of a publish: 10 to 160 ms."""
        self._sleep(min(10 << attempt, 160))

    def between_attempts(self, attempt: int) -> None:
        """Between two attempts of a whole write: 5 to 500 ms."""
        self._sleep(min(5 << min(attempt, 10), 500))

    def for_lease(self, attempt: int) -> None:
        """Between two looks at a lease that another holds: 10 to 200 ms."""
        self._sleep(min(10 << min(attempt, 5), 200))

    def _sleep(self, longest_ms: int) -> None:
        """Half of the longest, plus a random part of the other half."""
        share = int.from_bytes(self._ids.next_ulid()[-2:].encode(), "big") % 256 / 255
        time.sleep(longest_ms / 1000 * (0.5 + 0.5 * share))
