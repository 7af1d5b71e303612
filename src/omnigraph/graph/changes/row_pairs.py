"""Rows of a table in two versions, side by side, and where they are not equal.

Equality is typed, value by value: null is not the empty text, -0.0 equals 0.0, lists and vectors
are equal when all their items are, blobs when all their bytes are; an address outside the graph
equals the same address only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.arrays import column, flat_vectors, is_given, mask_of
from omnigraph.graph.changes.row_places import Side
from omnigraph.storage.blob_rows import blobs_of_rows
from omnigraph.storage.blobs import Blob

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.graph.arrays import Column, Ids, Mask
    from omnigraph.graph.changes.row_places import RowPlaces
    from omnigraph.storage.blob_rows import BlobValue
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.table_storage import TableStorage

_PORTION: Final = 2_048
_PIECE_BYTES: Final = 4 << 20


@dataclass(frozen=True, kw_only=True)
class Form:
    """Some entities as one version has them."""

    handle: TableHandle | None
    side: Side
    rows: pa.Table
    """Those that exist, without their blobs."""

    @cached_property
    def at(self) -> np.ndarray:
        """For each entity its row among those that exist."""
        return np.cumsum(self.side.exists) - 1

    def values(self, name: str, where: Mask) -> Column:
        """A column of some entities, all of which exist."""
        return column(self.rows, name).take(pa.array(self.at[where], pa.int64()))

    def chosen(self, where: Mask) -> Form:
        """Some of the entities."""
        side = Side(exists=self.side.exists[where], row_ids=self.side.row_ids[where])
        kept = pa.array(where[self.side.exists])
        rows = self.rows.filter(kept) if self.rows.num_columns else self.rows
        return Form(handle=self.handle, side=side, rows=rows)

    def blobs(self, name: str, where: Mask) -> list[BlobValue]:
        """The blobs of some entities, all of which exist."""
        if self.handle is None:
            return []
        return blobs_of_rows(self.handle, self.side.row_ids[where].tolist(), name)


@dataclass(frozen=True, kw_only=True)
class RowPairs:
    """Entities that differ, in their old and their new form."""

    ids: Ids
    old: Form
    new: Form

    def chosen(self, where: Mask) -> RowPairs:
        """Some of the entities."""
        if where.all():
            return self
        return RowPairs(
            ids=self.ids.filter(pa.array(where)),
            old=self.old.chosen(where),
            new=self.new.chosen(where),
        )

    @property
    def is_insert(self) -> Mask:
        """It exists in the new version only."""
        return ~self.old.side.exists & self.new.side.exists

    @property
    def is_delete(self) -> Mask:
        """It exists in the old version only."""
        return self.old.side.exists & ~self.new.side.exists


def read_pairs(
    store: TableStorage,
    old: TableHandle | None,
    new: TableHandle | None,
    places: RowPlaces,
    names: Sequence[tuple[str, str]],
    *,
    with_equal: bool = False,
) -> Iterator[RowPairs]:
    """The entities that really differ, in portions of bounded size.

    Args:
        store: the tables.
        old: the older form of the table.
        new: the newer one.
        places: the entities to look at.
        names: the columns to compare, as both versions name them; blobs among them.
        with_equal: also those that were written and are as before.
    """
    for part in places.parts(_PORTION):
        pairs = RowPairs(
            ids=part.ids,
            old=form_of(store, old, part.old, [name for name, _ in names]),
            new=form_of(store, new, part.new, [name for _, name in names]),
        )
        if with_equal:
            yield pairs
            continue
        differs = ~equal_forms(pairs.old, pairs.new, names)
        if differs.any():
            yield pairs.chosen(differs)


def form_of(
    store: TableStorage, handle: TableHandle | None, side: Side, names: Sequence[str]
) -> Form:
    """Some entities as one version has them."""
    if handle is None:
        return Form(handle=None, side=side, rows=pa.table({}))
    stored = [name for name in names if name not in handle.layout.blobs]
    row_ids = pa.array(side.row_ids[side.exists], pa.uint64())
    rows = store.take_rows(handle, row_ids, stored, is_once=True)
    return Form(handle=handle, side=side, rows=rows)


def equal_forms(one: Form, other: Form, names: Sequence[tuple[str, str]]) -> Mask:
    """Which entities have the same content in both forms; those that both have not are equal."""
    equal = one.side.exists & other.side.exists
    for name, other_name in names:
        if not equal.any():
            break
        if other.handle is not None and other_name in other.handle.layout.blobs:
            blobs = zip(one.blobs(name, equal), other.blobs(other_name, equal), strict=True)
            equal[equal] = np.asarray([_same_blob(*both) for both in blobs], np.bool_)
        else:
            equal[equal] = equal_values(one.values(name, equal), other.values(other_name, equal))
    return equal | ~(one.side.exists | other.side.exists)


def equal_values(one: Column, other: Column) -> Mask:
    """Which values of two columns of one type are equal; null equals null."""
    given, other_given = is_given(one), is_given(other)
    equal: Mask = np.equal(given, other_given)
    both = given & other_given
    if not both.any():
        return equal
    if not pa.types.is_nested(one.type):
        return np.logical_and(equal, ~both | mask_of(pc.equal(one, other)))
    if pa.types.is_fixed_size_list(one.type):
        equal[both] = _equal_vectors(one.filter(pa.array(both)), other.filter(pa.array(both)))
        return equal
    lists = zip(one.to_pylist(), other.to_pylist(), strict=True)
    same = np.fromiter((mine == theirs for mine, theirs in lists), np.bool_, len(one))
    return np.logical_and(equal, same)


def _equal_vectors(one: Column, other: Column) -> Mask:
    width = one.type.list_size
    parts, other_parts = (flat_vectors(each).reshape(-1, width) for each in (one, other))
    return np.asarray(np.all(parts == other_parts, axis=1), np.bool_)


def _same_blob(one: BlobValue, other: BlobValue) -> bool:
    if not isinstance(one, Blob) or not isinstance(other, Blob):
        return not isinstance(one, Blob) and not isinstance(other, Blob) and one == other
    return one.length == other.length and all(
        one.read(start, start + _PIECE_BYTES) == other.read(start, start + _PIECE_BYTES)
        for start in range(0, one.length, _PIECE_BYTES)
    )
