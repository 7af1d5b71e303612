"""An export: its order, its values, its chunks, and that a load gives the same graph again."""

import json
import random  # noqa: TID251 - a seeded order
import tracemalloc
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.graph.graphs import Opened, made_once, quick, rows

from omnigraph import Graph
from omnigraph.errors import BranchNotFound, CommitNotFound, InvalidArgument, SnapshotReclaimed
from omnigraph.graph.ndjson.export import CHUNK_BYTES

SCHEMA = """
node Zebra { name: String @key }
node Ant { name: String @key  legs: I32? @default(6) }
node Link { text: String }
edge Link: Ant -> Zebra { weight: F64? }
edge Bites: Ant -> Ant
"""
EVERY = """
node Every {
  name: String @key
  b: Bool?  i: I32?  u: U32?  l: I64?  n: U64?  f: F32?  g: F64?
  d: Date?  t: DateTime?  v: Vector(3)?  s: [String]?  m: [DateTime]?  r: [F32]?
  e: enum(one, two)?  x: Blob?
}
"""


def records(graph: Graph, **where: object) -> list[dict[str, Any]]:
    chunks = b"".join(graph.export(**where))  # type: ignore[arg-type]  # options by name
    return [json.loads(line) for line in chunks.decode().splitlines()]


def put(graph: Graph, type_name: str, *given: Mapping[str, object], branch: str = "main") -> None:
    with graph.write(branch) as writer:
        writer.upsert(type_name, rows(*given))
        writer.commit()


# --- order and types --------------------------------------------------------------------------


def fill(graph: Graph) -> None:
    put(graph, "Zebra", {"name": "z"}, {"name": "a"})
    put(graph, "Ant", {"name": "b", "legs": 5}, {"name": "a", "legs": None})
    put(graph, "node:Link", {"id": "n1", "text": "node"})
    put(graph, "edge:Link", {"id": "e1", "src": "a", "dst": "z", "weight": 0.5})
    put(graph, "Bites", {"id": "e3", "src": "a", "dst": "b"}, {"id": "e2", "src": "b", "dst": "a"})


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory.mktemp("filled"), SCHEMA, fill)


@pytest.fixture
def graph(graphs: Opened, filled: Path) -> Graph:
    return graphs.copied(filled)


def test_nodes_come_before_edges_then_types_by_name_then_ids(graph: Graph) -> None:
    assert b"".join(graph.export()).decode().splitlines() == [
        '{"type":"Ant","data":{"id":"a","name":"a","legs":null}}',
        '{"type":"Ant","data":{"id":"b","name":"b","legs":5}}',
        '{"type":"Link","data":{"id":"n1","text":"node"}}',
        '{"type":"Zebra","data":{"id":"a","name":"a"}}',
        '{"type":"Zebra","data":{"id":"z","name":"z"}}',
        '{"edge":"Bites","from":"b","to":"a","data":{"id":"e2"}}',
        '{"edge":"Bites","from":"a","to":"b","data":{"id":"e3"}}',
        '{"edge":"Link","from":"a","to":"z","data":{"id":"e1","weight":0.5}}',
    ]


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (["Zebra", "Ant"], ["Ant", "Ant", "Zebra", "Zebra"]),
        (["Link"], ["Link", "Link"]),
        (["edge:Link"], ["Link"]),
        (["edge:Link", "Link", "node:Link"], ["Link", "Link"]),
        (["Bites", "node:Link"], ["Link", "Bites", "Bites"]),
    ],
)
def test_types_are_chosen_by_name(graph: Graph, types: list[str], expected: list[str]) -> None:
    found = records(graph, types=types)
    assert [each.get("type", each.get("edge")) for each in found] == expected


