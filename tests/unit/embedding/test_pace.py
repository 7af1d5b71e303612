"""Requests keep to a rate, and their texts to what one request may hold."""

import pytest

from omnigraph.clock import ManualClock
from omnigraph.embedding.pace import Pace, Rate, cut_requests, estimate_tokens


class Waiting:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.pauses: list[float] = []

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.advance(us=round(seconds * 1e6))

    def pace(self, rate: Rate) -> Pace:
        return Pace(rate, self.clock, pause=self.pause)


def test_without_a_limit_nothing_waits() -> None:
    waiting = Waiting()
    pace = waiting.pace(Rate())
    for _ in range(5):
        pace.wait(1_000_000)
    assert waiting.pauses == []


def test_requests_pass_at_their_rate_and_the_first_at_once() -> None:
    waiting = Waiting()
    pace = waiting.pace(Rate(requests=30))
    for _ in range(4):
        pace.wait(1)
    assert waiting.pauses == [2.0, 2.0, 2.0]


def test_time_that_a_request_takes_is_not_waited_for_again() -> None:
    waiting = Waiting()
    pace = waiting.pace(Rate(requests=60))
    pace.wait(1)
    waiting.clock.advance(ms=700)
    pace.wait(1)
    waiting.clock.advance(ms=5_000)
    pace.wait(1)
    assert waiting.pauses == [pytest.approx(0.3)]


def test_tokens_count_by_the_request_that_had_them() -> None:
    waiting = Waiting()
    pace = waiting.pace(Rate(requests=60, tokens=6_000))
    pace.wait(500)
    pace.wait(10)
    pace.wait(10)
    assert waiting.pauses == [5.0, 1.0]


def test_a_rate_is_shared_out_evenly() -> None:
    assert Rate(requests=60, tokens=900).shared_by(3) == Rate(requests=20, tokens=300)
    assert Rate().shared_by(3) == Rate()


@pytest.mark.parametrize(("text", "tokens"), [("a", 1), ("abc", 1), ("abcd", 2), ("日本", 2)])
def test_tokens_are_estimated_from_bytes(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


def test_requests_are_cut_by_texts_and_by_tokens() -> None:
    costs = [("a", 4), ("b", 4), ("c", 4), ("d", 30), ("e", 1), ("f", 1), ("g", 1), ("h", 1)]
    found = list(cut_requests(costs, most_texts=3, most_tokens=10))
    assert found == [(["a", "b"], 8), (["c"], 4), (["d"], 30), (["e", "f", "g"], 3), (["h"], 1)]
    assert list(cut_requests([], most_texts=3)) == []
