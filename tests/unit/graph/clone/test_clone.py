"""A clone is a graph of its own that shows what its source shows, on every branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.graph.clone.branched import ADD, BRANCHES, DROP, EDIT, OLDER, content, made
from tests.unit.graph.graphs import listing, quick, require_settled

from omnigraph import Graph
from omnigraph.errors import (
    BranchNotFound,
    CommitNotFound,
    GraphExists,
    GraphNotFound,
    InitInProgress,
    InvalidArgument,
    OmnigraphError,
    RootNotEmpty,
)
from omnigraph.failpoints import Action, FailpointHit, armed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from omnigraph.graph.jobs.stage_progress import StageProgress


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source, which no test writes to."""
    return made(tmp_path_factory.mktemp("source") / "g")


@pytest.fixture(scope="module")
def source(root: Path) -> Iterator[Graph]:
    """The source, open."""
    with Graph.open(root, mode="read_only", settings=quick()) as graph:
        yield graph


@pytest.fixture
def cloned(root: Path, tmp_path: Path) -> Callable[..., Graph]:
    """Clones the source."""

    def clone(name: str = "clone", **asked: Any) -> Graph:  # noqa: ANN401 - nonsense too
        return Graph.clone(root, tmp_path / name, settings=quick(), **asked)

    return clone


def test_a_clone_shows_the_same_on_every_branch_and_goes_its_own_way(
    cloned: Callable[..., Graph], tmp_path: Path, root: Path, source: Graph
) -> None:
    before = listing(root)
    told: list[StageProgress] = []
    with cloned(actor="act-me", progress=told.append) as clone:
        assert [each.name for each in clone.branches.list()] == list(BRANCHES)
        for branch in BRANCHES:
            assert content(clone, branch) == content(source, branch), branch
            newest = clone.commits.list(branch=branch).commits[0]
            assert newest.actor_id == "act-me"
            assert newest.stats is not None
            assert newest.stats["clone"] == {
                "graph_id": source._graph.graph_id,
                "branch": branch,
                "graph_commit_id": source.snapshot(branch=branch).graph_commit_id,
            }
        assert clone._graph.graph_id != source._graph.graph_id
        assert ids_of(clone) == ids_of(source)
        assert told[-1].stage == "check"
        assert told[-2].rows == told[-2].total_rows
        require_settled(clone, *BRANCHES)
        with pytest.raises(OmnigraphError, match="email"):
            clone.mutate(ADD.replace("dee", "eve"), branch="draft")
        clone.mutate(ADD)
        clone.mutate(OLDER, branch="draft")
    assert listing(root) == before
    assert not (tmp_path / "clone/__init_claim.json").exists()


def ids_of(graph: Graph) -> str:
    """The ids of types and properties."""
    return graph._graph.schemas.load(graph.snapshot().schema_hash).ids_json()


@pytest.mark.extended
def test_rows_of_a_clone_are_indexed(cloned: Callable[..., Graph]) -> None:
    with cloned() as clone:
        for branch in BRANCHES:
            report = clone.maintenance.ensure_indices(branch=branch)
            assert report.commit is None, branch
            assert all(each.is_complete for table in report.tables for each in table.coverage)


@pytest.mark.extended
def test_merging_means_the_same_in_a_clone(cloned: Callable[..., Graph], tmp_path: Path) -> None:
    original = Graph.open(made(tmp_path / "original"), settings=quick())
    with cloned() as clone, original:
        for graph in (clone, original):
            graph.branches.merge("draft/two", into="draft")
            graph.branches.merge("draft")
        # What only `main` changed since the fork stays, what the branches changed comes.
        states = [set(content(graph).splitlines()) for graph in (clone, original)]
        assert nodes(states[0]) == nodes(states[1])
        assert any(b'"age":9' in line for line in states[0])


