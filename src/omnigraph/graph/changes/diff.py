"""The difference of two states of a graph: every entity that one has otherwise than the other.

Tables are paired by identity, not by name, and those with one pin are not looked at. What was only
rewritten (compaction, a restore, an upsert of equal values) is no difference. The order is total:
nodes before edges, then by the identity of the type, then by id.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from omnigraph.errors import ChangeSchemaBoundary
from omnigraph.graph.changes.entity_change import EntityChange, Op
from omnigraph.graph.changes.images import images_of
from omnigraph.graph.changes.row_pairs import read_pairs
from omnigraph.graph.changes.row_places import changed_places, id_digest
from omnigraph.graph.history.snapshot import reclaimed
from omnigraph.graph.manifest.table_refs import key_of, ref_of
from omnigraph.graph.validation import EntityKind
from omnigraph.graph.validation.violation import kind_of
from omnigraph.lang.catalog import NodeType
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.changes.entity_change import ChangeFilter
    from omnigraph.graph.changes.row_pairs import RowPairs
    from omnigraph.graph.changes.row_places import RowPlaces
    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.lang import Catalog, EdgeType
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.table_storage import TableStorage

    Item = NodeType | EdgeType

_LONGEST_ID: Final = 400
"""So many characters of an id fit into a token, whatever they are."""


@dataclass(frozen=True, slots=True)
class ChangePlace:
    """Where a change stands in the order of all changes between two states."""

    is_edge: bool
    type_id: int
    id: str
    """The id, or how a long one begins."""

    digest: str | None = None
    """Of a long id."""


class Difference:
    """Two states of one graph, side by side."""

    def __init__(
        self,
        store: TableStorage,
        old: Snapshot,
        new: Snapshot,
        wanted: ChangeFilter,
        *,
        tables: frozenset[TableRef] | None = None,
    ) -> None:
        """Two states, compared through a filter.

        Args:
            store: where the tables are.
            old: the state before.
            new: the state after.
            wanted: what is asked for.
            tables: what the types of the filter are; if not given they have their names in one of
                the two states.

        Raises:
            InvalidArgument: neither state has a type of the filter.
            ChangeSchemaBoundary: the schemas differ in what a comparison needs.
        """
        tables = wanted.tables(old.catalog, new.catalog) if tables is None else tables
        self._store = store
        self._old = old
        self._new = new
        self._wanted = wanted
        self._tables = tuple(_pair_tables(old, new, wanted.kinds, tables))

    def changes(self, after: ChangePlace | None = None) -> Iterator[EntityChange]:
        """The changes in order, or those behind a place.

        Raises:
            ChangeSchemaBoundary: the schemas differ in what a comparison needs.
            SnapshotReclaimed: cleanup removed a version.
        """
        for table in self._tables:
            if after is not None and table.place < (after.is_edge, after.type_id):
                continue
            is_begun = after is not None and table.place == (after.is_edge, after.type_id)
            for pairs in self._pairs(table, after if is_begun else None):
                yield from table.changes(pairs, self._wanted)

    def counts(self) -> dict[str, dict[str, int]]:
        """How many entities differ, by table and operation; images are not made."""
        counts: dict[str, dict[str, int]] = {}
        for table in self._tables:
            count: Counter[str] = Counter()
            for pairs in self._pairs(table, None):
                count.update(op.value for op in _ops(pairs) if self._is_wanted(op))
            if count:
                counts[table.key] = {op.value: count[op.value] for op in Op if count[op.value]}
        return counts

    def _is_wanted(self, op: Op) -> bool:
        return not self._wanted.ops or op in self._wanted.ops

    def _pairs(self, table: _Table, after: ChangePlace | None) -> Iterator[RowPairs]:
        try:
            old, new = table.handles(self._old, self._new)
            places: RowPlaces = changed_places(self._store, old, new)
            if after is not None:
                places = places.after(after.id, after.digest)
            yield from read_pairs(self._store, old, new, places, table.columns)
        except ObjectMissing as error:
            raise reclaimed(self._old, table.item.name) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """One table in both states."""

    old: Item | None
    new: Item | None
    columns: tuple[tuple[str, str], ...]
    """Properties and ends, as both states name them."""

    @property
    def item(self) -> Item:
        """The type as the newer state has it, or the older one if it is gone."""
        return cast("Item", self.new or self.old)  # cast: one of them is there

    @property
    def key(self) -> str:
        return key_of(self.item)

    @property
    def is_edge(self) -> bool:
        return not isinstance(self.item, NodeType)

    @property
    def place(self) -> tuple[bool, int]:
        return self.is_edge, self.type_id

    @property
    def kind(self) -> EntityKind:
        return EntityKind.EDGE if self.is_edge else EntityKind.NODE

    @property
    def type_id(self) -> int:
        return ref_of(self.item).table_id

    def handles(
        self, old: Snapshot, new: Snapshot
    ) -> tuple[TableHandle | None, TableHandle | None]:
        return (
            None if self.old is None else old.handle(self.old),
            None if self.new is None else new.handle(self.new),
        )

    def changes(self, pairs: RowPairs, wanted: ChangeFilter) -> Iterator[EntityChange]:
        ops = _ops(pairs)
        is_wanted = np.asarray([not wanted.ops or op in wanted.ops for op in ops], np.bool_)
        before = images_of(pairs.old, self.old, self.columns, is_wanted)
        after = images_of(
            pairs.new, self.new, [(name, name) for _, name in self.columns], is_wanted
        )
        ids = cast("list[str]", pairs.ids.to_pylist())  # cast: an id is never null
        for at in np.flatnonzero(is_wanted).tolist():
            yield EntityChange(
                kind=self.kind,
                type_id=self.type_id,
                type_name=self.item.name,
                id=ids[at],
                op=ops[at],
                before=before.get(at),
                after=after.get(at),
            )


def place_of(change: EntityChange) -> ChangePlace:
    """Where a change stands in the order."""
    is_edge = change.kind is EntityKind.EDGE
    if len(change.id) <= _LONGEST_ID:
        return ChangePlace(is_edge, change.type_id, change.id)
    return ChangePlace(
        is_edge, change.type_id, change.id[:_LONGEST_ID], digest=id_digest(change.id)
    )


def _ops(pairs: RowPairs) -> list[Op]:
    kinds = np.where(pairs.is_insert, 0, np.where(pairs.is_delete, 2, 1))
    words = tuple(Op)
    return [words[kind] for kind in kinds.tolist()]


def _pair_tables(
    old: Snapshot,
    new: Snapshot,
    kinds: frozenset[EntityKind],
    tables: frozenset[TableRef] | None,
) -> Iterator[_Table]:
    """The tables that somebody asks for and whose pins differ, in order.

    Raises:
        ChangeSchemaBoundary: no comparison of a table would be meaningful.
    """
    before, after = _types(old.catalog), _types(new.catalog)
    for ref in sorted(before.keys() | after.keys(), key=lambda ref: _order(ref, before, after)):
        was, now = before.get(ref), after.get(ref)
        item = cast("Item", now or was)  # cast: one of them is there
        if (kinds and kind_of(item) not in kinds) or (tables is not None and ref not in tables):
            continue
        if was is None or now is None:
            _require_empty(old if now is None else new, item, new)
            continue
        columns = _common_columns(was, now, new)
        if old.pin(was) != new.pin(now):
            yield _Table(old=was, new=now, columns=columns)


def _types(catalog: Catalog) -> dict[TableRef, Item]:
    items: list[Item] = [*catalog.node_types.values(), *catalog.edge_types.values()]
    return {ref_of(item): item for item in items}


def _order(
    ref: TableRef, before: dict[TableRef, Item], after: dict[TableRef, Item]
) -> tuple[bool, TableRef]:
    return not isinstance(after.get(ref) or before.get(ref), NodeType), ref


def _require_empty(snapshot: Snapshot, item: Item, new: Snapshot) -> None:
    if snapshot.pin(item).row_count:
        why = f"the type {item.name} is in one of the two schemas only, and has rows"
        raise _boundary(why, item, new)


def _common_columns(old: Item, new: Item, shown: Snapshot) -> tuple[tuple[str, str], ...]:
    """What both forms of a type have, as each names it; a renamed property is the same."""
    ends = () if isinstance(new, NodeType) else (("src", "src"), ("dst", "dst"))
    before: dict[Any, str] = {item.property_id: name for name, item in old.properties.items()}
    after: dict[Any, str] = {item.property_id: name for name, item in new.properties.items()}
    if before.keys() != after.keys():
        why = f"the type {new.name} has other properties in the two schemas"
        raise _boundary(why, new, shown)
    for property_id, name in after.items():
        was, now = old.properties[before[property_id]].type, new.properties[name].type
        if replace(was, nullable=False, enum_values=None) != replace(
            now, nullable=False, enum_values=None
        ):
            why = f"{new.name}.{name} is {now} in one schema and {was} in the other"
            raise _boundary(why, new, shown)
    return (*ends, *((before[property_id], name) for property_id, name in after.items()))


def _boundary(why: str, item: Item, new: Snapshot) -> ChangeSchemaBoundary:
    return ChangeSchemaBoundary(
        f"{why}, so the changes between the two states cannot be told; compare states on one side"
        " of the schema change",
        graph_commit_id=new.graph_commit_id,
        type_name=item.name,
    )
