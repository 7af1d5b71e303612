"""`optimize`: few large fragments, and indexes that cover every row, in at most one commit.

Rows do not change, so this write is never strict. Fragments are joined and their indexes built
without a lease, several tables at once. What others do meanwhile wins: a table whose joined
fragments are still as they were keeps its work, any other is staged again, and after a few times it
is left as it is. Nothing to do makes no commit, and a branch does not fork a table for that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.errors import InvalidArgument
from omnigraph.failpoints import maybe_fail
from omnigraph.graph.commit.protocol import Stale
from omnigraph.graph.commit.txn import PreparedWrite, WriteRequest
from omnigraph.graph.history.commit_graph import commit_of
from omnigraph.graph.jobs.stage_progress import StageProgress
from omnigraph.graph.maintenance.index_report import (
    BuiltIndex,
    PendingIndex,
    PendingReason,
    SkipReason,
)
from omnigraph.graph.maintenance.optimize_report import OptimizeReport, TableOptimizeStats
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
from omnigraph.storage.compaction import ROWS_PER_FRAGMENT, CompactionChoice, is_due
from omnigraph.storage.maintenance import IndexAction
from omnigraph.storage.signals import FragmentsChanged, ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.maintenance.workers import Workers
    from omnigraph.graph.manifest.rows import CommitRow, PinRow, TableRef
    from omnigraph.storage.handles import StagedWrite, TableHandle
    from omnigraph.storage.indexes import IndexSpec
    from omnigraph.storage.maintenance import IndexWork
    from omnigraph.storage.shared_work import Steps

STAGINGS = 3
"""How often a table is staged before it is left to those who write to it."""

MOST_ROWS = 2**32
"""A row's place in its fragment is a number below this."""

