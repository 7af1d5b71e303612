"""What hangs on a `Graph`: its branches, its history, its schema, its maintenance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from omnigraph.graph.history.branches import Branch, Branches
from omnigraph.graph.history.commit_graph import Commit, CommitFilter, CommitGraph, CommitPage
from omnigraph.graph.history.recovery_log import RecoveryRecord, list_recoveries
from omnigraph.graph.history.snapshot import find_commit
from omnigraph.graph.maintenance.ensure_indices import ensure_indices, require_local_engine
from omnigraph.ids import MAIN_BRANCH, MAIN_BRANCH_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.maintenance.index_report import IndexReport
    from omnigraph.lang import Catalog


class GraphBranches:
    """`graph.branches`."""

    def __init__(self, coordinator: GraphCoordinator, actor: str | None) -> None:
        self._graph = coordinator
        self._branches = Branches(coordinator)
        self._actor = actor

    def create(self, name: str, *, from_: str = MAIN_BRANCH) -> Branch:
        """Create a branch at the head of another; copies no data.

        Raises:
            InvalidBranchName, BranchExists, BranchNotFound: nothing was changed.
        """
        self._graph.require_writable()
        return self._branches.create(name, from_, actor_id=self._actor)

    def list(self) -> list[Branch]:
        """Live branches, `main` first, then by name."""
        return self._branches.list()

    def get(self, name: str) -> Branch:
        """One live branch.

        Raises:
            BranchNotFound: there is none of that name.
        """
        return self._branches.get(name)

    def delete(self, name: str, *, if_commit: str | None = None) -> None:
        """Delete a branch.

        Args:
            name: the branch.
            if_commit: delete it only while this commit is its head.

        Raises:
            InvalidBranchName, BranchNotFound, BranchHasDescendants: nothing was changed.
            PreconditionFailed: the head is not the given `if_commit`; nothing was changed.
        """
        self._graph.require_writable()
        self._branches.delete(name, if_commit=if_commit)


class GraphCommits:
    """`graph.commits`: the history."""

    def __init__(self, coordinator: GraphCoordinator) -> None:
        self._graph = coordinator

    def list(
        self,
        *,
        branch: str = MAIN_BRANCH,
        actor: str | None = None,
        kind: str | None = None,
        operation: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> CommitPage:
        """A page of what the branch's head reaches, newest first.

        Raises:
            BranchNotFound: there is no such branch.
            InvalidArgument: a bad limit or cursor.
        """
        line = self._graph.lines.read(self._graph.branch_id(branch))
        wanted = CommitFilter(actor=actor, kind=kind, operation=operation)
        return CommitGraph(line).page(wanted, limit=limit, cursor=cursor)

    def __iter__(self) -> Iterator[Commit]:
        """Everything that the head of `main` reaches, newest first."""
        line = self._graph.lines.read(MAIN_BRANCH_ID)
        return CommitGraph(line).walk(line.head.commit_id)

    def get(self, id: str) -> Commit:
        """One commit of any live branch.

        Raises:
            CommitNotFound: no live branch has it.
        """
        return find_commit(self._graph.lines, id)


class GraphSchema:
    """`graph.schema`: the accepted schema of `main`."""

    def __init__(self, coordinator: GraphCoordinator) -> None:
        self._graph = coordinator

    @property
    def source(self) -> str:
        """The `.pg` text as it was accepted."""
        return self._graph.schemas.source(self.hash)

    @property
    def catalog(self) -> Catalog:
        """What the source means, with stable ids."""
        return self._graph.schemas.load(self.hash).catalog

    @property
    def hash(self) -> str:
        """The accepted schema's hash."""
        return self._graph.lines.read(MAIN_BRANCH_ID).schema.schema_hash

    def show(self, *, at: str | None = None) -> str:
        """The `.pg` text in force now, or at a commit.

        Raises:
            CommitNotFound: no live branch has the commit.
        """
        if at is None:
            return self.source
        return self._graph.schemas.source(find_commit(self._graph.lines, at).schema_hash)


class GraphMaintenance:
    """`graph.maintenance`."""

    def __init__(self, coordinator: GraphCoordinator, actor: str | None) -> None:
        self._graph = coordinator
        self._actor = actor

    def ensure_indices(
        self,
        *,
        types: Iterable[str] | None = None,
        branch: str = MAIN_BRANCH,
        engine: Literal["auto", "local", "spark"] = "auto",
        progress: Progress | None = None,
    ) -> IndexReport:
        """Build the declared indexes that are missing or stale, in at most one commit.

        Args:
            types: only of these types, `Person` or `node:Person`; all without it.
            branch: where to build them.
            engine: the lane; Spark is not in this version.
            progress: told a `StageProgress` (`omnigraph.graph.jobs.stage_progress`) for every table
                that is done.

        Raises:
            ReadOnlyGraph: the graph is open read-only.
            InvalidArgument: there is no such type or engine.
            BranchNotFound: there is no such branch.
            RecoveryBlocked: an interrupted write of the branch cannot be settled.
        """
        self._graph.require_writable()
        require_local_engine(engine)
        return ensure_indices(
            self._graph, branch=branch, types=types, actor_id=self._actor, progress=progress
        )

    def recoveries(self, *, branch: str | None = None, limit: int = 100) -> list[RecoveryRecord]:
        """What recoveries did on a branch, or on all live ones, newest first.

        Raises:
            BranchNotFound: there is no such branch.
            InvalidArgument: the limit is not positive.
        """
        return list_recoveries(self._graph.lines, branch, limit)
