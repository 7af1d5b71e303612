"""Two writers, stepped through every pair of points: one history, and nobody is lied to."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from tests.crash.actors import Played, actors, parking
from tests.crash.checks import (
    open_graph,
    require_convergence,
    require_honest,
    require_replayed,
)
from tests.crash.loads import LOADS
from tests.crash.model import knows, person
from tests.crash.mutations import MUTATIONS
from tests.crash.places import PLACES, Arranged, Place, arrange
from tests.crash.points import seed
from tests.crash.scripts import RIVAL, SCRIPTS, Script, Step
from tests.crash.tiers import covering

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crash.writes import Write

pytestmark = pytest.mark.crash

POINTS = (
    "mutation.post_capture",
    "mutation.post_stage_pre_lease",
    "mutation.post_lease_pre_sidecar",
    "mutation.post_phase_a",
    "mutation.pre_table_commit",
    "mutation.post_table_commit",
    "mutation.between_links",
    "mutation.post_phase_b_pre_manifest_commit",
    "mutation.post_phase_c_pre_phase_d",
    "mutation.post_phase_d_pre_release",
    "publish.post_read_pre_commit",
    "publish.contention",
    "publish.ack_lost",
    "lease.post_create",
    "lease.release",
    "fork.post_create_pre_open",
    "recovery.post_list",
    "recovery.post_classify",
    "recovery.between_restores",
    "recovery.post_restore_pre_publish",
    "recovery.pre_roll_forward_publish",
    "recovery.post_publish_pre_delete",
)

SAME_ROWS = Script(
    steps=(
        Step("upsert", "Person", (person("p0", 500), person("p2", 502))),
        Step("upsert", "Knows", (knows("k0", "p0", "p1", 5000),)),
    )
)
LEFT = Script(
    steps=(
        Step("upsert", "Person", (person("p4", 444),)),
        Step("upsert", "Knows", (knows("k2", "p2", "p3", 444),)),
    )
)
"""What a third writer began before the two."""

DUELS: tuple[tuple[Write, Write], ...] = (
    (SCRIPTS["upsert"], RIVAL),
    (SCRIPTS["replace"], SCRIPTS["upsert"]),
    (SCRIPTS["insert"], SCRIPTS["insert"]),
    (SCRIPTS["upsert"], SAME_ROWS),
    (SCRIPTS["overwrite"], RIVAL),
    (SCRIPTS["replace"], SCRIPTS["replace"]),
    (SCRIPTS["delete"], SCRIPTS["overwrite"]),
    (MUTATIONS["gq_insert"], MUTATIONS["gq_delete"]),
    (MUTATIONS["gq_update"], MUTATIONS["gq_update"]),
    (MUTATIONS["gq_delete"], LOADS["load_merge"]),
    (LOADS["load_overwrite"], MUTATIONS["gq_insert"]),
)

BACK = "mutation.post_table_commit"
FORWARD = "mutation.post_phase_b_pre_manifest_commit"


def duel(folder: Path, shared: Path, pair: tuple[str, str], turn: int) -> None:
    """Park one writer, let the other run to its point, let the first end, then the second."""
    first, second = _scripts(pair, turn)
    place: Place = "first" if any(point.startswith("fork.") for point in pair) else _place(turn)
    arranged = arrange(shared, folder / f"graph-{turn}", place)
    leftover = _leftover(pair, turn)
    # Both are open before the third dies: what it leaves is found by a write, not by an open.
    with actors(arranged.root, "a", "b", "left") as (a, b, left):
        if leftover is not None:
            left.crash_at(leftover, LEFT, arranged.branch)
        one = Played(a, first, arranged.branch, pair[0])
        two = Played(b, second, arranged.branch, pair[1])
        with parking(one, two):
            one.start()
            two.start()
            one.resume(late=bool(turn % 2))
            two.resume(late=bool(turn // 2 % 2))
            one.join()
            two.join()
        judge(arranged, one, two)


def _scripts(pair: tuple[str, str], turn: int) -> tuple[Write, Write]:
    if "mutation.between_links" in pair:
        return SCRIPTS["replace"], SCRIPTS["replace"]
    return DUELS[turn % len(DUELS)]


def _place(turn: int) -> Place:
    return PLACES[turn % len(PLACES)]


def _leftover(pair: tuple[str, str], turn: int) -> str | None:
    """Where the third writer died: what the points need, else now here, now there, now nowhere."""
    if "recovery.pre_roll_forward_publish" in pair:
        return FORWARD
    if {"recovery.between_restores", "recovery.post_restore_pre_publish"} & set(pair):
        return BACK
    if any(point.startswith("recovery.") for point in pair):
        return (BACK, FORWARD)[turn % 2]
    if "fork.post_create_pre_open" in pair:
        return None  # The third would make the lines that these two shall make.
    return (None, BACK, FORWARD)[turn % 3]


def judge(arranged: Arranged, *played: Played) -> None:
    """Nobody was lied to, history explains what is there, and the graph is usable."""
    branch = arranged.branch
    writes = {each.actor.name: each.script for each in played}
    with open_graph(arranged.root) as graph:
        for each in played:
            require_honest(graph, branch, each.actor.name, each.commit_id, each.refusal)
        now = require_replayed(graph, arranged, {"left": LEFT} | writes)
        require_convergence(graph, arranged.root, branch, RIVAL, [now], is_strict=False)


PAIRS = list(product(POINTS, POINTS))


def _chosen() -> list[tuple[int, tuple[str, str]]]:
    """Every point for each of the two, with a partner that changes from day to day."""
    turns = range(2 * len(POINTS))
    return [
        (
            seed() + turn,
            (POINTS[turn % len(POINTS)], POINTS[(turn * 5 + seed()) % len(POINTS)]),
        )
        for turn in turns
    ]


@pytest.mark.parametrize(
    ("turn", "pair"), covering(_chosen(), lambda case: set[object](case[1]), unpack=True)
)
def test_two_writers_at_some_pair_of_points(
    turn: int, pair: tuple[str, str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    duel(tmp_path, tmp_path_factory.getbasetemp(), pair, turn)


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(6))
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_two_writers_at_every_pair_of_points(
    turn: int, pair: tuple[str, str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    duel(tmp_path, tmp_path_factory.getbasetemp(), pair, turn * 7 + PAIRS.index(pair))
