"""Numberings and topologies of a version made from those of an older one and the rows between.

They equal what a new build gives, except that a topology keeps the number of a node that lost its
last edge. Arrays are copied, which costs a thousandth of reading and sorting the columns; nothing
of the older version is written to, because queries may still walk it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.arrays import ascending, mask_of
from omnigraph.graph.query.topology import (
    ABSENT,
    Adjacency,
    GraphIndex,
    TypeIndex,
    find_sorted,
    number_texts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.graph.arrays import Ids, Mask, Numbers, RowIds, Values

_Values = TypeVar("_Values", bound="pa.Array[Any]")  # Any: ids, or a column of any type


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Some rows of a table of entities."""

    ids: Ids
    row_ids: RowIds

    def only(self, is_kept: Mask) -> Rows:
        """Those of the rows that are kept."""
        return Rows(ids=self.ids.filter(pa.array(is_kept)), row_ids=self.row_ids[is_kept])


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Distinct pairs of a source and a target."""

    src: Ids
    dst: Ids

    def only(self, is_kept: Mask) -> Pairs:
        """Those of the pairs that are kept."""
        kept = pa.array(is_kept)
        return Pairs(src=self.src.filter(kept), dst=self.dst.filter(kept))

    def __len__(self) -> int:
        return len(self.src)


def moved_type_index(index: TypeIndex, before: Rows, after: Rows) -> TypeIndex | None:
    """The numbering once the rows `before` are those `after`; `None` if they do not fit it.

    A row may stand in both; the ids stay the same array where no entity came or went.
    """
    gone, came = _differing(before, after)
    gone_at = _places(index.ids, gone.ids)
    if (gone_at == ABSENT).any():
        return None
    is_known = _places(index.ids, came.ids) != ABSENT
    stays = mask_of(pc.is_in(gone.ids, value_set=came.ids))
    if int(is_known.sum()) != int(stays.sum()):
        return None
    index = _with_rows(index, came.only(is_known))
    return _without_then_with(index, np.sort(gone_at[~stays]), came.only(~is_known))


def _differing(before: Rows, after: Rows) -> tuple[Rows, Rows]:
    """The rows without those that are the same on either side."""
    order = np.argsort(before.row_ids, kind="stable")
    at = find_sorted(before.row_ids[order], after.row_ids, order)
    is_same = at != ABSENT
    ids = before.ids.take(at[is_same]) if is_same.any() else before.ids.slice(0, 0)
    is_same[is_same] = mask_of(pc.equal(ids, after.ids.filter(pa.array(is_same))))
    is_left = np.ones(len(before.row_ids), bool)
    is_left[at[is_same]] = False
    return before.only(is_left), after.only(~is_same)


def _with_rows(index: TypeIndex, rows: Rows) -> TypeIndex:
    """The same entities, some of them in other rows."""
    if not len(rows.row_ids):
        return index
    row_ids = index.row_ids.copy()
    row_ids[_places(index.ids, rows.ids)] = rows.row_ids
    return TypeIndex(index.ids, row_ids)


def _without_then_with(index: TypeIndex, gone: Numbers, came: Rows) -> TypeIndex:
    """The numbering without the entities at these places, and with others."""
    if not len(gone) and not len(came.row_ids):
        return index
    order = ascending(came.ids)
    ids = _cut(index.ids, gone)
    came_ids, came_rows = came.ids.take(order), came.row_ids[order]
    slots = _slots(ids, came_ids)
    row_ids = np.insert(np.delete(index.row_ids, gone), slots, came_rows)
    moved = TypeIndex(_inserted(ids, slots, came_ids), row_ids)
    if "by_row_id" in index.__dict__:
        shift = _after_cut(len(index.ids), gone)
        kept = shift >= 0
        shift[kept] = _after_insertion(len(ids), slots)[shift[kept]]
        # Set as the property itself would: it is asked for again, and sorting costs more.
        moved.__dict__["by_row_id"] = index.by_row_id.moved(
            shift, came_rows, slots + np.arange(len(slots))
        )
    return moved


@dataclass(frozen=True, slots=True, kw_only=True)
class Renumbering:
    """How columns in the order of ids follow when some rows come, go and change."""

    leaving: Numbers
    """The places of rows that are gone or have changed, ascending."""

    order: Numbers
    """The rows that are there now and came or have changed, in the order of their ids."""

    slots: Numbers
    """For each of these, in that order, what stands before it of the rows that stay."""

    @classmethod
    def between(cls, ids: Ids, moved: Ids, before: Ids, after: Ids) -> Renumbering:
        """From the ids of a numbering to those of a later one, and the rows that differ."""
        left = _places(ids, pa.concat_arrays([before, after]))
        places = _places(moved, after)
        order = np.argsort(places, kind="stable")
        return cls(
            leaving=np.unique(left[left != ABSENT]),
            order=order,
            slots=places[order] - np.arange(len(order)),
        )

    def moved(self, values: Values, came: Values) -> Values:
        """A column of the later numbering; `came` has the values of the rows that differ."""
        return _inserted(_cut(values, self.leaving), self.slots, came.take(self.order))


def moved_graph_index(index: GraphIndex, gone: Pairs, came: Pairs) -> GraphIndex:
    """The topology without some pairs and with others.

    Pairs that go and are not there, or come and are there, change nothing.
    """
    if not len(gone) and not len(came):
        return index
    is_same_type = index.from_ids is index.to_ids
    if is_same_type:
        fresh = _fresh(index.from_ids, pa.concat_arrays([came.src, came.dst]))
        index = _renumbered(index, fresh, fresh)
    else:
        index = _renumbered(index, _fresh(index.from_ids, came.src), _fresh(index.to_ids, came.dst))
    leaving = _numbered(index, gone)
    joining = _numbered(index, came)
    moved = replace(index, out=_edited(index.out, leaving, joining))
    if "into" in index.__dict__:
        moved.__dict__["into"] = _edited(index.into, leaving[::-1], joining[::-1])
    if "both" in index.__dict__:
        # What goes one way may still be there the other way.
        is_left = ~_has(moved.out, *leaving[::-1])
        alone = leaving[0][is_left], leaving[1][is_left]
        moved.__dict__["both"] = _edited(index.both, _either_way(alone), _either_way(joining))
    return moved


def distinct_pairs(src: Ids, dst: Ids) -> Pairs:
    """The distinct pairs of two columns."""
    ids, (sources, targets) = number_texts((src, dst))
    size = np.int64(max(1, len(ids)))
    keys = np.unique(sources * size + targets)
    first, second = np.divmod(keys, size)
    return Pairs(src=ids.take(first), dst=ids.take(second))


def without_pairs(pairs: Pairs, others: Pairs) -> Pairs:
    """The pairs that are none of the others."""
    columns = (pairs.src, pairs.dst, others.src, others.dst)
    ids, (src, dst, other_src, other_dst) = number_texts(columns)
    size = np.int64(max(1, len(ids)))
    return pairs.only(~np.isin(src * size + dst, other_src * size + other_dst))


_Places = tuple["Numbers", "Numbers"]


def _numbered(index: GraphIndex, pairs: Pairs) -> _Places:
    """The numbers of the pairs that have any."""
    sources, targets = _places(index.from_ids, pairs.src), _places(index.to_ids, pairs.dst)
    is_known = (sources != ABSENT) & (targets != ABSENT)
    return sources[is_known], targets[is_known]


def _either_way(pairs: _Places) -> _Places:
    return np.concatenate(pairs), np.concatenate(pairs[::-1])


def _renumbered(index: GraphIndex, fresh_from: Ids, fresh_to: Ids) -> GraphIndex:
    """The same edges, with more nodes that have none yet."""
    if not len(fresh_from) and not len(fresh_to):
        return index
    from_slots, to_slots = _slots(index.from_ids, fresh_from), _slots(index.to_ids, fresh_to)
    from_ids = _inserted(index.from_ids, from_slots, fresh_from)
    is_same_type = index.from_ids is index.to_ids
    to_ids = from_ids if is_same_type else _inserted(index.to_ids, to_slots, fresh_to)
    from_shift = _after_insertion(len(index.from_ids), from_slots)
    to_shift = _after_insertion(len(index.to_ids), to_slots)
    moved = GraphIndex(from_ids, to_ids, _spread(index.out, from_slots, to_shift))
    if "into" in index.__dict__:
        moved.__dict__["into"] = _spread(index.into, to_slots, from_shift)
    if "both" in index.__dict__:
        moved.__dict__["both"] = _spread(index.both, from_slots, to_shift)
    return moved


def _spread(adjacency: Adjacency, slots: Numbers, shift: Numbers) -> Adjacency:
    """The same neighbours, with more nodes that have none and other numbers of the targets."""
    starts = np.insert(adjacency.starts, slots, adjacency.starts[slots])
    targets = adjacency.targets
    return Adjacency(starts, shift[targets] if len(shift) else targets)


def _edited(adjacency: Adjacency, gone: _Places, came: _Places) -> Adjacency:
    """The neighbours without some pairs and with others."""
    size = len(adjacency.starts) - 1
    is_there = _has(adjacency, *gone)
    rows, columns = _ascending_pairs(gone[0][is_there], gone[1][is_there])
    if len(rows):
        targets = np.delete(adjacency.targets, _lower_bounds(adjacency, rows, columns))
        adjacency = Adjacency(adjacency.starts - _counted(rows, size), targets)
    is_new = ~_has(adjacency, *came)
    rows, columns = _ascending_pairs(came[0][is_new], came[1][is_new])
    if len(rows):
        places = _lower_bounds(adjacency, rows, columns)
        targets = np.insert(adjacency.targets, places, columns)
        adjacency = Adjacency(adjacency.starts + _counted(rows, size), targets)
    return adjacency


def _ascending_pairs(rows: Numbers, columns: Numbers) -> _Places:
    """The distinct pairs, ascending."""
    if not len(rows):
        return rows, columns
    size = np.int64(columns.max() + 1)
    first, second = np.divmod(np.unique(rows * size + columns), size)
    return first, second


def _counted(rows: Numbers, size: int) -> Numbers:
    """By node, how many of the rows belong to those before it."""
    before = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=size), out=before[1:])
    return before


def _has(adjacency: Adjacency, rows: Numbers, columns: Numbers) -> Mask:
    """Whether each pair is there."""
    if not len(adjacency.targets):
        return np.zeros(len(rows), bool)
    at = _lower_bounds(adjacency, rows, columns)
    is_inside = at < adjacency.starts[rows + 1]
    found = adjacency.targets[np.minimum(at, len(adjacency.targets) - 1)]
    return np.asarray(is_inside & (found == columns), np.bool_)


def _lower_bounds(adjacency: Adjacency, rows: Numbers, columns: Numbers) -> Numbers:
    """Where each column stands, or would stand, among the neighbours of its row."""

    def is_less(at: Numbers, asked: Numbers) -> Mask:
        return np.asarray(adjacency.targets[at] < columns[asked], np.bool_)

    return _bisected(adjacency.starts[rows], adjacency.starts[rows + 1], is_less)


def _bisected(low: Numbers, high: Numbers, is_less: Callable[[Numbers, Numbers], Mask]) -> Numbers:
    """For each range of places the first that is not less than what is asked for there.

    All are halved together. `is_less` compares places with the wanted values of these numbers.
    """
    asked = np.flatnonzero(low < high)
    while len(asked):
        middle = (low[asked] + high[asked]) // 2
        less = is_less(middle, asked)
        low[asked[less]] = middle[less] + 1
        high[asked[~less]] = middle[~less]
        asked = asked[low[asked] < high[asked]]
    return low


def _fresh(ids: Ids, wanted: Ids) -> Ids:
    """The wanted ids that are not there, ascending and distinct."""
    distinct = wanted.unique()
    missing = distinct.filter(pa.array(_places(ids, distinct) == ABSENT))
    return missing.take(ascending(missing))


def _places(ids: Ids, wanted: Ids) -> Numbers:
    """The position of each wanted id among ascending ids, or `ABSENT`."""
    if not len(ids):
        return np.full(len(wanted), ABSENT, np.int64)
    at = _slots(ids, wanted)
    found = ids.take(np.minimum(at, len(ids) - 1))
    return np.where(mask_of(pc.equal(found, wanted)), at, ABSENT)


def _slots(ids: Ids, wanted: Ids) -> Numbers:
    """Where each id stands, or would stand, among ascending ids."""

    def is_less(at: Numbers, asked: Numbers) -> Mask:
        return mask_of(pc.less(ids.take(at), wanted.take(asked)))

    ends = np.full(len(wanted), len(ids), np.int64)
    return _bisected(np.zeros(len(wanted), np.int64), ends, is_less)


def _cut(values: _Values, gone: Numbers) -> _Values:
    """The values without those at these ascending places."""
    if not len(gone):
        return values
    ends = [*gone.tolist(), len(values)]
    starts = [0, *(gone + 1).tolist()]
    return pa.concat_arrays(
        [values.slice(start, end - start) for start, end in zip(starts, ends, strict=True)]
    )


def _inserted(values: _Values, slots: Numbers, fresh: _Values) -> _Values:
    """The values with each fresh one before the place of its slot; slots ascend."""
    if not len(fresh):
        return values
    ends = [*slots.tolist(), len(values)]
    starts = [0, *slots.tolist()]
    pieces: list[_Values] = []
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        pieces += [values.slice(start, end - start), fresh.slice(number, 1)]
    return pa.concat_arrays(pieces)


def _after_cut(size: int, gone: Numbers) -> Numbers:
    """The new place of each, or `ABSENT` for those that go."""
    is_kept = np.ones(size, bool)
    is_kept[gone] = False
    places = np.cumsum(is_kept) - 1
    places[gone] = ABSENT
    return places


def _after_insertion(size: int, slots: Numbers) -> Numbers:
    """The new place of each once something stands before each of the slots."""
    return np.arange(size) + np.cumsum(np.bincount(slots, minlength=size + 1)[:size])
