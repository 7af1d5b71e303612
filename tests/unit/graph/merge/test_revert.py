"""A commit undone by another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.unit.engine.graphs import compact, put, remove
from tests.unit.graph.graphs import Opened, committed, once, require_settled
from tests.unit.graph.merge.merges import ages, apart, head, knows, links, made, people

from omnigraph.errors import (
    BranchNotFound,
    CommitHasNoParent,
    CommitNotFound,
    InvalidArgument,
    MergeConflicts,
    PreconditionFailed,
    ReadSetChanged,
    SchemaDiverged,
    SnapshotReclaimed,
)
from omnigraph.failpoints import armed

if TYPE_CHECKING:
    from omnigraph import Graph

START = {"n": 0, "x": 0, "y": 0}, {"e": "x-y", "hangs": "x-n"}


@pytest.fixture
def small(graphs: Opened) -> Graph:
    """Three persons, two edges."""
    graph = graphs.init()
    people(graph, "main", **START[0])
    knows(graph, "main", **START[1])
    return graph


def shown(graph: Graph, branch: str = "main") -> tuple[dict[str, int | None], dict[str, str]]:
    """All persons and edges."""
    return ages(graph, branch), links(graph, branch)


def everything(graph: Graph, branch: str = "main") -> str:
    """Insert, update and delete of nodes and edges in one commit."""
    with graph.write(branch) as writer:
        writer.upsert(
            "Person", pa.table({"name": ["new", "x"], "age": pa.array([1, 1], pa.int32())})
        )
        writer.delete("Knows", ["hangs"])
        writer.delete("Person", ["n"])
        edges = {"id": ["e", "new"], "src": ["y", "new"], "dst": ["y", "x"]}
        writer.upsert("Knows", pa.table(edges))
        return committed(writer.commit()).graph_commit_id


CHANGED = {"new": 1, "x": 1, "y": 0}, {"e": "y-y", "new": "new-x"}


def conflicts(graph: Graph, commit: str, branch: str = "main") -> list[tuple[str, str, str]]:
    """What stands in the way; nothing is changed."""
    before = head(graph, branch)
    with pytest.raises(MergeConflicts, match=f"commit {commit} cannot be reverted") as caught:
        graph.commits.revert(commit, branch=branch)
    assert head(graph, branch) == before
    found = caught.value.details["merge_conflicts"]
    assert isinstance(found, list)
    assert caught.value.details["total"] == len(found)
    return [(each["type_name"], each["entity_id"], each["kind"]) for each in found]


def test_everything_that_a_commit_did_is_undone_and_again_undone(small: Graph) -> None:
    commit = everything(small)
    assert shown(small) == CHANGED
    undone = committed(small.commits.revert(commit))
    assert shown(small) == START
    assert (undone.kind, undone.parent_commit_id) == ("mutation", commit)
    assert undone.merged_parent_commit_id is None
    assert undone.stats["revert"] == {"commit": commit}
    again = committed(small.commits.revert(undone.graph_commit_id))
    assert shown(small) == CHANGED
    committed(small.commits.revert(again.graph_commit_id))
    assert shown(small) == START
    require_settled(small)


def test_later_commits_stay_when_they_touched_something_else(small: Graph) -> None:
    commit = everything(small)
    people(small, "main", y=7, other=8)
    compact(small, "Person")
    committed(small.commits.revert(commit))
    assert shown(small) == (START[0] | {"y": 7, "other": 8}, START[1])


def test_what_others_changed_since_is_not_undone(small: Graph) -> None:
    first = people(small, "main", x=1, y=1, new=1)
    people(small, "main", x=2)
    remove(small, Person=["new"])
    # `new` is gone already, which is what the revert wants; `y` is as the commit left it.
    assert conflicts(small, first) == [("Person", "x", "divergent_update")]
    people(small, "main", x=1)
    committed(small.commits.revert(first))
    assert ages(small) == START[0]


def test_a_conflict_names_how_things_are(small: Graph) -> None:
    changed = people(small, "main", x=1)
    remove(small, Knows=["e", "hangs"], Person=["x"])
    assert conflicts(small, changed) == [("Person", "x", "delete_vs_update")]
    removed = remove(small, Person=["y"])
    people(small, "main", y=4)
    assert conflicts(small, removed) == [("Person", "y", "divergent_insert")]
    inserted = people(small, "main", new=1)
    people(small, "main", new=2)
    assert conflicts(small, inserted) == [("Person", "new", "delete_vs_update")]


def _text(graph: Graph, commit: str) -> str:
    with pytest.raises(MergeConflicts) as caught:
        graph.commits.revert(commit)
    return caught.value.message


def test_a_conflict_tells_of_the_commit_and_the_branch(small: Graph) -> None:
    changed = people(small, "main", x=1)
    people(small, "main", x=2)
    assert _text(small, changed).endswith(
        "Person 'x' was changed by the commit and again on the branch since: its values before"
        " the commit and now differ in age"
    )
    remove(small, Knows=["e", "hangs"], Person=["x"])
    assert _text(small, changed).endswith(
        "Person 'x' was changed by the commit and deleted on the branch since"
    )
    removed = remove(small, Person=["y"])
    people(small, "main", y=4)
    assert _text(small, removed).endswith(
        "Person 'y' was deleted by the commit and inserted on the branch since, with other values"
        " of age"
    )
    inserted = people(small, "main", new=1)
    people(small, "main", new=2)
    assert _text(small, inserted).endswith(
        "Person 'new' was inserted by the commit and changed on the branch since"
    )


def test_a_broken_rule_of_a_revert_advises_no_resolution(small: Graph) -> None:
    inserted = people(small, "main", new=1)
    knows(small, "main", late="x-new")
    assert _text(small, inserted).endswith("dst 'new' not found in Person")


def test_a_later_edge_needs_the_node_that_the_commit_inserted(small: Graph) -> None:
    inserted = people(small, "main", new=1)
    later = knows(small, "main", late="x-new")
    assert conflicts(small, inserted) == [("Knows", "late", "orphan_edge")]
    committed(small.commits.revert(later))
    committed(small.commits.revert(inserted))
    assert shown(small) == START


def test_an_edge_cannot_return_without_its_node(small: Graph) -> None:
    cut = remove(small, Knows=["hangs"])
    remove(small, Person=["n"])
    assert conflicts(small, cut) == [("Knows", "hangs", "orphan_edge")]


def test_a_value_that_somebody_else_took_cannot_return(small: Graph) -> None:
    put(small, Person=[{"name": "x", "email": "e", "age": 0}])
    moved = put(small, Person=[{"name": "x", "age": 0}])
    put(small, Person=[{"name": "y", "email": "e", "age": 0}])
    assert conflicts(small, moved) == [("Person", "x", "unique_violation")]


def test_a_merge_is_undone_as_a_whole(small: Graph) -> None:
    apart(small, everything_on, lambda graph, branch: people(graph, branch, y=5))
    merge = made(small.branches.merge("b", delete_branch=True))
    assert shown(small) == (CHANGED[0] | {"y": 5}, CHANGED[1])
    people(small, "main", late=1)
    committed(small.commits.revert(merge.graph_commit_id))
    assert shown(small) == (START[0] | {"y": 5, "late": 1}, START[1])


def everything_on(graph: Graph, branch: str) -> None:
    """The same as `everything`, as a side of a merge."""
    everything(graph, branch)


def test_a_reverted_merge_stays_merged(small: Graph) -> None:
    apart(small, everything_on, lambda graph, branch: people(graph, branch, y=5))
    merge = made(small.branches.merge("b"))
    revert = committed(small.commits.revert(merge.graph_commit_id))
    assert small.branches.merge("b").outcome == "already_up_to_date"
    # The way back is to revert the revert, as elsewhere.
    committed(small.commits.revert(revert.graph_commit_id))
    assert shown(small) == (CHANGED[0] | {"y": 5}, CHANGED[1])


def test_a_merge_without_a_net_change_has_nothing_to_undo(small: Graph) -> None:
    def to_and_fro(graph: Graph, branch: str) -> None:
        people(graph, branch, x=1)
        people(graph, branch, x=0)

    apart(small, to_and_fro, lambda graph, branch: people(graph, branch, y=5))
    merge = made(small.branches.merge("b"))
    before = head(small)
    assert small.commits.revert(merge.graph_commit_id) is None
    assert head(small) == before


def test_nothing_is_left_to_undo(small: Graph) -> None:
    commit = everything(small)
    committed(small.commits.revert(commit))
    before = head(small)
    assert small.commits.revert(commit) is None
    compact(small, "Person")
    compacted = head(small)
    assert small.commits.revert(compacted) is None
    assert (head(small), before != compacted) == (compacted, True)


def test_blobs_come_back(graphs: Opened) -> None:
    graph = graphs.init("node File { name: String @key  x: Blob? }")
    cell = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
    commits = []
    for data in (b"one", b"two"):
        with graph.write() as writer:
            blobs = pa.array([{"data": data, "uri": None}], cell)
            writer.upsert("File", pa.table({"name": ["f"], "x": blobs}))
            commits.append(committed(writer.commit()).graph_commit_id)
    committed(graph.commits.revert(commits[1]))
    assert graph.blob("node", "File", "f", "x").read() == b"one"
    committed(graph.commits.revert(head(graph)))
    assert graph.blob("node", "File", "f", "x").read() == b"two"


# --- which branch -----------------------------------------------------------------------------


def test_a_commit_is_undone_on_the_branch_that_has_it(small: Graph) -> None:
    before = everything(small)
    small.branches.create("b")
    own = people(small, "b", y=9)
    committed(small.commits.revert(own, branch="b"))
    committed(small.commits.revert(before, branch="b"))
    assert (shown(small, "b"), shown(small)) == (START, CHANGED)
    # And the undoing is merged like any change.
    small.branches.merge("b")
    assert shown(small) == START


def test_a_commit_of_another_branch_is_refused(small: Graph) -> None:
    small.branches.create("b")
    own = people(small, "b", y=9)
    main = people(small, "main", x=9)
    for commit, branch in ((own, "main"), (main, "b")):
        with pytest.raises(InvalidArgument) as caught:
            small.commits.revert(commit, branch=branch)
        assert caught.value.details["argument"] == "id"
    # What a merge has brought is undone with the merge.
    merge = made(small.branches.merge("b"))
    with pytest.raises(InvalidArgument, match="revert the merge that brought it"):
        small.commits.revert(own)
    committed(small.commits.revert(own, branch="b"))
    committed(small.commits.revert(merge.graph_commit_id))
    assert (ages(small)["y"], ages(small, "b")["y"]) == (0, 0)


def test_a_commit_of_a_branch_that_is_gone_is_refused(small: Graph) -> None:
    small.branches.create("b")
    own = people(small, "b", y=9)
    small.branches.merge("b", delete_branch=True)
    before = head(small)
    with pytest.raises((InvalidArgument, SnapshotReclaimed)):
        small.commits.revert(own)
    assert head(small) == before


def test_what_cannot_be_undone_is_refused(small: Graph) -> None:
    *_, genesis = small.commits
    with pytest.raises(CommitHasNoParent):
        small.commits.revert(genesis.graph_commit_id)
    with pytest.raises(CommitNotFound):
        small.commits.revert("01j00000000000000000000000")
    with pytest.raises(CommitNotFound):
        small.commits.revert("")
    with pytest.raises(BranchNotFound):
        small.commits.revert(head(small), branch="none")
    with pytest.raises(PreconditionFailed):
        small.commits.revert(head(small), if_commit=genesis.graph_commit_id)
    assert shown(small) == START
    committed(small.commits.revert(head(small), if_commit=head(small)))
    assert links(small) == {}


def test_a_commit_from_before_a_change_of_the_schema_is_refused(graphs: Opened) -> None:
    source = "node Person { name: String @key  age: I32? }"
    graph = graphs.init(source)
    before = people(graph, "main", x=1)
    change = graph.schema.apply(source.replace("age: I32?", "age: I32?  nick: String?")).commit
    after = people(graph, "main", x=2)
    for commit in (before, committed(change).graph_commit_id):
        with pytest.raises(SchemaDiverged) as refused:
            graph.commits.revert(commit)
        assert refused.value.details == {"source_commit": commit, "target_commit": after}
    assert head(graph) == after
    committed(graph.commits.revert(after))
    assert ages(graph) == {"x": 1}


def test_the_first_rows_can_be_undone(graphs: Opened) -> None:
    graph = graphs.init()
    first = people(graph, "main", x=1)
    committed(graph.commits.revert(first))
    assert ages(graph) == {}
    assert graph.snapshot().count("Person") == 0


def test_a_branch_that_moves_meanwhile_refuses_the_revert(small: Graph) -> None:
    commit = everything(small)
    moves = once(lambda: people(small, "main", y=9))
    with armed("mutation.post_stage_pre_lease", moves), pytest.raises(ReadSetChanged):
        small.commits.revert(commit)
    assert shown(small) == (CHANGED[0] | {"y": 9}, CHANGED[1])
    committed(small.commits.revert(commit))
    assert shown(small) == (START[0] | {"y": 9}, START[1])


def test_a_revert_that_is_refused_leaves_the_next_write_working(small: Graph) -> None:
    inserted = people(small, "main", new=1)
    knows(small, "main", late="x-new")
    conflicts(small, inserted)
    people(small, "main", new=2)
    assert ages(small)["new"] == 2
    require_settled(small)


def test_the_actor_and_the_changes_of_a_revert_are_told(graphs: Opened) -> None:
    graphs.init().close()
    graph = graphs.open(actor="ann")
    people(graph, "main", x=1, y=1)
    commit = people(graph, "main", x=2, y=1)
    undone = committed(graph.commits.revert(commit))
    assert undone.actor_id == "ann"
    (change,) = graph.commits.changes(undone.graph_commit_id).changes
    assert (change.op, change.id) == ("update", "x")
