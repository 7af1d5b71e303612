"""Which old versions of a line of a table may go: pure judgement over facts.

Time counts from the moment a version was followed by another, not from when it was made: what was
in force at some time within the span can then be read at that time. A version goes only if the
policy allows it and no floor keeps it.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from omnigraph.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.storage.old_versions import VersionFile

FEWEST_KEPT: Final = 3
"""The newest versions of a line that always stay: a recovery may need them."""

YOUNG_US: Final = 10 * 60 * 1_000_000
"""What was in force so shortly ago may be read by somebody who left no pin."""

DAY_US: Final = 24 * 3600 * 1_000_000
WORK_DAYS: Final = 7

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AGE: Final = re.compile(r"(\d{1,9})([smhdw])")


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPolicy:
    """What a caller wants to keep; with both, a version goes only if both allow."""

    keep: int | None
    older_than_us: int | None
    commits: int = 0
    """What so many of the newest commits of each branch show stays."""

    work_us: int = WORK_DAYS * DAY_US
    """How long what a dead job left stays: within this time it may be resumed."""

    warnings: tuple[str, ...] = ()

    def allows(self, *, newer: int, age_us: int) -> bool:
        """Whether something may go that so many newer ones follow, since so long."""
        return (self.keep is None or newer >= self.keep) and (
            self.older_than_us is None or age_us >= self.older_than_us
        )


def parse_policy(
    keep: int | None, older_than: timedelta | str | None, *, work_days: int = WORK_DAYS
) -> CleanupPolicy:
    """The policy of a call.

    Raises:
        InvalidArgument: there is none, or it makes no sense.
    """
    if keep is None and older_than is None:
        raise InvalidArgument(
            "say what may go: keep (a number of versions), older_than (as '7d'), or both",
            argument="keep",
        )
    if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 0):
        raise InvalidArgument(
            f"keep is a number of versions that is not negative, not {keep!r}", argument="keep"
        )
    warnings: tuple[str, ...] = ()
    if keep is not None and keep < FEWEST_KEPT:
        warnings = (f"keep={keep} acts as {FEWEST_KEPT}: a recovery may need those versions",)
    return CleanupPolicy(
        keep=None if keep is None else max(keep, FEWEST_KEPT),
        older_than_us=None if older_than is None else _span_us(older_than),
        work_us=work_days * DAY_US,
        warnings=warnings,
    )


def _span_us(older_than: timedelta | str) -> int:
    if isinstance(older_than, timedelta):
        span = older_than // timedelta(microseconds=1)
        if span < 0:
            raise InvalidArgument("older_than must not be negative", argument="older_than")
        return span
    found = _AGE.fullmatch(older_than) if isinstance(older_than, str) else None
    if found is None:
        raise InvalidArgument(
            "older_than is a timedelta, or a number and a unit of s, m, h, d, w, as '7d', not"
            f" {older_than!r}",
            argument="older_than",
        )
    return int(found[1]) * _UNITS[found[2]] * 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFacts:
    """What is known of one line of a table."""

    versions: Sequence[VersionFile]
    """Those that are stored, the oldest first."""

    pin: int
    """The version that the head of its branch names: nothing from here on ever goes."""

    named: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """By who needs them: versions that heads, fork points, sidecars, pins and tags name."""


def kept_versions(facts: LineFacts, now_us: int) -> frozenset[int]:
    """The versions that stay whatever the policy says."""
    numbers = [each.version for each in facts.versions]
    named = itertools.chain.from_iterable(facts.named.values())
    young = (
        each.version
        for each, since_us in _superseded(facts.versions)
        if now_us - since_us < YOUNG_US
    )
    above = (number for number in numbers if number >= facts.pin)
    return frozenset(itertools.chain(named, numbers[-FEWEST_KEPT:], young, above))


def removable_versions(facts: LineFacts, policy: CleanupPolicy, now_us: int) -> list[int]:
    """The versions that go, in order."""
    kept = kept_versions(facts, now_us)
    count = len(facts.versions)
    return [
        each.version
        for position, (each, since_us) in enumerate(_superseded(facts.versions))
        if each.version not in kept
        and policy.allows(newer=count - 1 - position, age_us=now_us - since_us)
    ]


def _superseded(versions: Sequence[VersionFile]) -> list[tuple[VersionFile, int]]:
    """Each version but the newest, and when the one after it was made."""
    return [(each, after.made_us) for each, after in itertools.pairwise(versions)]
