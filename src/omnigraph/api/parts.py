"""What hangs on a `Graph`: its branches, its tags, its history, its schema, its maintenance."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from omnigraph.api.maintenance_lane import MaintenanceLanes, request_of
from omnigraph.graph.access import Action
from omnigraph.graph.blobs.addresses import DENY_ALL
from omnigraph.graph.changes.change_pages import (
    DEFAULT_PAGE,
    ChangePage,
    CommitChanges,
    FollowedBlock,
)
from omnigraph.graph.changes.commit_changes import commit_changes
from omnigraph.graph.changes.entity_change import parse_filter
from omnigraph.graph.changes.feed import ChangeFeed
from omnigraph.graph.history.allowed_states import branch_of_state, find_readable_commit
from omnigraph.graph.history.branches import Branch, Branches
from omnigraph.graph.history.commit_graph import Commit, CommitFilter, CommitGraph, CommitPage
from omnigraph.graph.history.recovery_log import RecoveryRecord, list_recoveries
from omnigraph.graph.history.snapshot import find_commit
from omnigraph.graph.history.tags import Tags
from omnigraph.graph.maintenance.cleanup import cleanup
from omnigraph.graph.maintenance.due import MaintenanceStatus, maintenance_status
from omnigraph.graph.maintenance.kept_versions import parse_policy
from omnigraph.graph.maintenance.reconciler import (
    BackgroundMaintenance,
    MaintenanceRound,
    run_due,
)
from omnigraph.graph.maintenance.repair import RepairReport, repair
from omnigraph.graph.maintenance.verify import verify
from omnigraph.graph.merge.conflicts import values_for_readers
from omnigraph.graph.merge.merge import MergeRequest, plan_merge, run_merge
from omnigraph.graph.merge.resolutions import parse_resolutions
from omnigraph.graph.merge.revert import revert_commit
from omnigraph.graph.ndjson.baseline import BaselineStream
from omnigraph.graph.schema_apply.apply import apply_schema
from omnigraph.graph.schema_apply.schema_state import plan_schema
from omnigraph.graph.schema_apply.schema_text import schema_text
from omnigraph.ids import MAIN_BRANCH, MAIN_BRANCH_ID
from omnigraph.lang import SchemaPlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import timedelta
    from pathlib import Path

    from omnigraph.graph.blobs.addresses import ExternalBlobs
    from omnigraph.graph.gate import Gate
    from omnigraph.graph.history.tag import Tag
    from omnigraph.graph.history.targets import ReadTarget
    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.maintenance.cleanup_report import CleanupReport
    from omnigraph.graph.maintenance.index_report import IndexReport
    from omnigraph.graph.maintenance.optimize_report import OptimizeReport
    from omnigraph.graph.maintenance.verify_report import VerifyReport
    from omnigraph.graph.merge.merge_plan import MergePlan
    from omnigraph.graph.merge.merge_result import MergeResult
    from omnigraph.graph.merge.resolutions import Resolutions
    from omnigraph.graph.schema_apply.applied import SchemaApplied
    from omnigraph.graph.schema_apply.dependents import SchemaDependent
    from omnigraph.lang import Catalog
    from omnigraph.settings import Settings


class GraphBranches:
    """`graph.branches`."""

    def __init__(
        self,
        coordinator: GraphCoordinator,
        gate: Gate,
        external_blobs: ExternalBlobs = DENY_ALL,
    ) -> None:
        self._graph = coordinator
        self._branches = Branches(coordinator)
        self._gate = gate
        self._external_blobs = external_blobs

    def create(self, name: str, *, from_: str = MAIN_BRANCH) -> Branch:
        """Create a branch at the head of another; copies no data.

        Raises:
            InvalidBranchName, BranchExists, TagExists, BranchNotFound: nothing was changed.
        """
        self._gate.require(Action.BRANCH_CREATE, from_, target=name)
        self._graph.require_writable()
        return self._branches.create(name, from_, actor_id=self._gate.actor)

    def list(self) -> list[Branch]:
        """Live branches, `main` first, then by name."""
        self._gate.require(Action.READ)
        return self._branches.list()

    def get(self, name: str) -> Branch:
        """One live branch.

        Raises:
            BranchNotFound: there is none of that name.
        """
        self._gate.require(Action.READ, name)
        return self._branches.get(name)

    def delete(self, name: str, *, if_commit: str | None = None) -> None:
        """Delete a branch.

        Args:
            name: the branch.
            if_commit: delete it only while this commit is its head.

        Raises:
            InvalidBranchName, BranchNotFound: there is no such branch to delete.
            BranchHasDescendants, BranchHasTags: others rest on it; nothing was changed.
            PreconditionFailed: the head is not the given `if_commit`; nothing was changed.
        """
        self._gate.require(Action.BRANCH_DELETE, target=name)
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
            resolutions: decisions for single entities, which win over the strategy: one or more
                mappings with `type`, `id` and `take` (`ours`, `theirs`, `base`, `delete`) or `row`;
                or such lines of JSON.
            delete_branch: delete the source afterwards, unless it has moved on; what stands in the
                way of that, a policy too, is told by the result, and the merge stands.
            if_commit: merge only while this commit is the head of `into`.
            idempotency_key: the same key and request again give the first commit.

        Raises:
            MergeConflicts: nothing was changed; details `merge_conflicts`.
            BranchNotFound, InvalidArgument, SchemaDiverged: what was asked is wrong.
            ReadSetChanged: `into` moved meanwhile; nothing was changed.
            PreconditionFailed: the head is not the given `if_commit`.
        """
        self._gate.require(Action.BRANCH_MERGE, source, target=into)
        denial = self._gate.denial(Action.BRANCH_DELETE, target=source) if delete_branch else None
        self._graph.require_writable()
        request = MergeRequest(
            source=source,
            into=into,
            strategy=strategy,
            resolutions=parse_resolutions(resolutions),
            delete_branch=delete_branch and denial is None,
            if_commit=if_commit,
            idempotency_key=idempotency_key,
            actor_id=self._gate.actor,
            external_blobs=self._external_blobs,
        )
        with values_for_readers(self._gate, source, into):
            result = run_merge(self._graph, request)
        if denial is None:
            return result
        return replace(result, branch_deleted=False, branch_delete_error=denial)

    def merge_plan(
        self,
        source: str,
        *,
        into: str = MAIN_BRANCH,
        strategy: str = "fail",
        resolutions: Resolutions = None,
    ) -> MergePlan:
        """What a merge would do now; nothing is written. The arguments are those of `merge`."""
        for branch in (source, into):
            self._gate.require(Action.READ, branch)
        return plan_merge(
            self._graph,
            MergeRequest(
                source=source,
                into=into,
                strategy=strategy,
                resolutions=parse_resolutions(resolutions),
                external_blobs=self._external_blobs,
            ),
        )


