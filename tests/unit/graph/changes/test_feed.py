"""The change feed: each commit once and whole, cursors between commits, tokens that lead nowhere
else, and baselines from which it goes on.
"""

from __future__ import annotations

import base64
import json
import string
from typing import TYPE_CHECKING, Any

import pytest
from tests.extended import thinned
from tests.unit.engine.graphs import compact
from tests.unit.graph.graphs import Opened, committed, delete, rows, upsert

from omnigraph.errors import (
    BranchNotFound,
    ChangeCursorRejected,
    ChangeFeedGap,
    ChangeSchemaBoundary,
    InvalidArgument,
    ResourceLimit,
)
from omnigraph.graph.changes import commit_changes as commit_changes_module
from omnigraph.graph.changes import feed as feed_module
from omnigraph.graph.changes import tokens as tokens_module
from omnigraph.graph.changes.tokens import MAX_TOKEN_CHARACTERS
from omnigraph.limits import MAX_CHANGES_PER_PAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph import Graph
    from omnigraph.graph.changes.change_pages import ChangePage
    from omnigraph.graph.changes.entity_change import EntityChange
    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.graph.history.snapshot import Snapshot

SCHEMA = """
node Person { name: String @key  age: I32? @index }
node Doc { title: String @key }
edge Knows: Person -> Person { since: I32? }
"""
Told = list[tuple[str, list[str]]]
"""Commits, and what is told of each."""


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    graphs = Opened(tmp_path_factory.mktemp("feeds"))
    yield graphs
    graphs.close()


@pytest.fixture(scope="module")
def graph(opened: Opened) -> Graph:
    """A history with every kind of commit, empty ones among them."""
    graph = opened.init(SCHEMA, actor="act-ada")
    with graph.write() as writer:
        writer.append("Person", rows(*({"name": name, "age": 1} for name in "abc")))
        writer.append("Knows", rows({"id": "e", "src": "a", "dst": "b"}))
        writer.commit()
    assert graph.maintenance.ensure_indices().commit is not None
    upsert(graph, "a", age=1)
    graph.branches.create("rev")
    upsert(graph, "x", branch="rev")
    upsert(graph, "y", branch="rev")
    with graph.write() as writer:
        writer.upsert("Person", rows({"name": "a", "age": 2}, {"name": "d", "age": 2}))
        writer.delete("Person", ["c"])
        writer.append("Doc", rows({"title": "t"}))
        writer.delete("Knows", ["e"])
        writer.commit()
    assert graph.branches.merge("rev").outcome == "merged"
    compact(graph, "Person")
    return graph


WHOLE = [
    [],
    ["+a", "+b", "+c", "+e"],
    [],
    [],
    ["~a", "-c", "+d", "+t", "-e"],
    ["+x", "+y"],
    [],
]


def commits(graph: Graph, branch: str = "main") -> list[str]:
    """The first-parent history, oldest first."""
    found: list[str] = []
    at: str | None = graph.snapshot(branch=branch).graph_commit_id
    while at is not None:
        found.append(at)
        at = graph.commits.get(at).parent_commit_id
    return found[::-1]


def signs(changes: tuple[EntityChange, ...]) -> list[str]:
    marks = {"insert": "+", "update": "~", "delete": "-"}
    return [marks[each.op] + each.id for each in changes]


def told(page: ChangePage) -> Told:
    return [(block.cause.graph_commit_id, signs(block.changes)) for block in page]


def pages(graph: Graph, limit: int | None = None, **begin: Any) -> list[ChangePage]:  # noqa: ANN401
    """Every page of a poll."""
    size: dict[str, Any] = {} if limit is None else {"limit": limit}
    filters = {name: begin[name] for name in ("branch", "kinds", "types", "ops") if name in begin}
    found = [graph.changes.poll(**size, **begin)]
    while found[-1].next_page_token is not None:
        token = found[-1].next_page_token
        assert len(token) <= MAX_TOKEN_CHARACTERS
        assert (found[-1].cursor, found[-1].caught_up) == (None, None)
        found.append(graph.changes.poll(page_token=token, **size, **filters))
    assert found[-1].cursor is not None
    assert found[-1].caught_up is not None
    return found


