"""Control objects: create-if-absent is the only arbiter, and forms are checked."""

import os
from pathlib import Path

import pytest
from tests.unit.storage.object_contract import ObjectContract
from tests.unit.storage.workbench import Recorder

from omnigraph.errors import StorageVersionTooNew
from omnigraph.storage.calls import StoreCalls
from omnigraph.storage.durability import LocalSync
from omnigraph.storage.location import GraphLocation
from omnigraph.storage.objects import StorageAdapter, decode, encode
from omnigraph.storage.signals import ObjectMissing


class Folder:
    """A local root that may not exist yet, with every foreign call recorded."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.seen = Recorder()
        calls = StoreCalls(self.seen)
        location = GraphLocation(root=str(root), is_local=True)
        self.objects = StorageAdapter(location, calls, LocalSync(root, calls))


@pytest.fixture
def site(tmp_path: Path) -> Folder:
    return Folder(tmp_path.resolve() / "g")


class TestInAFolder(ObjectContract):
    """Objects are files."""


def test_the_time_of_an_object_is_that_of_its_file(site: Folder) -> None:
    site.objects.put("a", b"1")
    found = site.objects.head("a")
    assert found is not None
    assert abs(found.modified_us - (site.root / "a").stat().st_mtime_ns // 1_000) < 1_000_000


def test_a_durable_object_is_synced_before_it_counts(site: Folder) -> None:
    site.objects.create("a/b", b"x", durable=True)
    assert [call.target for call in site.seen.calls if call.operation == "sync"] == [
        "a/b",
        "a",
        ".",
    ]


def test_a_reader_creates_no_folder(site: Folder) -> None:
    site.objects.list("")
    assert site.objects.head("a/b") is None
    with pytest.raises(ObjectMissing):
        site.objects.get("a/b")
    assert not os.path.lexists(site.root)


def test_json_is_canonical_and_carries_its_format() -> None:
    assert encode({"b": 1, "a": "é"}) == '{"a":"é","b":1,"format":1}'.encode()
    assert decode(encode({"a": 1}), "x") == {"a": 1, "format": 1}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b"null",
        b"{}",
        b"\xff",
        b'{"format":"1"}',
        b'{"format":null}',
        b'{"format":0}',
    ],
)
def test_what_is_no_control_object_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of the decoder, or ours
        decode(data, "x")


def test_an_object_of_a_later_release_is_refused_by_name() -> None:
    with pytest.raises(StorageVersionTooNew, match=r"__leases/x\.json"):
        decode(b'{"format":2}', "__leases/x.json")
