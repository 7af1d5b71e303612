"""A load on Spark, stage by stage: list, intake, check, resolve, commit, report.

The commit protocol prepares it like any other write. What was taken in is kept over its attempts:
when others were faster, only the checks and what follows run again.
"""

from __future__ import annotations

import hashlib
import logging
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from omnigraph.errors import InternalError, OmnigraphError
from omnigraph.failpoints import maybe_fail
from omnigraph.graph.job_pins import JobPin
from omnigraph.graph.job_report import JobReport, LoadMode, RejectReport, TableReport
from omnigraph.graph.load_branch import LoadBranch, load_branch, readable_branch
from omnigraph.graph.load_stats import committed_tables, load_stats
from omnigraph.graph.pipeline_history import find_load
from omnigraph.graph.publisher import require_head
from omnigraph.graph.reject_verdict import RejectVerdict
from omnigraph.graph.rejects import RejectFiles
from omnigraph.graph.snapshot import open_snapshot
from omnigraph.graph.stage_times import StageTimes
from omnigraph.graph.tables import key_of, ref_of
from omnigraph.graph.validation import gather, refuse_load
from omnigraph.graph.write_txn import PreparedWrite, WriteRequest
from omnigraph.ids import BranchName, new_operation_id
from omnigraph.lang.catalog import EdgeType
from omnigraph.pipeline.checks import LoadChecks
from omnigraph.pipeline.distributed_upsert import DistributedUpsert
from omnigraph.pipeline.driver_checks import DRIVER_ROWS, DriverChecks
from omnigraph.pipeline.handshake import require_matching_executors
from omnigraph.pipeline.input_intake import InputIntake
from omnigraph.pipeline.intake import IntakePlan, staging_folder
from omnigraph.pipeline.join_relations import JoinRelations
from omnigraph.pipeline.key_columns import unique_tuples
from omnigraph.pipeline.paid_vectors import PAID_FOLDER
from omnigraph.pipeline.progress import StageRunner
from omnigraph.pipeline.receipts import told_again
from omnigraph.pipeline.rejects import SparkRejects
from omnigraph.pipeline.resume import (
    KeptIntake,
    is_taken_over,
    keep_intake,
    kept_intake,
    remove_staging_of_both,
    state_of,
    take_over,
)
from omnigraph.pipeline.staged_tables import KeyFrames
from omnigraph.pipeline.staged_views import StagedViews
from omnigraph.pipeline.task_storage import TaskTable, open_task_storage
from omnigraph.pipeline.upsert import Upserts
from omnigraph.storage.pieces import PieceKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from omnigraph.graph.commit_graph import Commit
    from omnigraph.graph.coordinator import GraphCoordinator
    from omnigraph.graph.external_blobs import ExternalBlobs
    from omnigraph.graph.load_options import LoadOptions
    from omnigraph.graph.quarantine import Rejections, RelationRules
    from omnigraph.graph.rows import CommitRow, TableRef
    from omnigraph.graph.validation import Findings
    from omnigraph.graph.write_txn import WriteTxn
    from omnigraph.lang.catalog import Catalog
    from omnigraph.pipeline.job_inputs import JobInput
    from omnigraph.pipeline.load_sources import LoadSource
    from omnigraph.pipeline.progress import Progress
    from omnigraph.pipeline.session import PipelineSession
    from omnigraph.settings import Settings
    from omnigraph.storage.handles import StagedWrite, TableHandle

