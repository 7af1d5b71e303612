"""`repair`: bring tables back to what the graph shows, or the graph to what a table shows.

It looks by default. Confirmed, it rolls back what settled operations left above a pin, and
publishes versions from outside that change no row. Anything else from outside is a decision of the
caller: `discard` restores what the graph shows, `adopt` publishes what the table shows, if it
breaks no rule. A write that recovery may not settle because of such a change is rolled back by
`discard`. Everything happens under the lease of the branch, by the means of recovery and publish.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from omnigraph.errors import (
    BranchBusy,
    InvalidArgument,
    OmnigraphError,
    RecoveryBlocked,
    StorageVersionTooNew,
)
from omnigraph.graph.jobs.stage_progress import StageProgress
from omnigraph.graph.maintenance.drift import Drift, DriftClass, find_drift
from omnigraph.graph.maintenance.stored_image import StoredImage
from omnigraph.graph.maintenance.table_work import silent
from omnigraph.graph.manifest.intent import Intent, PlannedPin, SidecarKind
from omnigraph.graph.manifest.table_refs import bare_layout, pin_of
from omnigraph.graph.recovery.leases import LeaseLost, branch_scope
from omnigraph.graph.recovery.sidecars import Sidecar, SidecarLease, SidecarTable
from omnigraph.ids import new_commit_id, new_operation_id
from omnigraph.lang.catalog import NodeType
from omnigraph.storage.signals import StorageSignal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.recovery.leases import Lease
    from omnigraph.ids import BranchId

ADOPT: Final = "adopt"
DISCARD: Final = "discard"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairedTable:
    """A table that is, or was, not at its pin."""

    branch: str
    table_key: str
    drift_class: str
    published_dataset_version: int
    lance_head_version: int
    action: str | None
    """`rolled_back`, `published`, `discarded`, `adopted`; `None` if nothing was done."""

    error: str | None = None
    """Why it was left."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        body = {name: getattr(self, name) for name in self.__slots__}
        return body | {"class": body.pop("drift_class")}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedWrite:
    """An interrupted write that recovery may not settle."""

    branch: str
    operation_id: str
    action: str | None
    error: str | None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """What one call found, and did."""

    confirmed: bool
    tables: tuple[RepairedTable, ...]
    blocked: tuple[BlockedWrite, ...]

    @property
    def is_clean(self) -> bool:
        """Nothing is left to be done."""
        done = [table.action for table in self.tables] + [write.action for write in self.blocked]
        return None not in done

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "confirmed": self.confirmed,
            "clean": self.is_clean,
            "tables": [table.to_dict() for table in self.tables],
            "blocked": [write.to_dict() for write in self.blocked],
        }


def repair(
    graph: GraphCoordinator,
    *,
    confirm: bool = False,
    force: str | None = None,
    actor_id: str | None = None,
    progress: Progress | None = None,
) -> RepairReport:
    """Look at the tables of every live branch and, confirmed, repair what may be.

    Raises:
        InvalidArgument: `force` is unknown, or given without `confirm`.
        BranchBusy: a branch is being written to all the time; nothing was done to it.
    """
    if force not in (None, ADOPT, DISCARD):
        raise InvalidArgument(f"force is {ADOPT!r} or {DISCARD!r}, not {force!r}", argument="force")
    if force is not None and not confirm:
        raise InvalidArgument("force changes the graph: give confirm, too", argument="confirm")
    tables: list[RepairedTable] = []
    blocked: list[BlockedWrite] = []
    tell = progress or silent
    branches = graph.lines.live_branch_ids()
    for number, (branch_id, name) in enumerate(branches.items()):
        tell(StageProgress(stage="branches", done=number, total=len(branches)))
        work = _Repairing(graph, branch_id, name, force, actor_id)
        if not confirm:
            blocked += work.look_at_writes()
            tables += work.look_at_tables()
            continue
        with graph.leases.holding(branch_scope(branch_id)) as lease:
            try:
                blocked += work.settle_writes(lease)
                tables += work.repair_tables(lease)
            except LeaseLost as lost:
                raise BranchBusy(
                    f"the lease of {name!r} was lost to another process; run this again",
                    scope=branch_scope(branch_id),
                ) from lost
    return RepairReport(confirmed=confirm, tables=tuple(tables), blocked=tuple(blocked))