def joined(found: list[ChangePage]) -> Told:
    """Blocks of all pages; one that was cut is put together."""
    blocks: Told = []
    for commit, changes in (block for page in found for block in told(page)):
        if blocks and blocks[-1][0] == commit:
            blocks[-1][1].extend(changes)
        else:
            blocks.append((commit, changes))
    return blocks


def cursor_of(graph: Graph, **begin: Any) -> str:  # noqa: ANN401
    cursor = pages(graph, **begin)[-1].cursor
    assert cursor is not None
    return cursor


# --- where a poll begins ----------------------------------------------------------------------


def test_from_the_beginning_each_commit_is_told_once_empty_ones_too(graph: Graph) -> None:
    (page,) = pages(graph, start="beginning")
    assert told(page) == list(zip(commits(graph), WHOLE, strict=True))
    assert (page.next_page_token, page.caught_up) == (None, True)


@pytest.mark.parametrize("begin", [{}, {"start": "now"}, {"start": None}])
def test_without_a_place_or_from_now_nothing_is_replayed(
    graph: Graph, begin: dict[str, Any]
) -> None:
    page = graph.changes.poll(**begin)
    assert (page.blocks, page.next_page_token, page.caught_up) == ((), None, True)
    assert page.cursor == cursor_of(graph, start="beginning")


def test_a_poll_behind_a_commit_tells_those_after_it(graph: Graph) -> None:
    whole = list(zip(commits(graph), WHOLE, strict=True))
    for at, (commit, _) in enumerate(whole):
        assert joined(pages(graph, start=f"after:{commit}")) == whole[at + 1 :]


def test_a_cursor_goes_on_where_the_last_poll_ended(graphs: Opened) -> None:
    graph = graphs.init()
    cursor = cursor_of(graph)
    added = upsert(graph, "a").graph_commit_id
    page = graph.changes.poll(cursor=cursor)
    assert told(page) == [(added, ["+a"])]
    assert told(graph.changes.poll(cursor=cursor)) == told(page), "a cursor may be used again"
    removed = delete(graph, "a").graph_commit_id
    page = graphs.read_only().changes.poll(cursor=page.cursor)
    assert told(page) == [(removed, ["-a"])]
    assert graph.changes.poll(cursor=page.cursor).blocks == ()


@pytest.mark.parametrize(
    "start", ["", "Now", "then", "after:", "after:nobody", "after:main", "NOW", 7, b"now"], ids=repr
)
def test_a_start_that_is_none_is_refused(graph: Graph, start: Any) -> None:  # noqa: ANN401
    with pytest.raises(InvalidArgument, match="'now', 'beginning' or 'after:'") as caught:
        graph.changes.poll(start=start)
    assert caught.value.details["argument"] == "start"
    with pytest.raises(InvalidArgument):
        next(graph.changes.follow(start=start))


def test_a_start_without_its_word_is_refused(graph: Graph) -> None:
    with pytest.raises(InvalidArgument, match="start is"):
        graph.changes.poll(start=commits(graph)[0])


def test_a_start_behind_a_commit_of_another_branch_is_refused(graph: Graph) -> None:
    for commit in commits(graph, "rev")[-2:]:
        with pytest.raises(InvalidArgument, match="branch 'main'"):
            # Merged into this branch, but not one of its own.
            graph.changes.poll(start=f"after:{commit}")
    with pytest.raises(InvalidArgument, match="branch 'rev'"):
        graph.changes.poll(branch="rev", start=f"after:{commits(graph)[-1]}")


def test_a_branch_is_told_with_what_it_inherited(graph: Graph) -> None:
    (page,) = pages(graph, branch="rev", start="beginning")
    expected = [*WHOLE[:4], ["+x"], ["+y"]]
    assert told(page) == list(zip(commits(graph, "rev"), expected, strict=True))
    branches = [block.cause.authored_branch for block in page]
    assert branches == ["main"] * 4 + ["rev"] * 2
    fork = commits(graph, "rev")[3]
    (own,) = pages(graph, branch="rev", start=f"after:{fork}")
    assert told(own) == told(page)[4:]


