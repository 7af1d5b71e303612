"""Opening by pin, the newest version, forks and their repair, and what a copied graph is told."""

import shutil
import threading
from pathlib import Path

import pytest
from tests.unit.storage.workbench import FIRST, SECOND, STAMP, Workbench, id_array

from omnigraph.errors import StorageDenied, StorageUnavailable, StorageUnsupported
from omnigraph.storage.calls import StoreCall
from omnigraph.storage.handles import ForkState, Pin, TableHandle, VersionTrace
from omnigraph.storage.signals import AlreadyExists, LineHasChildren, ObjectMissing
from omnigraph.storage.table_versions import CACHED_HANDLES, Recent


def test_a_new_table_has_row_ids_its_key_its_format_and_its_text_indexes(bench: Workbench) -> None:
    pin = bench.store.create_table(bench.doc)
    assert pin == Pin(location=bench.doc.location, branch=None, version=2)
    handle = bench.store.open(bench.doc, pin)
    dataset = handle.dataset
    assert dataset.has_stable_row_ids
    assert dataset.data_storage_version == "2.2"
    assert [key.name() for key in dataset.lance_schema.unenforced_primary_key()] == ["id"]
    assert dataset.config() == {}
    found = {index.name: index.property_name for index in bench.store.index_coverage(handle)}
    assert found == {"ix_1_inverted": "slug", "ix_2_inverted": "body"}


def test_a_table_without_text_is_one_version(bench: Workbench) -> None:
    assert bench.store.create_table(bench.plain).version == 1


def test_a_new_table_is_durable_with_the_folders_that_name_it(bench: Workbench) -> None:
    bench.store.create_table(bench.doc)
    files = {
        path.relative_to(bench.root).as_posix() for path in bench.root.rglob("*") if path.is_file()
    }
    synced = set(bench.seen.targets("sync"))
    assert files <= synced
    assert {".", "nodes", bench.doc.location} <= synced


def test_creating_a_table_twice_is_told(bench: Workbench) -> None:
    bench.store.create_table(bench.doc)
    with pytest.raises(AlreadyExists):
        bench.store.create_table(bench.doc)


def test_a_pin_is_opened_once(bench: Workbench) -> None:
    handle = bench.doc_table({"id": "a"})
    bench.seen.calls.clear()
    again = bench.store.open(bench.doc, handle.pin)
    assert again.dataset is handle.dataset
    assert bench.seen.calls == []


def test_a_pin_shows_its_version_for_ever(bench: Workbench) -> None:
    first = bench.doc_table({"id": "a"})
    bench.append(first, {"id": "b"})
    fresh = Workbench(bench.root)
    assert fresh.ids(fresh.store.open(bench.doc, first.pin)) == ["a"]


@pytest.mark.parametrize(("branch", "version"), [(None, 99), ("b-zed", 1)])
def test_a_version_that_is_not_there_is_missing(
    bench: Workbench, branch: str | None, version: int
) -> None:
    bench.doc_table({"id": "a"})
    pin = Pin(location=bench.doc.location, branch=branch, version=version)
    with pytest.raises(ObjectMissing):
        bench.store.open(bench.doc, pin)


def test_a_line_that_is_not_there_is_missing(bench: Workbench) -> None:
    bench.doc_table({"id": "a"})
    with pytest.raises(ObjectMissing):
        bench.store.head_version(bench.doc, "b-zed")


def test_a_table_that_is_not_there_is_missing(bench: Workbench) -> None:
    with pytest.raises(ObjectMissing):
        bench.store.head_version(bench.doc, None)


def test_the_head_is_asked_of_the_store(bench: Workbench) -> None:
    handle = bench.doc_table({"id": "a"})
    other = Workbench(bench.root)
    assert other.store.head_version(bench.doc, None) == handle.pin.version
    bench.append(handle, {"id": "b"})
    other.seen.calls.clear()
    assert other.store.head_version(bench.doc, None) == handle.pin.version + 1
    assert [call.operation for call in other.seen.calls] == ["latest_version"]