class GraphTags:
    """`graph.tags`: commits under a name."""

    def __init__(self, coordinator: GraphCoordinator, gate: Gate) -> None:
        self._graph = coordinator
        self._tags = Tags(coordinator)
        self._gate = gate

    def create(self, name: str, at: ReadTarget | None = None, *, branch: str = MAIN_BRANCH) -> Tag:
        """Name a commit; from then on the tag is a read target, and keeps what it names.

        Args:
            name: a name by the rule for branches that no branch or tag has.
            at: a commit id, another tag, a `resolved_snapshot`, a number or a time of the branch;
                the head of the branch without it.
            branch: the branch.

        Raises:
            InvalidBranchName, BranchExists, TagExists: the name cannot be had.
            BranchNotFound, CommitNotFound, SnapshotReclaimed: there is no such state.
            BranchBusy: a cleanup is under way, and the commit is not the head of its branch.
        """
        self._gate.require_actor()
        source = branch_of_state(self._graph, self._gate, Action.BRANCH_CREATE, at, branch)
        self._gate.require(Action.BRANCH_CREATE, source, target=name)
        self._graph.require_writable()
        return self._tags.create(name, at, branch=branch, actor_id=self._gate.actor)

    def list(self) -> list[Tag]:
        """Live tags, by name."""
        self._gate.require(Action.READ)
        return self._tags.list()

    def get(self, name: str) -> Tag:
        """One live tag.

        Raises:
            TagNotFound: there is none of that name.
        """
        self._gate.require(Action.READ)
        return self._tags.get(name)

    def delete(self, name: str) -> None:
        """Delete a tag; its commit stays in the history.

        Raises:
            TagNotFound: there is none of that name; nothing was changed.
        """
        self._gate.require(Action.BRANCH_DELETE, target=name)
        self._graph.require_writable()
        self._tags.delete(name)


