"""What is kept of a version serves the versions after it, and never changes an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from tests.unit.engine.moved import QUERIES, filled

from omnigraph.engine import moved_caches, tables
from omnigraph.storage.signals import ObjectMissing
from omnigraph.storage.table_store import TableStore

if TYPE_CHECKING:
    import pytest
    from tests.unit.engine.graphs import Opened


def built_anew(*_: object, **__: object) -> object:
    raise AssertionError("built of all rows")


def test_a_small_write_moves_what_is_kept(graphs: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = filled(graphs)
    monkeypatch.setattr(tables, "build_graph_index", built_anew)
    monkeypatch.setattr(tables, "build_type_index", built_anew)
    graph.mutate(QUERIES, "add", {"name": "n5", "age": 6})
    graph.mutate(QUERIES, "tie", {"a": "n2", "b": "n5"})
    ends = {row["b"] for row in graph.query(QUERIES, "hops").to_dicts() if row["a"] == "n1"}
    assert ends == {"n2", "n5"}
    graph.mutate(QUERIES, "drop", {"name": "n1"})
    assert [row["a"] for row in graph.query(QUERIES, "hops").to_dicts()] == ["n2"]
    # A branch begins with what is kept of the version that it grew from.
    graph.branches.create("side")
    graph.mutate(QUERIES, "tie", {"a": "n0", "b": "n2"}, branch="side")
    pairs = graph.query(QUERIES, "hops", branch="side").to_dicts()
    assert [(row["a"], row["b"]) for row in pairs] == [("n0", "n2"), ("n0", "n5"), ("n2", "n5")]
    assert [row["a"] for row in graph.query(QUERIES, "hops").to_dicts()] == ["n2"]


def test_of_two_equal_edges_one_may_go(graphs: Opened) -> None:
    graph = filled(graphs)
    edges = graph.snapshot().scan("E", filter='from = "n0"').read_all()["id"].to_pylist()
    assert len(edges) == 2
    for gone, left in zip(edges, (3, 1), strict=True):
        with graph.write() as write:
            write.delete("E", [str(gone)])
            write.commit()
        assert len(graph.query(QUERIES, "hops")) == left


def test_many_rows_are_built_anew(graphs: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = filled(graphs)
    monkeypatch.setattr(moved_caches, "MOST_ROWS", 1)
    monkeypatch.setattr(moved_caches, "moved_graph_index", built_anew)
    with graph.write() as write:
        write.append("E", pa.table({"src": ["n3", "n4"], "dst": ["n4", "n3"]}))
        write.commit()
    assert len(graph.query(QUERIES, "hops")) == 5


def test_a_version_that_was_removed_moves_nothing(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = filled(graphs)
    graph.mutate(QUERIES, "tie", {"a": "n3", "b": "n4"})

    def missing(*_: object, **__: object) -> object:
        raise ObjectMissing("removed")

    monkeypatch.setattr(TableStore, "changed_since", missing)
    assert len(graph.query(QUERIES, "hops")) == 4
