"""What a check found: exact counts, and some violations in the order of reporting.

However many rows fail, only as many violations are made as can be reported. Of these the first few
of every code and type are some, so that no kind of fault hides behind many of another; the others
are those that come first. So chosen from all parts of an input, they are the same as from what was
so chosen of each part.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from omnigraph.graph.arrays import order_of, taken
from omnigraph.graph.validation.violation import InputUnit, Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from omnigraph.graph.arrays import Column, Mask, Positions
    from omnigraph.graph.validation.violation import Code, Violation

REPORTED_VIOLATIONS: Final = 1_000
"""How many violations a load reports; the counts are exact beyond it."""

OF_EACH_KIND: Final = 3
"""So many of each code and type are reported before more of the same."""

ALL_ROWS: Final = 1 << 62
"""A limit that is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The violations of a delta, some of them in full."""

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
    """All findings as one, in order; of more than `limit` those of `select`.

    Where a part was cut to less, all are. Parts are taken one by one; only what may be reported is
    held.
    """
    counts: Counter[Code] = Counter()
    halved: list[int] = []

    def violations() -> Iterator[Violation]:
        for part in parts:
            counts.update(part.counts)
            if part.halved_to is not None:
                halved.append(part.halved_to)
            yield from part.violations

    kept = select(violations(), limit)
    # A part that was cut to less may lack others that would be chosen.
    halved_to = min(halved, default=None)
    if halved_to is not None:
        kept = select(kept, halved_to)
    kept.sort(key=_order)
    return Findings(violations=tuple(kept), counts=dict(counts), halved_to=halved_to)


def select(violations: Iterable[Violation], limit: int) -> list[Violation]:
    """The violations that stand for all, the more telling first.

    The first of each code and type, the second of each, and so on for a few; then all others in
    order. Only what may be chosen is held.
    """
    few: defaultdict[object, list[Violation]] = defaultdict(list)

    def met() -> Iterator[Violation]:
        for each in violations:
            first = few[each.code, each.kind, each.type]
            if len(first) < OF_EACH_KIND or each.order < first[-1].order:
                insort(first, each, key=_order)
                del first[OF_EACH_KIND:]
            yield each

    ordered = heapq.nsmallest(limit, met(), key=_order)
    ranked = [(turn, each) for first in few.values() for turn, each in enumerate(first)]
    chosen = {id(each) for _, each in ranked}
    ranked += [(OF_EACH_KIND, each) for each in ordered if id(each) not in chosen]
    ranked.sort(key=lambda item: (item[0], item[1].order))
    return [each for _, each in ranked[:limit]]


def _order(violation: Violation) -> tuple[object, ...]:
    return violation.order


def with_row_numbers(findings: Findings) -> Findings:
    """The findings of tables, each with the number of its row, counted from 1."""
    numbered = tuple(
        each
        if each.subject.row is None
        else replace(
            each,
            subject=replace(each.subject, input_line=each.subject.row + 1, unit=InputUnit.ROW),
        )
        for each in findings.violations
    )
    return replace(findings, violations=numbered)


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
