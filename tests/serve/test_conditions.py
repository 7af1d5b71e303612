"""Conditions and keys hold between workers, which share nothing but the graph."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.serving import server_process

from omnigraph import Graph

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.serving import ServerProcess

G = "/graphs/default"
CLIENTS = 8
ADD = "query add($n: String) { insert Person { name: $n } }"
pytestmark = pytest.mark.extended


@pytest.fixture
def server(graph_path: Path) -> Iterator[ServerProcess]:
    options = ("--workers", "2", "--unauthenticated", "--no-maintenance")
    with server_process(graph_path, *options, OMNIGRAPH_LOG="error") as running:
        yield running


def at_once(
    server: ServerProcess, path: str, headers: Mapping[str, str], *names: str
) -> list[httpx.Response]:
    """The answers to clients that send at the same time, each over a connection of its own."""
    start = Barrier(len(names))

    def send(name: str) -> httpx.Response:
        with httpx.Client(base_url=server.url, timeout=120, trust_env=False) as client:
            client.get("/healthz")
            start.wait()
            body = {"query": ADD, "params": {"n": name}}
            return client.post(f"{G}/{path}", json=body, headers=headers)

    with ThreadPoolExecutor(len(names)) as pool:
        return list(pool.map(send, names))


def test_a_conditional_write_that_is_raced_from_two_processes_has_one_winner(
    server: ServerProcess, graph_path: Path
) -> None:
    winners = []
    head = httpx.get(f"{server.url}{G}/commits?limit=1").json()["commits"][0]["graph_commit_id"]
    for turn in range(3):
        names = [f"c{turn}-{number}" for number in range(CLIENTS)]
        condition = {"Omnigraph-If-Graph-Commit": head}
        answers = at_once(server, "mutate/if-graph-commit", condition, *names)
        done = [
            (name, answer.json()["commit"])
            for name, answer in zip(names, answers, strict=True)
            if answer.status_code == 200
        ]
        lost = [answer for answer in answers if answer.status_code != 200]
        assert len(done) == 1
        assert {answer.json()["reason"] for answer in lost} == {"precondition_failure"}
        [(winner, commit)] = done
        winners.append(winner)
        head = commit["graph_commit_id"]
    with Graph.open(graph_path, mode="read_only") as graph:
        rows = graph.query("query all() { match { $p: Person } return { $p.name } }").to_dicts()
    assert {row["p.name"] for row in rows} == {"Ada", *winners}


def test_a_key_that_is_sent_to_two_processes_at_once_is_one_write(
    server: ServerProcess, graph_path: Path
) -> None:
    with Graph.open(graph_path, mode="read_only") as graph:
        before = graph.snapshot().seq
    answers = at_once(server, "mutate", {"Idempotency-Key": "k1"}, *["Eve"] * CLIENTS)
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["commit"]["graph_commit_id"] for answer in answers}) == 1
    first = [answer for answer in answers if "Idempotent-Replayed" not in answer.headers]
    assert len(first) == 1
    with Graph.open(graph_path, mode="read_only") as graph:
        assert graph.snapshot().seq == before + 1
