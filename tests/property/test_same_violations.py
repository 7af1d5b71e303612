"""One delta, every way to write it: the same first violation, and as many of them.

The deltas are wrong in one to three ways and are refused, so that one graph serves all of them.
"""

from __future__ import annotations

import json
import random  # noqa: TID251 - seeded
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.errors import ConstraintViolation, KeyConflict, LoadRejected
from omnigraph.graph.validation import Code
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCHEMA = """
node Person {
  name: String @key
  need: I32
  age: I32?
  score: F32?
  level: enum(junior, senior)?
  email: String? @unique
  tags: [I32]?
  vec: Vector(2)?
  a: I32?
  b: String?
  @unique(a, b)
  @range(age, 0..100)
  @check(email, "@")
}
node Note { text: String  mark: U32? }
edge Knows: Person -> Person { since: I32?  code: String? @unique }
edge Lives: Person -> Note @card(0..2)
"""
PARAMS = {
    "name": "String?",
    "need": "I64?",
    "age": "I64?",
    "score": "F64?",
    "level": "String?",
    "email": "String?",
    "tags": "[I64]?",
    "a": "I64?",
    "b": "String?",
    "text": "String?",
    "mark": "I64?",
    "since": "I64?",
    "code": "String?",
    "src": "String?",
    "dst": "String?",
}
"""Wider than the properties, so that a mutation too can give what does not fit."""

Row = dict[str, Any]


@dataclass
class Record:
    """One row to be written; `id` only where it is no function of a key."""

    type: str
    values: Row

    @property
    def is_edge(self) -> bool:
        return self.type in ("Knows", "Lives")


@dataclass
class Maker:
    """Rows of one delta; ids of edges and notes ascend as they are made, as made-up ids do."""

    rng: random.Random
    records: list[Record] = field(default_factory=list)
    _number: int = 0

    def person(self, **values: object) -> str:
        # Names do not ascend, so that the order of ids is not that of the input.
        self._number += 1
        name = f"{self.rng.choice('axz')}{self._number}"
        self.records.append(Record("Person", {"name": name, "need": 1} | values))
        return name

    def note(self, **values: object) -> str:
        self._number += 1
        row = {"id": f"t{self._number:03}", "text": "t"} | values
        self.records.append(Record("Note", row))
        return str(row["id"])

    def edge(self, type_: str, source: object, target: object, **values: object) -> str:
        self._number += 1
        row = {"id": f"e{self._number:03}", "src": source, "dst": target} | values
        self.records.append(Record(type_, row))
        return str(row["id"])


def _three_homes(make: Maker) -> None:
    name = make.person()
    for _ in range(3):
        make.edge("Lives", name, "t0")


FAULTS: dict[str, Callable[[Maker], object]] = {
    "type_error: range": lambda make: make.person(need=2**31),
    "type_error: range of a note": lambda make: make.note(mark=-1),
    "type_error: fraction": lambda make: make.person(age=1.5),
    "type_error: float": lambda make: make.person(score=1e39),
    "type_error: item": lambda make: make.person(tags=[1, 2**40]),
    "type_error: edge": lambda make: make.edge("Knows", "old1", "old2", since=2**31),
    "required_missing: value": lambda make: make.person(need=None),
    "required_missing: key": lambda make: make.person(name=None),
    "required_missing: end": lambda make: make.edge("Knows", None, "old1"),
    "range_violation: above": lambda make: make.person(age=101),
    "range_violation: below": lambda make: make.person(age=-1),
    "check_violation: text": lambda make: make.person(email="none"),
    "enum_violation: text": lambda make: make.person(level="boss"),
    "unique_violation: committed": lambda make: make.person(email="old1@x"),
    "unique_violation: in the delta": lambda make: [make.person(email="n@x") for _ in range(2)],
    "unique_violation: tuple": lambda make: [make.person(a=7, b=b) for b in ("x", None, "x", "y")],
    "unique_violation: edge": lambda make: make.edge("Knows", "old1", "old2", code="c1"),
    "unique_violation: edges": lambda make: [
        make.edge("Knows", "old1", "old2", code="new") for _ in range(2)
    ],
    "orphan_edge: from": lambda make: make.edge("Knows", "nobody", "old1"),
    "orphan_edge: to": lambda make: make.edge("Lives", "old1", "nothing"),
    "orphan_edge: both": lambda make: make.edge("Knows", "nobody", "nobody"),
    "cardinality_violation: committed": lambda make: make.edge("Lives", "old2", "t0"),
    "cardinality_violation: in the delta": _three_homes,
}
CLEAN: tuple[Callable[[Maker], object], ...] = (
    lambda make: make.person(age=100, email=f"c{len(make.records)}@x", level="junior"),
    lambda make: make.person(score=0.1, tags=[1, 2]),
    lambda make: make.note(mark=3),
    lambda make: make.edge("Knows", "old1", "old2", since=1),
    lambda make: make.edge("Knows", make.person(), "old1"),
    lambda make: make.edge("Lives", "old1", "t0"),
)


# --- the ways ---------------------------------------------------------------------------------


