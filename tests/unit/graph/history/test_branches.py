"""Branches: created and deleted at the cost of a few rows, and never mistaken for each other."""

import json
import threading

import pytest
from tests.unit.graph.graphs import (
    Killed,
    Opened,
    Watcher,
    committed,
    delete,
    killed_at,
    merge_rows,
    names,
    once,
    people,
    require_settled,
    rows,
    sidecars,
    state,
    table_files,
    upsert,
)

from omnigraph import Graph
from omnigraph.errors import (
    BranchBusy,
    BranchExists,
    BranchHasDescendants,
    BranchNotFound,
    InvalidBranchName,
    OmnigraphError,
    PreconditionFailed,
    ReadOnlyGraph,
)
from omnigraph.failpoints import Action, FailpointHit, armed
from omnigraph.graph.load.load_branch import load_branch
from omnigraph.graph.manifest.rows import BranchRow
from omnigraph.ids import MAIN_BRANCH_ID, BranchId, BranchName, CommitId
from omnigraph.storage.calls import StoreCall


def listed(graph: Graph) -> list[str]:
    return [each.name for each in graph.branches.list()]


def owned(graph: Graph, branch: str) -> dict[str, str | None]:
    """The Lance line that each table of a branch's head is pinned on."""
    tables = graph.snapshot(branch=branch).tables
    return {each.table_key: each.native_dataset_branch for each in tables}


def test_a_branch_starts_with_what_its_source_shows_and_goes_its_own_way(graphs: Opened) -> None:
    graph = graphs.init()
    fork = upsert(graph, "a", age=1)
    made = graph.branches.create("rev")
    assert state(graph.snapshot(branch="rev")) == state(graph.snapshot())
    upsert(graph, "a", age=2, branch="rev")
    upsert(graph, "b")
    assert names(graph) == ["a", "b"]
    assert names(graph, "rev") == ["a"]
    assert graph.snapshot().entity("Person", "a")["age"] == 1  # type: ignore[index]
    assert graph.snapshot(branch="rev").entity("Person", "a")["age"] == 2  # type: ignore[index]
    assert (made.parent, made.forked_at, made.head) == (
        "main",
        fork.graph_commit_id,
        fork.graph_commit_id,
    )
    require_settled(graph, "main", "rev")


def test_creating_and_deleting_a_branch_makes_no_commit_and_moves_no_table(graphs: Opened) -> None:
    graph = graphs.init()
    head = upsert(graph, "a").graph_commit_id
    before = table_files(graphs.root)
    graph.branches.create("rev")
    assert graph.snapshot(branch="rev").graph_commit_id == head
    graph.branches.delete("rev")
    assert graph.snapshot().graph_commit_id == head
    assert len(graph.commits.list()) == 2
    assert table_files(graphs.root) == before


def test_a_branch_owns_only_the_tables_that_it_wrote(graphs: Opened) -> None:
    graph = graphs.init()
    with graph.write() as writer:
        writer.append("Person", people("a"))
        writer.append("Doc", rows({"title": "t"}))
        writer.commit()
    rev = graph.branches.create("rev")
    assert set(owned(graph, "rev").values()) == {None}
    assert graph.branches.get("rev").tables_owned == ()
    upsert(graph, "b", branch="rev")
    line = f"b-{rev.branch_id}"
    assert owned(graph, "rev") == {"node:Doc": None, "node:Person": line, "edge:Knows": None}
    assert graph.branches.get("rev").tables_owned == ("node:Person",)
    with graph.write() as writer:
        writer.append("Doc", rows({"title": "u"}))
        writer.commit()
    assert graph.snapshot(branch="rev").count("Doc") == 1


