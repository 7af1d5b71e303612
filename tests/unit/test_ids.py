from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.profiles import quick
from ulid import ULID

from omnigraph.clock import ManualClock, SystemClock
from omnigraph.ids import (
    IdSource,
    UlidSource,
    new_branch_id,
    new_commit_id,
    new_graph_id,
    new_operation_id,
    seeded_ids,
)

NOW_US = 1_700_000_000_123_456


def test_an_id_is_a_ulid_that_carries_the_time_of_the_clock() -> None:
    ids: IdSource = UlidSource(ManualClock(now_us=NOW_US))
    ulid = ULID.from_str(ids.next_ulid())
    assert ulid.milliseconds == NOW_US // 1_000


@given(jumps=st.lists(st.integers(0, 10**15), min_size=1, max_size=50), seed=st.integers())
@quick(100)
def test_ids_of_one_source_always_grow_even_when_the_clock_goes_back(
    jumps: list[int], seed: int
) -> None:
    clock = ManualClock()
    ids = seeded_ids(seed, clock)
    minted = []
    for now_us in jumps:
        clock.jump_to(now_us=now_us)
        minted.append(ids.next_ulid())
    assert all(earlier < later for earlier, later in pairwise(minted))


def test_ids_still_grow_when_the_random_part_is_used_up() -> None:
    ids = UlidSource(ManualClock(now_us=NOW_US), random_bytes=lambda length: b"\xff" * length)
    first, second = ids.next_ulid(), ids.next_ulid()
    assert first < second
    assert ULID.from_str(second).milliseconds == NOW_US // 1_000 + 1


def test_the_same_seed_and_clock_replay_the_same_ids() -> None:
    def mint(seed: int) -> list[str]:
        clock = ManualClock(now_us=NOW_US)
        ids = seeded_ids(seed, clock)
        minted = []
        for _ in range(5):
            minted.append(ids.next_ulid())
            clock.advance(ms=1)
        return minted

    assert mint(7) == mint(7)
    assert mint(7) != mint(8)


def test_threads_that_share_a_source_never_get_the_same_id() -> None:
    ids = UlidSource(SystemClock())
    with ThreadPoolExecutor(8) as pool:
        minted = list(pool.map(lambda _: ids.next_ulid(), range(4_000)))
    assert len(set(minted)) == len(minted)


def test_copies_of_a_source_after_a_fork_do_not_mint_the_same_ids() -> None:
    # A fork copies the state: two sources that gave the same last id within one millisecond.
    clock = ManualClock(now_us=NOW_US)

    def source_at_the_fork() -> UlidSource:
        first = [b"\x00" * 10, b"\x01" * 10]
        return UlidSource(
            clock,
            random_bytes=lambda length: first.pop(0) if len(first) > 1 else os.urandom(length),
        )

    parent, child = source_at_the_fork(), source_at_the_fork()
    assert parent.next_ulid() == child.next_ulid()
    assert parent.next_ulid() != child.next_ulid()


@pytest.mark.parametrize("mint", [new_graph_id, new_commit_id, new_operation_id])
def test_minted_ids_are_upper_case(mint: type[str]) -> None:
    minted = mint(seeded_ids(1, ManualClock(now_us=NOW_US)))
    assert minted == minted.upper()
    assert len(minted) == 26


def test_a_branch_id_is_lower_case_because_it_becomes_part_of_a_path() -> None:
    minted = new_branch_id(seeded_ids(1, ManualClock(now_us=NOW_US)))
    assert minted == minted.lower()


def test_many_ids_at_once_are_those_of_as_many_calls() -> None:
    one, many = (seeded_ids(7, ManualClock()) for _ in range(2))
    assert many.next_ulids(3) + many.next_ulids(0) + many.next_ulids(2) == [
        one.next_ulid() for _ in range(5)
    ]
    assert many.next_ulid() == one.next_ulid()
