"""A type with lists of unsigned numbers, on which Lance's own scanner takes no filter."""

import pyarrow as pa
import pytest
from tests.unit.graph.graphs import Opened

from omnigraph import Graph
from omnigraph.errors import KeyConflict
from omnigraph.storage.predicates import Compare, CompareOp

SCHEMA = """
node Odd { name: String @key  small: [U32]?  big: [U64]?  age: I32?  vec: Vector(2)?  data: Blob? }
edge Near: Odd -> Odd { marks: [U32]? }
"""


VECTOR = pa.list_(pa.float32(), 2)


@pytest.fixture
def graph(graphs: Opened) -> Graph:
    graph = graphs.init(SCHEMA)
    with graph.write() as write:
        write.append(
            "Odd",
            pa.table(
                {
                    "name": ["a", "b", "c"],
                    "small": pa.array([[1, 2], None, []], pa.list_(pa.uint32())),
                    "big": pa.array([[2**64 - 1], [], None], pa.list_(pa.uint64())),
                    "age": pa.array([1, 2, None], pa.int32()),
                    "vec": pa.array([[1, 0], [0, 1], [-1, 0]], VECTOR),
                    "data": pa.array([b"one", b"", None], pa.large_binary()),
                }
            ),
        )
        write.append("Near", pa.table({"src": ["a", "b"], "dst": ["b", "c"]}))
        write.commit()
    return graph


def test_rows_are_found_changed_and_removed(graph: Graph) -> None:
    found = graph.snapshot().entity("Odd", "a")
    assert found is not None
    assert (found["small"], found["big"]) == ([1, 2], [2**64 - 1])
    with graph.write() as write:
        write.upsert("Odd", pa.table({"name": ["a", "z"], "age": pa.array([7, 8], pa.int32())}))
        write.commit()
    with graph.write() as write:
        edges = graph.snapshot().scan("Near").read_all()
        write.delete("Near", [str(each) for each in edges["id"]])
        write.delete("Odd", ["b"])
        write.commit()
    rows = graph.snapshot().scan("Odd", columns=["id", "age"]).read_all().sort_by("id")
    assert rows.to_pydict() == {"id": ["a", "c", "z"], "age": [7, None, 8]}


def test_rules_are_checked_against_committed_rows(graph: Graph) -> None:
    with graph.write() as write:
        write.append("Odd", pa.table({"name": ["a"]}))
        with pytest.raises(KeyConflict, match="'a' exists already"):
            write.commit()


def test_predicates_vectors_and_blobs_are_answered(graph: Graph) -> None:
    store = graph._graph.tables
    snapshot = graph.snapshot()
    handle = snapshot.handle(snapshot.type("Odd"))
    older = Compare("age", CompareOp.GT, pa.scalar(1, pa.int32()))
    assert store.count(handle, older) == 1
    assert len(store.row_addresses(handle, older)) == 1
    near = store.search_vector(handle, "vec", [1.0, 0.1], 1, predicate=older)
    assert near["id"].to_pylist() == ["b"]
    assert store.blob(handle, "c", "data") is None
    blob = store.blob(handle, "a", "data")
    assert blob is not None
    assert blob.length == 3
    assert blob.read(0, 3) == b"one"


def test_queries_walk_and_filter(graph: Graph) -> None:
    query = """query q($n: U32) {
        match { $p: Odd { name: "a" }  $p.small contains $n  $p near{1,2} $f }
        return { $f.name } }"""
    assert graph.query(query, params={"n": 2}).to_dicts() == [{"f.name": "b"}, {"f.name": "c"}]
    assert graph.query(query, params={"n": 3}).to_dicts() == []
