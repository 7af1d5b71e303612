"""Lance branches: what a fork shares with its parent, and how creating and deleting one fails."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance import DatasetBasePath, LanceDataset
from tests.guards.lance_tables import (
    VECTOR_SCHEMA,
    IndexSpec,
    btree,
    by_id,
    commit,
    create_table,
    fork,
    ids,
    inverted,
    open_head,
    open_pin,
    restore,
    rows,
    search,
    stage_append,
    stage_index,
    stage_merge_insert,
    stage_overwrite,
    transaction_at,
    where,
)
from tests.guards.vectors import near, vector_rows

VERSIONS = ("_rowid", "_row_created_at_version", "_row_last_updated_at_version")


def _table(path: Path) -> LanceDataset:
    table = create_table(path, rows("a"))
    return commit(table, stage_append(table, rows("b")))


@pytest.mark.parametrize("version", [1, 2])
def test_lance_guard_a_fork_starts_with_the_number_and_content_of_its_parent(
    tmp_path: Path, version: int
) -> None:
    """Why: until its first publish on a branch, a table's pin names the parent's line."""
    table = _table(tmp_path / "t")
    forked = fork(table, "b-1", None, version)
    assert forked.version == forked.latest_version == version
    parent = open_pin(tmp_path / "t", None, version)
    assert by_id(forked, *VERSIONS) == by_id(parent, *VERSIONS)
    assert table.branches.list()["b-1"]["parent_version"] == version


def test_lance_guard_a_fork_of_a_fork_starts_at_the_version_of_the_fork(tmp_path: Path) -> None:
    """Why: an explicit branch and version is a fork point on every level."""
    table = _table(tmp_path / "t")
    first = fork(table, "b-1", None, 1)
    first = commit(first, stage_append(first, rows("on-first")))
    second = fork(table, "b-2", "b-1", first.version)
    assert second.version == 2
    assert ids(second) == ["a", "on-first"]
    assert table.branches.list()["b-2"]["parent_branch"] == "b-1"


def test_lance_guard_lines_do_not_see_each_other(tmp_path: Path) -> None:
    """Why: a branch is isolated from its parent from the fork on."""
    table = _table(tmp_path / "t")
    forked = fork(table, "b-1", None, 2)
    forked = commit(forked, stage_overwrite(forked, rows("x")))
    table = commit(table, stage_append(table, rows("c")))
    assert (ids(table), ids(forked)) == (["a", "b", "c"], ["x"])


def test_lance_guard_the_first_version_of_a_fork_was_made_by_a_clone(tmp_path: Path) -> None:
    """Why: code that walks a line's transactions meets this foreign one at its start."""
    forked = fork(_table(tmp_path / "t"), "b-1", None, 2)
    clone = transaction_at(forked, 2)
    assert type(clone.operation).__name__ == "Clone"
    assert clone.transaction_properties == {}
    with pytest.raises(OSError, match="not found"):
        forked.read_transaction(1)


def test_lance_guard_a_branch_can_be_restored_to_its_first_version_and_no_further(
    tmp_path: Path,
) -> None:
    """Why: rolling back the first write on a branch restores the fork point."""
    table = _table(tmp_path / "t")
    forked = fork(table, "b-1", None, 2)
    forked = commit(forked, stage_append(forked, rows("x")))
    with pytest.raises(OSError, match=r"[Nn]ot found"):
        restore(forked, 1)
    assert ids(restore(forked, 2)) == ["a", "b"]


@pytest.mark.parametrize(
    ("version", "text"),
    [(1, "Clone operation should not enter build_manifest"), (2, "was not found")],
)
def test_lance_guard_creating_a_branch_that_exists_fails_with_an_unrelated_text(
    tmp_path: Path, version: int, text: str
) -> None:
    """Why: the kernel asks for the list of branches instead of reading the error."""
    table = _table(tmp_path / "t")
    fork(table, "b-1", None, 1)
    with pytest.raises(OSError, match=text):
        fork(table, "b-1", None, version)
    assert table.branches.list()["b-1"]["parent_version"] == 1


