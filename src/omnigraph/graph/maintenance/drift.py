"""Tables whose newest version is not the one that the graph shows, and why.

| class | what made the versions above the pin |
|---|---|
| `residue` | operations of this graph that are settled: late writers, restores of a recovery |
| `maintenance` | rewrites, reservations and indexes from outside, which change no row |
| `foreign` | anything else, or what cannot be read |
| `lost` | the newest version is below the pin: something removed versions |

A table that a write in progress names is no drift, and neither is one that others wrote to while
this looked: whoever moves a table has a sidecar until the publish is visible.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from omnigraph.errors import RecoveryBlocked, StorageVersionTooNew
from omnigraph.graph.manifest.table_refs import bare_layout, pin_of
from omnigraph.graph.recovery.classify import foreign_versions
from omnigraph.storage.handles import lance_branch
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.rows import PinRow, TableRef
    from omnigraph.ids import BranchId
    from omnigraph.storage.handles import VersionTrace

_HARMLESS: Final = frozenset({"Rewrite", "CreateIndex", "BaseOperation"})
"""Lance's words; the last is all that it tells of a reservation of numbers."""


class DriftClass(StrEnum):
    """What made the versions above a pin."""

    RESIDUE = "residue"
    MAINTENANCE = "maintenance"
    FOREIGN = "foreign"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A table whose newest version is not its pin."""

    pinned: PinRow
    head: int
    traces: Sequence[VersionTrace]
    drift_class: DriftClass

    @property
    def ref(self) -> TableRef:
        """The table."""
        return self.pinned.ref


def find_drift(graph: GraphCoordinator, line: ManifestLine) -> Iterator[Drift]:
    """The tables of a branch's own lines that are not at their pins, by name.

    Raises:
        BranchNotFound: the branch was deleted meanwhile.
    """
    elsewhere = {
        pinned.ref: head
        for pinned, head in _heads(graph, line)
        if head != pinned.version  # Most often none is.
    }
    if not elsewhere:
        return
    # In this order: a writer that is not armed any more has published what the heads showed.
    armed = _armed_tables(graph, line.branch_id)
    now = graph.lines.read(line.branch_id)
    for ref, head in elsewhere.items():
        pinned = now.pins.get(ref)
        if ref in armed or pinned is None or line.pins[ref].version < head <= pinned.version:
            continue
        layout = bare_layout(pinned.ref, pinned.table_key, pinned.location)
        traces = (
            graph.tables.traces(layout, pinned.branch, above=pinned.version, upto=head)
            if head > pinned.version
            else []
        )
        yield Drift(
            pinned=pinned,
            head=head,
            traces=traces,
            drift_class=_class_of(graph, now, pinned, head, traces),
        )


def _heads(graph: GraphCoordinator, line: ManifestLine) -> Iterator[tuple[PinRow, int]]:
    """The newest version of each table of the branch's own; 0 if it is gone."""
    own = lance_branch(line.branch_id)
    for pinned in sorted(line.pins.values(), key=lambda pin: pin.table_key):
        if pinned.branch != own:
            continue
        layout = bare_layout(pinned.ref, pinned.table_key, pinned.location)
        try:
            yield pinned, graph.tables.head_version(layout, pinned.branch)
        except ObjectMissing:
            yield pinned, 0


def _armed_tables(graph: GraphCoordinator, branch_id: BranchId) -> set[TableRef]:
    """The tables that sidecars name; one that cannot be read is told by whoever looks at writes."""
    armed: set[TableRef] = set()
    for path in graph.sidecars.of(branch_id):
        try:
            sidecar = graph.sidecars.read(path, branch_id)
        except (RecoveryBlocked, StorageVersionTooNew):
            continue
        armed |= {table.ref for table in sidecar.tables} if sidecar is not None else set()
    return armed


def _class_of(
    graph: GraphCoordinator,
    line: ManifestLine,
    pinned: PinRow,
    head: int,
    traces: Sequence[VersionTrace],
) -> DriftClass:
    if head < pinned.version:
        return DriftClass.LOST
    settled = line.settled({trace.operation_id for trace in traces if trace.operation_id})
    if not foreign_versions(traces, settled):
        return DriftClass.RESIDUE
    is_harmless = all(trace.operation in _HARMLESS for trace in traces)
    if is_harmless and _has_same_rows(graph, line, pinned, head):
        return DriftClass.MAINTENANCE
    return DriftClass.FOREIGN


def _has_same_rows(graph: GraphCoordinator, line: ManifestLine, pinned: PinRow, head: int) -> bool:
    layout = graph.schemas.tables(line.schema.schema_hash).layouts[pinned.ref]
    before = graph.tables.open(layout, pin_of(pinned))
    newest = graph.tables.open(layout, replace(pin_of(pinned), version=head))
    changed = graph.tables.changed_since(newest, before)
    is_same = not len(changed.changed) and not len(changed.removed)
    return is_same and graph.tables.count(newest) == pinned.row_count
