"""Which rows of a merge are in their table already, exactly as they are given.

Such a row is neither written nor marked as changed. Whoever leaves one out has read the committed
row, so it belongs to the read set: a writer that changes it meanwhile makes the merge look again.
Equality is that of diffs (`graph/changes/row_pairs.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.graph.arrays import column, one_array, places_in, row_ids_of, text_array
from omnigraph.graph.changes.row_pairs import equal_values
from omnigraph.storage.blob_rows import blobs_of_rows
from omnigraph.storage.blobs import Blob
from omnigraph.storage.layout import batches_of
from omnigraph.storage.predicates import In
from omnigraph.storage.reading import IDS_PER_LOOKUP, ROW_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.graph.arrays import Ids, Mask, Numbers
    from omnigraph.storage.blob_rows import BlobValue
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.table_storage import TableStorage
    from omnigraph.storage.writes import Rows

NOWHERE: Final = -1
"""The row id of a row that is not in the table."""

_PORTION: Final = 8_192
_SCANNED_SHARE: Final = 10
"""More than one row in ten is found faster in a scan of all ids than through their index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingRows:
    """How many rows of a merge have the id of a row that is there."""

    changed: int = 0
    unchanged: int = 0


def row_ids_by_id(store: TableStorage, base: TableHandle, ids: Ids) -> Numbers:
    """For each id the row id of its row, or `NOWHERE`."""
    row_ids = np.full(len(ids), NOWHERE, np.int64)
    for batch in _committed_ids(store, base, ids):
        at = places_in(one_array(batch.column("id")), ids)
        known = at != NOWHERE
        row_ids[at[known]] = row_ids_of(batch.column(ROW_ID))[known].astype(np.int64)
    return row_ids


def _committed_ids(store: TableStorage, base: TableHandle, ids: Ids) -> Iterator[pa.RecordBatch]:
    if len(ids) * _SCANNED_SHARE > store.count(base):
        yield from store.scan(base, columns=["id"], with_row_ids=True)
        return
    for start in range(0, len(ids), IDS_PER_LOOKUP):
        portion = In("id", ids.slice(start, IDS_PER_LOOKUP))
        yield from store.scan(base, columns=["id"], predicate=portion, with_row_ids=True)


def unchanged_rows(store: TableStorage, base: TableHandle, rows: pa.Table) -> Mask:
    """Which rows, whose ids are unique, are in the table as they are."""
    ids = text_array(rows["id"])
    return equal_to_stored(store, base, rows, row_ids_by_id(store, base, ids))


def equal_to_stored(store: TableStorage, base: TableHandle, rows: Rows, row_ids: Numbers) -> Mask:
    """Which rows are as the rows of the table with these row ids; those that are new are not."""
    equal = [np.zeros(0, np.bool_)]
    start = 0
    for portion in _portions(batches_of(rows)):
        held = row_ids[start : start + portion.num_rows]
        start += portion.num_rows
        is_equal: Mask = held != NOWHERE
        if is_equal.any():
            known = pa.Table.from_batches([portion]).filter(pa.array(is_equal))
            is_equal[is_equal] = _equal_portion(store, base, known, held[is_equal])
        equal.append(is_equal)
    return np.concatenate(equal)


def _portions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, _PORTION):
            yield batch.slice(start, _PORTION)


def _equal_portion(
    store: TableStorage, base: TableHandle, rows: pa.Table, row_ids: Numbers
) -> Mask:
    blobs = base.layout.blobs
    names = [name for name in base.layout.schema.names if name not in blobs]
    # Taken in the order in which they lie.
    order = np.argsort(row_ids)
    rows, row_ids = rows.take(pa.array(order, pa.int64())), row_ids[order]
    stored = store.take_rows(base, pa.array(row_ids, pa.uint64()), names, is_once=True)
    equal: Mask = np.ones(len(row_ids), np.bool_)
    for name in names:
        given = column(rows, name).cast(stored.schema.field(name).type)
        equal &= equal_values(given, column(stored, name))
    for name in sorted(blobs & set(rows.schema.names)):
        if not equal.any():
            break
        held = blobs_of_rows(base, row_ids[equal].tolist(), name)
        cells = column(rows, name).filter(pa.array(equal)).to_pylist()
        pairs = zip(cells, held, strict=True)
        equal[equal] = np.asarray([_is_blob(*both) for both in pairs], np.bool_)
    back = np.empty(len(order), np.bool_)
    back[order] = equal
    return back


def _is_blob(cell: Any, stored: BlobValue) -> bool:  # noqa: ANN401 - bytes, or a struct of them
    """Whether a given blob is the stored one."""
    if isinstance(cell, dict):
        cell = cell["data"] if cell["uri"] is None else cell["uri"]
    if not isinstance(stored, Blob) or not isinstance(cell, bytes):
        return not isinstance(stored, Blob) and cell == stored
    return stored.length == len(cell) and stored.read(0, stored.length) == cell