def test_lance_guard_a_tree_without_a_ref_blocks_its_name_and_cannot_be_deleted_by_lance(
    tmp_path: Path,
) -> None:
    """Why: a crash inside `create_branch` is repaired by removing the tree's prefix."""
    table = _table(tmp_path / "t")
    fork(table, "b-1", None, 1)
    (tmp_path / "t" / "_refs" / "branches" / "b-1.json").unlink()

    assert table.branches.list() == {}
    assert ids(open_head(tmp_path / "t", "b-1")) == ["a"], "it can still be opened"
    with pytest.raises(OSError, match="Clone operation"):
        fork(table, "b-1", None, 1)
    with pytest.raises(ValueError, match="does not exist"):
        table.branches.delete("b-1")

    shutil.rmtree(tmp_path / "t" / "tree" / "b-1")
    assert ids(fork(table, "b-1", None, 2)) == ["a", "b"]


def test_lance_guard_a_branch_with_a_child_cannot_be_deleted(tmp_path: Path) -> None:
    """Why: reclaiming goes children first."""
    table = _table(tmp_path / "t")
    fork(table, "b-1", None, 1)
    fork(table, "b-2", "b-1", 1)
    with pytest.raises(OSError, match="is referenced by"):
        table.branches.delete("b-1")
    table.branches.delete("b-2")
    table.branches.delete("b-1")
    assert table.branches.list() == {}


def test_lance_guard_deleting_a_branch_twice_is_a_value_error(tmp_path: Path) -> None:
    """Why: a second reclaim treats it as done."""
    table = _table(tmp_path / "t")
    fork(table, "b-1", None, 1)
    table.branches.delete("b-1")
    with pytest.raises(ValueError, match="does not exist"):
        table.branches.delete("b-1")
    with pytest.raises(ValueError, match="Not found"):
        open_head(tmp_path / "t", "b-1")


def test_lance_guard_a_deleted_name_can_be_used_again(tmp_path: Path) -> None:
    """Why: a fork whose parent version is wrong is deleted and made anew."""
    table = _table(tmp_path / "t")
    old = fork(table, "b-1", None, 1)
    commit(old, stage_append(old, rows("old")))
    table.branches.delete("b-1")
    assert ids(fork(table, "b-1", None, 2)) == ["a", "b"]


def test_lance_guard_indexes_answer_through_two_levels_of_branches(tmp_path: Path) -> None:
    """Why: a branch uses its parents' indexes and never needs its own to be right."""
    table = create_table(tmp_path / "t", vector_rows("a", 20), schema=VECTOR_SCHEMA)
    table = commit(table, stage_append(table, vector_rows("b", 20)))
    vector = IndexSpec("vector", "IVF_FLAT", "ix_v", {"metric": "cosine", "num_partitions": 1})
    ngram = IndexSpec("body", "NGRAM", "ix_ngram")
    specs = [btree("id", "ix_id"), inverted("body", "ix_body"), ngram, vector]
    table = commit(table, stage_index(table, specs))

    first = fork(table, "b-1", None, table.version)
    first = commit(first, stage_append(first, vector_rows("c", 20)))
    second = fork(table, "b-2", "b-1", first.version)
    changed = vector_rows("b", 1).set_column(1, "body", pa.array(["fox"]))
    second = commit(second, stage_merge_insert(second, changed).transaction)

    assert search(second, "fox") == ["b0"]
    assert search(second, "word0") == ["a0", "c0"]
    assert where(second, pc.field("id") == "a7") == ["a7"]
    assert where(second, "contains(body, 'word19')") == ["a19", "b19", "c19"]
    assert near(second, "a5")[0] == "a5"
    assert near(second, "c5")[0] == "c5"


