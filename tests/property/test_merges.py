"""A merge gives what a model of whole states gives: rows, outcome, conflicts, history.

Seeded histories of writes, forks, compactions, merges in every direction and deleted branches. The
model keeps the content of every commit and decides entity by entity with plain dictionaries.

Other seeds than those of `make test-all` are run by naming their range:

    MERGE_SEEDS=10000:20000 .venv/bin/pytest tests/property/test_merges.py -m slow -n 2 -q
"""

from __future__ import annotations

import atexit
import os
import shutil
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random  # noqa: TID251 - seeded
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import pytest
from tests.property.entity_histories import SCHEMA, TYPES, History, exported
from tests.unit.graph.graphs import quick

from omnigraph import Graph
from omnigraph.errors import BranchHasDescendants, MergeConflicts
from omnigraph.graph.changes import row_pairs
from omnigraph.graph.changes.row_places import written_ids
from omnigraph.graph.merge.commit_states import CommitStates

if TYPE_CHECKING:
    from tests.property.entity_histories import Key, State

    from omnigraph.graph.merge.merge_plan import MergePlan


NAMES = ("b1", "b2", "b3", "b4")
"""Of branches; the name of one that is gone is given again."""


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
    told: int = 0
    """How often the history told where changes were written."""
    outcomes: dict[str, int] = field(default_factory=dict)

    def step(self) -> None:
        chance = self.rng.random()
        if len(self.branches) > 1 and chance < 0.4:
            self.merge(*self.rng.sample(self.branches, 2))
        elif len(self.branches) > 2 and chance > 0.92:
            self.share()
        elif len(self.branches) > 1 and chance < 0.45:
            self.drop(self.rng.choice(self.branches[1:]))
        else:
            super().step()

    def remember(self, branch: str) -> None:
        """Note what the branch shows now as the next commit of the model."""
        super().remember(branch)
        self._note(branch)

    def compact(self, branch: str) -> None:
        """Shows what was there before, which `require_heads` looks at in the end."""
        super().compact(branch)
        commit = self.graph.snapshot(branch=branch).graph_commit_id
        self.seen.setdefault(commit, self.nodes[self.heads[branch]].state)

    def fork(self, branch: str) -> None:
        if len(self.branches) < 5:
            name = next(each for each in NAMES if each not in self.branches)
            self.graph.branches.create(name, from_=branch)
            self.branches.append(name)
            self.homes[name] = self.graph.branches.get(name).branch_id
            self.heads[name] = self.heads[branch]

    def drop(self, name: str) -> None:
        try:
            self.graph.branches.delete(name)
        except BranchHasDescendants:
            return
        self.trail.append(f"drop {name}")
        self.branches.remove(name)
        del self.heads[name]

    def share(self) -> None:
        """Merge a branch into two others, delete it, and merge those: their base is gone."""
        source = self.rng.choice(self.branches[1:])
        one, other = self.rng.sample([each for each in self.branches if each != source], 2)
        self._add(source)
        self.merge(source, one)
        self.merge(source, other)
        self.drop(source)
        for branch in (one, other):
            self._add(branch)
        self.merge(one, other)

    def _add(self, branch: str) -> None:
        self.trail.append(f"put on {branch}")
        self.put(branch)
        self.remember(branch)

    def merge(self, source: str, target: str) -> None:
        strategy = self.rng.choice(("fail", "fail", "ours", "theirs"))
        ours, theirs = self.heads[target], self.heads[source]
        base, is_readable = self._base(ours, theirs)
        outcome = "already_up_to_date" if theirs in self._ancestors(ours) else "merged"
        if outcome == "merged" and base == ours:  # Its own head can always be read.
            outcome = "fast_forward"
        expected, contested = self._joined(base, ours, theirs, strategy)
        wrong = contested or _orphans(expected)
        self.trail.append(f"merge {source} into {target} by {strategy}: {outcome}")
        if outcome != "already_up_to_date" and is_readable and self.rng.random() < 0.3:
            self._require_written(source, target, base)
        plan = None
        if not is_readable or self.rng.random() < 0.3:
            plan = self.graph.branches.merge_plan(source, into=target, strategy=strategy)
            assert plan.outcome == outcome, self.trail
        if outcome == "already_up_to_date":
            assert self.graph.branches.merge(source, into=target).commit is None
        elif not is_readable and plan and (strategy != "fail" or plan.conflict_count or contested):
            # The true base is gone with its branch: more may be contested, nothing may be wrong.
            # Of several bases one that is left may tell that a side has not changed an entity.
            sure = [
                self._joined(each, ours, theirs, strategy)[1] for each in self._bases(ours, theirs)
            ]
            assert set.intersection(*sure) <= _keys(plan.to_dict()["conflicts"]), self.trail
            outcome = "without its base"
        elif wrong:
            with pytest.raises(MergeConflicts) as refused:
                self.graph.branches.merge(source, into=target, strategy=strategy)
            assert _keys(refused.value.details["merge_conflicts"]) == wrong, self.trail
            assert plan is None or _keys(plan.to_dict()["conflicts"]) == wrong, self.trail
            outcome = "conflicts"
        else:
            done = self.graph.branches.merge(source, into=target, strategy=strategy)
            assert done.outcome == outcome, self.trail
            assert done.commit is not None
            super().remember(target)
            self._note(target, theirs)
            assert self.seen[self.heads[target]] == expected, self.trail
            changed = len(_changed(self.nodes[ours].state, expected))
            assert plan is None or (changed, 0) == (_count(plan), plan.conflict_count), self.trail
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        for branch in (source, target):
            head = self.graph.snapshot(branch=branch).graph_commit_id
            assert head == self.heads[branch], self.trail

    def _require_written(self, source: str, target: str, base: str) -> None:
        """Whatever differs from the base was written where the history says."""
        graph = self.graph._graph
        lines = [graph.lines.read(graph.branch_id(name)) for name in (target, source)]
        states = CommitStates(graph, *lines)
        found = states.divergence.base
        assert found is not None, self.trail
        assert found.commit_id == base, self.trail
        for line in lines:
            stretches = states.written_since(found, line.head_commit)
            changed = _changed(self.nodes[base].state, self.nodes[line.head.commit_id].state)
            self.told += stretches is not None
            for name in TYPES if stretches is not None else ():
                handles = [
                    (older.handle(older.type(name)), newer.handle(newer.type(name)))
                    for older, newer in stretches or ()
                ]
                written = {(name, each) for each in written_ids(graph.tables, handles).to_pylist()}
                assert {key for key in changed if key[0] == name} <= written, self.trail

    def require_heads(self) -> None:
        """Every branch shows what the model says."""
        for branch in self.branches:
            state = exported(self.graph, branch)
            assert state == self.nodes[self.heads[branch]].state, self.trail

    def _note(self, branch: str, merged: str | None = None) -> None:
        lines = self.graph._graph.lines
        commit = lines.read(lines.branch_id(branch)).head_commit
        if commit.commit_id in self.nodes:
            return
        parent = self.heads.get(branch)
        self.nodes[commit.commit_id] = Node(
            state=self.seen[commit.commit_id],
            parents=tuple(each for each in (parent, merged) if each is not None),
            home=self.homes.setdefault(branch, self.graph.branches.get(branch).branch_id),
            authored_at=commit.authored_at,
        )
        self.heads[branch] = commit.commit_id

    def _ancestors(self, commit: str) -> set[str]:
        found: set[str] = set()
        waiting = [commit]
        while waiting:
            each = waiting.pop()
            if each not in found:
                found.add(each)
                waiting.extend(self.nodes[each].parents)
        return found

    def _bases(self, ours: str, theirs: str) -> list[str]:
        """The newest common ancestors."""
        common = self._ancestors(ours) & self._ancestors(theirs)
        return [
            each
            for each in common
            if not any(each != other and each in self._ancestors(other) for other in common)
        ]

    def _base(self, ours: str, theirs: str) -> tuple[str, bool]:
        """Of the newest common ancestors the last, and whether all of them can be read."""
        best = self._bases(ours, theirs)
        last = max(best, key=lambda each: (self.nodes[each].authored_at, each))
        either = self._ancestors(ours) | self._ancestors(theirs)
        return last, all(self._is_readable(each, either) for each in best)

    def _is_readable(self, commit: str, either: set[str]) -> bool:
        """Whether the branch of a commit lives, or of one that was forwarded to it."""
        if self.nodes[commit].home in {self.homes[name] for name in self.branches}:
            return True
        return any(
            self.nodes[each].parents[1:] == (commit,)
            and self.nodes[each].parents[0] in self._ancestors(commit)
            and self._is_readable(each, either)
            for each in either
        )

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
    assert isinstance(conflicts, list)
    return {(each["type_name"], each["entity_id"]) for each in conflicts}


