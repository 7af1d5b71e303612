"""What a write wants to make visible, complete enough that anybody can publish it.

An intent is decided before the first effect and written into the sidecar, so a recovery publishes
exactly what the writer would have: same commit, same actor, same pins.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import msgspec

from omnigraph.graph.manifest.rows import (
    COMMIT_FIELDS,
    CommitRow,
    PinRow,
    SchemaRow,
    TableRef,
    TableRow,
    TombstoneRow,
)
from omnigraph.ids import (
    BranchId,
    BranchName,
    CommitId,
    Incarnation,
    OperationId,
    TableId,
)


class SidecarKind(StrEnum):
    """The kinds of writer."""

    MUTATION = "mutation"
    LOAD = "load"
    BRANCH_MERGE = "branch_merge"
    SCHEMA_APPLY = "schema_apply"
    ENSURE_INDICES = "ensure_indices"
    OPTIMIZE = "optimize"
    EMBED = "embed"
    TABLE_SETTINGS = "table_settings"
    """Removes settings of a table by which Lance would delete versions that are pinned."""

    REPAIR = "repair"
    """Removes what a late writer left above a pin. It plans nothing, so it never publishes; an
    older release also wrote what is now `TABLE_SETTINGS` so."""

    @property
    def commit_kind(self) -> str:
        """The word for it in the history."""
        renamed = {SidecarKind.BRANCH_MERGE: "merge", SidecarKind.ENSURE_INDICES: "index"}
        return renamed.get(self, self.value)


MAINTENANCE_KINDS: Final = frozenset(
    kind.commit_kind
    for kind in (SidecarKind.ENSURE_INDICES, SidecarKind.OPTIMIZE, SidecarKind.TABLE_SETTINGS)
)
"""The words in the history for commits that change no row."""


class ParentRule(StrEnum):
    """What a publish does when the head moved since the write was prepared."""

    REPARENT = "reparent"
    EXACT = "exact"


class PlannedPin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table version that a publish makes visible, and the one it must find in force."""

    table_id: int
    incarnation: int
    table_key: str
    location: str
    branch: str | None
    version: int
    row_count: int
    transaction: str | None = None
    expected_branch: str | None = None
    expected_version: int | None = None
    """`None` for a table that this write registers."""

    @property
    def ref(self) -> TableRef:
        """The table."""
        return TableRef(TableId(self.table_id), Incarnation(self.incarnation))

    def row(self, seq: int) -> PinRow:
        """The row that commit `seq` publishes."""
        return PinRow(
            ref=self.ref,
            seq=seq,
            table_key=self.table_key,
            location=self.location,
            branch=self.branch,
            version=self.version,
            row_count=self.row_count,
            transaction=self.transaction,
        )


class NamedTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table that a publish registers or ends."""

    table_id: int
    incarnation: int
    table_key: str
    location: str = ""

    @property
    def ref(self) -> TableRef:
        """The table."""
        return TableRef(TableId(self.table_id), Incarnation(self.incarnation))

    def registration(self) -> TableRow:
        """The row that registers it."""
        return TableRow(ref=self.ref, table_key=self.table_key, location=self.location)

    def tombstone(self, seq: int) -> TombstoneRow:
        """The row that ends it."""
        return TombstoneRow(ref=self.ref, seq=seq, table_key=self.table_key)


class PlannedSchema(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The schema that a publish accepts."""

    schema_hash: str
    next_type_id: int
    next_property_id: int

    def row(self) -> SchemaRow:
        """The row that accepts it."""
        return SchemaRow(
            schema_hash=self.schema_hash,
            next_type_id=self.next_type_id,
            next_property_id=self.next_property_id,
        )


class CopiedCommit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A commit of another line that a merge makes part of this line's history."""

    commit_id: str
    seq: int
    copied_from: str
    facts: dict[str, Any]
    """Everything else that its row says."""

    def row(self) -> CommitRow:
        """The row of it, which has no place of its own on the line."""
        return CommitRow(
            commit_id=CommitId(self.commit_id),
            seq=self.seq,
            copied_from=BranchId(self.copied_from),
            **self.facts,
        )


def copy_commit(row: CommitRow, line: BranchId) -> CopiedCommit:
    """A commit as a merge copies it; one that was copied before stays one of its own line."""
    facts = {
        name: getattr(row, name)
        for name in COMMIT_FIELDS
        # What a write had read means something on its own line only.
        if name not in ("copied_from", "read_set") and getattr(row, name) not in (None, {})
    }
    return CopiedCommit(
        commit_id=row.commit_id,
        seq=row.seq,
        copied_from=row.copied_from or line,
        facts=facts,
    )


class Intent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One commit of the graph, before it has a place in the history."""

    operation_id: str
    commit_id: str
    kind: str
    authored_at: int
    authored_branch: str
    schema_from: str
    actor_id: str | None = None
    merged_parent: str | None = None
    merged_height: int = 0
    """The height of the merged parent; see `CommitRow`."""
    history: tuple[CopiedCommit, ...] = ()
    """Commits of the merged branch that the line does not know."""
    pins: tuple[PlannedPin, ...] = ()
    registrations: tuple[NamedTable, ...] = ()
    tombstones: tuple[NamedTable, ...] = ()
    schema_to: PlannedSchema | None = None
    if_commit: str | None = None
    parent_rule: ParentRule = ParentRule.REPARENT
    expected_head: str | None = None
    read_set: dict[str, int] = {}
    idempotency_key: str | None = None
    request_digest: str | None = None
    stats: dict[str, Any] = {}

    def commit_row(self, seq: int, parent: CommitRow, now_us: int) -> CommitRow:
        """The commit at its place; whoever publishes it says when, and never before its parent."""
        height = max(parent.height, self.merged_height) + 1
        return CommitRow(
            commit_id=CommitId(self.commit_id),
            seq=seq,
            parent=parent.commit_id,
            generation=None if height == seq else height,
            kind=self.kind,
            schema_hash=self.schema_to.schema_hash if self.schema_to else self.schema_from,
            operation_id=OperationId(self.operation_id),
            authored_at=self.authored_at,
            committed_at=max(now_us, parent.committed_at + 1),
            authored_branch=BranchName(self.authored_branch),
            actor_id=self.actor_id,
            merged_parent=None if self.merged_parent is None else CommitId(self.merged_parent),
            read_set=self.read_set,
            idempotency_key=self.idempotency_key,
            request_digest=self.request_digest,
            stats=self.stats,
        )
