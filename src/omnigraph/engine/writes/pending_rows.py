"""Rows that a mutation wants to write to one table, before anything is staged.

One row for each id; the last write wins. A row that was updated may leave blobs out: those keep the
value they have in the table, which is never read here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.blobs.blob_values import joined
from omnigraph.graph.validation import FittedRows, gather

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from omnigraph.graph.arrays import Ids
    from omnigraph.lang import EdgeType, NodeType


@dataclass(slots=True)
class PendingRows:
    """The pending rows of one type."""

    item: NodeType | EdgeType
    parts: list[FittedRows] = field(default_factory=list)
    """Rows with all their columns, in the order they were written."""
    kept_blobs: dict[str, frozenset[str]] = field(default_factory=dict)
    """By id of a row that is in the table: the blobs that the write leaves as they are."""
    strict_ids: list[str] = field(default_factory=list)
    """Ids that must not be in the table yet."""
    read_parts: list[pa.Table] = field(default_factory=list)
    most_rows: int = 0
    """Rows that were written, repeats included: never fewer than are pending."""
    most_bytes: int = 0
    """The same in bytes."""

    @property
    def ids(self) -> Ids:
        """The ids that are pending, each once."""
        return pa.array(self.table["id"].combine_chunks(), pa.string())

    @property
    def table(self) -> pa.Table:
        """The rows, the last of each id."""
        rows = joined(self.item.arrow_schema, [part.table for part in self.parts])
        ids = rows["id"].to_pylist()
        last = {entity_id: at for at, entity_id in enumerate(ids)}
        return rows if len(last) == len(ids) else rows.take(sorted(last.values()))

    @property
    def read(self) -> pa.Table | None:
        """Committed rows that were read to be written anew, as they are in the table."""
        return pa.concat_tables(self.read_parts) if self.read_parts else None

    def note_read(self, rows: pa.Table) -> None:
        """Rows were read with what is pending laid over them; they are to be written."""
        committed = pc.invert(pc.is_in(rows["id"], value_set=self.ids))
        self.read_parts.append(rows.filter(committed))

    @property
    def fitted(self) -> FittedRows:
        """The rows as the validator takes them."""
        return FittedRows(
            item=self.item,
            table=self.table,
            findings=gather(part.findings for part in self.parts),
        )

    def add(self, rows: FittedRows, *, kept_blobs: Mapping[str, frozenset[str]]) -> None:
        """Write rows over what is pending of their ids."""
        self.parts.append(rows)
        self.most_rows += rows.table.num_rows
        self.most_bytes += rows.table.nbytes
        for entity_id in rows.table["id"].to_pylist():
            if entity_id is not None:
                self.kept_blobs.pop(entity_id, None)
        self.kept_blobs.update(
            {entity_id: names for entity_id, names in kept_blobs.items() if names}
        )

    def groups(self) -> Iterable[tuple[frozenset[str], pa.Table]]:
        """The rows by the blobs that they keep; those that are whole come last."""
        table = self.table
        by_blobs: dict[frozenset[str], list[str]] = {}
        for entity_id, names in self.kept_blobs.items():
            by_blobs.setdefault(names, []).append(entity_id)
        for names in sorted(by_blobs, key=sorted):
            kept = pa.array(by_blobs[names], pa.string())
            chosen = table.filter(pc.is_in(table["id"], value_set=kept))
            yield names, chosen.drop_columns(sorted(names))
        changed = pa.array(list(self.kept_blobs), pa.string())
        whole = table.filter(pc.invert(pc.is_in(table["id"], value_set=changed)))
        if whole.num_rows:
            yield frozenset(), whole
