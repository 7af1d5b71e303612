"""The texts that name a state of the graph, told apart by their form alone.

No name of a tag has one of the other forms, so no text can mean two things, whatever the graph
holds.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import Final

from omnigraph.errors import InvalidArgument

_COMMIT: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", re.IGNORECASE | re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]+")
_TIME: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}"
    r"([T ]\d{2}:\d{2}(:\d{2}([.,]\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})?)?",
    re.IGNORECASE | re.ASCII,
)
_LONGEST_NUMBER: Final = 18
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class TargetKind(Enum):
    """What a text names."""

    RESOLVED = auto()
    """A commit on a line: `resolved_snapshot`."""
    COMMIT = auto()
    NAME = auto()
    """A tag."""
    NUMBER = auto()
    """A commit by its number on its branch."""
    TIME = auto()
    """The newest commit of a branch that is not after it."""


_FORMS: Final = (
    (TargetKind.COMMIT, _COMMIT),
    (TargetKind.NUMBER, _NUMBER),
    (TargetKind.TIME, _TIME),
)


def no_target(at: object) -> InvalidArgument:
    """The error for what names no state."""
    return InvalidArgument(
        f"a state is named by a commit id, a tag, a number or a time, not by {at!r}", argument="at"
    )


def kind_of(text: str) -> TargetKind:
    """What a text names, by its form."""
    if "@" in text:
        return TargetKind.RESOLVED
    return next((kind for kind, form in _FORMS if form.fullmatch(text)), TargetKind.NAME)


def number_of(text: str) -> int:
    """The number that a text of that form is; beyond all commits if it is too long for one."""
    return int(text) if len(text) <= _LONGEST_NUMBER else sys.maxsize


def parse_time(text: str) -> datetime:
    """The moment that a text of that form means; without a zone in UTC, a date its first instant.

    Raises:
        InvalidArgument: there is no such moment.
    """
    try:
        return datetime.fromisoformat(text.upper())
    except ValueError as error:
        raise InvalidArgument(
            f"{text!r} has the form of a time and is none: {error}", argument="at"
        ) from error


def microseconds_of(moment: datetime) -> int:
    """Microseconds since the epoch; a moment without a zone is in UTC.

    Raises:
        InvalidArgument: it is the time of data frames that stands for none.
    """
    if moment != moment:  # That one alone is not equal to itself.
        raise InvalidArgument("a state is named by a time, and this one is missing", argument="at")
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (zoned - _EPOCH) // timedelta(microseconds=1)


def time_text(time_us: int) -> str:
    """A moment as people and commands give it, to the microsecond."""
    moment = _EPOCH + timedelta(microseconds=time_us)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