def test_traces_name_who_made_a_version_and_give_nothing_for_a_foreign_one(
    bench: Workbench,
) -> None:
    handle = bench.doc_table({"id": "a"})
    branch = bench.append(bench.forked(handle), {"id": "b"})
    fork_version = handle.pin.version
    below, clone, own, above = bench.store.traces(
        bench.doc, branch.pin.branch, fork_version - 2, fork_version + 2
    )
    assert below == VersionTrace(version=fork_version - 1)
    assert (clone.operation, clone.operation_id, clone.kind) == ("Clone", None, None)
    assert (own.operation, own.operation_id, own.kind) == (
        "Append",
        STAMP.operation_id,
        STAMP.kind,
    )
    assert above == VersionTrace(version=fork_version + 2)


def test_an_outage_is_not_taken_for_a_foreign_version(bench: Workbench) -> None:
    handle = bench.doc_table({"id": "a"})

    def down(call: StoreCall) -> None:
        if call.operation == "read_transaction":
            raise OSError("connection reset")

    bench.seen.fault = down
    with pytest.raises(StorageUnavailable):
        bench.store.traces(bench.doc, None, 0, handle.pin.version)


def test_the_cache_holds_a_fixed_number_of_handles_and_keeps_the_recent_ones() -> None:
    cache: Recent[int] = Recent(2)
    for key in "abc":
        cache.keep(key, ord(key))
        cache.find("a")
    assert (cache.find("a"), cache.find("b"), cache.find("c")) == (ord("a"), None, ord("c"))
    assert len(cache) == 2
    assert CACHED_HANDLES == 256


def test_threads_share_the_handles(bench: Workbench) -> None:
    handle = bench.doc_table({"id": "a"})
    fresh = Workbench(bench.root)
    found: list[list[str]] = []

    def read() -> None:
        found.extend(fresh.ids(fresh.store.open(bench.doc, handle.pin)) for _ in range(5))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [["a"]] * 20


def test_a_fork_starts_at_its_parent_and_diverges(bench: Workbench) -> None:
    handle = bench.doc_table({"id": "a"})
    pin = bench.store.fork(handle, FIRST)
    assert pin == Pin(location=bench.doc.location, branch=f"b-{FIRST}", version=handle.pin.version)
    branch = bench.append(bench.store.open(bench.doc, pin), {"id": "b"})
    assert bench.store.fork_state(bench.doc, FIRST) == ForkState(
        parent_branch=None, parent_version=handle.pin.version, head=branch.pin.version
    )
    second = bench.append(bench.forked(branch, SECOND), {"id": "c"})
    assert bench.store.fork_state(bench.doc, SECOND) == ForkState(
        parent_branch=f"b-{FIRST}", parent_version=branch.pin.version, head=second.pin.version
    )
    assert bench.ids(second) == ["a", "b", "c"]
    assert bench.ids(bench.store.open(bench.doc, handle.pin)) == ["a"]


def test_a_fork_is_durable(bench: Workbench) -> None:
    handle = bench.doc_table({"id": "a"})
    bench.seen.calls.clear()
    bench.store.fork(handle, FIRST)
    synced = set(bench.seen.targets("sync"))
    tree = f"{bench.doc.location}/tree/b-{FIRST}"
    assert f"{bench.doc.location}/_refs/branches/b-{FIRST}.json" in synced
    assert {
        path.relative_to(bench.root).as_posix()
        for path in (bench.root / tree).rglob("*")
        if path.is_file()
    } <= synced


def test_a_fork_that_is_there_and_has_not_moved_is_used(bench: Workbench) -> None:
    handle = bench.doc_table({"id": "a"})
    assert bench.store.fork(handle, FIRST) == bench.store.fork(handle, FIRST)


def test_a_fork_whose_acknowledgement_was_lost_is_used(bench: Workbench) -> None:
    handle = bench.doc_table({"id": "a"})
    failed: list[StoreCall] = []

    def lose(call: StoreCall) -> None:
        if call.operation == "fork" and not failed:
            failed.append(call)
            raise OSError("connection reset")

    bench.seen.late_fault = lose
    assert bench.ids(bench.forked(handle)) == ["a"]
    assert failed


def test_a_fork_that_holds_commits_is_not_taken(bench: Workbench) -> None:
    handle = bench.doc_table({"id": "a"})
    bench.append(bench.forked(handle), {"id": "b"})
    with pytest.raises(AlreadyExists):
        bench.store.fork(handle, FIRST)


