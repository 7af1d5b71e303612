"""The inverse of one commit as a new commit.

A revert is a merge of the commit's parent with the commit as the base: what the commit changed is
changed back, unless somebody has changed the same entities since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import CommitHasNoParent, InvalidArgument, SchemaDiverged
from omnigraph.graph.commit.txn import PreparedWrite, WriteRequest
from omnigraph.graph.history.commit_graph import Commit, commit_of
from omnigraph.graph.history.snapshot import find_commit, open_snapshot
from omnigraph.graph.manifest.intent import ParentRule, SidecarKind
from omnigraph.graph.merge.commit_states import telling_deleted
from omnigraph.graph.merge.conflicts import refuse_conflicts
from omnigraph.graph.merge.contests import ContestTeller, told_of_revert
from omnigraph.graph.merge.decisions import Decisions
from omnigraph.graph.merge.joined_tables import Joined, join_tables

if TYPE_CHECKING:
    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator


def revert_commit(
    graph: GraphCoordinator,
    commit_id: str,
    *,
    branch: str,
    actor_id: str | None,
    if_commit: str | None = None,
) -> Commit | None:
    """Undo what one commit changed, on a branch that has it; `None` if it changed nothing.

    Of a merge everything is undone that it brought to its branch.

    Raises:
        CommitNotFound, BranchNotFound: there is no such commit or branch.
        CommitHasNoParent: it is the first one.
        InvalidArgument: the branch does not have the commit on its own line.
        MergeConflicts: later commits changed the same entities, or need them.
        SchemaDiverged: the schema changed since.
        SnapshotReclaimed: cleanup removed the commit or its parent.
        ReadSetChanged: the branch moved meanwhile; nothing was changed.
    """
    commit = find_commit(graph.lines, commit_id)
    if commit.parent_commit_id is None:
        raise CommitHasNoParent(
            f"commit {commit_id} is the first one and cannot be reverted",
            graph_commit_id=commit_id,
        )
    undone = open_snapshot(graph, commit_id, branch)
    before = open_snapshot(graph, commit.parent_commit_id, branch)

    def prepare(txn: WriteTxn) -> PreparedWrite:
        own = txn.line.commit(commit_id)
        if own is None or own.copied_from is not None:
            raise InvalidArgument(
                f"the branch {branch!r} has no commit {commit_id} of its own; revert it on the"
                f" branch {commit.graph_branch!r}, or revert the merge that brought it",
                argument="id",
            )
        if {before.schema_hash, undone.schema_hash} != {txn.line.schema.schema_hash}:
            raise SchemaDiverged(
                f"the schema changed with or since commit {commit_id}, so it cannot be reverted",
                source_commit=commit_id,
                target_commit=txn.line.head.commit_id,
            )
        with telling_deleted(graph.lines, {branch: txn.line}):
            joined = join_tables(
                txn,
                Joined(base=undone, theirs=before, may_be_decided=False),
                Decisions(teller=ContestTeller(told_of_revert)),
            )
        refuse_conflicts(
            joined.conflicts, joined.conflict_count, f"commit {commit_id} cannot be reverted"
        )
        return PreparedWrite(
            staged=joined.stage(txn), is_strict=True, stats={"revert": {"commit": commit_id}}
        )

    row = graph.protocol.run(
        WriteRequest(
            kind=SidecarKind.MUTATION,
            branch=graph.lines.live_branch_ids()[graph.branch_id(branch)],
            actor_id=actor_id,
            if_commit=if_commit,
            parent_rule=ParentRule.EXACT,
        ),
        prepare,
    )
    return None if row is None else commit_of(row)
