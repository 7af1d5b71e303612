"""What Lance does with a transaction staged at v when another one was committed as v + 1.

Everything is committed with `max_retries=0`. The kernel's lease, its check of the head before a
commit and of the version after it all exist because of the cells that say `lands`.
"""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance import LanceDataset, Transaction
from lance.commit import CommitConflictError
from tests.guards.lance_tables import (
    Interleaved,
    btree,
    commit,
    commit_anywhere,
    create_table,
    ids,
    open_head,
    restore,
    rows,
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
    transaction_at,
)

LANDS, NO, NEVER = "lands", "no", "never"


def _two_fragments(path: Path) -> LanceDataset:
    table = create_table(path, rows("a", "b", "c"))
    table = commit(table, stage_append(table, rows("d", "e", "f")))
    return commit(table, stage_index(table, [btree("id", "ix_id")]))


def _delete(table: LanceDataset, row_id: str) -> Transaction:
    return something(stage_delete(table, pc.field("id") == row_id))


KINDS: dict[str, Callable[[LanceDataset], Transaction]] = {
    "append": lambda table: stage_append(table, rows("new")),
    "upsert": lambda table: stage_merge_insert(table, rows("a", rank=1)).transaction,
    "insert-only upsert": lambda table: stage_merge_insert(table, rows("z")).transaction,
    "delete": lambda table: _delete(table, "a"),
    "index": lambda table: stage_index(table, [btree("id", "ix_id")]),
    "rewrite": lambda table: something(stage_compaction(table, numbered=False)),
    "overwrite": lambda table: stage_overwrite(table, rows("only")),
    "restore": lambda table: stage_restore(table, table.version),
}

# Columns in the order of KINDS: what was committed in between.
MATRIX = {
    "append": (LANDS, LANDS, LANDS, LANDS, LANDS, LANDS, NEVER, NEVER),
    "upsert": (LANDS, NO, LANDS, NO, LANDS, NO, NEVER, NEVER),
    "insert-only upsert": (LANDS, LANDS, LANDS, LANDS, LANDS, LANDS, NEVER, NEVER),
    "delete": (LANDS, NO, LANDS, NO, LANDS, NO, NEVER, NEVER),
    "index": (LANDS, LANDS, LANDS, LANDS, NO, NO, NEVER, NEVER),
    "rewrite": (LANDS, NO, LANDS, NO, NO, NO, NEVER, NEVER),
    "overwrite": (NO,) * 8,
    "restore": (LANDS,) * 8,
}
CELLS = [
    pytest.param(staged, landed, outcome, id=f"{staged}-after-{landed}".replace(" ", "-"))
    for staged, outcomes in MATRIX.items()
    for landed, outcome in zip(KINDS, outcomes, strict=True)
]


def _outcome(table: LanceDataset, late: Transaction) -> str:
    try:
        committed = commit_anywhere(table, late)
    except CommitConflictError as conflict:
        return NO if conflict.retryable else NEVER
    assert committed.version == table.version + 2
    return LANDS


@pytest.mark.parametrize(("staged", "landed", "outcome"), CELLS)
def test_lance_guard_conflict_matrix(
    tmp_path: Path, staged: str, landed: str, outcome: str
) -> None:
    """Why: phases A to D trust no cell; each states what a missing lease would cost."""
    table = _two_fragments(tmp_path / "t")
    late, first = KINDS[staged](table), KINDS[landed](table)
    assert table.latest_version == table.version, "staging moved the head"
    commit(table, first)
    assert _outcome(table, late) == outcome
    moved = 2 if outcome == LANDS else 1
    assert open_head(tmp_path / "t").version == table.version + moved


def test_lance_guard_append_staged_before_an_overwrite_is_refused_for_good(tmp_path: Path) -> None:
    """Why: an overwrite is the one write whose rows a late append must never join."""
    table = _two_fragments(tmp_path / "t")
    late = stage_append(table, rows("late"))
    commit(table, stage_overwrite(table, rows("only")))
    with pytest.raises(CommitConflictError) as refused:
        LanceDataset.commit(table, late, max_retries=20)
    assert not refused.value.retryable
    assert ids(open_head(tmp_path / "t")) == ["only"]


def test_lance_guard_version_check_reports_a_rebased_commit(tmp_path: Path) -> None:
    """Why: `max_retries=0` still rebases, so only the version proves that nothing interleaved."""
    table = _two_fragments(tmp_path / "t")
    late = stage_append(table, rows("late"))
    commit(table, stage_append(table, rows("first")))
    with pytest.raises(Interleaved):
        commit(table, late)
    assert open_head(tmp_path / "t").version == table.version + 2


def test_lance_guard_insert_only_upserts_of_one_key_both_land(tmp_path: Path) -> None:
    """Why: Lance does not guard a key between staged upserts; the lease and the pin do."""
    table = _two_fragments(tmp_path / "t")
    late = stage_merge_insert(table, rows("z", rank=2)).transaction
    commit(table, stage_merge_insert(table, rows("z", rank=1)).transaction)
    commit_anywhere(table, late)
    assert ids(open_head(tmp_path / "t")).count("z") == 2


