"""Staging writes files and moves nothing; what is committed carries the stamp that it was given."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import write_fragments
from tests.guards.lance_tables import (
    PRIMARY_KEY,
    SCHEMA,
    StagedMerge,
    Stamp,
    btree,
    by_id,
    commit,
    commit_anywhere,
    commit_detached,
    coverage,
    create_table,
    fork,
    ids,
    inverted,
    open_head,
    open_pin,
    restore,
    rows,
    search,
    something,
    stage_add_columns,
    stage_append,
    stage_compaction,
    stage_delete,
    stage_drop_columns,
    stage_index,
    stage_merge_insert,
    stage_overwrite,
    stage_restore,
    stage_update,
    stamp,
    transaction_at,
)

LINES = ("main", "branch", "branch of a branch")


def _line(path: Path, line: str) -> LanceDataset:
    """A table of two fragments on the wanted line, `a` to `d` in it."""
    table = create_table(path, rows("a", "b"))
    table = commit(table, stage_append(table, rows("c")))
    if line == "main":
        return commit(table, stage_append(table, rows("d")))
    branch = fork(table, "b-1", None, table.version)
    branch = commit(branch, stage_append(branch, rows("d")))
    return branch if line == "branch" else fork(table, "b-2", "b-1", branch.version)


def _added(table: LanceDataset, by: Stamp) -> Transaction:
    return stage_add_columns(table, [pa.field("age", pa.int64())], "scratch-1", by)


PRIMITIVES: dict[str, Callable[[LanceDataset, Stamp], Transaction]] = {
    "append": lambda table, by: stage_append(table, rows("n"), by),
    "merge_insert": lambda table, by: stage_merge_insert(table, rows("a", "n"), by).transaction,
    "update": lambda table, by: stage_update(table, rows("a", rank=7), by).transaction,
    "delete": lambda table, by: something(stage_delete(table, pc.field("id") == "a", by)),
    "overwrite": lambda table, by: stage_overwrite(table, rows("n"), by),
    "truncate": lambda table, by: stage_overwrite(table, None, by),
    "index": lambda table, by: stage_index(
        table, [btree("id", "ix_id"), inverted("body", "ix_body")], by
    ),
    "compaction": lambda table, by: something(stage_compaction(table, by=by)),
    "add column": _added,
    "drop column": lambda table, by: stage_drop_columns(table, ["rank"], "scratch-1", by),
    "restore": lambda table, by: stage_restore(table, table.version, by),
}
CONTENT = {
    "append": ["a", "b", "c", "d", "n"],
    "merge_insert": ["a", "b", "c", "d", "n"],
    "delete": ["b", "c", "d"],
    "overwrite": ["n"],
    "truncate": [],
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("primitive", PRIMITIVES)
def test_lance_guard_staging_moves_no_head_and_the_commit_keeps_its_stamp(
    tmp_path: Path, primitive: str, line: str
) -> None:
    """Why: recovery tells its own versions from foreign ones by uuid and properties alone."""
    path = tmp_path / "t"
    table = _line(path, line)
    branch = {"main": None, "branch": "b-1", "branch of a branch": "b-2"}[line]
    before = open_head(path).version, open_head(path, branch).version
    by = stamp("01J0000000000000000000GRAPH", "load")

    staged = PRIMITIVES[primitive](table, by)
    assert (open_head(path).version, open_head(path, branch).version) == before

    committed = commit(table, staged)
    found = open_head(path, branch)
    assert committed.version == found.version == table.version + 1
    made = transaction_at(found, found.version)
    assert (made.uuid, made.transaction_properties) == (by.uuid, by.properties)
    assert ids(found) == CONTENT.get(primitive, ["a", "b", "c", "d"])
    found.validate()  # type: ignore[no-untyped-call]
    if branch:
        assert open_head(path).version == before[0]
        assert ids(open_head(path)) == ["a", "b", "c"]


# --- creation ---------------------------------------------------------------------------------


def test_lance_guard_stable_row_ids_can_be_set_only_at_creation(tmp_path: Path) -> None:
    """Why: a table created without them can never be repaired, so creation is checked."""
    path = tmp_path / "plain"
    lance.write_dataset(rows("a"), path)
    lance.write_dataset(rows("b"), path, mode="append", enable_stable_row_ids=True)
    lance.write_dataset(rows("c"), path, mode="overwrite", enable_stable_row_ids=True)
    head = lance.dataset(path)
    LanceDataset.commit(head, stage_append(head, rows("d")), enable_stable_row_ids=True)
    assert not lance.dataset(path).has_stable_row_ids


def test_lance_guard_stable_row_ids_survive_an_overwrite(tmp_path: Path) -> None:
    """Why: an overwrite load must not turn a graph's table into one without row identity."""
    table = create_table(tmp_path / "t", rows("a"))
    lance.write_dataset(rows("b"), tmp_path / "t", mode="overwrite", enable_stable_row_ids=False)
    assert open_head(tmp_path / "t").has_stable_row_ids
    assert table.has_stable_row_ids


