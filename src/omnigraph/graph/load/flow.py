"""The one way of every load: take, check, verdict, stage, commit, report.

A lane supplies the steps: in this process, or on Spark. The flow decides in which order they come,
what becomes of bad rows, what each table is said to have got, and what the receipt says. It is
prepared by the commit protocol like any other write, and again when others were faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from omnigraph.graph.commit.read_set import AllRows
from omnigraph.graph.commit.txn import PreparedWrite
from omnigraph.graph.jobs.report import LoadMode, RejectReport, TableReport
from omnigraph.graph.load.bare_nodes import bare_node_warnings
from omnigraph.graph.load.equal_rows import ExistingRows
from omnigraph.graph.load.load_branch import LoadBranch, load_branch, readable_branch
from omnigraph.graph.load.load_stats import committed_tables, load_stats
from omnigraph.graph.load.receipts import repeat_receipt
from omnigraph.graph.load.reject_files import RejectFiles
from omnigraph.graph.load.reject_verdict import RejectVerdict
from omnigraph.graph.manifest.publisher import require_head
from omnigraph.graph.manifest.table_refs import key_of
from omnigraph.graph.validation import refuse_load
from omnigraph.graph.validation.bare_nodes import bare_nodes_text
from omnigraph.ids import BranchName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from omnigraph.graph.commit.txn import WriteRequest, WriteTxn
    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.graph.jobs.stages import JobStages
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.load.quarantine import Rejections
    from omnigraph.graph.load.reject_files import Reject
    from omnigraph.graph.load.request import LoadRequest
    from omnigraph.graph.manifest.rows import CommitRow, TableRef
    from omnigraph.graph.validation import Findings
    from omnigraph.lang.catalog import EdgeType
    from omnigraph.settings import MergeStrategy
    from omnigraph.storage.handles import StagedWrite


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneNames:
    """What reports call a lane, and the stages that lanes call differently."""

    engine: str
    stage: str
    """Where rows become files of their tables."""
    rejects: str | None = None
    """Where bad rows are written, if that is a stage of its own."""
    counts_rows: bool = False
    """Every stage is said to have done all rows, not only that which reads them."""


class BadRows(Protocol):
    """The input of a load that has bad rows, over one captured state."""

    @property
    def read(self) -> int:
        """Records, and lines that are none."""
        ...

    def found(self) -> Rejections:
        """All rows that are to be rejected."""
        ...

    def written(self, found: Rejections) -> Iterator[Reject]:
        """The rejected rows for their file, in the order of the input."""
        ...

    def leave_out(self, found: Rejections) -> None:
        """Go on without them, and without rows that later ones of the input supersede."""
        ...


class LoadSteps(Protocol):
    """What a lane does for a load. From `take` to `stage` it is asked anew by each attempt."""

    @property
    def names(self) -> LaneNames:
        """What the lane and its stages are called."""
        ...

    @property
    def stats(self) -> Mapping[str, object]:
        """What the commit keeps beside what every load tells."""
        ...

    @property
    def job(self) -> str | None:
        """What can be committed only once, whoever goes on with it."""
        ...

    @property
    def attempts(self) -> int | None:
        """How often the load is prepared; as often as other writes without it."""
        ...

    @property
    def merge_strategy(self) -> MergeStrategy:
        """Where the keys of a merge were compared."""
        ...

    @property
    def refs(self) -> Sequence[TableRef]:
        """The tables that the input has rows for."""
        ...

    def opened(self) -> AbstractContextManager[None]:
        """Hold what the load needs, and remove what it leaves behind."""
        ...

    def begin(self) -> Commit | None:
        """Find the input; the commit if the load that it goes on with was committed after all."""
        ...

    def digest(self) -> str:
        """What tells this input, and what is made of it, from another."""
        ...

    def take(self, txn: WriteTxn) -> None:
        """Have the rows as the schema in force sees them."""
        ...

    def findings(self, txn: WriteTxn, *, limit: int) -> Findings:
        """Everything that is wrong with them."""
        ...

    def bad_rows(self, txn: WriteTxn) -> BadRows:
        """The rows as a verdict needs them, after `findings` found some that are bad."""
        ...

    def accept(self, txn: WriteTxn) -> None:
        """What is left is valid: look at what only a valid load is looked at for."""
        ...

    def bare_nodes(self, txn: WriteTxn) -> Iterable[tuple[EdgeType, int]]:
        """How many nodes of those left would lack an edge that they need, by type of edge."""
        ...

    def rows_read(self, ref: TableRef) -> int:
        """How many rows the input has for a table."""
        ...

    def rows_left(self, ref: TableRef) -> int:
        """How many of them are neither rejected nor superseded."""
        ...

    def existing_rows(self, txn: WriteTxn, ref: TableRef) -> ExistingRows:
        """How many of those left would replace a committed row, and how many equal one."""
        ...

    def stage(self, txn: WriteTxn, refs: Sequence[TableRef]) -> Mapping[TableRef, StagedWrite]:
        """The rows of these tables as files that a commit can take."""
        ...

    def hand_over(self) -> None:
        """From now on a recovery may commit what was staged."""
        ...

    def abandon(self) -> None:
        """The commit failed: remove what nobody can commit any more."""
        ...

    def settle(self, row: CommitRow | None, *, is_own: bool) -> None:
        """The commit is made, or nothing was to commit: remove what it did not take.

        Args:
            row: the commit.
            is_own: it is what was staged last, not the answer to an earlier request.
        """
        ...

    def input_warnings(self) -> Sequence[str]:
        """What the receipt should say of the input."""
        ...

    def table_warnings(self) -> Sequence[str]:
        """What the receipt should say of the tables, if the commit is what was staged last."""
        ...


class LoadFlow:
    """One run of one load."""

    def __init__(
        self,
        graph: GraphCoordinator,
        request: LoadRequest,
        steps: LoadSteps,
        stages: JobStages,
        *,
        max_violations: int,
    ) -> None:
        self._graph = graph
        self._request = request
        self._steps = steps
        self._stages = stages
        self._max_violations = max_violations
        self._files = RejectFiles(request.rejects, graph.storage.location)
        self._operations: set[str] = set()
        self._prepared: WriteTxn | None = None
        self._rejects = RejectReport()
        self._rejected: Mapping[TableRef, int] = {}
        self._tables: list[TableReport] = []
        self._makes_branch = False

    def run(self) -> JobReport:
        """Load, or only check what a dry run asks for; what was done.

        Raises:
            LoadRejected, KeyConflict: rows are bad, and the load cannot go on without them.
            ReadSetChanged: others changed what it depends on, again and again.
            PreconditionFailed: the head is not the one that was asked for.
            BranchNotFound: there is no such branch, and none to fork it from.
        """
        return self._rehearse() if self._request.dry_run else self._load()

    def _load(self) -> JobReport:
        request, steps = self._request, self._steps
        with steps.opened():
            done = steps.begin()
            if done is not None:
                return repeat_receipt(done, None, request)
            with load_branch(
                self._graph, request.branch, request.from_, actor_id=request.actor_id
            ) as branch:
                self._makes_branch = branch.was_created
                row, warnings = self._commit()
                self._stages.end()
        return request.report(
            steps.names.engine,
            branch,
            self._untaken() if row is None else committed_tables(row.stats),
            self._stages.reports(),
            row,
            merge_strategy=steps.merge_strategy,
            # The first receipt of the same key came back.
            already_loaded=row is not None and row.operation_id not in self._operations,
            rejects=self._rejects,
            warnings=warnings,
        )

    def _commit(self) -> tuple[CommitRow | None, Sequence[str]]:
        try:
            request = self._write_request(self._request.branch)
            row = self._graph.protocol.run(request, self._prepare)
        except BaseException:
            self._steps.abandon()
            raise
        txn = self._prepared
        is_own = row is not None and txn is not None and row.operation_id == txn.operation_id
        self._steps.settle(row, is_own=is_own)
        told = [*self._steps.input_warnings(), *self._files.finish(row)]
        if row is not None and txn is not None and is_own:
            told += [*self._steps.table_warnings(), *self._bare_nodes(txn, row)]
        return row, told

    def _bare_nodes(self, txn: WriteTxn, row: CommitRow) -> Iterator[str]:
        refs = [ref for ref in self._steps.refs if self._is_written(ref)]
        return bare_node_warnings(self._graph, txn, row, mode=self._request.mode, refs=refs)

    def _rehearse(self) -> JobReport:
        """Check everything and tell what a run would do; nothing stays."""
        graph, request, steps = self._graph, self._request, self._steps
        with steps.opened():
            steps.begin()
            branch = readable_branch(graph, request.branch, request.from_)
            txn = graph.protocol.capture(
                self._write_request(BranchName(branch)), graph.clock.now_us()
            )
            require_head(request.if_commit, txn.line)
            self._check(txn)
            tables = sorted(
                (self._foreseen(txn, ref) for ref in steps.refs), key=lambda table: table.order
            )
            bare = [bare_nodes_text(item, n) for item, n in steps.bare_nodes(txn) if n]
            self._stages.end()
        return request.report(
            steps.names.engine,
            LoadBranch(name=request.branch, base=request.from_),
            tables,
            self._stages.reports(),
            merge_strategy=steps.merge_strategy,
            rejects=self._rejects,
            warnings=[*steps.input_warnings(), *bare],
        )

    def _write_request(self, branch: BranchName) -> WriteRequest:
        steps = self._steps
        return self._request.write_request(
            branch, steps.digest, attempts=steps.attempts, job=steps.job
        )

    def _prepare(self, txn: WriteTxn) -> PreparedWrite:
        mode, steps = self._request.mode, self._steps
        self._operations.add(txn.operation_id)
        self._check(txn)
        self._enter(steps.names.stage)
        written = [ref for ref in steps.refs if self._is_written(ref)]
        if mode is LoadMode.OVERWRITE:
            for ref in written:
                txn.read_set.ask(ref, AllRows())
        staged = steps.stage(txn, written)
        self._tables = [self._staged(txn, ref, staged.get(ref)) for ref in steps.refs]
        for table in self._tables:
            table.require_balance()
        self._enter("commit")
        self._prepared = txn
        job = {} if steps.job is None else {"job": steps.job}
        told = load_stats(mode, self._tables, self._rejects, branch_created=self._makes_branch)
        return PreparedWrite(
            staged=tuple(staged.values()),
            is_strict=mode is LoadMode.OVERWRITE,
            handing_over=steps.hand_over,
            stats={"load": job | told, **steps.stats},
        )

    def _check(self, txn: WriteTxn) -> None:
        """Everything that is to be written, found valid.

        Raises:
            LoadRejected, KeyConflict: rules are broken, and the load cannot go on without the rows.
        """
        self._rejected, self._rejects = {}, RejectReport()
        self._steps.take(txn)
        self._enter("check")
        findings = self._steps.findings(txn, limit=self._max_violations)
        rejects = self._request.rejects
        if rejects.cascade or (findings.total and rejects.are_wanted):
            self._set_aside(txn, findings)
        else:
            refuse_load(findings)
        self._steps.accept(txn)

    def _enter(self, stage: str) -> None:
        self._stages.enter(stage)
        if self._steps.names.counts_rows:
            self._stages.count(rows=self._stages.work.rows or 0)

    def _set_aside(self, txn: WriteTxn, findings: Findings) -> None:
        """Write the bad rows, and go on without them if the load may.

        Raises:
            LoadRejected, KeyConflict: it may not.
        """
        bad = self._steps.bad_rows(txn)
        rejections = bad.found()
        if not findings.total and not rejections.rows:
            return  # Asked only for nodes without their edges, and all have them.

        def write() -> str:
            if self._steps.names.rejects is not None:
                self._enter(self._steps.names.rejects)
            # Of too many rows those are written that may be rejected.
            written = rejections.first(self._request.rejects.max_rejects)
            return self._files.write(txn.operation_id, bad.written(written))

        is_told_only = self._request.dry_run
        RejectVerdict(
            options=self._request.rejects,
            findings=findings,
            found=rejections,
            read=bad.read,
            emptied=self._emptied(txn, rejections),
            max_violations=self._max_violations,
        ).require_allowed(None if is_told_only else write)
        uri = None if is_told_only else write()
        self._rejected = rejections.by_table
        self._rejects = RejectReport(violations=rejections.by_code, uri=uri)
        bad.leave_out(rejections)

    def _emptied(self, txn: WriteTxn, rejections: Rejections) -> list[str]:
        """Tables with rows that an overwrite would leave without any."""
        if self._request.mode is not LoadMode.OVERWRITE:
            return []
        return sorted(
            key_of(txn.tables.types[ref])
            for ref, count in rejections.by_table.items()
            if count == self._steps.rows_read(ref) and txn.line.pins[ref].row_count
        )

    def _is_written(self, ref: TableRef) -> bool:
        """Whether a table changes: one whose rows were all rejected is left as it is."""
        return bool(self._steps.rows_left(ref)) or not self._rejected.get(ref)

    def _untaken(self) -> list[TableReport]:
        """What is told of a load without a commit: rows that it rejected, or that are there."""
        if not self._rejects.violations and not any(each.unchanged for each in self._tables):
            return []
        return sorted(self._tables, key=lambda table: table.order)

    def _staged(self, txn: WriteTxn, ref: TableRef, staged: StagedWrite | None) -> TableReport:
        """What a run does to a table."""
        return self._table(
            txn,
            ref,
            added=0 if staged is None else staged.rows_added,
            changed=0 if staged is None else staged.rows_changed,
            unchanged=0 if staged is None else staged.rows_unchanged,
            removed=0 if staged is None else staged.rows_removed,
        )

    def _foreseen(self, txn: WriteTxn, ref: TableRef) -> TableReport:
        """What a run would do to a table."""
        mode, committed = self._request.mode, txn.line.pins[ref].row_count
        removed = 0
        existing = ExistingRows()
        if mode is LoadMode.OVERWRITE and self._is_written(ref):
            removed = committed
        elif mode.upserts and committed:
            existing = self._steps.existing_rows(txn, ref)
        return self._table(
            txn,
            ref,
            added=self._steps.rows_left(ref) - existing.changed - existing.unchanged,
            changed=existing.changed,
            unchanged=existing.unchanged,
            removed=removed,
        )

    def _table(
        self,
        txn: WriteTxn,
        ref: TableRef,
        *,
        added: int,
        changed: int,
        unchanged: int,
        removed: int,
    ) -> TableReport:
        read, rejected = self._steps.rows_read(ref), self._rejected.get(ref, 0)
        return TableReport(
            table=key_of(txn.tables.types[ref]),
            read=read,
            added=added,
            changed=changed,
            unchanged=unchanged,
            removed=removed,
            rejected=rejected,
            superseded=read - rejected - self._steps.rows_left(ref),
        )
