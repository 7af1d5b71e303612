"""Staging writes files and moves nothing; what is committed carries its stamp, on every line."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from tests.unit.storage.workbench import (
    SECOND,
    STAMP,
    Workbench,
    id_array,
    rows_of,
)

from omnigraph.errors import InternalError
from omnigraph.storage.handles import StagedWrite, TableHandle
from omnigraph.storage.predicates import Compare, CompareOp, IsNull, Not, Or

LINES = ("main", pytest.param("branch", marks=pytest.mark.extended), "branch of a branch")


def _line(bench: Workbench, line: str) -> TableHandle:
    """`a` to `d` in two fragments, on the wanted line."""
    handle = bench.doc_table({"id": "a"}, {"id": "b"}, {"id": "c"})
    if line == "main":
        return bench.append(handle, {"id": "d"})
    branch = bench.append(bench.forked(handle), {"id": "d"})
    return branch if line == "branch" else bench.forked(branch, SECOND)


Stage = Callable[[Workbench, TableHandle], StagedWrite]
PRIMITIVES: dict[str, Stage] = {
    "append": lambda bench, base: bench.store.stage_append(
        base, rows_of(base.layout, [{"id": "n"}]), STAMP
    ),
    "merge_insert": lambda bench, base: bench.store.stage_merge_insert(
        base, rows_of(base.layout, [{"id": "a"}, {"id": "n"}]), STAMP
    ),
    "update": lambda bench, base: bench.store.stage_update(
        base, rows_of(base.layout, [{"id": "a", "rank": 7}]), STAMP
    ),
    "delete": lambda bench, base: bench.store.stage_delete(base, id_array(["a"]), STAMP),
    "overwrite": lambda bench, base: bench.store.stage_overwrite(
        base, rows_of(base.layout, [{"id": "n"}]), STAMP
    ),
    "truncate": lambda bench, base: bench.store.stage_overwrite(base, None, STAMP),
}
CONTENT = {
    "append": ["a", "b", "c", "d", "n"],
    "merge_insert": ["a", "b", "c", "d", "n"],
    "update": ["a", "b", "c", "d"],
    "delete": ["b", "c", "d"],
    "overwrite": ["n"],
    "truncate": [],
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("primitive", PRIMITIVES)
def test_staging_moves_no_head_and_the_commit_carries_the_stamp(
    bench: Workbench, primitive: str, line: str
) -> None:
    base = _line(bench, line)
    before = bench.heads(base)

    staged = PRIMITIVES[primitive](bench, base)
    bench.store.sync_staged(staged)
    assert bench.heads(base) == before

    after = bench.land(staged)
    assert bench.ids(after) == CONTENT[primitive]
    assert after.pin.version == base.pin.version + len(staged.links)
    assert staged.rows_after == len(CONTENT[primitive]) == bench.store.count(after)
    traces = bench.store.traces(base.layout, base.pin.branch, base.pin.version, after.pin.version)
    assert [trace.uuid for trace in traces] == [link.uuid for link in staged.links]
    assert {(trace.operation_id, trace.kind) for trace in traces} == {
        (STAMP.operation_id, STAMP.kind)
    }
    if base.pin.branch is not None:
        assert bench.store.head_version(base.layout, None) == before[0]


@pytest.mark.parametrize("primitive", PRIMITIVES)
def test_every_file_of_a_staged_write_is_named_and_synced(bench: Workbench, primitive: str) -> None:
    base = _line(bench, "main")
    before = {path for path in bench.root.rglob("*") if path.is_file()}
    staged = PRIMITIVES[primitive](bench, base)
    written = {
        path.relative_to(bench.root).as_posix()
        for path in bench.root.rglob("*")
        if path.is_file() and path not in before
    }
    assert written == set(staged.files)

    bench.seen.calls.clear()
    bench.store.sync_staged(staged)
    assert written <= set(bench.seen.targets("sync"))


def test_a_commit_syncs_the_version_and_its_transaction(bench: Workbench) -> None:
    base = _line(bench, "branch")
    staged = PRIMITIVES["append"](bench, base)
    bench.seen.calls.clear()
    after = bench.store.commit_staged(base, staged.links[0])
    synced = bench.seen.targets("sync")
    folder = f"{base.layout.location}/tree/{base.pin.branch}"
    assert synced[:2] == [
        f"{folder}/_versions/{2**64 - 1 - after.pin.version:020d}.manifest",
        f"{folder}/_transactions/{base.pin.version}-{staged.links[0].uuid}.txn",
    ]


@pytest.mark.parametrize("empty", ["merge_insert", "update", "append"])
def test_an_empty_input_stages_nothing(bench: Workbench, empty: str) -> None:
    base = _line(bench, "main")
    none = base.layout.schema.empty_table()
    stage = getattr(bench.store, f"stage_{empty}")
    for rows in (none, iter(none.to_batches())):
        staged = stage(base, rows, STAMP)
        assert staged.is_noop
        assert staged.rows_after == 4
        assert staged.files == ()


def test_a_delete_without_a_match_stages_nothing(bench: Workbench) -> None:
    base = _line(bench, "main")
    assert bench.store.stage_delete(base, id_array(["zed"]), STAMP).is_noop
    assert bench.store.stage_delete(base, id_array([]), STAMP).is_noop
    assert bench.store.stage_delete(base, Not(IsNull("rank")), STAMP).is_noop


def test_a_delete_by_predicate_removes_what_is_true_and_keeps_what_is_unknown(
    bench: Workbench,
) -> None:
    base = bench.doc_table(
        {"id": "a", "big": 2**63}, {"id": "b", "big": 1}, {"id": "n", "big": None}
    )
    large = Compare("big", CompareOp.GT, pa.scalar(2**40, pa.uint64()))
    staged = bench.store.stage_delete(base, large, STAMP)
    assert staged.rows_removed == 1
    assert bench.ids(bench.land(staged)) == ["b", "n"]


def test_a_delete_of_everything_empties_the_table(bench: Workbench) -> None:
    base = _line(bench, "main")
    staged = bench.store.stage_delete(base, Or((IsNull("rank"), Not(IsNull("rank")))), STAMP)
    assert (staged.rows_removed, staged.rows_after) == (4, 0)
    assert bench.ids(bench.land(staged)) == []


def test_an_upsert_counts_what_it_adds_and_changes(bench: Workbench) -> None:
    base = _line(bench, "main")
    rows = rows_of(base.layout, [{"id": "a", "rank": 1}, {"id": "x"}, {"id": "y"}])
    staged = bench.store.stage_merge_insert(base, rows, STAMP)
    assert (staged.rows_added, staged.rows_changed, staged.rows_after) == (2, 1, 6)
    assert bench.column(bench.land(staged), "rank")["a"] == 1


def test_an_update_of_an_absent_row_is_refused(bench: Workbench) -> None:
    base = _line(bench, "main")
    with pytest.raises(InternalError, match="update of 2 rows found 1"):
        bench.store.stage_update(base, rows_of(base.layout, [{"id": "a"}, {"id": "x"}]), STAMP)


def test_rows_may_come_as_batches_and_the_failure_of_their_source_is_its_own(
    bench: Workbench,
) -> None:
    base = _line(bench, "main")
    rows = rows_of(base.layout, [{"id": "x"}, {"id": "y"}])
    staged = bench.store.stage_append(base, iter(rows.to_batches(max_chunksize=1)), STAMP)
    assert bench.ids(bench.land(staged)) == ["a", "b", "c", "d", "x", "y"]

    def broken() -> "list[pa.RecordBatch]":
        raise LookupError("line 7")

    def batches() -> "object":
        yield from rows.to_batches()
        yield from broken()

    with pytest.raises(LookupError, match="line 7"):
        bench.store.stage_append(base, batches(), STAMP)  # type: ignore[arg-type]


def test_an_unknown_property_is_refused(bench: Workbench) -> None:
    base = _line(bench, "main")
    with pytest.raises(InternalError, match="no property 'zed'"):
        bench.store.stage_append(base, pa.table({"id": ["x"], "zed": [1]}), STAMP)


@pytest.mark.parametrize("primitive", ["append", "overwrite"])
def test_rebasing_keeps_the_files_and_takes_a_new_uuid(bench: Workbench, primitive: str) -> None:
    base = _line(bench, "main")
    staged = PRIMITIVES[primitive](bench, base)
    moved = bench.append(base, {"id": "first"})
    assert staged.rebase is not None
    again = staged.rebase(moved)
    assert again.files == staged.files
    assert again.links[0].uuid != staged.links[0].uuid
    content = [*CONTENT[primitive], "first"] if primitive == "append" else CONTENT[primitive]
    assert bench.ids(bench.land(again)) == sorted(content)


@pytest.mark.parametrize("primitive", ["merge_insert", "update", "delete"])
def test_rebasing_stages_the_same_change_again(bench: Workbench, primitive: str) -> None:
    base = _line(bench, "main")
    staged = PRIMITIVES[primitive](bench, base)
    moved = bench.upsert(base, {"id": "a", "rank": 3}, {"id": "first"})
    assert staged.rebase is not None
    after = bench.land(staged.rebase(moved))
    assert bench.ids(after) == sorted([*CONTENT[primitive], "first"])


def test_a_rebase_of_nothing_may_find_something(bench: Workbench) -> None:
    base = _line(bench, "main")
    staged = bench.store.stage_delete(base, id_array(["late"]), STAMP)
    moved = bench.append(base, {"id": "late"})
    assert staged.rebase is not None
    assert staged.rebase(moved).rows_removed == 1


def test_an_overwrite_keeps_field_ids_and_text_search(bench: Workbench) -> None:
    base = bench.doc_table({"id": "a", "body": "Wolf"})
    before = [(field.name(), field.id()) for field in base.dataset.lance_schema.fields()]
    staged = bench.store.stage_overwrite(
        base, rows_of(base.layout, [{"id": "b", "body": "Wolves"}]), STAMP
    )
    assert [link.operation for link in staged.links] == ["Overwrite", "Later"]
    after = bench.land(staged)
    assert [(field.name(), field.id()) for field in after.dataset.lance_schema.fields()] == before
    names = [index.name for index in bench.store.index_coverage(after)]
    assert names == ["ix_1_inverted", "ix_2_inverted"]


def test_an_overwrite_without_text_is_one_link(bench: Workbench) -> None:
    base = bench.filled(bench.plain, {"id": "a", "rank": 1})
    assert len(bench.store.stage_overwrite(base, None, STAMP).links) == 1
