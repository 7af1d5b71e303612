"""The staged rows of a load against every rule; with quarantine the bad ones are left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from omnigraph.graph.validation import gather
from omnigraph.pipeline.checks.asked_frames import AskedFrames
from omnigraph.pipeline.checks.driver_checks import DriverChecks
from omnigraph.pipeline.checks.join_checks import LoadChecks
from omnigraph.pipeline.checks.join_rules import JoinRelations
from omnigraph.pipeline.checks.rejected_rows import SparkRejects
from omnigraph.pipeline.spark.lanes import require_spark
from omnigraph.pipeline.staging.key_frames import KeyFrames

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.load.quarantine import Rejections, RelationRules
    from omnigraph.graph.load.reject_files import Reject
    from omnigraph.graph.load.request import LoadRequest
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import Findings
    from omnigraph.lang.catalog import EdgeType
    from omnigraph.pipeline.intake.driver import InputIntake
    from omnigraph.pipeline.intake.row_stager import IntakePlan
    from omnigraph.pipeline.spark.job import JobContext
    from omnigraph.pipeline.staging.detached_views import StagedViews
    from omnigraph.pipeline.staging.key_frames import StagedTable
    from omnigraph.storage.handles import TableHandle


@dataclass(kw_only=True)
class LoadCheck:
    """The rows that were taken in, over the state of one attempt."""

    job: JobContext
    request: LoadRequest
    views: StagedViews
    txn: WriteTxn
    bases: Mapping[TableRef, TableHandle]
    intake: InputIntake
    plan: IntakePlan
    driver_rows: int
    """Up to so many rows are checked by one process."""
    _superseded: Mapping[TableRef, Sequence[int]] | None = None
    _tables: Mapping[TableRef, StagedTable] = field(default_factory=dict)
    """Every table of the graph, with what is staged for it by now."""

    def findings(self, *, limit: int) -> Findings:
        """Everything that is wrong with them; they are then readable through the views."""
        self.intake.take_back()
        self._open_views()
        if self.intake.follow_respelled(self.plan, self._tables):
            self._open_views()
        self._superseded = self._checks.superseded()
        storage = self.job.storage
        findings = (*self.intake.findings(storage), self.intake.located(self._checks.findings()))
        return gather(findings, limit=limit)

    def bad_rows(self) -> SparkBadRows:
        """The rows as a verdict needs them."""
        rejects = SparkRejects(
            storage=self.job.storage,
            intake=self.intake,
            plan=self.plan,
            tables=self._tables,
            most=self.request.rejects.max_rejects,
            cascade=self.request.rejects.cascade,
        )
        return SparkBadRows(self, rejects, self._rules())

    def reject(self, places: Mapping[TableRef, Sequence[int]]) -> None:
        """Leave bad rows out for this attempt, superseded ones with them."""
        self.job.stages.enter("intake")
        self.intake.reject(self.plan, self._tables, places)
        self._superseded = None
        self._open_views()

    def leave_out_superseded(self) -> None:
        """Stage the parts again that have rows which later ones of the input replace."""
        if not self._superseded:
            return
        self.job.stages.enter("intake")
        is_undone = self.request.rejects.are_wanted
        leave_out = self.intake.reject if is_undone else self.intake.leave_out
        leave_out(self.plan, self._tables, self._superseded)
        self._open_views()

    def _open_views(self) -> None:
        self.views.open(self.bases, self.intake.results)
        self._tables = self.views.tables(self.txn, self.intake.results)

    def bare_nodes(self) -> Iterator[tuple[EdgeType, int]]:
        """How many nodes would lack an edge that they need, by type of edge.

        Rows that a merge would leave as they are count too: only keys are at hand.
        """
        checks = self._made_checks()
        if isinstance(checks, DriverChecks):
            yield from checks.bare_nodes()
            return
        spark = require_spark(self.job.lane)
        for item, bare in checks.bare_nodes():
            yield item, spark.runner.run("check", bare.count)

    @cached_property
    def _checks(self) -> LoadChecks | DriverChecks:
        return self._made_checks()

    def _made_checks(self) -> LoadChecks | DriverChecks:
        """The checks of what is staged by now."""
        tables, mode = self._tables, self.request.mode
        sample = self.job.settings.pipeline.max_violations
        spark = self.job.lane.spark
        if spark is None or self.intake.rows <= self.driver_rows:
            return DriverChecks(self.txn, mode, tables, self.job.storage, sample=sample)
        frames = KeyFrames(spark.session, self.job.root, tables)
        return LoadChecks(
            self.txn.catalog,
            mode,
            tables,
            AskedFrames(frames, self.txn, self.views.views),
            spark.runner,
            given_ids=self.intake.given_ids(),
            sample=sample,
        )

    def _rules(self) -> RelationRules:
        most = self.request.rejects.max_rejects
        if isinstance(self._checks, DriverChecks):
            return self._checks.rules(most)
        spark = require_spark(self.job.lane)
        return JoinRelations(self._checks, spark.session, spark.runner, most=most)


@dataclass(frozen=True)
class SparkBadRows:
    """The rows of a load that has bad ones."""

    check: LoadCheck
    rejects: SparkRejects
    rules: RelationRules

    @property
    def read(self) -> int:
        """Records, and lines that are none."""
        return self.rejects.read

    def found(self) -> Rejections:
        """All that are to be rejected."""
        return self.rejects.found(self.rules)

    def written(self, found: Rejections) -> Iterator[Reject]:
        """The rejected rows for their file, in the order of the input."""
        return self.rejects.written(found)

    def leave_out(self, found: Rejections) -> None:
        """Stage the parts again that have such rows, without them and without superseded ones."""
        places = self.rejects.staged(found)
        for ref, superseded in self.rules.superseded().items():
            places[ref] = [*places.get(ref, ()), *superseded]
        self.check.reject(places)
