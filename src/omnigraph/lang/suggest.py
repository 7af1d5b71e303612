"""Near-miss suggestions for unknown names."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

_MOST_CANDIDATES = 1_000
"""Names compared for one suggestion; each costs some ten microseconds."""


def nearest_names(name: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """The known names most like `name`, ignoring case, best first."""
    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(candidate.casefold(), candidate)
    found = get_close_matches(name.casefold()[:200], by_folded, n=most, cutoff=0.6)
    return [by_folded[match] for match in found]


def did_you_mean(name: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """A tail for a message: the nearest names, or what exists, or nothing."""
    names = sorted(set(islice(known, _MOST_CANDIDATES)))
    near = nearest_names(name, names)
    if near:
        return "; did you mean " + " or ".join(f"`{candidate}`" for candidate in near) + "?"
    if otherwise and names:
        shown = ", ".join(f"`{candidate}`" for candidate in names[:8])
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        return f"; {otherwise}: {shown}{more}"
    return ""
