"""Conditions and ranges of a request for a blob, as RFC 9110 has them; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_RANGE: Final = re.compile("bytes=(?:([0-9]{1,18})-([0-9]{0,18})|-([0-9]{1,18}))", re.IGNORECASE)
_TAG: Final = re.compile(r'(W/)?("[\x21\x23-\x7e\x80-\xff]*")')


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteRange:
    """A half-open part of a value; empty if no byte of the value is in it."""

    start: int
    end: int

    @property
    def is_satisfiable(self) -> bool:
        """Whether it has a byte."""
        return self.start < self.end


def parse_range(values: Sequence[str], length: int) -> ByteRange | None:
    """The one range that is asked for; `None` for none, several, or what is no range of bytes."""
    match = _RANGE.fullmatch(values[0].replace(" ", "")) if len(values) == 1 else None
    if match is None:
        return None
    first, last, suffix = match.groups()
    if suffix is not None:
        return ByteRange(start=max(length - int(suffix), 0), end=length)
    start = int(first)
    end = int(last) + 1 if last else max(length, start)
    if end <= start and last:
        return None
    if start >= length:
        return ByteRange(start=start, end=start)
    return ByteRange(start=start, end=min(end, length))


def matches_strongly(values: Sequence[str], etag: str) -> bool:
    """Whether `If-Match` holds: `*`, or the tag itself; a weak tag never is it."""
    return _is_any(values) or (False, etag) in _tags(values)


def matches_weakly(values: Sequence[str], etag: str) -> bool:
    """Whether `If-None-Match` names the tag, strong or weak."""
    return _is_any(values) or etag in {tag for _, tag in _tags(values)}


def is_same(values: Sequence[str], etag: str) -> bool:
    """Whether `If-Range` is this one strong tag."""
    return len(values) == 1 and values[0].strip() == etag


def _is_any(values: Sequence[str]) -> bool:
    return [value.strip() for value in values] == ["*"]


def _tags(values: Sequence[str]) -> set[tuple[bool, str]]:
    return {(bool(weak), tag) for value in values for weak, tag in _TAG.findall(value)}