def test_a_branch_that_is_not_there_is_not_found(graph: Graph) -> None:
    for name in ("nobody", ""):
        with pytest.raises(BranchNotFound):
            graph.changes.poll(branch=name)


# --- blocks -----------------------------------------------------------------------------------


def test_a_block_has_its_commit_as_cause(graph: Graph) -> None:
    (page,) = pages(graph, start="beginning")
    first, *_, merge, _ = page.blocks
    assert (first.cause.parent_commit_id, first.cause.actor_id) == (None, "act-ada")
    body = merge.to_dict()
    assert list(body) == ["cause", "changes"]
    commit = graph.commits.get(commits(graph)[-2])
    assert commit.kind == "merge"
    assert body["cause"] == {
        "graph_commit_id": commit.graph_commit_id,
        "authored_branch": "main",
        "authored_at": commit.created_at,
        "parent_commit_id": commits(graph)[-3],
        "merged_parent_commit_id": commits(graph, "rev")[-1],
        "actor_id": "act-ada",
    }
    assert body["changes"] == [
        each.to_dict() for each in graph.commits.changes(commit.graph_commit_id)
    ]


def test_the_json_form_leaves_out_what_is_not_there(graph: Graph) -> None:
    cut, *_, last = pages(graph, 1, start="beginning")
    assert list(cut.to_dict()) == ["blocks", "next_page_token"]
    assert list(last.to_dict()) == ["blocks", "cursor", "caught_up"]
    assert last.to_dict()["caught_up"] is True


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        (
            {"kinds": ["edge"]},
            [[], ["+e"], [], [], ["-e"], [], []],
        ),
        (
            {"types": ["Person"], "ops": ["insert"]},
            [[], ["+a", "+b", "+c"], [], [], ["+d"], ["+x", "+y"], []],
        ),
        ({"types": ["node:Doc"]}, [[], [], [], [], ["+t"], [], []]),
    ],
)
def test_filters_choose_changes_and_leave_every_block(
    graph: Graph, wishes: dict[str, Any], expected: list[list[str]]
) -> None:
    whole = list(zip(commits(graph), expected, strict=True))
    for limit in (None, 1):
        assert joined(pages(graph, limit, start="beginning", **wishes)) == whole


@pytest.mark.parametrize(
    ("wishes", "argument"),
    [
        ({"types": ["Cat"]}, "types"),
        ({"kinds": ["nodes"]}, "kinds"),
        ({"ops": "insert"}, "ops"),
    ],
)
def test_a_filter_that_means_nothing_is_refused(
    graph: Graph, wishes: dict[str, Any], argument: str
) -> None:
    for ask in (graph.changes.poll, graph.changes.follow, graph.changes.baseline):
        with pytest.raises(InvalidArgument) as caught:
            ask(**wishes)
        assert caught.value.details["argument"] == argument


# --- pages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", thinned([1, 4, MAX_CHANGES_PER_PAGE, 2, 3, 5, 9, 10, 11], keep=3))
def test_pages_of_every_size_joined_are_the_whole(graph: Graph, limit: int) -> None:
    found = pages(graph, limit, start="beginning")
    assert joined(found) == list(zip(commits(graph), WHOLE, strict=True))
    sizes = [sum(len(block.changes) for block in page) for page in found]
    assert max(sizes) <= limit
    assert all(size == limit for size in sizes[:-1])
    assert found[-1].cursor == cursor_of(graph, start="beginning")


def test_a_full_page_before_empty_commits_is_not_the_last(graph: Graph) -> None:
    inserts = commits(graph)[1]
    page = graph.changes.poll(start=f"after:{commits(graph)[0]}", limit=4)
    assert (told(page), page.cursor) == ([(inserts, ["+a", "+b", "+c", "+e"])], None)


