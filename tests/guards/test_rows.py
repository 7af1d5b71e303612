"""Row ids and the two version columns: what the change feed, diffs and merges are computed from."""

from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pytest
from lance import LanceDataset
from tests.guards.lance_tables import (
    btree,
    by_id,
    commit,
    create_table,
    fork,
    open_head,
    open_pin,
    restore,
    rows,
    something,
    stage_append,
    stage_compaction,
    stage_delete,
    stage_index,
    stage_merge_insert,
    stage_overwrite,
    where,
)

VERSIONS = ("_row_created_at_version", "_row_last_updated_at_version")


def _table(path: Path) -> LanceDataset:
    """`a` and `b` written by version 1, `c` by version 2."""
    table = create_table(path, rows("a", "b"))
    return commit(table, stage_append(table, rows("c")))


def _upserted(table: LanceDataset) -> LanceDataset:
    return commit(table, stage_merge_insert(table, rows("a", rank=1)).transaction)


def _compacted(table: LanceDataset) -> LanceDataset:
    return commit(table, something(stage_compaction(table)))


def _forked(table: LanceDataset) -> LanceDataset:
    return fork(table, "b-1", None, table.version)


def _indexed(table: LanceDataset) -> LanceDataset:
    return commit(table, stage_index(table, [btree("id", "ix_id")]))


def _restored(table: LanceDataset) -> LanceDataset:
    return restore(commit(table, stage_overwrite(table, rows("x"))), table.version)


@pytest.mark.parametrize("change", [_upserted, _compacted, _forked, _indexed, _restored])
def test_lance_guard_rows_keep_their_row_id(
    tmp_path: Path, change: Callable[[LanceDataset], LanceDataset]
) -> None:
    """Why: a diff pairs the old and the new form of a row by its row id."""
    table = _table(tmp_path / "t")
    assert by_id(change(table), "_rowid") == by_id(table, "_rowid")


@pytest.mark.parametrize("change", [_compacted, _forked, _indexed, _restored])
def test_lance_guard_maintenance_moves_no_version_column(
    tmp_path: Path, change: Callable[[LanceDataset], LanceDataset]
) -> None:
    """Why: compaction, forks, indexes and restores must not show up as changes."""
    table = _upserted(_table(tmp_path / "t"))
    assert by_id(change(table), *VERSIONS) == by_id(table, *VERSIONS)


def test_lance_guard_append_and_upsert_move_the_version_columns(tmp_path: Path) -> None:
    """Why: created equal to updated means new, greater means changed."""
    table = _table(tmp_path / "t")
    table = commit(table, stage_merge_insert(table, rows("a", "z")).transaction)
    assert by_id(table, *VERSIONS) == {"a": (1, 3), "b": (1, 1), "c": (2, 2), "z": (3, 3)}


def test_lance_guard_an_upsert_with_equal_values_counts_as_a_change(tmp_path: Path) -> None:
    """Why: candidates by version are a superset; a diff still compares the values."""
    table = _table(tmp_path / "t")
    table = commit(table, stage_merge_insert(table, rows("a")).transaction)
    assert by_id(table, *VERSIONS)["a"] == (1, 3)


def test_lance_guard_an_overwrite_makes_new_rows_of_the_same_ids(tmp_path: Path) -> None:
    """Why: after an overwrite a row id says nothing about the old row of the same `id`."""
    table = _table(tmp_path / "t")
    table = commit(table, stage_overwrite(table, rows("a", "b")))
    assert by_id(table, "_rowid", *VERSIONS) == {"a": (3, 3, 3), "b": (4, 3, 3)}


def test_lance_guard_row_ids_are_not_given_again_after_a_restore(tmp_path: Path) -> None:
    """Why: a rolled back write must not lend its row ids to later rows."""
    table = _table(tmp_path / "t")
    dropped = commit(table, stage_append(table, rows("x", "y")))
    back = restore(dropped, table.version)
    after = commit(back, stage_append(back, rows("z")))
    assert max(by_id(dropped, "_rowid").values()) < by_id(after, "_rowid")["z"]


def test_lance_guard_row_ids_are_not_given_again_after_a_delete_and_a_compaction(
    tmp_path: Path,
) -> None:
    """Why: a deleted row's id stays its own."""
    table = _table(tmp_path / "t")
    greatest = max(by_id(table, "_rowid").values())
    table = commit(table, something(stage_delete(table, pc.field("id") == "c")))
    table = _compacted(commit(table, stage_append(table, rows("d"))))
    assert by_id(table, "_rowid")["d"] > greatest


def test_lance_guard_lines_give_the_same_row_ids_to_different_rows(tmp_path: Path) -> None:
    """Why: row ids are compared within one line only; across lines rows pair by `id`."""
    table = _table(tmp_path / "t")
    branch = _forked(table)
    branch = commit(branch, stage_append(branch, rows("on-branch")))
    table = commit(table, stage_append(table, rows("on-main")))
    assert by_id(branch, "_rowid")["on-branch"] == by_id(table, "_rowid")["on-main"]


def test_lance_guard_version_columns_can_be_filtered(tmp_path: Path) -> None:
    """Why: `changed_since` costs what others changed; only filter text reaches these columns."""
    table = _upserted(_table(tmp_path / "t"))
    assert where(table, "_row_last_updated_at_version > 2") == ["a"]
    assert where(table, "_row_created_at_version > 1") == ["c"]
    with pytest.raises(ValueError, match="No match for FieldRef"):
        where(table, pc.field("_row_last_updated_at_version") > 2)


def test_lance_guard_delta_gives_inserted_updated_and_deleted_rows(tmp_path: Path) -> None:
    """Why: the change feed of one line needs no full comparison."""
    table = _table(tmp_path / "t")
    table = commit(table, stage_merge_insert(table, rows("a", "z")).transaction)
    table = commit(table, something(stage_delete(table, pc.field("id") == "b")))
    delta = table.delta(begin_version=2, end_version=4)
    assert delta.get_inserted_rows().read_all()["id"].to_pylist() == ["z"]
    assert delta.get_updated_rows().read_all()["id"].to_pylist() == ["a"]
    assert delta.get_deleted_row_ids().read_all()["_rowid"].to_pylist() == [1]


def test_lance_guard_old_versions_show_what_they_showed(tmp_path: Path) -> None:
    """Why: a pinned handle is immutable and may be cached for ever."""
    path = tmp_path / "t"
    table = _upserted(_table(path))
    _compacted(table)
    restore(open_head(path), 1)
    assert by_id(open_pin(path, None, 2), "rank") == {"a": (0,), "b": (0,), "c": (0,)}
    assert by_id(open_pin(path, None, 3), "rank") == {"a": (1,), "b": (0,), "c": (0,)}
