"""The staged rows of a load against every rule; with quarantine the bad ones are left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.graph.commit.lookups import TxnLookups
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.validation import gather
from omnigraph.pipeline.checks.asked_frames import AskedFrames
from omnigraph.pipeline.checks.driver_checks import DriverChecks
from omnigraph.pipeline.checks.held_keys import read_keys
from omnigraph.pipeline.checks.join_checks import LoadChecks
from omnigraph.pipeline.checks.join_rules import JoinRelations
from omnigraph.pipeline.checks.rejected_rows import SparkRejects
from omnigraph.pipeline.checks.way import CheckWay, ChosenWay, choose_way
from omnigraph.pipeline.checks.whole_lookups import WholeLookups
from omnigraph.pipeline.spark.lanes import require_spark
from omnigraph.pipeline.staging.key_frames import KeyFrames

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.load.quarantine import Rejections, RelationRules
    from omnigraph.graph.load.reject_files import Reject
    from omnigraph.graph.load.request import LoadRequest
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import CommittedRows, Findings
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
    way: CheckWay = CheckWay.AUTO
    _superseded: Mapping[TableRef, Sequence[int]] | None = None
    _tables: Mapping[TableRef, StagedTable] = field(default_factory=dict)
    """Every table of the graph, with what is staged for it by now."""
    _first_checks: LoadChecks | DriverChecks | None = None

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
        """Stage the parts again that have rows which later ones of the input replace.

        No key is held from now on: a merge needs the memory.
        """
        self._first_checks = None
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

    @property
    def _checks(self) -> LoadChecks | DriverChecks:
        """The checks of what was staged at first, until all is accepted."""
        if self._first_checks is None:
            self._first_checks = self._made_checks()
        return self._first_checks

    def _made_checks(self) -> LoadChecks | DriverChecks:
        """The checks of what is staged by now."""
        given_ids = self.intake.given_ids()
        sample = self.job.settings.pipeline.max_violations
        chosen = self._chosen_way()
        keys = None
        if chosen.way is not CheckWay.JOINS:
            keys = read_keys(self.job.storage, self._tables, chosen.key_bytes)
        if keys is None:
            return self._joins(given_ids, sample)
        lookups = self._lookups(chosen.way, given_ids)
        mode = self.request.mode
        return DriverChecks(self.txn, mode, keys, lookups, given_ids=given_ids, sample=sample)

    def _chosen_way(self) -> ChosenWay:
        if self.way is not CheckWay.AUTO:
            return ChosenWay(way=self.way)
        return choose_way(
            self.txn,
            [table.item for table in self._tables.values() if table.parts],
            self.intake.rows,
            has_spark=self.job.lane.spark is not None,
            most_bytes=self.job.settings.pipeline.check_driver_bytes,
        )

    def _lookups(self, way: CheckWay, given_ids: frozenset[TableRef]) -> CommittedRows:
        if way is not CheckWay.WHOLE:
            return TxnLookups(self.txn)
        strict = {ref for ref in given_ids if self.request.mode is LoadMode.APPEND}
        return WholeLookups(self.txn, self.views.views, strict=strict, given_ids=given_ids)

    def _joins(self, given_ids: frozenset[TableRef], sample: int) -> LoadChecks:
        spark = require_spark(self.job.lane)
        frames = KeyFrames(spark.session, self.job.root, self._tables)
        return LoadChecks(
            self.txn.catalog,
            self.request.mode,
            self._tables,
            AskedFrames(frames, self.txn, self.views.views),
            spark.runner,
            given_ids=given_ids,
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
