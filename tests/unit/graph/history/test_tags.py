"""Tags: commits under a name, which keep what they name and share their names with no branch."""

import json
import threading
from collections.abc import Callable

import pytest
from tests.unit.graph.graphs import (
    Opened,
    Watcher,
    merge_raw,
    names,
    once,
    people,
    state,
    table_files,
    upsert,
)

from omnigraph import Graph
from omnigraph.errors import (
    BranchBusy,
    BranchExists,
    BranchHasTags,
    CommitNotFound,
    InvalidArgument,
    InvalidBranchName,
    OmnigraphError,
    ReadOnlyGraph,
    SnapshotReclaimed,
    TagExists,
    TagNotFound,
)
from omnigraph.failpoints import Action, armed
from omnigraph.graph.history.snapshot import Snapshot
from omnigraph.graph.history.tags import tagged_pins
from omnigraph.graph.recovery.leases import MAINTENANCE_SCOPE
from omnigraph.ids import MAIN_BRANCH_ID
from omnigraph.storage.calls import StoreCall

COUNT = "query q() { match { $p: Person } return { count($p) as n } }"


def listed(graph: Graph) -> list[str]:
    return [each.name for each in graph.tags.list()]


def during_the_merge(graphs: Opened, act: Callable[[], object]) -> Graph:
    """A handle beside whose next merge of the manifest something else happens first."""
    watcher = Watcher()
    graph = graphs.coordinated(observer=watcher)
    acts = once(act)

    def before(call: StoreCall) -> None:
        if call.operation == "merge":
            acts()

    watcher.before_each = before
    return graph


def test_a_tag_names_the_head_for_every_handle_and_makes_no_commit(graphs: Opened) -> None:
    graph, other = graphs.init(actor="alice"), graphs.open()
    commit = upsert(graph, "a")
    made = graph.tags.create("v1")
    upsert(graph, "b")
    assert made.to_dict() == {
        "name": "v1",
        "graph_commit_id": commit.graph_commit_id,
        "graph_branch": "main",
        "graph_manifest_version": 1,
        "created_at": made.created_at,
        "actor_id": "alice",
    }
    for each in (graph, other, graphs.open(), graphs.read_only()):
        assert each.tags.list() == [made]
        assert each.tags.get("v1") == made
        assert each.snapshot("v1").count("Person") == 1
    assert [each.graph_manifest_version for each in graph.commits] == [2, 1, 0]


def test_a_tag_is_a_read_target_wherever_a_commit_id_is(graphs: Opened) -> None:
    graph = graphs.init()
    first = upsert(graph, "a")
    graph.tags.create("v1")
    upsert(graph, "b")
    graph.branches.create("rev")
    id_ = first.graph_commit_id
    reads: list[Callable[[str], object]] = [
        lambda at: graph.snapshot(at).graph_commit_id,
        lambda at: graph.query(COUNT, snapshot=at).to_dicts(),
        lambda at: b"".join(graph.export(snapshot=at)),
        lambda at: graph.explain(COUNT, snapshot=at).graph_commit_id,
        lambda at: [change.id for change in graph.diff(at, "main")],
        graph.commits.get,
        lambda at: [change.id for change in graph.commits.changes(at)],
        lambda at: graph.schema.show(at=at),
        lambda at: len(graph.changes.poll(start=f"after:{at}").blocks),
        lambda at: len(graph.changes.poll(start=f"after:{at}", branch="rev").blocks),
        lambda at: len(list(graph.changes.follow(start=f"after:{at}"))),
    ]
    for read in reads:
        assert read("v1") == read(id_) == read("1")
    assert graph.query(COUNT, snapshot="v1").target.to_dict() == {"branch": None, "snapshot": "v1"}
    undone = graph.commits.revert("v1")
    assert undone is not None
    assert undone.stats["revert"] == {"commit": id_}
    assert names(graph) == ["b"]


def test_what_is_no_target_is_not_found_by_any_read(graphs: Opened) -> None:
    graph = graphs.init()
    graph.tags.create("gone")
    graph.tags.delete("gone")
    for text in ("gone", "", "9", "9" * 5_000, "0" * 26):
        with pytest.raises(CommitNotFound):
            graph.snapshot(text)
        with pytest.raises(CommitNotFound):
            graph.commits.get(text)
        with pytest.raises(InvalidArgument, match="start is"):
            graph.changes.poll(start=f"after:{text}")


