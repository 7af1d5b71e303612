"""Sidecars: what a writer leaves before its first head moves, and removes after its publish.

Whoever finds one decides from facts on storage whether the write lands completely or not at all.
A sidecar holds everything for both: the planned transactions by uuid, and the intent to publish.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec

from omnigraph.errors import ManifestCorrupt, ResourceLimit
from omnigraph.graph.intent import Intent, PlannedPin, SidecarKind
from omnigraph.graph.rows import TableRef
from omnigraph.ids import Incarnation, TableId
from omnigraph.limits import MAX_SIDECAR_BYTES
from omnigraph.storage.objects import OBJECT_FORMAT, decode
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from omnigraph.graph.rows import PinRow
    from omnigraph.storage.objects import StorageAdapter

log = logging.getLogger(__name__)

FOLDER: Final = "__recovery"


class PlannedLink(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One transaction that the writer is about to commit."""

    uuid: str
    op: str
    read_version: int


class SidecarTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table that will move."""

    table_id: int
    incarnation: int
    table_key: str
    location: str
    branch: str | None
    expected_version: int
    links: tuple[PlannedLink, ...]
    row_count_after: int
    created: bool = False

    @property
    def ref(self) -> TableRef:
        """The table."""
        return TableRef(TableId(self.table_id), Incarnation(self.incarnation))


class SidecarLease(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The lease under which the write was armed."""

    scope: str
    epoch: int
    owner: str


class Sidecar(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A write between arming and publish."""

    format: int = OBJECT_FORMAT
    operation_id: str
    kind: SidecarKind
    graph_id: str
    branch_id: str
    lease: SidecarLease
    actor_id: str | None
    authored_at: int
    head: str
    schema_hash: str
    parent_rule: str
    tables: tuple[SidecarTable, ...]
    intent: Intent
    rollback_commit_id: str

    @property
    def path(self) -> str:
        """Where it lies."""
        return f"{FOLDER}/{self.operation_id}.json"

    def encode(self) -> bytes:
        """Canonical JSON."""
        return msgspec.json.encode(self, order="sorted")


class Sidecars:
    """The sidecars of one graph."""

    def __init__(self, objects: StorageAdapter) -> None:
        self._objects = objects

    def arm(self, sidecar: Sidecar) -> None:
        """Write a sidecar; it is durable when this returns.

        Raises:
            ResourceLimit: it is too large to be read as a whole; nothing was written.
        """
        data = sidecar.encode()
        if len(data) > MAX_SIDECAR_BYTES:
            raise ResourceLimit(
                f"one write describes itself in {len(data)} bytes, {MAX_SIDECAR_BYTES} are allowed;"
                " split it",
                resource="sidecar_bytes",
                limit=MAX_SIDECAR_BYTES,
                actual=len(data),
            )
        self._objects.create(sidecar.path, data, durable=True)

    def disarm(self, operation_id: str) -> None:
        """Remove a sidecar; one that is not there counts as removed."""
        self._objects.delete(f"{FOLDER}/{operation_id}.json")

    def is_armed(self, operation_id: str) -> bool:
        """Whether the sidecar is there."""
        return self._objects.head(f"{FOLDER}/{operation_id}.json") is not None

    def list(self) -> list[Sidecar]:
        """Every sidecar, oldest first.

        Raises:
            ManifestCorrupt: one cannot be read.
            StorageVersionTooNew: a later release wrote one.
        """
        found = (self._read(name) for name in self._names())
        return [sidecar for sidecar in found if sidecar is not None]

    def remove_torn(self) -> None:
        """Remove what is left of sidecars that a power cut tore."""
        for name in self._names():
            if self._read(name) is None:
                self._objects.delete(name)

    def _names(self) -> tuple[str, ...]:
        found = self._objects.list(FOLDER)
        return tuple(each.path for each in found if each.path.endswith(".json"))

    def _read(self, path: str) -> Sidecar | None:
        try:
            data = self._objects.get(path)
        except ObjectMissing:
            return None  # Settled between the listing and now.
        try:
            content = decode(data, path)
        except ValueError:
            # A power cut tore it. Its writer cannot have moved a table: that comes after the sync.
            log.warning("torn sidecar", extra={"path": path})
            return None
        try:
            return msgspec.convert(content, Sidecar)
        except msgspec.ValidationError as error:
            raise ManifestCorrupt(
                f"the sidecar {path} cannot be read ({error}); run `omnigraph repair`", path=path
            ) from error


def restored_pin(table: SidecarTable, version: int, pinned: PinRow) -> PlannedPin:
    """The pin that a roll-back publishes for a table: another version with the same content."""
    return PlannedPin(
        table_id=table.table_id,
        incarnation=table.incarnation,
        table_key=table.table_key,
        location=table.location,
        branch=table.branch,
        version=version,
        row_count=pinned.row_count,
        expected_branch=pinned.branch,
        expected_version=pinned.version,
    )
