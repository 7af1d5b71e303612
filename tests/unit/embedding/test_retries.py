"""Attempts, pauses, the timeout of a request and the deadline of a call."""

import json
import logging
import socket
from collections.abc import Callable
from email.utils import formatdate

import numpy as np
import pytest
from tests.unit.embedding.provider_server import (
    Answer,
    Opener,
    ProviderServer,
    Seen,
    good_body,
    unit_rows,
)

from omnigraph.clock import ManualClock, SystemClock
from omnigraph.embedding import Purpose
from omnigraph.embedding.backoff import Backoff
from omnigraph.errors import EmbeddingFailed, EmbeddingUnavailable, Retry
from omnigraph.ids import UlidSource


def _text(body: str) -> Callable[[Seen], bytes]:
    return lambda _: body.encode()


@pytest.mark.parametrize(
    "bad",
    [
        *(pytest.param(Answer(status=status), id=str(status)) for status in (408, 429, 500, 503)),
        pytest.param(Answer(cuts=True), id="cut"),
        pytest.param(Answer(body=_text("")), id="empty"),
        pytest.param(Answer(body=lambda seen: good_body(seen)[:-9]), id="truncated"),
        pytest.param(Answer(body=_text('{"error": {"code": 502}}')), id="error in a 200"),
        pytest.param(Answer(body=_text('{"data": 1}')), id="no list"),
        pytest.param(Answer(body=_text('{"data": [1]}')), id="no object"),
        pytest.param(Answer(body=_text('{"data": [{"index": "x"}]}')), id="no index"),
        pytest.param(Answer(body=_text("[" * 200_000)), id="nested"),
        pytest.param(Answer(body=lambda seen: good_body(seen) + b" " * 2_000_000), id="huge"),
        pytest.param(Answer(headers={"Content-Encoding": "gzip"}), id="not gzip"),
    ],
)
def test_what_may_pass_is_asked_again(server: ProviderServer, opener: Opener, bad: Answer) -> None:
    server.script = [bad, bad]
    vectors = opener.open().embed(["a", "b"], dimension=3, purpose=Purpose.QUERY)
    np.testing.assert_array_equal(vectors, unit_rows(["a", "b"], 3))
    assert len(server.seen) == 3
    assert len(opener.pauses) == 2


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (302, "OMNIGRAPH_EMBED_BASE_URL"),
        (400, "offers 3 dimensions"),
        (401, "OPENAI_API_KEY"),
        (403, "OPENAI_API_KEY"),
        (404, "OMNIGRAPH_EMBED_MODEL"),
        (422, "offers 3 dimensions"),
    ],
)
def test_a_refusal_fails_at_once_and_names_the_remedy(
    server: ProviderServer, opener: Opener, status: int, remedy: str
) -> None:
    server.script = [Answer(status=status, headers={"Location": f"{server.url}/elsewhere"})]
    with pytest.raises(EmbeddingUnavailable, match=remedy) as caught:
        opener.open().embed(["a"], dimension=3, purpose=Purpose.QUERY)
    assert caught.value.details == {"provider": "openai", "status": status}
    assert f"HTTP {status}" in str(caught.value)
    assert len(server.seen) == 1


@pytest.mark.parametrize("attempts", [1, 4])
def test_after_the_last_attempt_the_error_tells_status_and_attempts(
    server: ProviderServer, opener: Opener, attempts: int
) -> None:
    server.script = [Answer(status=503)] * 9
    with pytest.raises(EmbeddingFailed, match="HTTP 503") as caught:
        opener.open(retry_attempts=attempts).embed(["a"], dimension=3, purpose=Purpose.QUERY)
    assert caught.value.details == {"provider": "openai", "status": 503, "attempts": attempts}
    assert caught.value.retry is Retry.AS_IS
    assert len(server.seen) == attempts
    assert len(opener.pauses) == attempts - 1


def test_a_refused_connection_is_asked_again_and_has_no_status(opener: Opener) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(EmbeddingFailed, match="ConnectError") as caught:
            opener.open(base_url=url).embed(["a"], dimension=3, purpose=Purpose.QUERY)
    assert caught.value.details == {"provider": "openai", "status": None, "attempts": 4}