class _Repairing:
    """The repair of one branch."""

    def __init__(
        self,
        graph: GraphCoordinator,
        branch_id: BranchId,
        branch: str,
        force: str | None,
        actor_id: str | None,
    ) -> None:
        self._graph = graph
        self._branch_id = branch_id
        self._branch = branch
        self._force = force
        self._actor_id = actor_id

    def look_at_writes(self) -> list[BlockedWrite]:
        """The interrupted writes of the branch that the next write could not settle."""
        found = []
        for path in self._graph.sidecars.of(self._branch_id):
            try:
                sidecar = self._graph.sidecars.read(path, self._branch_id)
                blocked = None if sidecar is None else self._graph.recovery.why_blocked(sidecar)
            except (RecoveryBlocked, StorageVersionTooNew) as error:
                found.append(self._blocked(path.operation_id, error.message))
            else:
                if blocked is not None:
                    found.append(self._blocked(path.operation_id, blocked.message))
        return found

    def look_at_tables(self) -> list[RepairedTable]:
        """What is not at its pin; nothing is done."""
        return [self._told(drift, None) for drift in self._drift()]

    def settle_writes(self, lease: Lease) -> list[BlockedWrite]:
        """Settle every interrupted write; one that something outside blocks only if forced."""
        graph = self._graph
        found = []
        for path in graph.sidecars.of(self._branch_id):
            try:
                sidecar = graph.sidecars.read(path, self._branch_id)
                if sidecar is None:
                    continue
                is_forced = self._settle(sidecar, lease)
            except (RecoveryBlocked, StorageVersionTooNew) as error:
                found.append(self._blocked(path.operation_id, error.message))
            else:
                if is_forced:
                    found.append(self._blocked(sidecar.operation_id, None))
        return found

    def _settle(self, sidecar: Sidecar, lease: Lease) -> bool:
        """Settle a write; whether what something else wrote had to be discarded for that."""
        try:
            self._graph.recovery.settle(sidecar, lease)
        except RecoveryBlocked:
            if self._force != DISCARD:
                raise
            self._graph.recovery.settle(sidecar, lease, may_discard=True)
            return True
        return False

    def _blocked(self, operation_id: str, error: str | None) -> BlockedWrite:
        return BlockedWrite(
            branch=self._branch,
            operation_id=operation_id,
            action=None if error is not None else "discarded",
            error=error,
        )

    def repair_tables(self, lease: Lease) -> list[RepairedTable]:
        """Repair what may be, one table after the other."""
        return [self._repaired(drift, lease) for drift in list(self._drift())]

    def _drift(self) -> Iterator[Drift]:
        return find_drift(self._graph, self._graph.lines.read(self._branch_id))

    def _repaired(self, drift: Drift, lease: Lease) -> RepairedTable:
        try:
            return self._told(drift, self._act(drift, lease))
        except LeaseLost:
            raise
        except (OmnigraphError, StorageSignal) as error:
            return self._told(drift, None, str(error))

    def _act(self, drift: Drift, lease: Lease) -> str | None:
        """What was done about a table; `None` if the caller has to decide."""
        match drift.drift_class:
            case DriftClass.RESIDUE:
                self._roll_back(drift, lease)
                return "rolled_back"
            case DriftClass.MAINTENANCE:
                self._publish(drift, lease)
                return "published"
            case DriftClass.FOREIGN if self._force == DISCARD:
                self._roll_back(drift, lease)
                return "discarded"
            case DriftClass.FOREIGN if self._force == ADOPT:
                self._require_sound(drift)
                self._publish(drift, lease)
                return "adopted"
            case _:
                return None

    def _told(self, drift: Drift, action: str | None, error: str | None = None) -> RepairedTable:
        if action is None and error is None:
            error = _REMEDY[drift.drift_class]
        return RepairedTable(
            branch=self._branch,
            table_key=drift.pinned.table_key,
            drift_class=drift.drift_class.value,
            published_dataset_version=drift.pinned.version,
            lance_head_version=drift.head,
            action=action,
            error=error,
        )

    def _roll_back(self, drift: Drift, lease: Lease) -> None:
        """Restore the pin, as recovery does for a write that left versions above it."""
        line = self._graph.lines.read(self._branch_id)
        sidecar = self._sidecar(self._intent(line), pinned_table(drift), line, lease)
        self._graph.sidecars.arm(sidecar)
        lease.check()
        may_discard = drift.drift_class is DriftClass.FOREIGN
        self._graph.recovery.settle(sidecar, lease, may_discard=may_discard)

    def _publish(self, drift: Drift, lease: Lease) -> None:
        """Pin the newest version; one publish is all, so it needs no sidecar."""
        pinned = drift.pinned
        layout = bare_layout(pinned.ref, pinned.table_key, pinned.location)
        head = self._graph.tables.open(layout, replace(pin_of(pinned), version=drift.head))
        uuids = [trace.uuid or "" for trace in drift.traces]
        self._graph.tables.sync_links(layout, pinned.branch, pinned.version, uuids)
        line = self._graph.lines.read(self._branch_id)
        intent = self._intent(
            line,
            PlannedPin(
                table_id=pinned.ref.table_id,
                incarnation=pinned.ref.incarnation,
                table_key=pinned.table_key,
                location=pinned.location,
                branch=pinned.branch,
                version=drift.head,
                row_count=self._graph.tables.count(head),
                expected_branch=pinned.branch,
                expected_version=pinned.version,
            ),
        )
        lease.check()
        self._graph.publisher.publish(self._branch_id, intent)

    def _require_sound(self, drift: Drift) -> None:
        """Refuse a version that breaks a rule of the schema, alone or with its edges.

        Raises:
            InvalidArgument: with the first violation.
        """
        graph = self._graph
        line = graph.lines.read(self._branch_id)
        tables = graph.schemas.tables(line.schema.schema_hash)
        handles = {
            ref: graph.tables.open(tables.layouts[ref], pin_of(pin))
            for ref, pin in line.pins.items()
        }
        handles[drift.ref] = graph.tables.open(
            tables.layouts[drift.ref], replace(pin_of(drift.pinned), version=drift.head)
        )
        image = StoredImage(catalog=tables.catalog, store=graph.tables, handles=handles)
        item = tables.types[drift.ref]
        broken = list(image.broken_rules(item))
        broken += image.unfit_values(item, graph.tables.scan(handles[drift.ref]))
        if isinstance(item, NodeType):
            for edge in tables.catalog.edge_types.values():
                broken += image.broken_ends(edge, at=item)
        if broken:
            first = broken[0]
            raise InvalidArgument(
                f"version {drift.head} of {drift.pinned.table_key} is not adopted: {first.message}"
                f" ({first.count:,} of rule {first.rule!r}); correct it, or discard it",
                table=drift.pinned.table_key,
                rule=first.rule,
            )

    def _intent(self, line: ManifestLine, *pins: PlannedPin) -> Intent:
        graph = self._graph
        return Intent(
            operation_id=new_operation_id(graph.ids),
            commit_id=new_commit_id(graph.ids),
            kind=SidecarKind.REPAIR.commit_kind,
            authored_at=graph.clock.now_us(),
            authored_branch=self._branch,
            actor_id=self._actor_id,
            schema_from=line.schema.schema_hash,
            pins=pins,
        )

    def _sidecar(
        self, intent: Intent, table: SidecarTable, line: ManifestLine, lease: Lease
    ) -> Sidecar:
        graph = self._graph
        return Sidecar(
            operation_id=intent.operation_id,
            kind=SidecarKind.REPAIR,
            graph_id=graph.graph_id,
            branch_id=self._branch_id,
            lease=SidecarLease(scope=lease.scope, epoch=lease.epoch, owner=graph.leases.owner),
            actor_id=self._actor_id,
            authored_at=intent.authored_at,
            head=line.head.commit_id,
            schema_hash=line.schema.schema_hash,
            parent_rule=intent.parent_rule,
            tables=(table,),
            intent=intent,
            rollback_commit_id=new_commit_id(graph.ids),
        )


def pinned_table(drift: Drift) -> SidecarTable:
    """A table above whose pin there are versions; none is planned, all go."""
    pinned = drift.pinned
    return SidecarTable(
        table_id=pinned.ref.table_id,
        incarnation=pinned.ref.incarnation,
        table_key=pinned.table_key,
        location=pinned.location,
        branch=pinned.branch,
        expected_version=pinned.version,
        links=(),
        row_count_after=pinned.row_count,
    )


_REMEDY: Final = {
    DriftClass.RESIDUE: "--confirm rolls it back",
    DriftClass.MAINTENANCE: "--confirm publishes it",
    DriftClass.FOREIGN: "something outside wrote rows: --confirm --force with --discard restores"
    " what the graph shows, with --adopt publishes it if it breaks no rule",
    DriftClass.LOST: "versions that the graph shows are gone: restore the graph from a copy",
}