def by_mutation(graph: Graph, records: list[Record]) -> None:
    """Inserts of one query; every value is a parameter."""
    declared, statements = [], []
    params: Row = {}
    for at, record in enumerate(records):
        given = []
        for name, value in record.values.items():
            if name == "id":
                continue
            declared.append(f"$p{at}_{name}: {_wide(name, value)}")
            given.append(f"{ {'src': 'from', 'dst': 'to'}.get(name, name) }: $p{at}_{name}")
            params[f"p{at}_{name}"] = value
        statements.append(f"insert {record.type} {{ {', '.join(given)} }}")
    graph.mutate(f"query q({', '.join(declared)}) {{ {' '.join(statements)} }}", params=params)


def _wide(name: str, value: object) -> str:
    return "F64?" if isinstance(value, float) else PARAMS[name]


def by_calls(graph: Graph, records: list[Record]) -> None:
    """One call of the writer for each row."""
    with graph.write() as writer:
        for record in records:
            writer.upsert(record.type, pa.Table.from_pylist([record.values]))
        writer.commit()


def tables(records: list[Record]) -> dict[str, pa.Table]:
    """The rows of each type as one table."""
    found: dict[str, list[Row]] = {}
    for record in records:
        found.setdefault(record.type, []).append(record.values)
    return {
        name: pa.table({column: [row.get(column) for row in rows] for column in _columns(rows)})
        for name, rows in found.items()
    }


