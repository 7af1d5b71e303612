"""Lines of the manifest: merges land on the version they were judged on, or not at all."""

from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.storage.workbench import FIRST, SECOND, Recorder

from omnigraph.clock import SystemClock
from omnigraph.errors import OmnigraphError
from omnigraph.ids import MAIN_BRANCH_ID, UlidSource
from omnigraph.settings import load_settings
from omnigraph.storage.graph_storage import open_storage
from omnigraph.storage.location import GraphLocation
from omnigraph.storage.manifest import MANIFEST_SCHEMA, LineHandle, ManifestStorage
from omnigraph.storage.signals import ObjectMissing, StorageSignal

STAMP = {"omnigraph:internal_schema_version": "1", "other": "kept"}


def rows(**metadata: str) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"object_id": name, "object_type": "note", "metadata": text}
            for name, text in metadata.items()
        ],
        schema=MANIFEST_SCHEMA,
    )


class Site:
    def __init__(self, root: Path) -> None:
        root.mkdir()
        self.root = root
        self.seen = Recorder()
        self.manifest = self.again()

    def again(self) -> ManifestStorage:
        """Another process's view."""
        location = GraphLocation(root=str(self.root), is_local=True)
        settings = load_settings({}).storage
        ids = UlidSource(SystemClock())
        return open_storage(location, settings, ids, observer=self.seen).manifest

    def content(self, handle: LineHandle) -> dict[str, str]:
        found = self.manifest.rows(handle).to_pylist()
        assert len({each["object_id"] for each in found}) == len(found)
        return {each["object_id"]: each["metadata"] for each in found}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path.resolve() / "g")


@pytest.fixture
def main(site: Site) -> LineHandle:
    return site.manifest.create(rows(head="0", a="1"), STAMP)


def test_a_manifest_begins_with_its_rows_and_stamp_in_its_first_version(site: Site) -> None:
    assert not site.manifest.exists()
    with pytest.raises(ObjectMissing):
        site.manifest.open_line(MAIN_BRANCH_ID)
    made = site.manifest.create(rows(a="1"), STAMP)
    assert site.manifest.exists()
    for handle in (made, site.again().open_line(MAIN_BRANCH_ID)):
        assert handle.version == 1
        assert site.content(handle) == {"a": "1"}
        assert site.manifest.stamp(handle) == STAMP
    assert site.manifest.rows(made).schema.names == MANIFEST_SCHEMA.names


def test_a_second_manifest_is_refused_and_changes_nothing(site: Site, main: LineHandle) -> None:
    with pytest.raises((OmnigraphError, StorageSignal)):
        site.again().create(rows(b="2"), STAMP)
    assert site.manifest.latest_version(main) == 1
    assert site.content(site.manifest.open_line(MAIN_BRANCH_ID)) == {"head": "0", "a": "1"}


def test_a_merge_inserts_and_replaces_and_leaves_its_handle_where_it_was(
    site: Site, main: LineHandle
) -> None:
    after = site.manifest.merge(main, rows(head="1", b="2"))
    assert after.version == 2
    assert site.content(after) == {"head": "1", "a": "1", "b": "2"}
    assert site.content(main) == {"head": "0", "a": "1"}
    assert main.version == 1
    assert site.manifest.latest_version(main) == 2


def test_of_two_merges_of_one_version_the_second_is_refused(site: Site, main: LineHandle) -> None:
    site.manifest.merge(main, rows(head="1", b="2"))
    with pytest.raises((OmnigraphError, StorageSignal)):
        site.again().merge(main, rows(head="2", b="3"))
    newest = site.manifest.open_line(MAIN_BRANCH_ID)
    assert (newest.version, site.content(newest)) == (2, {"head": "1", "a": "1", "b": "2"})


def test_the_stamp_changes_in_a_commit_of_its_own(site: Site, main: LineHandle) -> None:
    site.manifest.set_stamp(main, {"omnigraph:internal_schema_version": "2"})
    newest = site.manifest.open_line(MAIN_BRANCH_ID)
    assert site.manifest.stamp(newest) == STAMP | {"omnigraph:internal_schema_version": "2"}
    assert site.content(newest) == site.content(main)
    assert site.manifest.merge(newest, rows(head="1")).version == 3
    assert site.manifest.stamp(site.manifest.open_line(MAIN_BRANCH_ID)) == site.manifest.stamp(
        newest
    )


