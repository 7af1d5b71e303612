"""What a front end knows of the call that it makes: until when, whether anybody still waits.

The scope belongs to the thread that makes the call. Queries test it between steps, writes before
they begin to commit: from then on a commit runs to its end, so that a late end of the scope gives
the real result. A call without a scope has the limits of its own arguments alone.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from omnigraph.errors import Cancelled, DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.clock import Clock
    from omnigraph.graph.query.budget import CancelToken


@dataclass(slots=True, kw_only=True)
class CallScope:
    """One call of a front end."""

    clock: Clock
    token: CancelToken
    timeout_ms: int = 0
    """0: no limit."""
    started_us: int | None = None
    """When its time began; now, without it."""
    is_replayed: bool = False
    """The write was made by an earlier request with the same idempotency key."""
    _started_us: int = field(init=False)

    def __post_init__(self) -> None:
        now_us = self.clock.monotonic_us()
        self._started_us = now_us if self.started_us is None else self.started_us

    def check(self, phase: str) -> None:
        """Go on, or not.

        Raises:
            Cancelled: nobody waits for the result.
            DeadlineExceeded: the time is up.
        """
        if self.token.is_cancelled:
            raise Cancelled("the call was cancelled by its caller; nothing was changed")
        spent_us = self.clock.monotonic_us() - self._started_us
        if self.timeout_ms and spent_us > self.timeout_ms * 1_000:
            raise DeadlineExceeded(
                f"the call took longer than {self.timeout_ms} ms; nothing was changed: send it"
                " again, or give it more time",
                timeout_ms=self.timeout_ms,
                phase=phase,
            )


_scope: Final[ContextVar[CallScope | None]] = ContextVar("omnigraph_call", default=None)


@contextmanager
def calling(scope: CallScope) -> Iterator[CallScope]:
    """Make calls of this thread under a scope."""
    previous = _scope.set(scope)
    try:
        yield scope
    finally:
        _scope.reset(previous)


def call_token() -> CancelToken | None:
    """What ends the call of this thread, if somebody may."""
    scope = _scope.get()
    return None if scope is None else scope.token


def check_call(phase: str) -> None:
    """Go on with the call of this thread, or not.

    Raises:
        Cancelled, DeadlineExceeded: it is at its end, and nothing was changed.
    """
    scope = _scope.get()
    if scope is not None:
        scope.check(phase)


def note_replay() -> None:
    """Tell whoever made the call that its write had been made before."""
    scope = _scope.get()
    if scope is not None:
        scope.is_replayed = True
