"""A branch or tag whose creation or deletion dies is there, or is not; its name is not lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.crash.checks import content_of, open_graph, read_only_content, require_settled
from tests.crash.cut_off import cut_off
from tests.crash.places import BRANCH, arrange
from tests.crash.processes import Trap, run_child
from tests.crash.scripts import RIVAL, SCRIPTS, TOUCH
from tests.crash.writes import commit, play, play_all
from tests.extended import thinned

from omnigraph.errors import BranchNotFound

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("action", ["kill", "stop"])
def test_a_creation_that_dies_before_its_row_leaves_no_branch(
    action: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    arranged = arrange(tmp_path_factory.getbasetemp(), tmp_path / "graph", "main")
    trap = Trap(point="branch_create.post_native", action=action)
    with cut_off(arranged.root, BRANCH, "branch", trap) as running:
        with pytest.raises(BranchNotFound):
            read_only_content(arranged.root, BRANCH)
        with open_graph(arranged.root) as graph:
            graph.branches.create(BRANCH)
            commit(graph, TOUCH, BRANCH)
            if action == "stop":
                assert running.proceed().result["error"] == "BranchExists"
            assert content_of(graph, BRANCH) == play(arranged.content, TOUCH)
            commit(graph, RIVAL, BRANCH)
            assert content_of(graph, BRANCH) == play_all(TOUCH, RIVAL, on=arranged.content)
            require_settled(graph, arranged.root)


# One that stands still is waited for until its long lease has run out.
@pytest.mark.parametrize("action", thinned(["kill", "stop"]))
def test_a_deletion_that_dies_after_its_row_has_deleted(
    action: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    arranged = arrange(tmp_path_factory.getbasetemp(), tmp_path / "graph", "named")
    trap = Trap(point="branch_delete.post_publish_pre_reclaim", action=action)
    # A deletion looks at its leases before it comes to the trap; they outlast a busy machine.
    lease = {"OMNIGRAPH_LEASE_TTL_MS": "3000"}
    with cut_off(arranged.root, BRANCH, "unbranch", trap, lease) as running:
        with pytest.raises(BranchNotFound):
            read_only_content(arranged.root, BRANCH)
        main = read_only_content(arranged.root, "main")
        with open_graph(arranged.root) as graph:
            graph.branches.create(BRANCH)
            commit(graph, TOUCH, BRANCH)
            if action == "stop":
                assert "error" not in running.proceed().result
            assert content_of(graph, BRANCH) == play(main, TOUCH)
            require_settled(graph, arranged.root)


@pytest.mark.parametrize("script", ["tag", "untag"])
@pytest.mark.parametrize(("point", "is_done"), [("contention", False), ("ack_lost", True)])
def test_a_tag_whose_creation_or_deletion_dies_is_there_or_not(
    script: str,
    point: str,
    is_done: bool,  # noqa: FBT001 - a parameter of pytest
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    arranged = arrange(tmp_path_factory.getbasetemp(), tmp_path / "graph", "main")
    if script == "untag":
        with open_graph(arranged.root) as graph:
            graph.tags.create(BRANCH)
    trap = Trap(point=f"publish.{point}", action="kill")
    assert run_child(arranged.root, BRANCH, script, trap).was_killed
    with open_graph(arranged.root) as graph:
        assert [tag.name for tag in graph.tags.list()] == [BRANCH] * (is_done == (script == "tag"))
        commit(graph, TOUCH, "main")
        if graph.tags.list():
            assert graph.snapshot(BRANCH).graph_commit_id != graph.snapshot().graph_commit_id
            graph.tags.delete(BRANCH)
        graph.branches.create(BRANCH)
        require_settled(graph, arranged.root)


def test_the_sidecar_of_a_deleted_branch_is_discarded_at_the_next_open(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    arranged = arrange(tmp_path_factory.getbasetemp(), tmp_path / "graph", "named")
    trap = Trap(point="mutation.post_table_commit", action="kill")
    bystander = open_graph(arranged.root)
    assert run_child(arranged.root, BRANCH, "upsert", trap).was_killed
    # An open settles sidecars, so the deletion comes from a handle that was open before.
    bystander.branches.delete(BRANCH)
    bystander.close()
    with open_graph(arranged.root) as graph:
        commit(graph, SCRIPTS["upsert"])
        require_settled(graph, arranged.root)
        kinds = [each.recovery_kind for each in graph.maintenance.recoveries()]
        assert kinds == ["discarded"]
