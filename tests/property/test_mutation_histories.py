"""Random mutations against a model in memory: the same rows, counts and refusals, step by step."""

from __future__ import annotations

import random  # noqa: TID251 - seeded
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from omnigraph import Graph
from omnigraph.errors import ConstraintViolation
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  email: String? @unique
  nick: String? @default("none")
  @range(age, 0..100)
}
node Note { text: String  mark: I32? }
edge Knows: Person -> Person { since: I32? }
"""
NAMES = ("a", "b", "c", "d", "é", "it's")
AGES = (None, 0, 1, 2, 99, 100, 101)
EMAILS = (None, "x", "y", "z")
OPERATORS: dict[str, Callable[[int, int], bool]] = {
    "=": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    ">=": lambda left, right: left >= right,
}
STEPS = 30

Row = dict[str, object]


class Refused(Exception):
    """The model expects the rules of the schema to be broken."""


@dataclass
class Model:
    """The graph as plain rows; edges are (from, to, since), with repeats."""

    people: dict[str, Row] = field(default_factory=dict)
    notes: list[Row] = field(default_factory=list)
    knows: list[tuple[str, str, int | None]] = field(default_factory=list)

    def copy(self) -> Model:
        """The same rows, to try something on."""
        return Model(
            {name: dict(row) for name, row in self.people.items()},
            [dict(row) for row in self.notes],
            list(self.knows),
        )

    def require_rules(self) -> None:
        """Every rule of the schema holds.

        Raises:
            Refused: one does not.
        """
        emails = [row["email"] for row in self.people.values() if row["email"] is not None]
        ages = [row["age"] for row in self.people.values()]
        if len(set(emails)) < len(emails):
            raise Refused("email")
        if any(isinstance(age, int) and not 0 <= age <= 100 for age in ages):
            raise Refused("age")
        if any(end not in self.people for edge in self.knows for end in edge[:2]):
            raise Refused("end")


def text(value: object) -> str:
    match value:
        case None:
            return "null"
        case str():
            return f'"{value}"'
        case _:
            return str(value)


@dataclass
class Mutation:
    """Statements, what they do to a model, and what they count."""

    statements: list[str] = field(default_factory=list)
    nodes: int = 0
    edges: int = 0


def constructive(rng: random.Random, model: Model) -> Mutation:
    """One to four inserts and updates."""
    made = Mutation()
    for _ in range(rng.randint(1, 4)):
        match rng.randrange(4):
            case 0:
                insert_person(rng, model, made)
            case 1:
                mark = rng.choice((None, 1, 2))
                made.statements.append(f'insert Note {{ text: "n", mark: {text(mark)} }}')
                model.notes.append({"text": "n", "mark": mark})
                made.nodes += 1
            case 2:
                ends = rng.choice(NAMES), rng.choice(NAMES)
                since = rng.choice((None, 7))
                made.statements.append(
                    f"insert Knows {{ from: {text(ends[0])}, to: {text(ends[1])},"
                    f" since: {text(since)} }}"
                )
                model.knows.append((*ends, since))
                made.edges += 1
            case _:
                update_people(rng, model, made)
    return made


def insert_person(rng: random.Random, model: Model, made: Mutation) -> None:
    row: Row = {"name": rng.choice(NAMES), "age": rng.choice(AGES), "email": rng.choice(EMAILS)}
    given = {name: value for name, value in row.items() if name == "name" or rng.random() < 0.7}
    model.people[str(row["name"])] = {"age": None, "email": None, "nick": "none"} | given
    listed = ", ".join(f"{name}: {text(value)}" for name, value in given.items())
    made.statements.append(f"insert Person {{ {listed} }}")
    made.nodes += 1


def update_people(rng: random.Random, model: Model, made: Mutation) -> None:
    where, chosen = predicate(rng, model)
    name, value = rng.choice(
        (("age", rng.choice(AGES)), ("email", rng.choice(EMAILS)), ("nick", "changed"))
    )
    made.statements.append(
        f"update Person set {{ {name}: {text(value)} }} where {where}"  # noqa: S608 - not SQL
    )
    for each in chosen:
        model.people[each][name] = value
    made.nodes += len(chosen)


def predicate(rng: random.Random, model: Model) -> tuple[str, list[str]]:
    """A condition, and the persons that satisfy it: never those whose value is null."""
    if rng.random() < 0.5:
        name = rng.choice(NAMES)
        return f"name = {text(name)}", [each for each in model.people if each == name]
    sign, wanted = rng.choice(sorted(OPERATORS)), rng.choice((0, 1, 2, 99, 3_000_000_000))
    chosen = [
        each
        for each, row in model.people.items()
        if isinstance(row["age"], int) and OPERATORS[sign](row["age"], wanted)
    ]
    return f"age {sign} {wanted}", chosen


def destructive(rng: random.Random, model: Model) -> Mutation:
    """One to three deletes, all of which see the same rows."""
    made = Mutation()
    before = model.copy()
    gone: set[str] = set()
    edges: set[int] = set()
    notes: set[int] = set()
    for _ in range(rng.randint(1, 3)):
        match rng.randrange(3):
            case 0:
                where, chosen = predicate(rng, before)
                made.statements.append(f"delete Person where {where}")
                gone |= set(chosen)
                edges |= {
                    at
                    for at, edge in enumerate(before.knows)
                    if edge[0] in chosen or edge[1] in chosen
                }
            case 1:
                end, name = rng.choice((0, 1)), rng.choice(NAMES)
                word = "from" if end == 0 else "to"
                made.statements.append(f"delete Knows where {word} = {text(name)}")
                edges |= {at for at, edge in enumerate(before.knows) if edge[end] == name}
            case _:
                made.statements.append("delete Note where mark > 1")
                notes |= {at for at, row in enumerate(before.notes) if row["mark"] == 2}
    made.nodes, made.edges = len(gone) + len(notes), len(edges)
    model.people = {each: row for each, row in before.people.items() if each not in gone}
    model.knows = [edge for at, edge in enumerate(before.knows) if at not in edges]
    model.notes = [row for at, row in enumerate(before.notes) if at not in notes]
    return made


def state(graph: Graph, snapshot: str | None = None) -> Model:
    """What the graph holds, through queries and scans."""
    seen = graph.snapshot(snapshot)
    people = seen.scan("Person", columns=["name", "age", "email", "nick"]).read_all().to_pylist()
    notes = seen.scan("Note", columns=["text", "mark"]).read_all().to_pylist()
    knows = seen.scan("Knows", columns=["src", "dst", "since"]).read_all().to_pylist()
    return Model(
        {row["name"]: row for row in people},
        notes,
        [(row["src"], row["dst"], row["since"]) for row in knows],
    )


def require_equal(found: Model, model: Model) -> None:
    assert found.people == model.people
    assert sorted(map(repr, found.notes)) == sorted(map(repr, model.notes))
    assert sorted(map(repr, found.knows)) == sorted(map(repr, model.knows))


_SEEDS = [
    *range(12),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, 500)),
]


@pytest.mark.parametrize("seed", _SEEDS)
def test_mutations_do_what_a_model_of_them_does(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)  # noqa: S311 - seeded
    settings = load_settings({"OMNIGRAPH_DURABILITY": "process"})
    with Graph.init(tmp_path / "g", schema=SCHEMA, settings=settings) as graph:
        model = Model()
        past: list[tuple[str, Model]] = []
        for _ in range(STEPS):
            tried = model.copy()
            make = destructive if rng.random() < 0.3 else constructive
            made = make(rng, tried)
            source = f"query step() {{ {' '.join(made.statements)} }}"
            head = graph.snapshot().graph_commit_id
            try:
                tried.require_rules()
            except Refused:
                with pytest.raises(ConstraintViolation):
                    graph.mutate(source)
                assert graph.snapshot().graph_commit_id == head, source
            else:
                result = graph.mutate(source)
                counted = result.affected_nodes, result.affected_edges
                assert counted == (made.nodes, made.edges), source
                assert (result.commit is None) == (graph.snapshot().graph_commit_id == head)
                model = tried
                if result.commit is not None:
                    past.append((result.commit.graph_commit_id, model.copy()))
            require_equal(state(graph), model)
        for commit, then in rng.sample(past, min(3, len(past))):
            require_equal(state(graph, commit), then)
