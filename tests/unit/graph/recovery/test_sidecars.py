"""What an interrupted write leaves concerns its own branch, whatever it says."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from tests.extended import thinned
from tests.unit.graph.graphs import (
    Killed,
    Opened,
    Watcher,
    committed,
    killed_at,
    lose_lease,
    names,
    once,
    require_settled,
    rows,
    sidecars,
    upsert,
)

from omnigraph import Graph
from omnigraph.errors import (
    OmnigraphError,
    RecoveryBlocked,
    RecoveryRequired,
    StorageVersionTooNew,
)
from omnigraph.failpoints import armed
from omnigraph.graph.commit.txn import MergedHistory, PreparedWrite, WriteRequest, WriteTxn
from omnigraph.graph.manifest.intent import SidecarKind
from omnigraph.graph.manifest.rows import CommitRow
from omnigraph.ids import MAIN_BRANCH, MAIN_BRANCH_ID

PUBLISH_MISSING = "mutation.post_phase_b_pre_manifest_commit"
HALF_WAY = "mutation.post_phase_a"


def die(graph: Graph, name: str, *, point: str = PUBLISH_MISSING, branch: str = "main") -> None:
    """A write that dies, and whose lease is seen to be free."""
    with killed_at(point), pytest.raises(Killed):
        upsert(graph, name, branch=branch)


def befriend(graph: Graph, src: str, dst: str) -> None:
    with graph.write() as writer:
        writer.append("Knows", rows({"src": src, "dst": dst}))
        committed(writer.commit())


def to_old_path(path: Path) -> Path:
    """Where an older release would have left the sidecar."""
    return path.rename(path.parents[1] / path.name)


def rewrite(path: Path, **changes: Any) -> None:  # noqa: ANN401 - JSON values
    path.write_text(json.dumps(json.loads(path.read_bytes()) | changes))


# --- healing before preparing -------------------------------------------------------------------


def test_a_write_is_prepared_on_what_a_dead_writer_had_all_but_published(graphs: Opened) -> None:
    graph, dead = graphs.init(), graphs.open()
    upsert(graph, "a")
    die(dead, "b")
    befriend(graph, "a", "b")
    assert names(graph) == ["a", "b"]
    require_settled(graph)


class Waited(Exception):
    """Instead of a pause."""


def test_a_write_does_not_wait_for_a_live_writer_before_it_is_prepared(graphs: Opened) -> None:
    """It is prepared beside the other and judged when the lease is free."""
    graph, other = graphs.init(), graphs.open()
    upsert(graph, "a")
    prepared: list[int] = []

    def meanwhile() -> None:
        with (
            patch.object(other._graph.pauses, "for_lease", side_effect=Waited),
            armed("load.post_stage_pre_lease", lambda: prepared.append(1)),
            pytest.raises(Waited),
        ):
            other.load(b'{"type": "Person", "data": {"name": "c"}}\n', mode="merge")

    with armed("mutation.post_phase_a", once(meanwhile)):
        upsert(graph, "b")
    assert prepared == [1]
    assert names(graph) == ["a", "b"]


def test_a_write_looks_for_sidecars_of_its_branch_once_before_it_is_prepared(
    graphs: Opened,
) -> None:
    graphs.init()
    watcher = Watcher()
    graph = graphs.coordinated(observer=watcher)
    graph.branches.create("rev")
    for branch in ("main", "rev"):
        upsert(graph, "a", branch=branch)
        watcher.calls.clear()
        upsert(graph, "b", branch=branch)
        branch_id = graph.branches.get(branch).branch_id
        looked = [each.target for each in watcher.calls if "__recovery" in each.target]
        assert looked[:2] == [f"__recovery/{branch_id}"] * 2
        assert {each.rpartition("/")[0] for each in looked[2:]} == {f"__recovery/{branch_id}"}


# --- one branch, one folder ---------------------------------------------------------------------


def test_a_sidecar_lies_in_the_folder_of_its_branch(graphs: Opened) -> None:
    graph = graphs.init()
    rev = graph.branches.create("rev")
    for branch, folder in (("main", MAIN_BRANCH_ID), ("rev", rev.branch_id)):
        die(graph, "a", branch=branch)
        (left,) = sidecars(graphs.root)
        assert left.parent == graphs.root / "__recovery" / folder
        graphs.open()
        assert sidecars(graphs.root) == []
        assert names(graph, branch) == ["a"]


def _unknown_field(path: Path) -> None:
    rewrite(path, added_later=True)


def _unknown_kind(path: Path) -> None:
    rewrite(path, kind="of_tomorrow")


def _no_tables(path: Path) -> None:
    body = json.loads(path.read_bytes())
    del body["tables"]
    path.write_text(json.dumps(body))


def _newer_format(path: Path) -> None:
    path.write_text(json.dumps({"format": 99, "branch_id": path.parent.name}))


def _of_another_branch(path: Path) -> None:
    rewrite(path, branch_id="01J00000000000000000000000")


DAMAGES: dict[Callable[[Path], None], type[OmnigraphError]] = {
    _unknown_field: RecoveryBlocked,
    _newer_format: StorageVersionTooNew,
    _unknown_kind: RecoveryBlocked,
    _no_tables: RecoveryBlocked,
    _of_another_branch: RecoveryBlocked,
}


def left_unreadable(graphs: Opened, damage: Callable[[Path], None]) -> tuple[Graph, Path]:
    """A graph with one row, and what a dead writer to its branch has left."""
    graph = graphs.init()
    upsert(graph, "a")
    graph.branches.create("rev")
    die(graph, "b", branch="rev")
    (left,) = sidecars(graphs.root)
    damage(left)
    return graph, left


@pytest.mark.parametrize("damage", thinned(DAMAGES, keep=2))
def test_a_sidecar_that_cannot_be_read_stops_its_branch_and_nothing_else(
    graphs: Opened, damage: Callable[[Path], None]
) -> None:
    graph, left = left_unreadable(graphs, damage)
    again = graphs.open()
    for each in (graph, again):
        with pytest.raises(DAMAGES[damage]) as caught:
            upsert(each, "c", branch="rev")
        assert left.name in str(caught.value)
        assert names(each, "rev") == ["a"]
        each.refresh()
    upsert(graph, "c")
    upsert(again, "d")
    upsert(again, "e", branch=again.branches.create("other").name)
    assert names(again) == ["a", "c", "d"]
    assert sidecars(graphs.root) == [left]


@pytest.mark.parametrize("damage", thinned(DAMAGES, keep=2))
def test_a_sidecar_that_cannot_be_read_goes_with_its_branch(
    graphs: Opened, damage: Callable[[Path], None]
) -> None:
    """Nobody could settle it any more, and a cleanup waits for what a sidecar may name."""
    graph, _ = left_unreadable(graphs, damage)
    with pytest.raises(DAMAGES[damage]):
        graph.maintenance.cleanup(keep=1, confirm=True)
    graph.branches.delete("rev")
    assert sidecars(graphs.root) == []
    assert graph.maintenance.cleanup(keep=1, confirm=True).errors == ()


@pytest.mark.parametrize("content", thinned([b'{"format": 1, "bran', b"", b"[]"]))
def test_a_sidecar_that_a_power_cut_tore_goes_with_the_next_open(
    graphs: Opened, content: bytes
) -> None:
    graph = graphs.init()
    graph.branches.create("rev")
    for branch in ("main", "rev"):
        die(graph, "a", point="mutation.post_lease_pre_sidecar", branch=branch)
    torn = [
        graphs.root / "__recovery" / "01M7KBJC94SWQDETY07EPDQBT5.json",
        graphs.root / "__recovery" / MAIN_BRANCH_ID / "01M7KBJC94SWQDETY07EPDQBT6.json",
    ]
    for path in torn:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    upsert(graph, "b")
    assert sidecars(graphs.root) == sorted(torn)
    graphs.open()
    assert sidecars(graphs.root) == []


# --- paths of older releases --------------------------------------------------------------------


@pytest.mark.parametrize("point", [PUBLISH_MISSING, HALF_WAY])
def test_a_sidecar_of_an_older_release_is_settled_by_the_next_open(
    graphs: Opened, point: str
) -> None:
    graph = graphs.init()
    graph.branches.create("rev")
    for branch in ("main", "rev"):
        die(graph, "a", point=point, branch=branch)
        to_old_path(next((graphs.root / "__recovery").glob("*/*.json")))
    again = graphs.open()
    assert sidecars(graphs.root) == []
    for branch in ("main", "rev"):
        assert names(again, branch) == (["a"] if point == PUBLISH_MISSING else [])
        upsert(again, "z", branch=branch)
    require_settled(again, "main", "rev")


def test_an_old_sidecar_that_an_open_left_is_settled_by_the_next_write(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.graph.lifecycle.coordinator._OPEN_WAIT_MS", 0)
    graph = graphs.init()
    upsert(graph, "a")
    over = once(lambda: lose_lease(graphs.root, released=False))
    with armed("mutation.post_table_commit", over), pytest.raises(RecoveryRequired):
        upsert(graph, "b")
    to_old_path(sidecars(graphs.root)[0])
    again = graphs.open()
    free(graphs.root)
    befriend(again, "a", "b")
    assert sidecars(graphs.root) == []
    require_settled(again)


def free(root: Path) -> None:
    """The holder of the lease gives it up."""
    newest = max((root / "__leases" / "branch-main").glob("*.json"))
    newest.write_text(json.dumps(json.loads(newest.read_bytes()) | {"released": True}))


def test_an_old_sidecar_that_cannot_be_read_stops_the_branch_that_it_names(graphs: Opened) -> None:
    graph = graphs.init()
    graph.branches.create("rev")
    die(graph, "a", branch="rev")
    left = to_old_path(sidecars(graphs.root)[0])
    rewrite(left, added_later=True)
    again = graphs.open()
    with pytest.raises(RecoveryBlocked):
        upsert(again, "b", branch="rev")
    upsert(again, "b")
    assert sidecars(graphs.root) == [left]


# --- sidecars that no table proves --------------------------------------------------------------


def bare(graph: Graph) -> CommitRow | None:
    """A write that moves no table, as the merge of a branch whose content is the same."""
    request = WriteRequest(kind=SidecarKind.MUTATION, branch=MAIN_BRANCH)

    def prepare(txn: WriteTxn) -> PreparedWrite:
        return PreparedWrite(merged=MergedHistory(parent=txn.line.head_commit))

    return graph._graph.protocol.run(request, prepare)


def test_a_write_without_tables_that_starts_over_lands_once(graphs: Opened) -> None:
    """Its first sidecar stays when the lease is lost, and says nothing about how far it came."""
    graph = graphs.init()
    with armed("mutation.post_phase_a", once(lambda: lose_lease(graphs.root, released=True))):
        made = bare(graph)
    assert made is not None
    landed = graph.commits.list(kind="mutation")
    assert [each.graph_commit_id for each in landed] == [made.commit_id]
    require_settled(graph)


@pytest.mark.parametrize("point", ["mutation.post_phase_a", "publish.post_read_pre_commit"])
def test_a_write_without_tables_that_died_before_its_publish_is_rolled_back(
    graphs: Opened, point: str
) -> None:
    graph = graphs.init()
    with killed_at(point), pytest.raises(Killed):
        bare(graph)
    again = graphs.open()
    assert [each.kind for each in again.commits] == ["recovery", "genesis"]
    assert [each.recovery_kind for each in again.maintenance.recoveries()] == ["rolled_back"]
    require_settled(again)


@pytest.mark.parametrize(
    ("point", "is_there", "lands"),
    thinned(
        [
            (PUBLISH_MISSING, True, True),
            (PUBLISH_MISSING, False, False),
            (HALF_WAY, True, False),
            (HALF_WAY, False, False),
        ],
        keep=2,
    ),
)
def test_a_table_that_a_write_created_must_be_there_as_planned(
    graphs: Opened, point: str, *, is_there: bool, lands: bool
) -> None:
    """A write that created one table and moved another."""
    graph = graphs.init()
    die(graph, "a", point=point)
    (left,) = sidecars(graphs.root)
    body = json.loads(left.read_bytes())
    moved = body["tables"][0]
    copy = "nodes/new" if is_there else "nodes/none"
    shutil.copytree(graphs.root / moved["location"], graphs.root / "nodes/new")
    rewrite(left, tables=[moved, moved | {"table_id": 99, "location": copy, "created": True}])
    again = graphs.open()
    assert names(again) == (["a"] if lands else [])
    (record,) = again.maintenance.recoveries()
    assert record.recovery_kind == ("rolled_forward" if lands else "rolled_back")
    require_settled(again)


def test_a_write_that_only_created_tables_is_rolled_back(graphs: Opened) -> None:
    """They are made before arming, and prove nothing."""
    graph = graphs.init()
    die(graph, "a", point=HALF_WAY)
    (left,) = sidecars(graphs.root)
    moved = json.loads(left.read_bytes())["tables"][0]
    rewrite(left, tables=[moved | {"links": [], "created": True}])
    again = graphs.open()
    assert [each.recovery_kind for each in again.maintenance.recoveries()] == ["rolled_back"]
