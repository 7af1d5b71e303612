"""A commit lands as the very next version or says so; several links of one table land in order."""

import pytest
from tests.unit.storage.workbench import STAMP, Workbench, id_array, rows_of

from omnigraph.errors import InternalError, StorageUnavailable
from omnigraph.storage.calls import StoreCall
from omnigraph.storage.handles import StagedWrite, TableHandle
from omnigraph.storage.signals import CommitRefused, Interleaved
from omnigraph.storage.transactions import RowCounts


def _appending(bench: Workbench, base: TableHandle, *ids: str) -> StagedWrite:
    rows = rows_of(base.layout, [{"id": each} for each in ids])
    return bench.store.stage_append(base, rows, STAMP)


def test_a_commit_that_lance_rebased_is_interleaved(bench: Workbench) -> None:
    base = bench.doc_table({"id": "a"})
    staged = _appending(bench, base, "late")
    bench.append(base, {"id": "first"})
    with pytest.raises(Interleaved) as told:
        bench.store.commit_staged(base, staged.links[0])
    assert told.value.version == base.pin.version + 2


def test_a_commit_that_conflicts_is_refused_and_may_be_staged_again(bench: Workbench) -> None:
    base = bench.doc_table({"id": "a"})
    staged = bench.store.stage_delete(base, id_array(["a"]), STAMP)
    bench.upsert(base, {"id": "a", "rank": 1})
    with pytest.raises(CommitRefused) as told:
        bench.store.commit_staged(base, staged.links[0])
    assert not told.value.is_final


def test_a_commit_after_a_restore_is_refused_for_good(bench: Workbench) -> None:
    base = bench.doc_table({"id": "a"})
    staged = _appending(bench, base, "late")
    restored = bench.store.restore(bench.doc, None, base.pin.version, STAMP)
    with pytest.raises(CommitRefused) as told:
        bench.store.commit_staged(base, staged.links[0])
    assert told.value.is_final
    assert bench.store.head_version(bench.doc, None) == restored.pin.version


def test_a_lost_acknowledgement_is_unknown_and_the_trace_tells(bench: Workbench) -> None:
    base = bench.doc_table({"id": "a"})
    staged = _appending(bench, base, "b")

    def lose(call: StoreCall) -> None:
        if call.operation == "commit":
            raise OSError("connection reset")

    bench.seen.late_fault = lose
    with pytest.raises(StorageUnavailable):
        bench.store.commit_staged(base, staged.links[0])
    head = bench.store.head_version(bench.doc, None)
    (trace,) = bench.store.traces(bench.doc, None, base.pin.version, head)
    assert trace.uuid == staged.links[0].uuid


def test_a_staged_write_is_bound_to_its_base(bench: Workbench) -> None:
    base = bench.doc_table({"id": "a"})
    staged = _appending(bench, base, "b")
    moved = bench.append(base, {"id": "c"})
    with pytest.raises(InternalError, match="staged at"):
        bench.store.commit_staged(moved, staged.links[0])


def test_a_chain_lands_link_by_link_with_uuids_that_were_known(bench: Workbench) -> None:
    base = bench.doc_table({"id": "a"}, {"id": "b"})
    staged = bench.store.chain(
        bench.store.stage_delete(base, id_array(["a"]), STAMP),
        lambda handle: _appending(bench, handle, "n"),
        counts=RowCounts(added=1, removed=1),
    )
    assert (staged.rows_removed, staged.rows_added, staged.rows_after) == (1, 1, 2)
    uuids = [link.uuid for link in staged.links]
    assert len(set(uuids)) == 2

    first = bench.store.commit_staged(base, staged.links[0])
    assert bench.ids(first) == ["b"]
    bench.seen.calls.clear()
    second = bench.store.commit_staged(first, staged.links[1])
    assert bench.ids(second) == ["b", "n"]
    traces = bench.store.traces(bench.doc, None, base.pin.version, second.pin.version)
    assert [(trace.uuid, trace.kind) for trace in traces] == [(uuid, STAMP.kind) for uuid in uuids]
    order = [call.operation for call in bench.seen.calls]
    assert "sync" in order[: order.index("commit")], "its files are durable before it is"


def test_a_chain_whose_first_write_has_nothing_to_do_starts_with_the_next(
    bench: Workbench,
) -> None:
    base = bench.doc_table({"id": "a"})
    staged = bench.store.chain(
        bench.store.stage_delete(base, id_array(["zed"]), STAMP),
        lambda handle: _appending(bench, handle, "n"),
        counts=RowCounts(added=1),
    )
    assert len(staged.links) == 1
    assert (staged.rows_added, staged.rows_after) == (1, 2)
    assert bench.ids(bench.land(staged)) == ["a", "n"]


def test_a_first_write_without_work_is_asked_again_on_a_newer_base(bench: Workbench) -> None:
    base = bench.doc_table({"id": "a"})
    staged = bench.store.chain(
        bench.store.stage_delete(base, id_array(["late"]), STAMP),
        lambda handle: _appending(bench, handle, "n"),
    )
    moved = bench.append(base, {"id": "late"})
    assert staged.rebase is not None
    again = staged.rebase(moved)
    assert len(again.links) == 2
    assert bench.ids(bench.land(again)) == ["a", "n"]


def test_a_later_link_without_work_still_makes_the_version_that_was_announced(
    bench: Workbench,
) -> None:
    base = bench.doc_table({"id": "a"})
    staged = bench.store.chain(
        _appending(bench, base, "n"),
        lambda handle: bench.store.stage_delete(handle, id_array(["zed"]), STAMP),
    )
    after = bench.land(staged)
    assert bench.ids(after) == ["a", "n"]
    traces = bench.store.traces(bench.doc, None, base.pin.version, after.pin.version)
    assert [trace.uuid for trace in traces] == [link.uuid for link in staged.links]
    assert {trace.operation_id for trace in traces} == {STAMP.operation_id}


def test_a_chain_moves_to_a_newer_base_as_a_whole(bench: Workbench) -> None:
    base = bench.doc_table({"id": "a"}, {"id": "b"})
    staged = bench.store.chain(
        bench.store.stage_delete(base, id_array(["a"]), STAMP),
        lambda handle: _appending(bench, handle, "n"),
        counts=RowCounts(added=1, removed=1),
    )
    moved = bench.append(base, {"id": "c"})
    assert staged.rebase is not None
    assert bench.ids(bench.land(staged.rebase(moved))) == ["b", "c", "n"]


def test_a_later_link_must_be_a_single_one(bench: Workbench) -> None:
    base = bench.doc_table({"id": "a"})
    staged = bench.store.chain(
        _appending(bench, base, "n"),
        lambda handle: bench.store.stage_overwrite(handle, None, STAMP),
    )
    first = bench.store.commit_staged(base, staged.links[0])
    with pytest.raises(InternalError, match="single"):
        bench.store.commit_staged(first, staged.links[1])
