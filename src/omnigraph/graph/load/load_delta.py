"""What the rows of a load do to their table, by the mode of the load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.graph.arrays import one_array
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.validation import TableDelta

if TYPE_CHECKING:
    from omnigraph.graph.validation import FittedRows


def load_delta(rows: FittedRows, mode: LoadMode) -> TableDelta:
    """The delta for the validator."""
    ids = one_array(rows.table["id"])
    return TableDelta(
        rows=rows,
        strict_ids=ids.drop_null() if mode is LoadMode.APPEND else ids.slice(0, 0),
        replaces_all=mode is LoadMode.OVERWRITE,
        repeats_edge_ids=mode is LoadMode.MERGE,
    )
