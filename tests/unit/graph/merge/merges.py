"""Branches that went apart, and short ways to merge and read them."""

from collections.abc import Callable, Iterable
from typing import Any

from tests.unit.engine.graphs import put

from omnigraph import Graph
from omnigraph.graph.changes.entity_change import Image
from omnigraph.graph.history.commit_graph import Commit
from omnigraph.graph.merge.conflicts import Conflict
from omnigraph.graph.merge.merge_result import MergeResult

Change = Callable[[Graph, str], object]
"""What a side does, on a branch."""
Told = tuple[str, str | None, str]
"""Type, entity and kind of a conflict."""


def nothing(graph: Graph, branch: str) -> None:
    """A side that stays as it is."""


def people(graph: Graph, branch: str, **ages: int | None) -> str:
    """Persons with their ages written in one commit."""
    return put(graph, branch=branch, Person=[{"name": n, "age": age} for n, age in ages.items()])


def knows(graph: Graph, branch: str, **ends: str) -> str:
    """Edges by id, their ends as `a-b` or `a-b:1999`, written in one commit."""
    return put(graph, branch=branch, Knows=[edge(each, told) for each, told in ends.items()])


def edge(edge_id: str, told: str) -> dict[str, object]:
    """The row of an edge that is told as `a-b` or `a-b:1999`."""
    ends, _, since = told.partition(":")
    src, dst = ends.split("-")
    return {"id": edge_id, "src": src, "dst": dst, "since": int(since) if since else None}


def ages(graph: Graph, branch: str = "main") -> dict[str, int | None]:
    """Everybody at the head of a branch."""
    found = graph.snapshot(branch=branch).scan("Person").read_all().to_pylist()
    return {row["id"]: row["age"] for row in sorted(found, key=lambda row: str(row["id"]))}


def links(graph: Graph, branch: str = "main") -> dict[str, str]:
    """All edges at the head of a branch, told as `a-b` or `a-b:1999`."""
    found = graph.snapshot(branch=branch).scan("Knows").read_all().to_pylist()
    return {
        row["id"]: f"{row['src']}-{row['dst']}" + (f":{row['since']}" if row["since"] else "")
        for row in sorted(found, key=lambda row: row["id"])
    }


def apart(graph: Graph, source: Change, target: Change, name: str = "b") -> None:
    """A branch that changed in one way while `main` changed in another."""
    graph.branches.create(name)
    source(graph, name)
    target(graph, "main")


def head(graph: Graph, branch: str = "main") -> str:
    """The commit at the head of a branch."""
    return graph.snapshot(branch=branch).graph_commit_id


def made(result: MergeResult) -> Commit:
    """The commit of a merge that made one."""
    assert result.commit is not None
    return result.commit


def told(conflicts: Iterable[Conflict]) -> list[Told]:
    """Conflicts in few words."""
    return [(each.type_name, each.entity_id, each.kind.value) for each in conflicts]


def planned(graph: Graph, source: str = "b", **how: Any) -> list[Told]:  # noqa: ANN401
    """The conflicts of a merge into main, in few words."""
    return told(graph.branches.merge_plan(source, **how).conflict_list)


def properties(image: Image | None) -> dict[str, Any] | None:
    """What an image shows, without the key."""
    if image is None:
        return None
    return {name: value for name, value in image.properties.items() if name != "name"}
