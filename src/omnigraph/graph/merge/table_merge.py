"""The three-way decision for one table: what the merge writes, what it removes, what is contested.

Only entities that the source changed are looked at; what only the target changed stays as it is.
Per entity, against the base: a change of one side is taken; equal changes of both are one change;
other changes of both are a conflict. Single properties are not merged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.graph.arrays import contained, no_texts, places_in
from omnigraph.graph.changes.images import images_of
from omnigraph.graph.changes.row_pairs import equal_forms, form_of, read_pairs
from omnigraph.graph.changes.row_places import Side, changed_places
from omnigraph.graph.merge.conflicts import Conflict, ConflictKind
from omnigraph.graph.validation import FittedRows, TableDelta
from omnigraph.graph.validation.violation import kind_of
from omnigraph.storage.blobs import STORED_BLOB, Blob

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.graph.arrays import Ids, Mask
    from omnigraph.graph.changes.entity_change import Image
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

    @property
    def names(self) -> list[tuple[str, str]]:
        """The columns that are compared; all three have one schema."""
        return [(name, name) for name in self.item.arrow_schema.names if name != "id"]


@dataclass(frozen=True, kw_only=True)
class Contest:
    """Entities that both sides changed, otherwise each."""

    ids: Ids
    base: Form
    ours: Form
    theirs: Form


@dataclass(kw_only=True)
class TableMerge:
    """What a merge does to one table, as far as it is decided."""

    item: NodeType | EdgeType
    inserted: list[pa.Table] = field(default_factory=list)
    updated: list[pa.Table] = field(default_factory=list)
    removed: list[Ids] = field(default_factory=list)
    contests: list[Contest] = field(default_factory=list)

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

    def take(self, ids: Ids, form: Form, ours: Mask) -> None:
        """Give entities the form that one side has.

        Args:
            ids: the entities.
            form: how they are to be.
            ours: which of them the target has.
        """
        rows = whole_rows(self.item, ids, form)
        exists = form.side.exists
        is_update = ours[exists]
        self._add(self.updated, rows.filter(pa.array(is_update)))
        self._add(self.inserted, rows.filter(pa.array(~is_update)))
        self.remove(ids.filter(pa.array(~exists & ours)))

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
    store: TableStorage, table: MergedTable, *, is_cautious: bool = False
) -> TableMerge:
    """Everything that the source changed, taken or contested.

    Args:
        store: the tables.
        table: the three states.
        is_cautious: the base is older than what both sides have in common. An entity that both have
            touched since, and have otherwise, is contested then, also if one looks as in the base:
            it may have been changed in common and changed back.

    Raises:
        ObjectMissing: a version is gone.
    """
    merge = TableMerge(item=table.item)
    theirs = changed_places(store, table.base, table.theirs)
    if not len(theirs):
        return merge
    ours = changed_places(store, table.base, table.ours)
    pairs = read_pairs(store, table.base, table.theirs, theirs, table.names, with_equal=is_cautious)
    for part in pairs:
        _decide(store, table, part, ours, merge, is_cautious=is_cautious)
    return merge


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
    if free.any():
        chosen = pairs.chosen(free)
        merge.take(chosen.ids, chosen.new, chosen.old.side.exists)
    if is_contested.any():
        contested = touched.chosen(is_contested)
        merge.contests.append(
            Contest(
                ids=contested.ids,
                base=contested.old,
                ours=own.chosen(is_contested),
                theirs=contested.new,
            )
        )


def conflicts_of(item: NodeType | EdgeType, contest: Contest) -> Iterator[Conflict]:
    """Contested entities with their three images."""
    columns = [(name, name) for name in item.arrow_schema.names if name != "id"]
    sides = [
        images_of(form, item, columns) for form in (contest.base, contest.ours, contest.theirs)
    ]
    for at, entity_id in enumerate(contest.ids.to_pylist()):
        base, ours, theirs = (images.get(at) for images in sides)
        kind = ConflictKind.DIVERGENT_UPDATE
        if base is None:
            kind = ConflictKind.DIVERGENT_INSERT
        elif ours is None or theirs is None:
            kind = ConflictKind.DELETE_VS_UPDATE
        yield Conflict(
            entity_kind=kind_of(item),
            type_name=item.name,
            entity_id=entity_id,
            kind=kind,
            message=_message(item, str(entity_id), kind, ours, theirs),
            base=base,
            ours=ours,
            theirs=theirs,
        )


def _message(
    item: NodeType | EdgeType,
    entity_id: str,
    kind: ConflictKind,
    ours: Image | None,
    theirs: Image | None,
) -> str:
    who = f"{item.name} {entity_id!r}"
    if ours is None or theirs is None:
        gone, kept = ("target", "source") if ours is None else ("source", "target")
        return f"{who} was deleted on the {gone} and changed on the {kept}"
    names = [name for name, value in ours.properties.items() if theirs.properties[name] != value]
    if ours.endpoints != theirs.endpoints:
        names = ["its ends", *names]
    verb = "inserted" if kind is ConflictKind.DIVERGENT_INSERT else "changed"
    return f"{who} was {verb} on both sides with different values of {', '.join(names)}"


def row_schema(item: NodeType | EdgeType) -> pa.Schema:
    """The columns of rows that are written, blobs included."""
    return pa.schema(
        [
            pa.field(field.name, STORED_BLOB) if field.name in item.blob_properties else field
            for field in item.arrow_schema
        ]
    )


def whole_rows(item: NodeType | EdgeType, ids: Ids, form: Form) -> pa.Table:
    """The entities that exist, with their blobs, ready to be written; holds all of them."""
    exists = form.side.exists
    schema = row_schema(item)
    columns = [
        ids.filter(pa.array(exists))
        if name == "id"
        else _stored_blobs(form.blobs(name, exists))
        if name in item.blob_properties
        else form.rows[name]
        for name in schema.names
    ]
    return pa.table(columns, schema=schema)


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