def test_no_types_mean_all_of_them(graph: Graph) -> None:
    assert list(graph.export(types=[])) == list(graph.export(types=None)) == list(graph.export())


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda graph: graph.export(types=["Ant", "Bee"]), InvalidArgument),
        (lambda graph: graph.export(types=["edge:Ant"]), InvalidArgument),
        (lambda graph: graph.export(types="Ant"), InvalidArgument),
        (lambda graph: graph.export(types=[7]), InvalidArgument),
        (lambda graph: graph.export(types=[["Ant"]]), InvalidArgument),
        (lambda graph: graph.export(branch="main", snapshot="x"), InvalidArgument),
        (lambda graph: graph.export(branch="nope"), BranchNotFound),
        (lambda graph: graph.export(snapshot="nope"), CommitNotFound),
    ],
)
def test_what_can_be_refused_is_refused_before_the_first_byte(
    graph: Graph, ask: Callable[[Graph], object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        ask(graph)


def test_a_graph_without_entities_exports_nothing(graphs: Opened) -> None:
    assert list(graphs.init(SCHEMA).export()) == []


def test_ids_are_in_code_point_order(graphs: Opened) -> None:
    graph = graphs.init(SCHEMA)
    names = [
        "é",
        "z",
        "a",
        "Z",
        "",
        "\U0001f600",
        "\uffff",
        "日本",
        'q"\\',
        "a\u0000b",
        "a b",
        "10",
        "9",
    ]
    put(graph, "Zebra", *({"name": name} for name in names))
    found = [each["data"]["id"] for each in records(graph)]
    assert found == sorted(names)


@pytest.mark.parametrize("is_sorted", [True, False])
def test_rows_that_lie_in_order_and_others_come_in_the_same_order(
    graphs: Opened, *, is_sorted: bool
) -> None:
    graph = graphs.init(SCHEMA)
    names = [f"n{number:05}" for number in range(20_000)]
    given = list(names)
    if not is_sorted:
        random.Random(7).shuffle(given)  # noqa: S311 - as above
    with graph.write() as writer:
        legs = pa.array([int(name[1:]) for name in given], pa.int32())
        writer.append("Ant", pa.table({"name": given, "legs": legs}))
        writer.commit()
    graph.mutate('query m() { delete Ant where name = "n00003" }')
    graph.mutate('query m() { update Ant set { legs: 1 } where name = "n00007" }')
    expected = [{"id": name, "name": name, "legs": int(name[1:])} for name in names]
    expected[7]["legs"] = 1
    del expected[3]
    assert [each["data"] for each in records(graph)] == expected


# --- values -----------------------------------------------------------------------------------


def test_every_type_is_written_in_its_own_form(graphs: Opened) -> None:
    graph = graphs.init(EVERY)
    moment = datetime(2024, 2, 29, 12, 30, 15, 7_000, tzinfo=UTC)
    day = datetime(9999, 12, 31, tzinfo=UTC).date()
    row: dict[str, pa.Array[pa.Scalar[pa.DataType]]] = {
        "name": pa.array(["Zoë\n"]),
        "b": pa.array([False]),
        "i": pa.array([-(2**31)], pa.int32()),
        "u": pa.array([2**32 - 1], pa.uint32()),
        "l": pa.array([-(2**63)], pa.int64()),
        "n": pa.array([2**64 - 1], pa.uint64()),
        "f": pa.array([0.1], pa.float32()),
        "g": pa.array([0.1], pa.float64()),
        "d": pa.array([day]),
        "t": pa.array([moment], pa.timestamp("ms", "UTC")),
        "v": pa.array([[0.1, -2.0, 3e-5]], pa.list_(pa.float32(), 3)),
        "s": pa.array([["a", None, ""]]),
        "m": pa.array([[moment, None]], pa.list_(pa.timestamp("ms", "UTC"))),
        "r": pa.array([[0.1, 16_777_216.0]], pa.list_(pa.float32())),
        "e": pa.array(["two"]),
        "x": pa.array([b"\x00\xff"], pa.large_binary()),
    }
    with graph.write() as writer:
        writer.append("Every", pa.table(row))
        writer.commit()
    (chunk,) = graph.export()
    assert chunk.decode() == (
        '{"type":"Every","data":{"id":"Zoë\\n","name":"Zoë\\n","b":false,"i":-2147483648,'
        '"u":4294967295,"l":-9223372036854775808,"n":18446744073709551615,"f":0.1,"g":0.1,'
        '"d":"9999-12-31","t":"2024-02-29T12:30:15.007Z","v":[0.1,-2.0,0.00003],'
        '"s":["a",null,""],"m":["2024-02-29T12:30:15.007Z",null],"r":[0.1,16777216.0],'
        '"e":"two","x":"base64:AP8="}}\n'
    )


def test_what_is_null_is_written_as_null(graphs: Opened) -> None:
    graph = graphs.init(EVERY)
    put(graph, "Every", {"name": "n"})
    (found,) = records(graph)
    data = found["data"]
    assert set(data) == {"id", *graph.snapshot().catalog.node_types["Every"].properties}
    assert {name for name, value in data.items() if value is not None} == {"id", "name"}


BLOBS = {
    "empty": b"",
    "inline": b"abc",
    "packed": bytes(range(256)) * 1_000,
    "large": b"\x01\x02\x03\x04" * 1_300_000,
}


def test_blobs_are_written_whole_whatever_their_length(graphs: Opened) -> None:
    import base64

    graph = graphs.init("node File { name: String @key  content: Blob?  copy: Blob? }")
    values = [*BLOBS.values(), None]
    with graph.write() as writer:
        content = pa.array(values, pa.large_binary())
        copy = pa.array(values[::-1], pa.large_binary())
        writer.append(
            "File", pa.table({"name": [*BLOBS, "none"], "content": content, "copy": copy})
        )
        writer.commit()
    found = {str(each["data"]["id"]): each["data"] for each in records(graph)}
    for at, name in enumerate([*BLOBS, "none"]):
        for column, value in (("content", values[at]), ("copy", values[::-1][at])):
            text = None if value is None else f"base64:{base64.b64encode(value).decode()}"
            assert found[name][column] == text, (name, column)


def test_a_blob_outside_is_written_as_its_address(tmp_path: Path) -> None:
    outside = tmp_path / "a b.bin"
    outside.write_bytes(b"outside")
    graph = Graph.init(
        tmp_path / "g",
        schema="node File { name: String @key  content: Blob? }",
        external_blobs=[tmp_path.as_uri()],
        settings=quick(),
    )
    with graph:
        source = 'query m($c: Blob) { insert File { name: "x", content: $c } }'
        graph.mutate(source, params={"c": outside.as_uri()})
        outside.unlink()
        (found,) = records(graph)
    assert found["data"]["content"] == outside.as_uri()


@pytest.mark.parametrize("schema", [SCHEMA, EVERY])
def test_a_load_of_an_export_gives_the_same_export(
    tmp_path: Path, schema: str, request: pytest.FixtureRequest
) -> None:
    source: Graph
    if schema == SCHEMA:
        source = request.getfixturevalue("graph")
    else:
        source = request.getfixturevalue("graphs").init(EVERY)
        put(
            source, "Every", {"name": "a", "f": 0.1, "v": [1.0, 2.0, 3.0], "x": b"x"}, {"name": "b"}
        )
    exported = b"".join(source.export())
    with Graph.init(tmp_path / "copy", schema=schema, settings=quick()) as copy:
        copy.load(exported, mode="append")
        assert b"".join(copy.export()) == exported


# --- states -----------------------------------------------------------------------------------


def test_an_export_is_that_of_a_branch_or_an_older_commit(graph: Graph) -> None:
    before = graph.snapshot()
    expected = list(graph.export())
    graph.branches.create("draft")
    put(graph, "Zebra", {"name": "new"}, branch="draft")
    put(graph, "Ant", {"name": "a", "legs": 8})
    assert list(graph.export(snapshot=before.graph_commit_id)) == expected
    assert list(graph.export(snapshot=before.resolved_snapshot)) == expected
    draft = records(graph, branch="draft", types=["Zebra"])
    assert [each["data"]["id"] for each in draft] == ["a", "new", "z"]
    assert records(graph, types=["Ant"])[0]["data"] == {"id": "a", "name": "a", "legs": 8}


def test_writes_during_an_export_are_not_in_it(graph: Graph) -> None:
    expected = b"".join(graph.export())
    stream = graph.export()
    put(graph, "Ant", {"name": "c", "legs": 8})
    assert b"".join(stream) == expected


def test_a_read_only_graph_can_be_exported(graphs: Opened, graph: Graph) -> None:
    assert list(graphs.read_only().export()) == list(graph.export())


def test_an_export_whose_files_are_gone_is_told_so(graphs: Opened, graph: Graph) -> None:
    stream = graph.export()
    for path in graphs.root.rglob("data/*.lance"):
        if "__manifest" not in path.parts:
            path.unlink()
    with pytest.raises(SnapshotReclaimed):
        list(stream)


# --- chunks -----------------------------------------------------------------------------------


def test_chunks_are_bounded_and_hold_whole_lines(graphs: Opened) -> None:
    graph = graphs.init("node N { name: String @key  text: String? }")
    with graph.write() as writer:
        names = [f"n{number:04}" for number in range(2_000)]
        texts = ["x" * (number % 300) for number in range(2_000)]
        texts[1_000] = "y" * (3 * CHUNK_BYTES)
        writer.append("N", pa.table({"name": names, "text": texts}))
        writer.commit()
    chunks = list(graph.export())
    assert max(map(len, chunks)) <= CHUNK_BYTES
    assert min(map(len, chunks[:-1])) > 0
    assert b"".join(chunks).count(b"\n") == 2_000
    in_the_long_line = [chunk for chunk in chunks if b"y" * 100 in chunk]
    assert 3 <= len(in_the_long_line) <= 5
    others = [chunk for chunk in chunks if chunk not in in_the_long_line]
    assert all(chunk.endswith(b"\n") for chunk in others)
    assert len(chunks) < 20


@pytest.mark.extended
def test_an_export_holds_little_of_what_it_reads(graphs: Opened) -> None:
    graph = graphs.init("node V { name: String @key  vec: Vector(1024)?  content: Blob? }")
    count, vector = 2_000, [0.5] * 1_024
    with graph.write() as writer:
        names = [f"n{number:05}" for number in reversed(range(count))]
        vectors = pa.array([vector] * count, pa.list_(pa.float32(), 1_024))
        blobs = pa.array([b"x" * 10_000] * count, pa.large_binary())
        writer.append("V", pa.table({"name": names, "vec": vectors, "content": blobs}))
        writer.commit()
    arrow_before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        total = arrow_peak = 0
        for chunk in graph.export():
            total += len(chunk)
            arrow_peak = max(arrow_peak, pa.total_allocated_bytes() - arrow_before)
        python_peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total > 30_000_000
    assert python_peak < 30_000_000
    assert arrow_peak < 8_000_000
