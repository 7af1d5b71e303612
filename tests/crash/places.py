"""Graphs to write to: on `main`, on a branch with tables of its own, on a branch without any."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias

import lance
from tests.crash.checks import open_graph, settings
from tests.crash.model import SCHEMA, Content, knows, note, person
from tests.crash.scripts import SEED, Script, Step
from tests.crash.writes import commit, play_all

from omnigraph import Graph
from omnigraph.storage.handles import lance_branch

if TYPE_CHECKING:
    from pathlib import Path

Place: TypeAlias = Literal["main", "named", "first"]
PLACES: tuple[Place, ...] = ("main", "named", "first")
BRANCH = "rev"

OWN = Script(
    steps=(
        Step("upsert", "Person", (person("p3", 33),)),
        Step("upsert", "Knows", (knows("k3", "p3", "p2", 44),)),
        Step("upsert", "Note", (note("own"),)),
    )
)
"""The first write of the named branch: from then on its tables have lines of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arranged:
    """A graph, the branch to write to, and what it holds."""

    root: Path
    branch: str
    content: Content
    commits: int
    """How many commits the branch has."""


@cache
def _template(folder: Path) -> Path:
    root = folder / "template"
    with Graph.init(root, schema=SCHEMA, actor="seed", settings=settings()) as graph:
        for script in SEED:
            commit(graph, script)
    return root


def arrange(
    shared: Path, root: Path, place: Place, *, last: Script | None = None, actor: str = "seed"
) -> Arranged:
    """A graph of its own for one test; the one that is copied lies below `shared`.

    Args:
        shared: where the graph lies that is copied.
        root: where the copy goes.
        place: which branch is written to.
        last: a write at the head of that branch, which one without tables inherits.
        actor: who makes it.
    """
    shutil.copytree(_template(shared), root)
    made = list(SEED)
    branch = "main" if place == "main" else BRANCH
    with open_graph(root) as graph:
        # Lance writes absolute paths into branches, so they are made after the copy.
        if place == "named":
            graph.branches.create(BRANCH)
            commit(graph, OWN, BRANCH)
            made.append(OWN)
        if last is not None:
            commit(graph.as_actor(actor), last, BRANCH if place == "named" else "main")
            made.append(last)
        if place == "first":
            graph.branches.create(BRANCH)
    return Arranged(root=root, branch=branch, content=play_all(*made), commits=1 + len(made))


def leave_stale_fork(arranged: Arranged) -> None:
    """A line of the branch that starts at another version of `Person` than the branch shows."""
    with open_graph(arranged.root) as graph:
        coordinator = graph._graph
        branch_id = coordinator.branch_id(arranged.branch)
        pins = coordinator.lines.read(branch_id).pins.values()
        pin = next(each for each in pins if each.table_key == "node:Person")
        name = lance_branch(branch_id)
        assert name is not None
        table = lance.dataset(str(arranged.root / pin.location))
        table.create_branch(name, (None, pin.version - 1))
