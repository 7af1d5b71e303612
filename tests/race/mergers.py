"""Processes that merge, revert, write and delete branches side by side, and what must hold then.

Each act is the only one of its actor, so history tells who made a commit. What a commit shows is
computed from its parents alone: by what its actor wrote, or entity by entity from three states.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from random import Random  # noqa: TID251 - seeded, and the seed is printed
from time import sleep
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph import Graph
from omnigraph.errors import OmnigraphError
from omnigraph.failpoints import NAMES, armed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.race.workers import Journal

    from omnigraph.graph.manifest.rows import CommitRow

SCHEMA = (
    "node Person { name: String @key  value: I32? }\nnode Note { name: String @key  value: I32? }"
)
TYPES = ("Person", "Note")
SLOWED = ("branch_merge", "mutation", "publish", "branch_delete", "lease", "fork")
"""The groups of failpoints at which a process may wait a little, so that the others meet it."""

State = dict[tuple[str, str], int | None]
"""The value of every entity by type and id."""


class Verb(StrEnum):
    """What an act does."""

    PUT = "put"
    REMOVE = "remove"
    MERGE = "merge"
    REVERT = "revert"
    DELETE = "delete"
    CREATE = "create"


REFUSALS = {
    Verb.PUT: {"branch_not_found", "read_set_conflict"},
    Verb.REMOVE: {"branch_not_found", "read_set_conflict"},
    Verb.MERGE: {"branch_not_found", "merge_conflicts", "read_set_conflict"},
    Verb.REVERT: {
        "branch_not_found",
        "commit_not_found",
        "invalid_argument",
        "merge_conflicts",
        "read_set_conflict",
        "snapshot_reclaimed",
    },
    Verb.DELETE: {"branch_not_found"},
    Verb.CREATE: {"branch_exists"},
}
"""What whoever loses may be told."""


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that a process does on a branch."""

    verb: Verb
    branch: str
    keys: tuple[str, ...] = ()
    """Of rows that are put or removed."""
    source: str = ""
    """What is merged into the branch."""
    strategy: str = "fail"

    def do(self, graph: Graph, value: int) -> str | None:
        """Its commit, if it made one."""
        match self.verb:
            case Verb.PUT | Verb.REMOVE:
                return self._write(graph, value)
            case Verb.MERGE:
                merged = graph.branches.merge(
                    self.source, into=self.branch, strategy=self.strategy
                ).commit
                return None if merged is None else merged.graph_commit_id
            case Verb.REVERT:
                found = graph.commits.list(branch=self.branch)
                last = next(each for each in found if each.kind == "mutation")
                undone = graph.commits.revert(last.graph_commit_id, branch=self.branch)
                return None if undone is None else undone.graph_commit_id
            case Verb.DELETE:
                graph.branches.delete(self.branch)
                return None
            case Verb.CREATE:
                graph.branches.create(self.branch)
                return None

    def _write(self, graph: Graph, value: int) -> str | None:
        with graph.write(self.branch) as writer:
            for name in TYPES:
                if self.verb is Verb.REMOVE:
                    writer.delete(name, self.keys)
                    continue
                values = pa.array([value] * len(self.keys), pa.int32())
                writer.upsert(name, pa.table({"name": list(self.keys), "value": values}))
            made = writer.commit()
        return None if made is None else made.graph_commit_id

    def play(self, state: State, value: int) -> State:
        """What is there after a write."""
        keys = [(name, key) for name in TYPES for key in self.keys]
        if self.verb is Verb.REMOVE:
            return {key: kept for key, kept in state.items() if key not in keys}
        return state | dict.fromkeys(keys, value)


@dataclass(frozen=True, slots=True)
class Task:
    """What one process is told."""

    root: str
    writer: int
    acts: tuple[Act, ...]
    gate: str
    seed: int

    def named(self) -> dict[str, tuple[Act, int]]:
        """Each act by its actor, with the value that it writes."""
        return {
            f"w{self.writer}-{number}": (act, self.writer * 1_000 + number)
            for number, act in enumerate(self.acts)
        }


def do_acts(notes: Journal, task: Task) -> None:
    """Wait for the gate, then do the acts one after the other."""
    random = Random(f"{task.seed}-{task.writer}")  # noqa: S311 - repeats with its seed
    with ExitStack() as context:
        for name in sorted(NAMES):
            if name.partition(".")[0] in SLOWED:
                context.enter_context(armed(name, partial(_dawdle, random)))
        graph = context.enter_context(Graph.open(task.root))
        notes.say("ready")
        while not Path(task.gate).exists():
            sleep(0.001)
        for actor, (act, value) in task.named().items():
            try:
                notes.say("ack", actor, act.do(graph.as_actor(actor), value) or "-")
            except OmnigraphError as error:
                notes.say("refused", actor, error.code, error.message)


def _dawdle(random: Random) -> None:
    if random.random() < 0.4:
        sleep(random.random() * 0.03)


@dataclass(slots=True)
class History:
    """All commits that the live lines know, and what each of them must show."""

    acts: Mapping[str, tuple[Act, int]]
    rows: dict[str, CommitRow] = field(default_factory=dict)
    _states: dict[str, State] = field(default_factory=dict)

    def learn(self, commits: Iterable[CommitRow]) -> None:
        """Take in what a line knows."""
        for row in commits:
            self.rows.setdefault(row.commit_id, row)

    def made_by(self, actor: str) -> list[str]:
        """The commits of an actor."""
        return [each for each, row in self.rows.items() if row.actor_id == actor]

    def state(self, commit_id: str) -> State:
        """What a commit shows."""
        if commit_id not in self._states:
            self._states[commit_id] = self._computed(self.rows[commit_id])
        return self._states[commit_id]

    def _computed(self, row: CommitRow) -> State:
        if row.parent is None:
            return {}
        before = self.state(row.parent)
        facts = row.stats.get("merge")
        if row.merged_parent is not None and facts is not None:
            theirs = self.state(row.merged_parent)
            return joined(self.state(facts["base_commit"]), before, theirs, facts["strategy"])
        if "revert" in row.stats:
            undone = self.rows[row.stats["revert"]["commit"]]
            assert undone.parent is not None
            return joined(self.state(undone.commit_id), before, self.state(undone.parent), "fail")
        if row.kind == "optimize":
            return before
        act, value = self.acts[str(row.actor_id)]
        return act.play(before, value)


def joined(base: State, ours: State, theirs: State, strategy: str) -> State:
    """The three states as one; what both changed otherwise is decided by the strategy."""
    merged = dict(ours)
    for key in base.keys() | ours.keys() | theirs.keys():
        was, mine, other = (each.get(key) for each in (base, ours, theirs))
        if other in (was, mine):
            continue
        assert mine == was or strategy != "fail", f"{key} was contested"
        if mine != was and strategy == "ours":
            continue
        if other is None:
            del merged[key]
        else:
            merged[key] = other
    return merged