@pytest.mark.parametrize(("row_id", "outcome"), [("b", NO), ("d", LANDS)])
def test_lance_guard_deletes_conflict_by_fragment_not_by_row(
    tmp_path: Path, row_id: str, outcome: str
) -> None:
    """Why: conflict detection is coarser than rows here and finer than the table there."""
    table = _two_fragments(tmp_path / "t")
    late = _delete(table, row_id)
    commit(table, _delete(table, "a"))
    assert _outcome(table, late) == outcome


@pytest.mark.parametrize(("row_id", "outcome"), [("b", NO), ("d", LANDS)])
def test_lance_guard_upserts_conflict_by_fragment_not_by_row(
    tmp_path: Path, row_id: str, outcome: str
) -> None:
    """Why: two upserts of different fragments both land, so Lance serialises no writers."""
    table = _two_fragments(tmp_path / "t")
    late = stage_merge_insert(table, rows(row_id, rank=2)).transaction
    commit(table, stage_merge_insert(table, rows("a", rank=1)).transaction)
    assert _outcome(table, late) == outcome


def test_lance_guard_indexes_of_different_names_do_not_conflict(tmp_path: Path) -> None:
    """Why: only the same name conflicts, so two `ensure_indices` may interleave silently."""
    table = _two_fragments(tmp_path / "t")
    late = stage_index(table, [btree("rank", "ix_rank")])
    commit(table, KINDS["index"](table))
    assert _outcome(table, late) == LANDS


def test_lance_guard_numbered_rewrite_is_refused_after_an_append(tmp_path: Path) -> None:
    """Why: with numbers of our own a late rewrite cannot land; the error is a plain `OSError`."""
    table = _two_fragments(tmp_path / "t")
    late = something(stage_compaction(table))
    commit(table, stage_append(table, rows("first")))
    with pytest.raises(OSError, match="two fragments with id") as refused:
        commit_anywhere(table, late)
    assert not isinstance(refused.value, CommitConflictError)
    assert open_head(tmp_path / "t").version == table.version + 1


# --- the fence --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in {"overwrite", "restore"}])
def test_lance_guard_restore_of_the_head_refuses_what_was_staged_before(
    tmp_path: Path, kind: str
) -> None:
    """Why: recovery restores unmoved tables too, so that a writer that wakes late is refused."""
    table = _two_fragments(tmp_path / "t")
    late = KINDS[kind](table)
    restore(table, table.version)
    with pytest.raises(CommitConflictError) as refused:
        LanceDataset.commit(table, late, max_retries=20)
    assert not refused.value.retryable


def _add_column(table: LanceDataset) -> Transaction:
    return stage_add_columns(table, [pa.field("age", pa.int64())], "scratch-1")


def _drop_column(table: LanceDataset) -> Transaction:
    return stage_drop_columns(table, ["rank"], "scratch-1")


@pytest.mark.parametrize("stage", [_add_column, _drop_column])
def test_lance_guard_restore_refuses_column_changes_staged_before(
    tmp_path: Path, stage: Callable[[LanceDataset], Transaction]
) -> None:
    """Why: a schema apply is recovered by the same fence as a write."""
    table = _two_fragments(tmp_path / "t")
    late = stage(table)
    restore(table, table.version)
    with pytest.raises(CommitConflictError) as refused:
        commit_anywhere(table, late)
    assert not refused.value.retryable


def test_lance_guard_add_column_conflicts_with_an_append_but_drop_column_lands(
    tmp_path: Path,
) -> None:
    """Why: a dropped column interleaves silently, so schema applies check versions as well."""
    adding = _two_fragments(tmp_path / "add")
    late = _add_column(adding)
    commit(adding, stage_append(adding, rows("first")))
    assert _outcome(adding, late) == NO

    dropping = _two_fragments(tmp_path / "drop")
    late = _drop_column(dropping)
    commit(dropping, stage_append(dropping, rows("first")))
    assert _outcome(dropping, late) == LANDS


def test_lance_guard_overwrite_passes_the_fence_when_retries_are_allowed(tmp_path: Path) -> None:
    """Why: an overwrite is fenced by `max_retries=0` alone and must never get more."""
    table = _two_fragments(tmp_path / "t")
    late = stage_overwrite(table, rows("late"))
    restore(table, table.version)
    with pytest.raises(CommitConflictError):
        commit_anywhere(table, late)
    assert ids(LanceDataset.commit(table, late, max_retries=1)) == ["late"]


def test_lance_guard_restore_lands_on_a_head_it_never_saw(tmp_path: Path) -> None:
    """Why: nothing but the branch's lease protects a head from a restore."""
    table = _two_fragments(tmp_path / "t")
    late = stage_restore(table, 1)
    commit(table, stage_append(table, rows("x")))
    commit(open_head(tmp_path / "t"), stage_append(open_head(tmp_path / "t"), rows("y")))
    landed = commit_anywhere(table, late)
    assert landed.version == table.version + 3
    assert ids(landed) == ["a", "b", "c"]


def test_lance_guard_the_same_transaction_can_be_committed_twice(tmp_path: Path) -> None:
    """Why: a uuid is a proof, not a lock; a commit with unknown outcome is read, never repeated."""
    table = _two_fragments(tmp_path / "t")
    append = stage_append(table, rows("twice"))
    commit(table, append)
    commit_anywhere(table, append)
    head = open_head(tmp_path / "t")
    assert ids(head).count("twice") == 2
    made = [transaction_at(head, version).uuid for version in (head.version - 1, head.version)]
    assert made == [append.uuid, append.uuid]
