from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.profiles import quick

from omnigraph.clock import Clock, ManualClock, SystemClock

YEAR_2020_US = 1_577_836_800_000_000


def test_the_system_clock_gives_epoch_time_in_both_units() -> None:
    clock: Clock = SystemClock()
    before_us = clock.now_us()
    between_ms = clock.now_ms()
    after_us = clock.now_us()
    assert before_us > YEAR_2020_US
    assert before_us // 1_000 <= between_ms <= after_us // 1_000


def test_the_monotonic_time_of_the_system_never_goes_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic_us() for _ in range(1_000)]
    assert readings == sorted(readings)


def test_a_manual_clock_stands_still_until_told() -> None:
    clock: Clock = ManualClock(now_us=1_999)
    assert (clock.now_us(), clock.now_us(), clock.now_ms()) == (1_999, 1_999, 1)


@given(steps=st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**6)), max_size=8))
@quick(100)
def test_advancing_moves_wall_and_monotonic_time_alike(steps: list[tuple[int, int]]) -> None:
    clock = ManualClock(now_us=YEAR_2020_US)
    for us, ms in steps:
        clock.advance(us=us, ms=ms)
    passed_us = sum(us + 1_000 * ms for us, ms in steps)
    assert (clock.now_us(), clock.monotonic_us()) == (YEAR_2020_US + passed_us, passed_us)


def test_time_cannot_pass_backwards() -> None:
    with pytest.raises(ValueError, match="forwards"):
        ManualClock().advance(ms=-1)


def test_a_jump_of_wall_time_passes_no_time() -> None:
    clock = ManualClock(now_us=YEAR_2020_US)
    clock.advance(ms=5)
    clock.jump_to(now_us=7)
    assert (clock.now_us(), clock.monotonic_us()) == (7, 5_000)
