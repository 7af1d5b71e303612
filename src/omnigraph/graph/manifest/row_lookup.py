"""Which rows of the manifest matter, told from few columns: a long history costs no Python loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ManifestCorrupt
from omnigraph.graph.manifest.line_tip import NAMED
from omnigraph.graph.manifest.rows import RowKind, TableRef
from omnigraph.ids import Incarnation, TableId

if TYPE_CHECKING:
    from collections.abc import Mapping

OUTLINE: Final = ("object_type", "seq", "table_id", "incarnation")
"""The columns that tell which rows the head needs."""

_TIP_KINDS: Final = (RowKind.GRAPH_HEAD, RowKind.SCHEMA)


def newest_of_each(outline: pa.Table, kind: RowKind) -> Mapping[TableRef, tuple[int, int]]:
    """Per table the greatest `seq` of its rows of a kind, and the position of that row.

    Raises:
        ManifestCorrupt: a row names no table.
    """
    positions = _where(pc.equal(outline["object_type"], pa.scalar(kind.value)))
    chosen = outline.select(["table_id", "incarnation", "seq"]).take(positions)
    if any(column.null_count for column in chosen.columns):
        raise ManifestCorrupt(
            f"a {kind.value} row of the manifest names no table; restore __manifest from a copy"
        )
    tables, lives, numbers = (column.to_numpy() for column in chosen.columns)
    order = np.lexsort((numbers, lives, tables))
    return {
        TableRef(TableId(int(tables[at])), Incarnation(int(lives[at]))): (
            int(numbers[at]),
            int(positions[at]),
        )
        for at in _last_of_each(tables[order], lives[order], order)
    }


def _last_of_each(tables: np.ndarray, lives: np.ndarray, order: np.ndarray) -> np.ndarray:
    ends = np.ones(len(order), dtype=bool)
    ends[:-1] = (tables[1:] != tables[:-1]) | (lives[1:] != lives[:-1])
    return order[ends]


def tip_positions(outline: pa.Table, *, is_main: bool) -> list[int]:
    """Where the rows are that the head of a line needs: head, schema, commit, pins, names.

    Rows of branches and tags count on the main line only; a branch has inherited copies.
    """
    wanted = (*_TIP_KINDS, *NAMED) if is_main else _TIP_KINDS
    kinds = pa.array([kind.value for kind in wanted])
    chosen = set(_where(pc.is_in(outline["object_type"], value_set=kinds)).tolist())
    for head in _where(pc.equal(outline["object_type"], pa.scalar(RowKind.GRAPH_HEAD.value))):
        is_commit = pc.equal(outline["object_type"], pa.scalar(RowKind.GRAPH_COMMIT.value))
        is_head = pc.equal(outline["seq"], outline["seq"][int(head)])
        chosen.update(_where(pc.and_(is_commit, is_head)).tolist())
    for kind in (RowKind.TABLE_VERSION, RowKind.TABLE_TOMBSTONE):
        chosen.update(position for _, position in newest_of_each(outline, kind).values())
    return sorted(chosen)


def _where(matching: pa.BooleanArray) -> np.ndarray:
    """The positions at which a condition holds; where it is unknown it does not."""
    return np.flatnonzero(matching.to_numpy(zero_copy_only=False) == True)  # noqa: E712
