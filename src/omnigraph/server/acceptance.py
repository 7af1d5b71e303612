"""Which of the forms that there are a client wants, by its `Accept` header; pure.

A form has the quality of the most specific range that fits it, and 0 excludes it. The highest
quality wins, then the more specific range, then the one that the client names first, then the form
that stands first with us. What cannot be read of the header says nothing. A client that excludes
every form, or names none of ours, gets the first: no status of the contract says otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_QUALITY: Final = re.compile(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")
_ANY: Final = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    """One range of the header; `at` is its place."""

    kind: str
    subtype: str
    quality: float
    at: int

    @property
    def specificity(self) -> int:
        return (self.kind != _ANY) + (self.subtype != _ANY)

    def fits(self, form: str) -> bool:
        kind, _, subtype = form.partition("/")
        return self.kind in (_ANY, kind) and self.subtype in (_ANY, subtype)


def preferred(accepted: Sequence[str], forms: Sequence[str]) -> str:
    """The form that the values of `Accept` prefer; the first one without a wish."""
    ranges = [
        found
        for at, text in enumerate(",".join(accepted).split(","))
        if (found := _parsed(text, at)) is not None
    ]
    wanted: list[tuple[float, int, int, str]] = []
    for form in forms:
        fitting = [each for each in ranges if each.fits(form)]
        best = max(fitting, key=lambda each: (each.specificity, -each.at), default=None)
        if best is not None and best.quality:
            wanted.append((-best.quality, -best.specificity, best.at, form))
    # `min` keeps the first of equals: our own order.
    return min(wanted, key=lambda each: each[:3])[3] if wanted else forms[0]


def _parsed(text: str, at: int) -> _Range | None:
    media_type, *parameters = (part.strip().lower() for part in text.split(";"))
    kind, slash, subtype = media_type.partition("/")
    if not (kind and slash and subtype) or (kind == _ANY != subtype):
        return None
    quality = "1"
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            quality = value.strip()
    if not _QUALITY.fullmatch(quality):
        return None
    return _Range(kind=kind, subtype=subtype, quality=float(quality), at=at)
