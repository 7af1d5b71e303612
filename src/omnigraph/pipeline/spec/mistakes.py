"""Mistakes of mappings, gathered so that all of a run are told at once.

Several are one `SourceError`, with each of them in its detail `mistakes`: its message, and whatever
else it would say alone. One alone is raised as it is.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from omnigraph.errors import InvalidArgument, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Mistake: TypeAlias = "InvalidArgument | SourceError"


def mistakes_of(error: Mistake) -> list[Mistake]:
    """The mistakes that an error tells, each as if it were alone."""
    told = error.details.get("mistakes")
    if not isinstance(told, list):
        return [error]
    return [
        SourceError(
            str(each["message"]), **{name: each[name] for name in each if name != "message"}
        )
        for each in told
        if isinstance(each, dict)
    ]


def as_one(mistakes: Sequence[Mistake]) -> Mistake:
    """One error that tells all of these, each once; there is at least one."""
    each_once = list({each.message: each for each in mistakes}.values())
    first = each_once[0]
    if len(each_once) == 1:
        return first
    return SourceError(
        f"{len(each_once)} mistakes, the first: {first.message}",
        mistakes=[{**each.details, "message": each.message} for each in each_once],
    )


class Mistakes:
    """Gathers the mistakes of parts that are looked at one by one."""

    def __init__(self) -> None:
        self._found: list[Mistake] = []

    @property
    def are_none(self) -> bool:
        """Whether every part so far was without."""
        return not self._found

    @contextmanager
    def of_part(self) -> Iterator[None]:
        """Keep what a part raises, and go on with the next."""
        try:
            yield
        except (InvalidArgument, SourceError) as error:
            self._found += mistakes_of(error)

    def add(self, mistakes: Sequence[Mistake]) -> None:
        """Keep mistakes that were found."""
        self._found += mistakes

    def require_none(self) -> None:
        """Pass if there are none.

        Raises:
            InvalidArgument, SourceError: with all of them.
        """
        if self._found:
            raise as_one(self._found)