def test_a_fork_that_starts_elsewhere_and_was_never_written_is_made_anew(
    bench: Workbench,
) -> None:
    handle = bench.doc_table({"id": "a"})
    bench.store.fork(handle, FIRST)
    later = bench.append(handle, {"id": "b"})
    assert bench.ids(bench.forked(later)) == ["a", "b"]


def test_a_tree_without_its_ref_is_removed_and_the_fork_made(bench: Workbench) -> None:
    handle = bench.doc_table({"id": "a"})
    bench.store.fork(handle, FIRST)
    (bench.root / bench.doc.location / "_refs" / "branches" / f"b-{FIRST}.json").unlink()
    fresh = Workbench(bench.root)
    assert fresh.store.fork_state(bench.doc, FIRST) is None
    assert fresh.ids(fresh.forked(fresh.store.open(bench.doc, handle.pin))) == ["a"]


def test_refused_credentials_end_a_fork_at_once(bench: Workbench) -> None:
    handle = bench.doc_table({"id": "a"})

    def deny(call: StoreCall) -> None:
        if call.operation == "fork":
            raise PermissionError("403")

    bench.seen.fault = deny
    with pytest.raises(StorageDenied):
        bench.store.fork(handle, FIRST)


def _files_of_fork(bench: Workbench) -> list[Path]:
    tree = bench.root / bench.doc.location / "tree" / f"b-{FIRST}"
    return [path for path in tree.rglob("*") if path.is_file()]


def test_a_deleted_fork_is_gone_and_deleting_it_again_is_fine(bench: Workbench) -> None:
    handle = bench.doc_table({"id": "a"})
    branch = bench.append(bench.forked(handle), {"id": "b"})
    bench.store.delete_fork(bench.doc, FIRST)
    bench.store.delete_fork(bench.doc, FIRST)
    assert bench.store.fork_state(bench.doc, FIRST) is None
    assert not _files_of_fork(bench)
    with pytest.raises(ObjectMissing):
        bench.store.open(bench.doc, branch.pin)


def test_deleting_a_fork_removes_a_tree_whose_ref_is_gone(bench: Workbench) -> None:
    bench.store.fork(bench.doc_table({"id": "a"}), FIRST)
    (bench.root / bench.doc.location / "_refs" / "branches" / f"b-{FIRST}.json").unlink()
    bench.store.delete_fork(bench.doc, FIRST)
    assert not _files_of_fork(bench)


def test_a_fork_with_a_child_is_not_deleted(bench: Workbench) -> None:
    branch = bench.forked(bench.doc_table({"id": "a"}))
    bench.store.fork(branch, SECOND)
    with pytest.raises(LineHasChildren, match=SECOND):
        bench.store.delete_fork(bench.doc, FIRST)
    bench.store.delete_fork(bench.doc, SECOND)
    bench.store.delete_fork(bench.doc, FIRST)


