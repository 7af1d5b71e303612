"""What is asked of a load in either lane, and the receipt that both give for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from omnigraph.graph.commit.txn import WriteRequest
from omnigraph.graph.history.commit_graph import commit_of
from omnigraph.graph.jobs.report import JobReport, LoadMode, RejectReport
from omnigraph.graph.load.load_stats import committed_rejects
from omnigraph.graph.load.reject_options import RejectOptions
from omnigraph.graph.manifest.intent import SidecarKind
from omnigraph.settings import MergeStrategy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from omnigraph.graph.jobs.report import StageReport, TableReport
    from omnigraph.graph.load.load_branch import LoadBranch
    from omnigraph.graph.manifest.rows import CommitRow
    from omnigraph.ids import BranchName


_NOTHING_REPLACED: Final = (
    "the input has no rows: an overwrite replaces the types that rows are of, so it replaced none"
)


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
    rejects: RejectOptions = field(default_factory=RejectOptions)

    @property
    def digested(self) -> str:
        """What of the options tells one request from another."""
        action = " quarantine" if self.rejects.sets_aside else ""
        return f"load {self.mode} {self.embed}{action}\n"

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
        merge_strategy: MergeStrategy = MergeStrategy.DRIVER,
        already_loaded: bool = False,
        dry_run: bool = False,
        rejects: RejectReport | None = None,
        warnings: Sequence[str] = (),
    ) -> JobReport:
        """The receipt; without a row nothing was committed, with one it tells the rejects."""
        told = committed_rejects(row.stats) if row is not None else rejects or RejectReport()
        if (
            self.mode is LoadMode.OVERWRITE
            and row is None
            and not any(each.read for each in tables)
        ):
            warnings = (*warnings, _NOTHING_REPLACED)
        return JobReport(
            operation_id=None if row is None else row.operation_id,
            commit=None if row is None else commit_of(row),
            branch=self.branch,
            base_branch=branch.base,
            branch_created=branch.was_created,
            mode=self.mode.value,
            engine=engine,
            merge_strategy=merge_strategy.value if self.mode is LoadMode.MERGE else None,
            already_loaded=already_loaded,
            dry_run=dry_run,
            actor_id=self.actor_id,
            tables=tuple(tables),
            violations=told.violations,
            rejects_uri=told.uri,
            stages=tuple(stages),
            warnings=tuple(warnings),
        )
