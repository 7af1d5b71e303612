"""A store that fails: at its n-th call, before or after the effect, once or from then on."""

from __future__ import annotations

import threading
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.storage.calls import StoreCall


class Moment(StrEnum):
    """When a call fails."""

    BEFORE = "before"
    """It has no effect."""

    AFTER = "after"
    """It has its effect, and the answer is lost."""

    OUTAGE = "outage"
    """It has no effect, nor has any call after it."""

    UNSYNCED = "unsynced"
    """It is a sync and fails, and so does every sync after it; other calls are not counted."""


class FailingStore:
    """A `CallObserver` that fails calls of the thread that armed it."""

    def __init__(self) -> None:
        self._left = 0
        self._moment = Moment.BEFORE
        self._error: type[Exception] = OSError
        self._thread: int | None = None
        self.hit: StoreCall | None = None
        self.has_disarmed = False
        """Whether a sidecar was removed before the fault."""

    def arm(self, number: int, moment: Moment, error: type[Exception] = OSError) -> None:
        """Fail the n-th call from now on."""
        self._left, self._moment, self._error = number, moment, error
        self._thread = threading.get_ident()
        self.hit = None
        self.has_disarmed = False

    def disarm(self) -> None:
        """Work again."""
        self._thread = None

    def before(self, call: StoreCall) -> None:
        if self._thread != threading.get_ident():
            return
        if (call.operation, call.target[:10]) == ("delete", "__recovery") and not self.hit:
            self.has_disarmed = True
        if self._moment is Moment.UNSYNCED and call.operation != "sync":
            return
        self._left -= 1
        if self._left == 0 and self._moment is not Moment.AFTER:
            self._fail(call)
        if self._left < 0 and self._moment in (Moment.OUTAGE, Moment.UNSYNCED):
            raise self._error(f"the store is down: {call.operation}")

    def after(self, call: StoreCall) -> None:
        if self._thread != threading.get_ident():
            return
        if self._left == 0 and self._moment is Moment.AFTER:
            self._left = -1
            self._fail(call)

    def _fail(self, call: StoreCall) -> None:
        self.hit = call
        raise self._error(f"injected: {call.operation} of {call.target}")
