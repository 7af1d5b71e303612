"""Merges, reverts and writes of processes side by side: one order of commits explains them all."""

from __future__ import annotations

import os
from random import Random  # noqa: TID251 - seeded, and the seed is printed
from typing import TYPE_CHECKING

import pytest
from tests.extended import thinned
from tests.race.crew import LONG_LEASE, Crew
from tests.race.mergers import REFUSALS, SCHEMA, TYPES, Act, History, State, Task, Verb, do_acts

from omnigraph import Graph

if TYPE_CHECKING:
    from pathlib import Path

    from tests.race.crew import Worker

SEEDED = {
    "s0": (Act(Verb.PUT, "main", tuple("abcdef")), 1),
    "s1": (Act(Verb.PUT, "side", ("a", "s")), 2),
}


def put(branch: str, *keys: str) -> Act:
    return Act(Verb.PUT, branch, keys)


def merge(source: str, branch: str, strategy: str = "fail") -> Act:
    return Act(Verb.MERGE, branch, source=source, strategy=strategy)


TO_MAIN = merge("side", "main")
REVERT = Act(Verb.REVERT, "main")

SCENES: dict[str, tuple[tuple[Act, ...], ...]] = {
    "the source is written": ((TO_MAIN,) * 4, (put("side", "b"), put("side", "n")) * 2),
    "the target is written": (
        (TO_MAIN, put("side", "c"), TO_MAIN, TO_MAIN),
        (put("main", "d"), put("main", "c"), put("main", "m")),
    ),
    "both merge the same": (
        (TO_MAIN, put("side", "x"), TO_MAIN, TO_MAIN),
        (TO_MAIN, put("side", "y"), TO_MAIN, TO_MAIN),
    ),
    "both ways": (
        (TO_MAIN, put("side", "b"), TO_MAIN),
        (merge("main", "side"), put("main", "c"), merge("main", "side", "ours")),
    ),
    "the source is deleted": (
        (TO_MAIN, put("side", "e"), TO_MAIN, TO_MAIN),
        (Act(Verb.DELETE, "side"), Act(Verb.CREATE, "side"), put("side", "f")),
    ),
    "a commit is undone": (
        (REVERT, REVERT, REVERT),
        (put("main", "a"), Act(Verb.REMOVE, "main", ("b",)), put("main", "z", "b")),
    ),
}


@pytest.mark.parametrize("scene", thinned(SCENES, keep=2))
def test_of_two_processes_one_wins_and_the_other_is_told(tmp_path: Path, scene: str) -> None:
    _race(tmp_path, SCENES[scene], seed())


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(60))
def test_many_processes_merge_write_revert_and_delete(tmp_path: Path, number: int) -> None:
    chance = Random(number)  # noqa: S311 - repeats
    acts = [tuple(_random_act(chance) for _ in range(8)) for _ in range(3)]
    _race(tmp_path, acts, number)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(20))
@pytest.mark.parametrize("scene", SCENES)
def test_two_processes_again_and_again(tmp_path: Path, scene: str, number: int) -> None:
    _race(tmp_path, SCENES[scene], number)


def seed() -> int:
    return int(os.environ.get("RACE_SEED") or int.from_bytes(os.urandom(4), "big"))


def _random_act(chance: Random) -> Act:
    branch, other = chance.sample(["main", "side", "own"], 2)
    keys = tuple(chance.sample("abcdefgh", 2))
    how = chance.choice(["fail", "ours", "theirs"])
    acts = [put(branch, *keys)] * 4 + [merge(other, branch, how)] * 5
    acts += [Act(Verb.REMOVE, branch, keys), Act(Verb.REVERT, branch)]
    acts += [Act(Verb.CREATE, "own"), Act(Verb.DELETE, "own"), Act(Verb.DELETE, "side")]
    return chance.choice(acts)


def _race(folder: Path, acts: object, number: int) -> None:
    """Run processes side by side, and hold what they left against what they were told."""
    print(f"seed {number}")  # noqa: T201 - shown on failure
    root, gate = str(folder / "graph"), folder / "gate"
    with Graph.init(root, schema=SCHEMA) as graph:
        for actor, (act, value) in SEEDED.items():
            if act.branch != "main":
                graph.branches.create(act.branch)
            act.do(graph.as_actor(actor), value)
    assert isinstance(acts, list | tuple)
    tasks = [Task(root, writer, each, str(gate), number) for writer, each in enumerate(acts)]
    with Crew(folder) as crew:
        workers = [
            crew.start(
                f"w{task.writer}", do_acts, task, **LONG_LEASE, OMNIGRAPH_DURABILITY="process"
            )
            for task in tasks
        ]
        for each in workers:
            crew.await_words(each, "ready")
        gate.touch()
        codes = [each.wait(120) for each in workers]
        assert codes == [0] * len(workers), [each.words("crash") for each in workers]
    named = SEEDED | {actor: act for task in tasks for actor, act in task.named().items()}
    with Graph.open(root) as graph:
        history = _require_explained(graph, History(named))
        _require_told(history, workers)
        _require_usable(graph)


def _require_explained(graph: Graph, history: History) -> History:
    lines = list(graph._graph.lines.live_lines())
    for line in lines:
        history.learn(line.commits())
    for line in lines:
        branch = graph._graph.lines.branch_name(line.branch_id)
        assert _shown(graph, branch) == history.state(line.head.commit_id), branch
        own = [row for row in line.commits() if row.copied_from is None]
        merged = [row.merged_parent for row in own if row.merged_parent is not None]
        assert len(set(merged)) == len(merged), "one commit was merged twice"
    return history


def _shown(graph: Graph, branch: str) -> State:
    snapshot = graph.snapshot(branch=branch)
    return {
        (name, row["id"]): row["value"]
        for name in TYPES
        for row in snapshot.scan(name).read_all().to_pylist()
    }


def _require_told(history: History, workers: list[Worker]) -> None:
    """What was acknowledged is there once, what was refused is not."""
    for worker in workers:
        for _, actor, commit in worker.words("ack"):
            made = history.made_by(actor)
            # What a deleted branch had and nobody merged is gone.
            assert made in ([], [commit]), (actor, commit)
            if history.acts[actor][0].branch == "main" and commit != "-":
                assert made == [commit], (actor, commit)
        for _, actor, code, *message in worker.words("refused"):
            act, _ = history.acts[actor]
            assert code in REFUSALS[act.verb], (act, code, " ".join(message))
            assert history.made_by(actor) == [], (actor, code)


def _require_usable(graph: Graph) -> None:
    assert graph._graph.sidecars.list() == []
    for branch in graph._graph.lines.live_branch_ids().values():
        put(branch, "after").do(graph, 7)
        assert _shown(graph, branch)["Note", "after"] == 7
    if "side" in graph._graph.lines.live_branch_ids().values():
        graph.branches.merge("side", strategy="theirs")
        assert graph.branches.merge("side").commit is None