@pytest.mark.extended
def test_merges_before_a_clone_count_in_it(tmp_path: Path) -> None:
    root = made(tmp_path / "source")
    settings = quick()
    with Graph.open(root, settings=settings) as graph:
        graph.branches.merge("draft")
        graph.mutate(DROP.replace("bob", "dee"))  # It came by the merge, and must not come again.
        graph.branches.create("late", from_="main")
        graph.mutate(EDIT.replace("blue", "grey"), branch="late")
        graph.mutate(OLDER.replace("9", "10"))
        graph.branches.merge("main", into="late")
        graph.mutate(OLDER.replace("9", "11"))
    with Graph.clone(root, tmp_path / "clone", settings=settings) as clone:
        with Graph.open(root, settings=settings) as graph:
            for each in (clone, graph):
                each.branches.merge("draft")
                each.branches.merge("late")
                each.branches.merge("draft/two")
            assert nodes(set(content(clone).splitlines())) == nodes(
                set(content(graph).splitlines())
            )
        assert b"dee" not in content(clone)
        assert b'"age":11' in content(clone)


def nodes(lines: set[bytes]) -> set[bytes]:
    """The lines of nodes; edges have ids that were made up."""
    return {line for line in lines if b'"edge"' not in line}


def test_one_state_becomes_main_alone(cloned: Callable[..., Graph], source: Graph) -> None:
    first = source.commits.list().commits[1].graph_commit_id
    with cloned(at=first) as clone:
        assert content(clone) == content(source, snapshot=first) != content(source)
        assert [each.name for each in clone.branches.list()] == ["main"]
    with cloned("again", at=0) as empty:
        assert content(empty) == b""
        (genesis,) = empty.commits.list().commits
        assert genesis.stats is not None
        assert genesis.stats["clone"]["graph_id"] == source._graph.graph_id


@pytest.mark.extended
def test_a_branch_without_its_parent_forks_from_the_nearest_that_is_cloned(
    cloned: Callable[..., Graph], source: Graph
) -> None:
    with cloned(branches=["draft/two"]) as clone:
        assert [each.name for each in clone.branches.list()] == ["main", "draft/two"]
        assert clone.branches.get("draft/two").parent == "main"
        for branch in ("main", "draft/two"):
            assert content(clone, branch) == content(source, branch)
        clone.branches.merge("draft/two")
        assert b'"age":9' in content(clone)
        assert b"bob" not in content(clone)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"branches": ["none"]}, BranchNotFound),
        ({"branches": "draft"}, InvalidArgument),
        ({"at": 99}, CommitNotFound),
        ({"at": 1, "branches": ["draft"]}, InvalidArgument),
        ({"actor": "omnigraph:me"}, InvalidArgument),
    ],
)
def test_what_the_source_does_not_have_leaves_nothing(
    cloned: Callable[..., Graph],
    tmp_path: Path,
    asked: dict[str, object],
    error: type[OmnigraphError],
) -> None:
    with pytest.raises(error):
        cloned(**asked)
    assert not (tmp_path / "clone").exists()


def test_what_is_at_the_target_stays(
    cloned: Callable[..., Graph], root: Path, tmp_path: Path
) -> None:
    before = listing(root)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    for target, error in (
        (root, InvalidArgument),
        (root / "within", InvalidArgument),
        (root.parent, InvalidArgument),
        (tmp_path / "full", RootNotEmpty),
    ):
        with pytest.raises(error):
            Graph.clone(root, target, force=True, settings=quick())
    with pytest.raises(GraphNotFound):
        Graph.clone(tmp_path / "nothing", tmp_path / "clone", settings=quick())
    cloned(at=0).close()
    for force in (False, True):
        with pytest.raises(GraphExists):
            cloned(force=force)
    assert listing(root) == before
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["file"]


def test_a_clone_that_fails_leaves_nothing(cloned: Callable[..., Graph], tmp_path: Path) -> None:
    with armed("clone.post_fill", Action.RAISE), pytest.raises(FailpointHit):
        cloned()
    assert [path for path in (tmp_path / "clone").rglob("*") if path.is_file()] == []
    cloned(at=0).close()


def test_nobody_can_open_a_clone_before_it_is_complete(
    cloned: Callable[..., Graph], tmp_path: Path
) -> None:
    def look() -> None:
        for mode in ("read_only", "read_write"):
            with pytest.raises(GraphNotFound, match="clone --force"):
                Graph.open(tmp_path / "clone", mode=mode, settings=quick())
        for force in (False, True):
            with pytest.raises(InitInProgress):
                cloned(force=force)

    with armed("clone.post_fill", look), cloned(at=0) as clone:
        assert content(clone) == b""
