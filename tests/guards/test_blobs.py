"""Blob columns go through every staged primitive and read from every line."""

from pathlib import Path
from typing import cast

import lance
import pyarrow as pa
from lance import LanceDataset
from tests.guards.lance_tables import (
    SCHEMA,
    by_id,
    commit,
    create_table,
    fork,
    rows,
    something,
    stage_add_columns,
    stage_append,
    stage_compaction,
    stage_merge_insert,
    stage_overwrite,
)

LARGE = bytes(range(256)) * 20_000
"""Above the limit from which Lance gives a blob a file of its own."""
PACKED = b"p" * 200_000
BLOB = lance.blob_field("data")
BLOB_SCHEMA = SCHEMA.append(BLOB)


def _rows(**blobs: bytes | None) -> pa.Table:
    return rows(*blobs).append_column(BLOB, lance.blob_array(list(blobs.values())))


def _blobs(table: LanceDataset) -> dict[str, bytes | None]:
    found = {}
    for key, (row_id,) in by_id(table, "_rowid").items():
        (blob,) = table.take_blobs("data", ids=[cast("int", row_id)])
        found[key] = None if blob is None else blob.read()
    return found


def test_lance_guard_blobs_survive_append_upsert_compaction_and_branches(tmp_path: Path) -> None:
    """Why: null, empty, inline, packed and large values stay apart through every write."""
    table = create_table(
        tmp_path / "t", _rows(null=None, empty=b"", small=b"s"), schema=BLOB_SCHEMA
    )
    table = commit(table, stage_append(table, _rows(large=LARGE, packed=PACKED)))
    expected = {"null": None, "empty": b"", "small": b"s", "large": LARGE, "packed": PACKED}
    assert _blobs(table) == expected

    changed = _rows(small=LARGE, empty=None, new=b"n")
    table = commit(table, stage_merge_insert(table, changed).transaction)
    expected |= {"small": LARGE, "empty": None, "new": b"n"}
    assert _blobs(table) == expected

    table = commit(table, something(stage_compaction(table)))
    assert _blobs(table) == expected

    branch = fork(table, "b-1", None, table.version)
    branch = commit(branch, stage_append(branch, _rows(branch=LARGE)))
    branch = commit(branch, something(stage_compaction(branch)))
    assert _blobs(branch) == {**expected, "branch": LARGE}
    assert _blobs(table) == expected


def test_lance_guard_blobs_survive_an_overwrite_and_an_added_blob_column(tmp_path: Path) -> None:
    """Why: loads replace and schemas grow with blob properties too."""
    table = create_table(tmp_path / "t", _rows(a=b"old"), schema=BLOB_SCHEMA)
    table = commit(table, stage_overwrite(table, _rows(b=LARGE, c=None)))
    more = lance.blob_field("more")
    table = commit(table, stage_add_columns(table, [more], "scratch-1"))
    assert _blobs(table) == {"b": LARGE, "c": None}
    (blob,) = table.take_blobs("more", indices=[0])
    assert blob is None


def test_lance_guard_read_blobs_answers_with_row_addresses(tmp_path: Path) -> None:
    """Why: a caller that asked by row id must not take the numbers for row ids."""
    table = create_table(tmp_path / "t", _rows(a=b"a"), schema=BLOB_SCHEMA)
    table = commit(table, stage_append(table, _rows(b=b"b")))
    ((address, value),) = table.read_blobs("data", ids=[1])
    assert (address >> 32, address & 0xFFFFFFFF, value) == (1, 0, b"b")
