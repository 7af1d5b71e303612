"""`obstore` on a local disk: create-if-absent is atomic, and nothing stronger exists."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError
from obstore.store import LocalStore


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(prefix=tmp_path)


def test_lance_guard_create_if_absent_keeps_the_first_content(store: LocalStore) -> None:
    """Why: leases, sidecars and claims are won by creating an object."""
    obstore.put(store, "a/b", b"first", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "a/b", b"second", mode="create")
    assert bytes(obstore.get(store, "a/b").bytes()) == b"first"


def test_lance_guard_each_name_is_created_by_exactly_one_of_many(store: LocalStore) -> None:
    """Why: everything that needs one winner is built from this call alone."""

    def won(claim: tuple[int, int]) -> bool:
        claimant, name = claim
        try:
            obstore.put(store, f"name-{name}", str(claimant).encode(), mode="create")
        except AlreadyExistsError:
            return False
        return True

    claims = [(claimant, name) for name in range(50) for claimant in range(4)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(won, claims))
    winners = [claim for claim, first in zip(claims, results, strict=True) if first]
    assert sorted(name for _, name in winners) == list(range(50))
    for claimant, name in winners:
        assert bytes(obstore.get(store, f"name-{name}").bytes()) == str(claimant).encode()


def test_lance_guard_there_is_no_compare_and_swap_on_local_files(store: LocalStore) -> None:
    """Why: the design has numbered objects instead of conditional replacement."""
    obstore.put(store, "a", b"1")
    tag = obstore.head(store, "a")["e_tag"]
    assert tag
    with pytest.raises(NotImplementedError):
        obstore.put(store, "a", b"2", mode={"e_tag": tag})
    assert bytes(obstore.get(store, "a").bytes()) == b"1"


def test_lance_guard_deleting_a_missing_object_raises_on_local_files(store: LocalStore) -> None:
    """Why: the adapter promises that it succeeds, so the adapter swallows this."""
    with pytest.raises(FileNotFoundError):
        obstore.delete(store, "absent")


def test_lance_guard_put_replaces(store: LocalStore) -> None:
    """Why: the single owner of a lease renews it in place."""
    obstore.put(store, "a", b"1")
    obstore.put(store, "a", b"2")
    assert bytes(obstore.get(store, "a").bytes()) == b"2"
