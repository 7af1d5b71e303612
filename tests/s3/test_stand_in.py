"""The stand-in itself: what it promises to the tests that stand on it."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, GenericError, PermissionDeniedError
from obstore.store import S3Store
from tests.s3.stand_in import BUCKET, Access, Failure, Kind, StandIn, stand_in_process

pytestmark = pytest.mark.s3

PUTTING = """
import obstore
from obstore.store import S3Store
obstore.put(S3Store("omnigraph"), "from-a-child", b"x")
"""


@pytest.fixture
def store(s3: StandIn) -> S3Store:
    return s3.endpoint.store()


def test_one_of_many_concurrent_conditional_puts_wins(store: S3Store) -> None:
    def won(claim: int) -> bool:
        try:
            obstore.put(store, f"name-{claim // 8}", str(claim).encode(), mode="create")
        except AlreadyExistsError:
            return False
        return True

    eager, usual = 1e-6, sys.getswitchinterval()
    sys.setswitchinterval(eager)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(won, range(8 * 12))) == 12
    finally:
        sys.setswitchinterval(usual)


def test_requests_are_counted_by_kind_and_method(s3: StandIn, store: S3Store) -> None:
    with s3.watching() as seen:
        obstore.put(store, "a", b"1", mode="create")
        obstore.put(store, "a", b"2")
        obstore.copy(store, "a", "b")
        obstore.get(store, "a").bytes()
        obstore.head(store, "a")
        obstore.list(store).collect()
        obstore.delete(store, "a")
    obstore.head(store, "b")
    assert seen.kinds == dict.fromkeys(
        ("create", "put", "copy", "get", "head", "list", "delete"), 1
    )
    assert seen.methods == {"PUT": 3, "GET": 2, "HEAD": 1, "POST": 1}
    assert seen.requests[0].path == f"{BUCKET}/a"


def test_a_large_object_goes_up_in_parts_and_comes_back(s3: StandIn, store: S3Store) -> None:
    body = bytes(range(256)) * 4096 * 11
    with s3.watching() as seen:
        obstore.put(store, "large", body, chunk_size=5 * 1024 * 1024)
    assert seen.kinds == {"upload": 5}, "begin, three parts, complete"
    assert bytes(obstore.get_range(store, "large", start=len(body) - 3, end=len(body))) == body[-3:]


def test_every_request_is_delayed(s3: StandIn, store: S3Store) -> None:
    obstore.put(store, "a", b"1")
    s3.delay_s = 0.05
    begun = perf_counter()
    for _ in range(3):
        obstore.head(store, "a")
    assert perf_counter() - begun >= 0.15


@pytest.mark.parametrize(
    ("failure", "performed"),
    [
        (Failure.ERROR, False),
        (Failure.UNAVAILABLE, False),
        (Failure.DROPPED, False),
        (Failure.LOST_ANSWER, True),
        (Failure.LOST_CONNECTION, True),
    ],
)
def test_only_the_nth_request_of_a_kind_fails(
    s3: StandIn, store: S3Store, failure: Failure, *, performed: bool
) -> None:
    s3.fail(failure, nth=2, times=1, kinds=[Kind.PUT])
    obstore.put(store, "1", b"")
    with pytest.raises(GenericError):
        obstore.put(store, "2", b"")
    obstore.put(store, "3", b"")
    found = [each["path"] for each in obstore.list(store).collect()]
    assert found == (["1", "2", "3"] if performed else ["1", "3"])


def test_read_only_credentials_read_and_nothing_else(s3: StandIn, store: S3Store) -> None:
    obstore.put(store, "a", b"1")
    s3.access = Access.READ_ONLY
    assert bytes(obstore.get(store, "a").bytes()) == b"1"
    for write in (
        lambda: obstore.put(store, "b", b""),
        lambda: obstore.put(store, "b", b"", mode="create"),
        lambda: obstore.delete(store, "a"),
    ):
        with pytest.raises(PermissionDeniedError):
            write()
    assert [each["path"] for each in obstore.list(store).collect()] == ["a"]


def test_forgetting_empties_the_bucket_and_heals(s3: StandIn, store: S3Store) -> None:
    obstore.put(store, "a", b"1")
    s3.access = Access.NONE
    s3.fail(Failure.ERROR)
    s3.forget()
    assert obstore.list(store).collect() == []


def test_a_stopped_stand_in_answers_nobody_who_was_connected() -> None:
    with StandIn() as server:
        store = server.endpoint.store()
        obstore.list(store).collect()
        server.stop()
        with pytest.raises(GenericError):
            obstore.list(store).collect()


def test_a_child_process_needs_only_the_environment(s3: StandIn, store: S3Store) -> None:
    subprocess.run(
        [sys.executable, "-c", PUTTING],
        env=os.environ | s3.environment(),
        timeout=30,
        check=True,
    )
    assert obstore.head(store, "from-a-child")["size"] == 1


@pytest.mark.extended
def test_a_stand_in_in_another_process_delays_and_ends_with_its_context() -> None:
    with stand_in_process(delay_ms=30) as endpoint:
        store = endpoint.store()
        begun = perf_counter()
        obstore.put(store, "a", b"1")
        assert perf_counter() - begun >= 0.03
        assert bytes(obstore.get(store, "a").bytes()) == b"1"
    with pytest.raises(GenericError):
        obstore.head(store, "a")
