"""The in-process load on one attempt to write: rows checked as a whole, then staged by table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.arrays import chosen, text_array
from omnigraph.graph.commit.lookups import TxnLookups
from omnigraph.graph.commit.read_set import RowsById
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.load.bare_nodes import foreseen_bare_nodes
from omnigraph.graph.load.equal_rows import (
    NOWHERE,
    ExistingRows,
    equal_to_stored,
    row_ids_by_id,
    unchanged_rows,
)
from omnigraph.graph.load.rows import load_delta
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.graph.validation import REPORTED_VIOLATIONS, Findings, gather, validate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.graph.arrays import Column
    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.load.rows import LoadRows
    from omnigraph.graph.load.vector_filling import VectorFiller
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import TableDelta
    from omnigraph.lang.catalog import EdgeType
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
            staged = pool.map(lambda ref: self._stage(bases[ref], ref, images[ref]), bases)
            return dict(zip(bases, staged, strict=True))

    def existing_rows(self, ref: TableRef) -> ExistingRows:
        """How many rows of a table would replace a committed one, and how many equal one."""
        store, base, image = self.txn.store, self.txn.readable(ref), self.deltas[ref].image
        rows = image.table.take(image.at)
        row_ids = row_ids_by_id(store, base, image.ids)
        equal = int(equal_to_stored(store, base, rows, row_ids).sum())
        return ExistingRows(changed=int((row_ids != NOWHERE).sum()) - equal, unchanged=equal)

    def bare_nodes(self) -> Iterator[tuple[EdgeType, int]]:
        """How many nodes would lack an edge that they need, by type of edge."""
        lookups = TxnLookups(self.txn)
        return foreseen_bare_nodes(self.txn, self.deltas.values(), lookups, self._changed_ids)

    def _changed_ids(self, delta: TableDelta) -> Column:
        """Ids of the rows that are not in their table as they are."""
        image, base = delta.image, self.txn.readable(ref_of(delta.item))
        if not self.mode.upserts or not self.txn.line.pins[ref_of(delta.item)].row_count:
            return image.ids
        rows = image.table.take(image.at)
        return chosen(image.ids, ~unchanged_rows(self.txn.store, base, rows))

    @cached_property
    def deltas(self) -> Mapping[TableRef, TableDelta]:
        """What the load does to each table."""
        return {ref: load_delta(rows, self.mode) for ref, rows in sorted(self.rows.tables.items())}

    def _image(self, delta: TableDelta, filler: VectorFiller) -> pa.Table:
        return filler.filled(delta.item, delta.image.table.take(delta.image.at))

    def _stage(self, base: TableHandle, ref: TableRef, rows: pa.Table) -> StagedWrite:
        store, stamp = self.txn.store, self.txn.stamp
        match self.mode:
            case LoadMode.APPEND:
                return store.stage_append(base, rows, stamp)
            case LoadMode.MERGE | LoadMode.UPDATE:
                return self._merge(base, ref, rows)
            case LoadMode.OVERWRITE:
                return store.stage_overwrite(base, rows, stamp)

    def _merge(self, base: TableHandle, ref: TableRef, rows: pa.Table) -> StagedWrite:
        """An upsert of the rows that are not in the table as they are."""
        store, txn = self.txn.store, self.txn
        unchanged = unchanged_rows(store, base, rows) if txn.line.pins[ref].row_count else None
        if unchanged is None or not unchanged.any():
            return store.stage_merge_insert(base, rows, txn.stamp)
        is_equal = pa.array(unchanged)
        txn.read_set.ask(ref, RowsById(text_array(rows["id"]).filter(is_equal)))
        staged = store.stage_merge_insert(base, rows.filter(pc.invert(is_equal)), txn.stamp)
        return replace(staged, rows_unchanged=int(unchanged.sum()))
