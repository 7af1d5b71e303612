"""A load on Spark, stage by stage: list, intake, check, resolve, commit, report.

The commit protocol prepares it like any other write. What was taken in is kept over its attempts:
when others were faster, only the checks and what follows run again.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from omnigraph.failpoints import maybe_fail
from omnigraph.graph.commit.read_set import AllRows
from omnigraph.graph.commit.txn import PreparedWrite, WriteRequest
from omnigraph.graph.history.snapshot import open_snapshot
from omnigraph.graph.jobs.pins import pin_for_job
from omnigraph.graph.jobs.report import JobReport, LoadMode, TableReport
from omnigraph.graph.jobs.stage_times import StageTimes
from omnigraph.graph.load.load_branch import LoadBranch, load_branch, readable_branch
from omnigraph.graph.load.load_stats import committed_tables, load_stats
from omnigraph.graph.load.reject_files import RejectFiles
from omnigraph.graph.manifest.publisher import require_head
from omnigraph.graph.manifest.table_refs import key_of
from omnigraph.ids import BranchName, new_operation_id
from omnigraph.pipeline.checks.driver_checks import DRIVER_ROWS
from omnigraph.pipeline.checks.staged_questions import StagedExistence, StagedRows
from omnigraph.pipeline.load.check import LoadCheck
from omnigraph.pipeline.load.input import LoadInput
from omnigraph.pipeline.load.leftovers import LoadLeftovers
from omnigraph.pipeline.load.load_run import LoadRun
from omnigraph.pipeline.load.receipts import repeat_receipt
from omnigraph.pipeline.load.small_files import small_files
from omnigraph.pipeline.sources.sources import files_of
from omnigraph.pipeline.spark.handshake import require_executors_of
from omnigraph.pipeline.spark.stage_runner import StageRunner
from omnigraph.pipeline.staging.detached_views import StagedViews
from omnigraph.pipeline.staging.job_files import StagedFiles
from omnigraph.pipeline.upsert.distributed import DistributedUpsert
from omnigraph.pipeline.upsert.strategy import Upserts
from omnigraph.storage.staged_fragments import PieceKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from omnigraph.graph.blobs.addresses import ExternalBlobs
    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.load.options import LoadOptions
    from omnigraph.graph.manifest.rows import CommitRow, TableRef
    from omnigraph.pipeline.intake.driver import InputIntake
    from omnigraph.pipeline.sources.sources import LoadSource
    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.settings import Settings
    from omnigraph.storage.handles import StagedWrite, TableHandle

ATTEMPTS: Final = 4
"""The first preparation, and three more when others were faster."""


class SparkLoad:
    """One run of one load; without a session everything happens in this process."""

    def __init__(
        self,
        graph: GraphCoordinator,
        session: PipelineSession | None,
        settings: Settings,
        sources: Sequence[LoadSource],
        options: LoadOptions,
        *,
        external: ExternalBlobs,
        stats: Mapping[str, object] | None = None,
        digest: str | None = None,
        progress: Progress | None = None,
        started: Callable[[str], None] | None = None,
        operation_id: str | None = None,
        resume: str | None = None,
        shared_filesystem: bool = False,
        driver_rows: int = DRIVER_ROWS,
    ) -> None:
        if session is not None:
            session.require_access(graph.storage.location, shared_filesystem=shared_filesystem)
            paths = [file.uri for file in files_of(sources)]
            session.require_files(paths, shared_filesystem=shared_filesystem)
        job_id = resume or operation_id or new_operation_id(graph.ids)
        self._run = LoadRun(
            graph=graph,
            session=session,
            settings=settings,
            options=options,
            operation_id=job_id,
            runner=StageRunner(session, progress),
            times=StageTimes(graph.clock),
        )
        self._stats = stats or {}
        self._given_digest = digest
        self._started = started
        self._took_over = resume is not None
        self._pin = pin_for_job(
            graph, settings.storage, operation_id=job_id, kind="load", owner=options.actor_id
        )
        self._views = StagedViews(graph.storage)
        self._upserts = Upserts(
            store=graph.tables, settings=settings.pipeline, distributed=_distributed(self._run)
        )
        self._reject_files = RejectFiles(options.rejects, graph.storage.location)
        self._input = LoadInput(self._run, sources, external=external, resumes=self._took_over)
        self._check = LoadCheck(self._run, self._views, self._reject_files, driver_rows=driver_rows)
        self._staged = StagedFiles()
        self._leftovers = LoadLeftovers(
            self._run,
            self._input,
            self._views,
            self._upserts,
            self._staged,
            took_over=self._took_over,
        )
        self._reports: list[TableReport] = []
        self._small_files: list[str] = []
        self._operations: set[str] = set()
        self._is_handed_over = False
        self._is_done = False
        self._prepared_for: str | None = None

    def report(self) -> JobReport:
        """Run it and tell what it did."""
        graph, options = self._run.graph, self._run.options
        with self._opened() as leaving:
            done = self._leftovers.take_over() if self._took_over else None
            if done is not None:
                self._is_done = True
                return repeat_receipt(done, None, options)
            if self._started is not None:
                self._started(self._run.operation_id)
            maybe_fail("spark_load.post_open")
            self._list()
            maybe_fail("spark_load.post_list")
            branch = leaving.enter_context(
                load_branch(graph, options.branch, options.from_, actor_id=options.actor_id)
            )
            try:
                row = graph.protocol.run(self._write_request(options.branch), self._prepare)
            except BaseException:
                # Once they are handed over, a recovery may still commit them.
                if not self._is_handed_over:
                    self._leftovers.remove_files()
                raise
            self._remove_leftovers(row)
            self._is_done = row is not None
            small = self._small_files if row and row.operation_id == self._prepared_for else ()
            warnings = (*self._input.warnings, *self._reject_files.finish(row), *small)
            self._run.enter(None)
        report = options.report(
            "spark",
            branch,
            self._untaken() if row is None else committed_tables(row.stats),
            self._run.times.reports(),
            row,
            rejects=self._check.rejects,
            merge_strategy=self._upserts.strategy,
            # The first receipt of the same key came back.
            already_loaded=row is not None and row.operation_id not in self._operations,
        )
        return replace(report, warnings=(*report.warnings, *warnings))

    def rehearse(self) -> JobReport:
        """Check everything and tell what a run would do; nothing stays."""
        graph, options = self._run.graph, self._run.options
        self._run.is_rehearsal = True
        with self._opened() as leaving:
            self._list()
            leaving.callback(self._leftovers.remove_files)
            branch = readable_branch(graph, options.branch, options.from_)
            txn = graph.protocol.capture(
                self._write_request(BranchName(branch)), graph.clock.now_us()
            )
            require_head(options.if_commit, txn.line)
            intake = self._checked(txn, {ref: txn.readable(ref) for ref in txn.tables.types})
            tables = sorted(
                (self._foreseen(txn, ref, intake) for ref in self._views.views),
                key=lambda each: each.order,
            )
            self._run.enter(None)
        return options.report(
            "spark",
            LoadBranch(name=options.branch, base=options.from_),
            tables,
            self._run.times.reports(),
            merge_strategy=self._upserts.strategy,
            dry_run=True,
            rejects=self._check.rejects,
        )

    @contextmanager
    def _opened(self) -> Iterator[ExitStack]:
        """The pin and the session of a run, and what must go when it ends."""
        with ExitStack() as leaving:
            leaving.push(self._leave)
            leaving.enter_context(self._pin)
            if self._run.session is not None:
                leaving.enter_context(self._run.session.configured())
            yield leaving

    def _leave(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: object
    ) -> None:
        self._leftovers.clear(is_done=self._is_done, is_open=self._is_handed_over)
        if error is not None and self._leftovers.removed:
            counted = f"{self._leftovers.removed:,} staged files of {self._run.operation_id}"
            error.add_note(f"{counted} were removed")

    def _untaken(self) -> list[TableReport]:
        """What is told of a load that committed nothing: the rows that it rejected."""
        if not self._check.rejects.violations:
            return []
        return sorted(self._reports, key=lambda each: each.order)

    def _list(self) -> None:
        """Find the inputs, before anything is made for them."""
        graph, options = self._run.graph, self._run.options
        self._run.enter("list")
        branch = readable_branch(graph, options.branch, options.from_)
        self._input.find(open_snapshot(graph, None, branch).catalog)
        if self._run.session is not None:
            require_executors_of(self._run.root, self._run.session, self._run.runner)

    def _write_request(self, branch: BranchName) -> WriteRequest:
        def digest() -> str:
            return self._given_digest or self._input.digest

        request = self._run.options.write_request(branch, digest, ATTEMPTS)
        # A load that goes on elsewhere and the one that was thought dead cannot both commit.
        return replace(request, job=self._run.operation_id)

    def _prepare(self, txn: WriteTxn) -> PreparedWrite:
        mode = self._run.options.mode
        self._is_handed_over = False
        self._staged.start_over()
        self._operations.add(txn.operation_id)
        intake = self._checked(txn, {ref: txn.writable(ref) for ref in txn.tables.types})
        self._run.enter("resolve")
        staged: list[StagedWrite] = []
        reports: list[TableReport] = []
        for ref in self._views.views:
            write = self._stage(txn, ref) if self._check.is_written(ref) else None
            report = self._resolved(txn, ref, intake, write)
            report.require_balance()
            staged += [] if write is None else [self._staged.follow(write)]
            reports.append(report)
        self._reports = reports
        rows_per_file = self._run.settings.pipeline.rows_per_file
        tables = self._run.graph.tables
        self._small_files = list(small_files(tables, staged, rows_per_file=rows_per_file))
        maybe_fail("spark_load.post_resolve")
        self._run.enter("commit")
        self._prepared_for = txn.operation_id
        return PreparedWrite(
            staged=tuple(staged),
            handing_over=self._hand_over,
            is_strict=mode is LoadMode.OVERWRITE,
            stats={
                "load": {"job": self._run.operation_id}
                | load_stats(mode, reports, self._check.rejects),
                **self._stats,
            },
        )

    def _hand_over(self) -> None:
        self._is_handed_over = True

    def _checked(self, txn: WriteTxn, bases: Mapping[TableRef, TableHandle]) -> InputIntake:
        """Everything taken in and found valid, readable through the views."""
        self._pin.hold(bases.values())
        intake, plan = self._input.taken(txn, bases)
        self._check.check(txn, bases, intake, plan)
        return intake

    def _stage(self, txn: WriteTxn, ref: TableRef) -> StagedWrite:
        view, store = self._views.views[ref], self._run.graph.tables
        mode = self._run.options.mode
        if mode is LoadMode.OVERWRITE:
            txn.read_set.ask(ref, AllRows())
            return store.stage_pieces(view.base, PieceKind.OVERWRITE, view.pieces, txn.stamp)
        if mode is LoadMode.APPEND or txn.line.pins[ref].row_count == 0:
            if mode is LoadMode.MERGE:
                # There was nothing to merge into, so nobody has looked for the ids.
                txn.read_set.ask(ref, StagedExistence(StagedRows(store, view)))
            return store.stage_pieces(view.base, PieceKind.APPEND, view.pieces, txn.stamp)
        return self._upserts.stage(view, txn.stamp)

    def _resolved(
        self, txn: WriteTxn, ref: TableRef, intake: InputIntake, staged: StagedWrite | None
    ) -> TableReport:
        """What a run does to a table."""
        return self._table_report(
            txn,
            ref,
            intake,
            added=0 if staged is None else staged.rows_added,
            changed=0 if staged is None else staged.rows_changed,
            removed=0 if staged is None else staged.rows_removed,
        )

    def _foreseen(self, txn: WriteTxn, ref: TableRef, intake: InputIntake) -> TableReport:
        """What a run would do to a table."""
        view, mode = self._views.views[ref], self._run.options.mode
        rows = sum(each.num_rows for each in view.pieces.added)
        changed = removed = 0
        if mode is LoadMode.OVERWRITE and self._check.is_written(ref):
            removed = txn.line.pins[ref].row_count
        elif mode is LoadMode.MERGE and txn.line.pins[ref].row_count:
            changed = self._views.count_existing(ref)
            self._upserts.choose(view)
        return self._table_report(
            txn, ref, intake, added=rows - changed, changed=changed, removed=removed
        )

    def _table_report(
        self,
        txn: WriteTxn,
        ref: TableRef,
        intake: InputIntake,
        *,
        added: int,
        changed: int,
        removed: int,
    ) -> TableReport:
        read, rejected = intake.rows_read(ref), self._check.rejected.get(ref, 0)
        return TableReport(
            table=key_of(txn.tables.types[ref]),
            read=read,
            added=added,
            changed=changed,
            removed=removed,
            rejected=rejected,
            superseded=read - rejected - intake.rows_staged(ref),
        )

    def _remove_leftovers(self, row: CommitRow | None) -> None:
        """Delete what tasks wrote and the commit did not take: rows that were merged, and the like.

        Of a commit that somebody else made, or an earlier attempt, it is not known what it took: a
        load that went on elsewhere takes the files of the one that was thought dead.
        """
        if row is None:
            self._leftovers.remove_files()
            return
        if row.operation_id == self._prepared_for:
            self._leftovers.remove_files(is_committed=True)
        self._leftovers.forget_paid()


def _distributed(run: LoadRun) -> DistributedUpsert | None:
    if run.session is None:
        return None
    return DistributedUpsert(
        session=run.session,
        runner=run.runner,
        times=run.times,
        storage=run.graph.storage,
        operation_id=run.operation_id,
    )