def _described(bench: Workbench, handle: TableHandle) -> tuple[object, ...]:
    """Rows with their row ids and versions, and the numbers of their fragments."""
    rows = handle.dataset.to_table(
        columns=["id", "body", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    )
    return rows.to_pylist(), [each.fragment_id for each in bench.store.fragments(handle)]


def test_a_moved_graph_shows_every_line_as_it_was(bench: Workbench, tmp_path: Path) -> None:
    main = bench.land(
        bench.store.stage_compaction(
            bench.append(bench.doc_table({"id": "a"}, {"id": "b"}), {"id": "c", "body": "x"}), STAMP
        )
    )
    branch = bench.upsert(bench.delete(bench.forked(main), "a"), {"id": "b", "body": "new fox"})
    second = bench.append(bench.forked(branch, SECOND), {"id": "d"})
    before = {each.pin: _described(bench, each) for each in (main, branch, second)}
    old = bench.store.changed_since(branch, main).before.to_pylist()
    shutil.move(bench.root, tmp_path / "moved")
    moved = Workbench(tmp_path / "moved")
    for pin, described in before.items():
        handle = moved.store.open(bench.doc, pin)
        assert _described(moved, handle) == described
        assert handle.pin == pin
    shown = moved.store.open(bench.doc, branch.pin)
    base = moved.store.open(bench.doc, main.pin)
    assert moved.store.changed_since(shown, base).before.to_pylist() == old
    assert moved.store.search_text(shown, "body", "fox")["id"].to_pylist() == ["b"]
    assert not bench.root.exists()


def test_a_line_of_a_moved_graph_cannot_be_written_to_and_new_ones_can(
    bench: Workbench, tmp_path: Path
) -> None:
    main = bench.doc_table({"id": "a"})
    branch = bench.append(bench.forked(main), {"id": "b"})
    shutil.copytree(bench.root, tmp_path / "copy")
    copy = Workbench(tmp_path / "copy")
    shown = copy.store.open(bench.doc, branch.pin)
    for write in (
        lambda: copy.append(shown, {"id": "c"}),
        lambda: copy.delete(shown, "b"),
        lambda: copy.store.fork(shown, SECOND),
        lambda: copy.store.restore(bench.doc, branch.pin.branch, branch.pin.version, STAMP),
    ):
        with pytest.raises(StorageUnsupported, match="omnigraph clone"):
            write()
    assert copy.ids(copy.append(copy.store.open(bench.doc, main.pin), {"id": "c"})) == ["a", "c"]
    fresh = copy.forked(copy.store.open(bench.doc, main.pin), SECOND)
    assert copy.ids(copy.append(fresh, {"id": "d"})) == ["a", "d"]
    assert copy.ids(shown) == bench.ids(branch) == ["a", "b"]


def test_restoring_shows_an_old_version_again_and_fences_what_was_staged(
    bench: Workbench,
) -> None:
    first = bench.doc_table({"id": "a"})
    bench.append(first, {"id": "b"})
    restored = bench.store.restore(bench.doc, None, first.pin.version, STAMP)
    assert bench.ids(restored) == ["a"]
    assert restored.pin.version == first.pin.version + 2
    (trace,) = bench.store.traces(bench.doc, None, restored.pin.version - 1, restored.pin.version)
    assert (trace.operation, trace.kind) == ("Restore", STAMP.kind)
    assert bench.ids(bench.delete(restored, "a")) == []


def test_restoring_works_on_a_branch_and_is_durable(bench: Workbench) -> None:
    branch = bench.forked(bench.doc_table({"id": "a"}))
    bench.append(branch, {"id": "b"})
    bench.seen.calls.clear()
    restored = bench.store.restore(bench.doc, branch.pin.branch, branch.pin.version, STAMP)
    assert bench.ids(restored) == ["a"]
    synced = bench.seen.targets("sync")
    assert [Path(name).suffix for name in synced[:2]] == [".manifest", ".txn"]


def test_changes_are_those_since_a_version_of_the_line_or_of_its_parent(bench: Workbench) -> None:
    first = bench.doc_table({"id": "a"}, {"id": "b"}, {"id": "c"})
    base = bench.append(first, {"id": "d"})
    branch = bench.upsert(bench.forked(base), {"id": "a", "rank": 1}, {"id": "e"})
    branch = bench.delete(branch, "b", "d")

    since_fork = bench.store.changed_since(branch, base)
    assert sorted(map(str, since_fork.changed.to_pylist())) == ["a", "e"]
    assert sorted(map(str, since_fork.removed.to_pylist())) == ["b", "d"]

    since_parent = bench.store.changed_since(branch, first)
    assert sorted(map(str, since_parent.changed.to_pylist())) == ["a", "e"]
    assert sorted(map(str, since_parent.removed.to_pylist())) == ["b"]

    nothing = bench.store.changed_since(branch, branch)
    assert (len(nothing.changed), len(nothing.removed)) == (0, 0)


def test_an_overwrite_changes_what_it_writes_and_removes_the_rest(bench: Workbench) -> None:
    first = bench.doc_table({"id": "a"}, {"id": "b"})
    staged = bench.store.stage_overwrite(first, bench.store.take_ids(first, id_array(["b"])), STAMP)
    found = bench.store.changed_since(bench.land(staged), first)
    assert (found.changed.to_pylist(), found.removed.to_pylist()) == (["b"], ["a"])