def test_lance_guard_a_new_table_has_its_key_its_format_and_no_automatic_cleanup(
    tmp_path: Path,
) -> None:
    """Why: the key steers conflicts, the format is fixed, and cleanup belongs to the kernel."""
    table = create_table(tmp_path / "t")
    assert table.data_storage_version == "2.2"
    assert [key.name() for key in table.lance_schema.unenforced_primary_key()] == ["id"]
    assert table.config() == {}


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_lance_guard_later_files_keep_the_storage_version_of_the_table(
    tmp_path: Path, mode: str
) -> None:
    """Why: executors write files without knowing the version of the table."""
    table = create_table(tmp_path / "t", rows("a"))
    (fragment,) = write_fragments(rows("b"), table, mode=mode)
    file = fragment.files[0]
    assert (file.file_major_version, file.file_minor_version) == (2, 2)


def test_lance_guard_creating_where_a_table_is_fails(tmp_path: Path) -> None:
    """Why: init finds a half-created root by this error."""
    create_table(tmp_path / "t")
    with pytest.raises(OSError, match="already exists"):
        create_table(tmp_path / "t")


def test_lance_guard_automatic_cleanup_can_be_removed(tmp_path: Path) -> None:
    """Why: a configured cleanup would delete pinned versions, so open removes the keys."""
    path = tmp_path / "t"
    lance.write_dataset(
        rows("a"), path, auto_cleanup_options={"interval": 1, "older_than_seconds": 0}
    )
    table = lance.dataset(path)
    keys = [key for key in table.config() if key.startswith("lance.auto_cleanup.")]
    assert keys
    table.delete_config_keys(keys)
    assert lance.dataset(path).config() == {}


# --- rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("indexed", [False, True])
def test_lance_guard_a_duplicate_that_matches_is_refused_and_one_that_does_not_is_inserted_twice(
    tmp_path: Path, *, indexed: bool
) -> None:
    """Why: Lance checks only half of it, so input is made unique before it is staged."""
    table = create_table(tmp_path / "t", rows("a"))
    if indexed:
        table = commit(table, stage_index(table, [btree("id", "ix_id")]))
    with pytest.raises(OSError, match="Ambiguous merge inserts"):
        stage_merge_insert(table, rows("a", "a"))
    twice = stage_merge_insert(table, rows("z", "z"))
    assert twice.inserted == 2
    assert ids(commit(table, twice.transaction)) == ["a", "z", "z"]


@pytest.mark.parametrize("use_index", [False, True])
def test_lance_guard_upsert_counts_what_it_inserts_and_updates(
    tmp_path: Path, *, use_index: bool
) -> None:
    """Why: `stage_update` proves its input by these counts, with and without the id index."""
    table = create_table(tmp_path / "t", rows("a", "b"))
    table = commit(table, stage_index(table, [btree("id", "ix_id")]))
    staged = stage_merge_insert(table, rows("a", "x", "y", rank=3), use_index=use_index)
    assert (staged.inserted, staged.updated) == (2, 1)
    only = stage_update(table, rows("a", "x", rank=3))
    assert (only.inserted, only.updated) == (0, 1)
    assert by_id(commit(table, staged.transaction), "rank")["a"] == (3,)


