"""The rows of the manifest: what each kind says, and its form in the table.

Rows are written once and never changed, except `graph_head`, `schema`, `branch` and `tag`. A row
that cannot be read back is `ManifestCorrupt`: nothing is guessed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraph.errors import ManifestCorrupt
from omnigraph.ids import BranchId, BranchName, CommitId, Incarnation, OperationId, TableId
from omnigraph.storage.manifest import MANIFEST_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HEAD_ID: Final = "graph_head"
SCHEMA_ID: Final = "schema"


class RowKind(StrEnum):
    """`object_type`."""

    TABLE = "table"
    TABLE_VERSION = "table_version"
    TABLE_TOMBSTONE = "table_tombstone"
    GRAPH_COMMIT = "graph_commit"
    GRAPH_HEAD = "graph_head"
    SCHEMA = "schema"
    BRANCH = "branch"
    TAG = "tag"
    RECOVERY = "recovery"


@dataclass(frozen=True, slots=True, order=True)
class TableRef:
    """One lifetime of one table: what a name may change and a re-creation may not reuse."""

    table_id: TableId
    incarnation: Incarnation

    def __str__(self) -> str:
        return f"{self.table_id}-{self.incarnation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """Registration of a table."""

    ref: TableRef
    table_key: str
    location: str

    def encode(self) -> dict[str, object]:
        """The row's columns."""
        return {
            "object_id": f"table:{self.ref}",
            "object_type": RowKind.TABLE,
            **_coordinates(self.ref, self.table_key),
            "location": self.location,
            "metadata": _text({"kind": self.table_key.partition(":")[0]}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PinRow:
    """The version of a table that commit `seq` published."""

    ref: TableRef
    seq: int
    table_key: str
    location: str
    branch: str | None
    version: int
    row_count: int
    transaction: str | None = None

    def encode(self) -> dict[str, object]:
        """The row's columns."""
        return {
            "object_id": f"version:{self.ref}:{self.seq}",
            "object_type": RowKind.TABLE_VERSION,
            "seq": self.seq,
            **_coordinates(self.ref, self.table_key),
            "location": self.location,
            "table_branch": self.branch,
            "table_version": self.version,
            "row_count": self.row_count,
            "metadata": _text({"transaction": self.transaction}),
        }


def tombstone_object_id(ref: TableRef, seq: int) -> str:
    """The id of the row that ends a table."""
    return f"tombstone:{ref}:{seq}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstoneRow:
    """The table is gone from `seq` on."""

    ref: TableRef
    seq: int
    table_key: str

    def encode(self) -> dict[str, object]:
        """The row's columns."""
        return {
            "object_id": tombstone_object_id(self.ref, self.seq),
            "object_type": RowKind.TABLE_TOMBSTONE,
            "seq": self.seq,
            **_coordinates(self.ref, self.table_key),
            "metadata": _text({}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRow:
    """One commit of the graph."""

    commit_id: CommitId
    seq: int
    kind: str
    schema_hash: str
    operation_id: OperationId
    authored_at: int
    authored_branch: BranchName
    parent: CommitId | None = None
    actor_id: str | None = None
    merged_parent: CommitId | None = None
    read_set: Mapping[str, int] = field(default_factory=dict)
    idempotency_key: str | None = None
    request_digest: str | None = None
    stats: Mapping[str, Any] = field(default_factory=dict)
    copied_from: BranchId | None = None
    """The line that holds the data of a commit that a merge copied here, and its `seq`."""
    generation: int | None = None
    """The length of the longest way to the first commit, where merges made it differ from `seq`."""
    committed_at: int = 0
    """When it was published: greater than that of every commit before it on its line.

    Rows of graphs from before it was kept do not tell it, and have `authored_at` for it.
    """

    def __post_init__(self) -> None:
        if not self.committed_at:
            object.__setattr__(self, "committed_at", self.authored_at)

    @property
    def height(self) -> int:
        """The length of the longest way to the first commit: above that of every ancestor."""
        return self.seq if self.generation is None else self.generation

    def encode(self) -> dict[str, object]:
        """The row's columns; a copied commit has no place of its own on this line."""
        metadata = {name: getattr(self, name) for name in COMMIT_FIELDS}
        if self.copied_from is not None:
            metadata["copied_seq"] = self.seq
        return {
            "object_id": self.commit_id,
            "object_type": RowKind.GRAPH_COMMIT,
            "seq": None if self.copied_from is not None else self.seq,
            "metadata": _text(metadata),
        }


def job_of(stats: Mapping[str, Any]) -> str | None:  # Any: as JSON gives it
    """The job whose commit has these facts: the operation that it told when it began."""
    job: str | None = stats.get("load", {}).get("job")
    return job


_COMMIT_FACTS: Final = ("kind", "schema_hash", "operation_id", "authored_at", "authored_branch")
_COMMIT_OPTIONS: Final = (
    "parent",
    "merged_parent",
    "copied_from",
    "generation",
    "committed_at",
    "actor_id",
    "read_set",
    "idempotency_key",
    "request_digest",
    "stats",
)


COMMIT_FIELDS: Final = (*_COMMIT_FACTS, *_COMMIT_OPTIONS)
"""What the row of a commit says beside its id and its number."""


_PIN_COLUMNS: Final = (
    "seq",
    "table_id",
    "incarnation",
    "table_key",
    "location",
    "table_version",
    "row_count",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadRow:
    """Where a line stands; every publish replaces it, so two publishes always collide here."""

    commit_id: CommitId
    seq: int
    branch_id: BranchId

    def encode(self) -> dict[str, object]:
        """The row's columns."""
        return {
            "object_id": HEAD_ID,
            "object_type": RowKind.GRAPH_HEAD,
            "seq": self.seq,
            "metadata": _text({"commit": self.commit_id, "branch_id": self.branch_id}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRow:
    """The accepted schema of a line."""

    schema_hash: str
    next_type_id: int
    next_property_id: int

    def encode(self) -> dict[str, object]:
        """The row's columns."""
        return {
            "object_id": SCHEMA_ID,
            "object_type": RowKind.SCHEMA,
            "metadata": _text(
                {
                    "schema_hash": self.schema_hash,
                    "next_type_id": self.next_type_id,
                    "next_property_id": self.next_property_id,
                }
            ),
        }


class BranchState(StrEnum):
    """Whether a branch or a tag can be used."""

    LIVE = "live"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchRow:
    """A branch under its name; only on the main line."""

    name: BranchName
    branch_id: BranchId
    parent_branch_id: BranchId
    forked_at: CommitId
    created_at: int
    actor_id: str | None = None
    state: BranchState = BranchState.LIVE
    line_start: int | None = None
    """The version with which its line began: while that is the newest, nothing was written there.

    Rows of graphs from before it was kept do not tell it.
    """

    def deleted(self) -> BranchRow:
        """The same branch after its end."""
        return replace(self, state=BranchState.DELETED)

    def encode(self) -> dict[str, object]:
        """The row's columns."""
        return {
            "object_id": f"branch:{self.name}",
            "object_type": RowKind.BRANCH,
            "metadata": _text(
                {
                    "branch_id": self.branch_id,
                    "parent_branch_id": self.parent_branch_id,
                    "forked_at": self.forked_at,
                    "created_at": self.created_at,
                    "actor_id": self.actor_id,
                    "state": self.state,
                    "line_start": self.line_start,
                }
            ),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRow:
    """A commit under a name; only on the main line."""

    name: str
    tag_id: str
    """Tells it from a later tag of that name, and from one that another process makes now."""
    commit_id: CommitId
    branch_id: BranchId
    """The line that holds the data of the commit: the oldest that has it."""
    seq: int
    created_at: int
    actor_id: str | None = None
    state: BranchState = BranchState.LIVE

    def deleted(self) -> TagRow:
        """The same tag after its end."""
        return replace(self, state=BranchState.DELETED)

    def encode(self) -> dict[str, object]:
        """The row's columns; `seq` is that of the commit, and no column of its own."""
        facts = {name: getattr(self, name) for name in self.__slots__ if name != "name"}
        return {
            "object_id": f"tag:{self.name}",
            "object_type": RowKind.TAG,
            "metadata": _text(facts),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryRow:
    """The outcome of a recovery: the audit row, and the fence against a late writer."""

    operation_id: OperationId
    recovery_kind: str
    writer_kind: str
    recovered_at: int
    recovered_by: Mapping[str, Any] = field(default_factory=dict)
    recovery_for_actor: str | None = None
    tables: tuple[Mapping[str, Any], ...] = ()
    graph_commit_id: CommitId | None = None

    def encode(self) -> dict[str, object]:
        """The row's columns."""
        return {
            "object_id": recovery_object_id(self.operation_id),
            "object_type": RowKind.RECOVERY,
            "metadata": _text(
                {
                    "operation_id": self.operation_id,
                    "recovery_kind": self.recovery_kind,
                    "writer_kind": self.writer_kind,
                    "recovery_for_actor": self.recovery_for_actor,
                    "recovered_by": dict(self.recovered_by),
                    "recovered_at": self.recovered_at,
                    "tables": [dict(table) for table in self.tables],
                    "graph_commit_id": self.graph_commit_id,
                }
            ),
        }


Row = (
    TableRow
    | PinRow
    | TombstoneRow
    | CommitRow
    | HeadRow
    | SchemaRow
    | BranchRow
    | TagRow
    | RecoveryRow
)


def recovery_object_id(operation_id: str) -> str:
    """The id of the row that says how an operation was recovered."""
    return f"recovery:{operation_id}"


def encode_rows(rows: Iterable[Row]) -> pa.Table:
    """Rows in the form that the manifest stores."""
    return pa.Table.from_pylist([row.encode() for row in rows], schema=MANIFEST_SCHEMA)


# Any: a row as `to_pylist` gives it; the decoders below are where its shape is checked.
RawRow = dict[str, Any]


def decode_commit(raw: RawRow) -> CommitRow:
    """The commit that a row describes."""
    metadata = _metadata(raw)
    try:
        return CommitRow(
            commit_id=CommitId(raw["object_id"]),
            seq=raw["seq"] if raw["seq"] is not None else metadata["copied_seq"],
            **{name: metadata[name] for name in _COMMIT_FACTS},
            **{name: metadata[name] for name in _COMMIT_OPTIONS if name in metadata},
        )
    except KeyError as error:
        raise _corrupt(raw, f"has no {error}") from error


def decode_table(raw: RawRow) -> TableRow:
    """A `table` row."""
    _require(raw, "table_id", "incarnation", "table_key", "location")
    ref = TableRef(TableId(raw["table_id"]), Incarnation(raw["incarnation"]))
    return TableRow(ref=ref, table_key=raw["table_key"], location=raw["location"])


def decode_pin(raw: RawRow) -> PinRow:
    """The pin that a row describes."""
    _require(raw, *_PIN_COLUMNS)
    return PinRow(
        ref=ref_of_row(raw),
        seq=raw["seq"],
        table_key=raw["table_key"],
        location=raw["location"],
        branch=raw["table_branch"],
        version=raw["table_version"],
        row_count=raw["row_count"],
        transaction=_metadata(raw).get("transaction"),
    )


def decode_head(raw: RawRow) -> HeadRow:
    """The head that a row describes."""
    _require(raw, "seq")
    metadata = _metadata(raw)
    try:
        return HeadRow(
            commit_id=metadata["commit"], seq=raw["seq"], branch_id=metadata["branch_id"]
        )
    except KeyError as error:
        raise _corrupt(raw, f"has no {error}") from error


def decode_schema(raw: RawRow) -> SchemaRow:
    """The accepted schema that a row describes."""
    try:
        return SchemaRow(**_metadata(raw))
    except TypeError as error:
        raise _corrupt(raw, str(error)) from error


def decode_branch(raw: RawRow) -> BranchRow:
    """The branch that a row describes."""
    metadata = _metadata(raw)
    try:
        state = BranchState(metadata.pop("state"))
        name = BranchName(raw["object_id"].removeprefix("branch:"))
        return BranchRow(name=name, state=state, **metadata)
    except (KeyError, TypeError, ValueError) as error:
        raise _corrupt(raw, str(error)) from error


def decode_tag(raw: RawRow) -> TagRow:
    """The tag that a row describes."""
    metadata = _metadata(raw)
    try:
        state = BranchState(metadata.pop("state"))
        return TagRow(name=raw["object_id"].removeprefix("tag:"), state=state, **metadata)
    except (KeyError, TypeError, ValueError) as error:
        raise _corrupt(raw, str(error)) from error


def decode_recovery(raw: RawRow) -> RecoveryRow:
    """The recovery that a row describes."""
    metadata = _metadata(raw)
    try:
        return RecoveryRow(**{**metadata, "tables": tuple(metadata.get("tables", ()))})
    except (KeyError, TypeError) as error:
        raise _corrupt(raw, str(error)) from error


def _coordinates(ref: TableRef, table_key: str) -> dict[str, object]:
    return {"table_id": ref.table_id, "incarnation": ref.incarnation, "table_key": table_key}


def ref_of_row(raw: RawRow) -> TableRef:
    """The table that a row is about."""
    _require(raw, "seq", "table_id", "incarnation")
    return TableRef(TableId(raw["table_id"]), Incarnation(raw["incarnation"]))


def _require(raw: RawRow, *columns: str) -> None:
    missing = [name for name in columns if raw[name] is None]
    if missing:
        raise _corrupt(raw, f"has no {', '.join(missing)}")


def _metadata(raw: RawRow) -> dict[str, Any]:
    try:
        content = json.loads(raw["metadata"])
    except (TypeError, ValueError) as error:
        raise _corrupt(raw, "has no readable metadata") from error
    if not isinstance(content, dict):
        raise _corrupt(raw, "has metadata that is no object")
    return content


def _text(content: Mapping[str, Any]) -> str:
    """Canonical JSON of what is known: every reader of a graph reads all of it."""
    known = {name: value for name, value in content.items() if value not in (None, {}, [])}
    return json.dumps(known, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _corrupt(raw: RawRow, what: str) -> ManifestCorrupt:
    return ManifestCorrupt(
        f"the manifest row {raw['object_id']!r} {what}; the graph was changed by something else or"
        " is damaged: restore __manifest from a copy, or export what still opens",
        object_id=raw["object_id"],
    )