def test_a_branch_of_a_branch_reads_through_two_lines_and_forks_its_own(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    first = graph.branches.create("one")
    upsert(graph, "b", branch="one")
    second = graph.branches.create("two", from_="one")
    assert second.parent == "one"
    assert owned(graph, "two")["node:Person"] == f"b-{first.branch_id}"
    upsert(graph, "c", branch="two")
    delete(graph, "a", branch="two")
    assert owned(graph, "two")["node:Person"] == f"b-{second.branch_id}"
    third = graph.branches.create("two/three", from_="two")
    upsert(graph, "d", branch="two/three")
    assert (names(graph), names(graph, "one")) == (["a"], ["a", "b"])
    assert names(graph, "two") == ["b", "c"]
    assert names(graph, "two/three") == ["b", "c", "d"]
    assert third.parent == "two"
    require_settled(graph, "main", "one", "two", "two/three")


def test_branches_are_listed_with_main_first_and_then_by_name(graphs: Opened) -> None:
    graph = graphs.init(actor="alice")
    for name in ("rev/1", "Zeta", "rev", "alpha"):
        graph.branches.create(name)
    assert listed(graph) == ["main", "Zeta", "alpha", "rev", "rev/1"]
    found = graph.branches.get("rev")
    assert found == graph.branches.list()[3]
    assert found.actor_id == "alice"
    assert found.created_at is not None
    assert found.to_dict()["tables_owned"] == []
    main = graph.branches.get("main")
    assert (main.branch_id, main.parent, main.forked_at) == ("main", None, None)


def test_a_name_is_taken_while_its_branch_lives(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    graph.branches.create("rev")
    for each in (graph, other):
        with pytest.raises(BranchExists):
            each.branches.create("rev")
    with pytest.raises(BranchExists):
        graph.branches.create("rev", from_="nobody")
    other.branches.create("Rev")
    other.branches.create("rev/1")


def test_bad_names_and_missing_sources_change_nothing(graphs: Opened) -> None:
    graph = graphs.init()
    with pytest.raises(InvalidBranchName):
        graph.branches.create("main")
    with pytest.raises(InvalidBranchName):
        graph.branches.create("a b")
    with pytest.raises(BranchNotFound, match="live branches: main"):
        graph.branches.create("rev", from_="nobody")
    with pytest.raises(BranchNotFound):
        graph.branches.get("nobody")
    with pytest.raises(BranchNotFound):
        graph.branches.delete("nobody")
    with pytest.raises(InvalidBranchName):
        graph.branches.delete("main")
    assert graphs.storage().manifest.lines() == []


def test_a_read_only_handle_makes_and_deletes_no_branch(graphs: Opened) -> None:
    graphs.init().branches.create("rev")
    reader = graphs.read_only()
    with pytest.raises(ReadOnlyGraph):
        reader.branches.create("other")
    with pytest.raises(ReadOnlyGraph):
        reader.branches.delete("rev")


def test_a_branch_with_living_children_stays(graphs: Opened) -> None:
    graph = graphs.init()
    graph.branches.create("one")
    for name in ("two", "three"):
        graph.branches.create(name, from_="one")
    graph.branches.create("four", from_="two")
    with pytest.raises(BranchHasDescendants) as caught:
        graph.branches.delete("one")
    assert caught.value.details["descendants"] == ["three", "two"]
    for name in ("four", "two", "three", "one"):
        graph.branches.delete(name)
    assert listed(graph) == ["main"]


def test_what_lance_keeps_for_a_deleted_branch_is_removed(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    before = table_files(graphs.root)
    graph.branches.create("one")
    upsert(graph, "b", branch="one")
    graph.branches.create("two", from_="one")
    upsert(graph, "c", branch="two")
    graph.branches.delete("two")
    graph.branches.delete("one")
    graph.close()  # It waits for what is removed in the background.
    assert table_files(graphs.root) == before
    assert graphs.storage().manifest.lines() == []
    assert names(graphs.open()) == ["a"]


def test_a_deleted_branch_is_gone_at_once_for_every_handle(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    graph.branches.create("rev")
    upsert(other, "b", branch="rev")
    assert names(graph, "rev") == ["b"]
    graph.branches.delete("rev")
    for each in (graph, other, graphs.read_only()):
        assert listed(each) == ["main"]
        with pytest.raises(BranchNotFound):
            each.snapshot(branch="rev")
    with pytest.raises(BranchNotFound):
        other.branches.delete("rev")
    with pytest.raises(BranchNotFound):
        upsert(other, "c", branch="rev")


def test_a_branch_made_again_is_another_branch(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    first = graph.branches.create("rev")
    made = upsert(graph, "old", branch="rev")
    snapshot = other.snapshot(branch="rev")
    writer = other.write("rev")
    writer.upsert("Person", people("late"))
    graph.branches.delete("rev")
    second = graph.branches.create("rev")
    assert second.branch_id != first.branch_id
    upsert(graph, "new", branch="rev")
    for each in (graph, other):
        with pytest.raises(BranchNotFound):
            each.snapshot(snapshot.resolved_snapshot)
        with pytest.raises(OmnigraphError) as caught:
            each.snapshot(made.graph_commit_id)
        assert caught.value.code == "commit_not_found"
        assert names(each, "rev") == ["new"]
    with pytest.raises(BranchNotFound):
        writer.commit()
    assert names(other, "rev") == ["new"]
    assert names(other) == []


def test_a_write_that_was_prepared_on_a_deleted_branch_finds_it_gone(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    for again in (False, True):
        graph.branches.create("rev")

        def end(*, again: bool = again) -> None:
            other.branches.delete("rev")
            if again:
                other.branches.create("rev")

        with (
            armed("mutation.post_stage_pre_lease", once(end)),
            pytest.raises(BranchNotFound),
        ):
            upsert(graph, "a", branch="rev")
    assert names(graph, "rev") == []
    assert sidecars(graphs.root) == []


def test_a_branch_whose_creation_was_cut_off_is_invisible_and_its_name_is_free(
    graphs: Opened,
) -> None:
    graph = graphs.init()
    with killed_at("branch_create.post_native"), pytest.raises(Killed):
        graph.branches.create("rev")
    assert len(graphs.storage().manifest.lines()) == 1
    for each in (graph, graphs.open()):
        assert listed(each) == ["main"]
        with pytest.raises(BranchNotFound):
            each.branches.get("rev")
    made = graph.branches.create("rev")
    upsert(graph, "a", branch="rev")
    assert names(graph, "rev") == ["a"]
    assert made.branch_id in graphs.storage().manifest.lines()


def test_a_branch_whose_deletion_was_cut_off_is_gone_and_its_name_is_free(graphs: Opened) -> None:
    graph = graphs.init()
    old = graph.branches.create("rev")
    upsert(graph, "a", branch="rev")
    with killed_at("branch_delete.post_publish_pre_reclaim"), pytest.raises(Killed):
        graph.branches.delete("rev")
    assert graphs.storage().manifest.lines() == [old.branch_id]
    assert listed(graph) == ["main"]
    new = graph.branches.create("rev")
    assert names(graph, "rev") == []
    assert new.branch_id != old.branch_id


def _register(graphs: Opened, name: str, *, deleted: BranchRow | None = None) -> BranchRow:
    """What another process would write, past the lease that the test itself holds."""
    row = deleted or BranchRow(
        name=BranchName(name),
        branch_id=BranchId("01j00000000000000000000000"),
        parent_branch_id=MAIN_BRANCH_ID,
        forked_at=CommitId("01J"),
        created_at=1,
    )
    merge_rows(graphs.storage(), [row])
    return row


def test_of_two_creators_of_one_name_the_loser_removes_its_line(graphs: Opened) -> None:
    graph = graphs.init()
    with (
        armed("branch_create.post_native", once(lambda: _register(graphs, "rev"))),
        pytest.raises(BranchExists),
    ):
        graph.branches.create("rev")
    graph.close()
    assert graphs.storage().manifest.lines() == []


def test_a_branch_is_not_made_from_one_that_was_deleted_meanwhile(graphs: Opened) -> None:
    graph = graphs.init()
    graph.branches.create("one")
    row = graph._graph.lines.branch("one")
    with (
        armed(
            "branch_create.post_native",
            once(lambda: _register(graphs, "one", deleted=row.deleted())),
        ),
        pytest.raises(BranchNotFound),
    ):
        graph.branches.create("two", from_="one")
    assert listed(graph) == ["main"]
    graph.close()
    assert graphs.storage().manifest.lines() == [row.branch_id]


def test_a_branch_starts_at_the_new_head_when_the_one_it_was_to_start_at_is_cleaned_away(
    graphs: Opened,
) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    watcher = Watcher()
    other = graphs.coordinated(observer=watcher)

    def clean(call: StoreCall) -> None:
        if call.operation == "create_line":
            watcher.before_each = None
            old = other._graph.lines.read(MAIN_BRANCH_ID).handle.version
            upsert(graph, "b")
            line = graph._graph.lines.read(MAIN_BRANCH_ID)
            graphs.storage().manifest.clean(line.handle, [old])

    watcher.before_each = clean
    made = other.branches.create("rev")
    assert made.forked_at == next(iter(graph.commits)).graph_commit_id
    assert names(other, "rev") == ["a", "b"]


def test_handles_that_create_one_name_at_once_make_one_branch(graphs: Opened) -> None:
    handles = [graphs.init(), graphs.open(), graphs.open()]
    made: list[str] = []
    lost: list[BranchExists] = []

    def attempt(graph: Graph) -> None:
        try:
            made.append(graph.branches.create("rev").branch_id)
        except BranchExists as error:
            lost.append(error)

    threads = [threading.Thread(target=attempt, args=(each,)) for each in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), len(lost)) == (1, 2)
    for handle in handles:
        handle.close()
    assert graphs.storage().manifest.lines() == made


@pytest.mark.parametrize("operation", ["create", "delete"])
def test_a_branch_row_whose_acknowledgement_is_lost_is_written_once(
    graphs: Opened, operation: str
) -> None:
    graph = graphs.init()
    if operation == "delete":
        graph.branches.create("rev")
    with armed("publish.ack_lost", once(lambda: (_ for _ in ()).throw(OSError("lost")))):
        getattr(graph.branches, operation)("rev")
    assert listed(graphs.open()) == (["main", "rev"] if operation == "create" else ["main"])


def test_a_branch_row_that_loses_every_round_is_reported_and_not_there(graphs: Opened) -> None:
    graph = graphs.init()
    with armed("publish.contention", Action.RAISE), pytest.raises(OmnigraphError) as caught:
        graph.branches.create("rev")
    assert caught.value.code == "storage_unavailable"
    assert listed(graph) == ["main"]
    graph.branches.create("rev")


def test_a_branch_deleted_while_branches_are_listed_is_left_out(graphs: Opened) -> None:
    graphs.init().branches.create("rev")
    other = graphs.open()
    for stop_at in range(1, 40):
        watcher = Watcher()
        graph = graphs.coordinated(observer=watcher)
        graph.branches.list()
        seen = [0]

        def count(_: StoreCall, stop_at: int = stop_at, seen: list[int] = seen) -> None:
            seen[0] += 1
            if seen[0] == stop_at:
                other.branches.delete("rev")

        watcher.before_each = count
        assert listed(graph) in (["main"], ["main", "rev"])
        graph.system("graph_commits")
        with pytest.raises(OmnigraphError, match="no commit"):
            graph.commits.get("nobody")
        watcher.before_each = None
        if seen[0] < stop_at:
            break
        other.branches.create("rev")
    assert stop_at > 4


def _armed_on(graph: Graph, branch: str) -> None:
    """A write of the branch that died with its sidecar armed and its table moved."""
    with killed_at("mutation.post_table_commit"), pytest.raises(Killed):
        upsert(graph, "x", branch=branch)


def test_deleting_a_branch_discards_its_unfinished_writes_with_a_note_on_main(
    graphs: Opened,
) -> None:
    graph = graphs.init(actor="alice")
    graph.branches.create("rev")
    upsert(graph, "a", branch="rev")
    _armed_on(graph, "rev")
    (left,) = sidecars(graphs.root)
    graph.branches.delete("rev")
    assert sidecars(graphs.root) == []
    (record,) = graph.maintenance.recoveries()
    assert (record.recovery_kind, record.operation_id) == ("discarded", left.stem)
    assert (record.writer_kind, record.recovery_for_actor) == ("mutation", "alice")
    assert record.graph_commit_id is None
    assert graph.system("graph_commit_recoveries")["operation_id"].to_pylist() == [left.stem]
    assert record.to_dict()["tables"] == []


def test_writes_of_a_branch_whose_deleter_died_are_discarded_by_the_next_open(
    graphs: Opened,
) -> None:
    graph = graphs.init()
    graph.branches.create("rev")
    _armed_on(graph, "rev")
    with killed_at("branch_delete.post_publish_pre_reclaim"), pytest.raises(Killed):
        graph.branches.delete("rev")
    assert len(sidecars(graphs.root)) == 1
    again = graphs.open()
    assert sidecars(graphs.root) == []
    assert [each.recovery_kind for each in again.maintenance.recoveries()] == ["discarded"]


@pytest.mark.parametrize("point", ["fork.post_create_pre_open", "mutation.post_stage_pre_lease"])
def test_a_fork_that_a_crashed_write_left_is_used_by_the_next(graphs: Opened, point: str) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    graph.branches.create("rev")
    with armed(point, Action.RAISE), pytest.raises(FailpointHit):
        upsert(graph, "b", branch="rev")
    assert names(graph, "rev") == ["a"]
    assert graph.branches.get("rev").tables_owned == ()
    upsert(graph, "c", branch="rev")
    assert names(graph, "rev") == ["a", "c"]
    require_settled(graph, "main", "rev")


def test_first_writes_of_two_handles_on_a_branch_both_land(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    upsert(graph, "a")
    graph.branches.create("rev")
    for point in ("mutation.post_capture", "mutation.post_stage_pre_lease"):
        name = point.rpartition(".")[2]
        with armed(point, once(lambda name=name: upsert(other, name, branch="rev"))):  # type: ignore[misc]
            upsert(graph, f"after {name}", branch="rev")
    assert names(graph, "rev") == [
        "a",
        "after post_capture",
        "after post_stage_pre_lease",
        "post_capture",
        "post_stage_pre_lease",
    ]
    require_settled(graph, "main", "rev")


def test_a_commit_of_a_deleted_branch_is_listed_nowhere(graphs: Opened) -> None:
    graph = graphs.init()
    graph.branches.create("rev")
    with graph.write("rev") as writer:
        writer.append("Person", people("a"))
        made = committed(writer.commit())
    assert made.graph_commit_id in graph.system("graph_commits")["graph_commit_id"].to_pylist()
    graph.branches.delete("rev")
    assert made.graph_commit_id not in graph.system("graph_commits")["graph_commit_id"].to_pylist()


def test_a_branch_is_neither_made_nor_deleted_under_a_lost_lease(graphs: Opened) -> None:
    graph = graphs.init()
    graph.branches.create("old")
    coordinator = graph._graph

    def lose(scope: str) -> None:
        folder = graphs.root / "__leases" / scope
        newest = max(int(path.stem) for path in folder.glob("*.json"))
        (folder / f"{newest + 1:012d}.json").write_bytes(
            (folder / f"{newest:012d}.json").read_bytes()
        )

    with (
        armed("branch_create.post_native", once(lambda: lose("schema"))),
        pytest.raises(BranchBusy),
    ):
        graph.branches.create("new")
    assert [each.name for each in coordinator.lines.read(MAIN_BRANCH_ID).branches().values()] == [
        "old"
    ]


def test_a_branch_is_deleted_only_while_its_head_is_the_given_commit(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    made = graph.branches.create("rev")
    wrote = upsert(graph, "b", branch="rev")
    with pytest.raises(PreconditionFailed) as caught:
        graph.branches.delete("rev", if_commit=made.head)
    assert caught.value.details == {"expected": made.head, "actual": wrote.graph_commit_id}
    assert names(graph, "rev") == ["a", "b"]
    graph.branches.delete("rev", if_commit=wrote.graph_commit_id)
    assert listed(graph) == ["main"]


def test_a_commit_that_lands_before_the_lease_of_a_conditional_delete_is_kept(
    graphs: Opened,
) -> None:
    graph, other = graphs.init(), graphs.open()
    made = graph.branches.create("rev")
    with (
        armed("lease.post_create", once(lambda: upsert(other, "b", branch="rev"))),
        pytest.raises(PreconditionFailed),
    ):
        graph.branches.delete("rev", if_commit=made.head)
    assert names(graph, "rev") == ["b"]


def test_a_write_that_lacks_only_its_publish_keeps_a_branch_from_a_conditional_delete(
    graphs: Opened,
) -> None:
    graph, other = graphs.init(), graphs.open()
    made = graph.branches.create("rev")
    with killed_at("mutation.post_phase_b_pre_manifest_commit"), pytest.raises(Killed):
        upsert(graph, "x", branch="rev")
    with pytest.raises(PreconditionFailed):
        other.branches.delete("rev", if_commit=made.head)
    assert names(graph, "rev") == ["x"]
    require_settled(graph, "rev")


def test_a_conditional_delete_that_loses_its_lease_while_it_writes_is_taken_back(
    graphs: Opened,
) -> None:
    graph = graphs.init()
    made = graph.branches.create("rev")
    folder = graphs.root / "__leases" / f"branch-{made.branch_id}"

    def expire_and_write(call: StoreCall) -> None:
        if call.operation == "merge":
            watcher.before_each = None
            (newest,) = folder.glob("*.json")
            body = json.loads(newest.read_bytes()) | {"released": True}
            (folder / f"{int(newest.stem) + 1:012d}.json").write_text(json.dumps(body))
            upsert(graph, "late", branch="rev")

    watcher = Watcher()
    deleter = graphs.coordinated(observer=watcher)
    watcher.before_each = expire_and_write
    with pytest.raises(BranchBusy, match="send the same again"):
        deleter.branches.delete("rev", if_commit=made.head)
    assert names(graph, "rev") == ["late"]
    with pytest.raises(PreconditionFailed):
        deleter.branches.delete("rev", if_commit=made.head)


def test_the_branch_of_a_failed_load_stays_for_whoever_wrote_to_it_first(graphs: Opened) -> None:
    """Also between its creation and the answer to whoever created it."""
    graph = graphs.init()

    def write(call: StoreCall) -> None:
        if call.operation == "merge":
            watcher.after_each = None
            upsert(graph, "early", branch="rev")

    watcher = Watcher()
    loader = graphs.coordinated(observer=watcher)
    watcher.after_each = write
    with (
        pytest.raises(BranchBusy, match="'rev' that this load created stays"),
        load_branch(loader._graph, "rev", "main", actor_id=None),
    ):
        raise BranchBusy("the load failed")
    assert names(graph, "rev") == ["early"]