@pytest.mark.parametrize("stage", [stage_merge_insert, stage_update])
def test_lance_guard_an_empty_upsert_would_make_a_version(
    tmp_path: Path, stage: Callable[[LanceDataset, pa.Table], StagedMerge]
) -> None:
    """Why: no-ops are recognised before staging, for Lance commits an empty transaction."""
    table = create_table(tmp_path / "t", rows("a"))
    staged = stage(table, SCHEMA.empty_table())
    assert (staged.inserted, staged.updated) == (0, 0)
    assert commit(table, staged.transaction).version == table.version + 1


def test_lance_guard_an_update_that_matches_nothing_would_make_a_version(tmp_path: Path) -> None:
    """Why: the count, not the transaction, tells whether an update did anything."""
    table = create_table(tmp_path / "t", rows("a"))
    staged = stage_update(table, rows("absent"))
    assert staged.updated == 0
    assert commit(table, staged.transaction).version == table.version + 1


def test_lance_guard_a_delete_that_matches_nothing_stages_nothing(tmp_path: Path) -> None:
    """Why: an untouched table stays out of the sidecar and of the publish."""
    table = create_table(tmp_path / "t", rows("a"))
    assert stage_delete(table, pc.field("id") == "absent") is None


def test_lance_guard_fragment_delete_returns_metadata_when_nothing_matched(tmp_path: Path) -> None:
    """Why: metadata does not mean change, so deletes go by offsets and count."""
    (fragment,) = create_table(tmp_path / "t", rows("a", "b")).get_fragments()
    unchanged = fragment.delete("id = 'absent'")
    assert unchanged is not None
    assert unchanged.num_deletions == 0
    assert fragment.delete_rows([]) is not None


def test_lance_guard_fragment_delete_returns_none_when_no_row_is_left(tmp_path: Path) -> None:
    """Why: such a fragment goes to the removed ids, not to the updated ones."""
    (fragment,) = create_table(tmp_path / "t", rows("a", "b")).get_fragments()
    assert fragment.delete("id in ('a', 'b')") is None
    assert fragment.delete_rows([0, 1]) is None


def test_lance_guard_fragment_delete_refuses_an_offset_outside_the_fragment(tmp_path: Path) -> None:
    """Why: a wrong address fails loudly and deletes nothing."""
    (fragment,) = create_table(tmp_path / "t", rows("a", "b")).get_fragments()
    with pytest.raises(ValueError, match="out of range"):
        fragment.delete_rows([7])


def test_lance_guard_an_append_may_be_committed_unchanged_on_a_later_pin(tmp_path: Path) -> None:
    """Why: a long load rebases its appends by changing the read version and nothing else."""
    table = create_table(tmp_path / "t", rows("a"))
    late = stage_append(table, rows("late"))
    moved = commit(table, stage_overwrite(table, rows("new")))
    landed = commit(moved, replace(late, read_version=moved.version))
    assert ids(landed) == ["late", "new"]


def test_lance_guard_an_overwrite_drops_every_index(tmp_path: Path) -> None:
    """Why: after an overwrite the text indexes must be registered again, or search goes wrong."""
    table = create_table(tmp_path / "t", rows("a", body="wolf"))
    table = commit(table, stage_index(table, [btree("id", "ix_id"), inverted("body", "ix_body")]))
    replaced = commit(table, stage_overwrite(table, rows("b", body="Wolf")))
    assert replaced.describe_indices() == []
    assert search(replaced, "wolf") == [], "found without the index's analyzer"
    again = commit(replaced, stage_index(replaced, [inverted("body", "ix_body", train=False)]))
    assert search(again, "wolf") == ["b"]