log = logging.getLogger(__name__)

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
        self._graph = graph
        self._session = session
        self._settings = settings
        self._sources = sources
        self._options = options
        self._operations: set[str] = set()
        self._external = external
        self._stats = stats or {}
        self._given_digest = digest
        self._driver_rows = driver_rows
        self._progress = progress
        self._runner = StageRunner(session, progress)
        self._operation_id = resume or operation_id or new_operation_id(graph.ids)
        self._resumes = self._took_over = resume is not None
        self._started = started
        self._warnings: list[str] = []
        if options.idempotency_key is None:
            # A load that goes on elsewhere and the one that was thought dead cannot both commit.
            self._options = replace(options, idempotency_key=f"load:{self._operation_id}")
        self._pin = JobPin(
            graph.storage.objects,
            graph.clock,
            operation_id=self._operation_id,
            kind="load",
            owner=options.actor_id,
            ttl_ms=settings.storage.lease_ttl_ms,
        )
        self._times = StageTimes(graph.clock)
        self._reject_files = RejectFiles(options.rejects, graph.storage.location)
        self._rejected: Mapping[TableRef, int] = {}
        self._rejects = RejectReport()
        self._reports: list[TableReport] = []
        self._inputs: list[JobInput] = []
        self._intake: InputIntake | None = None
        self._planned_for: str | None = None
        self._is_taken = False
        self._is_handed_over = False
        self._is_done = False
        self._prepared_for: str | None = None
        self._prepared_files: frozenset[str] = frozenset()
        self._is_rehearsal = False
        self._bases: Mapping[TableRef, TableHandle] = {}
        self._views = StagedViews(graph.storage)
        self._upserts = Upserts(
            store=graph.tables,
            settings=settings.pipeline,
            distributed=None
            if session is None
            else DistributedUpsert(
                session=session,
                runner=self._runner,
                times=self._times,
                root=str(graph.storage.location),
                operation_id=self._operation_id,
            ),
        )

    def report(self) -> JobReport:
        """Run it and tell what it did."""
        options = self._options
        if self._took_over:
            take_over(self._graph.storage, self._graph.clock, self._operation_id)
            done = self._committed_before()
            if done is not None:
                return told_again(done, None, options)
        if self._started is not None:
            self._started(self._operation_id)
        with ExitStack() as leaving:
            leaving.callback(self._clear)
            leaving.enter_context(self._pin)
            if self._session is not None:
                leaving.enter_context(self._session.configured())
            maybe_fail("spark_load.post_open")
            self._list()
            maybe_fail("spark_load.post_list")
            branch = leaving.enter_context(
                load_branch(self._graph, options.branch, options.from_, actor_id=options.actor_id)
            )
            try:
                row = self._graph.protocol.run(self._write_request(options.branch), self._prepare)
            except BaseException:
                # Once they are handed over, a recovery may still commit them.
                if not self._is_handed_over:
                    self._try_to_remove_files()
                raise
            self._remove_leftovers(row)
            if row is not None:
                self._forget_paid()
            self._is_done = True
            self._warnings += self._reject_files.finish(row)
            self._enter(None)
        report = options.report(
            "spark",
            branch,
            self._untaken() if row is None else committed_tables(row.stats),
            self._times.reports(),
            row,
            rejects=self._rejects,
            merge_strategy=self._upserts.strategy,
            # The first receipt of the same key came back.
            already_loaded=row is not None and row.operation_id not in self._operations,
        )
        return replace(report, warnings=(*report.warnings, *self._warnings))

    def _committed_before(self) -> Commit | None:
        """What the load that is to go on has committed after all."""
        branch = readable_branch(self._graph, self._options.branch, self._options.from_)
        line = self._graph.lines.read(self._graph.branch_id(branch))
        return find_load(line, self._operation_id)

    def rehearse(self) -> JobReport:
        """Check everything and tell what a run would do; nothing stays."""
        options = self._options
        with ExitStack() as leaving:
            leaving.callback(self._clear)
            leaving.enter_context(self._pin)
            if self._session is not None:
                leaving.enter_context(self._session.configured())
            self._list()
            leaving.callback(self._try_to_remove_files)
            branch = readable_branch(self._graph, options.branch, options.from_)
            txn = self._graph.protocol.capture(
                self._write_request(BranchName(branch)), self._graph.clock.now_us()
            )
            require_head(options.if_commit, txn.line)
            self._is_rehearsal = True
            intake = self._checked(txn, {ref: txn.readable(ref) for ref in txn.tables.types})
            tables = sorted(
                (self._foreseen(txn, ref, intake) for ref in self._views.views),
                key=lambda each: each.order,
            )
            self._enter(None)
        target = LoadBranch(name=options.branch, base=options.from_)
        return options.report(
            "spark",
            target,
            tables,
            self._times.reports(),
            merge_strategy=self._upserts.strategy,
            dry_run=True,
            rejects=self._rejects,
        )

    def _untaken(self) -> list[TableReport]:
        """What is told of a load that committed nothing: the rows that it rejected."""
        if not self._rejects.violations:
            return []
        return sorted(self._reports, key=lambda each: each.order)

    def _enter(self, stage: str | None) -> None:
        """A stage begins; its tasks are told when there are any."""
        self._times.enter(stage)
        if stage is not None and self._progress is not None:
            self._progress(stage, 0, 0)

    def _list(self) -> None:
        """Find the inputs, before anything is made for them."""
        self._enter("list")
        branch = readable_branch(self._graph, self._options.branch, self._options.from_)
        captured = open_snapshot(self._graph, None, branch)
        self._plan_inputs(captured.catalog)
        if self._session is not None:
            probe = partial(open_task_storage, str(self._graph.storage.location))
            require_matching_executors(self._session, probe, runner=self._runner)

    def _plan_inputs(self, catalog: Catalog) -> None:
        self._planned_for = catalog.schema_hash
        self._is_taken = False
        self._inputs = [
            each for source in self._sources for each in source.inputs(catalog, self._session)
        ]
        before = [] if self._intake is None else self._intake.written
        self._intake = InputIntake(
            session=self._session,
            runner=self._runner,
            times=self._times,
            inputs=self._inputs,
            written=before,
        )

    def _write_request(self, branch: BranchName) -> WriteRequest:
        return self._options.write_request(branch, self._digest, ATTEMPTS)

    def _digest(self) -> str:
        """What tells this load from another one with the same idempotency key."""
        if self._given_digest is not None:
            return self._given_digest
        found = hashlib.sha256(self._options.digested.encode())
        for source in self._sources:
            found.update(f"{source.definition}\n".encode())
        for each in self._inputs:
            for mark in each.marks or ("?",):
                found.update(f"{mark}\n".encode())
        return found.hexdigest()

    def _prepare(self, txn: WriteTxn) -> PreparedWrite:
        self._is_handed_over = False
        self._operations.add(txn.operation_id)
        intake = self._checked(txn, {ref: txn.writable(ref) for ref in txn.tables.types})
        self._enter("resolve")
        staged: list[StagedWrite] = []
        reports: list[TableReport] = []
        for ref in self._views.views:
            # A table whose rows were all rejected is left as it is.
            write = self._stage(txn, ref) if self._is_written(ref) else None
            report = _table_report(txn, ref, intake, write, self._rejected.get(ref, 0))
            report.require_balance()
            staged += [] if write is None else [write]
            reports.append(report)
        self._reports = reports
        self._ask(txn, intake)
        maybe_fail("spark_load.post_resolve")
        self._enter("commit")
        self._prepared_for = txn.operation_id
        self._prepared_files = frozenset(path for each in staged for path in each.files)
        self._is_handed_over = True
        return PreparedWrite(
            staged=tuple(staged),
            is_strict=self._options.mode is LoadMode.OVERWRITE,
            stats={
                "load": {"job": self._operation_id}
                | load_stats(self._options.mode, reports, self._rejects),
                **self._stats,
            },
        )

    def _checked(self, txn: WriteTxn, bases: Mapping[TableRef, TableHandle]) -> InputIntake:
        """Everything taken in and found valid, readable through the views.

        Raises:
            LoadRejected, KeyConflict: rules are broken.
        """
        self._bases = bases
        self._pin.hold(bases.values())
        intake, plan = self._taken(txn, bases)
        intake.take_back()
        self._rejected, self._rejects = {}, RejectReport()
        self._enter("check")
        self._views.open(bases, intake.results)
        if intake.follow_respelled(plan, self._views.tables(txn, intake.results)):
            self._views.open(bases, intake.results)
        checks = self._checks(txn, intake)
        superseded = checks.superseded()
        findings = gather((*intake.findings(), intake.located(checks.findings())))
        if findings.total and self._options.rejects.are_wanted:
            self._reject(txn, intake, plan, checks, findings)
            superseded = {}
        else:
            refuse_load(findings)
        if superseded:
            self._enter("intake")
            leave_out = intake.reject if self._options.rejects.are_wanted else intake.leave_out
            leave_out(plan, self._views.tables(txn, intake.results), superseded)
            self._views.open(bases, intake.results)
        maybe_fail("spark_load.post_check")
        return intake

    def _reject(
        self,
        txn: WriteTxn,
        intake: InputIntake,
        plan: IntakePlan,
        checks: LoadChecks | DriverChecks,
        findings: Findings,
    ) -> None:
        """Write the bad rows, and go on without them if the load may.

        Raises:
            LoadRejected, KeyConflict: it may not.
        """
        options = self._options.rejects
        tables = self._views.tables(txn, intake.results)
        bad = SparkRejects(
            storage=self._graph.storage,
            intake=intake,
            plan=plan,
            tables=tables,
            most=options.max_rejects,
        )
        rules = self._rules(checks, txn)
        found = bad.found(rules)

        def write() -> str:
            self._enter("rejects")
            return self._reject_files.write(txn.operation_id, bad.written(found))

        RejectVerdict(
            options=options,
            findings=findings,
            found=found,
            read=bad.read,
            emptied=self._emptied(txn, intake, found),
        ).require_allowed(None if self._is_rehearsal else write)
        uri = None if self._is_rehearsal else write()
        self._rejected = found.by_table
        self._rejects = RejectReport(violations=found.by_code, uri=uri)
        self._enter("intake")
        places = bad.staged(found)
        for ref, superseded in rules.superseded().items():
            places[ref] = [*places.get(ref, ()), *superseded]
        intake.reject(plan, tables, places)
        self._views.open(self._bases, intake.results)

    def _rules(self, checks: LoadChecks | DriverChecks, txn: WriteTxn) -> RelationRules:
        most = self._options.rejects.max_rejects
        if isinstance(checks, DriverChecks):
            return checks.rules(most)
        if self._session is None:
            raise InternalError("joins need Spark and there is none; please report this")
        edges = {ref_of(each): each for each in txn.catalog.edge_types.values()}
        return JoinRelations(checks, self._session, self._runner, edges, most=most)

    def _emptied(self, txn: WriteTxn, intake: InputIntake, found: Rejections) -> list[str]:
        """Tables with rows that an overwrite would leave without any."""
        if self._options.mode is not LoadMode.OVERWRITE:
            return []
        return sorted(
            key_of(txn.tables.types[ref])
            for ref, count in found.by_table.items()
            if count == _read(intake, ref) and txn.line.pins[ref].row_count
        )

    def _is_written(self, ref: TableRef) -> bool:
        return bool(self._views.views[ref].pieces.added) or not self._rejected.get(ref)

    def _taken(
        self, txn: WriteTxn, bases: Mapping[TableRef, TableHandle]
    ) -> tuple[InputIntake, IntakePlan]:
        """The input as rows; it is taken in again only when the schema changed."""
        if self._planned_for != txn.catalog.schema_hash:
            self._plan_inputs(txn.catalog)
        if self._intake is None:
            raise InternalError("a load took its input in before it was listed; please report this")
        plan = IntakePlan(
            root=str(self._graph.storage.location),
            operation_id=self._operation_id,
            authored_ms=txn.authored_at // 1_000,
            catalog=txn.catalog,
            tables={
                ref: TaskTable(layout=base.layout, pin=base.pin) for ref, base in bases.items()
            },
            external=self._external,
            embeds_nullable=self._options.embed,
            is_rehearsal=self._is_rehearsal,
            block_bytes=self._settings.pipeline.batch_bytes,
            sample=self._settings.pipeline.max_violations,
            paid_folder=self._paid_folder,
            keeps_rejects=self._options.rejects.max_rejects
            if self._options.rejects.are_wanted
            else None,
        )
        if not self._is_taken:
            self._enter("intake")
            self._take(self._intake, plan, bases)
            self._is_taken = True
            maybe_fail("spark_load.post_intake")
        return self._intake, plan

    def _take(
        self, intake: InputIntake, plan: IntakePlan, bases: Mapping[TableRef, TableHandle]
    ) -> None:
        """Stage the input, or take what a load that was cut off has staged of it."""
        can_resume = all(each.marks is not None for each in self._inputs) and not self._is_rehearsal
        state = state_of(self._digest(), plan.catalog.schema_hash, bases)
        if self._resumes and can_resume:
            kept = kept_intake(self._graph.storage, self._operation_id, state)
            if kept is not None:
                intake.adopt(kept.results, kept.begins)
                return
        if self._resumes:
            self._warnings.append(
                f"nothing of {self._operation_id} could be used again: the input, the schema or"
                " the tables are others, or it was cut off before its input was read; the load"
                " started over"
            )
            self._resumes = False
        intake.run(plan)
        if can_resume and self._settings.pipeline.resume:
            kept = KeptIntake(results=intake.results, begins=intake.begins)
            keep_intake(self._graph.storage, self._operation_id, state, kept)

    def _checks(self, txn: WriteTxn, intake: InputIntake) -> LoadChecks | DriverChecks:
        tables = self._views.tables(txn, intake.results)
        rows = sum(table.read for each in intake.results for table in each.tables.values())
        if self._session is None or rows <= self._driver_rows:
            return DriverChecks(txn, self._options.mode, tables, self._graph.storage)
        return LoadChecks(
            txn.catalog,
            self._options.mode,
            tables,
            KeyFrames(self._session, str(self._graph.storage.location), tables),
            self._runner,
            given_ids=frozenset(_given_ids(intake)),
            sample=self._settings.pipeline.max_violations,
        )

    def _stage(self, txn: WriteTxn, ref: TableRef) -> StagedWrite:
        view, store = self._views.views[ref], self._graph.tables
        if self._options.mode is LoadMode.OVERWRITE:
            return store.stage_pieces(view.base, PieceKind.OVERWRITE, view.pieces, txn.stamp)
        if self._options.mode is LoadMode.APPEND or txn.line.pins[ref].row_count == 0:
            return store.stage_pieces(view.base, PieceKind.APPEND, view.pieces, txn.stamp)
        return self._upserts.stage(view, txn.stamp)

    def _ask(self, txn: WriteTxn, intake: InputIntake) -> None:
        """What the outcome depends on, to be asked again when others were faster."""
        given = _given_ids(intake)
        for ref in self._views.views:
            item = txn.tables.types[ref]
            if self._options.mode is LoadMode.OVERWRITE:
                txn.read_set.ask_all(ref)
            is_new = self._options.mode is LoadMode.APPEND or not txn.line.pins[ref].row_count
            if is_new and ref in given:
                self._ask_for(txn, ref, "id", of=(ref, "id"))
            if unique_tuples(item):
                txn.read_set.ask_values(ref)
            if isinstance(item, EdgeType):
                self._ask_ends(txn, ref, item)
        if self._options.mode is LoadMode.OVERWRITE:
            for edge in txn.catalog.edge_types.values():
                ends = {ref_of(txn.catalog.node_types[n]) for n in (edge.from_type, edge.to_type)}
                if ends & self._views.views.keys():
                    txn.read_set.ask_all(ref_of(edge))

    def _ask_ends(self, txn: WriteTxn, ref: TableRef, item: EdgeType) -> None:
        for column, name in (("src", item.from_type), ("dst", item.to_type)):
            node = ref_of(txn.catalog.node_types[name])
            self._ask_for(txn, node, "id", of=(ref, column))
        if item.card != (0, None):
            self._ask_for(txn, ref, "src", of=(ref, "src"))

    def _ask_for(
        self, txn: WriteTxn, ref: TableRef, column: str, *, of: tuple[TableRef, str]
    ) -> None:
        """Texts of a column were asked for: those that staged rows of a table hold in theirs."""
        txn.read_set.ask_lookup(ref, column, partial(self._views.holds, *of))

    def _foreseen(self, txn: WriteTxn, ref: TableRef, intake: InputIntake) -> TableReport:
        view = self._views.views[ref]
        rows = sum(each.num_rows for each in view.pieces.added)
        changed = removed = 0
        if self._options.mode is LoadMode.OVERWRITE and self._is_written(ref):
            removed = txn.line.pins[ref].row_count
        elif self._options.mode is LoadMode.MERGE and txn.line.pins[ref].row_count:
            changed = self._views.count_existing(ref)
            self._upserts.choose(view)
        read, rejected = _read(intake, ref), self._rejected.get(ref, 0)
        return TableReport(
            table=key_of(txn.tables.types[ref]),
            read=read,
            added=rows - changed,
            changed=changed,
            removed=removed,
            rejected=rejected,
            superseded=read - rejected - rows,
        )

    def _remove_leftovers(self, row: CommitRow | None) -> None:
        """Delete what tasks wrote and the commit did not take: rows that were merged, and the like.

        Of a commit that somebody else made, or an earlier attempt, it is not known what it took: a
        load that went on elsewhere takes the files of the one that was thought dead.
        """
        if row is None:
            self._try_to_remove_files()
        elif row.operation_id == self._prepared_for:
            self._try_to_remove_files(self._prepared_files)

    def _try_to_remove_files(self, taken: frozenset[str] = frozenset()) -> None:
        try:
            if not self._is_shared:
                self._remove_files(taken)
        except OmnigraphError as error:
            # The error under way says more.
            log.warning("files of a load stay", extra={"why": error.message})

    def _remove_files(self, taken: frozenset[str]) -> None:
        """Delete the files that tasks told of; those of lost tasks are left to cleanup."""
        written = list(self._upserts.written)
        for ref, pieces in [] if self._intake is None else self._intake.written:
            if ref in self._bases:
                written += self._graph.tables.piece_files(self._bases[ref], pieces)
        for path in written:
            if path not in taken:
                self._graph.storage.objects.delete_tree(path)

    def _forget_paid(self) -> None:
        try:
            self._graph.storage.objects.delete_prefix(self._paid_folder)
        except OmnigraphError as error:
            # The load is committed; what stays is left to cleanup.
            log.warning("paid vectors stay", extra={"why": error.message})

    @property
    def _paid_folder(self) -> str:
        """Of the input, not of this run: a load that is given again pays for nothing twice."""
        return f"{PAID_FOLDER}/load-{self._digest()[:32]}"

    @property
    def _is_shared(self) -> bool:
        """Two loads know of the same staged files: one was thought dead."""
        return is_taken_over(self._graph.storage, self._operation_id)

    def _clear(self) -> None:
        """Remove what only this job could use; what cannot be removed is left to cleanup."""
        try:
            self._views.close()
            if self._took_over:
                # What was not used stays, for another try.
                if self._is_done:
                    remove_staging_of_both(self._graph.storage, self._operation_id)
            elif not self._is_shared:
                self._graph.storage.objects.delete_prefix(staging_folder(self._operation_id))
        except OmnigraphError as error:
            # The load is decided already: neither its success nor its error may be hidden.
            log.warning("staged files stay", extra={"why": error.message})


def _given_ids(intake: InputIntake) -> set[TableRef]:
    return {
        ref
        for result in intake.results
        for ref, table in result.tables.items()
        if table.has_given_ids
    }


def _read(intake: InputIntake, ref: TableRef) -> int:
    return sum(each.tables[ref].read for each in intake.results if ref in each.tables)


def _table_report(
    txn: WriteTxn, ref: TableRef, intake: InputIntake, staged: StagedWrite | None, rejected: int
) -> TableReport:
    read = _read(intake, ref)
    kept = sum(each.tables[ref].staged for each in intake.results if ref in each.tables)
    return TableReport(
        table=key_of(txn.tables.types[ref]),
        read=read,
        added=0 if staged is None else staged.rows_added,
        changed=0 if staged is None else staged.rows_changed,
        removed=0 if staged is None else staged.rows_removed,
        rejected=rejected,
        superseded=read - rejected - kept,
    )
