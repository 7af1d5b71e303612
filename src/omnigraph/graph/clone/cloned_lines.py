"""Which states of which branches a clone takes over, and where its branches fork.

A branch forks in the clone from the state that a merge with its parent would compare with in the
source, so that merging it means the same there: of a branch that was forked from `main` long ago,
the clone has that state of `main` too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.errors import InvalidArgument, SchemaDiverged, SnapshotReclaimed
from omnigraph.graph.history.snapshot import open_snapshot, snapshot_at
from omnigraph.graph.merge.commit_states import CommitStates
from omnigraph.ids import MAIN_BRANCH, MAIN_BRANCH_ID

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.graph.history.targets import ReadTarget
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.rows import BranchRow
    from omnigraph.ids import BranchId


@dataclass(kw_only=True)
class ClonedLine:
    """A branch of the clone."""

    name: str
    start: Snapshot | None
    """The state of its parent from which it forks; `None` for `main`."""
    head: Snapshot
    children: list[ClonedLine] = field(default_factory=list)

    @property
    def states(self) -> list[Snapshot]:
        """The states that it goes through: those from which others fork, and its head."""
        starts = [child.start for child in self.children if child.start is not None]
        states = {state.graph_commit_id: state for state in sorted(starts, key=lambda one: one.seq)}
        states.pop(self.head.graph_commit_id, None)
        return [*states.values(), self.head]

    def forking_at(self, state: Snapshot) -> list[ClonedLine]:
        """The branches that fork at one of the states."""
        wanted = state.graph_commit_id
        return [
            each for each in self.children if each.start and each.start.graph_commit_id == wanted
        ]

    def family(self) -> Iterator[ClonedLine]:
        """The line and all that grow from it, parents first."""
        yield self
        for child in self.children:
            yield from child.family()


def plan_clone(
    graph: GraphCoordinator, at: ReadTarget | None, branches: Iterable[str] | None
) -> ClonedLine:
    """`main` of the clone, with the branches that grow from it.

    Args:
        graph: the source.
        at: a state that becomes `main`, alone.
        branches: the branches beside `main`; all live ones by default.

    Raises:
        BranchNotFound, CommitNotFound, SnapshotReclaimed: there is no such state.
        InvalidArgument: both are given, or `branches` is no list of names.
    """
    if at is not None:
        if branches is not None:
            raise InvalidArgument(
                "give `at` or `branches`, not both: a clone of one state has `main` alone",
                argument="branches",
            )
        return ClonedLine(name=MAIN_BRANCH, start=None, head=open_snapshot(graph, at, MAIN_BRANCH))
    placing = _Placing(graph, _wanted(graph, branches))
    main = placing.placed(MAIN_BRANCH)
    for name in placing.names:
        placing.placed(name)
    for line in main.family():
        _require_schema_of(main, line)
    return main


def _wanted(graph: GraphCoordinator, branches: Iterable[str] | None) -> dict[BranchId, BranchRow]:
    if isinstance(branches, str | bytes) or not isinstance(branches, Iterable | None):
        raise InvalidArgument(f"branches is a list of names, not {branches!r}", argument="branches")
    names = list(graph.lines.live_branch_ids().values() if branches is None else branches)
    for name in names:
        graph.branch_id(name)
    rows = (graph.lines.branch(name) for name in dict.fromkeys(names) if name != MAIN_BRANCH)
    return {row.branch_id: row for row in rows}


class _Placing:
    """Finds the parent and the start of every line, parents first."""

    def __init__(self, graph: GraphCoordinator, wanted: Mapping[BranchId, BranchRow]) -> None:
        self._graph = graph
        self._wanted = wanted
        self._names = graph.lines.live_branch_ids()
        self._lines: dict[str, ManifestLine] = {
            self._names[branch_id]: graph.lines.read(branch_id)
            for branch_id in (MAIN_BRANCH_ID, *wanted)
        }
        self._placed: dict[str, ClonedLine] = {}
        self._parents: dict[str, str] = {}

    @property
    def names(self) -> list[str]:
        """All branches of the clone."""
        return list(self._lines)

    def placed(self, name: str) -> ClonedLine:
        """A line, hung to the one that it grows from."""
        if name in self._placed:
            return self._placed[name]
        own = self._lines[name]
        line = ClonedLine(
            name=name, start=None, head=snapshot_at(self._graph, own, own.head_commit)
        )
        if name != MAIN_BRANCH:
            parent, line.start = self._fork(name, self._nearest(name))
            self._parents[name] = parent
            self._placed[parent].children.append(line)
        self._placed[name] = line
        return line

    def _nearest(self, name: str) -> str:
        """The nearest ancestor that is cloned."""
        parent_id = self._graph.lines.branch(name).parent_branch_id
        if parent_id in self._wanted or parent_id == MAIN_BRANCH_ID:
            return self._names[parent_id]
        return self._nearest(self._names[parent_id])

    def _fork(self, name: str, parent: str) -> tuple[str, Snapshot]:
        """The line to grow from, and the state in which both were one.

        A line that grows from another one inherits where that one starts. If that is not where the
        line left the one above, since the other was merged with it later, it is hung higher up.
        """
        start = self.placed(parent).start
        if start is not None:
            above = self._parents[parent]
            if self._base(name, above).graph_commit_id != start.graph_commit_id:
                return self._fork(name, above)
        return parent, self._base(name, parent)

    def _base(self, name: str, parent: str) -> Snapshot:
        states = CommitStates(self._graph, self._lines[parent], self._lines[name])
        base = states.divergence.base
        if base is None:
            raise SnapshotReclaimed(
                f"nothing of what {name!r} and {parent!r} have in common can be read any more;"
                " clone the branch as a graph of its own, by `at`"
            )
        return states.open(base)


def _require_schema_of(main: ClonedLine, line: ClonedLine) -> None:
    """Refuse branches with another schema: no apply leaves such, and no merge could join them."""
    for state in line.states:
        if state.schema_hash != main.head.schema_hash:
            raise SchemaDiverged(
                f"{line.name!r} has another schema than 'main' at commit {state.graph_commit_id};"
                " clone it as a graph of its own, by `at`",
                source_commit=state.graph_commit_id,
                target_commit=main.head.graph_commit_id,
            )
