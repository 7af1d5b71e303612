"""What is kept of an older version of a table, moved to the version of a query by the rows between.

A write of a few rows would else cost every reader after it what the first reader of all paid. Moved
is what few rows separate: after a rewrite of many the caller builds anew. Branches begin with what
is kept of the version that they grew from.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from omnigraph.engine.runtime_cache import Kept, TableVersion
from omnigraph.graph.arrays import one_array, row_ids_of, text_array
from omnigraph.graph.query.moved_topology import (
    Pairs,
    Renumbering,
    Rows,
    distinct_pairs,
    moved_graph_index,
    moved_type_index,
    without_pairs,
)
from omnigraph.storage.predicates import In
from omnigraph.storage.reading import IDS_PER_LOOKUP, ROW_ID
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from omnigraph.engine.runtime_cache import LruCache, Sized
    from omnigraph.engine.tables import QueryTable
    from omnigraph.graph.arrays import Values
    from omnigraph.graph.query.topology import GraphIndex, TypeIndex
    from omnigraph.storage.handles import TableHandle

_Entry = TypeVar("_Entry", bound="Sized")

log = logging.getLogger(__name__)

MOST_ROWS = 16_384
"""More rows than this between two versions are not looked at: building anew costs about as much."""


def moved_type(table: QueryTable) -> Kept[TypeIndex] | None:
    """The numbering of a table from that of an older version, if there is one near enough."""
    return _moved(table, table.caches.types, _type_after)


def moved_topology(table: QueryTable) -> Kept[GraphIndex] | None:
    """The topology of an edge table from that of an older version, if there is one near enough."""
    return _moved(table, table.caches.topologies, _topology_after)


def _moved(
    table: QueryTable,
    cache: LruCache[Kept[_Entry]],
    after: Callable[[QueryTable, Kept[_Entry]], Kept[_Entry] | None],
) -> Kept[_Entry] | None:
    older = _older(table, cache)
    if older is None:
        return None
    try:
        if table.store.rows_between(table.handle, older.handle) > MOST_ROWS:
            return None
        moved = after(table, older)
    except ObjectMissing as missing:
        # A cleanup removed the older version; the version of the query can still be read whole.
        log.info("not moved", extra={"table": table.item.name, "cause": str(missing)})
        return None
    if moved is not None:
        cache.demote(TableVersion.of(older.handle))
    return moved


def _older(table: QueryTable, cache: LruCache[Kept[_Entry]]) -> Kept[_Entry] | None:
    """What is kept of the newest version that this one grew from; its own line first."""
    line = table.version.branch
    older = [
        kept for kept in cache.entries() if TableVersion.of(kept.handle).may_precede(table.version)
    ]
    older.sort(key=lambda kept: (kept.handle.pin.branch == line, kept.handle.pin.version))
    return next((kept for kept in reversed(older) if _is_ancestor(table, kept.handle)), None)


def _is_ancestor(table: QueryTable, old: TableHandle) -> bool:
    if old.pin.branch == table.version.branch:
        return True
    try:
        common = table.store.common_pin(table.handle, old)
    except ObjectMissing:
        return False
    return (common.branch, common.version) == (old.pin.branch, old.pin.version)


def _type_after(table: QueryTable, older: Kept[TypeIndex]) -> Kept[TypeIndex] | None:
    columns = _kept_columns(table, older.handle)
    changed = table.store.changed_since(
        table.handle, older.handle, list(columns), with_row_ids=True
    )
    before, after = _rows(changed.before), _rows(changed.after)
    index = moved_type_index(older.entry, before, after)
    if index is None:
        return None
    _move_columns(table, older, index, columns, before, after, changed.after)
    return Kept(entry=index, handle=table.handle)


def _kept_columns(table: QueryTable, old: TableHandle) -> dict[str, Values]:
    """What is kept of the older version, by name; nothing if the schema of the type changed.

    Filling a new column writes values and no row, so a comparison of rows would not see it.
    """
    if old.layout != table.handle.layout:
        return {}
    kept = table.caches.columns.of(TableVersion.of(old))
    ids = table.handle.layout.property_ids
    return {name: kept[number] for name, number in ids.items() if number in kept}


def _move_columns(
    table: QueryTable,
    older: Kept[TypeIndex],
    index: TypeIndex,
    columns: Mapping[str, Values],
    before: Rows,
    after: Rows,
    changed: pa.Table,
) -> None:
    """Carry the columns over before anybody sees the numbering that they follow."""
    if not columns:
        return
    numbering = Renumbering.between(older.entry.ids, index.ids, before.ids, after.ids)
    ids = table.handle.layout.property_ids
    table.caches.columns.move(
        TableVersion.of(older.handle),
        table.version,
        {
            ids[name]: numbering.moved(values, one_array(changed[name]))
            for name, values in columns.items()
        },
    )


def _rows(rows: pa.Table) -> Rows:
    return Rows(ids=text_array(rows["id"]), row_ids=row_ids_of(rows[ROW_ID]))


def _topology_after(table: QueryTable, older: Kept[GraphIndex]) -> Kept[GraphIndex] | None:
    changed = table.store.changed_since(table.handle, older.handle, ["src", "dst"])
    before, after = _pairs(changed.before), _pairs(changed.after)
    gone = _without_parallel(table, without_pairs(before, after))
    lost = older.lost + len(gone)
    if lost > max(MOST_ROWS, len(older.entry.out.targets) // 4):
        return None
    index = moved_graph_index(older.entry, gone, without_pairs(after, before))
    return Kept(entry=index, handle=table.handle, lost=lost)


def _pairs(edges: pa.Table) -> Pairs:
    return distinct_pairs(text_array(edges["src"]), text_array(edges["dst"]))


def _without_parallel(table: QueryTable, gone: Pairs) -> Pairs:
    """The pairs that no other edge of the table joins."""
    if not len(gone):
        return gone
    targets = gone.dst.unique()
    predicate = In("dst", targets) if len(targets) <= IDS_PER_LOOKUP else None
    edges = table.lookup(gone.src.unique(), ["src", "dst"], key="src", predicate=predicate)
    return without_pairs(gone, _pairs(edges))