def test_lance_guard_an_overwrite_by_arrow_schema_renumbers_the_fields(tmp_path: Path) -> None:
    """Why: field ids mean nothing across an overwrite unless the Lance schema is passed on."""
    table = create_table(tmp_path / "t", rows("a"))
    table = commit(table, stage_drop_columns(table, ["body"], "scratch-1"))
    new = pa.table({"id": ["b"], "rank": [1]}, schema=table.schema)
    fresh = commit(table, stage_overwrite(table, new))
    assert [field.id() for field in fresh.lance_schema.fields()] == [0, 1]

    back = restore(fresh, table.version)
    files = write_fragments(new, back, mode="append")
    kept = commit(
        back, Transaction(back.version, LanceOperation.Overwrite(back.lance_schema, files))
    )
    assert [field.id() for field in kept.lance_schema.fields()] == [0, 2]
    assert kept.to_table().to_pylist() == [{"id": "b", "rank": 1}]


# --- abandoned and detached files -------------------------------------------------------------


def test_lance_guard_abandoned_files_survive_a_plain_cleanup_and_can_still_be_committed(
    tmp_path: Path,
) -> None:
    """Why: cleanup may run beside a job that is still staging."""
    table = create_table(tmp_path / "t", rows("a"))
    staged = stage_append(table, rows("b"))
    table.cleanup_old_versions(older_than=timedelta(0))
    assert ids(commit(table, staged)) == ["a", "b"]


def test_lance_guard_delete_unverified_removes_the_files_of_a_job_that_is_still_staging(
    tmp_path: Path,
) -> None:
    """Why: it turns a good commit into an unreadable head; it is never passed."""
    table = create_table(tmp_path / "t", rows("a"))
    staged = stage_append(table, rows("b"))
    table.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    broken = commit(table, staged)
    with pytest.raises(pa.ArrowInvalid, match="Not found"):
        ids(broken)


@pytest.mark.parametrize("line", ["main", "branch"])
def test_lance_guard_a_detached_commit_is_readable_and_moves_no_head(
    tmp_path: Path, line: str
) -> None:
    """Why: checks scan staged files as a table before anything of them is committed."""
    table = _line(tmp_path / "t", line)
    staged = stage_append(table, rows("n"))
    view = commit_detached(table, staged)
    assert ids(view) == ["a", "b", "c", "d", "n"]
    branch = None if line == "main" else "b-1"
    assert open_head(tmp_path / "t", branch).version == table.version
    assert ids(commit(table, staged)) == ["a", "b", "c", "d", "n"]


def test_lance_guard_a_detached_commit_needs_at_least_one_retry(tmp_path: Path) -> None:
    """Why: with `max_retries=0`, as everywhere else, it always fails."""
    table = create_table(tmp_path / "t", rows("a"))
    staged = stage_append(table, rows("b"))
    with pytest.raises(OSError, match="after 0 retries"):
        LanceDataset.commit(table, staged, detached=True, max_retries=0)


def test_lance_guard_cleanup_keeps_detached_manifests(tmp_path: Path) -> None:
    """Why: the pipeline removes its staged view itself, nobody else does."""
    table = create_table(tmp_path / "t", rows("a"))
    view = commit_detached(table, stage_append(table, rows("b")))
    table = commit(table, stage_append(table, rows("c")))
    table.cleanup_old_versions(older_than=timedelta(0))
    assert ids(lance.dataset(tmp_path / "t", version=view.version)) == ["a", "b"]


def test_lance_guard_delete_rows_works_on_a_staged_fragment(tmp_path: Path) -> None:
    """Why: quarantined rows leave a staged file as a deletion vector."""
    table = create_table(tmp_path / "t", rows("a"))
    view = commit_detached(table, stage_append(table, rows("x", "y")))
    kept = view.get_fragments()[-1].delete_rows([0])
    assert kept is not None
    assert (kept.num_deletions, kept.num_rows) == (1, 1)


