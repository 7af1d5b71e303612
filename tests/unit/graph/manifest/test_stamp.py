"""What each version stamp allows, and that a read-only open changes nothing."""

import pytest
from tests.unit.graph.graphs import Opened, listing, names, set_version, upsert

from omnigraph.errors import (
    OmnigraphError,
    StorageVersionMissing,
    StorageVersionTooNew,
    StorageVersionTooOld,
)
from omnigraph.graph.lifecycle.coordinator import OpenMode
from omnigraph.graph.manifest.migrations import Migration
from omnigraph.graph.manifest.stamp import (
    INTERNAL_MANIFEST_SCHEMA_VERSION,
    VERSION_KEY,
    Stamp,
    decode_stamp,
)
from omnigraph.ids import MAIN_BRANCH_ID, GraphId

STAMP = Stamp(version=3, graph_id=GraphId("01G"), release="1.2", claim_id="01C")
OTHER_VERSIONS = {
    "2": StorageVersionTooNew,
    "99": StorageVersionTooNew,
    "0": StorageVersionTooOld,
    "": StorageVersionMissing,
    "one": StorageVersionMissing,
}


def test_a_stamp_is_read_back() -> None:
    assert decode_stamp(STAMP.encode()) == STAMP


@pytest.mark.parametrize("key", STAMP.encode())
@pytest.mark.parametrize("value", [None, "", "{}", "[]", "null"])
def test_a_stamp_that_is_not_whole_is_missing(key: str, value: str | None) -> None:
    stamp = STAMP.encode() | {key: value or ""}
    if value is None:
        del stamp[key]
    if key == "omnigraph:graph_id" and value is not None:
        assert decode_stamp(stamp).graph_id == value
        return
    with pytest.raises(StorageVersionMissing):
        decode_stamp(stamp)


@pytest.mark.parametrize("mode", OpenMode)
@pytest.mark.parametrize(("version", "error"), OTHER_VERSIONS.items())
def test_a_graph_of_another_version_is_refused_and_left_as_it_is(
    graphs: Opened, mode: OpenMode, version: str, error: type[OmnigraphError]
) -> None:
    graphs.init().close()
    set_version(graphs.storage(), version)
    before = listing(graphs.root)
    with pytest.raises(error):
        graphs.coordinated(mode=mode)
    assert listing(graphs.root) == before


def test_a_refusal_names_the_way_out(graphs: Opened) -> None:
    graphs.init()
    set_version(graphs.storage(), "0")
    with pytest.raises(StorageVersionTooOld, match=r"export .* init .* load") as caught:
        graphs.open()
    assert caught.value.details["found"] == 0
    assert caught.value.details["known"] == INTERNAL_MANIFEST_SCHEMA_VERSION
    assert str(caught.value.details["release"]) in str(caught.value)


def test_an_open_graph_notices_a_later_release_before_it_reads_or_writes(graphs: Opened) -> None:
    graph = graphs.init()
    set_version(graphs.storage(), "2")
    before = listing(graphs.root)
    with pytest.raises(StorageVersionTooNew):
        graph.snapshot()
    with pytest.raises(StorageVersionTooNew):
        upsert(graph, "a")
    assert listing(graphs.root) == before


def test_a_read_only_handle_writes_no_byte_whatever_it_reads(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a", "b", age=1)
    graph.branches.create("rev")
    upsert(graph, "c", branch="rev")
    graph.close()
    before = listing(graphs.root)
    reader = graphs.read_only()
    assert names(reader) == ["a", "b"]
    assert names(reader, "rev") == ["a", "b", "c"]
    assert reader.snapshot(0).count("Person") == 0
    assert reader.snapshot().entity("Person", "a") == {
        "id": "a",
        "name": "a",
        "age": 1,
        "email": None,
    }
    assert len(reader.commits.list(branch="rev")) == 3
    assert [each.name for each in reader.branches.list()] == ["main", "rev"]
    assert reader.schema.source
    for name in ("graph_commits", "graph_commit_recoveries", "manifest"):
        reader.system(name)
    reader.maintenance.recoveries()
    reader.refresh()
    reader.close()
    assert listing(graphs.root) == before


def test_an_older_graph_is_read_without_migrating_it_when_a_step_is_known(graphs: Opened) -> None:
    upsert(graphs.init(), "a")
    set_version(graphs.storage(), "0")
    before = listing(graphs.root)
    step = Migration(from_version=0, run=lambda _: pytest.fail("a reader never migrates"))
    reader = graphs.coordinated(mode=OpenMode.READ_ONLY, migrations=(step,))
    assert names(reader) == ["a"]
    assert listing(graphs.root) == before


def test_the_stamp_is_part_of_the_first_version(graphs: Opened) -> None:
    graphs.init()
    manifest = graphs.storage().manifest
    first = manifest.open_line(MAIN_BRANCH_ID)
    assert first.version == 1
    assert manifest.stamp(first)[VERSION_KEY] == str(INTERNAL_MANIFEST_SCHEMA_VERSION)
