"""The coroutines of a remote graph send what its methods send."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import (
    BranchExists,
    BranchNotFound,
    InvalidArgument,
    NotServed,
    PreconditionFailed,
)

if TYPE_CHECKING:
    from tests.serving import LiveServer

    from omnigraph import Graph

NAMES = "query names() { match { $p: Person } return { $p.name } order { $p.name } }"


async def ask(url: str) -> None:
    async with omnigraph.connect_async(url, graph="people") as graph:
        both = await asyncio.gather(graph.query(NAMES), graph.query(NAMES, snapshot=0))
        assert [len(result) for result in both] == [3, 0]
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
    await graph.close()
    with pytest.raises(InvalidArgument, match="closed"):
        await graph.query(NAMES)


def test_every_name_is_a_coroutine(server: LiveServer, embedded: Graph) -> None:
    asyncio.run(ask(server.url))
    assert [branch.name for branch in embedded.branches.list()] == ["main"]
