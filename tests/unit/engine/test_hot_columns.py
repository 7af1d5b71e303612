"""Columns in memory spare reads of storage, follow every write, and never change an answer."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.unit.engine.graphs import Opened, fill, heat, node_tables, put, remove

from omnigraph.engine import hot_columns, scan, streamed_groups
from omnigraph.engine.hot_columns import HotColumns
from omnigraph.engine.runtime_cache import TableVersion
from omnigraph.errors import InvalidArgument
from omnigraph.storage.table_store import TableStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph import Graph
    from omnigraph.storage.handles import TableHandle

SCHEMA = """
node N {
  name: String @key
  age: I64?
  kind: enum(a, b)
  born: Date?
  score: F64?
  about: String?
  tags: [String]?
  vector: Vector(2)?
}
edge E: N -> N
"""
QUERIES = """
query one($n: String) { match { $p: N { name: $n } } return { $p.name, $p.age, $p.kind } }
query friends($n: String) {
  match { $p: N { name: $n }  $p e $f  $f.age > 1 } return { $f.name, $f.age, $f.score }
}
query kinds() { match { $p: N } return { $p.kind, count($p) as n, avg($p.age) as age } }
query old($age: I64) { match { $p: N  $p.age >= $age } return { $p.name, $p.age } }
query about($n: String) { match { $p: N { name: $n } } return { $p.about, $p.tags, $p.age } }
query put($n: String, $age: I64) { update N set { age: $age } where name = $n }
"""
ROWS = 12


def made(graphs: Opened, *, column_bytes: str = "1000000") -> Graph:
    graph = graphs.init(SCHEMA, TRAVERSAL_MODE="csr", COLUMN_CACHE_BYTES=column_bytes)
    rows = [
        {"name": f"n{at:02d}", "age": at, "kind": "ab"[at % 2], "score": at / 2, "about": "x" * at}
        for at in range(ROWS)
    ]
    edges = [{"src": f"n{at:02d}", "dst": f"n{at + 1:02d}"} for at in range(ROWS - 1)]
    fill(graph, N=rows, E=edges)
    return graph


def ask(
    graph: Graph,
    name: str,
    params: Mapping[str, object] | None = None,
    *,
    branch: str | None = None,
    snapshot: str | None = None,
) -> list[tuple[Any, ...]]:  # Any: values of any type
    found = graph.query(QUERIES, name, params, branch=branch, snapshot=snapshot)
    return [tuple(row.values()) for row in found.to_dicts()]


def answers(
    graph: Graph, branch: str | None = None, snapshot: str | None = None
) -> dict[str, list[tuple[Any, ...]]]:  # Any: as above
    asked: dict[str, dict[str, object]] = {
        "one": {"n": "n03"},
        "friends": {"n": "n03"},
        "kinds": {},
        "old": {"age": 5},
        "about": {"n": "n03"},
    }
    return {
        name: ask(graph, name, params, branch=branch, snapshot=snapshot)
        for name, params in asked.items()
    }


def cold(
    graphs: Opened, graph: Graph, branch: str | None = None
) -> dict[str, list[tuple[Any, ...]]]:  # Any: as above
    """The answers of a handle that keeps no column."""
    fresh = graphs.again(graph, COLUMN_CACHE_BYTES="0")
    found = answers(fresh, branch)
    assert fresh._engine.caches.columns.nbytes == 0
    return found


def refuse_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object, **__: object) -> object:
        raise AssertionError("read from storage")

    for name in ("scan", "take_rows", "frame"):
        monkeypatch.setattr(TableStore, name, read)


def wait(graph: Graph) -> None:
    """Until what was begun in the background is done."""
    worker = graph._engine._warmer._worker
    assert worker is not None
    worker.submit(int).result()


def test_lookups_walks_filters_and_groups_read_no_table(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = made(graphs)
    expected = cold(graphs, graph)
    assert answers(graph) == expected
    heat(graph)
    monkeypatch.setattr(streamed_groups, "LARGE_SCAN", 0)
    refuse_reads(monkeypatch)
    for name, params in (("one", {"n": "n03"}), ("friends", {"n": "n03"}), ("old", {"age": 5})):
        assert ask(graph, name, params=params) == expected[name]
    assert ask(graph, "kinds") == expected["kinds"]


def test_wide_columns_come_from_the_table_beside_narrow_ones(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = made(graphs)
    monkeypatch.setattr(hot_columns, "SMALL_COLUMN_BYTES", 0)
    put(graph, N=[{"name": "n03", "age": 3, "kind": "b", "about": "y" * 5_000, "tags": ["t"]}])
    heat(graph)
    ((table, _),) = node_tables(graph)
    assert table.hot(["name", "age", "kind", "born", "score"]).keys() == {
        "name",
        "age",
        "kind",
        "born",
        "score",
    }
    assert not table.hot(["about", "tags", "vector"])
    assert not table.load_hot("about")
    taken: list[list[str]] = []
    real = TableStore.take_rows

    def take_rows(
        self: TableStore,
        handle: TableHandle,
        row_ids: pa.Array[pa.UInt64Scalar],
        columns: list[str],
    ) -> pa.Table:
        taken.append(columns)
        return real(self, handle, row_ids, columns)

    monkeypatch.setattr(TableStore, "take_rows", take_rows)
    monkeypatch.setattr("omnigraph.engine.tables.SCAN_INSTEAD_OF_TAKE", 1)
    assert ask(graph, "about", params={"n": "n03"}) == [("y" * 5_000, ["t"], 3)]
    assert taken == [["about", "tags"]]


def test_one_lookup_loads_nothing_and_some_do(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = made(graphs)
    columns = graph._engine.caches.columns
    monkeypatch.setattr("omnigraph.engine.tables.SCAN_INSTEAD_OF_TAKE", 1)
    for _ in range(hot_columns.FEW_READS - 1):
        expected = ask(graph, "one", params={"n": "n03"})
        assert graph._engine._warmer._worker is None
        assert columns.nbytes == 0
    ask(graph, "one", params={"n": "n04"})
    wait(graph)
    ((table, _),) = node_tables(graph)
    assert table.hot(["age", "kind", "score"]).keys() == {"age", "kind"}
    refuse_reads(monkeypatch)
    assert ask(graph, "one", params={"n": "n03"}) == expected


def test_a_large_table_is_read_more_often_before_its_columns_are_loaded() -> None:
    columns = HotColumns(1_000)
    key = (1, 1, 1)
    reads = 0
    while not columns.is_due(key, 1, 1_000_000.0):
        reads += 1
    assert reads == 1_000_000 // hot_columns.PART_OF_LOADING // hot_columns.READ_COST - 1
    assert not columns.is_due(key, 1, 1_000_000.0)
    assert columns.is_due(key, 1_000_000, 1_000_000.0)
    assert not HotColumns(0).is_due(key, 1_000_000, 1.0)


def test_columns_follow_writes_and_old_states_keep_their_values(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = made(graphs)
    fill(graph, N=[{"name": "n07a", "age": 7, "kind": "a"}])
    first = graph.snapshot().graph_commit_id
    before = answers(graph)
    heat(graph)
    graph.branches.create("side")
    put(graph, N=[{"name": "n03", "age": 30, "kind": "a"}, {"name": "n02a", "kind": "b"}])
    remove(graph, N=["n07a"])
    fill(graph, branch="side", N=[{"name": "n99", "age": 99, "kind": "a"}])
    expected = {branch: cold(graphs, graph, branch=branch) for branch in ("main", "side")}
    assert expected["main"] != before
    assert expected["side"] != before

    def loaded_again(*_: object) -> bool:
        raise AssertionError("loaded again")

    monkeypatch.setattr("omnigraph.engine.tables.QueryTable.load_hot", loaded_again)
    for branch, rows in expected.items():
        assert answers(graph, branch=branch) == rows
        snapshot = graph.snapshot(branch=branch)
        version = TableVersion.of(snapshot.handle(snapshot.type("N")))
        held = graph._engine.caches.columns.of(version)
        assert {len(values) for values in held.values()} == {snapshot.count("N")}
        assert len(held) == 6
    assert answers(graph, snapshot=first) == before


def test_a_rename_keeps_a_column_and_a_new_property_of_its_name_is_another(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = made(graphs)
    heat(graph)
    graph.schema.apply(SCHEMA.replace("age: I64?", 'years: I64? @rename_from("age")'))
    renamed = "query q() { match { $p: N } return { $p.name, $p.years } }"
    with monkeypatch.context() as patched:
        refuse_reads(patched)
        assert [row["p.years"] for row in graph.query(renamed).to_dicts()] == list(range(ROWS))
    graph.schema.apply(SCHEMA.replace("  age: I64?\n", ""))
    graph.schema.apply(SCHEMA)
    heat(graph)
    again = "query q() { match { $p: N } return { $p.name, $p.age } }"
    assert {row["p.age"] for row in graph.query(again).to_dicts()} == {None}
    put(graph, N=[{"name": "n03", "age": 77, "kind": "a"}])
    found = {row["p.name"]: row["p.age"] for row in graph.query(again).to_dicts()}
    assert found == {f"n{at:02d}": 77 if at == 3 else None for at in range(ROWS)}


def test_the_budget_holds_over_many_versions_and_closing_frees_it(graphs: Opened) -> None:
    graph = made(graphs, column_bytes="700")
    columns = graph._engine.caches.columns
    for at in range(30):
        heat(graph)
        assert 0 < columns.nbytes <= 700
        put(graph, N=[{"name": f"n{at % 15:02d}", "age": at, "kind": "a"}])
        assert ask(graph, "one", params={"n": f"n{at % 15:02d}"})[0][1] == at
        assert columns.nbytes <= 700
    graph.close()
    assert columns.nbytes == 0


@pytest.mark.parametrize("types", [None, ["E", "N"]])
def test_a_warmed_graph_reads_no_table(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch, types: list[str] | None
) -> None:
    graph = made(graphs)
    expected = cold(graphs, graph)
    graph.warm(types)
    refuse_reads(monkeypatch)
    assert ask(graph, "friends", {"n": "n03"}) == expected["friends"]
    assert ask(graph, "kinds") == expected["kinds"]
    assert ask(graph, "one", {"n": "n03"}) == expected["one"]


def test_warming_keeps_to_the_budget_and_to_types_that_are_there(graphs: Opened) -> None:
    graph = made(graphs, column_bytes="250")
    columns = graph._engine.caches.columns
    graph.warm(["E"])
    assert columns.nbytes == 0
    graph.warm()
    assert 0 < columns.nbytes <= 250
    ((table, _),) = node_tables(graph)
    assert table.hot(["age", "kind", "born", "score"]).keys() == {"age", "kind"}
    with pytest.raises(InvalidArgument, match="Nobody"):
        graph.warm(["N", "Nobody"])
    with pytest.raises(InvalidArgument, match="a list of names"):
        graph.warm("N")
    graph.close()
    with pytest.raises(InvalidArgument, match="closed"):
        graph.warm()


def test_what_was_used_last_stays() -> None:
    columns = HotColumns(20_000)
    values = [pa.array([number] * 1_000, pa.int64()) for number in range(3)]
    version, other = TableVersion(1, 1, None, 1), TableVersion(1, 1, None, 2)
    columns.keep(version, {0: values[0], 1: values[1]})
    assert columns.find(version, 0) is values[0]
    columns.keep(other, {2: values[2]})
    assert columns.of(version).keys() == {0}
    columns.move(version, other, {0: values[1]})
    assert not columns.of(version)
    assert columns.of(other).keys() == {0, 2}
    columns.keep(version, {3: pa.array([0] * 5_000, pa.int64())})
    assert columns.nbytes == 0


def test_what_nobody_reads_is_left_behind_and_versions_are_few() -> None:
    columns = HotColumns(1_000_000)
    values = pa.array([1, 2, 3], pa.int64())
    versions = [TableVersion(1, 1, None, number) for number in range(100)]
    columns.keep(versions[0], {0: values, 1: values})
    for older, newer in itertools.pairwise(versions):
        assert columns.find(older, 0) is values
        columns.move(older, newer, columns.of(older))
    assert columns.of(versions[-1]).keys() == {0}
    held = [version for version in versions if columns.of(version)]
    assert held[0] == versions[-hot_columns.MOST_VERSIONS]
    columns.clear()
    assert columns.nbytes == 0


def test_large_tables_ask_their_index(graphs: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = made(graphs)
    heat(graph)
    expected = ask(graph, "old", params={"age": 5})
    monkeypatch.setattr(scan, "COMPARED_IN_MEMORY", 1)
    assert ask(graph, "old", params={"age": 5}) == expected
    with monkeypatch.context() as patched:
        refuse_reads(patched)
        with pytest.raises(AssertionError, match="read from storage"):
            ask(graph, "old", params={"age": 5})
