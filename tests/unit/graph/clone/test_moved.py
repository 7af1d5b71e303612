"""A graph that was copied or moved by hand shows all its branches, and can be cloned."""

from __future__ import annotations

import base64
import os
import shutil
from typing import TYPE_CHECKING

import pytest
from tests.extended import thinned
from tests.unit.graph.clone.branched import ADD, BRANCHES, DROP, EDIT, OLDER, content, made
from tests.unit.graph.graphs import listing, quick

from omnigraph import Graph
from omnigraph.errors import StorageUnsupported
from omnigraph.ids import MAIN_BRANCH_ID

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LARGE = base64.b64encode(os.urandom(200_000)).decode()
SEARCH = """query q() { match { $d: Doc  search($d.body, "fox") } return { $d.title, $d.body } }"""
NEAREST = """
query q() { match { $d: Doc } return { $d.title } order { nearest($d.place, [3.0, 4.0]) } limit 1 }
"""


@pytest.fixture
def moved(tmp_path: Path) -> tuple[Path, dict[str, list[object]]]:
    """Where the graph is now, and what it told where it was."""
    root = made(tmp_path / "before")
    with Graph.open(root, settings=quick()) as graph:
        graph.mutate(
            f'query q() {{ insert Doc {{ title: "large", scan: "base64:{LARGE}" }} }}',
            branch="draft/two",
        )
        graph.mutate(DROP.replace("bob", "cy"), branch="draft")
        graph.mutate(OLDER, branch="draft")
        told = answers(graph)
    root.rename(tmp_path / "after")
    return tmp_path / "after", told


def answers(graph: Graph) -> dict[str, list[object]]:
    """What every way to read tells of every branch."""
    return {
        branch: [
            content(graph, branch),
            graph.query(SEARCH, branch=branch).to_dicts(),
            graph.query(NEAREST, branch=branch).to_dicts(),
            list(graph.diff("main", branch)),
            graph.blob("node", "Doc", "t", "scan", branch=branch).read(),
            graph.commits.list(branch=branch).commits,
            graph.branches.get(branch),
            content(graph, snapshot=graph.commits.list(branch=branch).commits[1].graph_commit_id),
            [block.changes for block in graph.changes.follow(branch=branch, start="beginning")],
        ]
        for branch in BRANCHES
    }


def test_every_branch_of_a_moved_graph_is_read_as_before(
    moved: tuple[Path, dict[str, list[object]]],
) -> None:
    root, told = moved
    before = listing(root)
    with Graph.open(root, mode="read_only", settings=quick()) as graph:
        assert answers(graph) == told
    assert listing(root) == before
    with Graph.open(root, settings=quick()) as graph:
        assert answers(graph) == told


@pytest.mark.extended
def test_every_file_of_a_moved_branch_belongs_to_a_version(
    moved: tuple[Path, dict[str, list[object]]],
) -> None:
    with Graph.open(moved[0], mode="read_only", settings=quick()) as graph:
        report = graph.maintenance.verify(deep=True)
    assert (report.problems, report.notes) == ((), ())


def test_a_branch_of_a_moved_graph_is_not_written_to(
    moved: tuple[Path, dict[str, list[object]]],
) -> None:
    root, told = moved
    before = set(listing(root))
    with Graph.open(root, settings=quick()) as graph:
        for write in (
            lambda: graph.mutate(EDIT, branch="draft/two"),
            lambda: graph.load(b"", mode="append", branch="draft"),
            lambda: graph.branches.create("more", from_="draft"),
            lambda: graph.branches.merge("main", into="draft"),
            lambda: graph.maintenance.ensure_indices(branch="draft"),
        ):
            with pytest.raises(StorageUnsupported, match="omnigraph clone"):
                write()
        assert answers(graph) == told
    written = {path for path in set(listing(root)) - before if not path.startswith("__leases")}
    assert written == set()


def test_a_moved_graph_goes_on_with_main_and_new_branches(
    moved: tuple[Path, dict[str, list[object]]],
) -> None:
    root, told = moved
    with Graph.open(root, settings=quick()) as graph:
        graph.branches.create("new")
        graph.branches.merge("draft/two", into="new")
        graph.mutate(ADD.replace("dee", "eve").replace("d@x", "e@x"), branch="new")
        assert b"dee" in content(graph, "new")
        assert b"eve" in content(graph, "new")
        graph.branches.merge("draft")
        assert content(graph, "draft") == told["draft"][0]
        graph.branches.delete("draft/two")
        assert [each.name for each in graph.branches.list()] == ["main", "draft", "new"]


@pytest.mark.extended
def test_cleaning_the_manifest_keeps_what_moved_branches_start_from(
    moved: tuple[Path, dict[str, list[object]]],
) -> None:
    root, told = moved
    with Graph.open(root, settings=quick()) as graph:
        graph.mutate(ADD)
        manifest, lines = graph._graph.storage.manifest, graph._graph.lines
        manifest.compact(lines.read(MAIN_BRANCH_ID).handle)
        handle = lines.read(MAIN_BRANCH_ID).handle
        files = set(listing(root / "__manifest"))
        manifest.clean(handle, range(1, handle.version))
        assert files - set(listing(root / "__manifest"))
        line = lines.read(graph._graph.branch_id("draft")).handle
        manifest.clean(line, range(1, line.version))
    with Graph.open(root, mode="read_only", settings=quick()) as graph:
        for branch in ("draft", "draft/two"):
            assert content(graph, branch) == told[branch][0]


@pytest.mark.extended
def test_nothing_is_due_on_moved_branches(
    moved: tuple[Path, dict[str, list[object]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.graph.maintenance.due.MOST_FRAGMENTS", 0)
    with Graph.open(moved[0], settings=quick()) as graph:
        assert {table.branch for table in graph.maintenance.status().tables} == {"main"}
        assert graph.maintenance.run_due().errors == ()


@pytest.mark.extended
def test_cleanup_of_a_moved_graph_leaves_its_moved_branches(
    moved: tuple[Path, dict[str, list[object]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, told = moved
    monkeypatch.setattr("omnigraph.graph.maintenance.kept_versions.YOUNG_US", 0)
    monkeypatch.setattr("omnigraph.graph.maintenance.kept_versions.FEWEST_KEPT", 1)
    with Graph.open(root, settings=quick()) as graph:
        for _ in range(2):
            graph.mutate(OLDER.replace("ada", "cy"))
        graph.maintenance.optimize()
        report = graph.maintenance.cleanup(keep=1, confirm=True)
        assert [table.error for table in report.tables] == [None] * 3
        assert sum(table.old_versions_removed for table in report.tables)
    with Graph.open(root, mode="read_only", settings=quick()) as graph:
        for branch in ("draft", "draft/two"):
            assert content(graph, branch) == told[branch][0]


@pytest.mark.parametrize("move", thinned([shutil.copytree, shutil.move]))
def test_a_clone_of_a_moved_graph_can_be_written_to(
    tmp_path: Path, moved: tuple[Path, dict[str, list[object]]], move: Callable[..., object]
) -> None:
    root, told = moved
    move(root, tmp_path / "again")
    with Graph.clone(tmp_path / "again", tmp_path / "clone", settings=quick()) as clone:
        for branch in BRANCHES:
            assert content(clone, branch) == told[branch][0]
        clone.mutate(DROP, branch="draft")
        clone.branches.merge("draft")
        assert b'"age":9' in content(clone)
