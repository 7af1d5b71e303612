"""What a write does when a table, a fork or its lease is not as it left them."""

import pyarrow as pa
import pytest
from lance import LanceOperation
from tests.extended import thinned
from tests.unit.graph.graphs import (
    Killed,
    Opened,
    Watcher,
    killed_at,
    lose_lease,
    names,
    once,
    require_settled,
    sidecars,
    state,
    table_files,
    upsert,
)

from omnigraph import Graph
from omnigraph.errors import DriftNeedsRepair, RecoveryRequired, StorageUnavailable
from omnigraph.failpoints import Action, FailpointHit, armed
from omnigraph.graph.commit.txn import PreparedWrite, WriteRequest, WriteTxn
from omnigraph.graph.manifest.intent import SidecarKind
from omnigraph.graph.manifest.rows import CommitRow
from omnigraph.graph.manifest.table_refs import pin_of
from omnigraph.ids import MAIN_BRANCH_ID, BranchId, BranchName, OperationId
from omnigraph.storage.handles import TableHandle, WriteStamp
from omnigraph.storage.table_store import TableStore
from omnigraph.storage.transactions import staged


def person_table(graph: Graph, *, seq: int | None = None) -> TableHandle:
    """The table of persons at the head of main, or at an older commit."""
    coordinator = graph._graph
    line = coordinator.lines.read(MAIN_BRANCH_ID)
    pins = line.pins if seq is None else line.pins_at(seq)
    (ref,) = [each for each, pin in pins.items() if pin.table_key == "node:Person"]
    layout = coordinator.schemas.tables(line.schema.schema_hash).layouts[ref]
    return coordinator.tables.open(layout, pin_of(pins[ref]))


def move(graph: Graph, handle: TableHandle, name: str, operation_id: str) -> None:
    """A version above the pin, made by the operation of that id."""
    tables = graph._graph.tables
    rows = pa.Table.from_pylist([{"id": name, "name": name}], schema=handle.layout.schema)
    stamp = WriteStamp(operation_id=OperationId(operation_id), kind="mutation")
    (link,) = tables.stage_append(handle, rows, stamp).links
    tables.commit_staged(handle, link)


def test_a_table_that_something_else_wrote_to_is_left_alone_and_stays_readable(
    graphs: Opened,
) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    move(graph, person_table(graph), "stranger", "nobody")
    before = table_files(graphs.root)
    with pytest.raises(DriftNeedsRepair, match="omnigraph repair") as caught:
        upsert(graph, "b")
    assert caught.value.details["table"] == "node:Person"
    assert table_files(graphs.root) == before
    assert sidecars(graphs.root) == []
    assert names(graph) == ["a"]


def adopt_automatic_cleanup(graph: Graph) -> None:
    """Pin a version that carries settings by which Lance deletes old versions."""
    settings: dict[str, str | None] = {
        "lance.auto_cleanup.interval": "1",
        "lance.auto_cleanup.older_than": "0s",
    }
    operation = LanceOperation.UpdateConfig(
        config_updates=LanceOperation.UpdateMap(settings, replace=False)
    )
    request = WriteRequest(kind=SidecarKind.TABLE_SETTINGS, branch=BranchName("main"))
    (ref,) = [
        each
        for each, pin in graph._graph.lines.read(MAIN_BRANCH_ID).pins.items()
        if pin.table_key == "node:Person"
    ]

    def prepare(txn: WriteTxn) -> PreparedWrite:
        store = txn.store
        assert isinstance(store, TableStore)
        return PreparedWrite(
            staged=(staged(store._writing, txn.writable(ref), operation, txn.stamp),)
        )

    assert graph._graph.protocol.run(request, prepare) is not None


def test_settings_that_delete_old_versions_go_before_the_first_write(graphs: Opened) -> None:
    graph = graphs.init()
    first = upsert(graph, "a")
    adopt_automatic_cleanup(graph)
    assert person_table(graph).dataset.config()
    upsert(graph, "b")
    assert person_table(graph).dataset.config() == {}
    assert [each.kind for each in graph.commits][:3] == ["mutation", *["table_settings"] * 2]
    assert names(graphs.open()) == ["a", "b"]
    assert graph.snapshot(first.graph_commit_id).count("Person") == 1
    require_settled(graph)


@pytest.mark.parametrize(
    "point",
    thinned(
        [
            "table_settings.post_phase_a",
            "table_settings.post_table_commit",
            "table_settings.post_phase_b_pre_manifest_commit",
            "table_settings.post_capture",
            "table_settings.post_stage_pre_lease",
            "table_settings.post_lease_pre_sidecar",
            "table_settings.pre_table_commit",
            "table_settings.post_phase_c_pre_phase_d",
            "table_settings.post_phase_d_pre_release",
        ],
        keep=3,
    ),
)
def test_a_write_that_dies_while_it_removes_such_settings_leaves_all_or_nothing(
    graphs: Opened, point: str
) -> None:
    graph = graphs.init()
    first = upsert(graph, "a")
    adopt_automatic_cleanup(graph)
    with killed_at(point), pytest.raises(Killed):
        upsert(graph, "b")
    again = graphs.open()
    assert (names(again), sidecars(graphs.root)) == (["a"], [])
    with armed("table_settings.between_links", Action.RAISE):  # It has one link.
        upsert(again, "b")
    assert person_table(again).dataset.config() == {}
    assert again.snapshot(first.graph_commit_id).count("Person") == 1
    require_settled(again)


