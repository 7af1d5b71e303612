"""How long to pause before a request is sent again.

Full jitter: any time from nothing to a bound that doubles, so that many clients that failed
together do not come back together. A provider that says when to come back is not asked earlier.
"""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from omnigraph.clock import Clock
    from omnigraph.ids import IdSource

_SECONDS: Final = re.compile(r"[0-9]{1,9}")
_MOST_DOUBLINGS: Final = 20
_DRAW_BYTES: Final = 4


class Backoff:
    """The pauses of one embedder; safe to share between threads."""

    __slots__ = ("_backoff_ms", "_clock", "_ids")

    def __init__(self, backoff_ms: int, clock: Clock, ids: IdSource) -> None:
        self._backoff_ms = backoff_ms
        self._clock = clock
        self._ids = ids

    def pause_us(self, attempt: int, retry_after: str | None) -> int:
        """Microseconds to wait after the given attempt, counted from 1, has failed."""
        longest_us = 1_000 * self._backoff_ms << min(attempt - 1, _MOST_DOUBLINGS)
        return max(int(longest_us * self._draw()), self._asked_us(retry_after))

    def _draw(self) -> float:
        """A number from 0 to 1; a digest spreads what the id source gives evenly."""
        digest = blake2b(self._ids.next_ulid().encode(), digest_size=_DRAW_BYTES).digest()
        return int.from_bytes(digest, "big") / (256**_DRAW_BYTES - 1)

    def _asked_us(self, retry_after: str | None) -> int:
        """What `Retry-After` asks for, as seconds or as a date; a header nobody can read is 0."""
        text = (retry_after or "").strip()
        if _SECONDS.fullmatch(text):
            return 1_000_000 * int(text)
        try:
            date = parsedate_to_datetime(text)
        except ValueError:
            return 0
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        return max(0, int(date.timestamp()) * 1_000_000 - self._clock.now_us())
