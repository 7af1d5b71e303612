"""The in-process load on one attempt to write: rows checked as a whole, then staged by table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from omnigraph.graph.commit.lookups import TxnLookups
from omnigraph.graph.commit.read_set import AllRows
from omnigraph.graph.commit.txn import PreparedWrite
from omnigraph.graph.jobs.report import LoadMode, RejectReport, TableReport
from omnigraph.graph.load.load_stats import load_stats
from omnigraph.graph.load.rows import load_delta
from omnigraph.graph.manifest.table_refs import key_of
from omnigraph.graph.validation import REPORTED_VIOLATIONS, Findings, gather, validate

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.load.rows import LoadRows
    from omnigraph.graph.load.vector_filling import VectorFiller
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import TableDelta
    from omnigraph.storage.handles import StagedWrite, TableHandle


@dataclass(kw_only=True)
class LoadStaging:
    """The rows of a load over one captured state; those that were rejected are counted only."""

    txn: WriteTxn
    rows: LoadRows
    mode: LoadMode
    concurrency: int = 1
    rejected: Mapping[TableRef, int] = field(default_factory=dict)
    rejects: RejectReport = field(default_factory=RejectReport)

    def findings(self, *, limit: int = REPORTED_VIOLATIONS) -> Findings:
        """Everything that is wrong with the load."""
        lookups = TxnLookups(self.txn)
        found = validate(self.txn.catalog, self._deltas.values(), lookups, limit=limit)
        return gather((self.rows.findings, found), limit=limit)

    def foreseen(self) -> tuple[TableReport, ...]:
        """What the load would do, without staging anything."""
        return tuple(self._foreseen(ref, delta) for ref, delta in self._deltas.items())

    def prepared(self, filler: VectorFiller) -> PreparedWrite:
        """Everything staged, after the vectors that were left out are filled."""
        images = {
            ref: filler.filled(delta.item, delta.image.table.take(delta.image.at))
            for ref, delta in self._deltas.items()
            if self._is_written(ref, delta)
        }
        # Forks take leases, one after the other; only files are written side by side.
        bases = {ref: self.txn.writable(ref) for ref in images}
        with ThreadPoolExecutor(max_workers=self.concurrency) as pool:
            staged = dict(
                zip(
                    bases,
                    pool.map(lambda ref: self._stage(bases[ref], images[ref]), bases),
                    strict=True,
                )
            )
        if self.mode is LoadMode.OVERWRITE:
            for ref in images:
                self.txn.read_set.ask(ref, AllRows())
        reports = [self._report(ref, delta, staged.get(ref)) for ref, delta in self._deltas.items()]
        for report in reports:
            report.require_balance()
        return PreparedWrite(
            staged=tuple(staged.values()),
            is_strict=self.mode is LoadMode.OVERWRITE,
            stats={"load": load_stats(self.mode, reports, self.rejects)},
        )

    @cached_property
    def _deltas(self) -> Mapping[TableRef, TableDelta]:
        return {ref: load_delta(rows, self.mode) for ref, rows in sorted(self.rows.tables.items())}

    def _is_written(self, ref: TableRef, delta: TableDelta) -> bool:
        """A table whose rows were all rejected is left as it is."""
        return bool(delta.rows.table.num_rows) or not self.rejected.get(ref)

    def _stage(self, base: TableHandle, rows: pa.Table) -> StagedWrite:
        store, stamp = self.txn.store, self.txn.stamp
        match self.mode:
            case LoadMode.APPEND:
                return store.stage_append(base, rows, stamp)
            case LoadMode.MERGE:
                return store.stage_merge_insert(base, rows, stamp)
            case LoadMode.OVERWRITE:
                return store.stage_overwrite(base, rows, stamp)

    def _foreseen(self, ref: TableRef, delta: TableDelta) -> TableReport:
        rows = len(delta.image.ids)
        changed = removed = 0
        if self.mode is LoadMode.MERGE:
            handle = self.txn.readable(ref)
            changed = len(self.txn.store.existing_ids(handle, delta.image.ids))
        elif self.mode is LoadMode.OVERWRITE and self._is_written(ref, delta):
            removed = self.txn.line.pins[ref].row_count
        return TableReport(
            table=key_of(delta.item),
            read=delta.rows.table.num_rows + self.rejected.get(ref, 0),
            added=rows - changed,
            changed=changed,
            removed=removed,
            rejected=self.rejected.get(ref, 0),
            superseded=delta.rows.table.num_rows - rows,
        )

    def _report(self, ref: TableRef, delta: TableDelta, staged: StagedWrite | None) -> TableReport:
        return TableReport(
            table=key_of(delta.item),
            read=delta.rows.table.num_rows + self.rejected.get(ref, 0),
            added=0 if staged is None else staged.rows_added,
            changed=0 if staged is None else staged.rows_changed,
            removed=0 if staged is None else staged.rows_removed,
            rejected=self.rejected.get(ref, 0),
            superseded=delta.rows.table.num_rows - len(delta.image.ids),
        )