def test_lance_guard_cleanup_of_listed_versions_spares_what_a_branch_needs(tmp_path: Path) -> None:
    """Why: the list comes from the manifest; Lance is a second net for forked versions."""
    path = tmp_path / "t"
    table = _table(path)
    fork(table, "b-1", None, 1)
    table = commit(table, stage_overwrite(table, rows("x")))
    table = commit(table, stage_append(table, rows("y")))
    table.cleanup_old_versions(versions=[1, 2, 3])
    assert [version["version"] for version in table.versions()] == [1, 4]
    assert ids(open_head(path, "b-1")) == ["a"]


def test_lance_guard_cleanup_tells_beforehand_what_it_removes(tmp_path: Path) -> None:
    """Why: the preview of a cleanup is Lance's own, to the byte, and removes nothing."""
    path = tmp_path / "t"
    table = _table(path)
    fork(table, "b-1", None, 1)
    table = commit(table, stage_overwrite(table, rows("x")))
    table = commit(table, stage_append(table, rows("y")))
    before = sorted(path.rglob("*"))
    told = table.explain_cleanup_old_versions(versions=[1, 2, 3]).stats
    assert sorted(path.rglob("*")) == before
    done = table.cleanup_old_versions(versions=[1, 2, 3])
    assert (told.old_versions, told.bytes_removed) == (done.old_versions, done.bytes_removed)
    assert done.old_versions == 2


def test_lance_guard_cleanup_never_removes_the_newest_version(tmp_path: Path) -> None:
    """Why: a list that names the head by mistake does no harm."""
    table = _table(tmp_path / "t")
    table.cleanup_old_versions(versions=[1, 2])
    assert [version["version"] for version in table.versions()] == [2]
    assert ids(open_head(tmp_path / "t")) == ["a", "b"]


def test_lance_guard_a_copied_table_without_branches_is_the_same_table(tmp_path: Path) -> None:
    """Why: the main line stores no absolute path."""
    _table(tmp_path / "t")
    shutil.move(tmp_path / "t", tmp_path / "moved")
    assert ids(open_head(tmp_path / "moved")) == ["a", "b"]


def test_lance_guard_a_branch_stores_the_absolute_path_of_its_table(tmp_path: Path) -> None:
    """Why: a moved or copied graph loses its branches, or reads them from the original."""
    table = _table(tmp_path / "t")
    forked = fork(table, "b-1", None, 2)
    commit(forked, stage_append(forked, rows("x")))
    (base,) = forked.base_paths().values()
    assert Path(base.path) == tmp_path / "t"

    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    assert ids(open_head(tmp_path / "copy", "b-1")) == ["a", "b", "x"], "read from the original"
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(pa.ArrowInvalid, match="Not found"):
        ids(open_head(tmp_path / "copy", "b-1"))


def test_lance_guard_cleaning_a_moved_table_removes_what_its_branches_start_from(
    tmp_path: Path,
) -> None:
    """Why: whoever removes versions must keep these by itself."""
    fork(_table(tmp_path / "t"), "b-1", None, 2)
    for place in ("t", "moved"):
        if place == "moved":
            shutil.move(tmp_path / "t", tmp_path / "moved")
        table = open_head(tmp_path / place)
        table = commit(table, stage_append(table, rows(place)))
        table.cleanup_old_versions(versions=[1, 2])
        kept = [version["version"] for version in table.versions()]
        assert (2 in kept) == (place == "t"), place


def test_lance_guard_the_path_of_a_base_cannot_be_changed(tmp_path: Path) -> None:
    """Why: lines of a moved graph are read through views, and cannot be written to."""
    forked = fork(_table(tmp_path / "t"), "b-1", None, 2)
    shutil.move(tmp_path / "t", tmp_path / "moved")
    branch = open_head(tmp_path / "moved", "b-1")
    with pytest.raises(ValueError, match="already exists"):
        branch.add_bases([DatasetBasePath(str(tmp_path / "moved"), id=0)])
    branch.add_bases([DatasetBasePath(str(tmp_path / "moved"), name="moved")])
    assert branch.base_paths()[0].path == forked.base_paths()[0].path
    with pytest.raises(pa.ArrowInvalid, match="Not found"):
        ids(branch)
