"""The rows that may differ between two versions of a table, whatever lines they lie on.

A version is compared with the one from which both lines grew, so the cost is that of what was
written since, on either line. A row that a line has not touched since lies there under the row id
that it had: row ids are stable, also across forks and compactions.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from omnigraph.graph.arrays import (
    Ids,
    RowIds,
    ascending_union,
    contained,
    places_in,
    row_ids_of,
    text_array,
)
from omnigraph.storage.predicates import In
from omnigraph.storage.reading import ROW_ID
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.graph.arrays import Mask
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.table_storage import TableStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Where some entities lie in one version."""

    exists: Mask
    row_ids: RowIds
    """Of those that exist; the others have a number that means nothing."""

    def part(self, start: int, stop: int) -> Side:
        """Some of them."""
        return Side(exists=self.exists[start:stop], row_ids=self.row_ids[start:stop])


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPlaces:
    """Entities that may differ, ascending by id, and where they lie in both versions."""

    ids: Ids
    old: Side
    new: Side

    def __len__(self) -> int:
        return len(self.ids)

    def after(self, entity_id: str, digest: str | None = None) -> RowPlaces:
        """Those that come after an id, or after the one that begins so and has this digest."""
        known = self.ids.to_numpy(zero_copy_only=False)
        # Code points compare as the bytes of UTF-8 do, by which the ids are sorted.
        start = int(np.searchsorted(known, entity_id, side="right"))
        if digest is not None:
            behind = range(start, len(self))
            start = next((at + 1 for at in behind if id_digest(known[at]) == digest), start)
        return self.part(start, len(self))

    def part(self, start: int, stop: int) -> RowPlaces:
        """Some of them."""
        return RowPlaces(
            ids=self.ids[start:stop],
            old=self.old.part(start, stop),
            new=self.new.part(start, stop),
        )

    def parts(self, size: int) -> Iterator[RowPlaces]:
        """All of them in portions."""
        for start in range(0, len(self), size):
            yield self.part(start, start + size)


def id_digest(entity_id: str) -> str:
    """What tells a long id apart from others that begin as it does."""
    return hashlib.blake2b(entity_id.encode(), digest_size=16).hexdigest()


def changed_places(
    store: TableStorage, old: TableHandle | None, new: TableHandle | None
) -> RowPlaces:
    """The rows that may differ; a table that is not there has none.

    Raises:
        ObjectMissing: a version is gone.
    """
    if old is None or new is None:
        return _paired(_all_rows(store, old), _all_rows(store, new))
    if old.pin == new.pin:
        return _paired(_NOTHING, _NOTHING)
    try:
        base = store.open(old.layout, store.common_pin(old, new))
    except ObjectMissing:
        # Cleaned away: nothing tells what both have in common.
        return _paired(_all_rows(store, old), _all_rows(store, new))
    old_before, old_after = _since(store, base, old)
    new_before, new_after = _since(store, base, new)
    ids = _sorted_ids(old_before, old_after, new_before, new_after)
    return RowPlaces(
        ids=ids,
        old=_lying(ids, old_after, old_before, new_before),
        new=_lying(ids, new_after, new_before, old_before),
    )


def places_of(store: TableStorage, old: TableHandle, new: TableHandle, ids: Ids) -> RowPlaces:
    """Where some entities lie in two versions, looked up by their ids, which are ascending."""
    return RowPlaces(ids=ids, old=side_of(store, old, ids), new=side_of(store, new, ids))


def side_of(store: TableStorage, handle: TableHandle, ids: Ids) -> Side:
    """Where some entities lie in a version, looked up by their ids.

    A few are asked for; for many all ids of the table are gone through once, and none are held.
    """
    predicate = In("id", ids) if len(ids) <= _ASKED_IDS else None
    found = [_NOTHING]
    for batch in store.scan(handle, columns=["id"], predicate=predicate, with_row_ids=True):
        rows = pa.Table.from_batches([batch]).cast(_NOTHING.schema)
        found.append(rows.filter(pa.array(contained(text_array(rows["id"]), ids))))
    places, row_ids = _found(ids, pa.concat_tables(found))
    return Side(exists=places >= 0, row_ids=row_ids)


def written_ids(store: TableStorage, stretches: Iterable[tuple[TableHandle, TableHandle]]) -> Ids:
    """The entities that were written or removed in some stretches of history, ascending.

    Args:
        store: the tables.
        stretches: an older and a newer version each; the newer one grew from the older one.

    Raises:
        ObjectMissing: a version is gone.
    """
    changes = [store.changed_since(newer, older) for older, newer in stretches]
    rows = [rows for changed in changes for rows in (changed.before, changed.after)]
    return _sorted_ids(_NOTHING, *rows)


_ASKED_IDS: Final = 8_192
_NOTHING = pa.table({"id": pa.array([], pa.string()), ROW_ID: pa.array([], pa.uint64())})


def _since(
    store: TableStorage, base: TableHandle, handle: TableHandle
) -> tuple[pa.Table, pa.Table]:
    if base.pin == handle.pin:
        return _NOTHING, _NOTHING
    changed = store.changed_since(handle, base, with_row_ids=True)
    return changed.before, changed.after


def _all_rows(store: TableStorage, handle: TableHandle | None) -> pa.Table:
    if handle is None:
        return _NOTHING
    return store.scan(handle, columns=["id"], with_row_ids=True).read_all()


def _paired(old: pa.Table, new: pa.Table) -> RowPlaces:
    ids = _sorted_ids(old, new)
    return RowPlaces(ids=ids, old=_lying(ids, old), new=_lying(ids, new))


def _sorted_ids(*tables: pa.Table) -> Ids:
    return ascending_union(text_array(rows["id"]) for rows in tables)


def _lying(
    ids: Ids, after: pa.Table, before: pa.Table = _NOTHING, elsewhere: pa.Table = _NOTHING
) -> Side:
    """Where ids lie in a version.

    Args:
        ids: the entities.
        after: rows that the version has and its base has not.
        before: rows that the base has and the version has not.
        elsewhere: rows of the base that the other version has not: this one has them, unless it
            has changed them too.
    """
    places, row_ids = _found(ids, after)
    is_kept = (places < 0) & (_found(ids, before)[0] < 0)
    kept_places, kept_row_ids = _found(ids, elsewhere)
    is_kept &= kept_places >= 0
    return Side(exists=(places >= 0) | is_kept, row_ids=np.where(is_kept, kept_row_ids, row_ids))


def _found(ids: Ids, rows: pa.Table) -> tuple[np.ndarray, RowIds]:
    """The positions of ids among rows, or -1, and their row ids."""
    places = places_in(ids, text_array(rows["id"]))
    if not rows.num_rows:
        return places, np.zeros(len(ids), np.uint64)
    return places, row_ids_of(rows[ROW_ID])[places]
