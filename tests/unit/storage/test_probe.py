"""A store that cannot arbitrate is found out before a graph is written to it."""

from pathlib import Path

import pytest
from tests.unit.storage.workbench import Recorder

from omnigraph.clock import SystemClock
from omnigraph.errors import StorageDenied, StorageUnavailable, StorageUnsupported
from omnigraph.ids import UlidSource
from omnigraph.storage.calls import StoreCall, StoreCalls
from omnigraph.storage.durability import NoSync
from omnigraph.storage.location import GraphLocation
from omnigraph.storage.objects import StorageAdapter
from omnigraph.storage.probe import probe_store


def _probe(root: Path, seen: Recorder, *, is_local: bool = True) -> None:
    local = GraphLocation(root=str(root), is_local=True)
    objects = StorageAdapter(local, StoreCalls(seen), NoSync())
    location = local if is_local else GraphLocation(root="s3://b/p", is_local=False)
    probe_store(location, objects, UlidSource(SystemClock()))


def test_a_good_store_passes_and_keeps_nothing(tmp_path: Path) -> None:
    seen = Recorder()
    _probe(tmp_path, seen)
    assert list(tmp_path.iterdir()) == []
    assert [call.operation for call in seen.calls] == ["create", "create", "get", "delete"]


def test_a_file_system_without_hard_links_is_unsupported(tmp_path: Path) -> None:
    seen = Recorder()

    def refuse(_: StoreCall) -> None:
        raise OSError(95, "Operation not supported")

    seen.fault = refuse
    with pytest.raises(StorageUnsupported, match="hard link"):
        _probe(tmp_path, seen)
    with pytest.raises(StorageUnavailable):
        _probe(tmp_path, seen, is_local=False)


def test_a_store_that_creates_twice_is_unsupported(tmp_path: Path) -> None:
    seen = Recorder()

    def forget(call: StoreCall) -> None:
        if call.operation == "create":
            for path in tmp_path.iterdir():
                path.unlink()

    seen.fault = forget
    with pytest.raises(StorageUnsupported, match="created twice"):
        _probe(tmp_path, seen)
    assert list(tmp_path.iterdir()) == []


def test_refused_credentials_stay_what_they_are(tmp_path: Path) -> None:
    seen = Recorder()

    def refuse(_: StoreCall) -> None:
        raise PermissionError(13, "Permission denied")

    seen.fault = refuse
    with pytest.raises(StorageDenied):
        _probe(tmp_path, seen)
