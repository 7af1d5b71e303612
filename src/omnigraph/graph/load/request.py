"""What is asked of a load, in one value that every front end builds and every lane takes.

The receipt that a load gives is made here too: both lanes give the same one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Required, TypedDict

from omnigraph.errors import InvalidArgument
from omnigraph.graph.commit.txn import WriteRequest, checked_key
from omnigraph.graph.history.commit_graph import commit_of
from omnigraph.graph.jobs.report import JobReport, LoadMode, RejectReport
from omnigraph.graph.load.load_stats import committed_rejects, made_branch
from omnigraph.graph.load.reject_options import RejectOptions, parse_reject_options
from omnigraph.graph.manifest.intent import SidecarKind
from omnigraph.ids import MAIN_BRANCH, BranchName, OperationId
from omnigraph.settings import MergeStrategy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from omnigraph.graph.jobs.report import StageReport, TableReport
    from omnigraph.graph.load.load_branch import LoadBranch
    from omnigraph.graph.manifest.rows import CommitRow
    from omnigraph.settings import Settings

_NOTHING_REPLACED: Final = (
    "the input has no rows: an overwrite replaces the types that rows are of, so it replaced none"
)
_ULID: Final = re.compile("[0-9A-HJKMNP-TV-Z]{26}")


class LoadArguments(TypedDict, total=False):
    """What a caller may say of a load, wherever its rows come from; `Graph.load` explains it."""

    mode: Required[Literal["append", "merge", "update", "overwrite"]]
    partial: bool
    branch: str
    from_: str | None
    on_error: Literal["fail", "quarantine"]
    rejects: str | None
    max_rejects: int | None
    max_reject_ratio: float | None
    cascade: bool
    embed: bool
    dry_run: bool
    if_commit: str | None
    idempotency_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """How rows are loaded, wherever they come from."""

    mode: LoadMode
    branch: BranchName
    from_: str | None = None
    """What a missing branch is forked from."""
    actor_id: str | None = None
    partial: bool = False
    """A merge keeps the values that a row does not mention; an update always does."""
    embed: bool = False
    """Vectors that may be null are filled too."""
    if_commit: str | None = None
    idempotency_key: str | None = None
    rejects: RejectOptions = field(default_factory=RejectOptions)
    dry_run: bool = False
    """Everything is checked and told, and nothing stays."""
    resume: str | None = None
    """The operation of a load that was cut off."""

    @property
    def digested(self) -> str:
        """What of it tells one request from another."""
        action = " quarantine" if self.rejects.sets_aside else ""
        action += " cascade" if self.rejects.cascade else ""
        action += " partial" if self.partial else ""
        return f"load {self.mode} {self.embed}{action}\n"

    @property
    def keeps_values(self) -> bool:
        """What a row does not mention stays as it is."""
        return self.partial or self.mode is LoadMode.UPDATE

    def write_request(
        self,
        branch: BranchName,
        digest: Callable[[], str],
        *,
        attempts: int | None = None,
        job: str | None = None,
    ) -> WriteRequest:
        """The write; the digest of its input is made only for a key.

        Args:
            branch: where to write.
            digest: what tells the input from another.
            attempts: how often it is prepared; as often as others without it.
            job: what cannot be committed twice, whatever the key.
        """
        return WriteRequest(
            kind=SidecarKind.LOAD,
            branch=branch,
            actor_id=self.actor_id,
            if_commit=self.if_commit,
            idempotency_key=self.idempotency_key,
            request_digest=None if self.idempotency_key is None else digest(),
            attempts=attempts,
            job=job,
            # A resumed job may meet what the one before left under its own name.
            operation_id=None if job is None or self.resume else OperationId(job),
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
        rejects: RejectReport | None = None,
        warnings: Sequence[str] = (),
    ) -> JobReport:
        """The receipt; without a row nothing was committed, with one it tells the rejects."""
        told = committed_rejects(row.stats) if row is not None else rejects or RejectReport()
        if (
            self.mode is LoadMode.OVERWRITE
            and row is None
            and not any(table.read for table in tables)
        ):
            warnings = (*warnings, _NOTHING_REPLACED)
        return JobReport(
            operation_id=None if row is None else row.operation_id,
            commit=None if row is None else commit_of(row),
            branch=self.branch,
            base_branch=branch.base,
            branch_created=branch.was_created if row is None else made_branch(row.stats),
            mode=self.mode.value,
            engine=engine,
            merge_strategy=merge_strategy.value if self.mode.upserts else None,
            already_loaded=already_loaded,
            dry_run=self.dry_run,
            actor_id=self.actor_id,
            tables=tuple(tables),
            violations=told.violations,
            rejects_uri=told.uri,
            stages=tuple(stages),
            warnings=tuple(warnings),
        )


def parse_load_request(
    settings: Settings,
    actor_id: str | None,
    *,
    mode: str,
    branch: str = MAIN_BRANCH,
    from_: str | None = None,
    on_error: str = "fail",
    rejects: str | None = None,
    max_rejects: int | None = None,
    max_reject_ratio: float | None = None,
    cascade: bool = False,
    partial: bool = False,
    embed: bool = False,
    dry_run: bool = False,
    if_commit: str | None = None,
    idempotency_key: str | None = None,
    resume: str | None = None,
) -> LoadRequest:
    """The request of what a caller says; limits that are left out are those of the settings.

    Raises:
        InvalidArgument: a word, a limit, a key or an operation that there is not.
    """
    return LoadRequest(
        mode=LoadMode.parse(mode),
        partial=checked_partial(LoadMode.parse(mode), is_partial=partial),
        branch=BranchName(branch),
        from_=from_,
        actor_id=actor_id,
        embed=embed,
        if_commit=if_commit,
        rejects=parse_reject_options(
            settings,
            on_error=on_error,
            rejects=rejects,
            max_rejects=max_rejects,
            max_reject_ratio=max_reject_ratio,
            cascade=cascade,
        ),
        idempotency_key=checked_key(idempotency_key),
        dry_run=dry_run,
        resume=checked_operation(resume, dry_run=dry_run),
    )


def checked_partial(mode: LoadMode, *, is_partial: bool) -> bool:
    """Whether rows keep the values that the input leaves out.

    Raises:
        InvalidArgument: the mode writes whole rows only.
    """
    if is_partial and not mode.upserts:
        raise InvalidArgument(
            f"mode {mode} writes whole rows; `partial` is for mode merge (update always keeps what"
            " is not given)",
            argument="partial",
        )
    return is_partial


def checked_operation(operation_id: str | None, *, dry_run: bool = False) -> str | None:
    """The operation to go on with.

    Raises:
        InvalidArgument: no operation is named so, or nothing is to be written.
    """
    if operation_id is not None and dry_run:
        raise InvalidArgument(
            "a dry run leaves nothing and goes on with nothing; leave `resume` or `dry_run` out",
            argument="resume",
        )
    if operation_id is not None and not _ULID.fullmatch(operation_id):
        raise InvalidArgument(
            f"{operation_id!r} is no operation of a load; give the one that it told when it began",
            argument="resume",
        )
    return operation_id
