"""A prepared query answers as the query it was made of, on whatever state it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.engine.graphs import quick

from omnigraph import Graph
from omnigraph.errors import (
    BranchNotFound,
    InvalidArgument,
    ParameterError,
    QueryInvalid,
    QuerySelectionError,
)
from omnigraph.graph.query import compiled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = "node P { name: String @key  age: I64? }"
SOURCE = """
query aged($age: I64) {
  match { $p: P  $p.age >= $age } return { $p.name, $p.age } order { $p.name }
}
query first($most: I64) { match { $p: P } return { $p.name } limit $most }
query add($name: String, $age: I64) { insert P { name: $name, age: $age } }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with Graph.init(tmp_path / "g", schema=SCHEMA, settings=quick()) as graph:
        for name, age in (("a", 1), ("b", 2), ("c", 3)):
            graph.mutate(SOURCE, "add", {"name": name, "age": age})
        yield graph


def test_every_call_reads_the_state_that_it_names(graph: Graph) -> None:
    aged = graph.prepare(SOURCE, "aged")
    before = aged({"age": 2})
    assert [row["p.name"] for row in before.to_dicts()] == ["b", "c"]
    graph.branches.create("side")
    graph.mutate(SOURCE, "add", {"name": "d", "age": 4}, branch="side")
    graph.mutate(SOURCE, "add", {"name": "e", "age": 5})
    assert [row["p.name"] for row in aged({"age": 3}).to_dicts()] == ["c", "e"]
    assert [row["p.name"] for row in aged({"age": 3}, branch="side").to_dicts()] == ["c", "d"]
    again = aged({"age": 2}, snapshot=before.graph_commit_id)
    assert again.to_dicts() == before.to_dicts()
    assert aged({"age": 2}).target == graph.query(SOURCE, "aged", {"age": 2}).target


def test_counts_that_parameters_give_are_bound_by_each_call(graph: Graph) -> None:
    first = graph.prepare(SOURCE, "first")
    assert [len(first({"most": most})) for most in (1, 2, 0, 9)] == [1, 2, 0, 3]
    with pytest.raises(ParameterError):
        first({"most": -1})


def test_a_call_checks_against_the_schema_that_it_meets(graph: Graph) -> None:
    aged = graph.prepare(SOURCE, "aged")
    old = aged({"age": 3})
    graph.schema.apply('node P { name: String @key  years: I64? @rename_from("age") }')
    with pytest.raises(QueryInvalid):
        aged({"age": 3})
    assert aged({"age": 3}, snapshot=old.graph_commit_id).to_dicts() == old.to_dicts()


def test_what_needs_no_schema_is_refused_when_it_is_prepared(graph: Graph) -> None:
    with pytest.raises(QueryInvalid):
        graph.prepare("query q( {")
    with pytest.raises(QuerySelectionError, match="name the query"):
        graph.prepare(SOURCE)
    with pytest.raises(QuerySelectionError, match="`add` is a mutation"):
        graph.prepare(SOURCE, "add")
    with pytest.raises(InvalidArgument, match="the text of a query"):
        graph.prepare(3)  # type: ignore[arg-type]  # a caller without a type checker


def test_errors_of_a_call_are_those_of_a_query(graph: Graph) -> None:
    aged = graph.prepare(SOURCE, "aged")
    with pytest.raises(ParameterError):
        aged()
    with pytest.raises(BranchNotFound):
        aged({"age": 1}, branch="none")
    with pytest.raises(InvalidArgument, match="timeout_s"):
        aged({"age": 1}, timeout_s=-1)


def test_nothing_is_compiled_twice(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    aged = graph.prepare(SOURCE, "aged")
    aged({"age": 1})

    def compiled_again(*_: object, **__: object) -> object:
        raise AssertionError("compiled again")

    monkeypatch.setattr(compiled, "compile_query", compiled_again)
    monkeypatch.setattr(compiled, "analyse_needs", compiled_again)
    assert len(aged({"age": 2})) == 2
    assert len(graph.query(SOURCE, "aged", {"age": 3})) == 1
