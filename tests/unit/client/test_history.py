"""Tags, plans, reverts, differences and feeds of a remote graph are those of an open one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.serving import serving

import omnigraph
from omnigraph import Graph
from omnigraph.errors import (
    CommitNotFound,
    InvalidArgument,
    InvalidBranchName,
    MergeConflicts,
    ReadSetChanged,
    TagExists,
    TagNotFound,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.serving import LiveServer

    from omnigraph.client import RemoteGraph

SCHEMA = "node Person { name: String @key  age: I64? }\nedge Knows: Person -> Person\n"
WIDER = SCHEMA.replace("age: I64?", "age: I64?  nick: String?")
PEOPLE = b"".join(
    b'{"type":"Person","data":{"name":"p%02d","age":%d}}\n' % (i, i) for i in range(9)
)
SET_AGE = "query set($n: String, $a: I64) { update Person set { age: $a } where name = $n }"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("history") / "people.omni"
    with Graph.init(path, schema=SCHEMA) as graph:
        graph.load(PEOPLE, mode="append")
        graph.branches.create("side")
        graph.mutate(SET_AGE, params={"n": "p00", "a": 50}, branch="side")
        graph.mutate(SET_AGE, params={"n": "p00", "a": 60})
        graph.load(b'{"edge":"Knows","from":"p00","to":"p01"}\n', mode="append", branch="side")
    return path


@pytest.fixture(scope="module")
def live(place: Path) -> Iterator[LiveServer]:
    with serving({"people": place}) as server:
        yield server


@pytest.fixture(scope="module")
def here(place: Path) -> Iterator[Graph]:
    with Graph.open(place) as graph:
        yield graph


@pytest.fixture(scope="module")
def there(live: LiveServer) -> Iterator[RemoteGraph]:
    with omnigraph.connect(live.url, graph="people") as graph:
        yield graph


def test_a_tag_is_made_listed_read_at_and_deleted(here: Graph, there: RemoteGraph) -> None:
    made = there.tags.create("releases/v1", 1)
    assert made == here.tags.get("releases/v1") == there.tags.get("releases/v1")
    assert there.tags.list() == here.tags.list() == [made]
    assert there.snapshot("releases/v1").graph_commit_id == made.graph_commit_id
    with pytest.raises(TagExists):
        there.tags.create("releases/v1")
    for name in ("12", " v2 "):
        with pytest.raises(InvalidBranchName):
            there.tags.create(name)
    there.tags.delete("releases/v1")
    for name in ("releases/v1", "", ".."):
        with pytest.raises(TagNotFound):
            there.tags.delete(name)


def test_a_tag_with_slashes_is_a_commit_wherever_one_is_meant(
    here: Graph, there: RemoteGraph
) -> None:
    for name in ("rel/2", "rel/2/changes", "rel/revert"):
        tag = there.tags.create(name, branch="side")
        assert there.commits.get(name).graph_commit_id == tag.graph_commit_id
        assert there.commits.changes(name) == here.commits.changes(name)
    there.branches.create("back", from_="side")
    undone = there.commits.revert("rel/2", branch="back")
    assert undone is not None
    assert undone.stats["revert"] == {"commit": tag.graph_commit_id}
    there.branches.delete("back")
    for name in ("rel/2", "rel/2/changes", "rel/revert"):
        there.tags.delete(name)
        with pytest.raises(CommitNotFound):
            there.commits.get(name)


def test_a_merge_is_planned_with_its_conflicts(here: Graph, there: RemoteGraph) -> None:
    plan, expected = (graph.branches.merge_plan("side") for graph in (there, here))
    assert plan.to_dict() == expected.to_dict()
    assert plan.conflict_count == 1
    assert plan.conflicts.equals(expected.conflicts)
    decided = there.branches.merge_plan("side", strategy="theirs")
    assert (decided.conflict_count, decided.tables) == (
        0,
        here.branches.merge_plan("side", strategy="theirs").tables,
    )


def test_a_difference_comes_in_pages_and_is_the_same(here: Graph, there: RemoteGraph) -> None:
    changes, expected = there.diff(0, "side"), here.diff(0, "side")
    assert changes.to_dict() == expected.to_dict()
    assert changes.changes == expected.changes
    nodes = {"kinds": iter(["node"]), "ops": ["insert"]}
    assert there.diff(0, "side", **nodes).stats == {"node:Person": {"insert": 9}}
    first = expected.page(limit=4)
    assert len(first.changes) == 4
    behind = here.diff(first.from_commit_id, first.to_commit_id).page(
        limit=9, page_token=first.next_page_token
    )
    assert (*first.changes, *behind.changes) == expected.changes
    assert behind.next_page_token is None


def test_a_feed_is_followed_commit_by_commit(here: Graph, there: RemoteGraph) -> None:
    blocks = list(there.changes.follow(branch="side", start="beginning"))
    assert blocks == list(here.changes.follow(branch="side", start="beginning"))
    assert len(blocks) == 4
    rest = list(there.changes.follow(branch="side", cursor=blocks[1].cursor))
    assert rest == blocks[2:]
    page = there.changes.poll(branch="side", start="beginning", limit=4)
    assert page.to_dict() == here.changes.poll(branch="side", start="beginning", limit=4).to_dict()


def test_a_commit_cut_in_pages_is_followed_whole() -> None:
    from omnigraph.client.followed_blocks import FollowedPages
    from omnigraph.graph.changes.change_pages import Cause, ChangeBlock, ChangePage
    from omnigraph.graph.changes.entity_change import EntityChange, Op
    from omnigraph.graph.validation import EntityKind

    cause = Cause(graph_commit_id="c", authored_branch="main", authored_at=1)
    one, two = (
        EntityChange(kind=EntityKind.NODE, type_id=1, type_name="T", id=name, op=Op.DELETE)
        for name in "ab"
    )
    pages = FollowedPages(None, "beginning")
    begun = ChangePage(blocks=(ChangeBlock(cause=cause, changes=(one,)),), next_page_token="t")  # noqa: S106 - of pages
    assert list(pages.blocks(begun)) == []
    assert pages.asking == {"page_token": "t"}
    ended = ChangeBlock(cause=cause, changes=(two,), cursor="k")
    page = ChangePage(blocks=(ended,), cursor="k", caught_up=False)
    assert [(each.changes, each.cursor) for each in pages.blocks(page)] == [((one, two), "k")]
    assert pages.asking == {"cursor": "k"}
    assert list(pages.blocks(ChangePage(blocks=(), cursor="k", caught_up=True))) == []
    assert pages.asking is None


def test_an_older_state_is_exported(here: Graph, there: RemoteGraph) -> None:
    assert b"".join(there.export(snapshot=1)) == b"".join(here.export(snapshot=1))
    with pytest.raises(InvalidArgument):
        there.export(snapshot=1, branch="main")


def test_a_commit_is_undone(here: Graph, there: RemoteGraph) -> None:
    there.branches.create("undone", from_="side")
    head = here.snapshot(branch="undone").graph_commit_id
    there.mutate(SET_AGE, params={"n": "p05", "a": 500}, branch="undone")
    changed = here.snapshot(branch="undone").graph_commit_id
    made = there.commits.revert(changed, branch="undone", if_commit=changed)
    assert made is not None
    assert made.stats["revert"] == {"commit": changed}
    assert list(here.diff(head, "undone")) == []
    assert there.commits.revert(made.graph_commit_id, branch="undone") is not None
    there.mutate(SET_AGE, params={"n": "p05", "a": 501}, branch="undone")
    with pytest.raises(MergeConflicts):
        there.commits.revert(changed, branch="undone")
    there.branches.delete("undone")


def test_a_schema_is_planned_shown_as_it_was_and_applied_as_planned(tmp_path: Path) -> None:
    path = tmp_path / "people.omni"
    with (
        Graph.init(path, schema=SCHEMA) as here,
        serving({"people": path}) as server,
        omnigraph.connect(server.url, graph="people") as there,
    ):
        plan, expected = (graph.schema.plan(WIDER) for graph in (there, here))
        assert plan == expected
        assert there.schema.apply(plan).applied
        with pytest.raises(ReadSetChanged):
            there.schema.apply(plan)
        assert there.schema.show(at=0) == here.schema.show(at=0) == SCHEMA
        assert there.schema.show() == WIDER


async def ask(url: str, here: Graph) -> None:
    async with omnigraph.connect_async(url, graph="people") as there:
        made = await there.tags.create("asked", branch="side")
        assert [made] == await there.tags.list()
        await there.tags.delete("asked")
        assert (await there.branches.merge_plan("side")).conflict_count == 1
        changes = await there.diff("main", "side")
        assert [change async for change in changes] == list(here.diff("main", "side"))
        assert await changes.stats() == here.diff("main", "side").stats
        followed = [block async for block in there.changes.follow(start="beginning")]
        assert followed == list(here.changes.follow(start="beginning"))
        assert (await there.schema.plan(WIDER)).supported
        assert await there.schema.show(at=0) == SCHEMA
        lines = [chunk async for chunk in there.export(snapshot=0)]
        assert b"".join(lines) == b""
        head = here.snapshot(branch="side").graph_commit_id
        assert await there.commits.revert(head, branch="side") is not None


def test_what_is_no_schema_is_refused(there: RemoteGraph) -> None:
    for call in (there.schema.plan, there.schema.apply):
        with pytest.raises(InvalidArgument, match="the Path of a file"):
            call(5)  # type: ignore[arg-type]


def test_the_coroutines_have_the_same_names(live: LiveServer, here: Graph) -> None:
    asyncio.run(ask(live.url, here))