@pytest.mark.parametrize(
    ("name", "reason"),
    {
        "01ARZ3NDEKTSV4RRFFQ69G5FAV": "the id of a commit",
        "01arz3ndektsv4rrffq69g5fav": "the id of a commit",
        "17": "a number",
        "2026-11-18": "a time",
        "main": "reserved",
        "a b": "holds ' '",
        "": "empty",
    }.items(),
)
def test_a_name_that_means_something_else_is_refused_with_the_reason(
    graphs: Opened, name: str, reason: str
) -> None:
    with pytest.raises(InvalidBranchName, match=reason):
        graphs.init().tags.create(name)


def test_a_tag_and_a_live_branch_never_share_a_name(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    graph.branches.create("x")
    graph.tags.create("y")
    for each in (graph, other):
        with pytest.raises(BranchExists):
            each.tags.create("x")
        with pytest.raises(TagExists):
            each.branches.create("y")
        with pytest.raises(TagExists):
            each.tags.create("y")
        with pytest.raises(TagExists):
            each.load(b"", mode="append", branch="y", from_="main")
    graph.branches.delete("x")
    graph.tags.delete("y")
    assert other.tags.create("x").name == "x"
    assert other.branches.create("y").name == "y"


def test_a_branch_that_appears_while_its_name_becomes_a_tag_wins(graphs: Opened) -> None:
    other = graphs.init()
    graph = during_the_merge(graphs, lambda: other.branches.create("x"))
    with pytest.raises(BranchExists):
        graph.tags.create("x")
    assert listed(graph) == []


def test_a_tag_that_appears_while_its_name_becomes_a_branch_wins(graphs: Opened) -> None:
    other = graphs.init()
    graph = during_the_merge(graphs, lambda: other.tags.create("x"))
    with pytest.raises(TagExists):
        graph.branches.create("x")
    graph.close()
    assert graphs.storage().manifest.lines() == [], "the loser leaves no line"


def test_handles_that_create_one_tag_at_once_make_one(graphs: Opened) -> None:
    handles = [graphs.init(), graphs.open(), graphs.open()]
    made: list[str] = []
    lost: list[TagExists] = []

    def attempt(graph: Graph) -> None:
        try:
            made.append(graph.tags.create("v1").graph_commit_id)
        except TagExists as error:
            lost.append(error)

    threads = [threading.Thread(target=attempt, args=(each,)) for each in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), len(lost)) == (1, 2)


@pytest.mark.parametrize("operation", ["create", "delete"])
def test_a_tag_whose_acknowledgement_is_lost_is_written_once(
    graphs: Opened, operation: str
) -> None:
    graph = graphs.init()
    if operation == "delete":
        graph.tags.create("v1")
    with armed("publish.ack_lost", once(lambda: (_ for _ in ()).throw(OSError("lost")))):
        getattr(graph.tags, operation)("v1")
    assert listed(graphs.open()) == (["v1"] if operation == "create" else [])
    with armed("publish.contention", Action.RAISE), pytest.raises(OmnigraphError) as caught:
        graph.tags.create("v2")
    assert caught.value.code == "storage_unavailable"


