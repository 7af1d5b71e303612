"""Generated inputs with every kind of bad row, and the rules of quarantine once more, in Python.

The model is slow and plain: it looks at records as JSON and at committed rows as dicts.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random  # noqa: TID251 - seeded
    from collections.abc import Callable, Iterable

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  email: String? @unique
  a: I32?
  b: String?
  level: enum(junior, senior)?
  @unique(a, b)
  @range(age, 0..150)
  @check(name, "^[a-z0-9]+$")
}
node Team { title: String  code: I64? @unique }
edge Knows: Person -> Person @card(0..2) { since: I32?  token: String? @unique }
edge In: Person -> Team @card(2..3)
"""
KEYS = {"Person": "name"}
ENDS = {"Knows": ("Person", "Person"), "In": ("Person", "Team")}
CARDS = {"Knows": (0, 2), "In": (2, 3)}
UNIQUES: dict[str, list[tuple[str, ...]]] = {
    "Person": [("email",), ("a", "b")],
    "Team": [("code",)],
    "Knows": [("token",)],
    "In": [],
}

Record = dict[str, Any]


def line(record: Record) -> bytes:
    return json.dumps(record).encode() + b"\n"


def person(name: str, **data: object) -> bytes:
    return line({"type": "Person", "data": {"name": name, **data}})


def team(id: str, **data: object) -> bytes:  # noqa: A002 - as in the format
    return line({"type": "Team", "data": {"id": id, "title": "t", **data}})


def edge(type: str, id: str, src: object, dst: object, **data: object) -> bytes:  # noqa: A002
    return line({"edge": type, "from": src, "to": dst, "data": {"id": id, **data}})


SEED = b"".join(
    [
        *(person(f"p{n}", age=n, email=f"e{n}", a=n, b="x") for n in range(8)),
        *(team(f"t{n}", code=n) for n in range(4)),
        *(edge("Knows", f"k{n}", f"p{n}", f"p{n + 1}", token=f"w{n}") for n in range(6)),
        edge("Knows", "k9", "p1", "p5"),
        *(edge("In", f"i{p}{t}", f"p{p}", f"t{t}") for p in range(3) for t in range(2)),
    ]
)


def random_input(rng: random.Random, lines: int) -> bytes:
    return b"".join(_random_line(rng) for _ in range(lines))


def seed_beside(text: bytes) -> bytes:
    """The lines of the seed whose ids an input does not have already."""
    taken = {_identity(each) for each in text.split(b"\n")}
    return b"".join(each + b"\n" for each in SEED.splitlines() if _identity(each) not in taken)


def _identity(raw: bytes) -> tuple[object, object] | None:
    try:
        record = json.loads(raw)
        data = record["data"]
        return record.get("type", record.get("edge")), data.get("name", data.get("id"))
    except (ValueError, TypeError, KeyError):
        return None


def _random_line(rng: random.Random) -> bytes:
    choice = rng.random()
    if choice < 0.06:
        return rng.choice(
            [
                b"\n",
                b"{}\n",
                b"[1]\n",
                b"nonsense\n",
                b"\xff\xfe\n",
                b'{"type":"Persn","data":{}}\n',
                b'{"type":"Person","data":{"name":"u","nope":1}}\r\n',
                b'{"type":"Person","data":{"name":"d","name":"e"}}\n',
                b'{"type":"Person","data":{"id":"other","name":"m1"}}\n',
            ]
        )
    if choice < 0.45:
        return person(_name(rng), **_person_data(rng))
    if choice < 0.55:
        code = {"code": rng.choice([rng.randrange(8), rng.randrange(20, 40)])}
        return team(f"t{rng.randrange(10)}", **(code if rng.random() < 0.7 else {}))
    if choice < 0.8:
        data = {"token": f"w{rng.randrange(30)}"} if rng.random() < 0.5 else {}
        src = rng.choice([_name(rng), _name(rng), _name(rng), None])
        return edge("Knows", f"k{rng.randrange(40)}", src, _name(rng), **data)
    number = rng.randrange(30)
    id = rng.choice([f"i{rng.randrange(3)}{rng.randrange(2)}", f"n{number}"])  # noqa: A001
    return edge("In", id, _name(rng), f"t{rng.randrange(10)}")


