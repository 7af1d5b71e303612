"""Loads on Spark and the workers of a server write one branch, and nothing acknowledged is lost."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.serving import server_process

from omnigraph import Graph
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.pipeline.spark.session import PipelineSession

G = "/graphs/default"
SCHEMA = "node Person { name: String @key  age: I64? }"
ADD = "query add($n: String) { insert Person { name: $n } }"
NAMES = "query names() { match { $p: Person } return { $p.name } }"
SETTINGS = load_settings(
    {"OMNIGRAPH_PIPELINE_SPLIT_BYTES": "2000", "OMNIGRAPH_LEASE_WAIT_MS": "60000"}
)
MOST_WRITES = 500
NOT_DONE = {409, 429, 503, 504}


def write_until(url: str, number: int, begun: Event, is_over: Event) -> set[str]:
    """What the server acknowledged to one client, which asks until it is told to stop."""
    acknowledged = set()
    with httpx.Client(base_url=url, timeout=120, trust_env=False) as client:
        for at in range(MOST_WRITES):
            if is_over.is_set():
                break
            name = f"c{number}-{at}"
            answer = client.post(f"{G}/mutate", json={"query": ADD, "params": {"n": name}})
            begun.set()
            if answer.status_code == 200:
                acknowledged.add(name)
            else:
                assert answer.status_code in NOT_DONE, answer.text
    return acknowledged


@pytest.mark.extended
def test_loads_on_spark_beside_two_workers_lose_nothing(
    tmp_path: Path, session: PipelineSession
) -> None:
    session.require_alive()
    root, loaded = tmp_path / "people.omni", set()
    Graph.init(root, schema=SCHEMA).close()
    begun, is_over = Event(), Event()
    options = ("--workers", "2", "--unauthenticated")
    with (
        server_process(root, *options, OMNIGRAPH_LOG="error") as server,
        ThreadPoolExecutor(2) as pool,
        Graph.open(root, settings=SETTINGS) as graph,
    ):
        clients = [pool.submit(write_until, server.url, n, begun, is_over) for n in range(2)]
        try:
            assert begun.wait(120)
            for number in range(2):
                names = [f"s{number}-{at}" for at in range(200)]
                path = tmp_path / f"{number}.jsonl"
                lines = [json.dumps({"type": "Person", "data": {"name": name}}) for name in names]
                path.write_text("\n".join(lines))
                assert graph.load(path, mode="merge", engine="spark").commit is not None
                loaded |= set(names)
        finally:
            is_over.set()
        acknowledged = set.union(*(client.result() for client in clients))
        rows = httpx.post(f"{server.url}{G}/query", json={"query": NAMES}).json()["rows"]
        code, _, log = server.end()
    assert (code, "Traceback" in log) == (0, False), log
    assert acknowledged
    assert {row["p.name"] for row in rows} == acknowledged | loaded
