"""A write that folds the tails of its tables and dies or stands still is all or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.crash.checks import content_of, open_graph, read_only_content
from tests.crash.child import FOLDED
from tests.crash.cut_off import Work, done_again
from tests.crash.model import knows, person
from tests.crash.places import PLACES, arrange
from tests.crash.processes import Trap, run_unstarved
from tests.crash.scripts import NEXT, Script, Step
from tests.crash.writes import commit, play

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crash.places import Arranged, Place

pytestmark = pytest.mark.crash

TAIL = tuple(
    Script(
        steps=(
            Step("upsert", "Person", (person(f"t{number}", number),)),
            Step("upsert", "Knows", (knows(f"kt{number}", f"t{number}", "p2", number),)),
        )
    )
    for number in range(2)
)
"""Two fragments more for each of two tables."""

POINTS = (
    ("mutation.post_phase_a", 1),
    ("mutation.pre_table_commit", 2),
    ("mutation.between_links", 1),
    ("mutation.post_table_commit", 2),
    ("mutation.pre_table_commit", 3),
    ("mutation.between_links", 2),
    ("mutation.post_table_commit", 4),
    ("mutation.post_phase_b_pre_manifest_commit", 1),
    ("publish.ack_lost", 1),
    ("mutation.post_phase_c_pre_phase_d", 1),
)
DAILY = {("main", "mutation.between_links", 2), ("first", "mutation.post_table_commit", 2)}
"""Between the links of one table and behind those of another: the points of the default suite."""


def cells() -> list[object]:
    return [
        pytest.param(
            place,
            Trap(point=point, action=action, hit=hit),
            id=f"{place}-{point}-{hit}-{action}",
            marks=()
            if (place, point, hit) in DAILY and action == "kill"
            else pytest.mark.extended
            if place == "named" and action == "kill"
            else pytest.mark.slow,
        )
        for place in PLACES
        for point, hit in POINTS
        for action in ("kill", "stop")
    ]


@pytest.mark.parametrize(("place", "trap"), cells())
def test_a_write_that_folds_and_is_cut_off_is_all_or_nothing(
    place: Place, trap: Trap, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shared = tmp_path_factory.getbasetemp()
    run_unstarved(lambda number: fold(arrange(shared, tmp_path / f"graph-{number}", place), trap))


def fold(arranged: Arranged, trap: Trap) -> None:
    before = arranged.content
    with open_graph(arranged.root) as graph:
        for script in TAIL:
            commit(graph, script, arranged.branch)
            before = play(before, script)
    after = play(before, FOLDED)
    work = Work(
        script="fold",
        shown=lambda: read_only_content(arranged.root, arranged.branch),
        before=before,
        after=after,
        again=lambda graph: commit(graph, FOLDED, arranged.branch),
    )
    with done_again(arranged.root, arranged.branch, trap, work) as graph:
        commit(graph, NEXT, arranged.branch)
        assert content_of(graph, arranged.branch) == play(after, NEXT)
