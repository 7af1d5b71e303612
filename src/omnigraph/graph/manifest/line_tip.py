"""What the head of a line needs: head, schema, pins and names, carried from version to version.

A tip is immutable. The next one follows from the rows that a commit added, so neither a publish nor
a reader that follows other writers ever reads the history. It also knows where the rows lie that a
publish replaces.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.errors import ManifestCorrupt
from omnigraph.graph.manifest.rows import (
    HEAD_ID,
    SCHEMA_ID,
    BranchRow,
    CommitRow,
    HeadRow,
    PinRow,
    RowKind,
    SchemaRow,
    TableRef,
    TagRow,
    decode_branch,
    decode_commit,
    decode_head,
    decode_pin,
    decode_schema,
    decode_tag,
    ref_of_row,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from omnigraph.graph.manifest.rows import RawRow

NAMED = (RowKind.BRANCH, RowKind.TAG)
"""The kinds of rows that count on the main line only; a branch has inherited copies of them."""

_REPLACED = (RowKind.GRAPH_HEAD, RowKind.SCHEMA, *NAMED)
"""The kinds of rows that are ever replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineTip:
    """The state of a line at its head."""

    head: HeadRow
    head_commit: CommitRow
    schema: SchemaRow
    newest_pins: Mapping[TableRef, PinRow] = field(default_factory=dict)
    """The last pin of every table, ended ones too."""

    ended: Mapping[TableRef, int] = field(default_factory=dict)
    """The number at which a table got its last tombstone."""

    branches: Mapping[str, BranchRow] = field(default_factory=dict)
    tags: Mapping[str, TagRow] = field(default_factory=dict)
    places: Mapping[str, int] = field(default_factory=dict)
    """The addresses of the rows that may be replaced, by id."""

    def pins(self) -> dict[TableRef, PinRow]:
        """Per living table its pin, by table.

        Raises:
            ManifestCorrupt: two living tables have one name.
        """
        return living_pins(self.newest_pins, self.ended)

    def after(self, rows: Iterable[RawRow], places: Mapping[str, int]) -> LineTip:
        """The tip of the version that added these rows, which lie at these places.

        Raises:
            ManifestCorrupt: a row cannot be read, or the head names a commit that is not there.
        """
        parts = _Parts(self)
        for row in rows:
            parts.take(row, places)
        return parts.tip()


def living_pins(
    newest: Mapping[TableRef, PinRow], ended: Mapping[TableRef, int]
) -> dict[TableRef, PinRow]:
    """The pins of tables that have not ended since, by table.

    Raises:
        ManifestCorrupt: two living tables have one name.
    """
    pins: dict[TableRef, PinRow] = {}
    names: dict[str, TableRef] = {}
    for ref, pin in sorted(newest.items(), key=lambda entry: entry[0]):
        if ended.get(ref, -1) > pin.seq:
            continue
        if pin.table_key in names:
            raise ManifestCorrupt(
                f"two tables are called {pin.table_key}: {names[pin.table_key]} and {ref};"
                " restore __manifest from a copy",
                table_key=pin.table_key,
            )
        names[pin.table_key] = ref
        pins[ref] = pin
    return pins


def first_tip(rows: Iterable[RawRow], places: Mapping[str, int]) -> LineTip:
    """The tip of a line from rows of one version, at least those that its head needs.

    Raises:
        ManifestCorrupt: a row is missing, there twice, or cannot be read.
    """
    listed = list(rows)
    seen: set[str] = set()
    for row in listed:
        if row["object_id"] in seen:
            raise ManifestCorrupt(
                f"the manifest has 2 rows {row['object_id']!r}; restore __manifest from a copy",
                object_id=row["object_id"],
            )
        seen.add(row["object_id"])
    parts = _Parts(None)
    for row in listed:
        parts.take(row, places)
    return parts.tip()


class _Parts:
    """A tip in the making."""

    def __init__(self, before: LineTip | None) -> None:
        self._before = before
        self._head = None if before is None else before.head
        self._schema = None if before is None else before.schema
        self._commits: dict[str, RawRow] = {}
        self._pins = {} if before is None else dict(before.newest_pins)
        self._ended = {} if before is None else dict(before.ended)
        self._branches = {} if before is None else dict(before.branches)
        self._tags = {} if before is None else dict(before.tags)
        self._places = {} if before is None else dict(before.places)

    def take(self, row: RawRow, places: Mapping[str, int]) -> None:
        kind = row["object_type"]
        if kind in _REPLACED:
            self._places[row["object_id"]] = places[row["object_id"]]
        match kind:
            case RowKind.GRAPH_HEAD:
                self._head = decode_head(row)
            case RowKind.SCHEMA:
                self._schema = decode_schema(row)
            case RowKind.GRAPH_COMMIT:
                self._commits[row["object_id"]] = row
            case RowKind.BRANCH:
                branch = decode_branch(row)
                self._branches[branch.name] = branch
            case RowKind.TAG:
                tag = decode_tag(row)
                self._tags[tag.name] = tag
            case RowKind.TABLE_VERSION:
                pin = decode_pin(row)
                known = self._pins.get(pin.ref)
                if known is None or known.seq <= pin.seq:
                    self._pins[pin.ref] = pin
            case RowKind.TABLE_TOMBSTONE:
                ref = ref_of_row(row)
                self._ended[ref] = max(self._ended.get(ref, -1), row["seq"])

    def tip(self) -> LineTip:
        if self._head is None:
            raise missing_row(HEAD_ID)
        if self._schema is None:
            raise missing_row(SCHEMA_ID)
        return LineTip(
            head=self._head,
            head_commit=self._head_commit(self._head),
            schema=self._schema,
            newest_pins=self._pins,
            ended=self._ended,
            branches=self._branches,
            tags=self._tags,
            places=self._places,
        )

    def _head_commit(self, head: HeadRow) -> CommitRow:
        row = self._commits.get(head.commit_id)
        if row is not None:
            return decode_commit(row)
        if self._before is not None and self._before.head_commit.commit_id == head.commit_id:
            return self._before.head_commit
        raise missing_row(head.commit_id)


def missing_row(object_id: str) -> ManifestCorrupt:
    """What a line is that lacks a row which it must have."""
    return ManifestCorrupt(
        f"the manifest has no row {object_id!r}; restore __manifest from a copy",
        object_id=object_id,
    )
