"""Columns are added and dropped with Lance's own field ids, taken from a scratch branch."""

from pathlib import Path

import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.schema import LanceSchema
from tests.guards.lance_tables import (
    SCHEMA,
    btree,
    by_id,
    commit,
    coverage,
    create_table,
    fork,
    ids,
    inverted,
    rows,
    search,
    something,
    stage_add_columns,
    stage_append,
    stage_compaction,
    stage_drop_columns,
    stage_index,
    stage_merge_insert,
)

AGE = pa.field("age", pa.uint64())


def _table(path: Path) -> LanceDataset:
    table = create_table(path, rows("a", body="wolf"))
    table = commit(table, stage_append(table, rows("b", body="fox")))
    return commit(table, stage_index(table, [btree("id", "ix_id"), inverted("body", "ix_body")]))


def _field_ids(table: LanceDataset) -> dict[str, int]:
    return {field.name(): field.id() for field in table.lance_schema.fields()}


@pytest.mark.parametrize("line", ["main", "branch", "branch of a branch"])
def test_lance_guard_columns_come_and_go_with_id_gaps_appends_and_upserts(
    tmp_path: Path, line: str
) -> None:
    """Why: schema evolution is metadata only, on every line, and never revives a dropped column."""
    table = _table(tmp_path / "t")
    for number, parent in enumerate({"main": (), "branch": (None,)}.get(line, (None, "b-1")), 1):
        table = fork(table, f"b-{number}", parent, table.version)

    table = commit(table, stage_add_columns(table, [AGE], "scratch-1"))
    assert by_id(table, "age", "rank") == {"a": (None, 0), "b": (None, 0)}

    table = commit(table, stage_drop_columns(table, ["rank"], "scratch-2"))
    assert _field_ids(table) == {"id": 0, "body": 1, "age": 3}

    new = pa.table({"id": ["c"], "body": ["owl"], "age": [7]}, schema=table.schema)
    table = commit(table, stage_append(table, new))
    table = commit(table, stage_add_columns(table, [pa.field("rank", pa.string())], "scratch-3"))
    assert by_id(table, "rank") == {"a": (None,), "b": (None,), "c": (None,)}
    assert _field_ids(table)["rank"] == 4

    changed = pa.table(
        {"id": ["a", "d"], "body": ["wolf"] * 2, "age": [1, 2], "rank": ["x", "y"]},
        schema=table.schema,
    )
    table = commit(table, stage_merge_insert(table, changed).transaction)
    table = commit(table, something(stage_compaction(table)))
    assert by_id(table, "age", "rank") == {
        "a": (1, "x"),
        "b": (None, None),
        "c": (7, None),
        "d": (2, "y"),
    }
    assert search(table, "wolf") == ["a", "d"]


def test_lance_guard_column_changes_keep_indexes_and_their_coverage(tmp_path: Path) -> None:
    """Why: adding a property must not cost a re-index."""
    table = _table(tmp_path / "t")
    before = coverage(table, "ix_body")
    table = commit(table, stage_add_columns(table, [AGE], "scratch-1"))
    table = commit(table, stage_drop_columns(table, ["rank"], "scratch-2"))
    assert coverage(table, "ix_body") == before == {0, 1}
    assert search(table, "wolf") == ["a"]


def test_lance_guard_dropping_an_indexed_column_drops_its_index(tmp_path: Path) -> None:
    """Why: a re-added property of the same name starts without an index."""
    table = _table(tmp_path / "t")
    table = commit(table, stage_drop_columns(table, ["body"], "scratch-1"))
    assert [index.name for index in table.describe_indices()] == ["ix_id"]


def test_lance_guard_the_scratch_branch_leaves_no_trace(tmp_path: Path) -> None:
    """Why: staging a column change is as invisible as any other staging."""
    table = _table(tmp_path / "t")
    stage_add_columns(table, [AGE], "scratch-1")
    assert table.branches.list() == {}
    assert table.latest_version == table.version


def test_lance_guard_project_with_an_arrow_schema_makes_the_head_unreadable(tmp_path: Path) -> None:
    """Why: it renumbers fields and nobody objects, so the Lance schema is the only one passed."""
    table = create_table(tmp_path / "t", rows("a"))
    narrow = pa.schema([SCHEMA.field("id"), SCHEMA.field("rank")])
    project = LanceOperation.Project(LanceSchema.from_pyarrow(narrow))
    broken = commit(table, Transaction(table.version, project))
    assert _field_ids(broken) == {"id": 0, "rank": 1}
    with pytest.raises(pa.ArrowInvalid):
        broken.to_table()
    assert ids(broken) == ["a"], "the untouched column still reads"


def test_lance_guard_merge_with_renumbered_fields_is_refused(tmp_path: Path) -> None:
    """Why: Lance 14 checks field ids in a merge, though not in a projection."""
    table = create_table(tmp_path / "t", rows("a"))
    table = commit(table, stage_drop_columns(table, ["body"], "scratch-1"))
    fragments = [fragment.metadata for fragment in table.get_fragments()]
    renumbered = LanceSchema.from_pyarrow(table.schema.append(AGE))
    merge = LanceOperation.Merge(fragments, renumbered, preserves_nullability=True)
    with pytest.raises(OSError, match="Merge operation"):
        commit(table, Transaction(table.version, merge))


def test_lance_guard_merge_warns_about_an_arrow_schema(tmp_path: Path) -> None:
    """Why: the deprecated form goes the same way and may come back as an error."""
    table = create_table(tmp_path / "t", rows("a"))
    fragments = [fragment.metadata for fragment in table.get_fragments()]
    with pytest.warns(DeprecationWarning, match="pyarrow.Schema to Merge"):
        LanceOperation.Merge(fragments, table.schema.append(AGE))