def test_commits_that_land_between_two_pages_wait_for_the_next_poll(graphs: Opened) -> None:
    graph = graphs.init()
    cursor = cursor_of(graph)
    first = upsert(graph, "a", "b", "c").graph_commit_id
    page = graph.changes.poll(cursor=cursor, limit=2)
    late = delete(graph, "b").graph_commit_id
    rest = graph.changes.poll(page_token=page.next_page_token)
    assert told(page) + told(rest) == [(first, ["+a", "+b"]), (first, ["+c"])]
    assert rest.caught_up is False
    following = graph.changes.poll(cursor=rest.cursor)
    assert (told(following), following.caught_up) == ([(late, ["-b"])], True)


@pytest.mark.parametrize("most", thinned([2, 7, 1, 3, 6, 8], keep=2))
def test_a_poll_walks_a_limited_number_of_commits(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(feed_module, "MOST_COMMITS_PER_POLL", most)
    whole = list(zip(commits(graph), WHOLE, strict=True))
    found: Told = []
    begin: dict[str, Any] = {"start": "beginning"}
    while True:
        poll = pages(graph, 2, **begin)
        assert len(joined(poll)) <= most
        found += joined(poll)
        assert poll[-1].caught_up is (found[-1][0] == whole[-1][0])
        if poll[-1].caught_up:
            break
        begin = {"cursor": poll[-1].cursor}
    assert found == whole


def test_the_number_of_commits_of_a_poll_is_that_of_the_contract() -> None:
    assert feed_module.MOST_COMMITS_PER_POLL == 128


def test_a_page_ends_at_its_bytes_and_a_larger_change_comes_alone(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_changes_module, "_PAGE_BYTES", 1)
    found = pages(graph, start="beginning")
    assert joined(found) == list(zip(commits(graph), WHOLE, strict=True))
    sizes = [sum(len(block.changes) for block in page) for page in found]
    assert [size for size in sizes if size] == [1] * sum(map(len, WHOLE))


def test_a_large_change_among_small_ones_begins_a_page(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = graphs.init()
    cursor = cursor_of(graph)
    small, large = upsert(graph, "a"), upsert(graph, "b" * 3_000, "c")
    monkeypatch.setattr(commit_changes_module, "_PAGE_BYTES", 1_000)
    found = pages(graph, cursor=cursor)
    assert [told(page) for page in found] == [
        [(small.graph_commit_id, ["+a"])],
        [(large.graph_commit_id, ["+" + "b" * 3_000])],
        [(large.graph_commit_id, ["+c"])],
    ]


@pytest.mark.parametrize("limit", [0, -1, True, 1.0, "1", None])
def test_a_limit_that_is_no_number_from_one_on_is_refused(graph: Graph, limit: Any) -> None:  # noqa: ANN401
    with pytest.raises(InvalidArgument, match="limit") as caught:
        graph.changes.poll(limit=limit)
    assert caught.value.details["argument"] == "limit"


def test_a_limit_above_the_largest_page_is_refused(graph: Graph) -> None:
    with pytest.raises(ResourceLimit, match=r"8,192 changes, not 8,193"):
        graph.changes.poll(limit=8_193)


@pytest.mark.parametrize(
    "given",
    [
        {"cursor": "x", "start": "now"},
        {"cursor": "x", "page_token": "x"},
        {"start": "now", "page_token": "x"},
        {"cursor": "x", "start": "now", "page_token": "x"},
    ],
)
def test_two_places_to_begin_at_are_refused(graph: Graph, given: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument, match="give one of cursor, start and page_token"):
        graph.changes.poll(**given)  # type: ignore[arg-type]  # names of places


# --- tokens -----------------------------------------------------------------------------------


def refusal(graph: Graph, **given: Any) -> str:  # noqa: ANN401
    with pytest.raises(ChangeCursorRejected) as caught:
        graph.changes.poll(**given)
    assert caught.value.message.startswith("change cursor rejected: ")
    return caught.value.message


def token_of(graph: Graph, **wishes: Any) -> str:  # noqa: ANN401
    token = graph.changes.poll(start="beginning", limit=1, **wishes).next_page_token
    assert token is not None
    return token


@pytest.mark.parametrize("text", ["", "x", "AAAA", "ä", "A" * 4_096, "A" * 4_097, 7], ids=repr)
def test_what_is_no_token_is_rejected(graph: Graph, text: Any) -> None:  # noqa: ANN401
    refusal(graph, cursor=text)
    refusal(graph, page_token=text)
    with pytest.raises(ChangeCursorRejected):
        next(graph.changes.follow(cursor=text))


def test_a_page_token_is_no_cursor_and_a_cursor_no_page_token(graph: Graph) -> None:
    assert "it is a feed-page" in refusal(graph, cursor=token_of(graph))
    assert "it is a cursor" in refusal(graph, page_token=cursor_of(graph))
    commit = commits(graph)[1]
    other = graph.commits.changes(commit, limit=1).next_page_token
    assert "it is a commit-page" in refusal(graph, page_token=other)
    assert "it is a commit-page" in refusal(graph, cursor=other)


def test_an_edited_token_is_rejected(graph: Graph) -> None:
    for name, text in (("cursor", cursor_of(graph)), ("page_token", token_of(graph))):
        for at in (0, len(text) // 2, len(text) - 2):
            other = "A" if text[at] != "A" else "B"
            edited = text[:at] + other + text[at + 1 :]
            assert "damaged" in refusal(graph, **{name: edited})
        refusal(graph, **{name: text[:-4]})


@pytest.mark.parametrize("end", ["=", "==", "===="])
def test_a_token_with_signs_that_fill_it_up_is_rejected(graph: Graph, end: str) -> None:
    refusal(graph, cursor=cursor_of(graph) + end)
    refusal(graph, page_token=token_of(graph) + end)


def test_a_token_has_one_spelling(graph: Graph) -> None:
    """Bits behind its last byte mean nothing to a lax reader."""
    meant = [text for text in made_tokens(graph) if len(text) % 4]
    assert meant
    for text in meant:
        spelled = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        signs = string.ascii_letters + string.digits + "-_"
        others = [text[:-1] + each for each in signs if each != text[-1]]
        same = [
            each
            for each in others
            if base64.urlsafe_b64decode(each + "=" * (-len(each) % 4)) == spelled
        ]
        assert same
        assert all("damaged" in refusal(graph, cursor=each) for each in same)


def made_tokens(graph: Graph) -> list[str]:
    """Cursors of every length."""
    wishes: list[dict[str, Any]] = [{}, {"ops": ["insert"]}, {"types": ["Person"]}]
    return [cursor_of(graph, **each) for each in wishes] + [cursor_of(graph, branch="rev")]


@pytest.mark.parametrize(
    "changed",
    [
        "[]",
        "{",
        {"kind": "other"},
        {"commit_id": 7},
        {"branch_id": None},
        {"filter_digest": []},
        {"place": {"is_edge": 1}},
        {"commit_id": "nothing"},
        {"cut": "nothing"},
    ],
    ids=str,
)
def test_a_token_that_somebody_made_up_is_rejected(graph: Graph, changed: Any) -> None:  # noqa: ANN401
    """Its digest is no secret."""
    raw = base64.urlsafe_b64decode(token_of(graph) + "==")[16:]
    content = changed if isinstance(changed, str) else json.dumps(json.loads(raw) | changed)
    digest = tokens_module._digest(graph._graph.graph_id, content.encode())
    refusal(graph, page_token=tokens_module._as_text(digest + content.encode()))


def test_a_token_of_another_graph_is_rejected(graph: Graph, graphs: Opened) -> None:
    other = graphs.init()
    assert "another graph" in refusal(other, cursor=cursor_of(graph))
    assert "another graph" in refusal(other, page_token=token_of(graph))


@pytest.mark.parametrize(
    "wishes",
    [{}, {"kinds": ["edge"]}, {"kinds": ["node"], "ops": ["insert"]}, {"types": ["Person", "Doc"]}],
)
def test_a_token_of_another_filter_is_rejected(graph: Graph, wishes: dict[str, Any]) -> None:
    made = {"kinds": ["node"]}
    assert "other filters" in refusal(graph, cursor=cursor_of(graph, **made), **wishes)
    assert "other filters" in refusal(graph, page_token=token_of(graph, **made), **wishes)


def test_a_token_of_another_branch_is_rejected(graph: Graph) -> None:
    assert "another branch" in refusal(graph, cursor=cursor_of(graph), branch="rev")
    assert "another branch" in refusal(graph, page_token=token_of(graph), branch="rev")
    assert "another branch" in refusal(graph, cursor=cursor_of(graph, branch="rev"))


def test_a_token_of_a_deleted_branch_of_this_name_is_rejected(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a", "b")
    graph.branches.create("rev")
    cursor, token = cursor_of(graph, branch="rev"), token_of(graph, branch="rev")
    graph.branches.delete("rev")
    with pytest.raises(BranchNotFound):
        graph.changes.poll(branch="rev", cursor=cursor)
    graph.branches.create("rev")
    assert "another branch than 'rev' is now" in refusal(graph, branch="rev", cursor=cursor)
    assert "another branch than 'rev' is now" in refusal(graph, branch="rev", page_token=token)


# --- what is gone -----------------------------------------------------------------------------


def remove_version(graphs: Opened, snapshot: Snapshot) -> None:
    """The version of persons that a snapshot shows, as cleanup removes it."""
    (table,) = [each for each in snapshot.tables if each.table_key == "node:Person"]
    gone = (1 << 64) - 1 - table.published_dataset_version
    (graphs.root / table.dataset_path / "_versions" / f"{gone:020d}.manifest").unlink()


def doc(graph: Graph, title: str) -> Commit:
    with graph.write() as writer:
        writer.append("Doc", rows({"title": title}))
        return committed(writer.commit())


def test_what_cleanup_removed_is_a_gap_and_what_comes_before_is_told_first(graphs: Opened) -> None:
    graph = graphs.init()
    readable = [doc(graph, "t").graph_commit_id, upsert(graph, "a").graph_commit_id]
    first_gone = upsert(graph, "b").graph_commit_id
    second_gone = upsert(graph, "c").graph_commit_id
    last = upsert(graph, "d").graph_commit_id
    remove_version(graphs, graph.snapshot(first_gone))
    reader = graphs.read_only()

    page = reader.changes.poll(start="beginning")
    assert [commit for commit, _ in told(page)][1:] == readable
    assert page.cursor is None
    with pytest.raises(ChangeFeedGap, match="take a baseline") as caught:
        reader.changes.poll(page_token=page.next_page_token)
    details = caught.value.details
    assert details["first_unreadable_commit_id"] == first_gone
    assert set(details) == {"cursor", "first_unreadable_commit_id"}

    # The cursor stands right before the gap.
    with pytest.raises(ChangeFeedGap) as again:
        reader.changes.poll(cursor=str(details["cursor"]))
    assert again.value.details == details
    with pytest.raises(ChangeFeedGap) as next_one:
        reader.changes.poll(start=f"after:{first_gone}")
    assert next_one.value.details["first_unreadable_commit_id"] == second_gone
    assert joined(pages(reader, start=f"after:{second_gone}")) == [(last, ["+d"])]

    followed = reader.changes.follow(start="beginning")
    assert [next(followed).cause.graph_commit_id for _ in range(3)][1:] == readable
    with pytest.raises(ChangeFeedGap) as caught:
        next(followed)
    assert caught.value.details == details


def test_a_filter_that_needs_nothing_of_what_is_gone_is_told(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    gone = upsert(graph, "b").graph_commit_id
    kept = doc(graph, "t").graph_commit_id
    upsert(graph, "c")
    remove_version(graphs, graph.snapshot(gone))
    found = joined(pages(graphs.read_only(), start="beginning", types=["Doc"]))
    assert [each for each in found if each[1]] == [(kept, ["+t"])]


def test_a_gap_is_left_by_a_baseline(graphs: Opened) -> None:
    graph = graphs.init()
    cursor = cursor_of(graph)
    gone = upsert(graph, "a").graph_commit_id
    upsert(graph, "b")
    remove_version(graphs, graph.snapshot(gone))
    reader = graphs.read_only()
    with pytest.raises(ChangeFeedGap) as caught:
        reader.changes.poll(cursor=cursor)
    assert caught.value.details == {"cursor": cursor, "first_unreadable_commit_id": gone}
    stream = reader.changes.baseline()
    assert [each["data"]["id"] for each in entities(b"".join(stream))] == ["a", "b"]
    assert reader.changes.poll(cursor=stream.baseline.resume_cursor).blocks == ()


def test_what_comes_before_a_schema_boundary_is_told_first(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    beyond = commits(graph)[4]
    real = feed_module.ChangeFeed._changes

    def bounded(self: Any, row: Any, *rest: Any) -> Any:  # noqa: ANN401 - passed on
        if row.commit_id == beyond:
            raise ChangeSchemaBoundary("other properties")
        return real(self, row, *rest)

    monkeypatch.setattr(feed_module.ChangeFeed, "_changes", bounded)
    page = graph.changes.poll(start="beginning")
    assert told(page) == list(zip(commits(graph)[:4], WHOLE[:4], strict=True))
    with pytest.raises(ChangeSchemaBoundary):
        graph.changes.poll(page_token=page.next_page_token)


def added(graph: Graph, type_name: str, name: str) -> str:
    with graph.write() as writer:
        writer.append(type_name, rows({"name": name}))
        return committed(writer.commit()).graph_commit_id


def test_a_feed_over_schema_changes_knows_types_by_what_they_are(graphs: Opened) -> None:
    graph = graphs.init("node A { name: String @key }")
    added(graph, "A", "a")
    graph.schema.apply("node A { name: String @key } node New { name: String @key }")
    added(graph, "New", "n")
    schema = 'node B @rename_from("A") { name: String @key } node New { name: String @key }'
    graph.schema.apply(schema)
    last = added(graph, "B", "b")

    def fed(*types: str) -> list[str]:
        blocks = joined(pages(graph, start="beginning", types=types))
        return [change for _, changes in blocks for change in changes]

    assert fed("New") == ["+n"]
    assert fed("B") == ["+a", "+b"]
    assert [change.id for change in graph.diff(1, "main", types=["A"])] == ["b"]

    cursor = cursor_of(graph)
    crossed = committed(graph.schema.apply(f"{schema} node C {{}}").commit)
    assert told(graph.changes.poll(cursor=cursor)) == [(crossed.graph_commit_id, [])]
    crossed = committed(graph.schema.apply(schema.replace("@key }", "@key  x: I32? }", 1)).commit)
    assert fed("New") == ["+n"]
    with pytest.raises(ChangeSchemaBoundary, match="take a baseline") as caught:
        list(graph.changes.follow(start=f"after:{last}"))
    assert caught.value.details["graph_commit_id"] == crossed.graph_commit_id
    assert caught.value.details["type_name"] == "B"
    with pytest.raises(ChangeSchemaBoundary):
        graph.changes.poll(cursor=str(caught.value.details["cursor"]))
    stream = graph.changes.baseline()
    assert [each["data"]["id"] for each in entities(b"".join(stream))] == ["a", "b", "n"]
    assert graph.changes.poll(cursor=stream.baseline.resume_cursor).blocks == ()


# --- baselines --------------------------------------------------------------------------------


def entities(data: bytes) -> list[dict[str, Any]]:
    """The records of a stream, all but the last one, which must be that of the baseline."""
    records = [json.loads(line) for line in data.decode().splitlines()]
    assert [at for at, each in enumerate(records) if "baseline" in each] == [len(records) - 1]
    return records[:-1]


def test_a_baseline_is_the_export_and_one_last_record(graph: Graph) -> None:
    stream = graph.changes.baseline()
    data = b"".join(stream)
    whole = b"".join(graph.export())
    assert whole
    assert data.startswith(whole)
    assert json.loads(data[len(whole) :]) == {
        "baseline": {
            "snapshot_commit_id": commits(graph)[-1],
            "resume_cursor": stream.baseline.resume_cursor,
        }
    }
    assert stream.baseline.resume_cursor == cursor_of(graph)
    assert b"".join(stream) == data, "a second look shows the same"


def test_a_baseline_shows_one_commit_and_its_cursor_loses_nothing(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a", "b")
    stream = graph.changes.baseline()
    during = delete(graph, "a").graph_commit_id
    chunks = iter(stream)
    shown = next(chunks)
    after = upsert(graph, "c").graph_commit_id
    found = entities(b"".join([shown, *chunks]))
    assert [each["data"]["id"] for each in found] == ["a", "b"]
    page = graph.changes.poll(cursor=stream.baseline.resume_cursor)
    assert told(page) == [(during, ["-a"]), (after, ["+c"])]


def test_a_baseline_of_an_empty_graph_is_its_record(graphs: Opened) -> None:
    graph = graphs.init()
    assert entities(b"".join(graph.changes.baseline())) == []


@pytest.mark.parametrize(
    ("wishes", "kept"),
    [
        ({"types": ["Doc"]}, ["t"]),
        ({"kinds": ["edge"]}, []),
        ({"kinds": ["node"], "types": ["Person", "Knows"]}, ["a", "b", "d", "x", "y"]),
        ({"kinds": ["edge"], "types": ["Doc"]}, []),
        ({"ops": ["delete"], "types": ["Doc"]}, ["t"]),
    ],
)
def test_a_baseline_has_the_types_of_its_filter_and_so_has_its_cursor(
    graph: Graph, wishes: dict[str, Any], kept: list[str]
) -> None:
    stream = graph.changes.baseline(**wishes)
    assert [each["data"]["id"] for each in entities(b"".join(stream))] == kept
    cursor = stream.baseline.resume_cursor
    assert graph.changes.poll(cursor=cursor, **wishes).blocks == ()
    assert "other filters" in refusal(graph, cursor=cursor)


def test_a_baseline_of_a_branch_goes_on_there(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    graph.branches.create("rev")
    upsert(graph, "b")
    stream = graph.changes.baseline(branch="rev")
    assert [each["data"]["id"] for each in entities(b"".join(stream))] == ["a"]
    own = upsert(graph, "c", branch="rev").graph_commit_id
    cursor = stream.baseline.resume_cursor
    assert told(graph.changes.poll(branch="rev", cursor=cursor)) == [(own, ["+c"])]
    assert "another branch" in refusal(graph, cursor=cursor)
    with pytest.raises(BranchNotFound):
        graph.changes.baseline(branch="nobody")


# --- following --------------------------------------------------------------------------------


@pytest.mark.parametrize("most", thinned([3, 1, 128]))
@pytest.mark.parametrize("wishes", [{}, {"kinds": ["node"], "ops": ["insert"]}])
def test_following_tells_what_polling_tells(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, most: int, wishes: dict[str, Any]
) -> None:
    (page,) = pages(graph, start="beginning", **wishes)
    monkeypatch.setattr(feed_module, "MOST_COMMITS_PER_POLL", most)
    found = list(graph.changes.follow(start="beginning", **wishes))
    assert [(each.cause, each.changes) for each in found] == [
        (each.cause, each.changes) for each in page
    ]
    assert found[-1].cursor == page.cursor
    assert list(found[0].to_dict()) == ["cause", "changes", "cursor"]


def test_every_cursor_of_following_is_one_to_go_on_from(graph: Graph) -> None:
    found = list(graph.changes.follow(start="beginning"))
    for at, block in enumerate(found):
        assert list(graph.changes.follow(cursor=block.cursor)) == found[at + 1 :]
        polled = joined(pages(graph, cursor=block.cursor))
        assert [commit for commit, _ in polled] == commits(graph)[at + 1 :]


def test_following_ends_at_the_head_as_it_was(graphs: Opened) -> None:
    graph = graphs.init()
    first = upsert(graph, "a").graph_commit_id
    followed = graph.changes.follow(start="beginning")
    next(followed)
    upsert(graph, "b")
    assert [each.cause.graph_commit_id for each in followed] == [first]


def test_following_from_now_is_empty_and_takes_one_place(graph: Graph) -> None:
    assert list(graph.changes.follow()) == []
    with pytest.raises(InvalidArgument, match="not both"):
        next(graph.changes.follow(cursor="x", start="now"))
    with pytest.raises(ChangeCursorRejected, match="feed-page"):
        next(graph.changes.follow(cursor=token_of(graph)))