def test_lance_guard_a_fragment_of_a_detached_version_brings_row_ids_that_are_given_twice(
    tmp_path: Path,
) -> None:
    """Why: row ids must be stripped from such a piece, for the commit takes them as they are."""
    table = create_table(tmp_path / "t", rows("a"))
    view = commit_detached(table, stage_append(table, rows("x", "y")))
    kept = view.get_fragments()[-1].delete_rows([0])
    assert kept is not None
    taken = commit(table, Transaction(table.version, LanceOperation.Append([kept])))
    taken = commit(taken, stage_append(taken, rows("p", "q")))
    row_ids = [row_id for (row_id,) in by_id(taken, "_rowid").values()]
    assert len(set(row_ids)) < len(row_ids)

    back = restore(taken, table.version)
    bare = replace(
        kept, row_id_meta=None, created_at_version_meta=None, last_updated_at_version_meta=None
    )
    clean = commit(back, Transaction(back.version, LanceOperation.Append([bare])))
    clean = commit(clean, stage_append(clean, rows("p", "q")))
    assert sorted(by_id(clean, "_rowid")) == ["a", "p", "q", "y"]
    row_ids = [row_id for (row_id,) in by_id(clean, "_rowid").values()]
    assert len(set(row_ids)) == len(row_ids)


def test_lance_guard_an_append_that_renumbers_a_fragment_loses_its_deletion_file(
    tmp_path: Path,
) -> None:
    """Why: deletion files are named after the fragment, so this makes an unreadable head."""
    table = create_table(tmp_path / "t", rows("a"))
    view = commit_detached(table, stage_append(table, rows("x", "y")))
    kept = view.get_fragments()[-1].delete_rows([0])
    assert kept is not None
    moved = commit(table, stage_append(table, rows("first")))
    with pytest.raises(OSError, match="two fragments with id"):
        commit_anywhere(moved, Transaction(moved.version, LanceOperation.Append([kept])))
    renumbered = Transaction(moved.version, LanceOperation.Append([replace(kept, id=0)]))
    broken = commit(moved, renumbered)
    with pytest.raises(pa.ArrowInvalid, match="_deletions"):
        ids(broken)


# --- places -----------------------------------------------------------------------------------


def test_lance_guard_a_pin_is_opened_by_line_and_version(tmp_path: Path) -> None:
    """Why: the same version number means different content on different lines."""
    path = tmp_path / "t"
    table = create_table(path, rows("a"))
    branch = fork(table, "b-1", None, 1)
    commit(branch, stage_append(branch, rows("on-branch")))
    commit(table, stage_append(table, rows("on-main")))
    assert ids(open_pin(path, None, 2)) == ["a", "on-main"]
    assert ids(open_pin(path, "b-1", 2)) == ["a", "on-branch"]
    assert ids(open_pin(path, "b-1", 2).checkout_version((None, 2))) == ["a", "on-main"]


def test_lance_guard_latest_version_is_asked_of_the_store_and_does_not_move_the_handle(
    tmp_path: Path,
) -> None:
    """Why: freshness of a read costs one call on a handle that stays pinned."""
    table = create_table(tmp_path / "t", rows("a"))
    branch = fork(table, "b-1", None, 1)
    held = open_pin(tmp_path / "t", "b-1", 1)
    commit(branch, stage_append(branch, rows("b")))
    assert (held.version, held.latest_version) == (1, 2)
    assert ids(held) == ["a"]
    assert table.latest_version == 1


def test_lance_guard_the_key_metadata_survives_upsert_overwrite_and_compaction(
    tmp_path: Path,
) -> None:
    """Why: without it on the newest version, same-key inserts stop conflicting."""
    table = create_table(tmp_path / "t", rows("a"))
    table = commit(table, stage_merge_insert(table, rows("b")).transaction)
    table = commit(table, something(stage_compaction(table)))
    table = commit(table, stage_overwrite(table, rows("c")))
    expected = {key.encode(): value.encode() for key, value in PRIMARY_KEY.items()}
    assert table.schema.field("id").metadata == expected
    assert not table.schema.field("id").nullable


def test_lance_guard_staged_index_on_a_branch_covers_the_fragments_of_its_parents(
    tmp_path: Path,
) -> None:
    """Why: an index built on a branch must not leave the inherited rows to scans."""
    table = _line(tmp_path / "t", "branch of a branch")
    table = commit(table, stage_index(table, [btree("id", "ix_id")]))
    assert len(coverage(table, "ix_id")) == len(table.get_fragments())