class GraphCommits:
    """`graph.commits`: the history."""

    def __init__(self, coordinator: GraphCoordinator, gate: Gate) -> None:
        self._graph = coordinator
        self._gate = gate

    def list(
        self,
        *,
        branch: str = MAIN_BRANCH,
        actor: str | None = None,
        kind: str | None = None,
        operation: str | None = None,
        all: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> CommitPage:
        """A page of what the branch's head reaches, newest first.

        Args:
            branch: the branch.
            actor: only commits of this actor.
            kind: only commits of this kind.
            operation: only the commit of this operation or job.
            all: also commits that change no row (kinds `index` and `optimize`), which are left out
                unless one of the three above is given.
            limit: how many commits a page has at most.
            cursor: `next_cursor` of the page before.

        Raises:
            BranchNotFound: there is no such branch.
            InvalidArgument: a bad limit or cursor.
        """
        self._gate.require(Action.READ, branch)
        line = self._graph.lines.read(self._graph.branch_id(branch))
        wanted = CommitFilter(actor=actor, kind=kind, operation=operation, maintenance=all)
        return CommitGraph(line).page(wanted, limit=limit, cursor=cursor)

    def __iter__(self) -> Iterator[Commit]:
        """Everything that the head of `main` reaches, newest first."""
        self._gate.require(Action.READ, MAIN_BRANCH)
        line = self._graph.lines.read(MAIN_BRANCH_ID)
        return CommitGraph(line).walk(line.head.commit_id)

    def get(self, id: ReadTarget) -> Commit:
        """One commit of any live branch, by its id, a tag, or a number or time of `main`.

        Raises:
            CommitNotFound: no live branch has it.
        """
        self._gate.require(Action.READ)
        return find_commit(self._graph.lines, id)

    def changes(
        self,
        id: ReadTarget,
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
            id: the commit, as for `get`.
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
            find_readable_commit(self._graph, self._gate, id),
            parse_filter(kinds, types, ops),
            limit=limit,
            page_token=page_token,
        )

    def revert(
        self, id: ReadTarget, *, branch: str = MAIN_BRANCH, if_commit: str | None = None
    ) -> Commit | None:
        """Undo what one commit changed, as a new commit; `None` if it changed nothing.

        Of a merge everything is undone that it brought to the branch.

        Args:
            id: the commit, one of the branch's own line: its id, a tag, or its number or
                time there.
            branch: the branch that gets the new commit.
            if_commit: revert only while this commit is the head of the branch.

        Raises:
            MergeConflicts: later commits changed the same entities, or need them.
            CommitNotFound, BranchNotFound, InvalidArgument, CommitHasNoParent: what was asked is
                wrong.
            ReadSetChanged: the branch moved meanwhile; nothing was changed.
            SnapshotReclaimed: the data of the commit, or of its parent, is gone.
        """
        self._gate.require(Action.CHANGE, branch)
        self._graph.require_writable()
        # What is undone comes back: who may not read a branch gets its past in no other way either.
        commit = find_readable_commit(self._graph, self._gate, id, branch)
        with values_for_readers(self._gate, branch):
            return revert_commit(
                self._graph,
                commit.graph_commit_id,
                branch=branch,
                actor_id=self._gate.actor,
                if_commit=if_commit,
            )


class GraphChanges:
    """`graph.changes`: the change feed."""

    def __init__(self, coordinator: GraphCoordinator, gate: Gate) -> None:
        self._graph = coordinator
        self._gate = gate

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
            start: without a cursor: `now` (the default), `beginning`, or `after:` and a commit
                of the branch: its id, a tag, its number, or a time.
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
        self._gate.require(Action.READ, branch)
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
        self._gate.require(Action.READ, branch)
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
        self._gate.require(Action.EXPORT, branch)
        return BaselineStream(self._graph, branch, parse_filter(kinds, types, ops))


class GraphSchema:
    """`graph.schema`: the accepted schema of `main`."""

    def __init__(
        self,
        coordinator: GraphCoordinator,
        gate: Gate,
        *,
        dependents: Sequence[SchemaDependent] = (),
    ) -> None:
        self._graph = coordinator
        self._gate = gate
        self._dependents = dependents

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
        self._gate.require(Action.READ)
        return self._graph.lines.read(MAIN_BRANCH_ID).schema.schema_hash

    def show(self, *, at: ReadTarget | None = None) -> str:
        """The `.pg` text in force now, or at a commit id, a tag, or a number or time of `main`.

        Raises:
            CommitNotFound: no live branch has the commit.
        """
        if at is None:
            return self.source
        self._gate.require(Action.READ)
        return self._graph.schemas.source(find_commit(self._graph.lines, at).schema_hash)

    def plan(self, source: str | Path, *, allow_data_loss: bool = False) -> SchemaPlan:
        """The steps from the schema of `main` to another; nothing is written.

        Args:
            source: the desired schema: `.pg` text, or the `Path` of a file.
            allow_data_loss: plan drops that remove data for good.

        Raises:
            SchemaInvalid: the desired schema does not compile.
        """
        self._gate.require(Action.READ)
        return plan_schema(self._graph, schema_text(source), allow_data_loss=allow_data_loss)

    def apply(
        self, source_or_plan: str | Path | SchemaPlan, *, allow_data_loss: bool = False
    ) -> SchemaApplied:
        """Bring `main` to a schema as one commit; nothing is done if the graph has it already.

        Args:
            source_or_plan: `.pg` text, the `Path` of a file, or what `plan` gave: a plan is refused
                when the schema changed since.
            allow_data_loss: drops remove data for good.

        Raises:
            SchemaInvalid: the desired schema does not compile.
            SchemaRefused: a step is not supported, rows break a new constraint, or stored queries
                of this graph would not compile any more.
            SchemaApplyBlocked: other branches live.
            ReadSetChanged: the plan is of another schema, or writers of `main` were always faster.
            BranchBusy: another process holds the lease of the schema.
        """
        self._gate.require(Action.SCHEMA_APPLY, target=MAIN_BRANCH)
        self._graph.require_writable()
        wanted = source_or_plan
        return apply_schema(
            self._graph,
            wanted if isinstance(wanted, SchemaPlan) else schema_text(wanted),
            allow_data_loss=allow_data_loss,
            actor_id=self._gate.actor,
            dependents=self._dependents,
        )


class GraphMaintenance:
    """`graph.maintenance`."""

    def __init__(
        self, coordinator: GraphCoordinator, actor: str | None, settings: Settings
    ) -> None:
        self._graph = coordinator
        self._actor = actor
        self._staging_ttl_days = settings.pipeline.staging_ttl_days
        self._lanes = MaintenanceLanes(coordinator, settings, actor)
        self._background: BackgroundMaintenance | None = None

    def ensure_indices(
        self,
        *,
        types: Iterable[str] | None = None,
        branch: str = MAIN_BRANCH,
        engine: Literal["auto", "local", "spark"] = "auto",
        shared_filesystem: bool = False,
        progress: Progress | None = None,
    ) -> IndexReport:
        """Build the declared indexes that are missing or stale, in at most one commit.

        Args:
            types: only of these types, `Person` or `node:Person`; all without it.
            branch: where to build them.
            engine: the lane, which changes no result. `auto` takes Spark, if it is installed, when
                a table has more than 64 fragments or 10 million rows to work on.
            shared_filesystem: on Spark, every executor sees the path of the graph, although it is
                local.
            progress: told a `StageProgress` (`omnigraph.graph.jobs.stage_progress`) for every
                table, or on Spark every task, that is done.

        Raises:
            ReadOnlyGraph: the graph is open read-only.
            InvalidArgument: there is no such type or engine.
            BranchNotFound: there is no such branch.
            RecoveryBlocked: an interrupted write of the branch cannot be settled.
            SparkNotInstalled, SparkUnavailable, PipelineTaskError, ExecutorMismatch: Spark could
                not do it.
        """
        self._graph.require_writable()
        request = request_of(types, branch, joins=False, shared_filesystem=shared_filesystem)
        return self._lanes.ensure_indices(request, engine, progress)

    def optimize(
        self,
        *,
        types: Iterable[str] | None = None,
        branch: str = MAIN_BRANCH,
        target_rows: int | None = None,
        engine: Literal["auto", "local", "spark"] = "auto",
        shared_filesystem: bool = False,
        progress: Progress | None = None,
    ) -> OptimizeReport:
        """Join small fragments and bring indexes up to date, in at most one commit.

        No row changes, and no version is removed.

        Args:
            types: only of these types, `Person` or `node:Person`; all without it.
            branch: whose tables.
            target_rows: how many rows a fragment is to have; 1,048,576 without it.
            engine: the lane, which changes no result. `auto` takes Spark, if it is installed, when
                a table has more than 64 fragments or 10 million rows to work on.
            shared_filesystem: on Spark, every executor sees the path of the graph, although it is
                local.
            progress: told a `StageProgress` (`omnigraph.graph.jobs.stage_progress`) for every
                table, or on Spark every task, that is done.

        Raises:
            ReadOnlyGraph: the graph is open read-only.
            InvalidArgument: there is no such type or engine, or the target is not positive.
            BranchNotFound: there is no such branch.
            RecoveryBlocked: an interrupted write of the branch cannot be settled.
            SparkNotInstalled, SparkUnavailable, PipelineTaskError, ExecutorMismatch: Spark could
                not do it.
        """
        self._graph.require_writable()
        request = request_of(
            types,
            branch,
            joins=True,
            target_rows=target_rows,
            shared_filesystem=shared_filesystem,
        )
        return self._lanes.optimize(request, engine, progress)

    def status(self, *, branch: str | None = None) -> MaintenanceStatus:
        """What is due on the tables of a branch, or of all live ones; reads metadata only.

        Raises:
            BranchNotFound: there is no such branch.
        """
        return maintenance_status(self._graph, branch)

    def unsettled_writes(self) -> int:
        """How many writes have begun to commit and are not settled; one listing, nothing is read.

        A write that commits right now is one of them for a moment. One that stays has lost its
        writer, and waits for the next write to its branch or the next open.
        """
        return self._graph.sidecars.count()

    def run_due(self, *, progress: Progress | None = None) -> MaintenanceRound:
        """Do what is due now, unless another process is at it.

        Joins fragments, brings lagging indexes up to date, and removes versions of tables that are
        older than the retention of the settings and that nobody needs. What fails is listed under
        `errors` of the result, and the next call tries it again.

        Args:
            progress: told a `StageProgress` for every table that is done.

        Raises:
            ReadOnlyGraph: the graph is open read-only.
        """
        self._graph.require_writable()
        return run_due(self._graph, work_days=self._staging_ttl_days, progress=progress)

    def start(self, *, every_s: float = 60.0) -> None:
        """Do what is due in a thread of this process, now and after every pause, until `stop`.

        Closing the graph stops it, too. A second call takes the place of the first.

        Raises:
            ReadOnlyGraph: the graph is open read-only.
            InvalidArgument: the pause is none, or the graph is closed.
        """
        self._graph.require_writable()
        self.stop()
        days = self._staging_ttl_days
        self._background = BackgroundMaintenance(self._graph, every_s, work_days=days)

    def stop(self) -> None:
        """Begin no other round, and wait for the one that runs; nothing if there is none."""
        if self._background is not None:
            self._background.stop()
            self._background = None

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: timedelta | str | None = None,
        confirm: bool = False,
        progress: Progress | None = None,
    ) -> CleanupReport:
        """Remove old versions of tables, and what dead processes left.

        What heads, branches, tags, running jobs and recoveries need always stays; so do the newest
        three versions of each table, and what was in force within the last ten minutes.

        Args:
            keep: how many of the newest versions of each table stay; below 3 it acts as 3.
            older_than: what was in force within this time stays: a `timedelta`, or `'7d'` (`s m h d
                w`). With `keep`, a version goes only if both allow it.
            confirm: without it nothing is removed, and the report tells what would be.
            progress: told a `StageProgress` for every table that is done.

        Raises:
            ReadOnlyGraph: the graph is open read-only, and `confirm` is given.
            InvalidArgument: neither `keep` nor `older_than` is given, or one makes no sense.
            BranchBusy: another cleanup runs.
            RecoveryBlocked: an interrupted write of a branch cannot be settled.
        """
        if confirm:
            self._graph.require_writable()
        return cleanup(
            self._graph,
            parse_policy(keep, older_than, work_days=self._staging_ttl_days),
            confirm=confirm,
            progress=progress,
        )

    def repair(
        self,
        *,
        confirm: bool = False,
        force: Literal["adopt", "discard"] | None = None,
        progress: Progress | None = None,
    ) -> RepairReport:
        """Look for tables that something outside has moved, on every branch, and repair them.

        Args:
            confirm: roll back what late writers left, and publish versions that change no row.
            force: what becomes of anything else from outside: `discard` restores what the graph
                shows, `adopt` publishes what the table shows, if it breaks no rule.
            progress: told a `StageProgress` for every branch.

        Raises:
            ReadOnlyGraph: the graph is open read-only, and `confirm` is given.
            InvalidArgument: `force` is unknown, or given without `confirm`.
            BranchBusy: a branch is written to all the time.
        """
        if confirm:
            self._graph.require_writable()
        return repair(
            self._graph, confirm=confirm, force=force, actor_id=self._actor, progress=progress
        )

    def verify(
        self,
        *,
        branch: str | None = None,
        deep: bool = False,
        progress: Progress | None = None,
    ) -> VerifyReport:
        """Check the history, the tables, the rules and the indexes of the graph; writes nothing.

        Args:
            branch: only this one; all without it.
            deep: also read every column and the end of every file of blobs, open older versions,
                and look for their files and for those that nothing names.
            progress: told a `StageProgress` for every table.

        Raises:
            BranchNotFound: there is no such branch.
        """
        return verify(self._graph, branch=branch, deep=deep, progress=progress)

    def recoveries(self, *, branch: str | None = None, limit: int = 100) -> list[RecoveryRecord]:
        """What recoveries did on a branch, or on all live ones, newest first.

        Raises:
            BranchNotFound: there is no such branch.
            InvalidArgument: the limit is not positive.
        """
        return list_recoveries(self._graph.lines, branch, limit)
