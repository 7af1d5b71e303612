"""Sidecars: what a writer leaves before its first head moves, and removes after its publish.

Whoever finds one decides from facts on storage whether the write lands completely or not at all.
A sidecar holds everything for both: the planned transactions by uuid, and the intent to publish.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from omnigraph.errors import RecoveryBlocked, ResourceLimit, StorageVersionTooNew
from omnigraph.graph.manifest.intent import Intent, PlannedPin, SidecarKind
from omnigraph.graph.manifest.rows import TableRef
from omnigraph.ids import Incarnation, TableId
from omnigraph.limits import MAX_SIDECAR_BYTES
from omnigraph.storage.objects import OBJECT_FORMAT, parse, require_format
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.graph.manifest.rows import PinRow
    from omnigraph.storage.objects import ObjectInfo, StorageAdapter

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
        return f"{FOLDER}/{self.branch_id}/{self.operation_id}.json"

    def encode(self) -> bytes:
        """Canonical JSON."""
        return msgspec.json.encode(self, order="sorted")


class SidecarPath(NamedTuple):
    """Where a sidecar lies; operations sort by time, so the oldest comes first."""

    operation_id: str
    path: str
    branch_id: str | None
    """`None` for a path of an older release, which does not name the branch."""


class Sidecars:
    """The sidecars of one graph.

    Each lies in the folder of its branch, and only whoever writes to the branch reads it: one that
    cannot be read stops that branch alone. Older releases left theirs beside the folders. Those are
    seen by a listing of all, which every open for writing begins with; nobody adds to them.
    """

    def __init__(self, objects: StorageAdapter) -> None:
        self._objects = objects
        self._old: dict[str, SidecarPath] = {}

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

    def renew(self, sidecar: Sidecar) -> None:
        """Make a sidecar durable that was found: its writer may have died before it was.

        Raises:
            ObjectMissing: it is gone.
        """
        self._objects.renew(self._path(sidecar))

    def disarm(self, sidecar: Sidecar) -> None:
        """Remove a sidecar; one that is not there counts as removed."""
        self._objects.delete(self._path(sidecar))
        self._old.pop(sidecar.operation_id, None)

    def remove(self, place: SidecarPath) -> None:
        """Remove one that need not be read."""
        self._objects.delete(place.path)
        self._old.pop(place.operation_id, None)

    def of(self, branch_id: str) -> list[SidecarPath]:
        """Where the sidecars of a branch lie, oldest first; also those that cannot be read."""
        own = _paths(self._objects.list(f"{FOLDER}/{branch_id}"))
        old = [path for path in self._old.values() if self._branch_of(path) == branch_id]
        return sorted([*own, *old])

    def read(self, place: SidecarPath, branch_id: str) -> Sidecar | None:
        """A sidecar of a branch; `None` if it is gone, or torn by a power cut.

        Raises:
            RecoveryBlocked: it is there, and this release cannot read it.
            StorageVersionTooNew: a later release wrote it in another format.
        """
        content = self._content(place.path)
        if content is None:
            return None
        try:
            decoded = msgspec.convert(require_format(content, place.path), Sidecar)
            if decoded.branch_id != branch_id:
                raise msgspec.ValidationError(f"it is of the branch {decoded.branch_id}")
        except msgspec.ValidationError as error:
            raise RecoveryBlocked(
                f"operation {place.operation_id} cannot be recovered: this release cannot read its"
                f" sidecar {place.path} ({error}); reads and other branches go on. If a newer"
                " release wrote it, write to this branch with that one; else restore the graph from"
                " a copy",
                operation_id=place.operation_id,
                path=place.path,
                branch_id=branch_id,
            ) from error
        return decoded

    def branches(self) -> list[str]:
        """The branches that have sidecars, oldest sidecar first; lists all of them."""
        places = ((place, place.branch_id or self._branch_of(place)) for place in self._all())
        return list(dict.fromkeys(branch_id for _, branch_id in places if branch_id is not None))

    def list(self) -> list[Sidecar]:
        """Every sidecar that can be read, oldest first; lists and reads all of them."""
        sidecars = []
        for place in self._all():
            branch_id = place.branch_id or self._branch_of(place)
            try:
                sidecar = None if branch_id is None else self.read(place, branch_id)
            except (RecoveryBlocked, StorageVersionTooNew) as error:
                log.warning("unreadable sidecar", extra={"path": place.path, "why": error.message})
                continue
            if sidecar is not None:
                sidecars.append(sidecar)
        return sidecars

    def count(self) -> int:
        """How many there are; lists all of them and reads none."""
        return sum(1 for _ in _paths(self._objects.list(FOLDER)))

    def remove_torn(self) -> None:
        """Remove what is left of sidecars that a power cut tore."""
        for place in self._all():
            if self._content(place.path) is None:
                self.remove(place)

    def _all(self) -> tuple[SidecarPath, ...]:
        places = tuple(sorted(_paths(self._objects.list(FOLDER))))
        self._old = {place.operation_id: place for place in places if place.branch_id is None}
        return places

    def _path(self, sidecar: Sidecar) -> str:
        old = self._old.get(sidecar.operation_id)
        return sidecar.path if old is None else old.path

    def _branch_of(self, place: SidecarPath) -> str | None:
        """The branch that an old sidecar names, as far as it can be read."""
        content = self._content(place.path) or {}
        named = content.get("branch_id")
        return named if isinstance(named, str) else None

    def _content(self, path: str) -> dict[str, Any] | None:
        """What a sidecar holds; `None` if it is gone, or no sidecar at all."""
        try:
            data = self._objects.get(path)
        except ObjectMissing:
            return None  # Settled between the listing and now.
        try:
            return parse(data, path)
        except ValueError:
            # A power cut tore it. Its writer cannot have moved a table: that comes after the sync.
            log.warning("torn sidecar", extra={"path": path})
            return None


def _paths(infos: Iterable[ObjectInfo]) -> Iterator[SidecarPath]:
    """What among these objects is a sidecar, by its path alone."""
    for info in infos:
        folders, _, name = info.path.removeprefix(f"{FOLDER}/").rpartition("/")
        if name.endswith(".json") and "/" not in folders:
            yield SidecarPath(name.removesuffix(".json"), info.path, folders or None)


def restored_pin(table: SidecarTable, version: int, pinned: PinRow) -> PlannedPin:
    """The pin that a roll-back publishes for a table: another version with the same content."""
    return PlannedPin(
        table_id=table.table_id,
        incarnation=table.incarnation,
        table_key=pinned.table_key,
        location=table.location,
        branch=table.branch,
        version=version,
        row_count=pinned.row_count,
        expected_branch=pinned.branch,
        expected_version=pinned.version,
    )
