"""The in-process load on one attempt to write: rows checked as a whole, then staged by table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from omnigraph.graph.job_report import LoadMode, TableReport
from omnigraph.graph.load_stats import load_stats
from omnigraph.graph.lookups import TxnLookups
from omnigraph.graph.tables import key_of
from omnigraph.graph.validation import Findings, TableDelta, gather, refuse_load, validate
from omnigraph.graph.write_txn import PreparedWrite

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from omnigraph.graph.load_rows import LoadRows
    from omnigraph.graph.rows import TableRef
    from omnigraph.graph.vector_filling import VectorFiller
    from omnigraph.graph.write_txn import WriteTxn
    from omnigraph.storage.handles import StagedWrite, TableHandle


@dataclass(kw_only=True)
class LoadStaging:
    """The rows of a load over one captured state."""

    txn: WriteTxn
    rows: LoadRows
    mode: LoadMode
    concurrency: int = 1

    def check(self) -> None:
        """Every rule of the schema, over all rows.

        Raises:
            LoadRejected, KeyConflict: rules are broken.
        """
        refuse_load(self.findings())

    def findings(self) -> Findings:
        """Everything that is wrong with the load."""
        found = validate(self.txn.catalog, self._deltas.values(), TxnLookups(self.txn))
        return gather((self.rows.findings, found))

    def foreseen(self) -> tuple[TableReport, ...]:
        """What the load would do, without staging anything."""
        return tuple(self._foreseen(ref, delta) for ref, delta in self._deltas.items())

    def prepared(self, filler: VectorFiller) -> PreparedWrite:
        """Everything staged, after the vectors that were left out are filled."""
        images = {
            ref: filler.filled(delta.item, delta.image.table.take(delta.image.at))
            for ref, delta in self._deltas.items()
        }
        # Forks take leases, one after the other; only files are written side by side.
        bases = {ref: self.txn.writable(ref) for ref in images}
        with ThreadPoolExecutor(max_workers=self.concurrency) as pool:
            staged = list(pool.map(lambda ref: self._stage(bases[ref], images[ref]), bases))
        if self.mode is LoadMode.OVERWRITE:
            for ref in images:
                self.txn.read_set.ask_all(ref)
        reports = [
            _report(self._deltas[ref], each) for ref, each in zip(images, staged, strict=True)
        ]
        for report in reports:
            report.require_balance()
        return PreparedWrite(
            staged=tuple(staged),
            is_strict=self.mode is LoadMode.OVERWRITE,
            stats={"load": load_stats(self.mode, reports)},
        )

    @cached_property
    def _deltas(self) -> Mapping[TableRef, TableDelta]:
        return {
            ref: TableDelta(
                rows=rows,
                strict_ids=rows.table["id"].combine_chunks().drop_null()
                if self.mode is LoadMode.APPEND
                else rows.table["id"].slice(0, 0).combine_chunks(),
                replaces_all=self.mode is LoadMode.OVERWRITE,
                repeats_edge_ids=self.mode is LoadMode.MERGE,
            )
            for ref, rows in sorted(self.rows.tables.items())
        }

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
        elif self.mode is LoadMode.OVERWRITE:
            removed = self.txn.line.pins[ref].row_count
        read = delta.rows.table.num_rows
        return TableReport(
            table=key_of(delta.item),
            read=read,
            added=rows - changed,
            changed=changed,
            removed=removed,
            superseded=read - rows,
        )


def _report(delta: TableDelta, staged: StagedWrite) -> TableReport:
    read = delta.rows.table.num_rows
    return TableReport(
        table=key_of(delta.item),
        read=read,
        added=staged.rows_added,
        changed=staged.rows_changed,
        removed=staged.rows_removed,
        superseded=read - len(delta.image.ids),
    )
