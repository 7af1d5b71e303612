"""Deadlines, and clients that leave: calls of the engine end early, commits that began do not."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from omnigraph import Graph
from omnigraph.clock import SystemClock
from omnigraph.errors import Cancelled, DeadlineExceeded
from omnigraph.failpoints import armed
from omnigraph.graph.query.budget import CancelToken
from omnigraph.graph.query.call_scope import CallScope, calling
from omnigraph.server.engine_calls import EngineCalls

if TYPE_CHECKING:
    from pathlib import Path

    import httpx
    from tests.serving import LiveServer

PEOPLE = "query people() { match { $p: Person } return { $p.name } }"
ADD = "query add($n: String) { insert Person { name: $n } }"
G = "/graphs/default"


def names(graph: Graph) -> list[object]:
    return graph.query(PEOPLE).to_arrow().column("p.name").to_pylist()


class LeapingClock(SystemClock):
    """Every look at it is a minute later."""

    def __init__(self) -> None:
        self._now_us = 0

    def monotonic_us(self) -> int:
        self._now_us += 60_000_000
        return self._now_us


def test_a_query_over_its_time_is_504_and_tells_limit_and_phase(
    server: LiveServer, http: httpx.Client
) -> None:
    server.runtime.clock = LeapingClock()
    answer = http.post(f"{G}/query", json={"query": PEOPLE}, headers={"Omnigraph-Timeout-Ms": "50"})
    assert answer.status_code == 504
    assert answer.json()["deadline_exceeded"] == {"limit_ms": 50, "phase": "queue"}
    assert answer.json()["reason"] == "deadline_exceeded"


@pytest.mark.parametrize("text", ["0", "-1", "soon", "1.5", "9999999999"])
def test_a_deadline_that_is_none_is_refused(http: httpx.Client, text: str) -> None:
    answer = http.post(f"{G}/query", json={"query": PEOPLE}, headers={"Omnigraph-Timeout-Ms": text})
    assert (answer.status_code, answer.json()["reason"]) == (400, "invalid_argument")


def test_a_write_over_its_time_changes_nothing(graph_path: Path) -> None:
    scope = CallScope(clock=LeapingClock(), token=CancelToken(), timeout_ms=1)
    with Graph.open(graph_path) as graph:
        head = graph.snapshot().seq
        with calling(scope), pytest.raises(DeadlineExceeded) as refusal:
            graph.mutate(ADD, params={"n": "late"})
        assert refusal.value.details["phase"] == "capture"
        assert graph.snapshot().seq == head


@pytest.mark.parametrize("step", ["post_capture", "post_lease_pre_sidecar"])
def test_a_write_that_nobody_waits_for_ends_before_it_takes_effect(
    graph_path: Path, step: str
) -> None:
    token = CancelToken()
    scope = CallScope(clock=SystemClock(), token=token)
    with Graph.open(graph_path) as graph:
        with (
            armed(f"mutation.{step}", token.cancel),
            calling(scope),
            pytest.raises(Cancelled),
        ):
            graph.mutate(ADD, params={"n": step})
        assert step not in names(graph)
        graph.mutate(ADD, params={"n": step})


@pytest.mark.parametrize("step", ["post_phase_a", "post_phase_b_pre_manifest_commit"])
def test_a_commit_that_began_runs_to_its_end(graph_path: Path, step: str) -> None:
    token = CancelToken()
    scope = CallScope(clock=SystemClock(), token=token)
    with Graph.open(graph_path) as graph:
        with armed(f"mutation.{step}", token.cancel), calling(scope):
            assert graph.mutate(ADD, params={"n": step}).commit is not None
        assert step in names(graph)


def test_a_query_that_nobody_waits_for_ends(graph_path: Path) -> None:
    token = CancelToken()
    token.cancel()
    with (
        Graph.open(graph_path) as graph,
        calling(CallScope(clock=SystemClock(), token=token)),
        pytest.raises(Cancelled),
    ):
        graph.query(PEOPLE)


def test_a_client_that_leaves_cancels_its_call() -> None:
    token = CancelToken()

    def call() -> str:
        while not token.is_cancelled:
            pass
        return "ended"

    async def run() -> str:
        with closing(EngineCalls(1)) as calls:
            return await calls.run(call, token=token, gone=left)

    async def left() -> None:
        pass

    assert asyncio.run(run()) == "ended"
