"""Which rows of a load are bad, so that the rest of it breaks no rule.

First go the lines that are no records and the rows that break a rule of single rows. Then, over
what is left, in rounds: keys, endpoints, cardinality, each over what the one before it left. A
round that finds nothing ends it; five rounds are made.

- Keys: all records that share a key or a `@unique` tuple go, not only the later ones, and all that
  hold a tuple, or in `append` an id, of a committed row.
- Endpoints: edges without their nodes go. A node that was rejected before is named as the cause.
- Cardinality: all records of the type go that start at a source with too many or too few edges.
  A source that has too few because a `merge` moves its edges away gets those edges back: the
  records that move them go.
- With `cascade`, nodes of the input that are left without an edge which they need go too; the next
  round finds the edges to them.

What stays is what a load of the input without these rows would commit: an edge whose last record
is rejected keeps the record before it. Where a committed row is left broken, no row can be blamed,
and nothing can be committed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from omnigraph.graph.validation import Code, EntityKind, Findings, gather

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import Violation

ROUNDS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong with a row: the first rule that it breaks, and what to say about all."""

    code: Code
    message: str
    properties: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRow:
    """A row, or a line that is no record, that is not committed."""

    place: int
    """Where it stands; ascends in the order of the input."""
    table: TableRef | None
    """`None` for a line that is no record."""
    fault: Fault
    node: tuple[str, str] | None = None
    """Type and id of a node, so that edges to it can name it."""
    caused_by: int | None = None
    """The place of the rejected node that an edge lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRow:
    """A rule across rows that one row of the input breaks."""

    table: TableRef
    place: int
    violation: Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """What one check found."""

    rows: Sequence[BrokenRow] = ()
    blocking: Findings = field(default_factory=Findings)
    """What no row of the input can be blamed for."""


class RelationRules(Protocol):
    """The rules across rows, over what is left of an input.

    A check may stop at one row more than the load may reject.
    """

    def drop(self, places: Mapping[TableRef, Sequence[int]]) -> None:
        """Rows that are left no more."""
        ...

    def keys(self) -> Broken:
        """Ids that are committed, and tuples that are held twice."""
        ...

    def endpoints(self) -> Broken:
        """Edges without their nodes."""
        ...

    def cardinality(self) -> Broken:
        """Edges of sources that have too many or too few."""
        ...

    def bare_nodes(self) -> Broken:
        """Nodes of the input without an edge of a type that asks for one."""
        ...

    def superseded(self) -> Mapping[TableRef, Sequence[int]]:
        """What is left and yet not written: a later record of the same edge is."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejections:
    """The bad rows of a load."""

    rows: Mapping[int, RejectedRow] = field(default_factory=dict)
    """By place, ascending."""
    blocking: Findings = field(default_factory=Findings)
    """What would be broken even without them."""
    is_settled: bool = True
    """A last round found nothing more."""
    is_complete: bool = True
    """These are all; else there are more than may be rejected."""

    @property
    def by_table(self) -> dict[TableRef, int]:
        """How many rows each table loses."""
        return dict(Counter(row.table for row in self.rows.values() if row.table is not None))

    @property
    def by_code(self) -> dict[str, int]:
        """How many rows each rule takes, by the first that they break."""
        counts = Counter(row.fault.code.value for row in self.rows.values())
        return dict(sorted(counts.items()))

    def first(self, count: int) -> Rejections:
        """The first rows in the order of the input, at most so many."""
        return replace(self, rows=dict(islice(self.rows.items(), count)))

    def places(self, *, but: Iterable[RejectedRow] = ()) -> dict[TableRef, list[int]]:
        """The places of the rejected rows of each table, without some of them."""
        others = {each.place for each in but}
        places: defaultdict[TableRef, list[int]] = defaultdict(list)
        for row in self.rows.values():
            if row.table is not None and row.place not in others:
                places[row.table].append(row.place)
        return dict(places)


def fault_of(violations: Iterable[Violation]) -> Fault:
    """One fault of everything that is wrong with a row, in the order of reporting."""
    ordered = sorted(violations, key=lambda each: each.order)
    first = ordered[0]
    messages = dict.fromkeys(each.message for each in ordered)
    return Fault(code=first.code, message="; ".join(messages), properties=first.properties)


