"""Admission: how much one actor, and one process, may have in flight."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from dataclasses import replace

import pytest

from omnigraph.errors import AdmissionRejected
from omnigraph.server.metrics import Metrics
from omnigraph.server.workload import WorkloadController
from omnigraph.settings import ServerSettings


def controller(
    *, requests: int = 16, size_bytes: int = 1_000, reads: int = 2, read_wait_s: float = 1.0
) -> WorkloadController:
    settings = replace(
        ServerSettings(),
        per_actor_inflight_max=requests,
        per_actor_bytes_max=size_bytes,
        read_inflight_max=reads,
    )
    return WorkloadController(settings, Metrics(), read_wait_s=read_wait_s)


def test_32_requests_that_race_for_16_slots_get_exactly_16() -> None:
    workload, barrier, decided = controller(), threading.Barrier(32), threading.Barrier(32)
    refused: list[int] = []

    def race(number: int) -> None:
        barrier.wait()
        with ExitStack() as held:
            try:
                held.enter_context(workload.writing("alice", 1))
            except AdmissionRejected:
                refused.append(number)
            # Nobody gives a slot back before everybody has asked for one.
            decided.wait()

    threads = [threading.Thread(target=race, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 16
    with workload.writing("alice", 1_000):
        pass


def test_bytes_are_counted_by_actor_and_nobody_is_an_actor_too() -> None:
    workload = controller()
    with workload.writing("alice", 700):
        with pytest.raises(AdmissionRejected, match="700 bytes"), workload.writing("alice", 301):
            pass
        with workload.writing("alice", 300), workload.writing(None, 1_000):
            pass
        with pytest.raises(AdmissionRejected), workload.writing("bob", 1_001):
            pass
    with workload.writing("bob", 1_000):
        pass


def test_a_slot_comes_back_when_the_write_fails() -> None:
    workload = controller(requests=1)
    with pytest.raises(ZeroDivisionError), workload.writing("alice", 1):
        raise ZeroDivisionError
    with workload.writing("alice", 1):
        pass


def test_a_read_waits_for_a_slot_and_is_told_when_to_come_again() -> None:
    async def run() -> AdmissionRejected:
        workload = controller(reads=1, read_wait_s=0.01)
        async with workload.reading():
            with pytest.raises(AdmissionRejected) as refusal:
                async with workload.reading():
                    pass
        async with workload.reading():
            return refusal.value

    assert asyncio.run(run()).details["retry_after_s"] == 1


def test_a_waiting_read_gets_the_slot_that_comes_free() -> None:
    async def run() -> bool:
        workload = controller(reads=1, read_wait_s=60)
        async with workload.reading():
            waiting = asyncio.create_task(read_once(workload))
            await asyncio.sleep(0)
            assert not waiting.done()
        return await waiting

    async def read_once(workload: WorkloadController) -> bool:
        async with workload.reading():
            return True

    assert asyncio.run(run())
