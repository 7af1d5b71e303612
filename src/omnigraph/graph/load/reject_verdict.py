"""Whether a load may go on without its bad rows, and the error if it may not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import InternalError, KeyConflict, LoadRejected
from omnigraph.graph.load.quarantine import ROUNDS
from omnigraph.graph.validation import REPORTED_VIOLATIONS, gather, refuse_load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from omnigraph.errors import JsonValue
    from omnigraph.graph.load.quarantine import Rejections
    from omnigraph.graph.load.reject_options import RejectOptions
    from omnigraph.graph.validation import Findings


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectVerdict:
    """What is known of a load that has bad rows."""

    options: RejectOptions
    findings: Findings
    """What the whole input breaks, as a load without `rejects` reports it."""
    found: Rejections
    read: int
    """Records, and lines that are none."""
    emptied: Sequence[str] = ()
    """Tables that have rows and that an overwrite would leave without any."""
    max_violations: int = REPORTED_VIOLATIONS
    """How many violations an error lists."""

    def require_allowed(self, write: Callable[[], str] | None) -> None:
        """Pass if the load goes on without its bad rows; `write` writes them and gives the address.

        They are written before a refusal too; of more than may be rejected, as many as may be.

        Raises:
            LoadRejected: it does not go on.
            KeyConflict: as `LoadRejected`, where a load that fails at the first bad row raises it.
        """
        if self.options.sets_aside:
            why = self._why_not()
            if why is not None:
                raise self._refused(why, self._written(write))
        else:
            raise self._failed(self._written(write))

    def _written(self, write: Callable[[], str] | None) -> str | None:
        is_wanted = self.found.is_complete or self.options.max_rejects > 0
        return write() if write is not None and is_wanted else None

    def _why_not(self) -> str | None:
        rejected, read = len(self.found.rows), self.read
        if not self.found.is_complete:
            return (
                f"more than {self.options.max_rejects:,} of {read:,} rows are bad, and max_rejects"
                f" is {self.options.max_rejects:,}"
            )
        if not self.found.is_settled:
            return (
                f"in each of {ROUNDS} rounds other rows became bad without those that were left out"
            )
        if self.found.blocking.total:
            return (
                f"{rejected:,} of {read:,} rows are bad, and without them committed rows break a"
                " rule"
            )
        if self.emptied:
            return (
                f"every row of {', '.join(self.emptied)} is bad, and an overwrite would leave"
                " nothing in its place"
            )
        if read and rejected / read > self.options.max_ratio:
            return (
                f"{rejected:,} of {read:,} rows are bad, and max_reject_ratio is"
                f" {self.options.max_ratio:g}"
            )
        return None

    def _refused(self, why: str, uri: str | None) -> LoadRejected:
        broken = self.found.blocking if self.found.blocking.total else self.findings
        error = _refusal(gather((broken,), limit=self.max_violations))
        details: dict[str, JsonValue] = {
            name: error.details[name]
            for name in ("total", "counts", "violations", "halved_to")
            if name in error.details
        }
        details |= {
            "read": self.read,
            "rejected": len(self.found.rows) if self.found.is_complete else None,
            "max_rejects": self.options.max_rejects,
            "max_reject_ratio": self.options.max_ratio,
            "rejects_uri": uri,
        }
        first = error.message.removeprefix("load refused: ")
        return LoadRejected(f"load refused: {why}: {first}{self._where(uri)}", **details)

    def _failed(self, uri: str | None) -> LoadRejected | KeyConflict:
        error = _refusal(self.findings)
        return type(error)(
            error.message + self._where(uri), **{**error.details, "rejects_uri": uri}
        )

    def _where(self, uri: str | None) -> str:
        if uri is None:
            return ""
        if self.found.is_complete:
            return f"; all bad rows are in {uri}"
        most = self.options.max_rejects
        return f"; more than {most:,} rows are bad: {most:,} of them are in {uri}"


def _refusal(findings: Findings) -> LoadRejected | KeyConflict:
    """The error of these findings."""
    try:
        refuse_load(findings)
    except (LoadRejected, KeyConflict) as error:
        return error
    raise InternalError("a load without faults has bad rows; please report this")
