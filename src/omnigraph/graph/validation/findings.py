"""What a check found: exact counts, and the first violations in the order of reporting.

However many rows fail, only as many violations are made as can be reported.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from omnigraph.graph.arrays import order_of, taken
from omnigraph.graph.validation.violation import Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from omnigraph.graph.arrays import Column, Mask, Positions
    from omnigraph.graph.validation.violation import Code, Violation

REPORTED_VIOLATIONS: Final = 1_000
"""How many violations a load reports; the counts are exact beyond it."""

ALL_ROWS: Final = 1 << 62
"""A limit that is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The violations of a delta, the first of them in full."""

    violations: tuple[Violation, ...] = ()
    counts: Mapping[Code, int] = field(default_factory=dict)
    halved_to: int | None = None
    """How many violations are kept, where those that were asked for would be too large to hold."""

    @property
    def total(self) -> int:
        """How many there are, reported or not."""
        return sum(self.counts.values())

    @property
    def first(self) -> Violation | None:
        """The violation that decides which error is raised."""
        return self.violations[0] if self.violations else None


def gather(parts: Iterable[Findings], *, limit: int = REPORTED_VIOLATIONS) -> Findings:
    """All findings as one, in order, cut to `limit`, or to less where a part was cut to less.

    Parts are taken one by one; only what may be reported is held.
    """
    counts: Counter[Code] = Counter()
    halved: list[int] = []

    def violations() -> Iterator[Violation]:
        for part in parts:
            counts.update(part.counts)
            if part.halved_to is not None:
                halved.append(part.halved_to)
            yield from part.violations

    ordered = heapq.nsmallest(limit, violations(), key=lambda item: item.order)
    # Behind the last that a part kept there may be others which come before those of other parts.
    halved_to = min(halved, default=None)
    return Findings(violations=tuple(ordered[:halved_to]), counts=dict(counts), halved_to=halved_to)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Who the rows of a column are: ids, lines of the input, positions in the delta."""

    ids: Column
    lines: Column | None = None
    positions: Positions | None = None
    are_committed: bool = False

    def subject(self, at: int) -> Subject:
        """The row at an index, for a violation."""
        line = None if self.lines is None else self.lines[at].as_py()
        row = at if self.positions is None else int(self.positions[at])
        return Subject(
            entity_id=self.ids[at].as_py(),
            input_line=line,
            row=None if self.are_committed else row,
        )

    def chosen(self, where: Positions) -> Rows:
        """The rows at these indexes."""
        origin = np.arange(len(self.ids)) if self.positions is None else self.positions
        return Rows(
            ids=taken(self.ids, where),
            lines=None if self.lines is None else taken(self.lines, where),
            positions=origin[where],
        )


def masked_findings(
    code: Code,
    failed: Mask,
    rows: Rows,
    make: Callable[[int, Subject], Violation],
    *,
    limit: int,
) -> Findings:
    """Findings for the failed rows; `make` is called for the first `limit` of them by id."""
    at = np.flatnonzero(failed)
    if not len(at):
        return Findings()
    if len(at) > limit:
        ranked = order_of(taken(rows.ids, at))[:limit]
        first = at[ranked]
    else:
        first = at
    made = [make(int(index), rows.subject(int(index))) for index in first]
    made.sort(key=lambda item: item.order)
    return Findings(violations=tuple(made), counts={code: len(at)})
