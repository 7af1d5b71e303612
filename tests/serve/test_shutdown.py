"""A server that is asked to end finishes what it began, and says so to whoever comes late."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import httpx
import pytest
from tests.serving import server_process, serving

from omnigraph import Graph

G = "/graphs/default"
ADD = {"query": 'query add() { insert Person { name: "Late" } }'}
POINTS = ("post_lease_pre_sidecar", "post_phase_a", "post_phase_b_pre_manifest_commit")


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.extended
@pytest.mark.parametrize("point", POINTS)
def test_sigterm_during_a_commit_loses_nothing(graph_path: Path, point: str) -> None:
    """The process is stopped inside the commit, told to end, and let go on."""
    answers: list[httpx.Response] = []
    with server_process(
        graph_path,
        "--unauthenticated",
        "--no-maintenance",
        OMNIGRAPH_TESTING="1",
        OMNIGRAPH_FAILPOINTS=f"mutation.{point}=stop",
    ) as server:
        pid = server.process.pid
        sender = threading.Thread(
            target=lambda: answers.append(
                httpx.post(f"{server.url}{G}/mutate", json=ADD, timeout=120)
            )
        )
        sender.start()
        while not _is_stopped(pid):
            assert server.process.poll() is None
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)
        sender.join()
        code, _, log = server.ended()
    assert (code, "Traceback" in log) == (0, False), log
    [answer] = answers
    assert answer.status_code == 200, answer.text
    with Graph.open(graph_path) as graph:
        assert graph.snapshot(answer.json()["commit"]["graph_commit_id"]).entity("Person", "Late")


def test_who_comes_while_a_server_drains_is_told_to_come_again(graph_path: Path) -> None:
    with serving({"default": graph_path}) as live, live.client() as client:
        assert client.get("/readyz").status_code == 200
        live.runtime.draining.set()
        late = client.post(f"{G}/mutate", json=ADD)
        assert (late.status_code, late.json()["reason"]) == (503, "server_unavailable")
        assert (late.headers["Retry-After"], late.headers["Connection"]) == ("5", "close")
        assert client.get("/readyz").json() == {"status": "draining"}
        assert client.get("/healthz").status_code == 200
    with Graph.open(graph_path) as graph:
        assert graph.snapshot().seq == 1