def rejected_row(
    place: int, table: TableRef | None, violations: Sequence[Violation]
) -> RejectedRow:
    """A row that breaks these rules."""
    first = violations[0]
    entity_id = first.subject.entity_id
    is_node = table is not None and first.kind is EntityKind.NODE and entity_id is not None
    return RejectedRow(
        place=place,
        table=table,
        fault=fault_of(violations),
        node=(first.type or "", entity_id or "") if is_node else None,
    )


def set_aside(
    rules: RelationRules, bad: Iterable[RejectedRow], *, most: int, cascade: bool = False
) -> Rejections:
    """The rows to be rejected, from those that are bad by themselves.

    With more than `most` rejected rows the search ends, and what was found is not complete.
    """
    rejects = _Found(rules, most)
    rejects.add(bad)
    blocking = Findings()
    for _ in range(ROUNDS):
        before = len(rejects.rows)
        blocked: list[Findings] = []
        checks: tuple[Callable[[], Broken], ...] = (
            rules.keys,
            rules.endpoints,
            rules.cardinality,
            *([rules.bare_nodes] if cascade else ()),
        )
        for check in checks:
            if rejects.are_too_many:
                return rejects.rejections(is_complete=False)
            broken = check()
            rejects.add(_grouped(broken.rows))
            blocked.append(broken.blocking)
        if rejects.are_too_many:
            return rejects.rejections(is_complete=False)
        blocking = gather(blocked)
        if len(rejects.rows) == before:
            return rejects.rejections(blocking=blocking)
    return rejects.rejections(blocking=blocking, is_settled=False)


class _Found:
    def __init__(self, rules: RelationRules, most: int) -> None:
        self.rows: dict[int, RejectedRow] = {}
        self._rules = rules
        self._most = most
        self._nodes: dict[tuple[str, str], int] = {}

    @property
    def are_too_many(self) -> bool:
        return len(self.rows) > self._most

    def add(self, rows: Iterable[RejectedRow | _BrokenRecord]) -> None:
        dropped: defaultdict[TableRef, list[int]] = defaultdict(list)
        for each in rows:
            row = each if isinstance(each, RejectedRow) else self._with_cause(each)
            self.rows[row.place] = row
            if row.table is not None:
                dropped[row.table].append(row.place)
            if row.node is not None:
                known = self._nodes.get(row.node, row.place)
                self._nodes[row.node] = min(known, row.place)
        if dropped:
            self._rules.drop(dropped)

    def _with_cause(self, record: _BrokenRecord) -> RejectedRow:
        row = rejected_row(record.place, record.table, record.violations)
        causes = (self._cause(each) for each in record.violations)
        cause = next((each for each in causes if each is not None), None)
        return RejectedRow(
            place=row.place, table=row.table, fault=row.fault, node=row.node, caused_by=cause
        )

    def _cause(self, violation: Violation) -> int | None:
        if violation.code is not Code.ORPHAN_EDGE:
            return None
        return self._nodes.get((str(violation.limit), str(violation.value)))

    def rejections(
        self,
        *,
        blocking: Findings | None = None,
        is_settled: bool = True,
        is_complete: bool = True,
    ) -> Rejections:
        return Rejections(
            rows=dict(sorted(self.rows.items())),
            blocking=blocking or Findings(),
            is_settled=is_settled,
            is_complete=is_complete,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _BrokenRecord:
    """A row with everything that one check found."""

    table: TableRef
    place: int
    violations: Sequence[Violation]


def _grouped(rows: Iterable[BrokenRow]) -> list[_BrokenRecord]:
    by_place: defaultdict[tuple[TableRef, int], list[Violation]] = defaultdict(list)
    for row in rows:
        by_place[row.table, row.place].append(row.violation)
    return [
        _BrokenRecord(
            table=table,
            place=place,
            violations=sorted(violations, key=lambda each: each.order),
        )
        for (table, place), violations in by_place.items()
    ]
