"""What a write is about to do, as its sidecar and its publish say it: pure functions of values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.graph.manifest.intent import Intent, PlannedPin
from omnigraph.graph.manifest.rows import TableRef
from omnigraph.graph.recovery.sidecars import PlannedLink, SidecarTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.graph.commit.txn import PreparedWrite, WriteTxn
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.storage.handles import StagedWrite


def ref_of_staged(staged: StagedWrite) -> TableRef:
    """The table of a staged write."""
    return TableRef(staged.base.layout.table_id, staged.base.layout.incarnation)


def plan_intent(
    txn: WriteTxn, prepared: PreparedWrite, moving: Sequence[StagedWrite], line: ManifestLine
) -> Intent:
    """The commit that the moving tables make on this version of the line."""
    request, merged = txn.request, prepared.merged
    return Intent(
        operation_id=txn.operation_id,
        commit_id=txn.commit_id,
        kind=request.kind.commit_kind,
        authored_at=txn.authored_at,
        authored_branch=request.branch,
        actor_id=request.actor_id,
        merged_parent=merged.parent.commit_id if merged else None,
        merged_height=merged.parent.height if merged else 0,
        history=merged.commits if merged else (),
        schema_from=line.schema.schema_hash,
        schema_to=prepared.schema_to,
        if_commit=request.if_commit,
        parent_rule=request.parent_rule,
        expected_head=line.head.commit_id,
        pins=(*prepared.pins, *(_planned_pin(staged, line) for staged in moving)),
        registrations=prepared.registrations,
        tombstones=prepared.tombstones,
        read_set={
            str(ref): line.pins[ref].version
            for ref in sorted(txn.read_set.tables)
            if ref in line.pins
        },
        idempotency_key=request.idempotency_key,
        request_digest=request.request_digest,
        stats=prepared.stats | {"tables": _rows_by_table(moving)},
    )


def planned_tables(
    prepared: PreparedWrite, moving: Sequence[StagedWrite]
) -> tuple[SidecarTable, ...]:
    """The tables that a write makes or moves, as its sidecar lists them."""
    created = (created_table(pin) for pin in prepared.pins if pin.expected_version is None)
    return (*created, *(planned_table(staged) for staged in moving))


def planned_table(staged: StagedWrite) -> SidecarTable:
    """A table that will move, with its transactions in order."""
    version = staged.base.pin.version
    links = tuple(
        PlannedLink(uuid=link.uuid, op=link.operation, read_version=version + position)
        for position, link in enumerate(staged.links)
    )
    return _sidecar_table(staged, links, staged.rows_after)


def created_table(pin: PlannedPin) -> SidecarTable:
    """A table that the write made and registers; its first version is all it has."""
    return SidecarTable(
        table_id=pin.table_id,
        incarnation=pin.incarnation,
        table_key=pin.table_key,
        location=pin.location,
        branch=pin.branch,
        expected_version=pin.version,
        links=(),
        row_count_after=pin.row_count,
        created=True,
    )


def residue_table(staged: StagedWrite, line: ManifestLine) -> SidecarTable:
    """A table above whose pin a late writer left versions; none is planned, all go."""
    return _sidecar_table(staged, (), line.pins[ref_of_staged(staged)].row_count)


def _sidecar_table(
    staged: StagedWrite, links: tuple[PlannedLink, ...], row_count_after: int
) -> SidecarTable:
    layout, base = staged.base.layout, staged.base.pin
    return SidecarTable(
        table_id=layout.table_id,
        incarnation=layout.incarnation,
        table_key=layout.table_key,
        location=layout.location,
        branch=base.branch,
        expected_version=base.version,
        links=links,
        row_count_after=row_count_after,
    )


def _planned_pin(staged: StagedWrite, line: ManifestLine) -> PlannedPin:
    layout, base = staged.base.layout, staged.base.pin
    pinned = line.pins[ref_of_staged(staged)]
    return PlannedPin(
        table_id=layout.table_id,
        incarnation=layout.incarnation,
        table_key=layout.table_key,
        location=layout.location,
        branch=base.branch,
        version=base.version + len(staged.links),
        row_count=staged.rows_after,
        transaction=staged.links[-1].uuid,
        expected_branch=pinned.branch,
        expected_version=pinned.version,
    )


def _rows_by_table(moving: Sequence[StagedWrite]) -> dict[str, dict[str, int]]:
    return {
        staged.base.layout.table_key: {
            "added": staged.rows_added,
            "changed": staged.rows_changed,
            "removed": staged.rows_removed,
        }
        for staged in moving
    }
