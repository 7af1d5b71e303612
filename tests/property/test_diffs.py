"""A diff of any two commits leads from the one to the other, and tells nothing else.

Seeded histories on up to four branches; every commit is compared with every other one, whatever
lines they lie on, and the changes with those that a look at every row finds.
"""

from __future__ import annotations

from itertools import product
from random import Random  # noqa: TID251 - seeded
from typing import TYPE_CHECKING

import pytest
from tests.property.entity_histories import SCHEMA, TYPES, History
from tests.unit.graph.graphs import quick

from omnigraph import Graph
from omnigraph.graph.changes import row_pairs
from omnigraph.storage import changes as storage_changes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.property.entity_histories import Key, State

    from omnigraph.graph.changes.entity_change import EntityChange


def _applied(state: State, changes: list[EntityChange]) -> State:
    """A state with changes made, each of which must fit it."""
    after = dict(state)
    for change in changes:
        key = (change.type_name, change.id)
        assert after.pop(key, None) == change.before, key
        if change.after is not None:
            after[key] = change.after
    return after


def _naive(old: State, new: State) -> dict[Key, str]:
    ops = {key: "insert" for key in new if key not in old}
    ops |= {key: "delete" for key in old if key not in new}
    return ops | {key: "update" for key in new if key in old and old[key] != new[key]}


def _require_exact(history: History, old: str, new: str) -> None:
    told = (old, new, history.trail)
    found = history.graph.diff(old, new)
    changes = list(found)
    before, after = history.seen[old], history.seen[new]
    assert {(each.type_name, each.id): each.op for each in changes} == _naive(before, after), told
    assert _applied(before, changes) == after, told
    places = [(TYPES.index(each.type_name), each.id) for each in changes]
    assert places == sorted(set(places)), told
    counted = sum(sum(ops.values()) for ops in found.stats.values())
    assert counted == len(changes), told


def _play(folder: Path, seed: int, steps: int) -> None:
    with Graph.init(folder / "g", schema=SCHEMA, settings=quick()) as graph:
        history = History(graph=graph, rng=Random(seed))  # noqa: S311 - no secret
        history.remember("main")
        for _ in range(steps):
            history.step()
        for old, new in product(history.seen, repeat=2):
            _require_exact(history, old, new)
        for commit in _told_commits(graph, history.branches):
            parent = graph.commits.get(commit).parent_commit_id
            if parent is not None:
                ends = (parent, commit)
                assert list(graph.commits.changes(commit)) == list(graph.diff(*ends)), ends


def _told_commits(graph: Graph, branches: list[str]) -> Iterator[str]:
    for branch in branches:
        yield from (each.graph_commit_id for each in graph.commits.list(branch=branch))


@pytest.mark.parametrize("seed", [2, 6])
def test_a_diff_leads_from_any_commit_to_any_other(tmp_path: Path, seed: int) -> None:
    _play(tmp_path, seed, 7)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(1_000, 1_020))
def test_diffs_are_exact_over_long_histories(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_pairs, "_PORTION", 3)
    monkeypatch.setattr(storage_changes, "_TAKEN_ROWS", 2)
    _play(tmp_path, seed, 20)
