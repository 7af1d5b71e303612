"""Loads on Spark while somebody changes the schema: rows of the new schema, or a typed refusal.

What was staged for the schema of before is void, so the load is prepared again from its input. It
never commits a row that the schema in force does not allow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.spark.test_spark_read_set import SCHEMA, SEED, lines, load, person, visit

from omnigraph import Graph
from omnigraph.errors import LoadRejected, OmnigraphError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from omnigraph.pipeline.spark.session import PipelineSession

pytestmark = pytest.mark.extended

GIVEN = lines(person("eve", email="eve@x", age=5), person("ann", age=7), visit("e1", "eve", "bern"))
PERSON = "node Person { name: String @key  age: I32?  email: String? @unique }"
TAKEN = {
    "a property more": SCHEMA.replace("age: I32?", "age: I32?  bio: String? @index"),
    "a default": SCHEMA.replace("age: I32?", "age: I32?  level: I64 @default(7)"),
    "a rule that all rows keep": SCHEMA.replace(PERSON, f"{PERSON[:-1]} @range(age, 0..90) }}"),
    "a type more": f"{SCHEMA}\nnode Pet {{ name: String @key }}",
    "another type less": SCHEMA.replace("node Note { text: String @key  size: I32? }", ""),
    "a type of another name": SCHEMA.replace(
        "node Town {", 'node City @rename_from("Town") {'
    ).replace("-> Town", "-> City"),
    "a property less that is not given": SCHEMA.replace(" { note: String? }", ""),
}
REFUSED = {
    "a property of another name": SCHEMA.replace("age: I32?", 'years: I32? @rename_from("age")'),
    "a property less that is given": SCHEMA.replace("age: I32?", ""),
    "a rule that a row breaks": SCHEMA.replace(PERSON, f"{PERSON[:-1]} @range(age, 0..6) }}"),
    "a type less": "\n".join(
        line for line in SCHEMA.splitlines() if not line.startswith("edge Visits")
    ),
}


@pytest.fixture
def graph(tmp_path: Path, session: PipelineSession) -> Iterator[Graph]:
    session.require_alive()
    with Graph.init(tmp_path / "graph", schema=SCHEMA) as graph:
        graph.load(SEED, mode="append")
        yield graph


@pytest.mark.parametrize("change", TAKEN)
def test_a_load_is_made_again_for_the_schema_that_came_meanwhile(
    graph: Graph, session: PipelineSession, tmp_path: Path, change: str
) -> None:
    wanted = TAKEN[change]
    path = tmp_path / "input.jsonl"
    assert load(graph, session, path, GIVEN, "merge", lambda other: other.schema.apply(wanted)) == 2
    assert graph.schema.source == wanted
    people = {row["id"]: row for row in graph.snapshot().scan("Person").read_all().to_pylist()}
    assert {name: people[name]["age"] for name in ("ann", "bob", "eve")} == {
        "ann": 7,
        "bob": 1,
        "eve": 5,
    }
    if change == "a default":
        assert {row["level"] for row in people.values()} == {7}
    assert graph.snapshot().count("Visits") == 5
    kinds = [commit.kind for commit in graph.commits.list()]
    assert kinds[:2] == ["load", "schema_apply"]
    require_sound(graph)


@pytest.mark.parametrize("change", REFUSED)
def test_rows_that_the_new_schema_does_not_allow_refuse_the_load_whole(
    graph: Graph, session: PipelineSession, tmp_path: Path, change: str
) -> None:
    wanted = REFUSED[change]
    path = tmp_path / "input.jsonl"
    with pytest.raises(LoadRejected):
        load(graph, session, path, GIVEN, "merge", lambda other: other.schema.apply(wanted))
    assert graph.schema.source == wanted
    assert next(iter(graph.commits)).kind == "schema_apply"
    assert graph.snapshot().count("Person") == 4
    require_sound(graph)
    with pytest.raises(OmnigraphError):
        graph.load(GIVEN, mode="merge")
    assert graph.snapshot().count("Person") == 4


def require_sound(graph: Graph) -> None:
    """Every rule of the schema in force holds, and nothing of the void rows is left."""
    assert graph.maintenance.verify().is_sound
    staged = graph._graph.storage.location.path("__staging")
    assert not [path for path in staged.rglob("*") if path.is_file()]