def test_an_answer_that_does_not_come_ends_with_the_timeout_of_the_request(
    server: ProviderServer, opener: Opener
) -> None:
    server.script = [Answer(waits=True)]
    # The second answer must come in time, on a busy machine too.
    embedder = opener.open(is_real_time=True, timeout_ms=2_000)
    vectors = embedder.embed(["a"], dimension=3, purpose=Purpose.QUERY)
    np.testing.assert_array_equal(vectors, unit_rows(["a"], 3))
    assert len(server.seen) == 2


@pytest.mark.extended
def test_an_answer_that_comes_byte_by_byte_ends_with_the_timeout_of_the_request(
    server: ProviderServer, opener: Opener
) -> None:
    server.script = [Answer(drips=True, body=_text("x" * 10_000))]
    clock = SystemClock()
    embedder = opener.open(is_real_time=True, timeout_ms=1_500, retry_attempts=1)
    started_us = clock.monotonic_us()
    with pytest.raises(EmbeddingFailed, match="too slow"):
        embedder.embed(["a"], dimension=3, purpose=Purpose.QUERY)
    assert clock.monotonic_us() - started_us < 30_000_000


def test_the_deadline_cuts_a_request_that_has_time_of_its_own(
    server: ProviderServer, opener: Opener
) -> None:
    server.script = [Answer(waits=True)] * 4
    clock = SystemClock()
    embedder = opener.open(is_real_time=True, timeout_ms=60_000, deadline_ms=1_000)
    started_us = clock.monotonic_us()
    with pytest.raises(EmbeddingFailed, match="within 1000 ms") as caught:
        embedder.embed(["a"], dimension=3, purpose=Purpose.QUERY)
    assert clock.monotonic_us() - started_us < 30_000_000
    assert caught.value.details["attempts"] == 1


def test_one_deadline_covers_all_batches_and_attempts(
    server: ProviderServer, opener: Opener
) -> None:
    slow = Answer(status=429, headers={"Retry-After": "2"})
    server.script = [slow, Answer(), slow, Answer(), slow]
    embedder = opener.open(batch_texts=1, deadline_ms=5_000)
    with pytest.raises(EmbeddingFailed) as caught:
        embedder.embed(["a", "b", "c"], dimension=3, purpose=Purpose.QUERY)
    assert opener.pauses == [2.0, 2.0]
    assert caught.value.details == {"provider": "openai", "status": 429, "attempts": 1}
    embedder.embed(["a"], dimension=3, purpose=Purpose.QUERY)


def test_no_request_is_sent_once_the_deadline_has_passed(
    server: ProviderServer, opener: Opener
) -> None:
    def late(seen: Seen) -> bytes:
        opener.clock.advance(ms=60_000)
        return good_body(seen)

    server.script = [Answer(status=429, body=late)]
    with pytest.raises(EmbeddingFailed) as caught:
        opener.open().embed(["a"], dimension=3, purpose=Purpose.QUERY)
    assert caught.value.details["attempts"] == 1
    assert (len(server.seen), opener.pauses) == (1, [])


def test_a_good_answer_after_which_no_time_is_left_fails_the_next_batch(
    server: ProviderServer, opener: Opener
) -> None:
    def late(seen: Seen) -> bytes:
        opener.clock.advance(ms=29_999)
        return good_body(seen)

    server.script = [Answer(body=late)] * 3
    with pytest.raises(EmbeddingFailed) as caught:
        opener.open(batch_texts=1, deadline_ms=59_998).embed(
            ["a", "b", "c"], dimension=3, purpose=Purpose.QUERY
        )
    assert caught.value.details == {"provider": "openai", "status": None, "attempts": 0}
    assert len(server.seen) == 2


def test_retry_after_in_seconds_is_waited_for(server: ProviderServer, opener: Opener) -> None:
    server.script = [Answer(status=429, headers={"Retry-After": "7"})]
    opener.open().embed(["a"], dimension=3, purpose=Purpose.QUERY)
    assert opener.pauses == [7.0]


