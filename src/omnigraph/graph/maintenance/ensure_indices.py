"""`ensure_indices`: every index that the schema declares exists and covers every row, and no other.

Indexes are derived: building them changes no result, so this write is never strict. Segments are
built without a lease, several tables at once, and published by one commit. A table that others
moved meanwhile is built again, the others are kept as they are. Nothing to build makes no commit,
and a branch does not fork a table that it has nothing to build for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.graph.commit.protocol import Stale
from omnigraph.graph.commit.txn import PreparedWrite, WriteRequest
from omnigraph.graph.history.commit_graph import commit_of
from omnigraph.graph.jobs.stage_progress import StageProgress
from omnigraph.graph.maintenance.index_report import (
    BuiltIndex,
    IndexReport,
    IndexRows,
    PendingIndex,
    PendingReason,
    SkipReason,
    TableIndexStats,
)
from omnigraph.graph.maintenance.table_work import (
    chosen_tables,
    for_each,
    list_of_names,
    moved_on,
    place_of,
    restamped,
    silent,
)
from omnigraph.graph.maintenance.workers import LocalWorkers
from omnigraph.graph.manifest.intent import SidecarKind
from omnigraph.ids import BranchName
from omnigraph.storage.capabilities import wanted_indexes
from omnigraph.storage.indexes import index_name, unwanted_indexes
from omnigraph.storage.maintenance import IndexAction
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.maintenance.workers import Workers
    from omnigraph.graph.manifest.rows import CommitRow, PinRow, TableRef
    from omnigraph.storage.handles import StagedWrite, TableHandle, TableLayout
    from omnigraph.storage.indexes import IndexSpec
    from omnigraph.storage.maintenance import IndexWork
    from omnigraph.storage.shared_work import Steps

STAGINGS = 3
"""How often a table is built without the lease before another way is taken."""

QUICK_US = 1_000_000
"""Building that takes no longer may be done under the lease, where nobody can be faster."""

_IDLE = (IndexAction.NONE, IndexAction.PENDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What the indexes of one table need at one pin."""

    layout: TableLayout
    pinned: PinRow
    works: tuple[IndexWork, ...]
    coverage: tuple[IndexRows, ...]
    unwanted: frozenset[str]
    """The names of indexes that the schema does not declare any more."""

    @property
    def buildable(self) -> list[IndexSpec]:
        return [work.spec for work in self.works if work.action is not IndexAction.PENDING]

    @property
    def missing(self) -> list[IndexSpec]:
        return [work.spec for work in self.works if work.action not in _IDLE]


def ensure_indices(
    graph: GraphCoordinator,
    *,
    branch: str,
    types: Iterable[str] | None = None,
    actor_id: str | None = None,
    progress: Progress | None = None,
    workers: Workers | None = None,
) -> IndexReport:
    """Build what is missing or stale, in at most one commit, and say what every index covers.

    Without workers the threads of this process do it.

    Raises:
        InvalidArgument: there is no such type.
        BranchNotFound: there is no such branch, or it was deleted meanwhile.
        RecoveryBlocked: an interrupted write of the branch must be repaired first.
        ReadSetChanged: others were faster in every attempt.
    """
    names = list_of_names(types)
    request = WriteRequest(
        kind=SidecarKind.ENSURE_INDICES,
        branch=BranchName(branch),
        branch_id=graph.branch_id(branch),
        actor_id=actor_id,
    )
    progress = progress or silent
    building = _Building(graph, names, progress, workers or LocalWorkers(graph, progress))
    return building.report(branch, graph.protocol.run(request, building.prepare))


