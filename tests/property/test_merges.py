"""A merge gives what a model of whole states gives: rows, outcome, conflicts, history.

Seeded histories of writes, forks, compactions, merges in every direction and deleted branches. The
model keeps the content of every commit and decides entity by entity with plain dictionaries.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random  # noqa: TID251 - seeded
from typing import TYPE_CHECKING

import pytest
from tests.property.entity_histories import SCHEMA, History, exported
from tests.unit.graph.graphs import quick

from omnigraph import Graph
from omnigraph.errors import BranchHasDescendants, MergeConflicts
from omnigraph.graph.changes import row_pairs

if TYPE_CHECKING:
    from pathlib import Path

    from tests.property.entity_histories import Key, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A commit as the model knows it."""

    state: State
    parents: tuple[str, ...]
    home: str
    """The branch that holds its data, by identity."""
    authored_at: int


@dataclass(kw_only=True)
class MergeHistory(History):
    """A history with merges, and a model of it."""

    nodes: dict[str, Node] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)
    made: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)

    def step(self) -> None:
        chance = self.rng.random()
        if len(self.branches) > 1 and chance < 0.4:
            self.merge()
        elif len(self.branches) > 1 and chance < 0.45:
            self.drop()
        else:
            super().step()

    def remember(self, branch: str) -> None:
        """Note what the branch shows now as the next commit of the model."""
        super().remember(branch)
        self._note(branch)

    def fork(self, branch: str) -> None:
        if len(self.branches) < 5:
            self.made += 1
            name = f"b{self.made}"
            self.graph.branches.create(name, from_=branch)
            self.branches.append(name)
            self.homes[name] = self.graph.branches.get(name).branch_id
            self.heads[name] = self.heads[branch]

    def drop(self) -> None:
        name = self.rng.choice(self.branches[1:])
        try:
            self.graph.branches.delete(name)
        except BranchHasDescendants:
            return
        self.trail.append(f"drop {name}")
        self.branches.remove(name)
        del self.heads[name]

    def merge(self) -> None:
        source, target = self.rng.sample(self.branches, 2)
        strategy = self.rng.choice(("fail", "fail", "ours", "theirs"))
        ours, theirs = self.heads[target], self.heads[source]
        base, is_readable = self._base(ours, theirs)
        outcome = "already_up_to_date" if theirs in self._ancestors(ours) else "merged"
        if outcome == "merged" and base == ours:  # Its own head can always be read.
            outcome = "fast_forward"
        expected, contested = self._joined(base, ours, theirs, strategy)
        broken = _orphans(expected)
        self.trail.append(f"merge {source} into {target} by {strategy}: {outcome}")
        plan = self.graph.branches.merge_plan(source, into=target, strategy=strategy)
        assert plan.outcome == outcome, self.trail
        if outcome == "already_up_to_date":
            assert self.graph.branches.merge(source, into=target).commit is None
        elif not is_readable and (strategy != "fail" or plan.conflict_count):
            # The true base is gone with its branch: more may be contested, nothing may be wrong.
            assert contested <= _keys(plan.conflict_list), self.trail
            outcome = "without its base"
        elif contested or broken:
            assert _keys(plan.conflict_list) == (contested or broken), self.trail
            with pytest.raises(MergeConflicts):
                self.graph.branches.merge(source, into=target, strategy=strategy)
            outcome = "conflicts"
        else:
            assert plan.conflict_count == 0, (plan.conflict_list, self.trail)
            done = self.graph.branches.merge(source, into=target, strategy=strategy)
            assert done.outcome == outcome, self.trail
            assert done.commit is not None
            super().remember(target)
            self._note(target, theirs)
            assert self.seen[self.heads[target]] == expected, self.trail
            changed = sum(sum(counts.values()) for counts in plan.tables.values())
            assert changed == len(_changed(self.nodes[ours].state, expected)), self.trail
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        for branch in (source, target):
            state = exported(self.graph, branch)
            assert state == self.nodes[self.heads[branch]].state, self.trail

    def _note(self, branch: str, merged: str | None = None) -> None:
        commit = self.graph.commits.list(branch=branch, limit=1).commits[0]
        if commit.graph_commit_id in self.nodes:
            return
        parent = self.heads.get(branch)
        self.nodes[commit.graph_commit_id] = Node(
            state=self.seen[commit.graph_commit_id],
            parents=tuple(each for each in (parent, merged) if each is not None),
            home=self.homes.setdefault(branch, self.graph.branches.get(branch).branch_id),
            authored_at=commit.created_at,
        )
        self.heads[branch] = commit.graph_commit_id

    def _ancestors(self, commit: str) -> set[str]:
        found: set[str] = set()
        waiting = [commit]
        while waiting:
            each = waiting.pop()
            if each not in found:
                found.add(each)
                waiting.extend(self.nodes[each].parents)
        return found

    def _base(self, ours: str, theirs: str) -> tuple[str, bool]:
        """Of the newest common ancestors the last, and whether all of them can be read."""
        live = {self.homes[name] for name in self.branches}
        common = self._ancestors(ours) & self._ancestors(theirs)
        best = [
            each
            for each in common
            if not any(each != other and each in self._ancestors(other) for other in common)
        ]
        last = max(best, key=lambda each: (self.nodes[each].authored_at, each))
        return last, all(self.nodes[each].home in live for each in best)

    def _joined(self, base: str, ours: str, theirs: str, strategy: str) -> tuple[State, set[Key]]:
        before, own, other = (self.nodes[each].state for each in (base, ours, theirs))
        merged, contested = dict(own), set[tuple[str, str]]()
        for key in before.keys() | own.keys() | other.keys():
            was, mine, new = before.get(key), own.get(key), other.get(key)
            if new in (was, mine) or (mine != was and strategy == "ours"):
                continue
            if mine != was and strategy == "fail":
                contested.add(key)
            elif new is None:
                merged.pop(key, None)
            else:
                merged[key] = new
        return merged, contested


def _orphans(state: State) -> set[Key]:
    people = {entity_id for name, entity_id in state if name == "Person"}
    return {key for key, image in state.items() if set(image.endpoints or ()) - people}


def _changed(old: State, new: State) -> set[Key]:
    return {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}


def _keys(conflicts: object) -> set[Key]:
    assert isinstance(conflicts, tuple)
    return {(each.type_name, each.entity_id) for each in conflicts}


def _play(folder: Path, seed: int, steps: int) -> MergeHistory:
    with Graph.init(folder / "g", schema=SCHEMA, settings=quick()) as graph:
        history = MergeHistory(graph=graph, rng=Random(seed))  # noqa: S311 - no secret
        history.remember("main")
        for _ in range(steps):
            history.step()
        return history


@pytest.mark.parametrize("seed", range(2))
def test_merges_give_what_a_model_of_whole_states_gives(tmp_path: Path, seed: int) -> None:
    _play(tmp_path, seed, 16)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(1_000, 2_000))
def test_merges_agree_with_the_model_over_long_histories(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_pairs, "_PORTION", 3)
    _play(tmp_path, seed, 30)
