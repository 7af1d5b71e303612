"""A graph as plain rows, with the rules of its schema: what every write of a history should do.

The model is slow and simple: it looks at every row after every write.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random  # noqa: TID251 - for its type

Row = dict[str, Any]  # Any: a value of any type
Tables = dict[str, dict[str, Row]]

NODES = ("Person", "Note")
EDGES = {"Knows": ("Person", "Person"), "Wrote": ("Person", "Note")}
TABLES = (*NODES, *EDGES)
RANKS = (
    "range_violation",
    "check_violation",
    "enum_violation",
    "key_conflict",
    "unique_violation",
    "orphan_edge",
    "cardinality_violation",
)
KEYS: tuple[tuple[str, ...], ...] = ((), ("name",), ("num",), ("day",), ("name", "num"))
CARDS: tuple[tuple[int, int | None], ...] = ((0, None), (0, None), (0, 1), (0, 2), (1, 2))


@dataclass(frozen=True, kw_only=True)
class HistorySchema:
    """The schema of one history."""

    key: tuple[str, ...]
    is_ranged: bool
    is_checked: bool
    unique: tuple[tuple[str, ...], ...]
    default: str | None
    is_indexed: bool
    cards: dict[str, tuple[int, int | None]]
    is_code_unique: bool
    is_pair_unique: bool

    @property
    def text(self) -> str:
        """The `.pg` text."""
        index = " @index" if self.is_indexed else ""
        person = [
            "name: String",
            "num: I64",
            "day: Date",
            f"age: I32?{index}",
            f"email: String?{index}",
            "nick: String?" + (f' @default("{self.default}")' if self.default else ""),
            "level: enum(junior, senior)?",
        ]
        person += [f"@key({', '.join(self.key)})"] if self.key else []
        person += [f"@unique({', '.join(names)})" for names in self.unique]
        person += ["@range(age, 0..100)"] if self.is_ranged else []
        person += ['@check(email, "^[xyz]")'] if self.is_checked else []
        code = "code: String?" + (" @unique" if self.is_code_unique else "")
        pair = "@unique(src, dst)" if self.is_pair_unique else ""
        return "\n".join(
            (
                f"node Person {{ {' '.join(person)} }}",
                "node Note { text: String  mark: I32? }",
                f"edge Knows: Person -> Person {self._card('Knows')} {{ since: I32?  {code} }}",
                f"edge Wrote: Person -> Note {self._card('Wrote')} {{ {pair} }}",
            )
        )

    def _card(self, name: str) -> str:
        low, high = self.cards[name]
        return f"@card({low}..{'' if high is None else high})"

    def unique_of(self, table: str) -> tuple[tuple[str, ...], ...]:
        """The tuples that no two rows share; keys are ids already."""
        if table == "Person":
            return self.unique
        if table == "Wrote" and self.is_pair_unique:
            return (("src", "dst"),)
        return (("code",),) if table == "Knows" and self.is_code_unique else ()

    def person_id(self, row: Row) -> str | None:
        """The id that the key of a person gives, if there is one."""
        spelled = [str(_days(row[name])) if name == "day" else str(row[name]) for name in self.key]
        if len(spelled) > 1:
            return json.dumps(spelled, separators=(",", ":"), ensure_ascii=False)
        return spelled[0] if spelled else None


def random_schema(rng: random.Random) -> HistorySchema:
    """Any schema of a history."""
    uniques = ((), (("email",),), (("email",),), (("age", "level"), ("email",)))
    return HistorySchema(
        key=rng.choice(KEYS),
        is_ranged=rng.random() < 0.7,
        is_checked=rng.random() < 0.5,
        unique=rng.choice(uniques),
        default=rng.choice((None, "none")),
        is_indexed=rng.random() < 0.3,
        cards={name: rng.choice(CARDS) for name in EDGES},
        is_code_unique=rng.random() < 0.5,
        is_pair_unique=rng.random() < 0.3,
    )


def _days(text: str) -> int:
    """Days since the epoch of one of the days that histories use."""
    return {"1970-01-01": 0, "1970-01-02": 1, "1969-12-31": -1, "2024-02-29": 19_782}[text]


@dataclass
class Change:
    """What one write wants, by table."""

    records: dict[str, list[tuple[str, Row]]] = field(default_factory=dict)
    """Ids and whole rows, in order; a later record of an id replaces an earlier one."""
    removed: dict[str, set[str]] = field(default_factory=dict)
    strict: set[str] = field(default_factory=set)
    """Tables in which no id of a record may exist."""
    replaced: set[str] = field(default_factory=set)
    """Tables whose rows all go first."""
    one_batch: set[str] = field(default_factory=set)
    """Tables whose records have no order, so that none may repeat another."""

    def add(self, table: str, entity_id: str, row: Row) -> None:
        """One more record."""
        self.records.setdefault(table, []).append((entity_id, row))

    def image(self, table: str) -> dict[str, Row]:
        """The last record of each id."""
        return dict(self.records.get(table, []))

    def touched(self, table: str) -> set[str]:
        """Ids of rows that do not stay as they are."""
        return {*self.image(table), *self.removed.get(table, set())}


def empty_tables() -> Tables:
    """A graph without rows."""
    return {table: {} for table in TABLES}


def applied(before: Tables, change: Change) -> Tables:
    """The rows after the change."""
    after = empty_tables()
    for table in TABLES:
        kept = {} if table in change.replaced else before[table]
        gone = change.removed.get(table, set())
        after[table] = {each: row for each, row in kept.items() if each not in gone}
        after[table] |= change.image(table)
    return after


def faults(schema: HistorySchema, before: Tables, change: Change) -> list[str]:
    """The codes of the rules that the change breaks, in the order of the checks."""
    after = applied(before, change)
    found: set[str] = set()
    for table in TABLES:
        records = change.records.get(table, [])
        for _, row in records:
            found |= _row_faults(schema, table, row)
        if table in change.strict and any(each in before[table] for each, _ in records):
            found.add("key_conflict")
        if not _is_unique(schema, before, change, table):
            found.add("unique_violation")
    for table, (source, target) in EDGES.items():
        for row in after[table].values():
            if row["src"] not in after[source] or row["dst"] not in after[target]:
                found.add("orphan_edge")
        if not _has_right_number(schema, before, after, change, table):
            found.add("cardinality_violation")
    return [code for code in RANKS if code in found]


def _row_faults(schema: HistorySchema, table: str, row: Row) -> set[str]:
    found: set[str] = set()
    if table == "Person":
        if schema.is_ranged and row["age"] is not None and not 0 <= row["age"] <= 100:
            found.add("range_violation")
        if schema.is_checked and row["email"] is not None and row["email"][0] not in "xyz":
            found.add("check_violation")
        if row["level"] not in (None, "junior", "senior"):
            found.add("enum_violation")
    return found


def _is_unique(schema: HistorySchema, before: Tables, change: Change, table: str) -> bool:
    records = change.records.get(table, [])
    if table not in change.one_batch:
        records = list(change.image(table).items())
    if max(Counter(each for each, _ in records).values(), default=0) > 1:
        return False
    stays = {} if table in change.replaced else before[table]
    others = [row for each, row in stays.items() if each not in change.touched(table)]
    for names in schema.unique_of(table):
        mine = [tuple(row[name] for name in names) for _, row in records]
        mine = [each for each in mine if None not in each]
        theirs = {tuple(row[name] for name in names) for row in others}
        if len(set(mine)) < len(mine) or theirs & set(mine):
            return False
    return True


def _has_right_number(
    schema: HistorySchema, before: Tables, after: Tables, change: Change, table: str
) -> bool:
    low, high = schema.cards[table]
    sources = {row["src"] for row in change.image(table).values()}
    if table not in change.replaced:
        sources |= {
            before[table][each]["src"] for each in change.touched(table) if each in before[table]
        }
    nodes = EDGES[table][0]
    # A source that goes, or never was, is no business of this rule unless the edge names it.
    gone = set(before[nodes]) - set(after[nodes])
    if nodes in change.replaced:
        sources &= set(after[nodes])
    counts = Counter(row["src"] for row in after[table].values())
    return all(
        low <= counts[each] and (high is None or counts[each] <= high) for each in sources - gone
    )
