"""A merge that dies or stands still has happened or has not; the same merge again completes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.crash.checks import content_of, open_graph, read_only_content
from tests.crash.child import SIDE
from tests.crash.cut_off import Work, done_again
from tests.crash.model import knows, note, person
from tests.crash.places import arrange
from tests.crash.processes import Trap, run_unstarved
from tests.crash.scripts import RIVAL, Script, Step
from tests.crash.writes import commit, play, play_all

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crash.model import Content
    from tests.crash.places import Arranged, Place

    from omnigraph import Graph

pytestmark = pytest.mark.crash

ON_SIDE = Script(
    steps=(
        Step("delete", "Knows", ids=("k0",)),
        Step("upsert", "Knows", (knows("k1", "p1", "p2", 77), knows("ks", "p2", "p4", 8))),
        Step("upsert", "Person", (person("p2", 22), person("side", 23))),
        Step("upsert", "Note", (note("n1", 9, b"changed"),)),
    )
)
"""Removes, changes and adds rows, and changes a blob."""

ON_TARGET = Script(steps=(Step("upsert", "Person", (person("p4", 44), person("own", 45))),))
"""Touches nothing that the side has touched."""

POINTS = (
    ("branch_merge.post_capture", 1),
    ("branch_merge.post_classify", 1),
    ("branch_merge.post_stage_pre_lease", 1),
    ("branch_merge.post_lease_pre_sidecar", 1),
    ("branch_merge.post_phase_a", 1),
    ("branch_merge.pre_table_commit", 1),
    ("branch_merge.post_table_commit", 1),
    ("branch_merge.pre_table_commit", 3),
    ("branch_merge.post_table_commit", 3),
    ("branch_merge.between_links", 1),
    ("branch_merge.between_links", 3),
    ("branch_merge.post_phase_b_pre_manifest_commit", 1),
    ("publish.post_read_pre_commit", 1),
    ("publish.ack_lost", 1),
    ("branch_merge.post_phase_c_pre_phase_d", 1),
    ("branch_merge.post_phase_d_pre_release", 1),
)
DAILY = {"branch_merge.post_classify", "branch_merge.between_links", "publish.ack_lost"}
"""Before, amid and behind the effects of a merge: the points of the default suite."""


def cells(*places: Place) -> list[object]:
    return [
        pytest.param(
            place,
            is_forward,
            Trap(point=point, action=action, hit=hit),
            id=f"{place}-{'forward' if is_forward else 'merged'}-{point}-{hit}-{action}",
            marks=()
            if (point in DAILY and hit == 1 and not is_forward and action == "kill")
            else pytest.mark.extended
            if place == "main"
            else pytest.mark.slow,
        )
        for place in places
        for is_forward in (False, True)
        for point, hit in POINTS
        for action in ("kill", "stop")
    ]


@pytest.mark.parametrize(("place", "is_forward", "trap"), cells("main", "named", "first"))
def test_a_merge_that_is_cut_off_is_all_or_nothing(
    place: Place,
    is_forward: bool,  # noqa: FBT001 - a parameter of the product
    trap: Trap,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    shared = tmp_path_factory.getbasetemp()
    run_unstarved(
        lambda number: merge(
            arrange(shared, tmp_path / f"graph-{number}", place), trap, is_forward=is_forward
        )
    )


def merge(arranged: Arranged, trap: Trap, *, is_forward: bool) -> None:
    before: Content = arranged.content
    with open_graph(arranged.root) as graph:
        graph.branches.create(SIDE, from_=arranged.branch)
        commit(graph, ON_SIDE, SIDE)
        if not is_forward:
            commit(graph, ON_TARGET, arranged.branch)
            before = play(before, ON_TARGET)
    after = play(before, ON_SIDE)

    def again(graph: Graph) -> None:
        graph.branches.merge(SIDE, into=arranged.branch)
        assert graph.branches.merge(SIDE, into=arranged.branch).commit is None

    work = Work(
        script="merge",
        shown=lambda: read_only_content(arranged.root, arranged.branch),
        before=before,
        after=after,
        again=again,
    )
    with done_again(arranged.root, arranged.branch, trap, work) as graph:
        commit(graph, RIVAL, arranged.branch)
        assert content_of(graph, arranged.branch) == play_all(RIVAL, on=after)
        merges = [
            each for each in graph.commits.list(branch=arranged.branch) if each.kind == "merge"
        ]
        assert len(merges) == 1
