"""One blob value: its ranges, its tag, and what it refuses."""

import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.graph.graphs import Opened, committed, made_once, quick

from omnigraph import BlobReader, Graph
from omnigraph.errors import (
    BlobNotFound,
    BlobRangeError,
    BranchNotFound,
    InvalidArgument,
    ResourceLimit,
    SnapshotReclaimed,
)
from omnigraph.limits import MAX_BLOB_READ_BYTES

SCHEMA = """
node File { name: String @key  rank: I32?  content: Blob?  other: Blob? }
node Link { name: String @key  content: Blob? }
edge Link: File -> File { content: Blob? }
"""
LARGE = bytes(range(256)) * (5 * 4_096 + 3)
"""More than one call reads, and not a whole number of calls."""
BLOBS = {"empty": b"", "small": b"0123456789", "packed": b"p" * 200_000, "large": LARGE}


def fill(graph: Graph) -> None:
    with graph.write() as writer:
        content = pa.array([*BLOBS.values(), None], pa.large_binary())
        writer.append("File", pa.table({"name": [*BLOBS, "null"], "content": content}))
        edge = {"id": ["e"], "src": ["empty"], "dst": ["small"], "content": [b"edge"]}
        writer.append("edge:Link", pa.table(edge))
        writer.append("node:Link", pa.table({"name": ["e"], "content": [b"node"]}))
        writer.commit()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory.mktemp("filled"), SCHEMA, fill)


@pytest.fixture
def graph(graphs: Opened, filled: Path) -> Graph:
    return graphs.copied(filled)


def content(graph: Graph, name: str, **where: str) -> BlobReader:
    return graph.blob("node", "File", name, "content", **where)


# --- ranges -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BLOBS)
def test_iterating_gives_the_whole_value_in_bounded_pieces(graph: Graph, name: str) -> None:
    reader = content(graph, name)
    pieces = list(reader)
    assert b"".join(pieces) == BLOBS[name]
    assert reader.length == len(BLOBS[name])
    assert reader.uri is None
    assert all(0 < len(piece) <= MAX_BLOB_READ_BYTES for piece in pieces)
    assert list(reader) == pieces


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, None, b"0123456789"),
        (0, 0, b""),
        (3, 3, b""),
        (3, 5, b"34"),
        (9, None, b"9"),
        (9, 2**62, b"9"),
        (0, 10, b"0123456789"),
    ],
)
def test_a_range_is_read_and_ends_with_the_value(
    graph: Graph, start: int, end: int | None, expected: bytes
) -> None:
    assert content(graph, "small").read(start, end) == expected


@pytest.mark.parametrize(
    ("start", "end"), [(10, None), (11, 12), (10**30, None), (-1, None), (5, 4)]
)
def test_a_range_that_is_none_of_the_value_is_refused(
    graph: Graph, start: int, end: int | None
) -> None:
    with pytest.raises(BlobRangeError) as caught:
        content(graph, "small").read(start, end)
    details = caught.value.details
    assert (details["start"], details["length"]) == (start, 10)
    assert details["end"] == (10 if end is None else end)


def test_an_empty_value_can_be_read_as_a_whole_only(graph: Graph) -> None:
    assert content(graph, "empty").read() == b""
    with pytest.raises(BlobRangeError):
        content(graph, "empty").read(1)


def test_a_call_reads_so_much_and_not_more(graph: Graph) -> None:
    reader = content(graph, "large")
    assert reader.read(7, 7 + MAX_BLOB_READ_BYTES) == LARGE[7 : 7 + MAX_BLOB_READ_BYTES]
    assert reader.read(len(LARGE) - 5) == LARGE[-5:]
    for start, end in ((0, None), (0, MAX_BLOB_READ_BYTES + 1)):
        with pytest.raises(ResourceLimit) as caught:
            reader.read(start, end)
        assert caught.value.details["resource"] == "Blob read range bytes"
        assert caught.value.details["limit"] == MAX_BLOB_READ_BYTES
    assert content(graph, "small").read(0, MAX_BLOB_READ_BYTES + 1) == BLOBS["small"]


@pytest.mark.parametrize(("start", "end"), [("0", None), (0, 1.5), (True, None)])
def test_ends_of_a_range_are_numbers(graph: Graph, start: int, end: int) -> None:
    with pytest.raises(InvalidArgument, match="number of bytes"):
        content(graph, "small").read(start, end)


