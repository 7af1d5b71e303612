"""A merge that dies or stands still has happened or has not; the same merge again completes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.crash.checks import content_of, open_graph, read_only_content, require_settled
from tests.crash.child import SIDE
from tests.crash.cut_off import Work, cut_off, done_again
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
    work, after = prepared(arranged, is_forward=is_forward)
    with done_again(arranged.root, arranged.branch, trap, work) as graph:
        require_merged_once(graph, arranged.branch, after)


def prepared(arranged: Arranged, *, is_forward: bool) -> tuple[Work, Content]:
    """The merge of a branch that is made here, and what it leads to."""
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
    return work, after


def require_merged_once(graph: Graph, branch: str, after: Content) -> None:
    """One merge is in the history, with what it brought, and the next write works."""
    commit(graph, RIVAL, branch)
    assert content_of(graph, branch) == play_all(RIVAL, on=after)
    known = list(graph.commits.list(branch=branch))
    merges = [each for each in known if each.kind == "merge"]
    assert len(merges) == 1
    assert merges[0].merged_parent_commit_id in {each.graph_commit_id for each in known}


AMID = tuple(
    Trap(point=f"branch_merge.{name}", action="kill", hit=hit)
    for name, hit in (("post_phase_a", 1), ("post_table_commit", 3), ("between_links", 3))
)
"""Where a merge is taken back."""
BEHIND = Trap(point="branch_merge.post_phase_b_pre_manifest_commit", action="kill")
"""Where it is finished by whoever comes next."""
DONE = Trap(point="publish.ack_lost", action="kill")

RECOVERIES = {
    "recovery.post_list": (*AMID, BEHIND, DONE),
    "recovery.post_classify": (*AMID, BEHIND),
    "recovery.between_restores": AMID[1:],
    "recovery.post_restore_pre_publish": AMID,
    "recovery.pre_roll_forward_publish": (BEHIND,),
    "recovery.post_publish_pre_delete": (*AMID, BEHIND),
    "publish.post_read_pre_commit": (*AMID, BEHIND),
    "publish.ack_lost": (*AMID, BEHIND),
}
"""The points of a recovery, each with the crashes of a merge that lead there."""

SECOND = [
    pytest.param(
        place,
        first,
        Trap(point=point, action="kill"),
        id=f"{place}-{first.point}-then-{point}",
        marks=()
        if (place, point) == ("main", "recovery.pre_roll_forward_publish")
        else pytest.mark.extended
        if place == "main"
        else pytest.mark.slow,
    )
    for place in ("main", "named", "first")
    for point, firsts in RECOVERIES.items()
    for first in firsts
]


@pytest.mark.parametrize(("place", "first", "second"), SECOND)
def test_a_crash_in_the_recovery_of_a_merge_converges(
    place: Place,
    first: Trap,
    second: Trap,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    arranged = arrange(tmp_path_factory.getbasetemp(), tmp_path / "graph", place)
    work, after = prepared(arranged, is_forward=False)
    for trap, script in ((first, "merge"), (second, "none")):
        with cut_off(arranged.root, arranged.branch, script, trap):
            assert work.shown() in (work.before, work.after), "neither old nor new"
    expected = work.before if first in AMID else work.after
    with open_graph(arranged.root) as graph:
        assert work.shown() == expected
        work.again(graph)
        assert work.shown() == work.after
        require_merged_once(graph, arranged.branch, after)
        require_settled(graph, arranged.root)
