"""Merging a branch into another: planned as a whole, then one commit with two parents.

The merge is of the commit that was the head of the source when it began. Everything is decided and
checked before anything is staged. The data ends up on the target's own line, so nothing depends on
the source afterwards. If the target moves meanwhile, the merge is refused, and may be sent again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from omnigraph.errors import (
    BranchNotFound,
    InvalidArgument,
    OmnigraphError,
    SchemaDiverged,
    SnapshotReclaimed,
)
from omnigraph.failpoints import maybe_fail
from omnigraph.graph.blobs.addresses import DENY_ALL
from omnigraph.graph.blobs.blob_values import BlobBudget
from omnigraph.graph.commit.txn import MergedHistory, PreparedWrite, WriteRequest, checked_key
from omnigraph.graph.history.branches import Branches
from omnigraph.graph.history.commit_graph import commit_of
from omnigraph.graph.manifest.intent import ParentRule, SidecarKind, copy_commit
from omnigraph.graph.merge.commit_states import CommitStates, telling_deleted
from omnigraph.graph.merge.conflicts import (
    REPORTED_CONFLICTS,
    refuse_conflicts,
)
from omnigraph.graph.merge.decisions import Decisions
from omnigraph.graph.merge.joined_tables import Joined, JoinedTables, join_tables
from omnigraph.graph.merge.merge_plan import MergePlan
from omnigraph.graph.merge.merge_result import MergeResult, Outcome
from omnigraph.graph.merge.resolutions import parse_strategy, require_known_types
from omnigraph.graph.query.call_scope import note_replay
from omnigraph.limits import MAX_SIDECAR_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.graph.blobs.addresses import ExternalBlobs
    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.intent import CopiedCommit
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.rows import CommitRow
    from omnigraph.graph.merge.resolutions import Resolution

MOST_COPIED_COMMITS: Final = 10_000
_RECORDED_DECISIONS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """What is to be merged, and how conflicts are decided."""

    source: str
    into: str
    strategy: str = "fail"
    resolutions: Mapping[tuple[str, str], Resolution] = field(default_factory=dict)
    """By type and id."""
    delete_branch: bool = False
    if_commit: str | None = None
    idempotency_key: str | None = None
    actor_id: str | None = None
    external_blobs: ExternalBlobs = DENY_ALL
    """The addresses that rows of resolutions may have."""


def plan_merge(graph: GraphCoordinator, request: MergeRequest) -> MergePlan:
    """What a merge would do now.

    Raises:
        BranchNotFound, InvalidArgument, SchemaDiverged: it cannot be done at all.
    """
    run = _MergeRun(graph, request)
    txn = graph.protocol.capture(run.write_request, graph.clock.now_us())
    work = run.work(txn)
    return MergePlan(
        source=request.source,
        target=request.into,
        outcome=work.outcome,
        source_commit_id=run.source.head.commit_id,
        target_commit_id=txn.line.head.commit_id,
        base_commit_id=work.base_commit_id,
        tables=work.joined.counts,
        conflict_list=tuple(work.joined.conflicts[:REPORTED_CONFLICTS]),
        conflict_count=work.joined.conflict_count,
    )


def run_merge(graph: GraphCoordinator, request: MergeRequest) -> MergeResult:
    """Merge, and delete the source if asked to.

    Raises:
        BranchNotFound, InvalidArgument, SchemaDiverged: it cannot be done at all.
        MergeConflicts: both sides changed the same, or the merged graph breaks a rule.
        ExternalBlobDenied, ExternalBlobSource: an address that a resolution gives.
        ReadSetChanged: the target moved meanwhile; nothing was changed.
        PreconditionFailed: the head of the target is not `if_commit`.
    """
    try:
        run = _MergeRun(graph, request)
    except BranchNotFound:
        # The request may be sent again after its first send merged and deleted the source.
        receipt = _receipt(graph, request)
        if receipt is None:
            raise
        note_replay()
        return _result(request, receipt, deleted=True if request.delete_branch else None)
    row = graph.protocol.run(run.write_request, run.prepare)
    if not request.delete_branch:
        return _result(request, row)
    deleted, error = _deleted(graph, run, row)
    return _result(request, row, deleted=deleted, error=error)


def _receipt(graph: GraphCoordinator, request: MergeRequest) -> CommitRow | None:
    """The commit that the same request with the same key made, if there is one."""
    key = checked_key(request.idempotency_key)
    if key is None:
        return None
    line = graph.lines.read(graph.branch_id(request.into))
    row = line.commit_of_key(key, request.into)
    return row if row is not None and row.request_digest == _digest(request) else None


def _result(
    request: MergeRequest,
    row: CommitRow | None,
    *,
    deleted: bool | None = None,
    error: str | None = None,
) -> MergeResult:
    outcome = Outcome.ALREADY_UP_TO_DATE
    if row is not None:
        outcome = Outcome(row.stats.get("merge", {}).get("outcome", Outcome.MERGED))
    return MergeResult(
        source=request.source,
        target=request.into,
        outcome=outcome,
        commit=None if row is None else commit_of(row),
        actor_id=request.actor_id,
        branch_deleted=deleted,
        branch_delete_error=error,
    )


def _deleted(
    graph: GraphCoordinator, run: _MergeRun, row: CommitRow | None
) -> tuple[bool, str | None]:
    """Delete the branch that was merged, unless it moved on; the merge stands in any case.

    A request that is sent again is answered with the commit of the first, which merged what the
    source had then.
    """
    merged = run.source.head.commit_id if row is None else row.merged_parent
    try:
        Branches(graph).delete(
            run.request.source,
            if_commit=merged,
            branch_id=run.source.branch_id,
        )
    except OmnigraphError as error:
        return False, error.message
    return True, None


def _digest(request: MergeRequest) -> str:
    """What a request asks for; the same for the same request, also when the source is gone."""
    decided = [
        [*key, choice.take.value, dict(choice.row or {})]
        for key, choice in sorted(request.resolutions.items())
    ]
    content = ["merge", request.source, request.strategy, decided]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class _Work:
    """A merge as planned against one state of the target."""

    outcome: Outcome
    base_commit_id: str | None = None
    commits: tuple[CommitRow, ...] = ()
    """Those of the source that the target does not reach, the highest first."""
    joined: JoinedTables = field(default_factory=JoinedTables)


class _MergeRun:
    """One merge: the captured source, and how it is prepared against a target."""

    def __init__(self, graph: GraphCoordinator, request: MergeRequest) -> None:
        if request.source == request.into:
            raise InvalidArgument(
                f"the branch {request.source!r} cannot be merged into itself", argument="source"
            )
        self.request = request
        self._graph = graph
        self._strategy = parse_strategy(request.strategy)
        self.source: ManifestLine = graph.lines.read(graph.branch_id(request.source))
        self.decisions = Decisions()
        self._blobs = BlobBudget(request.external_blobs)
        self.write_request = WriteRequest(
            kind=SidecarKind.BRANCH_MERGE,
            branch=graph.lines.live_branch_ids()[graph.branch_id(request.into)],
            actor_id=request.actor_id,
            if_commit=request.if_commit,
            parent_rule=ParentRule.EXACT,
            idempotency_key=checked_key(request.idempotency_key),
            request_digest=_digest(request),
        )

    def prepare(self, txn: WriteTxn) -> PreparedWrite:
        """The merge on the captured state of the target, staged."""
        work = self.work(txn)
        if work.outcome is Outcome.ALREADY_UP_TO_DATE:
            return PreparedWrite()
        refuse_conflicts(
            work.joined.conflicts,
            work.joined.conflict_count,
            f"{self.request.source!r} cannot be merged into {self.request.into!r}",
        )
        maybe_fail("branch_merge.post_classify")
        decided = self.decisions.decided
        facts: dict[str, Any] = {
            "source": self.request.source,
            "source_commit": self.source.head.commit_id,
            "base_commit": work.base_commit_id,
            "outcome": work.outcome.value,
            "strategy": self._strategy.value,
        }
        if decided:
            facts |= {"decided": decided[:_RECORDED_DECISIONS], "decided_count": len(decided)}
        return PreparedWrite(
            staged=work.joined.stage(txn),
            is_strict=True,
            merged=self._history(work.commits),
            stats={"merge": facts},
        )

    def work(self, txn: WriteTxn) -> _Work:
        """What the merge does to this state of the target.

        Raises:
            BranchNotFound: the source or the target was deleted meanwhile.
            SnapshotReclaimed: something else is gone that the merge needs.
        """
        used = {self.request.source: self.source, self.request.into: txn.line}
        with telling_deleted(self._graph.lines, used):
            return self._planned(txn)

    def _planned(self, txn: WriteTxn) -> _Work:
        require_known_types(self.request.resolutions, txn.catalog)
        self.decisions = Decisions(
            strategy=self._strategy,
            resolutions=self.request.resolutions,
            blobs=self._blobs.again(),
        )
        states = CommitStates(self._graph, txn.line, self.source)
        divergence = states.divergence
        if not divergence.only_theirs:
            self.decisions.require_all_used()
            return _Work(outcome=Outcome.ALREADY_UP_TO_DATE)
        self._require_one_schema(txn.line)
        base, shown_by = divergence.base, divergence.shown_by
        if base is None or shown_by is None:
            raise SnapshotReclaimed(
                f"no commit that {self.request.source!r} and {self.request.into!r} have in common"
                " can be read any more, so they cannot be merged; export one and load it"
            )
        is_forward = base.commit_id == txn.line.head.commit_id
        head = self.source.head_commit
        joined = Joined(
            base=states.open(shown_by),
            theirs=states.open(head),
            is_cautious=divergence.is_cautious,
            entrances=states.entrances,
            find_written=lambda: states.written_since(base, head),
        )
        tables = join_tables(txn, joined, self.decisions)
        self.decisions.blobs.probe()
        return _Work(
            outcome=Outcome.FAST_FORWARD if is_forward else Outcome.MERGED,
            base_commit_id=base.commit_id,
            commits=divergence.only_theirs,
            joined=tables,
        )

    def _require_one_schema(self, target: ManifestLine) -> None:
        ours, theirs = target.schema.schema_hash, self.source.schema.schema_hash
        if ours != theirs:
            raise SchemaDiverged(
                f"{self.request.source!r} has another schema than {self.request.into!r}; branches"
                " with different schemas cannot be merged",
                source_commit=self.source.head.commit_id,
                target_commit=target.head.commit_id,
            )

    def _history(self, commits: tuple[CommitRow, ...]) -> MergedHistory:
        """The commits that the target gets to know; of very many the oldest are left out.

        They travel in the sidecar, which has a bound.
        """
        copied: list[CopiedCommit] = []
        size_bytes = 0
        for row in commits[:MOST_COPIED_COMMITS]:
            commit = copy_commit(row, self.source.branch_id)
            size_bytes += len(msgspec.json.encode(commit))
            if size_bytes > MAX_SIDECAR_BYTES // 2:
                break
            copied.append(commit)
        return MergedHistory(parent=self.source.head_commit, commits=tuple(copied))