def _name(rng: random.Random) -> str:
    return rng.choice([f"p{rng.randrange(8)}", f"q{rng.randrange(20)}"])


def _person_data(rng: random.Random) -> Record:
    data: Record = {}
    if rng.random() < 0.4:
        data["age"] = rng.choice([1, 150, 30, 40, 151, -1, "x"])
    if rng.random() < 0.4:
        data["email"] = f"e{rng.randrange(30)}"
    if rng.random() < 0.4:
        data |= {"a": rng.randrange(12), "b": rng.choice(["x", "y"])}
    if rng.random() < 0.2:
        data["level"] = rng.choice(["junior", "senior", "boss"])
    if rng.random() < 0.03:
        data["id"] = "another"
    return data


@dataclass
class Row:
    """One record of an input, as the model sees it."""

    line: int
    type: str
    id: str | None
    values: Record


@dataclass
class Quarantine:
    """What the model rejects of an input, over committed rows."""

    mode: str
    committed: dict[str, dict[str, Record]]
    """By type and id."""
    rejected: dict[int, str] = field(default_factory=dict)
    """Codes by line."""
    causes: dict[int, int] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    read: set[str] = field(default_factory=set)
    rejected_nodes: dict[tuple[str, str], int] = field(default_factory=dict)
    rounds: int = 0
    is_settled: bool = False
    is_blocked: bool = False

    def run(self, text: bytes) -> None:
        for number, raw in enumerate(text.split(b"\n"), 1):
            if raw.strip():
                self._read(number, raw)
        while not self.is_settled and self.rounds < 5:
            self.rounds += 1
            before = len(self.rejected)
            self.is_blocked = False
            for check in (self._keys, self._endpoints, self._cardinality):
                self._drop(check())
            self.is_settled = len(self.rejected) == before

    def left(self, text: bytes) -> bytes:
        lines = text.split(b"\n")
        return b"\n".join(raw for number, raw in enumerate(lines, 1) if number not in self.rejected)

    def _read(self, number: int, raw: bytes) -> None:
        try:
            record = json.loads(raw.decode(), object_pairs_hook=_no_repeats)
        except ValueError:
            self.rejected[number] = "json_error"
            return
        if not isinstance(record, dict) or ("type" in record) is ("edge" in record):
            self.rejected[number] = "json_error"
            return
        name = record.get("type", record.get("edge"))
        if name not in UNIQUES:
            self.rejected[number] = "unknown_type"
            return
        data = dict(record["data"])
        if "nope" in data:
            self.rejected[number] = "unknown_member"
            return
        self.read.add(name)
        key = KEYS.get(name)
        row = Row(number, name, data[key] if key else data["id"], data)
        if name in ENDS:
            data |= {"src": record["from"], "dst": record["to"]}
        code = _row_fault(row)
        if code is None:
            self.rows.append(row)
        else:
            self._reject(row, code)

    def _reject(self, row: Row, code: str) -> None:
        self.rejected[row.line] = code
        if row.type not in ENDS and row.id is not None:
            known = (row.type, row.id)
            self.rejected_nodes[known] = min(self.rejected_nodes.get(known, row.line), row.line)

    def _drop(self, found: dict[int, str]) -> None:
        for row in self.rows:
            if row.line in found:
                self._reject(row, found[row.line])
        self.rows = [row for row in self.rows if row.line not in found]

    def _image(self, name: str) -> list[Row]:
        last = {row.id: row for row in self.rows if row.type == name}
        return sorted(last.values(), key=lambda row: row.line)

    def _replaces(self, name: str) -> bool:
        return self.mode == "overwrite" and name in self.read

    def _stay(self, name: str) -> dict[str, Record]:
        """Committed rows that survive as they are."""
        if self._replaces(name):
            return {}
        touched = {row.id for row in self._image(name)}
        return {key: row for key, row in self.committed[name].items() if key not in touched}

    def _keys(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for name, uniques in UNIQUES.items():
            records = [row for row in self.rows if row.type == name]
            if self.mode == "merge" and name in ENDS:
                records = self._image(name)
            ids = Counter(row.id for row in records)
            broken = [row for row in records if ids[row.id] > 1]
            for names in uniques:
                broken += self._held_twice(records, names, self._stay(name))
            found |= dict.fromkeys((row.line for row in broken), "unique_violation")
            if self.mode == "append":
                there = [row for row in self._image(name) if row.id in self.committed[name]]
                found |= dict.fromkeys((row.line for row in there), "key_conflict")
        return found

    @staticmethod
    def _held_twice(
        records: list[Row], names: tuple[str, ...], stay: dict[str, Record]
    ) -> list[Row]:
        held = {_tuple(row, names) for row in stay.values()}
        counts = Counter(_tuple(row.values, names) for row in records)
        return [
            row
            for row in records
            if None not in (values := _tuple(row.values, names))
            and (counts[values] > 1 or values in held)
        ]

    def _nodes(self, name: str) -> set[str | None]:
        return {row.id for row in self.rows if row.type == name} | set(self._stay(name))

    def _endpoints(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for name, (src_type, dst_type) in ENDS.items():
            ends = (
                ("src", src_type, self._nodes(src_type)),
                ("dst", dst_type, self._nodes(dst_type)),
            )
            for row in self._image(name):
                for end, type_, nodes in ends:
                    if row.values[end] not in nodes:
                        found[row.line] = "orphan_edge"
                        cause = self.rejected_nodes.get((type_, row.values[end]))
                        if cause is not None:
                            self.causes.setdefault(row.line, cause)
            for kept in self._stay(name).values():
                if any(kept[end] not in nodes for end, _, nodes in ends):
                    self.is_blocked = True
        return found

    def _cardinality(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for name, (low, high) in CARDS.items():
            if name not in self.read:
                continue
            image = self._image(name)
            stay = self._stay(name)
            moved = (
                []
                if self._replaces(name)
                else [
                    (row, self.committed[name][row.id])
                    for row in image
                    if row.id is not None and row.id in self.committed[name]
                ]
            )
            counts = Counter(row.values["src"] for row in image)
            counts.update(kept["src"] for kept in stay.values())
            touched = {row.values["src"] for row in image} | {old["src"] for _, old in moved}
            source_type = ENDS[name][0]
            if self._replaces(source_type):
                touched &= self._nodes(source_type)
            for source in touched:
                if low <= counts[source] <= high:
                    continue
                blamed = [
                    row for row in self.rows if row.type == name and row.values["src"] == source
                ]
                if counts[source] < low:
                    blamed += [row for row, old in moved if old["src"] == source]
                if not blamed:
                    self.is_blocked = True
                found |= dict.fromkeys((row.line for row in blamed), "cardinality_violation")
        return found


def _no_repeats(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    known = list(pairs)
    if len({name for name, _ in known}) != len(known):
        raise ValueError("a member comes twice")
    return dict(known)


def _tuple(values: Record, names: Iterable[str]) -> tuple[object, ...]:
    return tuple(values.get(name) for name in names)


_RULES: list[tuple[str, Callable[[Row], bool]]] = [
    ("id_mismatch", lambda row: row.type in KEYS and row.values.get("id", row.id) != row.id),
    ("type_error", lambda row: isinstance(row.values.get("age"), str)),
    (
        "required_missing",
        lambda row: row.type in ENDS and None in (row.values["src"], row.values["dst"]),
    ),
    (
        "range_violation",
        lambda row: isinstance(age := row.values.get("age"), int) and not 0 <= age <= 150,
    ),
    ("enum_violation", lambda row: row.values.get("level") not in (None, "junior", "senior")),
]


def _row_fault(row: Row) -> str | None:
    return next((code for code, is_broken in _RULES if is_broken(row)), None)
