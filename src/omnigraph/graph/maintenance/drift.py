"""Tables whose newest version is not the one that the graph shows, and why.

| class | what made the versions above the pin |
|---|---|
| `residue` | operations of this graph that are settled: late writers, restores of a recovery |
| `maintenance` | rewrites, reservations and indexes from outside, which change no row |
| `foreign` | anything else, or what cannot be read |
| `lost` | the newest version is below the pin: something removed versions |

A table that a write in progress names is no drift.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from omnigraph.graph.manifest.table_refs import bare_layout, pin_of
from omnigraph.graph.recovery.classify import foreign_versions
from omnigraph.storage.handles import lance_branch
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.rows import PinRow, TableRef
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


def find_drift(
    graph: GraphCoordinator, line: ManifestLine, armed: Collection[TableRef] = ()
) -> Iterator[Drift]:
    """The tables of a branch's own lines that are not at their pins, by name."""
    own = lance_branch(line.branch_id)
    for pinned in sorted(line.pins.values(), key=lambda pin: pin.table_key):
        if pinned.branch != own or pinned.ref in armed:
            continue
        layout = bare_layout(pinned.ref, pinned.table_key, pinned.location)
        try:
            head = graph.tables.head_version(layout, pinned.branch)
        except ObjectMissing:
            head = 0
        if head == pinned.version:
            continue
        traces = (
            graph.tables.traces(layout, pinned.branch, above=pinned.version, upto=head)
            if head > pinned.version
            else []
        )
        yield Drift(
            pinned=pinned,
            head=head,
            traces=traces,
            drift_class=_class_of(graph, line, pinned, head, traces),
        )


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