class _Building:
    """One call over all its attempts: what was planned and built for each table."""

    def __init__(
        self,
        graph: GraphCoordinator,
        names: tuple[str, ...] | None,
        progress: Progress,
        workers: Workers,
    ) -> None:
        self._graph = graph
        self._names = names
        self._progress = progress
        self._workers = workers
        self._schema_hash: str | None = None
        self._plans: dict[TableRef, _Plan] = {}
        self._built: dict[TableRef, StagedWrite] = {}
        self._took_us: dict[TableRef, int] = {}
        self._overtaken: dict[TableRef, int] = {}
        self._busy: set[TableRef] = set()

    def prepare(self, txn: WriteTxn) -> PreparedWrite:
        """Plan and build what is not there yet for the captured pins."""
        try:
            self._forget_moved(txn)
            chosen = chosen_tables(self._graph, txn, self._names)
            unplanned = [ref for ref in chosen if ref not in self._plans]
            self._plans |= for_each(
                self._graph, "plan", unplanned, lambda ref: self._plan(txn, ref), self._progress
            )
            self._plans = {ref: self._plans[ref] for ref in chosen}
            staged = tuple(self._build(txn))
            files = [path for write in staged for path in write.files]
            return PreparedWrite(staged=staged, handing_over=lambda: self._workers.hand_over(files))
        except ObjectMissing as missing:
            # A deleted branch takes its lines with it; the next capture says so.
            raise Stale(moved_on(str(txn.request.branch), str(missing))) from missing

    def _forget_moved(self, txn: WriteTxn) -> None:
        if self._schema_hash != txn.line.schema.schema_hash:
            self._schema_hash = txn.line.schema.schema_hash
            self._plans.clear()
            self._built.clear()
        for ref, plan in list(self._plans.items()):
            if place_of(txn.line.pins[ref]) != place_of(plan.pinned):
                del self._plans[ref]
                self._overtaken[ref] = self._overtaken.get(ref, 0) + (ref in self._built)

    def _plan(self, txn: WriteTxn, ref: TableRef) -> _Plan:
        layout, pinned = txn.tables.layouts[ref], txn.line.pins[ref]
        handle = txn.readable(ref)
        specs = wanted_indexes(txn.tables.types[ref])
        covered = {index.name: index.rows_covered for index in txn.store.index_coverage(handle)}
        return _Plan(
            layout=layout,
            pinned=pinned,
            works=tuple(txn.store.plan_indexes(handle, specs)),
            coverage=tuple(
                IndexRows(
                    property_name=spec.property_name,
                    kind=spec.kind.value,
                    rows_covered=covered.get(index_name(layout, spec), 0),
                    rows=pinned.row_count,
                )
                for spec in specs
            ),
            unwanted=unwanted_indexes(layout, specs, covered),
        )

    def _build(self, txn: WriteTxn) -> list[StagedWrite]:
        """The staged segments of every table that needs some, in transactions of this attempt."""
        missing = {
            ref: plan.missing for ref, plan in self._plans.items() if plan.missing or plan.unwanted
        }
        self._busy = {ref for ref in missing if self._is_too_slow(ref)}
        # Forking a table takes the lease of the branch, so it is done one by one.
        bases = {ref: txn.writable(ref) for ref in missing if ref not in self._busy}
        self._built = {
            ref: staged
            for ref, staged in self._built.items()
            if ref in bases and staged.base.pin == bases[ref].pin
        }
        unbuilt = [ref for ref in bases if ref not in self._built]
        worked = self._workers.stage(
            "build", {ref: self._steps(txn, ref, bases[ref], missing[ref]) for ref in unbuilt}
        )
        self._built |= {ref: each.staged for ref, each in worked.items()}
        self._took_us |= {ref: each.took_us for ref, each in worked.items()}
        self._progress(StageProgress(stage="commit", total=len(bases)))
        return [self._of_attempt(txn, ref) for ref in bases]

    def _is_too_slow(self, ref: TableRef) -> bool:
        """Others move the table faster than it can be built, and too long to build it leased."""
        return self._is_overtaken(ref) and self._took_us.get(ref, 0) > QUICK_US

    def _is_overtaken(self, ref: TableRef) -> bool:
        return self._overtaken.get(ref, 0) >= STAGINGS

    def _steps(
        self, txn: WriteTxn, ref: TableRef, base: TableHandle, specs: Sequence[IndexSpec]
    ) -> Steps[StagedWrite]:
        return txn.store.index_steps(
            base,
            specs,
            txn.stamp,
            unwanted=self._plans[ref].unwanted,
            spread=self._workers.spread,
        )

    def _of_attempt(self, txn: WriteTxn, ref: TableRef) -> StagedWrite:
        """The segments of a table as this attempt commits them.

        If the table moves again it is built again without the lease, but for one that is built
        quickly and was overtaken often.
        """
        staged = self._built[ref]

        def rebase(newer: TableHandle) -> StagedWrite:
            plan = self._plans[ref]
            moved = txn.store.stage_index(newer, plan.buildable, txn.stamp, unwanted=plan.unwanted)
            if moved.is_noop:
                raise Stale(moved_on(newer.layout.table_key, newer.pin.version))
            self._built[ref] = moved
            return moved

        return replace(
            restamped(staged, txn.stamp, self._graph.ids),
            rebase=rebase if self._is_overtaken(ref) else None,
        )

    def report(self, branch: str, row: CommitRow | None) -> IndexReport:
        """What became of the tables; asks storage nothing, the write has ended."""
        moved = {} if row is None else self._built
        stats = [
            _stats(plan, moved.get(ref), is_busy=ref in self._busy)
            for ref, plan in self._plans.items()
        ]
        return IndexReport(
            branch=branch,
            engine=self._workers.engine.value,
            commit=None if row is None else commit_of(row),
            tables=tuple(stats),
        )


def _stats(plan: _Plan, staged: StagedWrite | None, *, is_busy: bool) -> TableIndexStats:
    version = plan.pinned.version
    coverage = plan.coverage
    if staged is not None:
        version = staged.base.pin.version + len(staged.links)
        coverage = tuple(
            _after(rows, work, staged.rows_after)
            for rows, work in zip(plan.coverage, plan.works, strict=True)
        )
    key = str(plan.layout.table_key)
    reason = PendingReason.NO_VECTORS if plan.pinned.row_count else PendingReason.NO_ROWS
    return TableIndexStats(
        table_key=key,
        committed=staged is not None,
        published_dataset_version=version,
        built=()
        if staged is None
        else tuple(
            BuiltIndex(property_name=spec.property_name, kind=spec.kind.value)
            for spec in plan.missing
        ),
        coverage=coverage,
        pending_indexes=tuple(
            PendingIndex(table_key=key, property_name=work.spec.property_name, reason=reason)
            for work in plan.works
            if work.action is IndexAction.PENDING
        ),
        skipped=SkipReason.BUSY if is_busy else None,
    )


def _after(rows: IndexRows, work: IndexWork, rows_after: int) -> IndexRows:
    """What an index covers once the staged segments have landed."""
    if work.action is IndexAction.PENDING:
        return replace(rows, rows=rows_after)
    return replace(rows, rows_covered=rows_after, rows=rows_after)
