"""`GraphIndex`: the adjacency of one edge type as arrays, and `TypeIndex`: the rows of one type.

Both number entities densely in the order of their ids (UTF-8 bytes), so that comparing numbers is
comparing ids. They are built from columns alone, vectorised, and never change; what they were built
from is named by whoever keeps them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.graph.arrays import ascending, encode, places_in, text_array

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from omnigraph.graph.arrays import Ids, Numbers, RowIds

    Texts = pa.Array[pa.StringScalar] | pa.ChunkedArray[pa.StringScalar]

ABSENT = -1
"""The number of an id that is not there."""


@dataclass(frozen=True)
class Adjacency:
    """Neighbours of node x: `targets[starts[x]:starts[x + 1]]`, ascending and distinct."""

    starts: Numbers
    targets: Numbers

    @cached_property
    def degrees(self) -> Numbers:
        """How many neighbours each node has."""
        return np.diff(self.starts)

    def pairs(self) -> tuple[Numbers, Numbers]:
        """Each node beside each of its neighbours, ascending."""
        return np.repeat(np.arange(len(self.starts) - 1), self.degrees), self.targets

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return self.starts.nbytes + self.targets.nbytes


@dataclass(frozen=True)
class GraphIndex:
    """The distinct pairs that an edge type joins, from either end.

    For an edge between equal types both ends share one numbering, and `from_ids is to_ids`.
    """

    from_ids: Ids
    to_ids: Ids
    out: Adjacency
    """From each source to its targets."""

    @cached_property
    def into(self) -> Adjacency:
        """From each target to its sources."""
        sources, targets = self.out.pairs()
        return _adjacency(*_distinct(targets, sources, len(self.from_ids)), len(self.to_ids))

    @cached_property
    def both(self) -> Adjacency:
        """Either way; only between equal types."""
        sources, targets = self.out.pairs()
        ends = np.concatenate((sources, targets)), np.concatenate((targets, sources))
        size = len(self.from_ids)
        return _adjacency(*_distinct(*ends, size), size)

    @property
    def nbytes(self) -> int:
        """Memory when every direction has been asked for."""
        nodes = len(self.from_ids) + len(self.to_ids)
        texts = self.from_ids.nbytes + (0 if self.to_ids is self.from_ids else self.to_ids.nbytes)
        return texts + 8 * (5 * len(self.out.targets) + 3 * nodes)


def build_graph_index(src: Texts, dst: Texts, *, is_same_type: bool) -> GraphIndex:
    """The index of the edges with these endpoints; parallel edges count once."""
    if is_same_type:
        ids, (sources, targets) = number_texts((src, dst))
        from_ids = to_ids = ids
    else:
        from_ids, (sources,) = number_texts((src,))
        to_ids, (targets,) = number_texts((dst,))
    pairs = _distinct(sources, targets, max(1, len(to_ids)))
    return GraphIndex(from_ids, to_ids, _adjacency(*pairs, len(from_ids)))


def number_texts(columns: Iterable[Texts]) -> tuple[Ids, list[Numbers]]:
    """The distinct texts, ascending, and the columns as positions in them."""
    parts = [text_array(column) for column in columns]
    distinct, codes = encode(pa.concat_arrays(parts))
    order = ascending(distinct)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    cuts = np.cumsum([len(part) for part in parts])[:-1]
    return text_array(distinct.take(order)), np.split(rank[codes], cuts)


def _distinct(first: Numbers, second: Numbers, size: int) -> tuple[Numbers, Numbers]:
    """The distinct pairs, ascending; every second number is below `size`."""
    keys = np.unique(first * np.int64(size) + second)
    return np.divmod(keys, np.int64(size)) if len(keys) else (keys, keys)


def _adjacency(sources: Numbers, targets: Numbers, size: int) -> Adjacency:
    starts = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(sources, minlength=size), out=starts[1:])
    return Adjacency(starts, targets)


@dataclass(frozen=True)
class TypeIndex:
    """All rows of a table: ids ascending, and the row id of each."""

    ids: Ids
    row_ids: RowIds

    @cached_property
    def by_row_id(self) -> RowNumbers:
        """The way from row ids to numbers."""
        return RowNumbers(self.row_ids)

    @property
    def nbytes(self) -> int:
        """Memory, with the way back."""
        return self.ids.nbytes + 3 * self.row_ids.nbytes


def build_type_index(ids: Texts, row_ids: RowIds) -> TypeIndex:
    """The index of the rows with these ids and row ids."""
    texts = text_array(ids)
    order = ascending(texts)
    return TypeIndex(texts.take(order), row_ids[order])


class RowNumbers:
    """From row ids to the positions they have in an array."""

    def __init__(self, row_ids: RowIds) -> None:
        self._order: NDArray[Any] = np.argsort(row_ids, kind="stable")
        self._sorted = row_ids[self._order]

    def find(self, row_ids: RowIds) -> Numbers:
        """The position of each row id, or `ABSENT`."""
        return find_sorted(self._sorted, row_ids, self._order)

    def moved(self, places: Numbers, row_ids: RowIds, at: Numbers) -> RowNumbers:
        """The same once the array changed: the new place of each, and rows that came to it."""
        order = places[self._order]
        is_kept = order != ABSENT
        kept, came = self._sorted[is_kept], np.argsort(row_ids, kind="stable")
        slots = np.searchsorted(kept, row_ids[came])
        moved = RowNumbers(row_ids[:0])
        moved._sorted = np.insert(kept, slots, row_ids[came])
        moved._order = np.insert(order[is_kept], slots, at[came])
        return moved


def find_sorted(values: RowIds, wanted: RowIds, order: NDArray[Any]) -> Numbers:
    """For each wanted value its entry of `order`, or `ABSENT`; `values` ascend."""
    if not len(values):
        return np.full(len(wanted), ABSENT, np.int64)
    at = np.searchsorted(values, wanted)
    at[at == len(values)] = 0
    places: Numbers = np.where(values[at] == wanted, order[at], ABSENT)
    return places


FEW = 64
"""Up to here ids are looked up one by one."""


def find_ids(ids: Ids, wanted: Ids) -> Numbers:
    """The position of each wanted id among ascending ids, or `ABSENT`."""
    if len(wanted) > FEW:
        return places_in(wanted, ids)
    return np.array([_bisect(ids, str(text).encode()) for text in wanted.to_pylist()], np.int64)


def _bisect(ids: Ids, wanted: bytes) -> int:
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        here = str(ids[middle]).encode()
        if here == wanted:
            return middle
        if here < wanted:
            low = middle + 1
        else:
            high = middle
    return ABSENT


_MOST_ALIGNMENTS = 16
LOOKUP_COST = 128
"""Looking up one id costs as much as aligning so many of them."""


@dataclass(slots=True, eq=False)
class _Alignment:
    """Two numberings, and how far the work for them has come."""

    ids: Ids
    other: Ids
    looked_up: int = 0
    places: Numbers | None = None


class Alignments:
    """Which number an entity has in another numbering; kept, and safe to share between threads.

    Few ids are looked up one by one until that has cost what finding all of them does.
    """

    def __init__(self) -> None:
        # The ids are held, so that no other array can have their identity meanwhile.
        self._kept: OrderedDict[tuple[int, int], _Alignment] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, ids: Ids, other: Ids, at: Numbers) -> Numbers:
        """For some of `ids`, by their positions, the position in `other`, or `ABSENT`."""
        alignment = self._alignment(ids, other)
        if alignment.places is None:
            alignment.looked_up += len(at)
            is_cheap = alignment.looked_up * LOOKUP_COST < len(ids) + len(other)
            if is_cheap and len(at) <= FEW:
                return find_ids(other, ids.take(at))
        return self.between(ids, other)[at]

    def between(self, ids: Ids, other: Ids) -> Numbers:
        """For each of `ids` its position in `other`, or `ABSENT`."""
        alignment = self._alignment(ids, other)
        places = alignment.places
        if places is None:
            places = alignment.places = find_ids(other, ids)
        return places

    def _alignment(self, ids: Ids, other: Ids) -> _Alignment:
        key = id(ids), id(other)
        with self._lock:
            alignment = self._kept.setdefault(key, _Alignment(ids, other))
            self._kept.move_to_end(key)
            while len(self._kept) > _MOST_ALIGNMENTS:
                self._kept.popitem(last=False)
        return alignment

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._kept.clear()
