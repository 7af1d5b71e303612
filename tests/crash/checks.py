"""What must hold after a crash, asked from outside through a fresh open."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.crash.model import COLUMNS, Content, put
from tests.crash.processes import LONG_MS
from tests.crash.scripts import NEXT, TOUCH
from tests.crash.writes import ROW_KINDS, Write, commit, play

from omnigraph import Graph
from omnigraph.errors import KeyConflict
from omnigraph.graph.manifest.table_refs import bare_layout
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Set
    from pathlib import Path

    from tests.crash.places import Arranged

    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.settings import Settings


def settings(durability: str = "process", ttl_ms: int = LONG_MS) -> Settings:
    """Those of the environment, for the parent, whose own leases shall not run out.

    A killed process loses nothing that it wrote, so only tests of the calls themselves sync.
    """
    return load_settings(
        {
            **os.environ,
            "OMNIGRAPH_LEASE_TTL_MS": str(ttl_ms),
            "OMNIGRAPH_DURABILITY": durability,
        }
    )


def open_graph(root: Path) -> Graph:
    """A read-write handle of the parent."""
    return Graph.open(root, actor="parent", settings=settings())


def content_of(graph: Graph, branch: str) -> Content:
    """Every row of every table at the head of a branch; row counts of the pins are checked."""
    snapshot = graph.snapshot(branch=branch)
    content: Content = {}
    for name in COLUMNS:
        rows = snapshot.scan(name).read_all().to_pylist()
        assert len({row["id"] for row in rows}) == len(rows), f"{name}: an id is there twice"
        assert snapshot.count(name) == len(rows), f"{name}: the pin counts other rows"
        table = content.setdefault(name, {})
        for row in rows:
            put(table, row)
    notes = snapshot.handle(snapshot.type("Note"))
    for name, row in content["Note"].items():
        scan = graph._graph.tables.blob(notes, name, "scan")
        row["scan"] = None if scan is None else scan.read(0, scan.length)
    return content


def listing(root: Path) -> dict[str, tuple[int, int]]:
    """Every file with its size and the time of its last change."""
    return {
        str(path.relative_to(root)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in root.rglob("*")
    }


def read_only_content(root: Path, branch: str) -> Content:
    """What a read-only open shows; it must not write a byte."""
    before = listing(root)
    with Graph.open(root, mode="read_only", settings=settings()) as graph:
        content = content_of(graph, branch)
    assert listing(root) == before, "a read-only open wrote"
    return content


def history(graph: Graph, branch: str) -> list[Commit]:
    """The commits of a branch, newest first; they must be one chain without gaps."""
    commits = list(graph.commits.list(branch=branch, limit=10_000, all=True))
    numbers = [each.graph_manifest_version for each in commits]
    assert numbers == list(range(len(commits) - 1, -1, -1)), f"gaps in {numbers}"
    parents = [each.parent_commit_id for each in commits]
    assert parents == [*(each.graph_commit_id for each in commits[1:]), None]
    return commits


def require_settled(graph: Graph, root: Path) -> None:
    """No sidecar is left, and the newest version of every table is its pin, on every branch."""
    left = [each.name for each in (root / "__recovery").rglob("*.json")]
    assert left == [], f"sidecars left: {left}"
    moved = {}
    coordinator = graph._graph
    for branch_id in coordinator.lines.live_branch_ids():
        for ref, pin in coordinator.lines.read(branch_id).pins.items():
            layout = bare_layout(ref, pin.table_key, pin.location)
            head = coordinator.tables.head_version(layout, pin.branch)
            if head != pin.version:
                moved[branch_id, pin.table_key] = (head, pin.version)
    assert moved == {}, f"head and pin differ: {moved}"


def repeat(graph: Graph, script: Write, branch: str) -> None:
    """The same write again; one that is not repeatable may be refused for its keys."""
    try:
        commit(graph, script, branch)
    except KeyConflict:
        assert not script.is_repeatable


def require_convergence(
    graph: Graph,
    root: Path,
    branch: str,
    script: Write,
    candidates: list[Content],
    *,
    is_strict: bool = True,
) -> Content:
    """The graph is at one of the candidates and stays usable.

    The next write works and settles what was left; the interrupted write, sent again, gives what it
    would have given; a write to every table finds every head at its pin. With `is_strict` a head
    may be ahead of its pin at no moment after the next write; a late writer may leave one ahead
    until the next write to the table.

    Returns:
        The candidate, before any of these writes.
    """
    commit(graph, NEXT, branch)
    shown = content_of(graph, branch)
    found = [each for each in candidates if play(each, NEXT) == shown]
    assert found, f"neither old nor new: {shown}"
    if is_strict:
        require_settled(graph, root)
    repeat(graph, script, branch)
    expected = play(play(found[0], NEXT), script)
    assert content_of(graph, branch) == expected, "the same write again gave something else"
    commit(graph, TOUCH, branch)
    expected = play(expected, TOUCH)
    assert content_of(graph, branch) == expected
    assert read_only_content(root, branch) == expected
    require_settled(graph, root)
    history(graph, branch)
    return found[0]


TURNED_AWAY: Set[str] = {
    "Fenced",
    "ReadSetChanged",
    "KeyConflict",
    "ConstraintViolation",
    "LoadRejected",
}
"""What a writer hears that was overtaken: nothing of it is visible."""

UNKNOWN = "RecoveryRequired"


def require_honest(
    graph: Graph, branch: str, actor: str, commit_id: str | None, error: str | None
) -> None:
    """What an actor was told about its only write is what history shows."""
    require_told(commits_by(graph, branch, actor), actor, commit_id, error)


def require_told(
    landed: list[str],
    actor: str,
    commit_id: str | None,
    error: str | None,
    *,
    refusals: Set[str] = TURNED_AWAY,
) -> None:
    """What an actor was told about its only write is what landed of it."""
    assert len(landed) <= 1, f"{actor}: landed twice"
    if error is None:
        assert landed == ([] if commit_id is None else [commit_id]), f"{actor}: acknowledged, lost"
    else:
        allowed = {UNKNOWN} if landed else {UNKNOWN, *refusals}
        assert error in allowed, f"{actor}: {error}, landed: {landed}"


def require_replayed(graph: Graph, arranged: Arranged, writes: Mapping[str, Write]) -> Content:
    """What the graph shows is what the actors' writes give in the order that history has."""
    branch, now = arranged.branch, arranged.content
    for each in reversed(history(graph, branch)[: -arranged.commits]):
        if each.kind in ROW_KINDS:
            now = play(now, writes[str(each.actor_id)])
    assert content_of(graph, branch) == now
    return now


def commits_by(graph: Graph, branch: str, actor: str) -> list[str]:
    """Commits of an actor, newest first."""
    return [each.graph_commit_id for each in history(graph, branch) if each.actor_id == actor]