def test_a_removal_of_settings_that_lacks_only_its_publish_is_finished(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    adopt_automatic_cleanup(graph)
    with (
        killed_at("table_settings.post_phase_b_pre_manifest_commit"),
        pytest.raises(Killed),
    ):
        upsert(graph, "b")
    again = graphs.open()
    (record,) = again.maintenance.recoveries()
    assert (record.recovery_kind, record.writer_kind) == ("rolled_forward", "table_settings")
    assert person_table(again).dataset.config() == {}


def test_the_residue_of_a_settled_operation_is_removed_by_the_next_write(graphs: Opened) -> None:
    graph = graphs.init()
    made = upsert(graph, "a")
    move(graph, person_table(graph), "late", made.operation_id)
    upsert(graph, "b")
    assert names(graph) == names(graphs.open()) == ["a", "b"]
    require_settled(graph)
    (record,) = graph.maintenance.recoveries()
    assert (record.recovery_kind, record.writer_kind) == ("rolled_back", "repair")
    kinds = [each.kind for each in graph.commits]
    assert kinds == ["mutation", "recovery", "mutation", "genesis"]


def test_a_fork_of_another_version_is_made_anew(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    upsert(graph, "b")
    rev = graph.branches.create("rev")
    graph._graph.tables.fork(person_table(graph, seq=1), BranchId(rev.branch_id))
    with armed("fork.pre_reclaim", Action.RAISE), pytest.raises(FailpointHit):
        upsert(graph, "c", branch="rev")
    upsert(graph, "c", branch="rev")
    assert names(graph, "rev") == ["a", "b", "c"]
    require_settled(graph, "main", "rev")


def test_a_fork_that_something_moved_is_left_alone(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    rev = graph.branches.create("rev")
    handle = person_table(graph)
    tables = graph._graph.tables
    forked = tables.open(handle.layout, tables.fork(handle, BranchId(rev.branch_id)))
    move(graph, forked, "stranger", "nobody")
    with pytest.raises(DriftNeedsRepair):
        upsert(graph, "b", branch="rev")
    assert names(graph, "rev") == ["a"]


@pytest.mark.parametrize("point", ["mutation.post_lease_pre_sidecar", "mutation.post_phase_a"])
def test_a_lease_that_is_lost_before_a_table_moved_starts_the_write_over(
    graphs: Opened, point: str
) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    with armed(point, once(lambda: lose_lease(graphs.root, released=True))):
        upsert(graph, "b")
    assert names(graph) == ["a", "b"]
    assert len(graph.commits.list(kind="mutation")) == 2
    require_settled(graph)


def test_a_lease_that_is_lost_between_table_and_publish_leaves_the_outcome_to_the_next(
    graphs: Opened,
) -> None:
    graph = graphs.init(actor="alice")
    upsert(graph, "a")
    with (
        armed("mutation.post_table_commit", once(lambda: lose_lease(graphs.root, released=True))),
        pytest.raises(RecoveryRequired) as caught,
    ):
        upsert(graph, "b")
    assert [path.stem for path in sidecars(graphs.root)] == [caught.value.details["operation_id"]]
    assert names(graph) == ["a"]
    upsert(graphs.open(), "c")
    assert names(graph) == ["a", "b", "c"]
    (found,) = graph.commits.list(operation=str(caught.value.details["operation_id"]))
    assert found.recovered
    assert found.actor_id == "alice"
    require_settled(graph)


@pytest.mark.parametrize("point", ["mutation.pre_table_commit", "mutation.post_table_commit"])
def test_a_write_that_fails_half_way_is_rolled_back_on_the_spot(graphs: Opened, point: str) -> None:
    graph = graphs.init()
    upsert(graph, "a", age=1)
    before = state(graph.snapshot())

    def both() -> None:
        with graph.write() as writer:
            writer.upsert("Person", pa.table({"name": ["b"]}))
            writer.upsert("Doc", pa.table({"title": ["t"]}))
            writer.commit()

    with armed(point, once(_fail)), pytest.raises(FailpointHit):
        both()
    assert state(graph.snapshot()) == before
    require_settled(graph)
    (record,) = graph.maintenance.recoveries()
    assert record.recovery_kind == "rolled_back"
    both()
    assert names(graph) == ["a", "b"]


def _fail() -> None:
    raise FailpointHit("half way")


def test_a_write_that_loses_every_round_of_its_publish_lands_by_its_own_recovery(
    graphs: Opened,
) -> None:
    graph = graphs.init()
    left = [5]

    def lose() -> None:
        if left[0]:
            left[0] -= 1
            raise OSError("Too many concurrent writers")

    with armed("publish.contention", lose):
        made = upsert(graph, "a")
    assert left == [0]
    assert names(graph) == ["a"]
    assert graph.commits.get(made.graph_commit_id).recovered
    require_settled(graph)


def test_a_sidecar_that_cannot_be_removed_does_not_fail_the_write(graphs: Opened) -> None:
    graphs.init()
    watcher = Watcher()
    graph = graphs.coordinated(observer=watcher)
    watcher.fail("delete", "__recovery", OSError("down"))
    made = upsert(graph, "a")
    watcher.before_each = None
    assert len(sidecars(graphs.root)) == 1
    again = graphs.open()
    assert sidecars(graphs.root) == []
    assert [each.graph_commit_id for each in again.commits.list(kind="mutation")] == [
        made.graph_commit_id
    ]
    assert again.maintenance.recoveries() == []


def test_a_store_that_fails_before_anything_moved_leaves_nothing(graphs: Opened) -> None:
    graphs.init()
    watcher = Watcher()
    graph = graphs.coordinated(observer=watcher)
    before = table_files(graphs.root)
    watcher.fail("create", "__recovery", OSError("down"))
    with pytest.raises(StorageUnavailable):
        upsert(graph, "a")
    watcher.before_each = None
    assert table_files(graphs.root) == before
    assert sidecars(graphs.root) == []
    upsert(graph, "a")


def test_refresh_finishes_what_lacks_only_its_publish_and_restores_nothing(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    over = once(lambda: lose_lease(graphs.root, released=True))
    with armed("mutation.post_table_commit", over), pytest.raises(RecoveryRequired):
        upsert(graph, "a")
    other.refresh()
    assert names(other) == ["a"]
    over = once(lambda: lose_lease(graphs.root, released=True))
    writer = graph.write()
    writer.upsert("Person", pa.table({"name": ["b"]}))
    writer.upsert("Doc", pa.table({"title": ["t"]}))
    with armed("mutation.pre_table_commit", over), pytest.raises(RecoveryRequired):
        writer.commit()
    before = table_files(graphs.root)
    other.refresh()
    assert table_files(graphs.root) == before
    assert len(sidecars(graphs.root)) == 1
    assert names(graphs.open()) == ["a"]
    require_settled(graph)


JOB = "01J00000000000000000000JOB"


def commit_job(graph: Graph, *, key: str | None = None, branch: str = "main") -> CommitRow:
    """The one row of one job, as any process that goes on with it commits it."""

    def prepare(txn: WriteTxn) -> PreparedWrite:
        (ref,) = [each for each, pin in txn.line.pins.items() if pin.table_key == "node:Person"]
        handle = txn.writable(ref)
        row = pa.Table.from_pylist([{"id": "j", "name": "j"}], schema=handle.layout.schema)
        staged = txn.store.stage_append(handle, row, txn.stamp)
        return PreparedWrite(staged=(staged,), stats={"load": {"job": JOB}})

    request = WriteRequest(
        kind=SidecarKind.LOAD,
        branch=BranchName(branch),
        idempotency_key=key,
        request_digest=key,
        job=JOB,
    )
    row = graph._graph.protocol.run(request, prepare)
    assert row is not None
    return row


@pytest.mark.parametrize("keys", [(None, None), ("a", None), (None, "a"), ("a", "b"), ("a", "a")])
def test_of_two_processes_at_one_job_the_later_gets_the_commit_of_the_other(
    graphs: Opened, keys: tuple[str | None, str | None]
) -> None:
    graph, other = graphs.init(), graphs.open()
    made: list[CommitRow] = []
    between = once(lambda: made.append(commit_job(other, key=keys[1])))
    with armed("load.post_stage_pre_lease", between):
        assert commit_job(graph, key=keys[0]) == made[0]
    assert (names(graph), len(graph.commits.list(kind="load"))) == (["j"], 1)


def test_a_job_whose_commit_lacks_only_its_publish_is_not_committed_again(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    with killed_at("load.post_phase_b_pre_manifest_commit"), pytest.raises(Killed):
        commit_job(graph, key="a")
    done = commit_job(other)
    assert done.idempotency_key == "a"
    assert names(graph) == ["j"]
    require_settled(graph)


def test_a_branch_that_has_the_rows_of_a_job_takes_no_second_commit_of_it(graphs: Opened) -> None:
    graph = graphs.init()
    graph.branches.create("before")
    done = commit_job(graph)
    graph.branches.create("after")
    assert commit_job(graph, branch="after") == done
    assert commit_job(graph, branch="before") != done
