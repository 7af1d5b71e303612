"""Many clients at once, while workers die: no acknowledged write is lost, no answer is torn.

Each write makes two people in one commit. So a reader that finds an odd number saw half of a
commit, and a name that was acknowledged and is not there at the end is a lost write.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random  # noqa: TID251 - seeded, the same requests in every run
from time import perf_counter
from typing import TYPE_CHECKING, Final

import httpx
import pytest
from tests.serving import server_process

from omnigraph import Graph
from omnigraph.server.routes import OPERATIONS

if TYPE_CHECKING:
    from tests.serving import ServerProcess

G = "/graphs/default"
BRANCHES: Final = ("main", "one", "two", "three")
ADD = "query add($a: String, $b: String) { insert Person { name: $a } insert Person { name: $b } }"
NAMES = "query names() { match { $p: Person } return { $p.name } order { $p.name } }"
WRITE_SHARE: Final = 0.2
KIB: Final = 1024
MOST_GROWTH_KIB: Final = 128 * KIB
DECLARED = {
    operation.operation_id: frozenset(operation.failures) - {401, 403, 404, 500}
    for operation in OPERATIONS
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is asked: it ends when the requests are sent or the time is up."""

    clients: int
    requests: int
    """Of each client, at most."""
    kills: int
    seconds: float = float("inf")
    measures_memory: bool = False


SMALL = Scale(clients=8, requests=12, kills=1)
FULL = Scale(clients=64, requests=2_000, kills=2, seconds=60.0, measures_memory=True)


@dataclass(slots=True)
class Run:
    """What the clients were told, and how far they are."""

    scale: Scale
    url: str
    acknowledged: set[tuple[str, str]] = field(default_factory=set)
    unknown: set[tuple[str, str]] = field(default_factory=set)
    """Writes whose answer was lost with a worker: they may have happened."""
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    lost_connections: int = 0
    sent: int = 0
    started_s: float = field(default_factory=perf_counter)
    guard: threading.Lock = field(default_factory=threading.Lock)
    is_over: threading.Event = field(default_factory=threading.Event)

    def progress(self) -> float:
        """From 0 to 1, by requests or by time, whichever is further."""
        by_time = (perf_counter() - self.started_s) / self.scale.seconds
        return max(by_time, self.sent / (self.scale.clients * self.scale.requests))

    def client(self, number: int) -> None:
        """Send what one client sends."""
        chance = Random(number)  # noqa: S311 - the same requests in every run
        http = httpx.Client(base_url=self.url, timeout=120, trust_env=False)
        with http:
            for at in range(self.scale.requests):
                if self.is_over.is_set() or self.progress() >= 1 or self.wrong:
                    return
                branch = chance.choice(BRANCHES)
                try:
                    if chance.random() < WRITE_SHARE:
                        self._write(http, branch, f"c{number}-{at}")
                    else:
                        self._read(http, branch)
                except httpx.TransportError:
                    with self.guard:
                        self.lost_connections += 1
                except (AssertionError, KeyError, TypeError, ValueError) as error:
                    self.wrong.append(repr(error))
                with self.guard:
                    self.sent += 1

    def _write(self, http: httpx.Client, branch: str, name: str) -> None:
        params = {"a": f"{name}-a", "b": f"{name}-b"}
        body = {"query": ADD, "params": params, "branch": branch}
        with self.guard:
            self.unknown.add((branch, name))
        answer = http.post(f"{G}/mutate", json=body)
        if self._is_done(answer, "cluster_mutate"):
            assert answer.json()["affected_nodes"] == 2
            with self.guard:
                self.acknowledged.add((branch, name))
        with self.guard:
            # An error of the contract says that nothing happened, but for one of unknown outcome.
            if answer.status_code == 200 or answer.json()["reason"] != "recovery_required":
                self.unknown.discard((branch, name))

    def _read(self, http: httpx.Client, branch: str) -> None:
        answer = http.post(f"{G}/query", json={"query": NAMES, "branch": branch})
        if self._is_done(answer, "cluster_query"):
            body = answer.json()
            assert body["row_count"] == len(body["rows"])
            assert body["row_count"] % 2 == 0, "half of a commit was read"

    def _is_done(self, answer: httpx.Response, operation: str) -> bool:
        """Whether it is the answer of success; a failure is one that the contract names."""
        with self.guard:
            self.statuses[answer.status_code] += 1
        assert int(answer.headers["Content-Length"]) == len(answer.content)
        if answer.status_code == 200:
            return True
        assert answer.status_code in DECLARED[operation], answer.text
        assert answer.json()["reason"]
        return False


def resident_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [size] = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
    return int(size)


def disturb(run: Run, server: ServerProcess) -> int:
    """Kill one worker again and again; how much memory the other one took from midway on."""
    kept, *others = server.workers()
    assert len(others) == 1
    for number in range(run.scale.kills):
        wait_for(run, (number + 1) / (run.scale.kills + 2))
        [victim] = [pid for pid in server.workers() if pid != kept]
        os.kill(victim, signal.SIGKILL)
        while len(alive := server.workers()) < 2 or victim in alive:
            assert server.process.poll() is None
        assert kept in alive
    wait_for(run, (run.scale.kills + 1) / (run.scale.kills + 2))
    before = resident_kib(kept)
    wait_for(run, 1.0)
    return resident_kib(kept) - before


def wait_for(run: Run, progress: float) -> None:
    while run.progress() < progress and not run.wrong:
        run.is_over.wait(0.01)


@pytest.mark.parametrize(
    "scale",
    [
        pytest.param(SMALL, id="small", marks=pytest.mark.extended),
        pytest.param(FULL, id="full", marks=[pytest.mark.slow, pytest.mark.timeout(1_800)]),
    ],
)
def test_no_acknowledged_write_is_lost_while_workers_die(graph_path: Path, scale: Scale) -> None:
    with Graph.open(graph_path) as graph:
        graph.load(b'{"type":"Person","data":{"name":"Bob"}}\n', mode="append")
        for branch in BRANCHES[1:]:
            graph.branches.create(branch)
    with (
        server_process(
            graph_path, "--workers", "2", "--unauthenticated", OMNIGRAPH_LOG="error"
        ) as server,
        ThreadPoolExecutor(scale.clients) as pool,
    ):
        run = Run(scale, server.url)
        ends = [pool.submit(run.client, number) for number in range(scale.clients)]
        try:
            grown_kib = disturb(run, server)
        finally:
            run.is_over.set()
        for end in ends:
            end.result()
        code, _, log = server.end()
    assert run.wrong == []
    assert (code, "Traceback" in log) == (0, False), log
    assert run.lost_connections <= 2 * scale.clients * scale.kills, json.dumps(run.statuses)
    assert run.statuses[200] > scale.clients
    if scale.measures_memory:
        assert grown_kib <= MOST_GROWTH_KIB
    require_all(graph_path, run)


def require_all(path: Path, run: Run) -> None:
    """What was acknowledged is there, whole, and nothing else but what may be."""
    assert run.acknowledged
    with Graph.open(path) as graph:
        for branch in BRANCHES:
            names = [str(row["p.name"]) for row in graph.query(NAMES, branch=branch).to_dicts()]
            assert len(names) == len(set(names))
            found = {name[:-2] for name in names} - {"A", "B"}
            assert found <= {name for at, name in run.acknowledged | run.unknown if at == branch}
            assert found >= {name for at, name in run.acknowledged if at == branch}
            assert len(names) == 2 + 2 * len(found), "half of a commit is there"
