"""Reads that stay warm between writes on several branches answer as a fresh graph does."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random  # noqa: TID251 - seeded
from typing import TYPE_CHECKING

import pytest
from tests.unit.engine.graphs import Opened, heat
from tests.unit.engine.moved import NAMES, QUERIES, ask, filled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from omnigraph import Graph


@dataclass(kw_only=True)
class History:
    """Small random writes to a graph and its branches."""

    graph: Graph
    rng: Random
    branches: list[str] = field(default_factory=lambda: ["main"])
    steps: int = 0

    def step(self) -> None:
        """One write, branch or compaction."""
        self.steps += 1
        actions: list[Callable[[str], None]] = [
            self._add,
            self._update,
            self._drop,
            self._tie,
            self._tie,
            self._hire,
            self._cut,
            self._branch,
            self._optimize,
        ]
        self.rng.choice(actions)(self.rng.choice(self.branches))

    def _mutate(self, query: str, branch: str, **params: object) -> None:
        self.graph.mutate(QUERIES, query, params, branch=branch)

    def _add(self, branch: str) -> None:
        self._mutate("add", branch, name=self.rng.choice(NAMES), age=self.steps)

    def _update(self, branch: str) -> None:
        self._mutate("put", branch, name=self.rng.choice(NAMES), age=self.steps)

    def _drop(self, branch: str) -> None:
        self._mutate("drop", branch, name=self.rng.choice(NAMES))

    def _tie(self, branch: str) -> None:
        ends = self._two(branch)
        self._mutate("tie", branch, a=ends[0], b=ends[1])

    def _hire(self, branch: str) -> None:
        self._mutate("hire", branch, a=self._two(branch)[0], b=self.rng.choice(("c0", "c1")))

    def _cut(self, branch: str) -> None:
        self._mutate(self.rng.choice(("cut", "fire")), branch, a=self.rng.choice(NAMES))

    def _branch(self, branch: str) -> None:
        if len(self.branches) < 3:
            self.branches.append(f"b{self.steps}")
            self.graph.branches.create(self.branches[-1], from_=branch)

    def _optimize(self, branch: str) -> None:
        if self.rng.random() < 0.5:
            self.graph.maintenance.optimize(branch=branch)

    def _two(self, branch: str) -> list[str]:
        """Two nodes that are there, or one twice."""
        snapshot = self.graph.snapshot(branch=branch)
        there = [name for name in NAMES if snapshot.entity("N", name) is not None]
        if not there:
            self._mutate("add", branch, name="n0", age=0)
            there = ["n0"]
        return self.rng.choices(there, k=2)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 100))]
)
def test_reads_between_writes_answer_as_a_fresh_graph_does(tmp_path: Path, seed: int) -> None:
    column_bytes = ("1000000", "150", "0")[seed % 3]
    with Opened(tmp_path) as graphs:
        graph = filled(graphs, column_bytes=column_bytes)
        history = History(graph=graph, rng=Random(seed))  # noqa: S311 - seeded
        columns = graph._engine.caches.columns
        for _ in range(20):
            if history.rng.random() < 0.5:
                heat(graph, branch=history.rng.choice(history.branches))
            history.step()
            asked = history.rng.sample(history.branches, min(len(history.branches), 2))
            fresh = graphs.again(history.graph, TRAVERSAL_MODE="indexed", COLUMN_CACHE_BYTES="0")
            for branch in asked:
                answers = ask(history.graph, branch), ask(fresh, branch)
                assert answers[0] == answers[1], (history.steps, branch)
            fresh.close()
            assert columns.nbytes <= columns.most_bytes
        graph.close()
        assert columns.nbytes == 0
