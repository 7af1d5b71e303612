"""The history of a branch: order, pages, filters, cursors."""

from collections.abc import Iterable, Mapping

import pytest
from tests.unit.graph.graphs import Opened, upsert
from tests.unit.graph.manifest.test_line import line_of

from omnigraph.errors import BranchNotFound, CommitNotFound, InvalidArgument
from omnigraph.failpoints import Action, armed
from omnigraph.graph.history.commit_graph import Commit, CommitFilter, CommitGraph
from omnigraph.graph.manifest.manifest_line import ManifestLine
from omnigraph.graph.manifest.rows import CommitRow
from omnigraph.graph.recovery.recovery import RECOVERY_ACTOR
from omnigraph.ids import MAIN_BRANCH, BranchId, CommitId, OperationId

# A criss-cross: by commit its parent and merged parent.
CRISS_CROSS: Mapping[str, tuple[str, ...]] = {
    "A": (),
    "B": ("A",),
    "C": ("A",),
    "D": ("B", "C"),
    "E": ("C", "B"),
    "F": ("D", "E"),
}


def history(graphs: Opened, parents: Mapping[str, tuple[str, ...]], head: str) -> ManifestLine:
    rows = [
        CommitRow(
            commit_id=CommitId(name),
            seq=at,
            parent=CommitId(above[0]) if above else None,
            merged_parent=CommitId(above[1]) if len(above) > 1 else None,
            kind="mutation",
            schema_hash="h",
            operation_id=OperationId(f"op-{name}"),
            authored_at=at,
            authored_branch=MAIN_BRANCH,
            copied_from=BranchId("01j") if name.islower() else None,
        )
        for at, (name, above) in enumerate(parents.items())
    ]
    at = next(row.seq for row in rows if row.commit_id == head)
    return line_of(graphs, rows, head=at, head_commit=head)


def ids(commits: Iterable[Commit]) -> str:
    return "".join(each.graph_commit_id for each in commits)


def test_children_come_before_parents_and_ties_by_id_descending(graphs: Opened) -> None:
    graph = CommitGraph(history(graphs, CRISS_CROSS, "F"))
    assert ids(graph.walk("F")) == "FEDCBA"
    assert ids(graph.walk("D")) == "DCBA"
    assert ids(graph.walk("B")) == "BA"


def test_a_parent_never_comes_before_a_child_with_a_smaller_id(graphs: Opened) -> None:
    parents = {"Z": (), "M": ("Z",), "B": ("M",), "Y": ("Z",), "A": ("B", "Y")}
    assert ids(CommitGraph(history(graphs, parents, "A")).walk("A")) == "AYBMZ"


def test_a_history_whose_oldest_commits_were_not_copied_ends_there(graphs: Opened) -> None:
    parents = {"A": (), "c": ("missing",), "D": ("A", "c")}
    assert ids(CommitGraph(history(graphs, parents, "D")).walk("D")) == "DcA"


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6, 7])
def test_pages_of_any_size_give_each_commit_once(graphs: Opened, limit: int) -> None:
    graph = CommitGraph(history(graphs, CRISS_CROSS, "F"))
    found, cursor = "", None
    while True:
        page = graph.page(CommitFilter(), limit=limit, cursor=cursor)
        assert len(page) <= limit
        found, cursor = found + ids(page), page.next_cursor
        if cursor is None:
            break
    assert found == "FEDCBA"


def test_the_last_page_has_no_cursor_even_when_it_is_full(graphs: Opened) -> None:
    graph = CommitGraph(history(graphs, CRISS_CROSS, "F"))
    page = graph.page(CommitFilter(), limit=6, cursor=None)
    assert len(page) == 6
    assert page.next_cursor is None
    assert "next_cursor" not in page.to_dict()
    few = graph.page(CommitFilter(operation="op-B"), limit=1, cursor=None)
    assert (ids(few), few.next_cursor) == ("B", None)


@pytest.mark.parametrize(
    "cursor", ["", ".", "F", "F.", ".F", "F.nobody", "nobody.F", "B.F", "F.A.B"]
)
def test_a_cursor_of_another_history_is_refused(graphs: Opened, cursor: str) -> None:
    graph = CommitGraph(history(graphs, CRISS_CROSS, "F"))
    with pytest.raises(InvalidArgument, match="cursor"):
        graph.page(CommitFilter(), limit=1, cursor=cursor)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_has_room_for_a_commit(graphs: Opened, limit: int) -> None:
    with pytest.raises(InvalidArgument, match="limit"):
        graphs.init().commits.list(limit=limit)


def test_pages_are_stable_while_commits_land(graphs: Opened) -> None:
    graph = graphs.init()
    before = [upsert(graph, f"p{each}").graph_commit_id for each in range(5)]
    first = graph.commits.list(limit=2)
    assert [each.graph_commit_id for each in first] == before[:2:-1]
    found, cursor = list(first), first.next_cursor
    while cursor is not None:
        upsert(graph, "later", age=len(found))
        page = graph.commits.list(limit=2, cursor=cursor)
        found, cursor = [*found, *page], page.next_cursor
    genesis = found.pop()
    assert genesis.kind == "genesis"
    assert [each.graph_commit_id for each in found] == before[::-1]


def test_a_history_is_filtered_by_actor_kind_and_operation(graphs: Opened) -> None:
    alice, bob = graphs.init(actor="alice"), graphs.open(actor="bob")
    first, second = upsert(alice, "a"), upsert(bob, "b")
    listed = alice.commits.list
    assert list(listed(actor="bob")) == [second]
    assert list(listed(operation=first.operation_id)) == [first]
    assert [each.kind for each in listed(kind="genesis")] == ["genesis"]
    assert list(listed(actor="bob", kind="mutation", operation=second.operation_id)) == [second]
    assert len(listed(actor="bob", kind="genesis")) == 0
    assert len(listed(actor="nobody")) == 0


def test_the_history_of_a_branch_has_its_own_commits_and_those_before_the_fork(
    graphs: Opened,
) -> None:
    graph = graphs.init()
    shared = upsert(graph, "a")
    graph.branches.create("rev")
    theirs = upsert(graph, "b", branch="rev")
    ours = upsert(graph, "c")
    genesis = graph.commits.get(str(shared.parent_commit_id))
    assert list(graph.commits.list(branch="rev")) == [theirs, shared, genesis]
    assert list(graph.commits) == [ours, shared, genesis]
    assert theirs.graph_branch == "rev"
    assert graph.commits.get(theirs.graph_commit_id) == theirs
    cursor = graph.commits.list(branch="rev", limit=1).next_cursor
    with pytest.raises(InvalidArgument):
        graph.commits.list(cursor=cursor)


def test_an_unknown_commit_or_branch_has_no_history(graphs: Opened) -> None:
    graph = graphs.init()
    for name in ("nobody", "graph_head", "schema", ""):
        with pytest.raises(CommitNotFound):
            graph.commits.get(name)
    with pytest.raises(BranchNotFound):
        graph.commits.list(branch="nobody")


def test_a_commit_that_a_recovery_published_says_so_wherever_it_is_shown(graphs: Opened) -> None:
    graph = graphs.init(actor="alice")
    with armed("mutation.post_phase_b_pre_manifest_commit", Action.RAISE):
        made = upsert(graph, "a")
    (listed,) = graph.commits.list(kind="mutation")
    assert listed.recovered
    assert listed.actor_id == "alice"
    assert listed.graph_commit_id == made.graph_commit_id
    assert list(graph.commits.list(actor=RECOVERY_ACTOR)) == [listed]
    assert graph.commits.get(made.graph_commit_id).recovered
