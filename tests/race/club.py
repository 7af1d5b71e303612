"""A graph with every rule that rows can break together, and those rules told in plain Python.

Nothing here asks the program what a rule means: `broken` looks at all rows of one state.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from omnigraph import Graph

Row: TypeAlias = dict[str, Any]  # Any: a value of any type
Rows: TypeAlias = dict[str, list[Row]]
"""Every row of every type."""

SCHEMA = """
node Person {
  name: String @key
  email: String? @unique
  city: String?
  desk: I32?
  age: I32? @index
  @unique(city, desk)
  @range(age, 0..120)
}
node Team {
  title: String @key
  motto: String?
}
edge Knows: Person -> Person @card(1..3) {
  mark: I32?
}
edge Member: Person -> Team @card(0..2) {
  mark: I32?
  code: String? @unique
  @unique(src, dst)
}
edge Leads: Team -> Person @card(2..3) {
  mark: I32?
}
"""

KEYS = {"Person": "name", "Team": "title"}
UNIQUE: dict[str, tuple[tuple[str, ...], ...]] = {
    "Person": (("email",), ("city", "desk")),
    "Member": (("code",), ("src", "dst")),
}
ENDS = {"Knows": ("Person", "Person"), "Member": ("Person", "Team"), "Leads": ("Team", "Person")}
CARDS = {"Knows": (1, 3), "Member": (0, 2), "Leads": (2, 3)}
AGES = range(121)
TYPES = (*KEYS, *ENDS)

_CHOSEN = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


def person(name: str, **values: object) -> Row:
    """A record of a load; what is left out is null."""
    return {"type": "Person", "data": {"name": name, **values}}


def team(title: str, **values: object) -> Row:
    """A record of a load."""
    return {"type": "Team", "data": {"title": title, **values}}


def edge(type_: str, ends: str, **values: object) -> Row:
    """A record of a load; `p1-p2` are its ends, and without `id` the graph chooses one."""
    source, _, target = ends.partition("-")
    return {"edge": type_, "from": source, "to": target, "data": values}


def lines(records: Iterable[Row]) -> bytes:
    """The input of a load."""
    return "".join(f"{json.dumps(each)}\n" for each in records).encode()


def rows_of(graph: Graph, branch: str = "main", at: str | None = None) -> Rows:
    """Every row at the head of a branch, or at a commit; the pins count the same rows."""
    snapshot = graph.snapshot(at) if at is not None else graph.snapshot(branch=branch)
    rows = {name: snapshot.scan(name).read_all().to_pylist() for name in TYPES}
    for name, found in rows.items():
        assert snapshot.count(name) == len(found), f"{name}: the pin counts other rows"
    return rows


def exported(graph: Graph, branch: str = "main") -> list[str]:
    """The export of a branch in some order, without the ids that the graph chose."""
    records = [json.loads(each) for each in b"".join(graph.export(branch=branch)).splitlines()]
    return sorted(json.dumps(_without_chosen_id(each)) for each in records)


def _without_chosen_id(record: Row) -> Row:
    data = record["data"]
    return {**record, "data": {**data, "id": "chosen"}} if is_chosen(data["id"]) else record


def is_chosen(entity_id: str) -> bool:
    """Whether the graph made up an id."""
    return _CHOSEN.fullmatch(entity_id) is not None


def broken(rows: Rows) -> list[str]:
    """The rules that rows break; a lower bound counts for sources that have an edge."""
    return [
        *_twice(rows),
        *_wrong_values(rows),
        *_loose_ends(rows),
        *_wrong_numbers(rows),
    ]


def _twice(rows: Rows) -> Iterator[str]:
    for name in TYPES:
        for members in (("id",), *UNIQUE.get(name, ())):
            held = Counter(tuple(row[each] for each in members) for row in rows[name])
            for values, count in held.items():
                if count > 1 and None not in values:
                    yield f"{count} {name} hold {values} in {members}"


def _wrong_values(rows: Rows) -> Iterator[str]:
    for name, key in KEYS.items():
        for row in rows[name]:
            if row["id"] != row[key]:
                yield f"{name} {row['id']} has the key {row[key]}"
    for row in rows["Person"]:
        if row["age"] is not None and row["age"] not in AGES:
            yield f"Person {row['id']} is {row['age']}"


def _loose_ends(rows: Rows) -> Iterator[str]:
    ids = {name: {row["id"] for row in rows[name]} for name in KEYS}
    for name, ends in ENDS.items():
        for row in rows[name]:
            for column, end in zip(("src", "dst"), ends, strict=True):
                if row[column] not in ids[end]:
                    yield f"{name} {row['id']}: there is no {end} {row[column]}"


def _wrong_numbers(rows: Rows) -> Iterator[str]:
    for name, (low, high) in CARDS.items():
        for source, count in sources(rows[name]).items():
            if not low <= count <= high:
                yield f"{source} has {count} {name}"


def sources(edges: Sequence[Row]) -> Counter[str]:
    """How many edges each source has."""
    return Counter(row["src"] for row in edges)


def emptied(before: Rows, after: Rows) -> list[str]:
    """Sources that are still there and lost the last edge of a type that demands one."""
    left = {name: {row["id"] for row in after[name]} for name in KEYS}
    return [
        f"{source} has no {name} any more"
        for name, (low, _) in CARDS.items()
        for source in sources(before[name])
        if low and source in left[ENDS[name][0]] and source not in sources(after[name])
    ]
