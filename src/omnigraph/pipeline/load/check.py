"""The staged rows of a load against every rule; with quarantine the bad ones are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import InternalError
from omnigraph.failpoints import maybe_fail
from omnigraph.graph.jobs.report import LoadMode, RejectReport
from omnigraph.graph.load.reject_verdict import RejectVerdict
from omnigraph.graph.manifest.table_refs import key_of, ref_of
from omnigraph.graph.validation import gather, refuse_load
from omnigraph.pipeline.checks.asked_frames import AskedFrames
from omnigraph.pipeline.checks.driver_checks import DriverChecks
from omnigraph.pipeline.checks.join_checks import LoadChecks
from omnigraph.pipeline.checks.join_rules import JoinRelations
from omnigraph.pipeline.checks.rejected_rows import SparkRejects
from omnigraph.pipeline.staging.key_frames import KeyFrames

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.load.quarantine import Rejections, RelationRules
    from omnigraph.graph.load.reject_files import RejectFiles
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import Findings
    from omnigraph.pipeline.intake.driver import InputIntake
    from omnigraph.pipeline.intake.row_stager import IntakePlan
    from omnigraph.pipeline.load.load_run import LoadRun
    from omnigraph.pipeline.staging.detached_views import StagedViews
    from omnigraph.storage.handles import TableHandle


class LoadCheck:
    """Checks what was taken in, as often as the load is prepared."""

    def __init__(
        self, run: LoadRun, views: StagedViews, reject_files: RejectFiles, *, driver_rows: int
    ) -> None:
        self._run = run
        self._views = views
        self._reject_files = reject_files
        self._driver_rows = driver_rows
        self.rejected: Mapping[TableRef, int] = {}
        """How many rows of each table the last check left out."""
        self.rejects = RejectReport()

    def check(
        self,
        txn: WriteTxn,
        bases: Mapping[TableRef, TableHandle],
        intake: InputIntake,
        plan: IntakePlan,
    ) -> None:
        """Find everything valid; it is then readable through the views.

        Raises:
            LoadRejected, KeyConflict: rules are broken.
        """
        run, views = self._run, self._views
        intake.take_back()
        self.rejected, self.rejects = {}, RejectReport()
        run.enter("check")
        views.open(bases, intake.results)
        if intake.follow_respelled(plan, views.tables(txn, intake.results)):
            views.open(bases, intake.results)
        checks = self._checks(txn, intake)
        superseded = checks.superseded()
        found = (*intake.findings(run.graph.storage), intake.located(checks.findings()))
        findings = gather(found, limit=run.settings.pipeline.max_violations)
        if findings.total and run.options.rejects.are_wanted:
            self._reject(txn, intake, plan, checks, findings)
            views.open(bases, intake.results)
            superseded = {}
        else:
            refuse_load(findings)
        if superseded:
            run.enter("intake")
            leave_out = intake.reject if run.options.rejects.are_wanted else intake.leave_out
            leave_out(plan, views.tables(txn, intake.results), superseded)
            views.open(bases, intake.results)
        maybe_fail("spark_load.post_check")

    def is_written(self, ref: TableRef) -> bool:
        """Whether a table changes: one whose rows were all rejected is left as it is."""
        return bool(self._views.views[ref].pieces.added) or not self.rejected.get(ref)

    def _checks(self, txn: WriteTxn, intake: InputIntake) -> LoadChecks | DriverChecks:
        run = self._run
        tables = self._views.tables(txn, intake.results)
        rows = sum(table.read for each in intake.results for table in each.tables.values())
        sample = run.settings.pipeline.max_violations
        if run.session is None or rows <= self._driver_rows:
            return DriverChecks(txn, run.options.mode, tables, run.graph.storage, sample=sample)
        return LoadChecks(
            txn.catalog,
            run.options.mode,
            tables,
            AskedFrames(KeyFrames(run.session, run.root, tables), txn, self._views.views),
            run.runner,
            given_ids=intake.given_ids(),
            sample=sample,
        )

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
        run = self._run
        tables = self._views.tables(txn, intake.results)
        bad = SparkRejects(
            storage=run.graph.storage,
            intake=intake,
            plan=plan,
            tables=tables,
            most=run.options.rejects.max_rejects,
        )
        rules = self._rules(checks, txn)
        found = bad.found(rules)

        def write() -> str:
            run.enter("rejects")
            return self._reject_files.write(txn.operation_id, bad.written(found))

        RejectVerdict(
            options=run.options.rejects,
            findings=findings,
            found=found,
            read=bad.read,
            emptied=self._emptied(txn, intake, found),
            max_violations=run.settings.pipeline.max_violations,
        ).require_allowed(None if run.is_rehearsal else write)
        uri = None if run.is_rehearsal else write()
        self.rejected = found.by_table
        self.rejects = RejectReport(violations=found.by_code, uri=uri)
        run.enter("intake")
        places = bad.staged(found)
        for ref, superseded in rules.superseded().items():
            places[ref] = [*places.get(ref, ()), *superseded]
        intake.reject(plan, tables, places)

    def _rules(self, checks: LoadChecks | DriverChecks, txn: WriteTxn) -> RelationRules:
        most = self._run.options.rejects.max_rejects
        if isinstance(checks, DriverChecks):
            return checks.rules(most)
        if self._run.session is None:
            raise InternalError("joins need Spark and there is none; please report this")
        edges = {ref_of(each): each for each in txn.catalog.edge_types.values()}
        return JoinRelations(checks, self._run.session, self._run.runner, edges, most=most)

    def _emptied(self, txn: WriteTxn, intake: InputIntake, found: Rejections) -> list[str]:
        """Tables with rows that an overwrite would leave without any."""
        if self._run.options.mode is not LoadMode.OVERWRITE:
            return []
        return sorted(
            key_of(txn.tables.types[ref])
            for ref, count in found.by_table.items()
            if count == intake.rows_read(ref) and txn.line.pins[ref].row_count
        )
