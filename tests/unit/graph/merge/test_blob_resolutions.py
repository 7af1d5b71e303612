"""Rows of resolutions and their blobs: given, cleared, kept, and never lost without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.unit.engine.graphs import quick, remove
from tests.unit.graph.merge.merges import made

from omnigraph import Graph
from omnigraph.errors import (
    BlobNotFound,
    ExternalBlobDenied,
    ExternalBlobSource,
    InvalidArgument,
    ResourceLimit,
)
from omnigraph.graph.blobs import blob_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SCHEMA = """
node File { name: String @key  x: Blob?  n: I32? }
node Page { name: String @key  text: Blob  n: I32? }
"""
CELL = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])


def put(graph: Graph, branch: str, type_: str, name: str, n: int, **blobs: bytes | None) -> None:
    columns = {
        key: pa.array([None if data is None else {"data": data, "uri": None}], CELL)
        for key, data in blobs.items()
    }
    with graph.write(branch) as writer:
        numbers = pa.array([n], pa.int32())
        writer.upsert(type_, pa.table({"name": [name], "n": numbers, **columns}))
        writer.commit()


@pytest.fixture(scope="module")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("assets")
    (folder / "photo").write_bytes(b"photo")
    return folder


@pytest.fixture(scope="module")
def contested(tmp_path_factory: pytest.TempPathFactory, assets: Path) -> Iterator[Graph]:
    """Files of which `b` and `t` have one blob, two, or one and none; tests merge into copies."""
    path, bases = tmp_path_factory.mktemp("blobs") / "g", [assets.as_uri()]
    with Graph.init(path, schema=SCHEMA, external_blobs=bases, settings=quick()) as graph:
        fill(graph)
        yield graph


def fill(graph: Graph) -> None:
    put(graph, "main", "File", "ours", 0, x=b"old")
    put(graph, "main", "File", "theirs", 0, x=b"old")
    for branch, n in (("b", 1), ("t", 2)):
        graph.branches.create(branch)
        put(graph, branch, "File", "same", n, x=b"same")
        put(graph, branch, "File", "two", n, x=branch.encode())
        put(graph, branch, "File", "one", n, x=b"one" if branch == "b" else None)
        put(graph, branch, "File", "none", n, x=None)
        put(graph, branch, "Page", "page", n, text=b"text")
        put(graph, branch, "File", "ours" if branch == "t" else "theirs", n, x=b"new")
        remove(graph, branch=branch, File=["ours" if branch == "b" else "theirs"])


@pytest.fixture
def copy(contested: Graph) -> str:
    """A branch that has what `t` has."""
    name = f"t{len(contested.branches.list())}"
    contested.branches.create(name, from_="t")
    return name


def given(name: str, **row: object) -> dict[str, Any]:
    return {"type": "File", "id": name, "row": {"name": name, "n": 7, **row}}


def merge(graph: Graph, into: str, *resolutions: Mapping[str, Any]) -> None:
    made(graph.branches.merge("b", into=into, strategy="ours", resolutions=resolutions))


def value(graph: Graph, branch: str, name: str, type_: str = "File") -> bytes | str | None:
    try:
        blob = graph.blob("node", type_, name, "text" if type_ == "Page" else "x", branch=branch)
    except BlobNotFound:
        return None
    return blob.read() if blob.uri is None else blob.uri


def number(graph: Graph, branch: str, name: str) -> object:
    found = graph.snapshot(branch=branch).entity("File", name)
    assert found is not None
    return found["n"]


def test_a_row_gives_bytes_or_null_to_a_blob(contested: Graph, copy: str) -> None:
    merge(contested, copy, given("two", x="base64:AQI="), given("one", x=None))
    assert value(contested, copy, "two") == b"\1\2"
    assert value(contested, copy, "one") is None
    assert number(contested, copy, "two") == 7


def test_a_row_gives_an_address_that_the_graph_allows(
    contested: Graph, copy: str, assets: Path
) -> None:
    uri = f"{assets.as_uri()}/photo"
    merge(contested, copy, given("two", x=uri))
    assert value(contested, copy, "two") == uri


@pytest.mark.parametrize(
    ("name", "kept"), [("same", b"same"), ("ours", b"new"), ("theirs", b"new"), ("none", None)]
)
def test_a_blob_that_is_left_out_stays_as_every_side_has_it(
    contested: Graph, copy: str, name: str, kept: bytes | None
) -> None:
    merge(contested, copy, given(name))
    assert value(contested, copy, name) == kept
    assert number(contested, copy, name) == 7


def test_a_required_blob_may_be_left_out_as_well(contested: Graph, copy: str) -> None:
    row = {"type": "Page", "id": "page", "row": {"name": "page", "n": 7}}
    merge(contested, copy, row)
    assert value(contested, copy, "page", "Page") == b"text"


@pytest.mark.parametrize("name", ["two", "one"])
def test_a_blob_that_the_sides_have_otherwise_is_not_left_out(contested: Graph, name: str) -> None:
    before = contested.snapshot(branch="t").graph_commit_id
    with pytest.raises(InvalidArgument, match=r"leaves out the blob 'x'.*`base64:…`.*null"):
        merge(contested, "t", given(name))
    assert contested.snapshot(branch="t").graph_commit_id == before


def test_blobs_that_are_none_are_refused(contested: Graph, assets: Path) -> None:
    with pytest.raises(InvalidArgument, match="no base64"):
        merge(contested, "t", given("two", x="base64:!"))
    with pytest.raises(InvalidArgument, match="expected Blob"):
        merge(contested, "t", given("two", x=1))
    without_text = {"type": "Page", "id": "page", "row": {"name": "page", "text": None}}
    with pytest.raises(InvalidArgument, match="text"):
        merge(contested, "t", without_text)
    with pytest.raises(ExternalBlobDenied):
        merge(contested, "t", given("two", x="file:///etc/passwd"))
    with pytest.raises(ExternalBlobSource):
        merge(contested, "t", given("two", x=f"{assets.as_uri()}/nothing"))


def test_blobs_of_rows_have_the_limit_of_a_write(
    contested: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob_values, "MAX_DECODED_BLOB_BYTES", 3)
    with pytest.raises(ResourceLimit):
        merge(contested, "t", given("two", x="base64:AQI="), given("one", x="base64:AQI="))


def test_a_plan_takes_blobs_of_rows(contested: Graph) -> None:
    rows = [given("two", x="base64:AQI="), given("one", x=None)]
    plan = contested.branches.merge_plan("b", into="t", strategy="ours", resolutions=rows)
    assert plan.conflict_count == 0
    assert plan.tables["node:File"]["updated"] == 2
