"""Folders on a disk go when their last object has gone; what is in use stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from omnigraph.errors import StorageDenied, StorageUnavailable
from omnigraph.storage.calls import StoreCalls
from omnigraph.storage.durability import NoSync
from omnigraph.storage.location import GraphLocation
from omnigraph.storage.objects import StorageAdapter

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def objects(tmp_path: Path) -> StorageAdapter:
    return StorageAdapter(GraphLocation(root=str(tmp_path), is_local=True), StoreCalls(), NoSync())


def below(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*")}


def test_empty_folders_go_from_below_and_others_stay(
    objects: StorageAdapter, tmp_path: Path
) -> None:
    for path in ("work/one/a/b", "work/one/c", "work/two/d"):
        objects.put(path, b"")
    objects.delete("work/one/a/b")
    objects.remove_empty_folders("work/one")
    assert below(tmp_path / "work") == {"one", "one/c", "two", "two/d"}
    objects.delete("work/one/c")
    objects.remove_empty_folders("work/one")
    assert below(tmp_path / "work") == {"two", "two/d"}
    objects.remove_empty_folders("work/none")
    assert below(tmp_path / "work") == {"two", "two/d"}


def test_a_folder_that_may_not_be_removed_is_told(objects: StorageAdapter, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "work").symlink_to(tmp_path / "real")
    with pytest.raises((StorageDenied, StorageUnavailable)):
        objects.remove_empty_folders("work")


def test_a_bucket_has_no_folders() -> None:
    location = GraphLocation(root="s3://nowhere/at/all", is_local=False)
    StorageAdapter(location, StoreCalls(), NoSync()).remove_empty_folders("work")
