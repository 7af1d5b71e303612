"""The change feed of any branch, read in any pieces, leads to what the branch shows.

Seeded histories on several branches; a consumer keeps a copy of every branch by the feed alone. It
reads pages of random sizes, forgets what it has not finished, and starts over from a baseline or
the beginning.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random  # noqa: TID251 - seeded
from typing import TYPE_CHECKING

import pytest
from tests.property.entity_histories import SCHEMA, History, exported
from tests.unit.graph.graphs import quick

from omnigraph import Graph
from omnigraph.errors import MergeConflicts
from omnigraph.graph.changes import commit_changes, feed, row_pairs
from omnigraph.graph.changes.entity_change import Image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.property.entity_histories import State

    from omnigraph.graph.changes.change_pages import ChangePage


@dataclass(kw_only=True)
class FeedHistory(History):
    """A history with merges."""

    def step(self) -> None:
        if len(self.branches) > 1 and self.rng.random() < 0.2:
            source, target = self.rng.sample(self.branches, 2)
            self.trail.append(f"merge {source} into {target}")
            try:
                self.graph.branches.merge(source, into=target, strategy="theirs")
            except MergeConflicts:
                self.trail.append("conflicts")  # An edge of a node that the other side deleted.
            self.remember(target)
        else:
            super().step()


@dataclass(kw_only=True)
class Consumer:
    """A copy of one branch, and where its feed goes on."""

    graph: Graph
    branch: str
    rng: Random
    state: State = field(default_factory=dict)
    applied: list[str] = field(default_factory=list)
    cursor: str | None = None

    def start_over(self) -> None:
        """Everything anew: from the very beginning, or from a baseline."""
        self.state, self.applied, self.cursor = {}, [], None
        if self.rng.random() < 0.5:
            stream = self.graph.changes.baseline(branch=self.branch)
            *records, last = map(json.loads, b"".join(stream).decode().splitlines())
            for record in records:
                data = record["data"]
                ends = (record["from"], record["to"]) if "edge" in record else None
                key = (record.get("type") or record["edge"], data.pop("id"))
                self.state[key] = Image(properties=data, endpoints=ends)
            self.applied = self.line(last["baseline"]["snapshot_commit_id"])
            self.cursor = last["baseline"]["resume_cursor"]

    def catch_up(self) -> None:
        """Poll to the head; a poll that breaks off is forgotten and read again."""
        while not self.poll():
            pass
        head = self.graph.snapshot(branch=self.branch).graph_commit_id
        assert self.applied == self.line(head)
        assert self.state == exported(self.graph, self.branch)

    def poll(self) -> bool:
        """Whether one poll, applied as a whole with its cursor, came to the head."""
        begin = {"start": "beginning"} if self.cursor is None else {"cursor": self.cursor}
        state, told = dict(self.state), list[str]()
        page = self.page(**begin)
        while True:
            for block in page:
                commit = block.cause.graph_commit_id
                if not told or told[-1] != commit:
                    told.append(commit)
                for change in block.changes:
                    key = (change.type_name, change.id)
                    assert state.pop(key, None) == change.before, key
                    if change.after is not None:
                        state[key] = change.after
            if page.cursor is not None:
                break
            if self.rng.random() < 0.05:
                return False
            assert page.next_page_token is not None
            page = self.page(page_token=page.next_page_token)
        self.state, self.cursor = state, page.cursor
        self.applied += told
        assert page.caught_up is not None
        return page.caught_up

    def page(self, **begin: str) -> ChangePage:
        limit = self.rng.choice((1, 2, 3, 5, 1_000))
        return self.graph.changes.poll(branch=self.branch, limit=limit, **begin)

    def line(self, commit: str) -> list[str]:
        """A commit and its first parents, oldest first."""
        found: list[str] = []
        at: str | None = commit
        while at is not None:
            found.append(at)
            at = self.graph.commits.get(at).parent_commit_id
        return found[::-1]


def _play(folder: Path, seed: int, steps: int) -> None:
    with Graph.init(folder / "g", schema=SCHEMA, settings=quick()) as graph:
        rng = Random(seed)  # noqa: S311 - no secret
        history = FeedHistory(graph=graph, rng=rng)
        history.remember("main")
        consumers: dict[str, Consumer] = {}
        for step in range(steps):
            history.step()
            for branch in history.branches:
                if branch not in consumers:
                    consumers[branch] = Consumer(graph=graph, branch=branch, rng=rng)
                    consumers[branch].start_over()
            if step % 4 == 3:
                consumers[rng.choice(history.branches)].catch_up()
        for consumer in consumers.values():
            consumer.catch_up()
            consumer.start_over()
            consumer.catch_up()
            _require_followed(consumer)


def _require_followed(consumer: Consumer) -> None:
    """Following tells each commit once, and its cursors tell the rest."""
    changes = consumer.graph.changes
    whole = list(changes.follow(branch=consumer.branch, start="beginning"))
    assert [each.cause.graph_commit_id for each in whole] == consumer.applied
    at = consumer.rng.randrange(len(whole))
    rest = list(changes.follow(branch=consumer.branch, cursor=whole[at].cursor))
    assert rest == whole[at + 1 :]


@pytest.mark.parametrize("seed", [3, 4])
def test_a_feed_leads_to_the_head(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "MOST_COMMITS_PER_POLL", 3)
    _play(tmp_path, seed, 8)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(1_000, 1_020))
def test_feeds_lead_to_the_head_over_long_histories(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "MOST_COMMITS_PER_POLL", 5)
    monkeypatch.setattr(commit_changes, "_PAGE_BYTES", 700)
    monkeypatch.setattr(row_pairs, "_PORTION", 3)
    _play(tmp_path, seed, 30)
