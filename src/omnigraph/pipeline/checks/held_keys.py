"""The keys of a load in the memory of one process, where they fit.

What rules across rows compare is a small part of the rows. Nobody knows how much it is before it is
read: reading ends where it becomes more than may be held.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.graph.validation.relation_rules import compared_columns
from omnigraph.lang.catalog import EdgeType
from omnigraph.pipeline.staging.key_columns import PLACE
from omnigraph.pipeline.staging.key_frames import read_part

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.lang.catalog import NodeType
    from omnigraph.pipeline.staging.key_frames import StagedTable
    from omnigraph.storage.graph_storage import GraphStorage

_SAMPLED_ROWS: Final = 1_000
_COLUMN_BYTES: Final = 1 << 30
"""Half of what one array of texts may hold: staged and committed values are put in one."""


def read_keys(
    storage: GraphStorage, tables: Mapping[TableRef, StagedTable], most_bytes: float
) -> dict[TableRef, pa.Table] | None:
    """What checks look at, of all staged rows in the order of the input; `None` if it is more."""
    held: dict[TableRef, pa.Table] = {}
    left = most_bytes
    for ref, table in tables.items():
        parts: list[pa.Table] = []
        for part in table.parts:
            for rows in read_part(storage, table, part):
                parts.append(rows)
                left -= rows.nbytes
                if left < 0:
                    return None
        if parts:
            held[ref] = _in_order(pa.concat_tables(parts))
    is_bounded = most_bytes < math.inf
    return None if is_bounded and any(map(_is_too_long, held.values())) else held


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedKeys:
    """What the rules may ask of committed rows."""

    rows: int
    size_bytes: int
    """About how much they compare of these rows, from the first of them."""
    is_too_long: bool
    """A column may be more than one array holds."""


def committed_keys(txn: WriteTxn, staged: Iterable[NodeType | EdgeType]) -> CommittedKeys:
    """What the rules of a load of these types may ask."""
    items = {ref_of(item): item for item in staged}
    for item in list(items.values()):
        if isinstance(item, EdgeType):
            ends = (txn.catalog.node_types[name] for name in (item.from_type, item.to_type))
            items |= {ref_of(node): node for node in ends}
    count = size_bytes = longest_bytes = 0
    for ref, item in items.items():
        rows = txn.line.pins[ref].row_count
        if rows:
            names = compared_columns(item)
            reader = txn.store.scan(txn.readable(ref), columns=names, limit=_SAMPLED_ROWS)
            sample = reader.read_all()
            sampled = max(sample.num_rows, 1)
            count += rows
            size_bytes += rows * sample.nbytes // sampled
            longest = max(each.nbytes for each in sample.columns)
            longest_bytes = max(longest_bytes, rows * longest // sampled)
    return CommittedKeys(
        rows=count, size_bytes=size_bytes, is_too_long=longest_bytes > _COLUMN_BYTES
    )


def _in_order(rows: pa.Table) -> pa.Table:
    """Rows by their places; most parts have them so."""
    places = rows[PLACE].to_numpy()
    if (places[1:] < places[:-1]).any():
        rows = rows.sort_by(PLACE)
    return rows if _is_too_long(rows) else rows.combine_chunks()


def _is_too_long(rows: pa.Table) -> bool:
    return any(each.nbytes > _COLUMN_BYTES for each in rows.columns)