def _count(plan: MergePlan) -> int:
    return sum(sum(counts.values()) for counts in plan.tables.values())


def _seeds() -> range:
    first, _, last = os.environ.get("MERGE_SEEDS", "1000:2000").partition(":")
    return range(int(first), int(last))


@cache
def _empty() -> Path:
    """A graph that every history begins with a copy of, which is quicker than to make it."""
    root = Path(mkdtemp()) / "g"
    atexit.register(shutil.rmtree, root.parent)
    Graph.init(root, schema=SCHEMA, settings=quick()).close()
    return root


def _play(folder: Path, seed: int, steps: int) -> MergeHistory:
    root = shutil.copytree(_empty(), folder / "g")
    with Graph.open(root, settings=quick()) as graph:
        history = MergeHistory(graph=graph, rng=Random(seed))  # noqa: S311 - no secret
        history.remember("main")
        for _ in range(steps):
            history.step()
        history.require_heads()
        return history


@pytest.mark.parametrize("seed", range(2))
def test_merges_give_what_a_model_of_whole_states_gives(tmp_path: Path, seed: int) -> None:
    _play(tmp_path, seed, 16)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", _seeds())
def test_merges_agree_with_the_model_over_long_histories(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_pairs, "_PORTION", 3)
    _play(tmp_path, seed, 30)