def test_a_line_starts_with_its_source_and_goes_its_own_way(site: Site, main: LineHandle) -> None:
    site.manifest.create_line(FIRST, main)
    first = site.manifest.merge(site.manifest.open_line(FIRST), rows(head="f"))
    site.manifest.merge(main, rows(head="m"))
    site.manifest.create_line(SECOND, first)
    second = site.manifest.merge(site.manifest.open_line(SECOND), rows(head="s", b="2"))
    assert site.content(site.manifest.open_line(MAIN_BRANCH_ID)) == {"head": "m", "a": "1"}
    assert site.content(site.manifest.open_line(FIRST)) == {"head": "f", "a": "1"}
    assert site.content(second) == {"head": "s", "a": "1", "b": "2"}
    assert site.manifest.lines() == [FIRST, SECOND]
    assert site.manifest.stamp(second) == STAMP


def test_a_line_can_start_at_an_older_version(site: Site, main: LineHandle) -> None:
    site.manifest.merge(main, rows(head="m"))
    site.manifest.create_line(FIRST, main)
    assert site.content(site.manifest.open_line(FIRST)) == {"head": "0", "a": "1"}


def test_a_deleted_line_is_gone_and_deleting_it_again_succeeds(
    site: Site, main: LineHandle
) -> None:
    site.manifest.create_line(FIRST, main)
    site.manifest.delete_line(FIRST)
    site.manifest.delete_line(FIRST)
    assert site.manifest.lines() == []
    with pytest.raises(ObjectMissing):
        site.manifest.open_line(FIRST)
    site.manifest.create_line(FIRST, main)
    assert site.content(site.manifest.open_line(FIRST)) == site.content(main)


def test_a_line_with_children_is_not_deleted(site: Site, main: LineHandle) -> None:
    site.manifest.create_line(FIRST, main)
    site.manifest.create_line(SECOND, site.manifest.open_line(FIRST))
    with pytest.raises((OmnigraphError, StorageSignal)):
        site.manifest.delete_line(FIRST)
    assert site.content(site.manifest.open_line(SECOND)) == site.content(main)
    assert site.content(site.manifest.open_line(FIRST)) == site.content(main)


def test_a_tree_without_its_ref_does_not_block_the_line(site: Site, main: LineHandle) -> None:
    site.manifest.create_line(FIRST, main)
    (site.root / "__manifest" / "_refs" / "branches" / f"b-{FIRST}.json").unlink()
    assert site.manifest.lines() == []
    site.manifest.delete_line(FIRST)
    site.manifest.create_line(FIRST, main)
    assert site.content(site.manifest.open_line(FIRST)) == site.content(main)


@pytest.mark.parametrize("branch_id", [MAIN_BRANCH_ID, FIRST])
def test_a_compaction_joins_fragments_and_changes_no_row(
    site: Site, main: LineHandle, branch_id: str
) -> None:
    site.manifest.create_line(FIRST, main)
    line = site.manifest.open_line(FIRST if branch_id == FIRST else MAIN_BRANCH_ID)
    for number in range(6):
        line = site.manifest.merge(line, rows(**{"head": str(number), f"n{number}": "x"}))
    site.manifest.compact(line)
    after = site.manifest.open_line(line.branch_id)
    assert after.fragments < line.fragments
    assert site.content(after) == site.content(line)
    assert site.manifest.merge(after, rows(head="last")).version == after.version + 1


def test_old_versions_can_be_removed_without_touching_the_newest(
    site: Site, main: LineHandle
) -> None:
    line = main
    for number in range(4):
        line = site.manifest.merge(line, rows(head=str(number)))
    site.manifest.clean(line, [2, 3])
    assert site.manifest.latest_version(main) == line.version
    assert site.content(site.manifest.open_line(MAIN_BRANCH_ID)) == {"head": "3", "a": "1"}


def test_a_version_that_another_line_starts_from_is_not_among_those_that_may_go(
    site: Site, main: LineHandle
) -> None:
    line = site.manifest.merge(main, rows(head="1"))
    site.manifest.create_line(FIRST, line)
    for number in range(2, 5):
        line = site.manifest.merge(line, rows(head=str(number)))
    far_off = 2**62
    assert site.manifest.versions(line, far_off) == (5, [1, 3, 4])
    site.manifest.clean(line, [1, 2, 3, 4])
    assert site.manifest.versions(line, far_off) == (2, [])
    site.manifest.clean(line, [2])
    assert site.content(site.manifest.open_line(FIRST)) == {"head": "1", "a": "1"}


def test_a_line_is_asked_for_its_newest_version_every_time(site: Site, main: LineHandle) -> None:
    other = site.again()
    for number in range(1, 4):
        other.merge(other.open_line(MAIN_BRANCH_ID), rows(head=str(number)))
        assert site.manifest.latest_version(main) == number + 1
