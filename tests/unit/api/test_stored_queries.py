"""Stored queries: loaded as a whole, invoked through the same door as texts, kept by the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from omnigraph import Graph
from omnigraph.errors import (
    InvalidArgument,
    PreconditionFailed,
    QueryInvalid,
    QuerySelectionError,
    SchemaRefused,
    StoredQueryNotFound,
)
from omnigraph.graph.results.mutation_result import MutationResult
from omnigraph.graph.results.query_result import QueryResult

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = "node Person { name: String @key age: I64? }"
READS = """
query older($age: I64, $tags: [DateTime]?) @description("Who is older") @instruction("Ask first")
{ match { $p: Person $p.age > $age } return { $p.name } }
query everybody() { match { $p: Person } return { $p.name } }
"""
WRITES = "query add($name: String) { insert Person { name: $name } }"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "queries"
    folder.mkdir()
    (folder / "reads.gq").write_text(READS)
    (folder / "writes.gq").write_text(WRITES)
    (folder / "notes.txt").write_text("no query")
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "g"
    Graph.init(place, schema=SCHEMA).close()
    return place


@pytest.fixture
def graph(place: Path, folder: Path) -> Iterator[Graph]:
    with Graph.open(place, queries=[folder]) as graph:
        yield graph


def test_the_catalog_is_sorted_and_typed(graph: Graph) -> None:
    entries = [entry.to_dict() for entry in graph.queries.list()]
    assert [entry["name"] for entry in entries] == ["add", "everybody", "older"]
    assert entries[2] == {
        "name": "older",
        "tool_name": "older",
        "description": "Who is older",
        "instruction": "Ask first",
        "mutation": False,
        "params": [
            {"name": "age", "kind": "bigint", "nullable": False},
            {"name": "tags", "kind": "list", "item_kind": "datetime", "nullable": True},
        ],
    }


def test_invoking_gives_what_the_text_would_give(graph: Graph) -> None:
    written = graph.queries.invoke("add", {"name": "Ada"})
    assert isinstance(written, MutationResult)
    assert (written.affected_nodes, written.query_name) == (1, "add")
    assert written.commit is not None
    head = written.commit.graph_commit_id
    with pytest.raises(PreconditionFailed):
        graph.queries.invoke("add", {"name": "Bob"}, if_commit=written.commit.parent_commit_id)
    graph.queries.invoke("add", {"name": "Bob"}, if_commit=head)
    now, then = (graph.queries.invoke("everybody", snapshot=target) for target in (None, head))
    assert isinstance(now, QueryResult)
    assert isinstance(then, QueryResult)
    assert now.to_dicts() == [{"p.name": "Ada"}, {"p.name": "Bob"}]
    assert then.to_dicts() == [{"p.name": "Ada"}]


def test_a_branch_is_read_and_written_by_name(graph: Graph) -> None:
    graph.branches.create("draft")
    graph.queries.invoke("add", {"name": "Ada"}, branch="draft")
    rows = [graph.queries.invoke("everybody", branch=branch) for branch in ("main", "draft")]
    assert [len(found.to_dicts()) for found in rows if isinstance(found, QueryResult)] == [0, 1]


def test_another_actor_has_the_same_queries(graph: Graph) -> None:
    written = graph.as_actor("act-ann").queries.invoke("add", {"name": "Ada"})
    assert isinstance(written, MutationResult)
    assert written.actor_id == "act-ann"


def test_a_repeated_mutation_gives_the_first_receipt(graph: Graph) -> None:
    receipts = [graph.queries.invoke("add", {"name": "Ada"}, idempotency_key="k") for _ in range(2)]
    first, again = [item.commit for item in receipts if isinstance(item, MutationResult)]
    assert first == again


def test_an_unknown_name_is_told_without_the_names_that_exist(graph: Graph) -> None:
    with pytest.raises(StoredQueryNotFound) as caught:
        graph.queries.invoke("olde", {"age": 1})
    assert (caught.value.message, caught.value.details) == ("stored query not found", {})


@pytest.mark.parametrize(
    ("name", "expected", "verb"), [("add", False, "mutate"), ("everybody", True, "query")]
)
def test_the_wrong_kind_names_the_right_verb(
    graph: Graph,
    name: str,
    expected: bool,  # noqa: FBT001
    verb: str,
) -> None:
    with pytest.raises(QuerySelectionError, match=f"run it with `{verb}`") as caught:
        graph.queries.invoke(name, expect_mutation=expected)
    assert caught.value.details["reason"] == f"use_{verb}"


def test_arguments_of_the_other_kind_are_refused(graph: Graph) -> None:
    with pytest.raises(InvalidArgument, match="takes no snapshot"):
        graph.queries.invoke("add", {"name": "Ada"}, snapshot="main")
    with pytest.raises(InvalidArgument, match="takes no if_commit"):
        graph.queries.invoke("everybody", if_commit="01K")
    with pytest.raises(InvalidArgument, match="takes no idempotency_key"):
        graph.queries.invoke("everybody", idempotency_key="k")


def test_every_error_of_every_file_is_told_with_its_place(place: Path, folder: Path) -> None:
    (folder / "a.gq").write_text("query add( {\n")
    (folder / "b.gq").write_text(
        "query lost() { match { $p: Persn } return { $p.name } }\n"
        "query everybody() { match { $p: Person } return { $p.name } }\n"
        "query wrong() {\n  match { $p: Person }\n  return { $p.salary }\n}\n"
    )
    (folder / "binary.gq").write_bytes(b"\xff\xfe")
    missing = folder / "missing.gq"
    with pytest.raises(QueryInvalid) as caught:
        Graph.open(place, queries=[folder, missing])
    diagnostics = caught.value.details["diagnostics"]
    assert isinstance(diagnostics, list)
    told = [
        (item["path"], item["span"]["line"], item["code"], item["reason"])
        for item in diagnostics
        if isinstance(item, dict)
    ]
    assert [(path.rsplit("/", 1)[1], *rest) for path, *rest in told] == [
        ("a.gq", 1, "Q000", "syntax"),
        ("b.gq", 1, "T1", "unknown_type"),
        ("b.gq", 5, "T6", "unknown_property"),
        ("binary.gq", 1, "Q000", "syntax"),
        ("reads.gq", 4, "Q000", "duplicate_query"),
        ("missing.gq", 1, "Q000", "unreadable"),
    ]
    for path, line, *_ in told:
        assert f"{path}:{line}:" in caught.value.message
    Graph.open(place, queries=[folder / "reads.gq"]).close()


def test_a_schema_that_breaks_a_stored_query_is_refused_with_the_list(
    graph: Graph, place: Path
) -> None:
    head = graph.snapshot().graph_commit_id
    with pytest.raises(SchemaRefused) as caught:
        graph.schema.apply('node Human @rename_from("Person") { name: String @key age: I64? }')
    diagnostics = caught.value.details["diagnostics"]
    assert isinstance(diagnostics, list)
    assert {item["code"] for item in diagnostics if isinstance(item, dict)} == {"T1", "T10"}
    assert len(diagnostics) == 3
    assert graph.snapshot().graph_commit_id == head
    assert graph.schema.apply("node Person { name: String @key age: I64? city: String? }").applied
    with Graph.open(place) as other:
        assert other.schema.apply('node Human @rename_from("Person") { name: String @key }').applied
    with pytest.raises(QueryInvalid):
        graph.queries.invoke("everybody")