def test_a_deleted_tag_is_gone_at_once_and_a_later_one_is_another(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    graph.tags.create("v1")
    later = upsert(graph, "a")

    def recreate() -> None:
        graph.tags.delete("v1")
        graph.tags.create("v1")

    slow = during_the_merge(graphs, recreate)
    with pytest.raises(TagNotFound):
        slow.tags.delete("v1")
    assert other.tags.get("v1").graph_commit_id == later.graph_commit_id
    other.tags.delete("v1")
    with pytest.raises(TagNotFound, match="live tags: none"):
        graph.tags.get("v1")
    with pytest.raises(TagNotFound):
        graph.tags.delete("v1")
    with pytest.raises(ReadOnlyGraph):
        graphs.read_only().tags.create("v1")


def test_a_branch_that_holds_what_a_tag_names_stays(graphs: Opened) -> None:
    graph = graphs.init()
    graph.branches.create("rev")
    upsert(graph, "a", branch="rev")
    made = graph.tags.create("v1", branch="rev")
    assert (made.graph_branch, made.graph_manifest_version) == ("rev", 1)
    result = graph.branches.merge("rev", delete_branch=True)
    assert not result.branch_deleted
    with pytest.raises(BranchHasTags, match="v1") as caught:
        graph.branches.delete("rev")
    assert caught.value.details["tags"] == ["v1"]
    assert graph.snapshot("v1").count("Person") == 1
    graph.tags.delete("v1")
    graph.branches.delete("rev")
    with pytest.raises(SnapshotReclaimed):
        graph.tags.create("v1", made.graph_commit_id)
    assert listed(graph) == []


def test_a_tag_that_appears_while_its_branch_is_deleted_keeps_it(graphs: Opened) -> None:
    other = graphs.init()
    other.branches.create("rev")
    commit = upsert(other, "a", branch="rev")
    graph = during_the_merge(graphs, lambda: other.tags.create("v1", branch="rev"))
    with pytest.raises(BranchHasTags):
        graph.branches.delete("rev")
    assert graph.snapshot("v1").graph_commit_id == commit.graph_commit_id


def test_a_branch_that_is_deleted_while_its_commit_gets_a_tag_leaves_none(graphs: Opened) -> None:
    other = graphs.init()
    other.branches.create("rev")
    upsert(other, "a", branch="rev")
    graph = during_the_merge(graphs, lambda: other.branches.delete("rev"))
    with pytest.raises(SnapshotReclaimed):
        graph.tags.create("v1", branch="rev")
    assert listed(graph) == []


def test_an_inherited_commit_is_held_by_the_branch_that_made_it(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    graph.branches.create("b-parent")
    commit = upsert(graph, "b", branch="b-parent")
    graph.branches.create("a-child", from_="b-parent")
    made = graph.tags.create("v1", branch="a-child")
    assert (made.graph_commit_id, made.graph_branch) == (commit.graph_commit_id, "b-parent")
    assert graph.tags.create("v0", 1, branch="a-child").graph_branch == "main"
    graph.branches.delete("a-child")
    with pytest.raises(BranchHasTags):
        graph.branches.delete("b-parent")
    assert graph.snapshot("v1").count("Person") == 2


def pins(snapshot: Snapshot) -> set[tuple[str, str | None, int]]:
    return {
        (each.table_key, each.native_dataset_branch, each.published_dataset_version)
        for each in snapshot.tables
    }


def test_the_pins_of_tags_are_those_of_their_commits(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    graph.tags.create("v1")
    graph.branches.create("rev")
    upsert(graph, "b", branch="rev")
    graph.tags.create("v2", branch="rev")
    upsert(graph, "c")
    graph.tags.create("gone")
    graph.tags.delete("gone")
    found = {(pin.table_key, pin.branch, pin.version) for pin in tagged_pins(graph._graph.lines)}
    assert found == pins(graph.snapshot("v1")) | pins(graph.snapshot("v2"))
    assert not pins(graph.snapshot()) <= found


def test_an_older_commit_gets_a_tag_only_while_its_data_is_there_and_no_cleanup_runs(
    graphs: Opened,
) -> None:
    graph, other = graphs.init(), graphs.open(LEASE_WAIT_MS="1")
    upsert(graph, "a")
    old = table_files(graphs.root)
    upsert(graph, "b")
    with graph._graph.leases.holding(MAINTENANCE_SCOPE):
        with pytest.raises(BranchBusy):
            other.tags.create("old", 1)
        assert other.tags.create("head").graph_manifest_version == 2
    other.tags.create("old", 1)
    assert state(other.snapshot("old"))["Person"].keys() == {"a"}
    for path in old:
        (graphs.root / path).unlink()
    with pytest.raises(SnapshotReclaimed):
        graph.tags.create("older", 0)


def test_a_head_that_moves_while_it_gets_a_tag_still_gets_it(graphs: Opened) -> None:
    other = graphs.init()
    commit = upsert(other, "a")
    graph = during_the_merge(graphs, lambda: upsert(other, "b"))
    assert graph.tags.create("v1").graph_commit_id == commit.graph_commit_id
    assert graph.snapshot("v1").count("Person") == 1


def test_tags_outlive_joined_fragments_and_cost_the_same_after_a_long_history(
    graphs: Opened,
) -> None:
    watcher = Watcher()
    graphs.init().close()
    graph = graphs.coordinated(observer=watcher)
    costs = []
    for number in range(2):
        for name in range(18):
            with graph.write() as writer:
                writer.upsert("Person", people(f"{number}-{name}"))
                writer.commit()
        watcher.calls.clear()
        graph.tags.create(f"v{number}")
        graph.tags.get(f"v{number}")
        merged = [call.operation for call in watcher.calls].index("merge")
        costs.append([call.operation for call in watcher.calls[: merged + 1]])
    assert costs[0] == costs[1]
    assert "scan" not in costs[0]
    again = graphs.open()
    assert listed(graph) == listed(again) == ["v0", "v1"]
    assert [again.snapshot(tag).count("Person") for tag in ("v0", "v1")] == [18, 36]


def test_rows_of_kinds_that_a_release_does_not_know_are_passed_over(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    unknown = {"object_id": "bell:1", "object_type": "bell", "metadata": json.dumps({"rings": 1})}
    merge_raw(graphs.storage(), unknown)
    for each in (graph, graphs.open()):
        upsert(each, "b")
        each.branches.create("rev")
        assert names(each, "rev") == ["a", "b"]
        each.branches.delete("rev")
    assert graph._graph.lines.read(MAIN_BRANCH_ID).tags() == {}
