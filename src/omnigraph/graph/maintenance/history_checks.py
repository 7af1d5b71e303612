"""Whether older commits can still be read: their versions, and the files that those name.

What cleanup removed is no fault. It leaves what tags name and where branches begin, and on a disk a
mark that tells up to which version a line was cleaned; nothing else removes versions of a table
that has a type. In an object store there is no mark, so what is gone there may have been cleaned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from omnigraph.errors import BranchNotFound, OmnigraphError
from omnigraph.graph.maintenance.cleanup_facts import gather_facts
from omnigraph.graph.manifest.rows import RowKind, decode_pin
from omnigraph.graph.manifest.table_refs import bare_layout, pin_of
from omnigraph.storage.signals import StorageSignal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.maintenance.cleanup_facts import CleanupFacts, Place
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.rows import PinRow
    from omnigraph.ids import BranchId
    from omnigraph.storage.handles import Pin

_FAILURES = (OmnigraphError, StorageSignal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something of an older commit that is wrong."""

    table_key: str | None
    check: str
    message: str


Found: TypeAlias = Fault | str
"""A fault, or a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Missing:
    """A version that is gone, or files of one."""

    place: Place
    version: int
    fault: Fault


class HistoryChecks:
    """The look at older commits of all branches; what one has looked at the others leave out."""

    def __init__(self, graph: GraphCoordinator, seen: set[Pin]) -> None:
        self._graph = graph
        self._seen = seen
        self._places: set[Place] = set()

    def look_at(self, line: ManifestLine) -> Iterator[Found]:
        """What is wrong with the older commits of a line, and what is worth knowing."""
        rows = line.rows.to_pylist()
        pins = [decode_pin(row) for row in rows if row["object_type"] == RowKind.TABLE_VERSION]
        gone = []
        for pin in pins:
            if pin_of(pin) in self._seen:
                continue
            self._seen.add(pin_of(pin))
            if self._graph.storage.has_version(pin_of(pin)):
                yield from self._look_at(pin)
            else:
                gone.append(_missing_version(pin))
        torn: list[_Missing] = []
        for pin in pins:
            if (pin.location, pin.branch) not in self._places:
                self._places.add((pin.location, pin.branch))
                yield from self._look_at_files(pin, torn)
        if gone or torn:
            yield from self._judged(line.branch_id, gone, torn)

    def _look_at(self, pin: PinRow) -> Iterator[Fault]:
        key = pin.table_key
        layout = bare_layout(pin.ref, key, pin.location)
        try:
            count = self._graph.tables.count(self._graph.tables.open(layout, pin_of(pin)))
        except _FAILURES as error:
            if self._graph.storage.has_version(pin_of(pin)):  # Else it is cleaned up right now.
                message = f"version {pin.version}: {error}"
                yield Fault(table_key=key, check="version", message=message)
            return
        if count != pin.row_count:
            message = f"version {pin.version} has {count:,} rows, not {pin.row_count:,}"
            yield Fault(table_key=key, check="row_count", message=message)

    def _look_at_files(self, pin: PinRow, torn: list[_Missing]) -> Iterator[str]:
        """What lies on a line that no version names; `torn` gets the versions that lost files."""
        try:
            files = self._graph.storage.old_versions.files(pin.location, pin.branch)
        except _FAILURES as error:
            yield f"files of {pin.location} cannot be compared ({error})"
            return
        if files.strays:
            size = f"{files.stray_bytes:,} bytes"
            yield f"{files.strays} files of {pin.location} belong to no version ({size})"
        torn += [_torn_version(pin, version, lost) for version, lost in files.lost.items()]

    def _judged(
        self, branch_id: BranchId, gone: list[_Missing], torn: list[_Missing]
    ) -> Iterator[Found]:
        """What is missing as faults, or in a note where cleanup may have removed it."""
        try:
            facts = gather_facts(self._graph)
        except BranchNotFound:
            return  # It was deleted meanwhile, and whatever it kept may go.
        except _FAILURES as error:
            yield Fault(table_key=None, check="manifest", message=str(error))
            return
        for missing, note in (
            (gone, "versions of older commits were cleaned up"),
            (torn, "versions have lost files, as a cleanup that was cut off leaves them"),
        ):
            needed = [each for each in missing if self._is_needed(facts, branch_id, each)]
            yield from (each.fault for each in needed)
            if len(needed) < len(missing):
                yield f"{len(missing) - len(needed)} {note}"

    def _is_needed(self, facts: CleanupFacts, branch_id: BranchId, missing: _Missing) -> bool:
        floors = (facts.heads, facts.forks, facts.tagged)
        if any(missing.version in floor.get(missing.place, ()) for floor in floors):
            return True
        line = facts.lines.get(branch_id)
        located = set() if line is None else {pin.location for pin in line.pins.values()}
        upto = self._graph.storage.old_versions.cleaned_upto(*missing.place)
        return missing.place[0] in located and upto is not None and missing.version > upto


def _missing_version(pin: PinRow) -> _Missing:
    message = f"version {pin.version}, which commit {pin.seq} shows, is gone; restore it"
    fault = Fault(table_key=pin.table_key, check="version", message=message)
    return _Missing(place=(pin.location, pin.branch), version=pin.version, fault=fault)


def _torn_version(pin: PinRow, version: int, lost: tuple[str, ...]) -> _Missing:
    message = f"version {version} has lost {len(lost):,} files, as {lost[0]}; restore them"
    fault = Fault(table_key=pin.table_key, check="files", message=message)
    return _Missing(place=(pin.location, pin.branch), version=version, fault=fault)