def _columns(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def by_tables(how: str) -> Callable[[Graph, list[Record]], None]:
    """One call of the writer for each type."""

    def write(graph: Graph, records: list[Record]) -> None:
        with graph.write() as writer:
            for name, table in tables(records).items():
                getattr(writer, how)(name, table)
            writer.commit()

    return write


def by_load(mode: Any) -> Callable[[Graph, list[Record]], None]:  # noqa: ANN401 - a literal
    """A line for each row."""

    def load(graph: Graph, records: list[Record]) -> None:
        graph.load("\n".join(_line(record) for record in records).encode(), mode=mode)

    return load


def by_arrow_load(mode: Any) -> Callable[[Graph, list[Record]], None]:  # noqa: ANN401 - a literal
    """A table for each type."""
    return lambda graph, records: _ignored(graph.load(tables(records), mode=mode))


def _ignored(_: object) -> None:
    return None


def _line(record: Record) -> str:
    data = dict(record.values)
    if not record.is_edge:
        return json.dumps({"type": record.type, "data": data})
    ends = {"from": data.pop("src"), "to": data.pop("dst")}
    return json.dumps({"edge": record.type, **ends, "data": data})


def refusal(
    graph: Graph, write: Callable[[Graph, list[Record]], None], records: list[Record]
) -> tuple[Row, int]:
    """The first violation without its line or row, and how many there are."""
    with pytest.raises((ConstraintViolation, LoadRejected, KeyConflict)) as caught:
        write(graph, records)
    details: Any = caught.value.details  # Any: JSON
    first = {
        name: value
        for name, value in details["violations"][0].items()
        if name not in {"input_line", "input_unit"}
    }
    is_conflict = isinstance(caught.value, KeyConflict)
    assert is_conflict == (first["code"] == Code.KEY_CONFLICT)
    return first, details["total"]


_MADE = re.compile(r"\b(?:[0-9A-HJKMNP-TV-Z]{26}|e\d{3}|t\d{3})\b")


def without_made_ids(first: Row) -> Row:
    """The same whoever made the ids of edges and notes up."""
    return {
        name: _MADE.sub("*", value) if isinstance(value, str) else value
        for name, value in first.items()
    }


# --- the graph --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    """Two persons, one with as many homes as there may be; whoever changes it fails the tests."""
    settings = load_settings({"OMNIGRAPH_DURABILITY": "process"})
    path = tmp_path_factory.mktemp("same") / "g"
    with Graph.init(path, schema=SCHEMA, settings=settings) as graph:
        make = Maker(random.Random(0))  # noqa: S311 - seeded
        for name in ("old1", "old2"):
            make.records.append(Record("Person", {"name": name, "need": 1, "email": f"{name}@x"}))
        make.records.append(Record("Note", {"id": "t0", "text": "t"}))
        make.edge("Knows", "old1", "old2", code="c1")
        make.edge("Lives", "old2", "t0")
        make.edge("Lives", "old2", "t0")
        for record in make.records:
            record.values["id"] = f"old {record.values.get('id', '')}".strip()
            if record.type == "Person":
                del record.values["id"]
        make.records[2].values["id"] = "t0"
        by_load("append")(graph, make.records)
        head = graph.snapshot().graph_commit_id
        yield graph
        assert graph.snapshot().graph_commit_id == head


def delta(rng: random.Random, faults: dict[str, Callable[[Maker], object]]) -> list[Record]:
    """Rows of which some break one to three rules, in any order."""
    make = Maker(rng)
    steps = [faults[name] for name in rng.sample(sorted(faults), rng.randint(1, 3))]
    steps += [rng.choice(CLEAN) for _ in range(rng.randint(0, 3))]
    rng.shuffle(steps)
    for step in steps:
        step(make)
    return make.records


def some_seeds(few: range, more: int) -> list[Any]:  # Any: parameters of a test
    """Seeds of the default suite, of continuous integration and of the long run."""
    return [
        pytest.param(few, id="few"),
        pytest.param(range(more), marks=pytest.mark.extended, id="0"),
        pytest.param(
            range(20 * more),
            marks=[pytest.mark.slow, pytest.mark.timeout(1800)],
            id=f"{more}0",
        ),
    ]


@pytest.mark.parametrize("seeds", some_seeds(range(165, 190), 150))
def test_mutations_writers_and_loads_refuse_a_delta_for_the_same_reason(
    graph: Graph, seeds: range
) -> None:
    reached: Counter[str] = Counter()
    for seed in seeds:
        records = delta(random.Random(f"same {seed}"), FAULTS)  # noqa: S311 - seeded
        first, total = refusal(graph, by_load("merge"), records)
        assert refusal(graph, by_calls, records) == (first, total), (seed, records)
        found, count = refusal(graph, by_mutation, records)
        assert without_made_ids(found) == without_made_ids(first), (seed, records)
        assert count == total, (seed, records)
        reached[first["code"]] += 1
    assert set(reached) == {name.partition(":")[0] for name in FAULTS}


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_each_fault_alone_is_found_by_every_way(graph: Graph, name: str) -> None:
    make = Maker(random.Random(1))  # noqa: S311 - seeded
    FAULTS[name](make)
    first, total = refusal(graph, by_load("merge"), make.records)
    assert first["code"] == name.partition(":")[0]
    for way in (by_calls, by_load("append")):
        assert refusal(graph, way, make.records) == (first, total)
    found, count = refusal(graph, by_mutation, make.records)
    assert (without_made_ids(found), count) == (without_made_ids(first), total)


# --- what only tables and lines can say -------------------------------------------------------

_SAME = {name: fault for name, fault in FAULTS.items() if name != "type_error: fraction"}
STRICT_FAULTS: dict[str, Callable[[Maker], object]] = {
    **_SAME,
    "key_conflict: node": lambda make: make.person(name="old1"),
    "key_conflict: edge": lambda make: make.edge("Knows", "old1", "old1", id="old e001"),
    "unique_violation: key twice": lambda make: [make.person(name="same") for _ in range(2)],
    "unique_violation: id twice": lambda make: [make.note(id="t999") for _ in range(3)],
    "unique_violation: edge id twice": lambda make: [
        make.edge("Knows", "old1", "old1", id="e999") for _ in range(2)
    ],
    "type_error: empty id": lambda make: make.note(id=""),
    "type_error: vector": lambda make: make.person(vec=[1.0, 2.0, 3.0]),
    "type_error: vector with a hole": lambda make: make.person(vec=[1.0, None]),
    "id_mismatch: node": lambda make: make.person(id="other"),
}
OVERWRITE_FAULTS: dict[str, Callable[[Maker], object]] = {
    name: fault
    for name, fault in STRICT_FAULTS.items()
    if not name.startswith("key_conflict") and "committed" not in name and name[-5:] != " edge"
} | {
    "cardinality_violation: replaced": lambda make: [
        make.edge("Lives", "old1", "t0") for _ in range(3)
    ],
}
"""What was committed does not count, and what it leaves behind is a fault of its own."""


@pytest.mark.parametrize("seeds", some_seeds(range(28), 100))
@pytest.mark.parametrize("how", ["append", "overwrite"])
def test_tables_and_lines_are_refused_for_the_same_reason(
    graph: Graph, how: str, seeds: range
) -> None:
    faults = STRICT_FAULTS if how == "append" else OVERWRITE_FAULTS
    reached: Counter[str] = Counter()
    for seed in seeds:
        records = delta(random.Random(f"{how} {seed}"), faults)  # noqa: S311 - seeded
        first, total = refusal(graph, by_load(how), records)
        for way in (by_tables(how), by_arrow_load(how)):
            assert refusal(graph, way, records) == (first, total), (seed, records)
        reached[first["code"]] += 1
    assert len(reached) >= 7


@pytest.mark.parametrize(
    ("how", "name"),
    [
        *(("append", name) for name in sorted(STRICT_FAULTS)),
        *(("overwrite", name) for name in sorted(OVERWRITE_FAULTS)),
    ],
)
def test_each_fault_alone_is_found_in_tables_and_lines(graph: Graph, how: str, name: str) -> None:
    faults = STRICT_FAULTS if how == "append" else OVERWRITE_FAULTS
    make = Maker(random.Random(1))  # noqa: S311 - seeded
    faults[name](make)
    first, total = refusal(graph, by_load(how), make.records)
    codes = {name.partition(":")[0]}
    if how == "overwrite" and any(record.type == "Person" for record in make.records):
        codes.add("orphan_edge")
    assert first["code"] in codes
    for way in (by_tables(how), by_arrow_load(how)):
        assert refusal(graph, way, make.records) == (first, total)
