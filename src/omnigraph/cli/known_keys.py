"""Keys of a configuration file that nobody knows, told with the nearest one that somebody does."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# Any: what a YAML file holds; its readers check the shape.
Level: TypeAlias = "tuple[str, Mapping[str, Any], Sequence[str]]"
"""Where some keys stand, the keys with their values, and those that are known there."""


def unknown_keys(levels: Iterable[Level], where: str) -> Iterator[str]:
    """A warning for each key that is unknown, in the order of the file; `where` names the file."""
    for within, entry, known in levels:
        for key in entry:
            if key not in known:
                nearest = difflib.get_close_matches(str(key), known, n=1, cutoff=0.0)[0]
                dotted = f"{within}.{key}" if within else str(key)
                yield f"unknown key {dotted} of {where} is ignored; the nearest is {nearest}"
