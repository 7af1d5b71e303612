"""Lookups over rows of the manifest, vectorised: a long history costs no Python loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ManifestCorrupt
from omnigraph.graph.rows import RowKind, TableRef
from omnigraph.ids import Incarnation, TableId

if TYPE_CHECKING:
    from omnigraph.graph.rows import RawRow

OUTLINE: Final = ("object_type", "seq", "table_id", "incarnation")
"""The columns that tell which rows the head needs."""

_TIP_KINDS: Final = (RowKind.GRAPH_HEAD, RowKind.SCHEMA, RowKind.BRANCH)


class ManifestRows:
    """Rows of one version of a line, all of them or a choice."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def find(self, object_id: str) -> RawRow | None:
        """The row of that id.

        Raises:
            ManifestCorrupt: there are two.
        """
        matching = pc.equal(self.table["object_id"], pa.scalar(object_id, pa.string()))
        found = np.flatnonzero(matching.to_numpy())
        if len(found) > 1:
            raise ManifestCorrupt(
                f"the manifest has {len(found)} rows {object_id!r}; restore __manifest from a copy",
                object_id=object_id,
            )
        return self.at(int(found[0])) if len(found) else None

    def one(self, object_id: str) -> RawRow:
        """The row of that id, which must be there.

        Raises:
            ManifestCorrupt: there is none, or two.
        """
        found = self.find(object_id)
        if found is None:
            raise ManifestCorrupt(
                f"the manifest has no row {object_id!r}; restore __manifest from a copy",
                object_id=object_id,
            )
        return found

    def of(self, kind: RowKind) -> list[RawRow]:
        """Every row of a kind."""
        return self.table.filter(self.is_of(kind)).to_pylist()

    def is_of(self, kind: RowKind) -> pa.BooleanArray:
        """Which rows are of a kind."""
        return pc.equal(self.table["object_type"], pa.scalar(kind.value))

    def at(self, position: int) -> RawRow:
        """The row at a position."""
        return self.table.slice(position, 1).to_pylist()[0]

    def newest(self, kind: RowKind, seq: int) -> dict[TableRef, tuple[int, int]]:
        """Per table the greatest `seq` not above the given one, and the position of its row."""
        matching = pc.and_(self.is_of(kind), pc.less_equal(self.table["seq"], pa.scalar(seq)))
        positions = np.flatnonzero(matching.to_numpy(zero_copy_only=False) == True)  # noqa: E712
        if not len(positions):
            return {}
        chosen = self.table.select(["table_id", "incarnation", "seq"]).take(positions)
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


def tip_positions(outline: pa.Table) -> list[int]:
    """Where the rows are that the head of a line needs: head, schema, branches, commit, pins."""
    rows = ManifestRows(outline)
    kinds = pc.is_in(
        outline["object_type"], value_set=pa.array([kind.value for kind in _TIP_KINDS])
    )
    chosen = set(np.flatnonzero(kinds.to_numpy()).tolist())
    heads = np.flatnonzero(rows.is_of(RowKind.GRAPH_HEAD).to_numpy())
    for head in heads:
        seq = outline["seq"][int(head)].as_py()
        if seq is None:
            continue
        commits = pc.and_(
            rows.is_of(RowKind.GRAPH_COMMIT), pc.equal(outline["seq"], pa.scalar(seq))
        )
        chosen.update(np.flatnonzero(commits.to_numpy(zero_copy_only=False) == True))  # noqa: E712
        for kind in (RowKind.TABLE_VERSION, RowKind.TABLE_TOMBSTONE):
            chosen.update(position for _, position in rows.newest(kind, seq).values())
    return sorted(int(position) for position in chosen)
