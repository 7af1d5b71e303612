"""Blob cells of a write as columns, and what a write may hold of them."""

import base64
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.graph.graphs import quick

from omnigraph import Graph
from omnigraph.errors import ExternalBlobDenied, InvalidArgument, ResourceLimit
from omnigraph.graph.blobs.addresses import allow_external_blobs
from omnigraph.graph.blobs.blob_values import BlobBudget, joined, read_blobs
from omnigraph.lang import accept_schema, compile_schema
from omnigraph.limits import MAX_DECODED_BLOB_BYTES
from omnigraph.settings import StorageSettings
from omnigraph.storage.blobs import STORED_BLOB

SCHEMA = (
    "node File { name: String @key  rank: I32?  content: Blob? }\nnode Other { content: Blob? }"
)
CATALOG = accept_schema(compile_schema(SCHEMA)).catalog
FILE, OTHER = CATALOG.node_types["File"], CATALOG.node_types["Other"]
MIB = 1024 * 1024


def inline(data: bytes) -> str:
    return f"base64:{base64.b64encode(data).decode()}"


def allowing() -> BlobBudget:
    return BlobBudget(allow_external_blobs(["s3://assets"], StorageSettings()))


# --- cells ------------------------------------------------------------------------------------


def test_cells_without_an_address_are_plain_bytes() -> None:
    found = read_blobs(FILE, "content", [inline(b"a"), "base64:", None, b"raw"], BlobBudget())
    assert found.values.type == pa.large_binary()
    assert found.values.to_pylist() == [b"a", b"", None, b"raw"]
    assert not found.unfit.any()
    assert not found.reasons


def test_one_address_gives_the_column_the_form_of_the_table() -> None:
    found = read_blobs(FILE, "content", ["s3://assets/x", inline(b"a"), None, 7], allowing())
    assert found.values.type == STORED_BLOB
    assert found.values.to_pylist() == [
        {"data": None, "uri": "s3://assets/x"},
        {"data": b"a", "uri": None},
        None,
        None,
    ]
    assert found.unfit.tolist() == [False, False, False, True]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("base64:***", "no base64"),
        ("base64:YQ", "no base64"),
        ("base64:YQ===", "no base64"),
        ("base64:Y Q==", "no base64"),
        ("base64:ä", "no base64"),
        (5, "expected Blob, got number 5"),
        (True, "expected Blob, got boolean true"),
        ([1], "expected Blob, got array"),
        ({"data": "x"}, "expected Blob, got object"),
    ],
)
def test_a_cell_that_is_no_blob_is_told_apart_from_the_others(value: object, reason: str) -> None:
    found = read_blobs(FILE, "content", [inline(b"a"), value], BlobBudget())
    assert found.values.to_pylist() == [b"a", None]
    assert found.unfit.tolist() == [False, True]
    assert reason in found.reasons[1]


def test_no_cells_are_an_empty_column() -> None:
    found = read_blobs(FILE, "content", [], BlobBudget())
    assert (len(found.values), len(found.unfit)) == (0, 0)


def test_an_address_is_denied_by_default() -> None:
    with pytest.raises(ExternalBlobDenied, match=r"File\.content"):
        read_blobs(FILE, "content", ["s3://assets/x"], BlobBudget())


def test_rows_below_each_other_take_the_form_that_holds_all() -> None:
    schema = FILE.arrow_schema
    plain = pa.table({"id": ["a"], "name": ["a"], "rank": [1], "content": [b"a"]}).cast(schema)
    cell = pa.array([{"data": None, "uri": "s3://assets/x"}], STORED_BLOB)
    stored = plain.set_column(3, pa.field("content", STORED_BLOB), cell)
    assert joined(schema, []).schema == schema
    assert joined(schema, [plain, plain]).schema == schema
    assert joined(schema, [plain, stored])["content"].to_pylist() == [
        {"data": b"a", "uri": None},
        {"data": None, "uri": "s3://assets/x"},
    ]


# --- what a write may hold --------------------------------------------------------------------


def test_bytes_are_counted_for_each_type_over_all_cells() -> None:
    held = BlobBudget()
    half = b"x" * (MAX_DECODED_BLOB_BYTES // 2)
    read_blobs(FILE, "content", [half], held)
    read_blobs(FILE, "content", [half], held)
    read_blobs(OTHER, "content", [half], held)
    with pytest.raises(ResourceLimit) as caught:
        read_blobs(FILE, "content", [b"y"], held)
    assert caught.value.details == {
        "resource": "decoded blob input bytes",
        "limit": MAX_DECODED_BLOB_BYTES,
        "actual": MAX_DECODED_BLOB_BYTES + 1,
    }


def test_the_same_write_prepared_anew_counts_from_the_start() -> None:
    held = BlobBudget()
    read_blobs(FILE, "content", [b"x" * MAX_DECODED_BLOB_BYTES], held)
    read_blobs(FILE, "content", [b"x" * MAX_DECODED_BLOB_BYTES], held.again())


def test_text_is_not_decoded_when_its_bytes_would_be_too_many() -> None:
    text = "base64:" + "A" * (MAX_DECODED_BLOB_BYTES // 3 * 4 + 8)
    with pytest.raises(ResourceLimit):
        read_blobs(FILE, "content", [text], BlobBudget())
    read_blobs(FILE, "content", [inline(b"x" * MAX_DECODED_BLOB_BYTES)], BlobBudget())


def test_one_value_for_many_rows_is_refused_before_it_is_copied() -> None:
    value = inline(b"x" * MIB)
    tracemalloc.start()
    try:
        with pytest.raises(ResourceLimit):
            read_blobs(FILE, "content", [value] * 8_192, BlobBudget())
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()


def test_an_update_of_many_rows_with_one_large_blob_is_refused(tmp_path: Path) -> None:
    graph = Graph.init(tmp_path / "g", schema=SCHEMA, settings=quick())
    with graph.write() as writer:
        names = [f"n{number}" for number in range(100)]
        writer.append("File", pa.table({"name": names, "rank": pa.array([1] * 100, pa.int32())}))
        writer.commit()
    update = "query m($c: Blob) { update File set { content: $c } where rank = 1 }"
    with pytest.raises(ResourceLimit) as caught:
        graph.mutate(update, params={"c": inline(b"x" * MIB)})
    assert caught.value.details["resource"] == "decoded blob input bytes"
    with pytest.raises(InvalidArgument, match=r"File\.content: what follows"):
        graph.mutate(update, params={"c": "base64:ä"})
    graph.mutate(update, params={"c": inline(b"x" * 1_000)})
    assert graph.blob("node", "File", "n99", "content").length == 1_000
