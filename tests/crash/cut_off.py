"""A writer that is cut off at a point: one way to arrange it, whatever it writes.

A child may lose its short lease on a busy machine before it comes to its trap. That says nothing of
the writer, so whoever uses these runs its case by `run_unstarved`.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.crash.checks import TURNED_AWAY, open_graph, require_settled, require_told
from tests.crash.places import leave_stale_fork
from tests.crash.points import seed
from tests.crash.processes import child

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.crash.places import Arranged
    from tests.crash.points import Cell
    from tests.crash.processes import Child, Trap

    from omnigraph import Graph

    Proof = Callable[[Cell, Arranged, Graph | None], None]


@contextmanager
def cut_off(
    root: Path,
    branch: str,
    script: str,
    trap: Trap,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Child]:
    """A child that died at its trap, or stands still there.

    Raises:
        Starved: it did not come to its trap.
    """
    with child(root, branch, script, trap, variables=variables) as running:
        if trap.action == "kill":
            running.end().require_killed(trap)
        else:
            running.wait_at_trap()
        yield running


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a process is cut off in, and how anybody sees whether it happened."""

    script: str
    shown: Callable[[], object]
    """What a fresh reader sees."""
    before: object
    after: object
    again: Callable[[Graph], object]
    """The same once more, by another."""


@contextmanager
def done_again(root: Path, branch: str, trap: Trap, work: Work) -> Iterator[Graph]:
    """A graph whose work was cut off, all or nothing of it there, and then done by another.

    When the block ends nothing of either may be left half way.
    """
    with cut_off(root, branch, work.script, trap) as running:
        assert work.shown() in (work.before, work.after), "neither old nor new"
        with open_graph(root) as graph:
            work.again(graph)
            assert work.shown() == work.after
            if trap.action == "stop":
                # Its leases are gone, so it finds that the work is done, or gives up.
                ended = running.proceed()
                assert ended.returncode == 0, ended.stderr
                assert work.shown() == work.after
                known = graph.commits.list(branch=branch, all=True, limit=1_000)
                landed = [each.graph_commit_id for each in known if each.actor_id == "child"]
                error = ended.result.get("error")
                # Whoever was faster may also hold the lease for longer than it waits.
                refusals = {*TURNED_AWAY, "BranchBusy"}
                require_told(landed, "child", ended.commit, error, refusals=refusals)
            yield graph
            require_settled(graph, root)


def crash_cell(cell: Cell, arranged: Arranged, *, killed: Proof, stopped: Proof) -> None:
    """The crash of a cell in a graph, and what must hold afterwards.

    Half of the runs recover at the write of a handle that was open before, which is given to the
    proof, and half at an open.
    """
    if cell.trap.point == "fork.pre_reclaim":
        leave_stale_fork(arranged)
    with ExitStack() as stack:
        has_bystander = (seed() + len(str(cell))) % 2
        bystander = stack.enter_context(open_graph(arranged.root)) if has_bystander else None
        (killed if cell.trap.action == "kill" else stopped)(cell, arranged, bystander)
