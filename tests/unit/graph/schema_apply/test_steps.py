"""Every step of a schema change, on an empty and on a filled graph, beside a reader of the past."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.extended import thinned
from tests.unit.graph.graphs import Opened, made_once, require_settled
from tests.unit.graph.schema_apply.evolving import (
    BEFORE,
    CITY,
    IN,
    KNOWS,
    Rows,
    content,
    fill,
    person,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Expected = "Callable[[Rows], Rows]"


def _same(rows: Rows) -> Rows:
    return rows


def _renamed(kind: str, old: str, new: str) -> Callable[[Rows], Rows]:
    def rename(rows: Rows) -> Rows:
        changed = [
            {new if name == old else name: value for name, value in row.items()}
            for row in rows[kind]
        ]
        return rows | {kind: changed}

    return rename


def _without(*names: str) -> Callable[[Rows], Rows]:
    def drop(rows: Rows) -> Rows:
        people = [
            {name: value for name, value in row.items() if name not in names}
            for row in rows["Person"]
        ]
        return rows | {"Person": people}

    return drop


def _with(**values: Any) -> Callable[[Rows], Rows]:  # noqa: ANN401 - any property
    return lambda rows: rows | {"Person": [row | values for row in rows["Person"]]}


def _no_types(*gone: str) -> Callable[[Rows], Rows]:
    return lambda rows: {name: items for name, items in rows.items() if name not in gone}


def _type_called(old: str, new: str) -> Callable[[Rows], Rows]:
    return lambda rows: {new if name == old else name: items for name, items in rows.items()}


HUMAN = (
    BEFORE.replace("node Person {", 'node Human @rename_from("Person") {')
    .replace("Person -", "Human -")
    .replace("-> Person", "-> Human")
)
STEPS: dict[str, tuple[str, list[str], Callable[[Rows], Rows]]] = {
    "add a node type": (f"{BEFORE}\nnode Pet {{ name: String @key }}", ["add_type"], _same),
    "add an edge type": (f"{BEFORE}\nedge Likes: Person -> City", ["add_type"], _same),
    "rename a node type": (HUMAN, ["rename_type"], _type_called("Person", "Human")),
    "rename an edge type": (
        BEFORE.replace(
            KNOWS, KNOWS.replace("Knows", "Met").replace(" {", ' @rename_from("Knows") {')
        ),
        ["rename_type"],
        _type_called("Knows", "Met"),
    ),
    "rename a property": (
        person('years: I32? @rename_from("age")', age=""),
        ["rename_property"],
        _renamed("Person", "age", "years"),
    ),
    "rename the key": (
        person('nick: String @key @rename_from("name")', name=""),
        ["rename_property"],
        _renamed("Person", "name", "nick"),
    ),
    "add a nullable property": (person("bio: String?"), ["add_property"], _same),
    "add a vector, a list and a blob": (
        person("v: Vector(3)?", "l: [String]?", "b: Blob?"),
        ["add_property"] * 3,
        _same,
    ),
    "add required properties with defaults": (
        person("level: I64 @default(7)", 'tag: String @default("x") @index'),
        ["add_property", "add_property", "add_index"],
        _with(level=7, tag="x"),
    ),
    "drop a property": (person(age=""), ["drop_property"], _without("age")),
    "drop a blob and a vector": (
        person(photo="", face=""),
        ["drop_property"] * 2,
        _without("photo", "face"),
    ),
    "drop an edge type": (BEFORE.replace(IN, ""), ["drop_type"], _no_types("In")),
    "drop a node type and its edges": (
        BEFORE.replace(IN, "").replace(CITY, ""),
        ["drop_type", "drop_type"],
        _no_types("In", "City"),
    ),
    "extend an enum": (person(mood="enum(calm, glad, wild)?"), ["extend_enum"], _same),
    "add a unique tuple": (person("@unique(email)"), ["add_constraint"], _same),
    "add a range": (person("@range(age, 0..90)"), ["add_constraint"], _same),
    "add a check": (person('@check(email, "@")'), ["add_constraint"], _same),
    "add a cardinality": (BEFORE.replace(IN, f"{IN} @card(0..1)"), ["add_constraint"], _same),
    "drop a range": (BEFORE.replace("@range(size, 0..100)", ""), ["drop_constraint"], _same),
    "allow nulls": (BEFORE.replace("size: I32", "size: I32?"), ["drop_constraint"], _same),
    "index a text": (person(email="String? @index"), ["add_index"], _same),
    "index a number": (person(age="I32? @index"), ["add_index"], _same),
    "drop an index": (BEFORE.replace("I32 @index", "I32"), ["drop_index"], _same),
    "describe": (person(age='I32? @description("in years")'), ["update_metadata"], _same),
    "everything at once": (
        person(
            'years: I32? @rename_from("age")',
            "level: I64 @default(7)",
            "bio: String? @index",
            "@range(years, 0..90)",
            age="",
            photo="",
        )
        + "\nnode Pet { name: String @key }\nedge Has: Person -> Pet",
        [
            "drop_property",
            "rename_property",
            "add_type",
            "add_type",
            "add_property",
            "add_property",
            "add_constraint",
            "add_index",
        ],
        lambda rows: _with(level=7)(_without("photo")(_renamed("Person", "age", "years")(rows))),
    ),
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph with its records."""
    return made_once(tmp_path_factory.mktemp("filled"), BEFORE, fill)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph without rows."""
    return made_once(tmp_path_factory.mktemp("bare"), BEFORE, lambda _: None)


@pytest.mark.parametrize("step", thinned(STEPS, keep=10))
def test_a_step_is_one_commit_and_the_past_stays_as_it_was(
    graphs: Opened, filled: Path, step: str
) -> None:
    graph = graphs.copied(filled)
    after, kinds, expected = STEPS[step]
    reader = graphs.open()
    old, before = reader.snapshot(), content(graph)

    applied = graph.schema.apply(graph.schema.plan(after))

    assert (applied.supported, applied.applied) == (True, True)
    assert [item.kind.value for item in applied.steps] == kinds
    assert applied.commit is not None
    assert (applied.commit.kind, applied.commit.parent_commit_id) == (
        "schema_apply",
        old.graph_commit_id,
    )
    assert content(graph) == expected(before)
    assert content(reader) == expected(before), "another handle sees it at once"
    assert (reader.schema.source, reader.schema.show(at=old.graph_commit_id)) == (after, BEFORE)
    assert content(reader, old.resolved_snapshot) == before
    assert {row["id"] for row in old.scan("Person").read_all().to_pylist()} == {"ada", "bob"}
    assert graph.schema.apply(after).applied is False, "it is there already"
    require_settled(graph)


@pytest.mark.parametrize("step", thinned(reversed(STEPS)))
def test_a_step_on_an_empty_graph_leaves_one_that_takes_rows(
    graphs: Opened, bare: Path, step: str
) -> None:
    graph = graphs.copied(bare)
    after, kinds, _ = STEPS[step]
    assert [item.kind.value for item in graph.schema.apply(after).steps] == kinds
    assert content(graph) == {}
    name = "Human" if step == "rename a node type" else "Person"
    key = "nick" if step == "rename the key" else "name"
    graph.mutate(f'query add() {{ insert {name} {{ {key}: "cy" }} }}')
    assert [row[key] for row in content(graph)[name]] == ["cy"]
    require_settled(graph)
