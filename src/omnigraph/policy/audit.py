"""The audit log: who asked for what, and what became of it, one line of JSON for each request.

A line is one write to a file opened for appending, so that processes may share it. It names actors,
actions, branches, queries and commits, never parameters, values or tokens. A sink that fails is
logged and counted; in strict mode what could not be written is kept and tried again, and until that
works nobody may change anything.
"""

from __future__ import annotations

import json
import logging
import os
from collections import deque
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Final

from omnigraph.errors import AuditUnavailable
from omnigraph.graph.access import Action

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.clock import Clock
    from omnigraph.settings import ServerSettings

_LOG: Final = logging.getLogger(__name__)
_STANDARD_OUTPUT: Final = "-"
_READING: Final = frozenset({Action.READ, Action.GRAPH_LIST, Action.METRICS})
_KEPT_LINES: Final = 1_000
"""Lines that a strict log holds while its sink is down; older ones are given up and counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """One request, after it was answered."""

    request_id: str | None
    graph: str | None
    actor: str | None
    action: Action
    branch: str | None = None
    target_branch: str | None = None
    allowed: bool
    rule: str | None = None
    filtered: bool = False
    query: str | None = None
    """The name of the query that it runs."""
    commit: str | None = None
    """What the request made."""
    status: int | None = None


class AuditLog:
    """The sink of one process; safe to use from many threads."""

    def __init__(self, path: str, clock: Clock, *, reads: bool, strict: bool) -> None:
        self._path = path
        self._clock = clock
        self._reads = reads
        self._strict = strict
        self._lock = Lock()
        self._file: int | None = None
        self._is_torn = False
        self._unwritten: deque[bytes] = deque(maxlen=_KEPT_LINES)
        self.failures = 0
        """How many writes failed."""

    def record(self, event: AuditEvent) -> None:
        """Write the line of a request, if its kind is logged; never raises for the sink."""
        if event.allowed and event.action in _READING and not self._reads:
            return
        line = json.dumps({"ts": _stamp(self._clock), **asdict(event)}, ensure_ascii=False)
        with self._lock:
            self._unwritten.append(line.encode(errors="backslashreplace") + b"\n")
            self._flush()

    def require_working(self) -> None:
        """Refuse to change anything while a strict log cannot be written.

        Raises:
            AuditUnavailable: the log is strict, and a line of it could not be written even now.
        """
        if not self._strict:
            return
        with self._lock:
            if self._file is None:
                self._try(self._open)
            self._flush()
            if self._unwritten or self._file is None:
                raise AuditUnavailable(
                    "the audit log cannot be written, and nothing may change without it; try"
                    " again when its sink works"
                )

    def close(self) -> None:
        """Close the file; safe twice."""
        with self._lock:
            if self._file is not None and self._path != _STANDARD_OUTPUT:
                os.close(self._file)
            self._file = None

    def _flush(self) -> None:
        while self._unwritten:
            line = self._unwritten[0]
            if not self._try(lambda line=line: self._write(line)):  # type: ignore[misc] # bound now
                break
            self._unwritten.popleft()
        if not self._strict:
            self._unwritten.clear()

    def _try(self, act: Callable[[], None]) -> bool:
        try:
            act()
        except OSError as error:
            self.failures += 1
            _LOG.error(
                "audit log cannot be written", extra={"path": self._path, "error": str(error)}
            )
            return False
        return True

    def _open(self) -> None:
        if self._path == _STANDARD_OUTPUT:
            self._file = 1
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(self._path, flags, 0o600)

    def _write(self, line: bytes) -> None:
        if self._file is None:
            self._open()
        whole = b"\n" + line if self._is_torn else line
        written = os.write(self._file or 1, whole)
        # The rest of a torn line stays; the next one begins on a line of its own.
        self._is_torn = written != len(whole)
        if self._is_torn:
            raise OSError(f"only {written} of {len(whole)} bytes were written")


def open_audit_log(settings: ServerSettings, clock: Clock) -> AuditLog | None:
    """The log that the settings name, or `None` if they name none."""
    if settings.audit_log is None:
        return None
    return AuditLog(
        settings.audit_log, clock, reads=settings.audit_reads, strict=settings.audit_strict
    )


def _stamp(clock: Clock) -> str:
    moment = datetime.fromtimestamp(clock.now_us() / 1_000_000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
