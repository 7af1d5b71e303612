"""A load on Spark, stage by stage: list, intake, check, resolve, commit, report.

The commit protocol prepares it like any other write. What was taken in is kept over its attempts:
when others were faster, only the checks and what follows run again.
"""

from __future__ import annotations

import hashlib
import logging
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from omnigraph.errors import InternalError, OmnigraphError
from omnigraph.graph.job_report import JobReport, LoadMode, TableReport
from omnigraph.graph.load_branch import LoadBranch, load_branch, readable_branch
from omnigraph.graph.load_stats import committed_tables, load_stats
from omnigraph.graph.publisher import require_head
from omnigraph.graph.stage_times import StageTimes
from omnigraph.graph.tables import key_of, ref_of
from omnigraph.graph.validation import gather, refuse_load
from omnigraph.graph.write_txn import PreparedWrite, WriteRequest
from omnigraph.ids import BranchName, new_operation_id
from omnigraph.lang.catalog import EdgeType
from omnigraph.pipeline.checks import LoadChecks
from omnigraph.pipeline.driver_checks import DRIVER_ROWS, DriverChecks
from omnigraph.pipeline.handshake import require_matching_executors
from omnigraph.pipeline.input_intake import InputIntake
from omnigraph.pipeline.intake import IntakePlan, staging_folder
from omnigraph.pipeline.key_columns import unique_tuples
from omnigraph.pipeline.progress import StageRunner
from omnigraph.pipeline.splits import cut
from omnigraph.pipeline.staged_tables import KeyFrames
from omnigraph.pipeline.staged_views import StagedViews
from omnigraph.pipeline.task_storage import TaskTable, open_task_storage
from omnigraph.pipeline.upsert import stage_upsert
from omnigraph.storage.input_files import InputFiles
from omnigraph.storage.pieces import PieceKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.graph.coordinator import GraphCoordinator
    from omnigraph.graph.external_blobs import ExternalBlobs
    from omnigraph.graph.load_options import LoadOptions
    from omnigraph.graph.rows import TableRef
    from omnigraph.graph.write_txn import WriteTxn
    from omnigraph.pipeline.progress import Progress
    from omnigraph.pipeline.session import PipelineSession
    from omnigraph.settings import Settings
    from omnigraph.storage.handles import StagedWrite, TableHandle
    from omnigraph.storage.input_files import InputFile

log = logging.getLogger(__name__)

ATTEMPTS: Final = 4
"""The first preparation, and three more when others were faster."""


