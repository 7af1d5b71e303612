"""How fast texts may be sent, and how many of them at once.

Nobody here knows the tokens of a provider. They are estimated from the bytes of a text, a little
too high for most languages, so that a limit is kept rather than reached.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from omnigraph.clock import Clock

_T = TypeVar("_T")

MOST_TOKENS: Final = 100_000
"""Of one request, however few texts it has."""

_BYTES_PER_TOKEN: Final = 3
_MINUTE_US: Final = 60_000_000


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has; at least one."""
    return -(-len(text.encode()) // _BYTES_PER_TOKEN) or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Requests and tokens per minute; `None` means no limit."""

    requests: float | None = None
    tokens: float | None = None

    def shared_by(self, count: int) -> Rate:
        """What each of so many gets."""
        return Rate(
            requests=None if self.requests is None else self.requests / count,
            tokens=None if self.tokens is None else self.tokens / count,
        )


class Pace:
    """Lets requests pass at a rate: the first at once, the next when the last is paid for."""

    __slots__ = ("_clock", "_free_us", "_pause", "_rate")

    def __init__(
        self, rate: Rate, clock: Clock, *, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._pause = pause
        self._free_us = clock.monotonic_us()

    def wait(self, tokens: int) -> None:
        """Return when a request of so many tokens may be sent."""
        left_us = self._free_us - self._clock.monotonic_us()
        if left_us > 0:
            self._pause(left_us / 1e6)
        cost_us = 0.0
        if self._rate.requests is not None:
            cost_us = _MINUTE_US / self._rate.requests
        if self._rate.tokens is not None:
            cost_us = max(cost_us, tokens * _MINUTE_US / self._rate.tokens)
        self._free_us = self._clock.monotonic_us() + round(cost_us)


def cut_requests(
    texts: Iterable[tuple[_T, int]], *, most_texts: int, most_tokens: int = MOST_TOKENS
) -> Iterator[tuple[list[_T], int]]:
    """What comes with its tokens, in requests that keep both bounds, each with its tokens.

    One text alone may have more tokens than are allowed: the provider knows better.
    """
    held: list[_T] = []
    total = 0
    for text, tokens in texts:
        if held and (len(held) >= most_texts or total + tokens > most_tokens):
            yield held, total
            held, total = [], 0
        held.append(text)
        total += tokens
    if held:
        yield held, total
