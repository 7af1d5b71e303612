"""What is asked of a load in either lane, and the receipt that both give for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.graph.commit_graph import commit_of
from omnigraph.graph.intent import SidecarKind
from omnigraph.graph.job_report import JobReport, LoadMode
from omnigraph.graph.write_txn import WriteRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from omnigraph.graph.job_report import StageReport, TableReport
    from omnigraph.graph.load_branch import LoadBranch
    from omnigraph.graph.rows import CommitRow
    from omnigraph.ids import BranchName


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """How rows are loaded, wherever they come from."""

    mode: LoadMode
    branch: BranchName
    from_: str | None = None
    """What a missing branch is forked from."""
    actor_id: str | None = None
    embed: bool = False
    """Vectors that may be null are filled too."""
    if_commit: str | None = None
    idempotency_key: str | None = None

    def write_request(
        self, branch: BranchName, digest: Callable[[], str], attempts: int | None = None
    ) -> WriteRequest:
        """The write; the digest of its input is made only for a key."""
        return WriteRequest(
            kind=SidecarKind.LOAD,
            branch=branch,
            actor_id=self.actor_id,
            if_commit=self.if_commit,
            idempotency_key=self.idempotency_key,
            request_digest=None if self.idempotency_key is None else digest(),
            attempts=attempts,
        )

    def report(
        self,
        engine: str,
        branch: LoadBranch,
        tables: Sequence[TableReport],
        stages: Sequence[StageReport],
        row: CommitRow | None = None,
        *,
        already_loaded: bool = False,
        dry_run: bool = False,
    ) -> JobReport:
        """The receipt; without a row nothing was committed."""
        return JobReport(
            operation_id=None if row is None else row.operation_id,
            commit=None if row is None else commit_of(row),
            branch=self.branch,
            base_branch=branch.base,
            branch_created=branch.was_created,
            mode=self.mode.value,
            engine=engine,
            merge_strategy="driver" if self.mode is LoadMode.MERGE else None,
            already_loaded=already_loaded,
            dry_run=dry_run,
            actor_id=self.actor_id,
            tables=tuple(tables),
            stages=tuple(stages),
        )
