"""Checks 5 to 7 (unique values, ends, cardinality) by the validator itself, in one process.

For loads whose keys fit. Few are looked up by key in the committed rows, for many these are read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.graph.arrays import no_texts, one_array
from omnigraph.graph.load.bare_nodes import foreseen_bare_nodes
from omnigraph.graph.load.held_rules import HeldRelations, superseded_places
from omnigraph.graph.load.rows import load_delta
from omnigraph.graph.validation import Findings, FittedRows, gather
from omnigraph.graph.validation.delta import prepare_write
from omnigraph.graph.validation.evaluator import check_relations
from omnigraph.pipeline.staging.key_columns import PLACE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Set

    import pyarrow as pa

    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.jobs.report import LoadMode
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import CommittedRows, TableDelta
    from omnigraph.lang.catalog import EdgeType


class DriverChecks:
    """The checks of one load over one captured state; its keys are in memory.

    `keys` is what the rules compare of the staged rows, in their order. In the tables of
    `given_ids` some id was not made for its row.
    """

    def __init__(
        self,
        txn: WriteTxn,
        mode: LoadMode,
        keys: Mapping[TableRef, pa.Table],
        committed: CommittedRows,
        *,
        given_ids: Set[TableRef],
        sample: int,
    ) -> None:
        self._txn = txn
        self._mode = mode
        self._committed = committed
        self._sample = sample
        self._deltas = {
            ref: self._delta(ref, rows, has_new_ids=ref not in given_ids)
            for ref, rows in keys.items()
        }

    def superseded(self) -> dict[TableRef, list[int]]:
        """Places of records that a later record of the same edge id replaces, by table."""
        return superseded_places(self._deltas.values())

    def findings(self) -> Findings:
        """Everything that is wrong across rows; the rows of violations are places."""
        write = prepare_write(self._txn.catalog, self._deltas.values(), self._committed)
        return gather(check_relations(write, limit=self._sample), limit=self._sample)

    def bare_nodes(self) -> Iterator[tuple[EdgeType, int]]:
        """How many nodes would lack an edge that they need, by type of edge."""
        deltas = self._deltas.values()
        return foreseen_bare_nodes(
            self._txn, deltas, self._committed, lambda nodes: nodes.image.ids
        )

    def rules(self, most: int) -> HeldRelations:
        """The same rules for whoever rejects rows."""
        rows = {ref: delta.rows for ref, delta in self._deltas.items()}
        return HeldRelations(self._txn.catalog, self._mode, rows, self._committed, most=most)

    def _delta(self, ref: TableRef, keys: pa.Table, *, has_new_ids: bool) -> TableDelta:
        """What is staged for a table."""
        item = self._txn.tables.types[ref]
        fitted = FittedRows(item=item, table=keys, lines=one_array(keys[PLACE]))
        delta = load_delta(fitted, self._mode)
        if has_new_ids:
            delta = replace(delta, has_new_ids=True, strict_ids=no_texts())
        return delta
