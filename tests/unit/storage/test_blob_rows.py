"""Blobs by row: many at once in the order asked for, one with what tells it apart."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.storage.workbench import SCHEMA, STAMP, Workbench, layout, rows_of

from omnigraph.storage.blob_rows import BlobValue, blob_cell, blobs_of_rows
from omnigraph.storage.blobs import STORED_BLOB, Blob
from omnigraph.storage.handles import TableHandle

LARGE = bytes(range(256)) * 20_000
WIDER = layout("Doc", SCHEMA.replace("data: Blob?", "data: Blob?\n  more: Blob?"))
ODD = SCHEMA.replace("data: Blob?", "data: Blob?\n  small: [U32]?")


def row_ids(handle: TableHandle) -> dict[str, int]:
    found = handle.dataset.to_table(columns=["id", "_rowid"]).to_pylist()
    return {row["id"]: row["_rowid"] for row in found}


def read(value: BlobValue) -> bytes | str | None:
    return value.read(0, value.length) if isinstance(value, Blob) else value


def with_external(bench: Workbench, uri: str) -> TableHandle:
    handle = bench.doc_table(
        {"id": "large", "data": LARGE}, {"id": "null"}, {"id": "empty", "data": b""}
    )
    rows = rows_of(bench.doc, [{"id": "out"}]).drop_columns(["data"])
    cell = pa.array([{"data": None, "uri": uri}], STORED_BLOB)
    rows = rows.append_column(pa.field("data", STORED_BLOB), cell)
    return bench.land(bench.store.stage_append(handle, rows, STAMP))


@pytest.mark.parametrize("order", [["large", "null", "empty", "out"], ["out", "null", "large"], []])
def test_blobs_come_in_the_order_of_the_row_ids(bench: Workbench, order: list[str]) -> None:
    handle = with_external(bench, "s3://nowhere/x")
    expected = {"large": LARGE, "null": None, "empty": b"", "out": "s3://nowhere/x"}
    at = row_ids(handle)
    found = blobs_of_rows(handle, [at[name] for name in order], "data")
    assert [read(value) for value in found] == [expected[name] for name in order]


def test_a_blob_of_an_entity_is_found_without_opening_what_lies_outside(
    bench: Workbench, tmp_path: Path
) -> None:
    uri = (tmp_path / "missing.bin").as_uri()
    handle = with_external(bench, uri)
    found = {name: blob_cell(handle, name, "data") for name in ("large", "null", "empty", "out")}
    values = {name: read(cell.value) for name, cell in found.items() if cell is not None}
    assert values == {"large": LARGE, "null": None, "empty": b"", "out": uri}
    assert blob_cell(handle, "nobody", "data") is None


def test_a_row_tells_the_version_of_its_present_form(bench: Workbench) -> None:
    handle = bench.doc_table({"id": "a", "data": b"1"}, {"id": "b", "data": b"2"})
    before = blob_cell(handle, "a", "data")
    assert before is not None
    assert before.changed_at == handle.pin.version
    later = bench.upsert(handle, {"id": "b", "data": b"3"})
    same, other = (blob_cell(later, name, "data") for name in ("a", "b"))
    assert same is not None
    assert other is not None
    assert (same.row_id, same.changed_at) == (before.row_id, before.changed_at)
    assert other.changed_at == later.pin.version


def test_a_column_that_the_table_does_not_have_yet_reads_as_null(bench: Workbench) -> None:
    handle = replace(bench.doc_table({"id": "a", "data": b"1"}), layout=WIDER)
    assert blobs_of_rows(handle, list(row_ids(handle).values()), "more") == [None]
    cell = blob_cell(handle, "a", "more")
    assert cell is not None
    assert cell.value is None


def test_a_table_that_takes_no_filter_is_looked_through(bench: Workbench) -> None:
    odd = layout("Doc", ODD)
    handle = bench.filled(odd, {"id": "a", "data": b"1"}, {"id": "b", "data": b"2"})
    cell = blob_cell(handle, "b", "data")
    assert cell is not None
    assert read(cell.value) == b"2"
    assert blob_cell(handle, "nobody", "data") is None