_IDLE = (IndexAction.NONE, IndexAction.PENDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What one table needs at one pin."""

    table_key: str
    pinned: PinRow
    head: int
    is_due: bool
    """Fragments are to be joined."""

    works: tuple[IndexWork, ...]

    @property
    def missing(self) -> list[IndexSpec]:
        return [work.spec for work in self.works if work.action not in _IDLE]

    @property
    def is_idle(self) -> bool:
        return not self.is_due and not self.missing


def optimize(
    graph: GraphCoordinator,
    *,
    branch: str,
    types: Iterable[str] | None = None,
    target_rows: int | None = None,
    actor_id: str | None = None,
    progress: Progress | None = None,
    workers: Workers | None = None,
) -> OptimizeReport:
    """Join small fragments and bring indexes up to date, in at most one commit.

    The line of the branch in the manifest is joined, too. No version is removed. Without workers
    the threads of this process do it.

    Raises:
        InvalidArgument: there is no such type, or the target is not positive.
        BranchNotFound: there is no such branch, or it was deleted meanwhile.
        RecoveryBlocked: an interrupted write of the branch must be repaired first.
        ReadSetChanged: others were faster in every attempt.
    """
    require_target(target_rows)
    branch_id = graph.branch_id(branch)
    request = WriteRequest(
        kind=SidecarKind.OPTIMIZE,
        branch=BranchName(branch),
        branch_id=branch_id,
        actor_id=actor_id,
    )
    progress = progress or silent
    work = _Optimizing(
        graph,
        list_of_names(types),
        target_rows or ROWS_PER_FRAGMENT,
        progress,
        workers or LocalWorkers(graph, progress),
    )
    row = graph.protocol.run(request, work.prepare)
    return work.report(branch, row, graph.upkeep.join_all(branch_id))


def require_target(target_rows: int | None) -> None:
    """Refuse what is no number of rows of a fragment.

    Raises:
        InvalidArgument: it is none.
    """
    is_whole = isinstance(target_rows, int) and not isinstance(target_rows, bool)
    if target_rows is not None and not (is_whole and 1 <= target_rows <= MOST_ROWS):
        raise InvalidArgument(
            f"target_rows is a number of rows from 1 to {MOST_ROWS:,}, not {target_rows!r}",
            argument="target_rows",
        )


class _Optimizing:
    """One call over all its attempts: what was planned and staged for each table."""

    def __init__(
        self,
        graph: GraphCoordinator,
        names: tuple[str, ...] | None,
        target_rows: int,
        progress: Progress,
        workers: Workers,
    ) -> None:
        self._graph = graph
        self._names = names
        self._target_rows = target_rows
        self._progress = progress
        self._workers = workers
        self._schema_hash: str | None = None
        self._plans: dict[TableRef, _Plan] = {}
        self._staged: dict[TableRef, StagedWrite] = {}
        self._stagings: dict[TableRef, int] = {}
        self._busy: set[TableRef] = set()

    def prepare(self, txn: WriteTxn) -> PreparedWrite:
        """Plan and stage what is not there yet for the captured pins."""
        try:
            self._forget_moved(txn)
            chosen = chosen_tables(self._graph, txn, self._names)
            unplanned = [ref for ref in chosen if ref not in self._plans]
            self._plans |= for_each(
                self._graph, "plan", unplanned, lambda ref: self._plan(txn, ref), self._progress
            )
            self._plans = {ref: self._plans[ref] for ref in chosen}
            staged = tuple(self._stage_all(txn))
            files = [path for write in staged for path in write.files]
            return PreparedWrite(staged=staged, handing_over=lambda: self._workers.hand_over(files))
        except ObjectMissing as missing:
            # A deleted branch takes its lines with it; the next capture says so.
            raise Stale(moved_on(str(txn.request.branch), str(missing))) from missing

    def _forget_moved(self, txn: WriteTxn) -> None:
        if self._schema_hash != txn.line.schema.schema_hash:
            self._schema_hash = txn.line.schema.schema_hash
            self._plans.clear()
            self._staged.clear()
        self._plans = {
            ref: plan
            for ref, plan in self._plans.items()
            if place_of(txn.line.pins[ref]) == place_of(plan.pinned)
        }

    def _plan(self, txn: WriteTxn, ref: TableRef) -> _Plan:
        layout, pinned = txn.tables.layouts[ref], txn.line.pins[ref]
        handle = txn.readable(ref)
        return _Plan(
            table_key=str(layout.table_key),
            pinned=pinned,
            head=txn.store.head_version(layout, pinned.branch),
            is_due=is_due(txn.store.fragments(handle), self._target_rows),
            works=tuple(txn.store.plan_indexes(handle, wanted_indexes(txn.tables.types[ref]))),
        )

    def _stage_all(self, txn: WriteTxn) -> list[StagedWrite]:
        """What is staged for every table that needs it, in transactions of this attempt."""
        needy = [ref for ref, plan in self._plans.items() if not plan.is_idle]
        # Forking a table takes the lease of the branch, so it is done one by one.
        bases = {ref: txn.writable(ref) for ref in needy if ref not in self._busy}
        self._staged = {
            ref: moved
            for ref, base in bases.items()
            if (moved := self._moved(ref, base)) is not None
        }
        unstaged = [ref for ref in bases if ref not in self._staged]
        self._busy |= {ref for ref in unstaged if self._stagings.get(ref, 0) >= STAGINGS}
        worked = self._workers.stage(
            "stage",
            {ref: self._steps(txn, ref, bases[ref]) for ref in unstaged if ref not in self._busy},
        )
        self._staged |= {ref: each.staged for ref, each in worked.items()}
        due = {ref: staged for ref, staged in self._staged.items() if not staged.is_noop}
        self._progress(StageProgress(stage="commit", total=len(due)))
        return [self._of_attempt(txn, ref, staged) for ref, staged in due.items()]

    def _moved(self, ref: TableRef, base: TableHandle) -> StagedWrite | None:
        """What was staged for a table before, if it fits this base."""
        staged = self._staged.get(ref)
        if staged is None or staged.base.pin == base.pin:
            return staged
        if not staged.fragments_removed or staged.rebase is None:
            return None
        try:
            return staged.rebase(base)
        except FragmentsChanged:
            return None

    def _steps(self, txn: WriteTxn, ref: TableRef, base: TableHandle) -> Steps[StagedWrite]:
        self._stagings[ref] = self._stagings.get(ref, 0) + 1
        maybe_fail("optimize.pre_rewrite")
        specs, spread = tuple(wanted_indexes(txn.tables.types[ref])), self._workers.spread
        if self._plans[ref].is_due:
            choice = CompactionChoice(rows_per_fragment=self._target_rows, specs=specs)
            staged = yield from txn.store.compaction_steps(base, txn.stamp, choice, spread)
            if not staged.is_noop:
                return staged
        return (yield from txn.store.index_steps(base, specs, txn.stamp, spread=spread))

    def _of_attempt(self, txn: WriteTxn, ref: TableRef, staged: StagedWrite) -> StagedWrite:
        """The work on a table as this attempt commits it; indexes alone do not move."""
        ids = self._graph.ids
        again = staged.rebase

        def rebase(newer: TableHandle) -> StagedWrite:
            if again is None:
                raise Stale(moved_on(newer.layout.table_key, newer.pin.version))
            moved = again(newer)
            self._staged[ref] = moved
            return restamped(moved, txn.stamp, ids)

        return replace(
            restamped(staged, txn.stamp, ids), rebase=rebase if staged.fragments_removed else None
        )

    def report(self, branch: str, row: CommitRow | None, joined: int) -> OptimizeReport:
        """What became of the tables; asks storage nothing, the write has ended."""
        landed = {} if row is None else self._staged
        return OptimizeReport(
            branch=branch,
            engine=self._workers.engine.value,
            commit=None if row is None else commit_of(row),
            manifest_fragments_removed=joined,
            tables=tuple(
                _stats(plan, landed.get(ref), is_busy=ref in self._busy)
                for ref, plan in self._plans.items()
            ),
        )


def _stats(plan: _Plan, staged: StagedWrite | None, *, is_busy: bool) -> TableOptimizeStats:
    is_committed = staged is not None and not staged.is_noop
    version, head = plan.pinned.version, plan.head
    if staged is not None and is_committed:
        version = head = staged.base.pin.version + len(staged.links)
    reason = PendingReason.NO_VECTORS if plan.pinned.row_count else PendingReason.NO_ROWS
    return TableOptimizeStats(
        table_key=plan.table_key,
        fragments_removed=staged.fragments_removed if staged is not None else 0,
        fragments_added=staged.fragments_added if staged is not None else 0,
        committed=is_committed,
        published_dataset_version=version,
        lance_head_version=head,
        built=tuple(
            BuiltIndex(property_name=spec.property_name, kind=spec.kind.value)
            for spec in plan.missing
            if is_committed
        ),
        pending_indexes=tuple(
            PendingIndex(
                table_key=plan.table_key, property_name=work.spec.property_name, reason=reason
            )
            for work in plan.works
            if work.action is IndexAction.PENDING
        ),
        skipped=SkipReason.BUSY if is_busy else None,
    )
