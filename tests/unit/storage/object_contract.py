"""What holds for control objects wherever they are; each kind of store runs these tests once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

import pytest

from omnigraph.clock import SystemClock
from omnigraph.errors import StorageUnavailable
from omnigraph.storage.signals import AlreadyExists, ObjectMissing

if TYPE_CHECKING:
    from tests.unit.storage.workbench import Recorder

    from omnigraph.storage.calls import StoreCall
    from omnigraph.storage.objects import StorageAdapter

RECENT_US = 60_000_000


class Site(Protocol):
    """A root that may not exist yet, with every foreign call recorded."""

    @property
    def objects(self) -> StorageAdapter:
        """The objects below it."""
        ...

    @property
    def seen(self) -> Recorder:
        """The calls."""
        ...


class ObjectContract:
    """Create-if-absent is the only arbiter."""

    def test_an_object_is_created_once(self, site: Site) -> None:
        site.objects.create("a/b.json", b"first")
        with pytest.raises(AlreadyExists):
            site.objects.create("a/b.json", b"second")
        assert site.objects.get("a/b.json") == b"first"

    def test_a_range_of_an_object_is_read_alone(self, site: Site) -> None:
        site.objects.put("a", b"0123456789")
        assert site.objects.get_range("a", 3, 6) == b"345"
        with pytest.raises(ObjectMissing):
            site.objects.get_range("b", 0, 1)

    def test_creating_what_is_there_with_the_same_content_counts_as_created(
        self, site: Site
    ) -> None:
        site.objects.create("a", b"mine")
        site.objects.create("a", b"mine")

    def test_a_create_whose_acknowledgement_is_lost_is_repeated_safely(self, site: Site) -> None:
        def lose(_: StoreCall) -> None:
            site.seen.late_fault = None
            raise OSError("lost")

        site.seen.late_fault = lose
        with pytest.raises(StorageUnavailable):
            site.objects.create("a", b"mine")
        site.objects.create("a", b"mine")

    def test_of_many_that_create_one_name_one_wins(self, site: Site) -> None:
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

    def test_an_object_is_replaced_by_its_owner(self, site: Site) -> None:
        site.objects.put("a", b"1")
        site.objects.put("a", b"22")
        found = site.objects.head("a")
        assert found is not None
        assert (found.path, found.size_bytes) == ("a", 2)
        assert abs(found.modified_us - SystemClock().now_us()) < RECENT_US

    def test_what_is_not_there_is_missing_and_deleting_it_succeeds(self, site: Site) -> None:
        for _ in range(2):
            with pytest.raises(ObjectMissing):
                site.objects.get("a/b")
            assert site.objects.head("a/b") is None
            assert site.objects.list("") == site.objects.list("a") == []
        site.objects.delete("a/b")
        site.objects.create("a/b", b"")
        site.objects.delete("a/b")
        site.objects.delete("a/b")
        assert site.objects.list("") == []

    def test_a_listing_is_by_path_and_a_prefix_is_a_folder(self, site: Site) -> None:
        for name in ("a/2", "a/10", "ab/1", "a/x/3", "b"):
            site.objects.put(name, b"x")
        assert [each.path for each in site.objects.list("a")] == ["a/10", "a/2", "a/x/3"]
        assert [each.path for each in site.objects.list("")] == [
            "a/10",
            "a/2",
            "a/x/3",
            "ab/1",
            "b",
        ]
        assert len(site.objects.list("", limit=2)) == 2
        site.objects.delete_prefix("a")
        assert [each.path for each in site.objects.list("")] == ["ab/1", "b"]
