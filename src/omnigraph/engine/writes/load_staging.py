"""The in-process load on one attempt to write: rows checked as a whole, then staged by table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from omnigraph.graph.commit.lookups import TxnLookups
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.load.rows import load_delta
from omnigraph.graph.validation import REPORTED_VIOLATIONS, Findings, gather, validate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.load.rows import LoadRows
    from omnigraph.graph.load.vector_filling import VectorFiller
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import TableDelta
    from omnigraph.storage.handles import StagedWrite, TableHandle


@dataclass(kw_only=True)
class LoadStaging:
    """The rows of a load over one captured state."""

    txn: WriteTxn
    rows: LoadRows
    mode: LoadMode
    concurrency: int = 1

    def findings(self, *, limit: int = REPORTED_VIOLATIONS) -> Findings:
        """Everything that is wrong with the load."""
        lookups = TxnLookups(self.txn)
        findings = validate(self.txn.catalog, self.deltas.values(), lookups, limit=limit)
        return gather((self.rows.findings, findings), limit=limit)

    def stage(self, refs: Sequence[TableRef], filler: VectorFiller) -> dict[TableRef, StagedWrite]:
        """The rows of these tables, after the vectors that were left out are filled."""
        images = {ref: self._image(self.deltas[ref], filler) for ref in refs}
        # Forks take leases, one after the other; only files are written side by side.
        bases = {ref: self.txn.writable(ref) for ref in images}
        with ThreadPoolExecutor(max_workers=self.concurrency) as pool:
            staged = pool.map(lambda ref: self._stage(bases[ref], images[ref]), bases)
            return dict(zip(bases, staged, strict=True))

    @cached_property
    def deltas(self) -> Mapping[TableRef, TableDelta]:
        """What the load does to each table."""
        return {ref: load_delta(rows, self.mode) for ref, rows in sorted(self.rows.tables.items())}

    def _image(self, delta: TableDelta, filler: VectorFiller) -> pa.Table:
        return filler.filled(delta.item, delta.image.table.take(delta.image.at))

    def _stage(self, base: TableHandle, rows: pa.Table) -> StagedWrite:
        store, stamp = self.txn.store, self.txn.stamp
        match self.mode:
            case LoadMode.APPEND:
                return store.stage_append(base, rows, stamp)
            case LoadMode.MERGE:
                return store.stage_merge_insert(base, rows, stamp)
            case LoadMode.OVERWRITE:
                return store.stage_overwrite(base, rows, stamp)
