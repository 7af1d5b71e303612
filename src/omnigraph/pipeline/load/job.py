"""The lane of a load on Spark: list, intake, check, resolve.

What was taken in is kept over its attempts: when others were faster, only the checks and what
follows run again. Without executors the same tasks run in this process.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from omnigraph.errors import InternalError
from omnigraph.failpoints import maybe_fail
from omnigraph.graph.commit.read_set import AllRows
from omnigraph.graph.history.snapshot import open_snapshot
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.load.flow import LaneNames, LoadFlow
from omnigraph.graph.load.load_branch import readable_branch
from omnigraph.graph.validation import Code
from omnigraph.pipeline.checks.staged_questions import StagedById, StagedExistence, StagedRows
from omnigraph.pipeline.checks.way import CheckWay
from omnigraph.pipeline.load.check import LoadCheck
from omnigraph.pipeline.load.input import LoadInput
from omnigraph.pipeline.load.leftovers import LoadLeftovers
from omnigraph.pipeline.load.small_files import small_files
from omnigraph.pipeline.sources.sources import files_of
from omnigraph.pipeline.staging.detached_views import StagedViews
from omnigraph.pipeline.upsert.distributed import DistributedUpsert
from omnigraph.pipeline.upsert.strategy import Upserts, existing_in
from omnigraph.storage.staged_fragments import PieceKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from omnigraph.graph.blobs.addresses import ExternalBlobs
    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.graph.load.equal_rows import ExistingRows
    from omnigraph.graph.load.request import LoadRequest
    from omnigraph.graph.manifest.rows import CommitRow, TableRef
    from omnigraph.graph.validation import Findings
    from omnigraph.lang.catalog import EdgeType
    from omnigraph.pipeline.load.check import SparkBadRows
    from omnigraph.pipeline.sources.sources import LoadSource
    from omnigraph.pipeline.spark.job import JobContext
    from omnigraph.settings import MergeStrategy
    from omnigraph.storage.handles import StagedWrite


class SparkLoad:
    """The steps of one load."""

    attempts = 4
    """The first preparation, and three more when others were faster."""

    def __init__(
        self,
        job: JobContext,
        sources: Sequence[LoadSource],
        request: LoadRequest,
        *,
        external: ExternalBlobs,
        stats: Mapping[str, object] | None = None,
        digest: str | None = None,
        started: Callable[[str], None] | None = None,
        way: CheckWay = CheckWay.AUTO,
    ) -> None:
        if job.lane.spark is not None:
            paths = [file.uri for file in files_of(sources)]
            job.lane.spark.session.require_files(paths, shared_filesystem=job.shared_filesystem)
        engine: Literal["local", "spark"] = "local" if job.lane.spark is None else "spark"
        self.names = LaneNames(engine=engine, stage="resolve", rejects="rejects")
        self._job = job
        self._request = request
        self.stats: Mapping[str, object] = stats or {}
        self._given_digest = digest
        self._started = started
        self._way = way
        self._views = StagedViews(job.storage)
        self._upserts = Upserts(
            store=job.graph.tables,
            settings=job.settings.pipeline,
            distributed=_distributed(job),
        )
        self._input = LoadInput(job, sources, request, external=external)
        self._leftovers = LoadLeftovers(job, request, self._input, self._views, self._upserts)
        self._attempt: LoadCheck | None = None
        self._small_files: list[str] = []

    def report(self) -> JobReport:
        """Run it and tell what it did."""
        most = self._job.settings.pipeline.max_violations
        return LoadFlow(
            self._job.graph, self._request, self, self._job.stages, max_violations=most
        ).run()

    @property
    def job(self) -> str:
        """A load that goes on elsewhere and the one that was thought dead cannot both commit."""
        return self._job.operation_id

    @property
    def merge_strategy(self) -> MergeStrategy:
        """Where the keys of a merge were compared."""
        return self._upserts.strategy

    @property
    def refs(self) -> Sequence[TableRef]:
        """The tables that the input has rows for."""
        return list(self._views.views)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """The pin and the session of a run; what it leaves behind goes when it ends."""
        with self._leftovers.cleared(), self._job.running():
            try:
                yield
            finally:
                if self._request.dry_run:
                    self._leftovers.remove_files()

    def begin(self) -> Commit | None:
        """Find the inputs, before anything is made for them."""
        job, request = self._job, self._request
        if not request.dry_run:
            done = self._leftovers.take_over() if request.resume is not None else None
            if done is not None:
                return done
            if self._started is not None:
                self._started(job.operation_id)
            maybe_fail("spark_load.post_open")
        job.stages.enter("list")
        branch = readable_branch(job.graph, request.branch, request.from_)
        self._input.find(open_snapshot(job.graph, None, branch).catalog)
        job.require_executors()
        if not request.dry_run:
            maybe_fail("spark_load.post_list")
        return None

    def digest(self) -> str:
        """What tells this input, and what is made of it, from another."""
        return self._given_digest or self._input.digest

    def take(self, txn: WriteTxn) -> None:
        """Have everything staged, on the versions that the attempt starts from."""
        self._leftovers.start_over()
        open_table = txn.readable if self._request.dry_run else txn.writable
        bases = {ref: open_table(ref) for ref in txn.tables.types}
        self._job.pin.hold(bases.values())
        intake, plan = self._input.taken(txn, bases)
        self._attempt = LoadCheck(
            job=self._job,
            request=self._request,
            views=self._views,
            txn=txn,
            bases=bases,
            intake=intake,
            plan=plan,
            way=self._way,
        )

    def findings(self, txn: WriteTxn, *, limit: int) -> Findings:  # noqa: ARG002 - it is kept
        """Everything that is wrong with the rows."""
        return self._check.findings(limit=limit)

    def bad_rows(self, txn: WriteTxn) -> SparkBadRows:  # noqa: ARG002
        """The rows as a verdict needs them."""
        return self._check.bad_rows()

    def accept(self, txn: WriteTxn) -> None:  # noqa: ARG002
        """Leave out what later rows of the input replace."""
        self._check.leave_out_superseded()
        maybe_fail("spark_load.post_check")

    def bare_nodes(self, txn: WriteTxn) -> Iterable[tuple[EdgeType, int]]:  # noqa: ARG002
        """How many nodes of those left would lack an edge that they need."""
        return self._check.bare_nodes()

    def rows_read(self, ref: TableRef) -> int:
        """How many rows the input has for a table."""
        return self._check.intake.rows_read(ref)

    def rows_left(self, ref: TableRef) -> int:
        """How many of them are neither rejected nor superseded."""
        return self._check.intake.rows_staged(ref)

    def existing_rows(self, txn: WriteTxn, ref: TableRef) -> ExistingRows:  # noqa: ARG002
        """How many of those left would replace a committed row, and how many equal one."""
        view = self._views.views[ref]
        self._upserts.choose(view)
        return existing_in(self._job.graph.tables, view)

    def stage(self, txn: WriteTxn, refs: Sequence[TableRef]) -> Mapping[TableRef, StagedWrite]:
        """The rows of these tables as files that a commit can take."""
        follow = self._leftovers.staged.follow
        staged = {ref: follow(self._stage(txn, ref)) for ref in refs}
        rows_per_file = self._job.settings.pipeline.rows_per_file
        self._small_files = list(
            small_files(self._job.graph.tables, staged.values(), rows_per_file=rows_per_file)
        )
        maybe_fail("spark_load.post_resolve")
        return staged

    def hand_over(self) -> None:
        """From now on a recovery may commit what was staged."""
        self._leftovers.hand_over()

    def abandon(self) -> None:
        """Remove what nobody can commit any more."""
        self._leftovers.abandon()

    def settle(self, row: CommitRow | None, *, is_own: bool) -> None:
        """Remove what the commit did not take."""
        self._leftovers.settle(is_committed=row is not None, is_own=is_own)

    def input_warnings(self) -> Sequence[str]:
        """That a load which was to go on had to start over, and what expressions made null."""
        lost = () if self._attempt is None else self._attempt.intake.lost_values()
        return [*self._input.warnings, *lost]

    def table_warnings(self) -> Sequence[str]:
        """Tables of many small files."""
        return self._small_files

    @property
    def _check(self) -> LoadCheck:
        if self._attempt is None:
            raise InternalError("a load is checked before it is taken in; please report this")
        return self._attempt

    def _stage(self, txn: WriteTxn, ref: TableRef) -> StagedWrite:
        view, store = self._views.views[ref], self._job.graph.tables
        mode = self._request.mode
        if mode is LoadMode.OVERWRITE:
            return store.stage_pieces(view.base, PieceKind.OVERWRITE, view.pieces, txn.stamp)
        if mode is LoadMode.APPEND or txn.line.pins[ref].row_count == 0:
            if mode.upserts:
                # There was nothing to merge into, so nobody has looked for the ids.
                txn.read_set.ask(ref, StagedExistence(StagedRows(store, view)))
            return store.stage_pieces(view.base, PieceKind.APPEND, view.pieces, txn.stamp)
        if self._check.intake.has_found(Code.UNKNOWN_KEY):
            # Rows were set aside because nobody has them; somebody may by now.
            txn.read_set.ask(ref, AllRows())
        staged = self._upserts.stage(view, txn.stamp)
        if staged.rows_unchanged or self._request.keeps_values:
            txn.read_set.ask(ref, StagedById(StagedRows(store, view)))
        return staged


def _distributed(job: JobContext) -> DistributedUpsert | None:
    if job.lane.spark is None:
        return None
    return DistributedUpsert(
        lane=job.lane.spark,
        times=job.stages.times,
        storage=job.storage,
        operation_id=job.operation_id,
    )
