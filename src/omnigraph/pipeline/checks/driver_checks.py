"""Checks 5 to 7 (unique values, ends, cardinality) by the validator itself, in one process.

For loads whose keys fit easily. Committed rows are looked up by key instead of being read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from omnigraph.graph.arrays import one_array
from omnigraph.graph.commit.lookups import TxnLookups
from omnigraph.graph.load.bare_nodes import foreseen_bare_nodes
from omnigraph.graph.load.held_rules import HeldRelations, superseded_places
from omnigraph.graph.load.rows import load_delta
from omnigraph.graph.validation import Findings, FittedRows, gather
from omnigraph.graph.validation.delta import prepare_write
from omnigraph.graph.validation.evaluator import check_relations
from omnigraph.pipeline.staging.key_columns import PLACE
from omnigraph.pipeline.staging.key_frames import read_part

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.jobs.report import LoadMode
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import TableDelta
    from omnigraph.lang.catalog import EdgeType
    from omnigraph.pipeline.staging.key_frames import StagedTable
    from omnigraph.storage.graph_storage import GraphStorage

DRIVER_ROWS: Final = 1_000_000
"""Up to so many rows of input the driver checks them itself."""


class DriverChecks:
    """The checks of one load over one captured state; its rows are in memory."""

    def __init__(
        self,
        txn: WriteTxn,
        mode: LoadMode,
        tables: Mapping[TableRef, StagedTable],
        storage: GraphStorage,
        *,
        sample: int,
    ) -> None:
        self._txn = txn
        self._mode = mode
        self._sample = sample
        deltas = {ref: self._delta(table, storage) for ref, table in tables.items() if table.parts}
        self._deltas = {ref: delta for ref, delta in deltas.items() if delta is not None}

    def superseded(self) -> dict[TableRef, list[int]]:
        """Places of records that a later record of the same edge id replaces, by table."""
        return superseded_places(self._deltas.values())

    def findings(self) -> Findings:
        """Everything that is wrong across rows; the rows of violations are places."""
        write = prepare_write(self._txn.catalog, self._deltas.values(), TxnLookups(self._txn))
        return gather(check_relations(write, limit=self._sample), limit=self._sample)

    def bare_nodes(self) -> Iterator[tuple[EdgeType, int]]:
        """How many nodes would lack an edge that they need, by type of edge."""
        return foreseen_bare_nodes(self._txn, self._deltas.values(), lambda nodes: nodes.image.ids)

    def rules(self, most: int) -> HeldRelations:
        """The same rules for whoever rejects rows."""
        rows = {ref: delta.rows for ref, delta in self._deltas.items()}
        lookups = TxnLookups(self._txn)
        return HeldRelations(self._txn.catalog, self._mode, rows, lookups, most=most)

    def _delta(self, table: StagedTable, storage: GraphStorage) -> TableDelta | None:
        """What is staged for a table; `None` where every row of it was left out."""
        parts = [rows for part in table.parts for rows in read_part(storage, table, part)]
        if not parts:
            return None
        rows = pa.concat_tables(parts).sort_by(PLACE).combine_chunks()
        fitted = FittedRows(item=table.item, table=rows, lines=one_array(rows[PLACE]))
        return load_delta(fitted, self._mode)
