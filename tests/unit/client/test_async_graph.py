"""The coroutines of a remote graph send what its methods send."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import (
    BlobNotFound,
    BranchExists,
    BranchNotFound,
    InvalidArgument,
    NotServed,
    PreconditionFailed,
)
from omnigraph.graph import graph_like

if TYPE_CHECKING:
    from tests.serving import LiveServer

    from omnigraph import Graph

NAMES = "query names() { match { $p: Person } return { $p.name } order { $p.name } }"


async def ask(url: str) -> None:
    async with omnigraph.connect_async(url, graph="people") as graph:
        both = await asyncio.gather(graph.query(NAMES), graph.query(NAMES, snapshot=0))
        assert [len(result) for result in both] == [3, 0]
        assert len(await graph.prepare(NAMES)(snapshot=0)) == 0
        await graph.branches.create("side")
        with pytest.raises(BranchExists):
            await graph.branches.create("side")
        line = b'{"type":"Person","data":{"name":"Zoe"}}\n'
        report = await graph.load(line, mode="append", branch="side")
        assert report.commit is not None
        with pytest.raises(NotServed):
            await graph.load(line, mode="append", branch="side", dry_run=True)
        with pytest.raises(PreconditionFailed):
            await graph.mutate(
                'query m() { insert Person { name: "X" } }', branch="side", if_commit="0" * 26
            )
        receipt = await graph.mutate(
            'query m() { insert Person { name: "Yan" } }',
            branch="side",
            if_commit=report.commit.graph_commit_id,
        )
        assert receipt.affected_nodes == 1
        assert len(await graph.query(NAMES, branch="side")) == 5
        lines = [chunk async for chunk in graph.export(branch="side", types=["Person"])]
        assert b"".join(lines).count(b"\n") == 5
        with pytest.raises(BranchNotFound):
            _ = [chunk async for chunk in graph.export(branch="nowhere")]
        page = await graph.commits.list(branch="side", limit=1)
        assert page.commits[0].graph_commit_id == receipt.commit.graph_commit_id  # type: ignore[union-attr]  # it wrote
        assert [branch.name for branch in await graph.branches.list()] == ["main", "side"]
        rows = {"Knows": pa.table({"src": ["Zoe"], "dst": ["Yan"], "since": [1]})}
        report = await graph.load(rows, mode="append", branch="side")
        assert [(table.table, table.added) for table in report.tables] == [("edge:Knows", 1)]
        await graph.branches.delete("side")
        assert (await graph.branches.get("main")).name == "main"
        with pytest.raises(BranchNotFound):
            await graph.branches.get("side")
        blob = await graph.blob("node", "Person", "Eve", "photo")
        assert (blob.length, await blob.read(1), await blob.read(1, 1)) == (3, b"\x01\x02", b"")
        assert [piece async for piece in blob] == [b"\x00\x01\x02"]
        with pytest.raises(BlobNotFound):
            await graph.blob("node", "Person", "Ada", "photo")
        history = [commit async for commit in graph.commits]
        page = await graph.commits.list(all=True, limit=5_000)
        assert [*page] == history
        assert len(history) == 2
        stream = graph.changes.baseline(types=["Person"])
        assert b"".join([chunk async for chunk in stream]).count(b"\n") == 4
        assert stream.baseline.snapshot_commit_id == history[0].graph_commit_id
        assert "Person" in (await graph.schema.catalog()).node_types
        with pytest.raises(NotServed):
            graph.as_actor("bob")
    await graph.close()
    with pytest.raises(InvalidArgument, match="closed"):
        await graph.query(NAMES)


def test_every_name_is_a_coroutine(server: LiveServer, embedded: Graph) -> None:
    asyncio.run(ask(server.url))
    assert [branch.name for branch in embedded.branches.list()] == ["main"]


PARTS = {
    "branches": graph_like.BranchesLike,
    "tags": graph_like.TagsLike,
    "commits": graph_like.CommitsLike,
    "changes": graph_like.ChangesLike,
    "schema": graph_like.SchemaLike,
    "queries": graph_like.QueriesLike,
}


def test_no_name_of_an_open_graph_is_missing() -> None:
    graph = omnigraph.connect_async("http://127.0.0.1:1", graph="people", token="x")  # noqa: S106 - of no server
    for name in _names(graph_like.GraphLike) - {"maintenance"}:
        assert getattr(graph, name) is not None
    for part, protocol in PARTS.items():
        for name in _names(protocol):
            assert hasattr(getattr(graph, part), name), f"{part}.{name}"


def _names(protocol: type) -> set[str]:
    said = {*vars(protocol), *protocol.__annotations__}
    return {name for name in said if not name.startswith("_")}