def test_many_threads_read_one_value(graph: Graph) -> None:
    reader = content(graph, "large")
    wrong: list[int] = []

    def read(part: int) -> None:
        for turn in range(20):
            at = (part * 37 + turn) * 1_000
            if reader.read(at, at + 500) != LARGE[at : at + 500]:
                wrong.append(at)

    threads = [threading.Thread(target=read, args=(part,)) for part in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# --- which value ------------------------------------------------------------------------------


def test_a_kind_tells_types_of_one_name_apart(graph: Graph) -> None:
    assert graph.blob("node", "Link", "e", "content").read() == b"node"
    assert graph.blob("edge", "Link", "e", "content").read() == b"edge"


@pytest.mark.parametrize(
    ("select", "error"),
    [
        (lambda graph: content(graph, "nobody"), BlobNotFound),
        (lambda graph: content(graph, "null"), BlobNotFound),
        (lambda graph: content(graph, "small", branch="nope"), BranchNotFound),
        (lambda graph: graph.blob("node", "File", "small", "rank"), InvalidArgument),
        (lambda graph: graph.blob("node", "File", "small", "id"), InvalidArgument),
        (lambda graph: graph.blob("node", "File", "small", "nope"), InvalidArgument),
        (lambda graph: graph.blob("node", "Fiel", "small", "content"), InvalidArgument),
        (lambda graph: graph.blob("edge", "File", "small", "content"), InvalidArgument),
        (lambda graph: graph.blob("node", "node:File", "small", "content"), InvalidArgument),
        (lambda graph: graph.blob("thing", "File", "small", "content"), InvalidArgument),
        (lambda graph: graph.blob("node", "File", 7, "content"), InvalidArgument),
        (lambda graph: content(graph, "small", branch="main", snapshot="x"), InvalidArgument),
    ],
)
def test_what_is_no_blob_of_the_graph_is_refused(
    graph: Graph, select: Callable[[Graph], BlobReader], error: type[Exception]
) -> None:
    with pytest.raises(error):
        select(graph)


def test_a_value_is_that_of_its_state(graph: Graph) -> None:
    before = graph.snapshot().graph_commit_id
    graph.branches.create("draft")
    graph.mutate(
        'query m() { update File set { content: "base64:bmV3" } where name = "small" }',
        branch="draft",
    )
    assert content(graph, "small").read() == b"0123456789"
    draft = content(graph, "small", branch="draft")
    assert draft.read() == b"new"
    assert draft.graph_commit_id == graph.snapshot(branch="draft").graph_commit_id
    assert content(graph, "small", snapshot=draft.graph_commit_id).read() == b"new"
    assert content(graph, "small", snapshot=before).read() == b"0123456789"


# --- tags -------------------------------------------------------------------------------------


def test_a_tag_stays_while_others_are_written(graph: Graph) -> None:
    tag = content(graph, "small").etag
    graph.mutate('query m() { update File set { rank: 1 } where name = "large" }')
    graph.mutate('query m() { insert File { name: "more" } }')
    assert content(graph, "small").etag == tag
    assert tag is not None
    assert (tag[0], tag[-1], len(tag)) == ('"', '"', 34)


def test_a_tag_stays_when_the_table_is_compacted(graph: Graph) -> None:
    graph.mutate('query m() { insert File { name: "more", content: "base64:bW9yZQ==" } }')
    snapshot, tables = graph.snapshot(), graph._graph.tables
    handle = snapshot.handle(snapshot.type("File"))
    from omnigraph.ids import OperationId
    from omnigraph.storage.blob_rows import blob_cell
    from omnigraph.storage.handles import WriteStamp

    stamp = WriteStamp(operation_id=OperationId("01J0000000000000000000GRAPH"), kind="optimize")
    staged = tables.stage_compaction(handle, stamp)
    assert staged.links
    after = handle
    for link in staged.links:
        after = tables.commit_staged(after, link)
    for name in ("small", "more"):
        before_cell, after_cell = (blob_cell(each, name, "content") for each in (handle, after))
        assert before_cell is not None
        assert after_cell is not None
        assert (before_cell.row_id, before_cell.changed_at) == (
            after_cell.row_id,
            after_cell.changed_at,
        )


def test_no_tag_stands_for_two_values(graph: Graph, tmp_path: Path) -> None:
    tags = [content(graph, name).etag for name in BLOBS]
    graph.branches.create("one")
    graph.branches.create("two")
    update = 'query m($c: Blob) { update File set { content: $c } where name = "small" }'
    for branch in ("one", "two", "main"):
        graph.mutate(update, params={"c": branch.encode()}, branch=branch)
        tags.append(content(graph, "small", branch=branch).etag)
    graph.mutate('query m() { update File set { other: "base64:b3RoZXI=" } where name = "small" }')
    tags += [graph.blob("node", "File", "small", name).etag for name in ("content", "other")]
    with Graph.init(tmp_path / "other", schema=SCHEMA, settings=quick()) as again:
        with again.write() as writer:
            writer.append("File", pa.table({"name": ["small"], "content": [b"another graph"]}))
            committed(writer.commit())
        tags.append(content(again, "small").etag)
    assert len(set(tags)) == len(tags)
    assert None not in tags


# --- files that are gone ----------------------------------------------------------------------


def test_a_value_whose_files_are_gone_is_reclaimed(graphs: Opened, graph: Graph) -> None:
    reader = content(graph, "large")
    gone = [
        path
        for path in graphs.root.rglob("*")
        if path.is_file() and path.stat().st_size > MAX_BLOB_READ_BYTES
    ]
    assert gone
    for path in gone:
        path.unlink()
    with pytest.raises(SnapshotReclaimed):
        reader.read(0, 10)
    with pytest.raises(SnapshotReclaimed):
        list(reader)


def test_an_entity_whose_files_are_gone_is_reclaimed(graphs: Opened, graph: Graph) -> None:
    reader = graphs.read_only()
    snapshot = reader.snapshot().graph_commit_id
    for path in graphs.root.glob("nodes/*/data/*.lance"):
        path.unlink()
    with pytest.raises(SnapshotReclaimed):
        content(reader, "small", snapshot=snapshot)
    assert graph.snapshot().graph_commit_id == snapshot
