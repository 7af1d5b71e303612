"""What a load does with bad rows: refuse the load, or set them aside and commit the rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from omnigraph.errors import InvalidArgument
from omnigraph.settings import StorageSettings
from omnigraph.storage.output_files import find_output

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.settings import Settings
    from omnigraph.storage.location import GraphLocation

_MAX_REJECTS = 10_000
_MAX_RATIO = 0.01


class ErrorAction(StrEnum):
    """What bad rows do to their load."""

    FAIL = "fail"
    """Nothing is committed."""
    QUARANTINE = "quarantine"
    """They are set aside, and the rest is committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectOptions:
    """Where bad rows go, and how many there may be."""

    action: ErrorAction = ErrorAction.FAIL
    place: GraphLocation | None = None
    """The folder that gets one folder for each load with bad rows; `None` writes none."""
    max_rejects: int = _MAX_REJECTS
    """More bad rows than this are neither set aside nor written."""
    max_ratio: float = _MAX_RATIO
    """A larger part of what was read is not set aside."""
    cascade: bool = False
    """Nodes that are left without an edge which they need are bad, too."""
    storage: StorageSettings = field(default_factory=StorageSettings, repr=False)

    @property
    def sets_aside(self) -> bool:
        """The load goes on without its bad rows."""
        return self.action is ErrorAction.QUARANTINE

    @property
    def are_wanted(self) -> bool:
        """All bad rows are wanted, not only the first."""
        return self.place is not None


def parse_reject_options(
    settings: Settings,
    *,
    on_error: str = ErrorAction.FAIL,
    rejects: str | Path | None = None,
    max_rejects: int | None = None,
    max_reject_ratio: float | None = None,
    cascade: bool = False,
) -> RejectOptions:
    """The options as callers give them; limits that are left out are those of the settings.

    Raises:
        InvalidArgument: an unknown word, a limit out of its range, or `quarantine` without a place.
    """
    if on_error not in set(ErrorAction):
        raise InvalidArgument(
            f"on_error is 'fail' or 'quarantine', not {on_error!r}", argument="on_error"
        )
    action = ErrorAction(on_error)
    if action is ErrorAction.QUARANTINE and rejects is None:
        raise InvalidArgument(
            "on_error='quarantine' needs `rejects`: the folder, local or s3://, that the bad rows"
            " are written to",
            argument="rejects",
        )
    if cascade and action is not ErrorAction.QUARANTINE:
        raise InvalidArgument(
            "cascade sets nodes aside that lose their required edges; it needs"
            " on_error='quarantine'",
            argument="cascade",
        )
    most = settings.pipeline.max_rejects if max_rejects is None else max_rejects
    if isinstance(most, bool) or not isinstance(most, int) or most < 0:
        raise InvalidArgument(
            f"max_rejects is a whole number of rows, 0 or more, not {most!r}",
            argument="max_rejects",
        )
    ratio = settings.pipeline.max_reject_ratio if max_reject_ratio is None else max_reject_ratio
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 <= ratio <= 1:
        raise InvalidArgument(
            f"max_reject_ratio is a number from 0 to 1, not {ratio!r}",
            argument="max_reject_ratio",
        )
    return RejectOptions(
        action=action,
        place=None if rejects is None else find_output(rejects, settings.storage),
        max_rejects=most,
        max_ratio=float(ratio),
        cascade=cascade,
        storage=settings.storage,
    )
