"""A branch that is followed while others write to it: every commit is told whole, and once."""

from __future__ import annotations

from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.graph.changes.change_pages import ChangePage

SCHEMA = "node Person { name: String @key } edge Knows: Person -> Person"
SETTINGS = load_settings({"OMNIGRAPH_DURABILITY": "process"})

Told: TypeAlias = "dict[str, list[str]]"
"""Commits in order, and the entities that each has inserted, in order."""


def write(root: str, writer: int, commits: int, seed: int) -> Told:
    """So many commits of a few nodes and edges each, on a handle of its own."""
    chance = np.random.default_rng([seed, writer])
    made: Told = {}
    with Graph.open(root, settings=SETTINGS) as graph:
        for number in range(commits):
            names = [f"w{writer}-{number:04d}-{at}" for at in range(int(chance.integers(1, 6)))]
            edges = [f"{name}-self" for name in names]
            with graph.write() as batch:
                batch.upsert("Person", pa.table({"name": names}))
                batch.upsert("Knows", pa.table({"id": edges, "src": names, "dst": names}))
                commit = batch.commit()
            assert commit is not None
            made[commit.graph_commit_id] = [*names, *edges]
    return made


@dataclass
class Follower:
    """A consumer that stores a cursor with what it has applied, and is started again at times."""

    root: str
    chance: np.random.Generator
    applied: Told = field(default_factory=dict)
    cursor: str | None = None
    restarts: int = 0

    def run(self, writers: list[Future[Told]]) -> None:
        """Follow until everybody has written and everything is told."""
        is_behind = True
        while is_behind:
            # What was written before is found by the poll that comes after.
            are_done = all(each.done() for each in writers)
            with Graph.open(self.root, mode="read_only", settings=SETTINGS) as graph:
                has_all = self._polled(graph)
            is_behind = not (are_done and has_all)
            self.restarts += 1

    def _polled(self, graph: Graph) -> bool:
        """Poll until somebody stops it, or it has caught up; which of both."""
        pending: Told = {}
        page = self._page(graph, None)
        while True:
            for block in page.blocks:
                told = pending.setdefault(block.cause.graph_commit_id, [])
                told += [change.id for change in block.changes]
                if block.cursor is not None:
                    self._apply(pending, block.cursor)
            if page.caught_up:
                return True
            if self.chance.random() < 0.2:
                return False
            if page.cursor is not None:
                self._apply(pending, page.cursor)
            page = self._page(graph, page.next_page_token)

    def _page(self, graph: Graph, token: str | None) -> ChangePage:
        limit = int(self.chance.integers(1, 8))
        if token is not None:
            return graph.changes.poll(page_token=token, limit=limit)
        if self.cursor is None:
            return graph.changes.poll(start="beginning", limit=limit)
        return graph.changes.poll(cursor=self.cursor, limit=limit)

    def _apply(self, pending: Told, cursor: str) -> None:
        """Keep the commits that are whole, with the place behind them."""
        assert self.applied.keys().isdisjoint(pending), "a commit came twice"
        self.applied |= pending
        pending.clear()
        self.cursor = cursor


def follow_beside(pool: Executor, root: str, *, writers: int, commits: int, seed: int) -> None:
    """Let some write and one follow, then account for every commit and every change."""
    futures = [pool.submit(write, root, each, commits, seed) for each in range(writers)]
    follower = Follower(root, np.random.default_rng([seed, writers]))
    follower.run(futures)
    made = {commit: told for each in futures for commit, told in each.result().items()}
    with Graph.open(root, mode="read_only", settings=SETTINGS) as graph:
        history = [each.graph_commit_id for each in graph.commits.list(all=True, limit=100_000)]
    assert list(follower.applied) == history[::-1]
    assert {commit: told for commit, told in follower.applied.items() if told} == made
    assert follower.restarts > 0


@pytest.fixture
def root(tmp_path: Path) -> str:
    path = tmp_path / "graph"
    Graph.init(path, schema=SCHEMA, settings=SETTINGS).close()
    return str(path)


def test_a_feed_beside_two_writers_tells_every_commit_whole_and_once(root: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        follow_beside(pool, root, writers=2, commits=3, seed=1)


@pytest.mark.extended
@pytest.mark.parametrize("seed", range(2, 6))
def test_a_feed_beside_processes_tells_every_commit_whole_and_once(root: str, seed: int) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        follow_beside(pool, root, writers=2, commits=15, seed=seed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_feed_beside_many_processes_tells_a_thousand_commits(root: str) -> None:
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        follow_beside(pool, root, writers=4, commits=250, seed=6)
