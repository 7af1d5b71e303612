"""Merges with rules and decisions, and reverts, give what a model of whole states gives.

Seeded histories in a schema with unique values and bounds on edges. The model joins states entity
by entity with plain dictionaries, and holds the result against the rules by a look at all of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import chain
from random import Random  # noqa: TID251 - seeded
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.property.entity_histories import BLOB
from tests.property.test_merges import MergeHistory
from tests.unit.graph.graphs import quick

from omnigraph import Graph
from omnigraph.errors import ConstraintViolation, MergeConflicts
from omnigraph.graph.changes import row_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from tests.property.entity_histories import Key, State

    from omnigraph.graph.changes.entity_change import Image

SCHEMA = """
node Person { name: String @key  age: I32? @unique  nick: String?  face: Blob? }
node Note { name: String @key  mark: F64? }
edge Knows: Person -> Person @card(1..2) { since: I32?  @unique(src, dst) }
"""
LEAST, MOST = 1, 2
TAKES = ("ours", "theirs", "base", "delete")

Broken = frozenset["tuple[str, frozenset[str]]"]
"""Kinds of conflicts, and the entities of which one is told."""


@dataclass(kw_only=True)
class RuledHistory(MergeHistory):
    """A history whose writes, merges and reverts may break rules."""

    done: Counter[str] = field(default_factory=Counter)

    def step(self) -> None:
        chance = self.rng.random()
        if len(self.branches) > 1 and chance < 0.35:
            self.merge(*self.rng.sample(self.branches, 2))
            return
        if chance < 0.55:
            self.revert()
            return
        branch = self.rng.choice(self.branches)
        puts: list[Callable[[str], None]] = [self.put] * 4
        acts = [*puts, self.remove, self.compact, self.fork]
        act = self.rng.choice(acts)
        self.trail.append(f"{act.__name__} on {branch}")
        try:
            act(branch)
        except ConstraintViolation:
            self.trail[-1] += ", refused"
        self.remember(branch)

    def merge(self, source: str, target: str) -> None:
        ours, theirs = self.heads[target], self.heads[source]
        if theirs in self._ancestors(ours):
            return
        base, _ = self._base(ours, theirs)
        states = (self.nodes[base].state, self.nodes[ours].state, self.nodes[theirs].state)
        strategy = self.rng.choice(("fail", "fail", "ours", "theirs"))
        decided = self._decisions(states)
        expected, contested = joined(*states, decided, strategy)
        broken = Broken() if contested else broken_rules(states[1], expected)
        self.trail.append(f"merge {source} into {target} by {strategy}, {decided}")
        how: dict[str, Any] = {  # Any: arguments by name
            "into": target,
            "strategy": strategy,
            "resolutions": [
                {"type": name, "id": each, "take": take} for (name, each), take in decided.items()
            ],
        }
        plan = self.graph.branches.merge_plan(source, **how)
        told = plan.to_dict()["conflicts"]
        self._require_told(told, contested, broken)
        if told:
            with pytest.raises(MergeConflicts) as refused:
                self.graph.branches.merge(source, **how)
            assert refused.value.details["merge_conflicts"] == told, self.trail
            return
        assert plan.tables == counts(states[1], expected), self.trail
        self.graph.branches.merge(source, **how)
        self.remember_joined(target, expected, theirs)

    def revert(self) -> None:
        """One of the last commits of a branch, most of them of writes."""
        branch = self.rng.choice(self.branches)
        line = [self.heads[branch]]
        while self.nodes[line[-1]].parents:
            line.append(self.nodes[line[-1]].parents[0])
        if len(line) == 1:
            return
        commit = self.rng.choice(line[:-1][:4])
        before = self.nodes[self.nodes[commit].parents[0]].state
        states = (self.nodes[commit].state, self.nodes[line[0]].state, before)
        expected, contested = joined(*states, {}, "fail")
        broken = Broken() if contested else broken_rules(states[1], expected)
        self.trail.append(f"revert of {commit} on {branch}")
        if contested or broken:
            with pytest.raises(MergeConflicts) as refused:
                self.graph.commits.revert(commit, branch=branch)
            self._require_told(refused.value.details["merge_conflicts"], contested, broken)
            return
        undone = self.graph.commits.revert(commit, branch=branch)
        assert (undone is None) == (expected == states[1]), self.trail
        self.remember_joined(branch, expected)

    def remember_joined(self, branch: str, expected: State, merged: str | None = None) -> None:
        self.done["joined"] += 1
        commit = self.graph.snapshot(branch=branch).graph_commit_id
        if commit not in self.seen:
            super(MergeHistory, self).remember(branch)
            self._note(branch, merged)
        assert self.nodes[self.heads[branch]].state == expected, self.trail

    def _decisions(self, states: tuple[State, State, State]) -> dict[Key, str]:
        """Of some of the entities that both sides changed, or of none."""
        _, contested = joined(*states, {}, "fail")
        if self.rng.random() < 0.4:
            return {}
        return {key: self.rng.choice(TAKES) for key in contested if self.rng.random() < 0.8}

    def _require_told(self, told: object, contested: Mapping[Key, str], broken: Broken) -> None:
        assert isinstance(told, list)
        found = [(each["kind"], each["type_name"], each["entity_id"]) for each in told]
        if contested:
            self.done["contested"] += 1
            wanted = [(kind, name, each) for (name, each), kind in contested.items()]
            assert sorted(found) == sorted(wanted), self.trail
            return
        self.done["broken"] += bool(broken)
        assert all(
            any(kind == rule and each in ids for rule, ids in broken) for kind, _, each in found
        ), (found, broken, self.trail)
        assert all(
            any(kind == rule and each in ids for kind, _, each in found) for rule, ids in broken
        ), (found, broken, self.trail)

    def _people(self, ids: list[str]) -> pa.Table:
        choose = self.rng.choice
        return pa.table(
            {
                "name": pa.array(ids),
                "age": pa.array([choose((None, None, *range(6))) for _ in ids], pa.int32()),
                "nick": pa.array([choose((None, "")) for _ in ids], pa.string()),
                "face": pa.array([choose((None, b"", b"ab")) for _ in ids], BLOB),
            }
        )


def joined(
    base: State, ours: State, theirs: State, decided: Mapping[Key, str], strategy: str
) -> tuple[State, dict[Key, str]]:
    """Three states as one, and of the entities that nothing decides the kind of the conflict."""
    merged, contested = dict(ours), dict[tuple[str, str], str]()
    for key in base.keys() | theirs.keys():
        was, mine, new = base.get(key), ours.get(key), theirs.get(key)
        if new in (was, mine):
            continue
        take = "theirs" if mine == was else decided.get(key, strategy)
        if take == "fail":
            is_on_both = mine is not None and new is not None
            kind = "divergent_insert" if was is None else "divergent_update"
            contested[key] = kind if is_on_both else "delete_vs_update"
            continue
        image = {"ours": mine, "theirs": new, "base": was, "delete": None}[take]
        merged.pop(key, None)
        if image is not None:
            merged[key] = image
    return merged, contested


def broken_rules(before: State, after: State) -> Broken:
    """Every rule that a state breaks which comes after another one."""
    people = {key[1] for key in after if key[0] == "Person"}
    edges = {key[1]: ends_of(image) for key, image in after.items() if key[0] == "Knows"}
    found = {("orphan_edge", frozenset({each})) for each, ends in edges.items() if {*ends} - people}
    ages = {key[1]: image.properties["age"] for key, image in after.items() if key[0] == "Person"}
    shared = chain(holders(ages.items()), holders(edges.items()))
    found |= {("unique_violation", ids) for ids in shared}
    moved = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    starts = {
        ends_of(state[key])[0]
        for key in moved
        for state in (before, after)
        if key[0] == "Knows" and key in state
    }
    counted = Counter(start for start, _ in edges.values())
    wrong = {each for each in starts & people if not LEAST <= counted[each] <= MOST}
    return Broken(found | {("cardinality_violation", frozenset({each})) for each in wrong})


def ends_of(image: Image) -> tuple[str, str]:
    assert image.endpoints is not None
    return image.endpoints


def holders(values: Iterable[tuple[str, object]]) -> list[frozenset[str]]:
    """Those who share a value."""
    found: dict[object, set[str]] = defaultdict(set)
    for each, value in values:
        if value is not None:
            found[value].add(each)
    return [frozenset(ids) for ids in found.values() if len(ids) > 1]


def counts(before: State, after: State) -> dict[str, dict[str, int]]:
    """How many entities of each type came, changed and went."""
    found: dict[str, dict[str, int]] = {}
    for key in before.keys() | after.keys():
        if before.get(key) != after.get(key):
            table = f"{'edge' if key[0] == 'Knows' else 'node'}:{key[0]}"
            ops = found.setdefault(table, dict.fromkeys(("inserted", "updated", "deleted"), 0))
            ops["inserted" if key not in before else "updated" if key in after else "deleted"] += 1
    return found


def _play(folder: Path, seed: int, steps: int) -> RuledHistory:
    with Graph.init(folder / "g", schema=SCHEMA, settings=quick()) as graph:
        history = RuledHistory(graph=graph, rng=Random(seed))  # noqa: S311 - no secret
        history.remember("main")
        for _ in range(steps):
            history.step()
        history.require_heads()
        return history


def test_rules_decisions_and_reverts_agree_with_a_model(tmp_path: Path) -> None:
    history = _play(tmp_path, 20, 14)
    assert history.done.keys() == {"joined", "contested", "broken"}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(1_000, 1_100))
def test_rules_decisions_and_reverts_agree_with_a_model_over_long_histories(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_pairs, "_PORTION", 3)
    _play(tmp_path, seed, 40)
