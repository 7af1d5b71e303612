"""What a commit changed, page by page: pages join to the whole, and tokens lead nowhere else."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.graph.graphs import Opened, Watcher, committed, delete, rows, upsert

from omnigraph.errors import (
    ChangeCursorRejected,
    CommitHasNoParent,
    CommitNotFound,
    InvalidArgument,
    ResourceLimit,
)
from omnigraph.graph.changes import commit_changes as commit_changes_module
from omnigraph.graph.changes.entity_change import parse_filter
from omnigraph.graph.changes.tokens import (
    MAX_TOKEN_CHARACTERS,
    ChangeToken,
    TokenKind,
    filter_digest,
    read_token,
    write_token,
)
from omnigraph.limits import MAX_CHANGES_PER_PAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph import Graph
    from omnigraph.graph.changes.entity_change import EntityChange
    from omnigraph.graph.history.commit_graph import Commit

LONG_IDS = ["n" * 399, "n" * 400, *("n" * 400 + each for each in "abc"), "\u0000" * 5_000]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    graphs = Opened(tmp_path_factory.mktemp("commits"))
    yield graphs
    graphs.close()


@pytest.fixture(scope="module")
def graph(opened: Opened) -> Graph:
    """Commits: the first, one that fills every table, one that does everything."""
    graph = opened.init(actor="act-ada")
    with graph.write() as writer:
        writer.append("Person", rows(*({"name": name, "age": 1} for name in ("", "a", "b", "é"))))
        writer.append("Doc", rows({"title": "t"}))
        writer.append("Knows", rows({"id": "e1", "src": "a", "dst": "b"}))
        writer.append("Knows", rows({"id": "e2", "src": "b", "dst": "a"}))
        writer.commit()
    with graph.write() as writer:
        writer.upsert("Person", rows({"name": "", "age": 2}, {"name": "\U0001f600", "age": 2}))
        writer.delete("Person", ["é"])
        writer.upsert("Doc", rows({"title": "t", "body": "x"}))
        writer.delete("Knows", ["e1"])
        writer.upsert("Knows", rows({"id": "e2", "src": "a", "dst": "a"}))
        writer.commit()
    return graph


def commits(graph: Graph) -> list[Commit]:
    """Oldest first."""
    return list(graph.commits)[::-1]


def last(graph: Graph) -> str:
    return commits(graph)[-1].graph_commit_id


def joined(graph: Graph, commit: str, limit: int, **wishes: Any) -> list[EntityChange]:  # noqa: ANN401
    """Every page of a commit, one after the other."""
    found: list[EntityChange] = []
    token = None
    while True:
        page = graph.commits.changes(commit, limit=limit, page_token=token, **wishes)
        assert len(page) <= limit
        found += page
        token = page.next_page_token
        if token is None:
            return found
        assert len(page) == limit
        assert len(token) <= MAX_TOKEN_CHARACTERS


# --- changes ----------------------------------------------------------------------------------


def test_the_changes_of_a_commit_are_the_diff_to_its_parent(graph: Graph) -> None:
    for parent, commit in zip(commits(graph), commits(graph)[1:], strict=False):
        ends = (parent.graph_commit_id, commit.graph_commit_id)
        page = graph.commits.changes(commit.graph_commit_id)
        assert list(page) == list(graph.diff(*ends))
        assert page.next_page_token is None
    signs = [f"{each.op} {each.id}" for each in page]
    assert signs == [
        "update ",
        "delete é",
        "insert \U0001f600",
        "update t",
        "delete e1",
        "update e2",
    ]


def test_the_cause_is_the_commit_and_absent_facts_are_left_out(graph: Graph) -> None:
    _, parent, commit = commits(graph)
    body = graph.commits.changes(commit.graph_commit_id, limit=2).to_dict()
    assert list(body) == ["cause", "changes", "next_page_token"]
    assert body["cause"] == {
        "graph_commit_id": commit.graph_commit_id,
        "authored_branch": "main",
        "authored_at": commit.created_at,
        "parent_commit_id": parent.graph_commit_id,
        "actor_id": "act-ada",
    }
    assert list(graph.commits.changes(commit.graph_commit_id).to_dict()) == ["cause", "changes"]


def test_a_deleted_edge_shows_the_ends_that_it_had(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a", "b")
    with graph.write() as writer:
        writer.append("Knows", rows({"id": "e", "src": "a", "dst": "b", "since": 7}))
        writer.commit()
    with graph.write() as writer:
        writer.delete("Knows", ["e"])
        writer.delete("Person", ["a", "b"])
        commit = committed(writer.commit())
    *nodes, edge = graph.commits.changes(commit.graph_commit_id)
    assert [each.id for each in nodes] == ["a", "b"]
    assert edge.to_dict()["before"] == {
        "properties": {"since": 7},
        "endpoints": {"from": "a", "to": "b"},
    }


def test_the_first_commit_has_no_changes_to_tell(graph: Graph) -> None:
    first = commits(graph)[0].graph_commit_id
    with pytest.raises(CommitHasNoParent, match="nothing to compare") as caught:
        graph.commits.changes(first)
    assert caught.value.details == {"graph_commit_id": first}


def test_an_unknown_commit_is_not_found(graph: Graph) -> None:
    for name in ("nobody", "main", ""):
        with pytest.raises(CommitNotFound):
            graph.commits.changes(name)


def test_the_first_commit_of_a_branch_is_compared_with_the_one_it_grew_from(
    graphs: Opened,
) -> None:
    graph = graphs.init()
    fork = upsert(graph, "a", "b", age=1)
    graph.branches.create("rev")
    upsert(graph, "c")
    own = upsert(graph, "b", branch="rev", age=2)
    page = graph.commits.changes(own.graph_commit_id)
    assert [f"{each.op} {each.id}" for each in page] == ["update b"]
    assert page.cause.authored_branch == "rev"
    assert page.cause.parent_commit_id == fork.graph_commit_id
    assert page.cause.actor_id is None


# --- pages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 4, 5, 6, MAX_CHANGES_PER_PAGE])
def test_pages_joined_are_the_whole(graph: Graph, limit: int) -> None:
    whole = list(graph.commits.changes(last(graph)))
    assert joined(graph, last(graph), limit) == whole


@pytest.mark.parametrize(
    "wishes", [{"ops": ["update"]}, {"kinds": ["edge"]}, {"types": ["Person", "Knows"]}]
)
def test_pages_of_a_filter_joined_are_what_it_chooses(graph: Graph, wishes: dict[str, Any]) -> None:
    whole = list(graph.commits.changes(last(graph), **wishes))
    assert whole
    assert joined(graph, last(graph), 1, **wishes) == whole


def test_a_page_goes_on_in_another_process_and_after_other_commits(graphs: Opened) -> None:
    graph = graphs.init()
    commit = upsert(graph, "a", "b", "c").graph_commit_id
    token = graph.commits.changes(commit, limit=1).next_page_token
    delete(graph, "b")
    rest = graphs.read_only().commits.changes(commit, page_token=token)
    assert ([each.id for each in rest], rest.next_page_token) == (["b", "c"], None)


def test_pages_go_on_behind_long_ids(graphs: Opened) -> None:
    graph = graphs.init()
    commit = upsert(graph, *LONG_IDS, "z").graph_commit_id
    found = joined(graph, commit, 1)
    assert [each.id for each in found] == sorted([*LONG_IDS, "z"])


def test_a_page_ends_at_its_bytes_and_a_larger_change_comes_alone(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = list(graph.commits.changes(last(graph)))
    monkeypatch.setattr(commit_changes_module, "_PAGE_BYTES", 1)
    found: list[EntityChange] = []
    token = None
    for _ in whole:
        page = graph.commits.changes(last(graph), page_token=token)
        found += page
        token = page.next_page_token
    assert (found, token) == (whole, None)


@pytest.mark.parametrize("limit", [0, -1, True, 1.0, "1", None])
def test_a_limit_that_is_no_number_from_one_on_is_refused(graph: Graph, limit: Any) -> None:  # noqa: ANN401
    with pytest.raises(InvalidArgument, match="limit") as caught:
        graph.commits.changes(last(graph), limit=limit)
    assert caught.value.details["argument"] == "limit"


def test_a_limit_above_the_largest_page_is_refused(graph: Graph) -> None:
    graph.commits.changes(last(graph), limit=8_192)
    with pytest.raises(ResourceLimit, match=r"8,192 changes, not 8,193") as caught:
        graph.commits.changes(last(graph), limit=8_193)
    assert caught.value.details == {
        "resource": "commit_changes_page_changes",
        "limit": MAX_CHANGES_PER_PAGE,
        "actual": 8_193,
    }


# --- tokens -----------------------------------------------------------------------------------


def refusal(graph: Graph, token: Any, commit: str | None = None, **wishes: Any) -> str:  # noqa: ANN401
    with pytest.raises(ChangeCursorRejected) as caught:
        graph.commits.changes(commit or last(graph), page_token=token, **wishes)
    prefix, _, why = caught.value.message.partition(": ")
    assert prefix == "change cursor rejected"
    return why


def token_of(graph: Graph, **wishes: Any) -> str:  # noqa: ANN401
    token = graph.commits.changes(last(graph), limit=1, **wishes).next_page_token
    assert token is not None
    return token


def test_a_token_with_any_character_changed_is_rejected(graph: Graph) -> None:
    token, wanted = token_of(graph), parse_filter(None, None, None)
    # The last character has bits that stand for nothing.
    for at, char in enumerate(token[:-1]):
        edited = token[:at] + ("A" if char != "A" else "B") + token[at + 1 :]
        with pytest.raises(ChangeCursorRejected, match="damaged"):
            read_token(graph._graph.graph_id, edited, TokenKind.COMMIT_PAGE, wanted)


@pytest.mark.parametrize(
    "token",
    ["", "x", "xy", "*", "AAAA", "ä" * 8, "A" * 4_096, "A" * 4_100, "AA AA\n", 7, b"AAAA"],
    ids=repr,
)
def test_what_is_no_token_is_rejected(graph: Graph, token: Any) -> None:  # noqa: ANN401
    refusal(graph, token)


def test_a_shortened_or_lengthened_token_is_rejected(graph: Graph) -> None:
    token = token_of(graph)
    for other in (token[:-4], token[4:], token + "AAAA", token + token):
        refusal(graph, other)


def test_a_token_of_another_graph_is_rejected(graph: Graph, graphs: Opened) -> None:
    other = graphs.init()
    commit = upsert(other, "a", "b").graph_commit_id
    token = other.commits.changes(commit, limit=1).next_page_token
    assert "another graph" in refusal(graph, token)


def test_a_token_of_another_commit_is_rejected(graph: Graph) -> None:
    older = commits(graph)[1].graph_commit_id
    token = graph.commits.changes(older, limit=1).next_page_token
    assert "another commit" in refusal(graph, token)
    assert "another commit" in refusal(graph, token_of(graph), older)


@pytest.mark.parametrize(
    "wishes",
    [{}, {"types": ["Person"]}, {"ops": ["delete"]}, {"kinds": ["node"], "ops": ["update"]}],
)
def test_a_token_of_another_filter_is_rejected(graph: Graph, wishes: dict[str, Any]) -> None:
    token = token_of(graph, kinds=["node"])
    assert "other filters" in refusal(graph, token, **wishes)


def test_the_same_filter_in_another_order_is_the_same(graph: Graph) -> None:
    token = token_of(graph, types=["Person", "Knows"], ops=["update", "delete"])
    page = graph.commits.changes(
        last(graph), types=("Knows", "Person", "Knows"), ops={"delete", "update"}, page_token=token
    )
    assert [each.id for each in page] == ["é", "e1", "e2"]


def test_a_token_of_another_kind_is_rejected(graph: Graph) -> None:
    wanted = parse_filter(None, None, None)
    for kind in (TokenKind.CURSOR, TokenKind.FEED_PAGE):
        token = write_token(
            graph._graph.graph_id,
            ChangeToken(
                kind=kind,
                branch_id="main",
                commit_id=last(graph),
                filter_digest=filter_digest(wanted),
            ),
        )
        assert f"it is a {kind}" in refusal(graph, token)


def test_a_token_is_read_as_it_was_written(graph: Graph) -> None:
    text = token_of(graph)
    token = read_token(
        graph._graph.graph_id, text, TokenKind.COMMIT_PAGE, parse_filter(None, None, None)
    )
    assert write_token(graph._graph.graph_id, token) == text
    assert token.place is not None
    assert (token.place.is_edge, token.place.id, token.place.digest) == (False, "", None)
    assert (token.commit_id, token.branch_id, token.cut) == (last(graph), "main", None)


def test_a_token_says_nothing_about_values(graph: Graph) -> None:
    text = token_of(graph)
    content = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))[16:]
    assert set(json.loads(content)) == {"kind", "branch_id", "commit_id", "filter_digest", "place"}


def test_a_bad_page_size_is_told_before_a_bad_token(graph: Graph) -> None:
    with pytest.raises(InvalidArgument, match="limit"):
        graph.commits.changes(last(graph), limit=0, page_token="x")  # noqa: S106 - no secret


def test_a_commit_that_was_merged_is_found_whatever_branches_there_are(graphs: Opened) -> None:
    watcher = Watcher()
    graphs.init()
    graph = graphs.coordinated(observer=watcher)
    graph.branches.create("a")
    commit = upsert(graph, "x", branch="a", age=1).graph_commit_id
    graph.branches.merge("a")
    costs = []
    for number in range(3):
        for name in (f"b{number}", f"c{number}", f"d{number}"):
            graph.branches.create(name)
        graph.commits.changes(commit)
        watcher.calls.clear()
        assert [each.id for each in graph.commits.changes(commit)] == ["x"]
        costs.append(len(watcher.calls))
    assert len(set(costs)) == 1, costs
