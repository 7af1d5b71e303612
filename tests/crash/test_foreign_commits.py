"""What something else wrote to a table is never overwritten: writes stop, reads go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest
from tests.crash.actors import Actor
from tests.crash.checks import content_of, history, open_graph, read_only_content, settings
from tests.crash.places import PLACES, Arranged, arrange
from tests.crash.scripts import NEXT, RIVAL, SCRIPTS
from tests.crash.tiers import at_places
from tests.crash.writes import commit, play

from omnigraph import Graph
from omnigraph.errors import DriftNeedsRepair, RecoveryBlocked
from omnigraph.storage.handles import lance_branch

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.crash


@pytest.fixture(params=PLACES)
def arranged(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Arranged:
    return arrange(tmp_path_factory.getbasetemp(), tmp_path / "graph", request.param)


def people(arranged: Arranged) -> tuple[Path, str | None]:
    """The folder of the table, and the line of it that the branch writes to, if it is there."""
    # An open for writing would settle what the test has left.
    with Graph.open(arranged.root, mode="read_only", settings=settings()) as graph:
        coordinator = graph._graph
        branch_id = coordinator.branch_id(arranged.branch)
        pins = coordinator.lines.read(branch_id).pins.values()
        location = next(each.location for each in pins if each.table_key == "node:Person")
    folder = arranged.root / location
    line = lance_branch(branch_id)
    return folder, line if line in lance.dataset(str(folder)).branches.list() else None


def write_from_outside(arranged: Arranged) -> None:
    """A commit that bypasses the graph."""
    folder, line = people(arranged)
    table = lance.dataset(str(folder))
    if line is not None:
        table = table.checkout_version((line, None))
    table.delete("id = 'p0'")


def versions(root: Path) -> list[str]:
    """Every version of every table and of the manifest, and every sidecar."""
    return sorted(
        str(path.relative_to(root))
        for pattern in ("**/_versions/*", "__recovery/**/*.json")
        for path in root.glob(pattern)
    )


def test_a_foreign_commit_stops_writes_to_the_table_and_nothing_else(arranged: Arranged) -> None:
    # A first write that dies before it is armed: it leaves the line of the table, and no sidecar.
    dead = Actor(arranged.root, "dead")
    dead.crash_at("mutation.post_stage_pre_lease", RIVAL, arranged.branch)
    dead.graph.close()
    write_from_outside(arranged)
    before = versions(arranged.root)
    with open_graph(arranged.root) as graph:
        for _ in range(2):
            with pytest.raises(DriftNeedsRepair) as refused:
                commit(graph, RIVAL, arranged.branch)
            assert refused.value.details["table"] == "node:Person"
        assert versions(arranged.root) == before
        assert content_of(graph, arranged.branch) == arranged.content
        commit(graph, NEXT, arranged.branch)
        assert content_of(graph, arranged.branch) == play(arranged.content, NEXT)
        history(graph, arranged.branch)


@at_places(
    "mutation.post_phase_a",
    "mutation.post_table_commit",
    "mutation.post_phase_b_pre_manifest_commit",
)
def test_a_foreign_commit_on_an_interrupted_write_blocks_its_recovery(
    arranged: Arranged, case: str
) -> None:
    dead = Actor(arranged.root, "dead")
    dead.crash_at(case, SCRIPTS["upsert"], arranged.branch)
    dead.graph.close()
    write_from_outside(arranged)
    before = versions(arranged.root)
    with open_graph(arranged.root) as graph:
        for script in (RIVAL, NEXT):
            with pytest.raises(RecoveryBlocked) as refused:
                commit(graph, script, arranged.branch)
            assert refused.value.details["table"] == "node:Person"
        graph.refresh()
        assert content_of(graph, arranged.branch) == arranged.content
    assert versions(arranged.root) == before
    assert any(each.startswith("__recovery/") for each in before)
    assert read_only_content(arranged.root, arranged.branch) == arranged.content


def test_other_branches_are_written_while_one_is_blocked(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    arranged = arrange(tmp_path_factory.getbasetemp(), tmp_path / "graph", "named")
    dead = Actor(arranged.root, "dead")
    dead.crash_at("mutation.post_table_commit", SCRIPTS["upsert"], arranged.branch)
    dead.graph.close()
    write_from_outside(arranged)
    with open_graph(arranged.root) as graph:
        with pytest.raises(RecoveryBlocked):
            commit(graph, NEXT, arranged.branch)
        assert commit(graph, RIVAL, "main") is not None


def test_a_version_that_was_lost_blocks_recovery_and_changes_nothing(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    arranged = arrange(tmp_path_factory.getbasetemp(), tmp_path / "graph", "main")
    dead = Actor(arranged.root, "dead")
    dead.crash_at("mutation.post_phase_a", SCRIPTS["upsert"], arranged.branch)
    dead.graph.close()
    folder, _ = people(arranged)
    newest = min((folder / "_versions").glob("*.manifest"))
    newest.unlink()
    before = versions(arranged.root)
    with open_graph(arranged.root) as graph, pytest.raises(RecoveryBlocked):
        commit(graph, NEXT)
    assert versions(arranged.root) == before