def test_retry_after_as_a_date_is_waited_for(server: ProviderServer, opener: Opener) -> None:
    date = formatdate(opener.clock.now_ms() // 1_000 + 9, usegmt=True)
    server.script = [Answer(status=503, headers={"Retry-After": date})]
    opener.open().embed(["a"], dimension=3, purpose=Purpose.QUERY)
    assert opener.pauses == [9.0]


def test_retry_after_beyond_the_deadline_fails_at_once(
    server: ProviderServer, opener: Opener
) -> None:
    server.script = [Answer(status=429, headers={"Retry-After": "60"})]
    with pytest.raises(EmbeddingFailed) as caught:
        opener.open().embed(["a"], dimension=3, purpose=Purpose.QUERY)
    assert caught.value.details == {"provider": "openai", "status": 429, "attempts": 1}
    assert opener.pauses == []


@pytest.mark.parametrize("value", ["", "soon", "-5", "1e9", "9" * 40, "Wed, 99 Foo 2026 00:00:00"])
def test_retry_after_that_nobody_can_read_leaves_the_jitter(
    server: ProviderServer, opener: Opener, value: str
) -> None:
    server.script = [Answer(status=429, headers={"Retry-After": value})]
    opener.open().embed(["a"], dimension=3, purpose=Purpose.QUERY)
    (pause,) = opener.pauses
    assert 0 <= pause <= 0.2


def test_a_date_of_retry_after_without_a_zone_is_utc_and_one_in_the_past_is_no_wait() -> None:
    clock = ManualClock(now_us=1_000_000_000_000_000)
    backoff = Backoff(0, clock, UlidSource(clock))
    assert backoff.pause_us(1, "Sun, 09 Sep 2001 01:46:45 -0000") == 5_000_000
    assert backoff.pause_us(1, "Sun, 09 Sep 2001 01:46:35 GMT") == 0


def test_pauses_have_full_jitter_below_a_bound_that_doubles() -> None:
    clock = ManualClock()
    backoff = Backoff(200, clock, UlidSource(clock))
    for attempt, bound_us in ((1, 200_000), (2, 400_000), (3, 800_000)):
        pauses = [backoff.pause_us(attempt, None) for _ in range(400)]
        assert 0 <= min(pauses) < bound_us // 20
        assert bound_us - bound_us // 20 < max(pauses) <= bound_us
        assert bound_us * 0.4 < sum(pauses) / len(pauses) < bound_us * 0.6


def test_a_huge_number_of_attempts_has_a_bound() -> None:
    clock = ManualClock()
    backoff = Backoff(1, clock, UlidSource(clock))
    assert backoff.pause_us(10**6, None) <= 1_000 << 20


def test_every_attempt_is_logged_with_its_fields(
    server: ProviderServer, opener: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="omnigraph")
    server.script = [Answer(status=429), Answer(), Answer(status=400)]
    embedder = opener.open(model="m1")
    embedder.embed(["a", "b"], dimension=3, purpose=Purpose.QUERY)
    with pytest.raises(EmbeddingUnavailable):
        embedder.embed(["a"], dimension=3, purpose=Purpose.QUERY)
    logged = [(record.levelname, record.getMessage(), _fields(record)) for record in caplog.records]
    shared = {"provider": "openai", "model": "m1", "dimension": 3, "elapsed_ms": 0}
    asked_twice = {**shared, "count": 2}
    assert logged == [
        (
            "INFO",
            "embed",
            {**asked_twice, "attempt": 1, "outcome": "no_answer", "cause": "HTTP 429"},
        ),
        ("DEBUG", "embed", {**asked_twice, "attempt": 2, "outcome": "ok"}),
        (
            "WARNING",
            "embed",
            {**shared, "count": 1, "attempt": 1, "outcome": "refused", "cause": "HTTP 400"},
        ),
    ]


def test_an_invalid_answer_is_logged(
    server: ProviderServer, opener: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    server.script = [Answer(body=_text(json.dumps({"data": []})))]
    with pytest.raises(Exception, match="no vector"):
        opener.open().embed(["a"], dimension=3, purpose=Purpose.QUERY)
    assert [_fields(record)["outcome"] for record in caplog.records] == ["invalid"]


def _fields(record: logging.LogRecord) -> dict[str, object]:
    plain = {*vars(logging.makeLogRecord({})), "message", "asctime"}
    return {name: value for name, value in vars(record).items() if name not in plain}
