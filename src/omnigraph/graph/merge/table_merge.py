"""The three-way decision for one table: what the merge writes, what it removes, what is contested.

Only entities that the source changed are looked at; what only the target changed stays as it is.
Per entity, against the base: a change of one side is taken; equal changes of both are one change;
other changes of both are a conflict. Single properties are not merged.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.graph.arrays import ascending_union, contained, no_texts, places_in
from omnigraph.graph.changes.row_pairs import equal_forms, form_of, read_pairs
from omnigraph.graph.changes.row_places import Side, changed_places, places_of, written_ids
from omnigraph.graph.merge.contests import Contest
from omnigraph.graph.merge.merge_room import MergeRoom
from omnigraph.graph.validation import FittedRows, TableDelta
from omnigraph.storage.blobs import STORED_BLOB, Blob
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.graph.arrays import Ids, Mask
    from omnigraph.graph.changes.row_pairs import Form, RowPairs
    from omnigraph.graph.changes.row_places import RowPlaces
    from omnigraph.lang import EdgeType, NodeType
    from omnigraph.storage.blob_rows import BlobValue
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.table_storage import TableStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedTable:
    """A type at the three commits of a merge."""

    item: NodeType | EdgeType
    base: TableHandle
    ours: TableHandle
    theirs: TableHandle
    written: Sequence[tuple[TableHandle, TableHandle]] | None = None
    """Stretches of history in which everything was written that differs between base and theirs.

    `None` if they are not known.
    """
    entrances: Sequence[Sequence[TableHandle]] = ()
    """As `CommitStates.entrances`."""

    @property
    def names(self) -> list[tuple[str, str]]:
        """The columns that are compared; all three have one schema."""
        return [(name, name) for name in self.item.arrow_schema.names if name != "id"]


@dataclass(kw_only=True)
class TableMerge:
    """What a merge does to one table, as far as it is decided."""

    item: NodeType | EdgeType
    room: MergeRoom = field(default_factory=MergeRoom)
    inserted: list[pa.Table] = field(default_factory=list)
    updated: list[pa.Table] = field(default_factory=list)
    removed: list[Ids] = field(default_factory=list)
    contests: list[Contest] = field(default_factory=list)
    """What is left to a decision."""

    @property
    def counts(self) -> dict[str, int]:
        """How many rows of the target change."""
        return {
            "inserted": sum(rows.num_rows for rows in self.inserted),
            "updated": sum(rows.num_rows for rows in self.updated),
            "deleted": sum(map(len, self.removed)),
        }

    @property
    def inserts(self) -> pa.Table:
        """The rows that the target gets."""
        return self._joined(self.inserted)

    @property
    def updates(self) -> pa.Table:
        """The rows of the target that are replaced."""
        return self._joined(self.updated)

    @property
    def removals(self) -> Ids:
        """The rows of the target that go."""
        return pa.concat_arrays([no_texts(), *self.removed])

    @property
    def is_empty(self) -> bool:
        """The target stays as it is."""
        return not any(self.counts.values())

    @property
    def delta(self) -> TableDelta:
        """The change as the validator looks at it."""
        rows = pa.concat_tables([self.inserts, self.updates])
        return TableDelta(rows=FittedRows(item=self.item, table=rows), removed=self.removals)

    def copied(self) -> TableMerge:
        """The same, to be decided otherwise; nothing is counted of it."""
        return replace(
            self,
            room=MergeRoom(),
            inserted=list(self.inserted),
            updated=list(self.updated),
            removed=list(self.removed),
            contests=list(self.contests),
        )

    def take(self, ids: Ids, form: Form, ours: Mask) -> None:
        """Give entities the form that one side has.

        Args:
            ids: the entities.
            form: how they are to be.
            ours: which of them the target has.
        """
        self.room.take_bytes(form.rows.nbytes + ids.nbytes)
        rows = self._whole_rows(ids, form)
        exists = form.side.exists
        is_update = ours[exists]
        self._add(self.updated, rows.filter(pa.array(is_update)))
        self._add(self.inserted, rows.filter(pa.array(~is_update)))
        self.remove(ids.filter(pa.array(~exists & ours)))

    def contest(self, contest: Contest) -> None:
        """Leave entities to a decision."""
        self.room.take_bytes(sum(form.rows.nbytes for form in contest.forms))
        self.contests.append(contest)

    def _whole_rows(self, ids: Ids, form: Form) -> pa.Table:
        """The entities that exist, with their blobs, ready to be written; holds all of them."""
        exists = form.side.exists
        schema = row_schema(self.item)
        columns = [
            ids.filter(pa.array(exists))
            if name == "id"
            else self.stored_blobs(form.blobs(name, exists))
            if name in self.item.blob_properties
            else form.rows[name]
            for name in schema.names
        ]
        return pa.table(columns, schema=schema)

    def stored_blobs(self, values: Sequence[BlobValue]) -> pa.Array[Any]:  # Any: bytes, addresses
        """Blobs of a version as rows carry them; holds all their bytes.

        Raises:
            ResourceLimit: they are too many.
        """
        self.room.take_bytes(sum(each.length for each in values if isinstance(each, Blob)))
        return _stored_blobs(values)

    def write(self, rows: pa.Table, *, is_update: bool) -> None:
        """Give an entity a form that neither side has."""
        self._add(self.updated if is_update else self.inserted, rows)

    def remove(self, ids: Ids) -> None:
        """Remove rows that the target has."""
        if len(ids):
            self.removed.append(ids)

    def drop(self, ids: Ids) -> None:
        """Forget what was decided for some entities."""
        self.inserted = [_without(rows, ids) for rows in self.inserted]
        self.updated = [_without(rows, ids) for rows in self.updated]
        self.removed = [gone.filter(pa.array(~contained(gone, ids))) for gone in self.removed]

    def _add(self, parts: list[pa.Table], rows: pa.Table) -> None:
        if rows.num_rows:
            parts.append(rows)

    def _joined(self, parts: Sequence[pa.Table]) -> pa.Table:
        schema = row_schema(self.item)
        return pa.concat_tables([schema.empty_table(), *parts])


def merge_table(
    store: TableStorage, table: MergedTable, room: MergeRoom, *, is_cautious: bool = False
) -> TableMerge:
    """Everything that the source changed, taken or contested.

    Args:
        store: the tables.
        table: the three states.
        room: how much may still change.
        is_cautious: the base is older than what both sides have in common. An entity that both have
            touched since, and have otherwise, is contested then, also if one looks as in the base:
            it may have been changed in common and changed back, or made in common and removed.

    Raises:
        ObjectMissing: a version is gone.
        ResourceLimit: too much changes.
    """
    merge = TableMerge(item=table.item, room=room)
    theirs = _their_places(store, table)
    hidden = _hidden_ids(store, table) if is_cautious else no_texts()
    if len(hidden):
        ids = ascending_union([theirs.ids, hidden])
        theirs = places_of(store, table.base, table.theirs, ids)
    if not len(theirs):
        return merge
    ours = _our_places(store, table, theirs.ids, is_cautious=is_cautious)
    if len(hidden):
        ours = places_of(store, table.base, table.ours, ascending_union([ours.ids, hidden]))
    pairs = read_pairs(store, table.base, table.theirs, theirs, table.names, with_equal=is_cautious)
    for part in pairs:
        _decide(store, table, part, ours, merge, is_cautious=is_cautious)
    return merge


def _their_places(store: TableStorage, table: MergedTable) -> RowPlaces:
    """What may differ between base and theirs."""
    if table.written is None:
        return changed_places(store, table.base, table.theirs)
    try:
        ids = written_ids(store, table.written)
    except ObjectMissing:
        # Cleaned away in between: what is left of both sides tells it as well, at more cost.
        return changed_places(store, table.base, table.theirs)
    return places_of(store, table.base, table.theirs, ids)


def _our_places(
    store: TableStorage, table: MergedTable, ids: Ids, *, is_cautious: bool
) -> RowPlaces:
    """Where the target has entities that it may have changed, at least those among some ids.

    If the base is on another line, everything counts as touched that is asked for: looking there
    costs less than finding out what was written since the lines went apart. A cautious merge has to
    know what was touched.
    """
    if is_cautious or store.common_pin(table.base, table.ours) == table.base.pin:
        return changed_places(store, table.base, table.ours)
    return places_of(store, table.base, table.ours, ids)


def _hidden_ids(store: TableStorage, table: MergedTable) -> Ids:
    """What both sides may have had since the base, although one has it no more; ascending.

    History that cannot be read may have made an entity that one side removed. By the state of its
    head alone, that side never had it.
    """
    hidden = no_texts()
    for number, states in enumerate(table.entrances):
        shown = (changed_places(store, table.base, state).ids for state in states)
        ids = ascending_union(shown)
        hidden = ids.filter(pa.array(contained(ids, hidden))) if number else ids
    return hidden


def _decide(
    store: TableStorage,
    table: MergedTable,
    pairs: RowPairs,
    ours: RowPlaces,
    merge: TableMerge,
    *,
    is_cautious: bool,
) -> None:
    places = places_in(pairs.ids, ours.ids)
    is_touched = places >= 0
    # What the target has of entities that it touched too; of the others it has what the base has.
    touched = pairs.chosen(is_touched)
    at = places[is_touched]
    side = Side(exists=ours.new.exists[at], row_ids=ours.new.row_ids[at])
    own = form_of(store, table.ours, side, [name for name, _ in table.names])
    is_kept = equal_forms(touched.old, own, table.names) & (not is_cautious)
    is_contested = ~is_kept & ~equal_forms(touched.new, own, table.names)
    free = ~is_touched
    free[is_touched] = is_kept
    if is_cautious:
        free &= ~equal_forms(pairs.old, pairs.new, table.names)
    merge.room.take_rows(int(free.sum() + is_contested.sum()))
    if free.any():
        chosen = pairs.chosen(free)
        merge.take(chosen.ids, chosen.new, chosen.old.side.exists)
    if is_contested.any():
        contested = touched.chosen(is_contested)
        merge.contest(
            Contest(
                ids=contested.ids,
                base=contested.old,
                ours=own.chosen(is_contested),
                theirs=contested.new,
            )
        )


def row_schema(item: NodeType | EdgeType) -> pa.Schema:
    """The columns of rows that are written, blobs included."""
    return pa.schema(
        [
            pa.field(field.name, STORED_BLOB) if field.name in item.blob_properties else field
            for field in item.arrow_schema
        ]
    )


def _stored_blobs(values: Sequence[BlobValue]) -> pa.Array[Any]:  # Any: bytes and addresses
    cells = [
        {"data": value.read(0, value.length), "uri": None}
        if isinstance(value, Blob)
        else None
        if value is None
        else {"data": None, "uri": value}
        for value in values
    ]
    return pa.array(cells, STORED_BLOB)


def _without(rows: pa.Table, ids: Ids) -> pa.Table:
    return rows.filter(pa.array(~contained(rows["id"].combine_chunks(), ids)))
