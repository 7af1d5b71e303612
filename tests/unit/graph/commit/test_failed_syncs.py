"""A disk that does not make a version durable: nothing is acknowledged, and nothing is forgotten.

A sync that failed cannot be repeated: the kernel may have dropped what it could not write, and says
so once, to any process. What is found later is therefore written anew.
"""

import errno
from pathlib import Path

import pytest
from tests.unit.graph.graphs import (
    Killed,
    Opened,
    Watcher,
    killed_at,
    names,
    people,
    require_settled,
    sidecars,
    upsert,
)

from omnigraph import Graph
from omnigraph.errors import OmnigraphError, RecoveryRequired, StorageUnavailable
from omnigraph.failpoints import Action, armed
from omnigraph.graph.commit.txn import WriteRequest
from omnigraph.graph.manifest.intent import SidecarKind
from omnigraph.graph.writer import Writer
from omnigraph.ids import MAIN_BRANCH
from omnigraph.storage.calls import StoreCall

LINE = "__manifest/_versions/"


class Disk(Watcher):
    """Fails syncs of what is named, as often as asked."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: list[str] = []

    def break_syncs(self, part: str, times: int = 1 << 30) -> None:
        left = [times]

        def act(call: StoreCall) -> None:
            if call.operation == "sync" and part in call.target and left[0]:
                left[0] -= 1
                self.failed.append(call.target)
                raise OSError(errno.EIO, "Input/output error")

        self.before_each = act

    def work(self) -> None:
        self.before_each = None


@pytest.fixture
def disk(graphs: Opened) -> Disk:
    upsert(graphs.init(), "a")
    return Disk()


@pytest.fixture
def graph(graphs: Opened, disk: Disk) -> Graph:
    return synced(graphs, disk)


def synced(graphs: Opened, disk: Disk) -> Graph:
    return graphs.coordinated(observer=disk, DURABILITY="full")


def newest(folder: Path) -> Path:
    return min(folder.glob("_versions/*.manifest"))


@pytest.mark.parametrize("times", [1, 1 << 30], ids=["once", "always"])
def test_a_publish_that_is_not_synced_is_not_acknowledged_and_keeps_its_sidecar(
    graphs: Opened, disk: Disk, graph: Graph, times: int
) -> None:
    disk.break_syncs(LINE, times)
    with pytest.raises(RecoveryRequired) as caught:
        upsert(graph, "b")
    assert disk.failed
    (left,) = sidecars(graphs.root)
    assert left.stem == caught.value.details["operation_id"]
    disk.work()
    upsert(graph, "c")
    assert names(graph) == ["a", "b", "c"]
    require_settled(graph)


def test_what_was_not_synced_is_written_anew_by_whoever_settles_it(
    graphs: Opened, disk: Disk, graph: Graph
) -> None:
    disk.break_syncs(LINE)
    with pytest.raises(RecoveryRequired):
        upsert(graph, "b")
    version = newest(graphs.root / "__manifest")
    before, content = version.stat().st_ino, version.read_bytes()
    graph.close()
    disk.work()
    disk.calls.clear()
    again = synced(graphs, disk)
    assert sidecars(graphs.root) == []
    assert version.stat().st_ino != before
    assert version.read_bytes() == content
    done = [(call.operation, call.target) for call in disk.calls]
    (removed,) = [each for each in done if each[0] == "delete" and "__recovery" in each[1]]
    assert done.index(("sync", f"{LINE}{version.name}")) < done.index(removed)
    assert names(again) == ["a", "b"]


def test_a_power_cut_that_takes_the_publish_leaves_enough_to_repeat_it(
    graphs: Opened, disk: Disk, graph: Graph
) -> None:
    disk.break_syncs(LINE)
    with pytest.raises(RecoveryRequired):
        upsert(graph, "b")
    graph.close()
    newest(graphs.root / "__manifest").unlink()
    assert names(graphs.read_only()) == ["a"]
    again = graphs.open()
    assert names(again) == ["a", "b"]
    require_settled(again)


def test_a_commit_that_is_found_after_a_lost_answer_is_synced_before_it_is_told(
    graphs: Opened, disk: Disk, graph: Graph
) -> None:
    disk.break_syncs(LINE)
    with armed("publish.ack_lost", Action.RAISE), pytest.raises(RecoveryRequired):
        upsert(graph, "b")
    assert len(sidecars(graphs.root)) == 1
    disk.work()
    with armed("publish.ack_lost", Action.RAISE):
        upsert(graph, "c")
    assert names(graph) == ["a", "b", "c"]


def test_a_write_beside_one_that_cannot_be_made_durable_is_refused(
    graphs: Opened, disk: Disk, graph: Graph
) -> None:
    disk.break_syncs(LINE)
    with pytest.raises(RecoveryRequired):
        upsert(graph, "b")
    left = sidecars(graphs.root)
    with pytest.raises(StorageUnavailable):
        upsert(graph, "c")
    other = synced(graphs, disk)  # An open that cannot settle it opens all the same.
    with pytest.raises(StorageUnavailable):
        upsert(other, "c")
    assert sidecars(graphs.root) == left
    assert names(graph) == ["a", "b"]


def test_a_receipt_that_is_found_by_its_key_is_synced_before_it_is_told(
    graphs: Opened, disk: Disk, graph: Graph
) -> None:
    request = WriteRequest(
        kind=SidecarKind.MUTATION, branch=MAIN_BRANCH, idempotency_key="k", request_digest="d"
    )

    def send() -> object:
        writer = Writer(graph._graph.protocol, graph._graph.ids, request, graph.snapshot())
        writer.upsert("Person", people("b"))
        return graph._graph.protocol.run(writer._request, writer._prepare)

    disk.break_syncs(LINE)
    for refusal in (RecoveryRequired, StorageUnavailable):
        with pytest.raises(refusal):
            send()
    assert len(sidecars(graphs.root)) == 1
    disk.work()
    assert send() is not None
    assert sidecars(graphs.root) == []
    assert len(graph.commits.list(kind="mutation")) == 2
    disk.break_syncs(LINE)
    with pytest.raises(StorageUnavailable):
        send()


def test_a_table_that_is_not_synced_is_written_anew_before_it_is_published(
    graphs: Opened, disk: Disk, graph: Graph
) -> None:
    disk.break_syncs("nodes/")
    with pytest.raises((RecoveryRequired, StorageUnavailable)):
        upsert(graph, "b")
    disk.break_syncs("/_versions/")
    with pytest.raises(RecoveryRequired):
        upsert(graph, "b")
    assert names(graph) == ["a"]
    version = graphs.root / disk.failed[-1]
    before = version.stat().st_ino
    graph.close()
    disk.work()
    again = synced(graphs, disk)
    assert version.stat().st_ino != before
    assert names(again) == ["a", "b"]
    require_settled(again)


def test_a_fork_that_was_not_synced_is_written_anew_when_it_is_used(
    graphs: Opened, disk: Disk, graph: Graph
) -> None:
    line = f"tree/b-{graph.branches.create('rev').branch_id}/_versions/"
    disk.break_syncs(line)
    with pytest.raises(StorageUnavailable):
        upsert(graph, "b", branch="rev")
    version = graphs.root / disk.failed[-1]
    before = version.stat().st_ino
    disk.work()
    upsert(graph, "b", branch="rev")
    assert version.stat().st_ino != before
    assert names(graph, "rev") == ["a", "b"]
    require_settled(graph, "rev")


@pytest.mark.parametrize("act", ["create", "delete"])
def test_a_branch_row_that_is_not_synced_is_not_acknowledged(
    graphs: Opened, disk: Disk, graph: Graph, act: str
) -> None:
    branches = graph.branches
    if act == "delete":
        upsert(graph, "b", branch=branches.create("rev").name)
    change = getattr(branches, act)
    files = {path for path in graphs.root.rglob("*") if "/tree/" in str(path)}
    disk.break_syncs(LINE)
    with pytest.raises(OmnigraphError, match="durable"):
        change("rev")
    assert files <= set(graphs.root.rglob("*")), "nothing goes before the row is durable"
    disk.break_syncs(LINE, times=1)
    change("other" if act == "create" else branches.create("other").name)


def test_a_discarded_write_keeps_its_sidecar_until_that_is_durable(
    graphs: Opened, disk: Disk, graph: Graph
) -> None:
    graph.branches.create("rev")
    with killed_at("mutation.post_table_commit"), pytest.raises(Killed):
        upsert(graph, "b", branch="rev")
    with killed_at("branch_delete.post_publish_pre_reclaim"), pytest.raises(Killed):
        graph.branches.delete("rev")
    disk.break_syncs(LINE)
    synced(graphs, disk)
    assert len(sidecars(graphs.root)) == 1
    disk.work()
    again = synced(graphs, disk)
    assert sidecars(graphs.root) == []
    assert [each.recovery_kind for each in again.maintenance.recoveries()] == ["discarded"]


def test_a_sidecar_is_durable_before_a_recovery_moves_a_table(
    graphs: Opened, disk: Disk, graph: Graph
) -> None:
    """Else a power cut could take it, and leave versions that nothing explains."""
    with killed_at("mutation.post_phase_a"), pytest.raises(Killed):
        upsert(graph, "b")
    (left,) = sidecars(graphs.root)
    graph.close()
    disk.calls.clear()
    synced(graphs, disk)
    done = [(call.operation, call.target) for call in disk.calls]
    kept = done.index(("sync", left.relative_to(graphs.root).as_posix()))
    assert kept < done.index(("commit", "node:Person"))
