"""Control objects: create-if-absent is the only arbiter, and forms are checked."""

import os
import threading
from pathlib import Path

import pytest
from tests.unit.storage.workbench import Recorder

from omnigraph.errors import StorageUnavailable, StorageVersionTooNew
from omnigraph.storage.calls import StoreCall, StoreCalls
from omnigraph.storage.durability import LocalSync
from omnigraph.storage.location import GraphLocation
from omnigraph.storage.objects import StorageAdapter, decode, encode
from omnigraph.storage.signals import AlreadyExists, ObjectMissing


class Site:
    """A local root that may not exist yet, with every foreign call recorded."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.seen = Recorder()
        calls = StoreCalls(self.seen)
        location = GraphLocation(root=str(root), is_local=True)
        self.objects = StorageAdapter(location, calls, LocalSync(root, calls))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path.resolve() / "g")


def test_an_object_is_created_once(site: Site) -> None:
    site.objects.create("a/b.json", b"first")
    with pytest.raises(AlreadyExists):
        site.objects.create("a/b.json", b"second")
    assert site.objects.get("a/b.json") == b"first"


def test_a_range_of_an_object_is_read_alone(site: Site) -> None:
    site.objects.put("a", b"0123456789")
    assert site.objects.get_range("a", 3, 6) == b"345"
    with pytest.raises(ObjectMissing):
        site.objects.get_range("b", 0, 1)


def test_creating_what_is_there_with_the_same_content_counts_as_created(site: Site) -> None:
    site.objects.create("a", b"mine")
    site.objects.create("a", b"mine")


def test_a_create_whose_acknowledgement_is_lost_is_repeated_safely(site: Site) -> None:
    def lose(_: StoreCall) -> None:
        site.seen.late_fault = None
        raise OSError("lost")

    site.seen.late_fault = lose
    with pytest.raises(StorageUnavailable):
        site.objects.create("a", b"mine")
    site.objects.create("a", b"mine")


def test_of_many_that_create_one_name_one_wins(site: Site) -> None:
    site.root.mkdir()
    won: list[tuple[int, str]] = []
    start = threading.Barrier(4)

    def attempt(me: int) -> None:
        for number in range(20):
            start.wait()
            try:
                site.objects.create(f"{number}.json", str(me).encode())
            except AlreadyExists:
                continue
            won.append((me, f"{number}.json"))

    threads = [threading.Thread(target=attempt, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == len({name for _, name in won}) == 20
    for me, name in won:
        assert site.objects.get(name) == str(me).encode()


def test_an_object_is_replaced_by_its_owner(site: Site) -> None:
    site.objects.put("a", b"1")
    site.objects.put("a", b"22")
    found = site.objects.head("a")
    assert found is not None
    assert (found.path, found.size_bytes) == ("a", 2)
    assert abs(found.modified_us - (site.root / "a").stat().st_mtime_ns // 1_000) < 1_000_000


def test_what_is_not_there_is_missing_and_deleting_it_succeeds(site: Site) -> None:
    for _ in range(2):
        with pytest.raises(ObjectMissing):
            site.objects.get("a/b")
        assert site.objects.head("a/b") is None
        assert site.objects.list("") == site.objects.list("a") == []
        assert not site.root.exists()
    site.objects.delete("a/b")
    site.objects.create("a/b", b"")
    site.objects.delete("a/b")
    site.objects.delete("a/b")
    assert site.objects.list("") == []


def test_a_listing_is_by_path_and_a_prefix_is_a_folder(site: Site) -> None:
    for name in ("a/2", "a/10", "ab/1", "a/x/3", "b"):
        site.objects.put(name, b"x")
    assert [each.path for each in site.objects.list("a")] == ["a/10", "a/2", "a/x/3"]
    assert [each.path for each in site.objects.list("")] == ["a/10", "a/2", "a/x/3", "ab/1", "b"]
    assert len(site.objects.list("", limit=2)) == 2
    site.objects.delete_prefix("a")
    assert [each.path for each in site.objects.list("")] == ["ab/1", "b"]


def test_a_durable_object_is_synced_before_it_counts(site: Site) -> None:
    site.objects.create("a/b", b"x", durable=True)
    assert [call.target for call in site.seen.calls if call.operation == "sync"] == [
        "a/b",
        "a",
        ".",
    ]


def test_a_reader_creates_no_folder(site: Site) -> None:
    site.objects.list("")
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
