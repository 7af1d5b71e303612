"""Pins of long jobs: who has one, who is dead, and who may take it away."""

from __future__ import annotations

import json
import threading
from time import sleep
from typing import TYPE_CHECKING, Any

import pytest

from omnigraph.clock import ManualClock
from omnigraph.graph.jobs.pins import JobPin, living_pin, pin_path

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.graph.graphs import Opened

    from omnigraph.storage.objects import StorageAdapter

OPERATION = "01M7J24T1KDKK5239H7N9DGKMA"
TTL_MS = 30_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(now_us=1_794_765_848_000_000)


@pytest.fixture
def objects(graphs: Opened) -> StorageAdapter:
    graphs.root.mkdir()
    return graphs.storage().objects


@pytest.fixture
def path(graphs: Opened) -> Path:
    return graphs.root / pin_path(OPERATION)


def pin(objects: StorageAdapter, clock: ManualClock) -> JobPin:
    return JobPin(objects, clock, operation_id=OPERATION, kind="load", owner="act-a", ttl_ms=TTL_MS)


def change(path: Path, **members: Any) -> None:  # noqa: ANN401 - as JSON has them
    path.write_text(json.dumps({**json.loads(path.read_text()), **members}))


def test_a_pin_is_there_from_the_first_version_to_the_end(
    objects: StorageAdapter, clock: ManualClock, path: Path
) -> None:
    with pin(objects, clock) as held:
        assert not path.exists()
        held.hold([])
        found = living_pin(objects, clock, OPERATION)
        assert found is not None
        assert (found["operation_id"], found["owner"], found["beat"]) == (OPERATION, "act-a", 1)
    assert not path.exists()
    assert living_pin(objects, clock, OPERATION) is None


def test_a_job_that_was_taken_over_leaves_the_pin_of_the_other(
    objects: StorageAdapter, clock: ManualClock, path: Path
) -> None:
    with pin(objects, clock) as held:
        held.hold([])
        # What the process writes that goes on with the same job.
        change(path, pid=1, pid_started="another")
        written = path.read_text()
    assert path.read_text() == written


def test_who_goes_on_with_a_job_takes_the_place_of_its_pin_once(
    objects: StorageAdapter, clock: ManualClock, path: Path
) -> None:
    with pin(objects, clock) as dead:
        dead.hold([])
        change(path, pid=1, pid_started="another")
        with pin(objects, clock) as held:
            held.hold([])
            found = living_pin(objects, clock, OPERATION)
            assert found is not None
            assert found["pid"] != 1
            # Somebody else went on with it by now.
            change(path, pid=1, pid_started="another")
            written = path.read_text()
            held.hold([])
            assert path.read_text() == written


def test_a_job_that_was_taken_over_renews_its_pin_no_more(
    objects: StorageAdapter, clock: ManualClock, path: Path
) -> None:
    soon = JobPin(objects, clock, operation_id=OPERATION, kind="load", owner=None, ttl_ms=30)
    with soon as held:
        held.hold([])
        while json.loads(path.read_text())["beat"] < 3:
            sleep(0.01)
        held._ended.set()
        held._thread.join()  # type: ignore[union-attr]
        change(path, pid=1, pid_started="another")
        held._ended.clear()
        held._thread = threading.Thread(target=held._renew)
        held._thread.start()
        written = path.read_text()
        sleep(0.1)
        assert path.read_text() == written


def test_the_end_of_a_job_whose_pin_is_gone_is_no_failure(
    objects: StorageAdapter, clock: ManualClock, path: Path
) -> None:
    with pin(objects, clock) as held:
        held.hold([])
        path.unlink()
    assert not path.exists()


@pytest.mark.parametrize(
    ("members", "lives"),
    [
        ({}, True),
        # A process of that number started at another time: the one that made the pin is gone.
        ({"pid_started": "0"}, False),
        ({"pid": 2**22 + 1}, False),
        # Of another machine only its silence tells.
        ({"host": "elsewhere", "pid_started": "0"}, True),
    ],
    ids=str,
)
def test_a_pin_lives_as_long_as_its_process_is_not_known_to_be_gone(
    members: dict[str, Any],
    lives: bool,  # noqa: FBT001 - a parameter
    objects: StorageAdapter,
    clock: ManualClock,
    path: Path,
) -> None:
    with pin(objects, clock) as held:
        held.hold([])
        change(path, **members)
        assert (living_pin(objects, clock, OPERATION) is not None) is lives


def test_a_job_that_was_silent_for_four_lives_of_its_pin_is_dead(
    objects: StorageAdapter, clock: ManualClock
) -> None:
    with pin(objects, clock) as held:
        held.hold([])
        clock.advance(ms=4 * TTL_MS)
        assert living_pin(objects, clock, OPERATION) is not None
        clock.advance(ms=1)
        assert living_pin(objects, clock, OPERATION) is None
