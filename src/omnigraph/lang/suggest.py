"""Near-miss suggestions for unknown names.

Comparing two names costs up to some fifty microseconds and there may be a hundred findings, so the
number and the length of the compared names are bounded.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

_LONGEST_NAME = 40
_MOST_NAMES = 300
_MOST_KNOWN = 10_000
_MOST_LISTED = 8


def nearest_names(name: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """The known names most like `name`, ignoring case, best first."""
    wanted = name.casefold()
    if len(wanted) > _LONGEST_NAME:
        return []
    by_folded: dict[str, str] = {}
    for candidate in known:
        if len(candidate) <= _LONGEST_NAME:
            by_folded.setdefault(candidate.casefold(), candidate)
    candidates: Iterable[str] = by_folded
    if len(by_folded) > _MOST_NAMES:
        alike = (folded for folded in by_folded if folded[:1] == wanted[:1])
        candidates = islice(alike, _MOST_NAMES)
    matches = get_close_matches(wanted, candidates, n=most, cutoff=0.6)
    return [by_folded[match] for match in matches]


def did_you_mean(name: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """A tail for a message: the nearest names, or what exists, or nothing."""
    names = sorted(set(islice(known, _MOST_KNOWN)))
    near = nearest_names(name, names)
    if near:
        return "; did you mean " + " or ".join(f"`{candidate}`" for candidate in near) + "?"
    if otherwise and names:
        shown = ", ".join(f"`{_cut(candidate)}`" for candidate in names[:_MOST_LISTED])
        hidden = len(names) - _MOST_LISTED
        return f"; {otherwise}: {shown}" + (f" and {hidden:,} more" if hidden > 0 else "")
    return ""


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
