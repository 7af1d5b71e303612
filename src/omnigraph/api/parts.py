"""What hangs on a `Graph`: its branches, its history, its schema, its maintenance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from omnigraph.graph.changes.commit_changes import DEFAULT_PAGE, CommitChanges, commit_changes
from omnigraph.graph.changes.entity_change import parse_filter
from omnigraph.graph.changes.feed import ChangeFeed, ChangePage, FollowedBlock
from omnigraph.graph.history.branches import Branch, Branches
from omnigraph.graph.history.commit_graph import Commit, CommitFilter, CommitGraph, CommitPage
from omnigraph.graph.history.recovery_log import RecoveryRecord, list_recoveries
from omnigraph.graph.history.snapshot import find_commit
from omnigraph.graph.maintenance.ensure_indices import ensure_indices, require_local_engine
from omnigraph.graph.merge.merge import (
    MergePlan,
    MergeRequest,
    MergeResult,
    plan_merge,
    run_merge,
)
from omnigraph.graph.merge.resolutions import parse_resolutions
from omnigraph.graph.merge.revert import revert_commit
from omnigraph.graph.ndjson.baseline import BaselineStream
from omnigraph.ids import MAIN_BRANCH, MAIN_BRANCH_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any, TypeAlias

    # Any: values as JSON gives them.
    Resolutions: TypeAlias = Iterable[Mapping[str, Any]] | bytes | None

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

    def merge(
        self,
        source: str,
        *,
        into: str = MAIN_BRANCH,
        strategy: str = "fail",
        resolutions: Resolutions = None,
        delete_branch: bool = False,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MergeResult:
        """Merge the head of one branch into another, as one commit.

        A change of one side is taken, equal changes of both are one; anything else is a conflict.

        Args:
            source: the branch whose changes are taken.
            into: the branch that gets them: "ours".
            strategy: what becomes of conflicts: `fail`, or the form of one side, `ours` or
                `theirs`.
            resolutions: decisions for single entities, which win over the strategy: mappings with
                `type`, `id` and `take` (`ours`, `theirs`, `base`, `delete`) or `row`; or such lines
                of JSON as bytes.
            delete_branch: delete the source afterwards, unless it has moved on.
            if_commit: merge only while this commit is the head of `into`.
            idempotency_key: the same key and request again give the first commit.

        Raises:
            MergeConflicts: nothing was changed; details `merge_conflicts`.
            BranchNotFound, InvalidArgument, SchemaDiverged: what was asked is wrong.
            ReadSetChanged: `into` moved meanwhile; nothing was changed.
            PreconditionFailed: the head is not the given `if_commit`.
        """
        self._graph.require_writable()
        return run_merge(
            self._graph,
            MergeRequest(
                source=source,
                into=into,
                strategy=strategy,
                resolutions=parse_resolutions(resolutions),
                delete_branch=delete_branch,
                if_commit=if_commit,
                idempotency_key=idempotency_key,
                actor_id=self._actor,
            ),
        )

    def merge_plan(
        self,
        source: str,
        *,
        into: str = MAIN_BRANCH,
        strategy: str = "fail",
        resolutions: Resolutions = None,
    ) -> MergePlan:
        """What a merge would do now; nothing is written. The arguments are those of `merge`."""
        return plan_merge(
            self._graph,
            MergeRequest(
                source=source,
                into=into,
                strategy=strategy,
                resolutions=parse_resolutions(resolutions),
            ),
        )


class GraphCommits:
    """`graph.commits`: the history."""

    def __init__(self, coordinator: GraphCoordinator, actor: str | None = None) -> None:
        self._graph = coordinator
        self._actor = actor

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

    def changes(
        self,
        id: str,
        *,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
        limit: int = DEFAULT_PAGE,
        page_token: str | None = None,
    ) -> CommitChanges:
        """A page of what a commit changed, with every entity before and after.

        The commit is compared with its first parent. Nodes come before edges, then types by their
        identity, then entities by id.

        Args:
            id: the commit.
            kinds: `node`, `edge`; both by default.
            types: names of types; all by default.
            ops: `insert`, `update`, `delete`; all by default.
            limit: how many changes a page has at most.
            page_token: `next_page_token` of the page before.

        Raises:
            CommitNotFound: no live branch has it.
            CommitHasNoParent: it is the first commit.
            ChangeCursorRejected: the token is of another commit or filter.
            ChangeSchemaBoundary: it changed the schema so that no comparison is possible.
            SnapshotReclaimed: its data, or that of its parent, is gone.
        """
        return commit_changes(
            self._graph,
            self.get(id),
            parse_filter(kinds, types, ops),
            limit=limit,
            page_token=page_token,
        )

    def revert(
        self, id: str, *, branch: str = MAIN_BRANCH, if_commit: str | None = None
    ) -> Commit | None:
        """Undo what one commit changed, as a new commit; `None` if it changed nothing.

        Of a merge everything is undone that it brought to the branch.

        Args:
            id: the commit, one of the branch's own line.
            branch: the branch that gets the new commit.
            if_commit: revert only while this commit is the head of the branch.

        Raises:
            MergeConflicts: later commits changed the same entities, or need them.
            CommitNotFound, BranchNotFound, InvalidArgument, CommitHasNoParent: what was asked is
                wrong.
            ReadSetChanged: the branch moved meanwhile; nothing was changed.
            SnapshotReclaimed: the data of the commit, or of its parent, is gone.
        """
        self._graph.require_writable()
        return revert_commit(
            self._graph, id, branch=branch, actor_id=self._actor, if_commit=if_commit
        )


class GraphChanges:
    """`graph.changes`: the change feed."""

    def __init__(self, coordinator: GraphCoordinator) -> None:
        self._graph = coordinator

    def poll(
        self,
        *,
        branch: str = MAIN_BRANCH,
        cursor: str | None = None,
        start: str | None = None,
        page_token: str | None = None,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
        limit: int = DEFAULT_PAGE,
    ) -> ChangePage:
        """A page of what happened on a branch, commit by commit, each commit once.

        Store the `cursor` of a poll's last page with what you have applied, and give it to the next
        poll. A commit may come twice after a failure: apply blocks by their commit id.

        Args:
            branch: the branch.
            cursor: where the last poll ended.
            start: without a cursor: `now` (the default), `beginning`, or `after:` and a commit id.
            page_token: `next_page_token` of the page before.
            kinds: `node`, `edge`; both by default.
            types: names of types; all by default.
            ops: `insert`, `update`, `delete`; all by default.
            limit: how many changes a page has at most.

        Raises:
            BranchNotFound, InvalidArgument, ResourceLimit: what was asked is wrong.
            ChangeCursorRejected: the cursor or token is of another branch or filter.
            ChangeFeedGap: cleanup removed what comes next; take a baseline.
            ChangeSchemaBoundary: the schema changed so that no comparison is possible.
        """
        feed = ChangeFeed(self._graph, branch, parse_filter(kinds, types, ops))
        return feed.poll(cursor=cursor, start=start, page_token=page_token, limit=limit)

    def follow(
        self,
        *,
        branch: str = MAIN_BRANCH,
        cursor: str | None = None,
        start: str | None = None,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
    ) -> Iterator[FollowedBlock]:
        """What happened on a branch up to now, one whole commit after the other.

        Each block has the `cursor` behind its commit: store it with what you have applied. The
        arguments are those of `poll`; one commit is held at a time.

        Raises:
            as `poll`, when the iteration comes to it.
        """
        feed = ChangeFeed(self._graph, branch, parse_filter(kinds, types, ops))
        return feed.follow(cursor=cursor, start=start)

    def baseline(
        self,
        *,
        branch: str = MAIN_BRANCH,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
    ) -> BaselineStream:
        """Every entity of a branch's head as NDJSON, and the cursor to go on from.

        Iterate over it for chunks of bytes; the last line is `{"baseline": …}`, and without it the
        stream is incomplete. `.baseline` tells the same.

        Raises:
            BranchNotFound, InvalidArgument: what was asked is wrong.
        """
        return BaselineStream(self._graph, branch, parse_filter(kinds, types, ops))


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
