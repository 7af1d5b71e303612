"""Keeps the lines of the manifest short, after writes that have been acknowledged.

Every publish adds a fragment and a version. Fragments are joined in tiers: sixteen small ones make
one of the next tier, sixteen of those one of the tier above, so a row is written a handful of times
however long the history gets. Old versions are removed when nobody can hold them any more: the
newest stay, and all of the last hour, and those that a branch starts from. Nothing here changes a
row, and what others do meanwhile wins.
"""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, Final

from omnigraph.errors import BranchBusy, OmnigraphError
from omnigraph.graph.lifecycle.background import start_quietly
from omnigraph.graph.recovery.leases import MAINTENANCE_SCOPE
from omnigraph.storage.signals import StorageSignal

if TYPE_CHECKING:
    from collections.abc import Collection

    from omnigraph.clock import Clock
    from omnigraph.graph.manifest.manifest_coordinator import ManifestCoordinator
    from omnigraph.graph.recovery.leases import Leases
    from omnigraph.ids import BranchId
    from omnigraph.storage.manifest import ManifestStorage

log = logging.getLogger(__name__)

WIDTH: Final = 16
WIDTH_ON_OBJECT_STORES: Final = 12
"""Lower, because each fragment costs a request when a line is first read."""

TIERS: Final = (64, 1_024, 16_384, 262_144)
"""The rows below which a fragment belongs to a tier, the smallest first."""

VERSIONS_KEPT: Final = 20
YOUNGEST_REMOVED_US: Final = 60 * 60 * 1_000_000
FEWEST_REMOVED: Final = 256
LOOK_EVERY_US: Final = 10 * 60 * 1_000_000


def rows_to_join(sizes: Collection[int], width: int) -> int | None:
    """The size below which fragments are to be joined, or `None` if no tier is full."""
    for lower, upper in reversed(list(itertools.pairwise((0, *TIERS)))):
        if sum(lower <= size < upper for size in sizes) >= width:
            return upper
    return None


class LineUpkeep:
    """Joins fragments and removes old versions of the lines of one open graph."""

    def __init__(
        self,
        storage: ManifestStorage,
        lines: ManifestCoordinator,
        leases: Leases,
        clock: Clock,
        *,
        width: int = WIDTH,
    ) -> None:
        self._storage = storage
        self._lines = lines
        self._leases = leases
        self._clock = clock
        self._width = width
        self._looked_us: dict[BranchId, int] = {}
        self._closed = False

    def after_publish(self, branch_id: BranchId) -> None:
        """Join fragments if a tier is full. The write has landed: failures are only logged."""
        try:
            handle = self._lines.read(branch_id).handle
            rows_below = rows_to_join(handle.pieces.values(), self._width)
            if rows_below is None:
                return
            self._storage.compact(handle, rows_below=rows_below)
        except (OmnigraphError, StorageSignal) as error:
            log.info("line not compacted", extra={"branch_id": branch_id, "cause": str(error)})
            return
        if rows_below > TIERS[0] and self._is_time_to_look(branch_id):
            # Lance reads every version there is, which may take seconds: nobody waits for it.
            start_quietly(lambda: self._clean_quietly(branch_id), "manifest-clean")

    def join_all(self, branch_id: BranchId) -> int:
        """Join every fragment of a line that can be; how many fewer there are.

        What others publish meanwhile wins: then nothing was done, and a later call does it.
        """
        before = self._lines.read(branch_id).handle
        try:
            self._storage.compact(before)
        except (OmnigraphError, StorageSignal) as error:
            log.info("line not compacted", extra={"branch_id": branch_id, "cause": str(error)})
            return 0
        return max(0, before.fragments - self._lines.read(branch_id).handle.fragments)

    def clean(self, branch_id: BranchId) -> int:
        """Remove versions of a line that nobody can hold any more; how many were due.

        Nothing is done for a few: Lance reads all that stay, so at least as many have to go.

        Raises:
            BranchBusy: another process is at it.
        """
        with self._leases.holding(MAINTENANCE_SCOPE, wait_ms=0):
            versions, due = self._due(branch_id)
            if len(due) < max(FEWEST_REMOVED, versions - len(due)):
                return 0
            return self.remove(branch_id, due)

    def due(self, branch_id: BranchId) -> list[int]:
        """The versions of a line that nobody can hold any more."""
        return self._due(branch_id)[1]

    def remove(self, branch_id: BranchId, due: list[int]) -> int:
        """Remove versions of a line; whoever calls this holds the lease `maintenance`."""
        self._storage.clean(self._lines.read(branch_id).handle, due)
        return len(due)

    def _due(self, branch_id: BranchId) -> tuple[int, list[int]]:
        handle = self._lines.read(branch_id).handle
        before_us = self._clock.now_us() - YOUNGEST_REMOVED_US
        versions, old = self._storage.versions(handle, before_us)
        last = handle.version - VERSIONS_KEPT
        return versions, [version for version in old if version <= last]

    def close(self) -> None:
        """Begin nothing any more; safe twice."""
        self._closed = True

    def _is_time_to_look(self, branch_id: BranchId) -> bool:
        now_us = self._clock.monotonic_us()
        looked_us = self._looked_us.get(branch_id)
        if self._closed or (looked_us is not None and now_us - looked_us < LOOK_EVERY_US):
            return False
        self._looked_us[branch_id] = now_us
        return True

    def _clean_quietly(self, branch_id: BranchId) -> None:
        try:
            removed = self.clean(branch_id)
        except BranchBusy:
            return
        except (OmnigraphError, StorageSignal) as error:
            log.info("versions not removed", extra={"branch_id": branch_id, "cause": str(error)})
            return
        log.info("versions removed", extra={"branch_id": branch_id, "versions": removed})
