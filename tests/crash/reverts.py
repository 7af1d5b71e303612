"""A commit that is undone, and the revert of it as a write of crash tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.crash.model import Content, knows, note, person
from tests.crash.scripts import Script, Step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph import Graph
    from omnigraph.graph.history.commit_graph import Commit

MARK = "undone"
"""The actor of the commit that is undone."""

UNDONE = Script(
    steps=(
        Step("delete", "Knows", ids=("k0",)),
        Step("upsert", "Knows", (knows("k2", "p2", "p3", 3000), knows("kx", "x0", "p2", 7))),
        Step("delete", "Person", ids=("p0",)),
        Step("upsert", "Person", (person("p2", 102), person("x0", 50))),
        Step("upsert", "Note", (note("n0", 9, b"another"),)),
    ),
)
"""Removes, changes and adds rows of two tables, and changes a blob."""

BACK = Script(
    steps=(
        Step("delete", "Knows", ids=("kx",)),
        Step("upsert", "Knows", (knows("k0", "p0", "p1", 1), knows("k2", "p2", "p3", 3))),
        Step("delete", "Person", ids=("x0",)),
        Step("upsert", "Person", (person("p0", 0), person("p2", 2))),
        Step("upsert", "Note", (note("n0", 3, b"a scan"),)),
    )
)
"""What the revert of it does to the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revert:
    """Undoes the commit of `MARK`; sent again, it finds nothing to undo."""

    is_repeatable: bool = True

    def apply(self, content: Content) -> None:
        """Do to the model what the write does to the graph."""
        BACK.apply(content)

    def send(self, graph: Graph, branch: str) -> Commit | None:
        """Make the write."""
        wrong = next(each for each in graph.commits.list(branch=branch) if each.actor_id == MARK)
        return graph.commits.revert(wrong.graph_commit_id, branch=branch)


REVERTS: Mapping[str, Revert] = {"revert": Revert()}