class SparkLoad:
    """One run of one load."""

    def __init__(
        self,
        graph: GraphCoordinator,
        session: PipelineSession,
        settings: Settings,
        source: str,
        options: LoadOptions,
        *,
        external: ExternalBlobs,
        progress: Progress | None = None,
        shared_filesystem: bool = False,
        driver_rows: int = DRIVER_ROWS,
    ) -> None:
        session.require_access(graph.storage.location, shared_filesystem=shared_filesystem)
        self._graph = graph
        self._session = session
        self._settings = settings
        self._source = source
        self._options = options
        self._operations: set[str] = set()
        self._external = external
        self._driver_rows = driver_rows
        self._runner = StageRunner(session, progress)
        self._operation_id = new_operation_id(graph.ids)
        self._times = StageTimes(graph.clock)
        self._files: list[InputFile] = []
        self._intake: InputIntake | None = None
        self._taken_for: str | None = None
        self._is_handed_over = False
        self._is_rehearsal = False
        self._bases: Mapping[TableRef, TableHandle] = {}
        self._views = StagedViews(graph.storage)

    def report(self) -> JobReport:
        """Run it and tell what it did."""
        options = self._options
        with ExitStack() as leaving:
            leaving.callback(self._clear)
            leaving.enter_context(self._session.configured())
            branch = leaving.enter_context(
                load_branch(self._graph, options.branch, options.from_, actor_id=options.actor_id)
            )
            self._list()
            try:
                row = self._graph.protocol.run(self._write_request(options.branch), self._prepare)
            except BaseException:
                # Once they are handed over, a recovery may still commit them.
                if not self._is_handed_over:
                    self._try_to_remove_files()
                raise
            self._times.enter(None)
        return options.report(
            "spark",
            branch,
            [] if row is None else committed_tables(row.stats),
            self._times.reports(),
            row,
            # The first receipt of the same key came back.
            already_loaded=row is not None and row.operation_id not in self._operations,
        )

    def rehearse(self) -> JobReport:
        """Check everything and tell what a run would do; nothing stays."""
        options = self._options
        with ExitStack() as leaving:
            leaving.callback(self._clear)
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
            self._times.enter(None)
        target = LoadBranch(name=options.branch, base=options.from_)
        return options.report("spark", target, tables, self._times.reports(), dry_run=True)

    def _list(self) -> None:
        self._times.enter("list")
        self._files = InputFiles(self._settings.storage).find(self._source)
        probe = partial(open_task_storage, str(self._graph.storage.location))
        require_matching_executors(self._session, probe, runner=self._runner)
        self._intake = InputIntake(
            session=self._session,
            runner=self._runner,
            times=self._times,
            splits=cut(self._files, self._settings.pipeline.split_bytes),
        )

    def _write_request(self, branch: BranchName) -> WriteRequest:
        return self._options.write_request(branch, self._digest, ATTEMPTS)

    def _digest(self) -> str:
        found = hashlib.sha256(f"load {self._options.mode} {self._options.embed}\n".encode())
        for file in self._files:
            found.update(f"{file.uri} {file.size_bytes} {file.mark}\n".encode())
        return found.hexdigest()

    def _prepare(self, txn: WriteTxn) -> PreparedWrite:
        self._is_handed_over = False
        self._operations.add(txn.operation_id)
        intake = self._checked(txn, {ref: txn.writable(ref) for ref in txn.tables.types})
        self._times.enter("resolve")
        staged: list[StagedWrite] = []
        reports: list[TableReport] = []
        for ref in self._views.views:
            write = self._stage(txn, ref)
            report = _table_report(txn, ref, intake, write)
            report.require_balance()
            staged.append(write)
            reports.append(report)
        self._ask(txn, intake)
        self._times.enter("commit")
        self._is_handed_over = True
        return PreparedWrite(
            staged=tuple(staged),
            is_strict=self._options.mode is LoadMode.OVERWRITE,
            stats={"load": load_stats(self._options.mode, reports)},
        )

    def _checked(self, txn: WriteTxn, bases: Mapping[TableRef, TableHandle]) -> InputIntake:
        """Everything taken in and found valid, readable through the views.

        Raises:
            LoadRejected, KeyConflict: rules are broken.
        """
        self._bases = bases
        intake, plan = self._taken(txn, bases)
        self._times.enter("check")
        self._views.open(bases, intake.results)
        checks = self._checks(txn, intake)
        superseded = checks.superseded()
        refuse_load(gather((*intake.findings(), intake.located(checks.findings()))))
        if superseded:
            self._times.enter("intake")
            intake.leave_out(plan, superseded)
            self._views.open(bases, intake.results)
        return intake

    def _taken(
        self, txn: WriteTxn, bases: Mapping[TableRef, TableHandle]
    ) -> tuple[InputIntake, IntakePlan]:
        """The input as rows; it is taken in again only when the schema changed."""
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
        )
        if self._taken_for != txn.line.schema.schema_hash:
            self._times.enter("intake")
            self._intake.run(plan)
            self._taken_for = txn.line.schema.schema_hash
        return self._intake, plan

    def _checks(self, txn: WriteTxn, intake: InputIntake) -> LoadChecks | DriverChecks:
        tables = self._views.tables(txn, intake.results)
        rows = sum(table.read for each in intake.results for table in each.tables.values())
        if rows <= self._driver_rows:
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
        return stage_upsert(store, view, txn.stamp)

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
        if self._options.mode is LoadMode.OVERWRITE:
            removed = txn.line.pins[ref].row_count
        elif self._options.mode is LoadMode.MERGE and txn.line.pins[ref].row_count:
            changed = self._views.count_existing(ref)
        read = _read(intake, ref)
        return TableReport(
            table=key_of(txn.tables.types[ref]),
            read=read,
            added=rows - changed,
            changed=changed,
            removed=removed,
            superseded=read - rows,
        )

    def _try_to_remove_files(self) -> None:
        try:
            self._remove_files()
        except OmnigraphError as error:
            # The error under way says more.
            log.warning("files of a load stay", extra={"why": error.message})

    def _remove_files(self) -> None:
        """Delete the files that tasks told of; those of lost tasks are left to cleanup."""
        if self._intake is None:
            return
        for ref, pieces in self._intake.written:
            if ref in self._bases:
                for path in self._graph.tables.piece_files(self._bases[ref], pieces):
                    self._graph.storage.objects.delete_tree(path)

    def _clear(self) -> None:
        """Remove what only this job could use; what cannot be removed is left to cleanup."""
        try:
            self._views.close()
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
    txn: WriteTxn, ref: TableRef, intake: InputIntake, staged: StagedWrite
) -> TableReport:
    read = _read(intake, ref)
    return TableReport(
        table=key_of(txn.tables.types[ref]),
        read=read,
        added=staged.rows_added,
        changed=staged.rows_changed,
        removed=staged.rows_removed,
        superseded=read
        - sum(each.tables[ref].staged for each in intake.results if ref in each.tables),
    )
