"""`cleanup`: remove versions and files that no live commit, job or recovery needs.

It holds the lease `maintenance` from beginning to end, so that two never run at once and no tag
names an old commit meanwhile. What may go is told by number, from facts that were all read before
the first removal; what running jobs and armed writes need is read once more before each table.
Killed at any point it has removed a part of what may go, and the next call removes the rest.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import BranchBusy, DriftNeedsRepair, OmnigraphError
from omnigraph.failpoints import maybe_fail
from omnigraph.graph.history.named_rows import holding
from omnigraph.graph.maintenance.cleanup_facts import gather_facts, needed_now
from omnigraph.graph.maintenance.cleanup_report import CleanupReport, Leftover, TableCleanup
from omnigraph.graph.maintenance.kept_versions import LineFacts, removable_versions
from omnigraph.graph.maintenance.leftovers import due_leftovers
from omnigraph.graph.maintenance.table_work import for_each, silent
from omnigraph.graph.manifest.table_refs import bare_layout
from omnigraph.graph.recovery.leases import MAINTENANCE_SCOPE, LeaseLost, branch_scope
from omnigraph.ids import BranchId
from omnigraph.storage.signals import StorageSignal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.maintenance.cleanup_facts import CleanupFacts, Named, Place
    from omnigraph.graph.maintenance.kept_versions import CleanupPolicy
    from omnigraph.graph.manifest.rows import TableRef, TableRow
    from omnigraph.storage.handles import TableLayout

log = logging.getLogger(__name__)

_HEAL_WAIT_MS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A line of a table, and what of it may go."""

    layout: TableLayout
    branch: str | None
    removed: list[int]


def cleanup(
    graph: GraphCoordinator,
    policy: CleanupPolicy,
    *,
    confirm: bool = False,
    progress: Progress | None = None,
) -> CleanupReport:
    """Remove what the policy lets go and no floor keeps; without `confirm`, tell what that is.

    Raises:
        BranchBusy: another cleanup runs, or its lease was lost.
        RecoveryBlocked: an interrupted write of a branch cannot be settled; nothing was removed.
        ManifestCorrupt, StorageUnavailable: a live line cannot be read; nothing was removed.
    """
    work = _Cleaning(graph, policy, progress or silent)
    if not confirm:
        return work.run(lambda: None, confirm=False)
    with holding(graph, MAINTENANCE_SCOPE) as (lease,):
        return work.run(lease.check, confirm=True)


class _Cleaning:
    """One call."""

    def __init__(self, graph: GraphCoordinator, policy: CleanupPolicy, progress: Progress) -> None:
        self._graph = graph
        self._policy = policy
        self._progress = progress

    def run(self, check: Callable[[], None], *, confirm: bool) -> CleanupReport:
        """Read every fact, then remove, or tell what would be."""
        if confirm:
            self._heal()
        facts = gather_facts(self._graph, commits=self._policy.commits)
        needed_now(self._graph)  # Whatever cannot be read must say so before anything goes.
        maybe_fail("cleanup.post_floor_pre_gc")
        refs = sorted(
            {ref for line in facts.lines.values() for ref in line.pins},
            key=lambda ref: facts.tables[ref].table_key,
        )

        def clean(ref: TableRef) -> TableCleanup:
            return self._clean(facts, ref, check, confirm=confirm)

        done = for_each(self._graph, "tables", refs, clean, self._progress)
        older = self._policy.older_than_us
        return CleanupReport(
            confirmed=confirm,
            keep=self._policy.keep,
            older_than_s=None if older is None else older / 1_000_000,
            tables=tuple(done[ref] for ref in refs),
            leftovers=tuple(self._leftovers(facts, check, confirm=confirm)),
            warnings=self._policy.warnings,
        )

    def _heal(self) -> None:
        """Settle what dead writers left; a live one's sidecar keeps what it names."""
        graph = self._graph
        for branch_id in graph.sidecars.branches():
            scope = branch_scope(BranchId(branch_id))
            try:
                with graph.leases.holding(scope, wait_ms=_HEAL_WAIT_MS) as lease:
                    graph.recovery.heal(BranchId(branch_id), lease)
            except (BranchBusy, LeaseLost) as busy:
                log.info(
                    "recovery left to others", extra={"branch_id": branch_id, "why": str(busy)}
                )

    def _clean(
        self, facts: CleanupFacts, ref: TableRef, check: Callable[[], None], *, confirm: bool
    ) -> TableCleanup:
        table = facts.tables[ref]
        versions = size = 0
        error = None
        try:
            needed = needed_now(self._graph)
            for place in sorted(facts.heads, key=str):
                if place[0] != table.location:
                    continue
                line = self._due(facts, needed, table, place)
                if line.removed and self._is_moved(line, max(facts.heads[place])):
                    continue
                old = self._graph.storage.old_versions
                act = old.remove if confirm else old.removal
                check()
                gone = act(line.layout, line.branch, line.removed)
                versions, size = versions + gone.versions, size + gone.bytes
        except LeaseLost:
            raise
        except (OmnigraphError, StorageSignal) as failed:
            error = str(failed)
            log.warning("not cleaned", extra={"table": table.table_key, "why": error})
        if confirm:
            maybe_fail("cleanup.between_tables")
        return TableCleanup(
            table_key=table.table_key,
            bytes_removed=size,
            old_versions_removed=versions,
            error=error,
        )

    def _is_moved(self, line: _Line, head: int) -> bool:
        """Whether the graph was moved since the line was made: it can only be read then."""
        return self._graph.storage.old_versions.is_moved(line.layout, line.branch, head)

    def _due(
        self, facts: CleanupFacts, needed: Mapping[str, Named], table: TableRow, place: Place
    ) -> _Line:
        """What may go of one line."""
        location, branch = place
        layout = bare_layout(table.ref, table.table_key, location)
        pin = max(facts.heads[place])
        self._require_no_drift(layout, branch, pin)
        stored = self._graph.storage.old_versions.of(location, branch).versions
        none: frozenset[int] = frozenset()
        floors = {
            "heads": facts.heads,
            "forks": facts.forks,
            "tags": facts.tagged,
            "recent": facts.recent,
            **needed,
        }
        known = LineFacts(
            versions=stored,
            pin=pin,
            named={who: floor.get(place, none) for who, floor in floors.items()},
        )
        removed = removable_versions(known, self._policy, self._graph.clock.now_us())
        return _Line(layout=layout, branch=branch, removed=removed)

    def _require_no_drift(self, layout: TableLayout, branch: str | None, pin: int) -> None:
        """Leave a table alone whose newest version nothing explains.

        Raises:
            DriftNeedsRepair: something outside wrote to it.
        """
        head = self._graph.tables.head_version(layout, branch)
        # In this order: a writer that is not armed any more has published what the head shows.
        if head == pin or (layout.location, branch) in needed_now(self._graph)["sidecars"]:
            return
        for line in self._graph.lines.live_lines():
            for now in line.pins.values():
                if (now.location, now.branch) == (layout.location, branch) and now.version >= head:
                    return  # It was written to since the facts were read.
        raise DriftNeedsRepair(
            f"{layout.table_key} is pinned at version {pin} and its newest is {head}; nothing of it"
            " was removed: run `omnigraph repair` first",
            table=layout.table_key,
            pin=pin,
            head=head,
        )

    def _leftovers(
        self, facts: CleanupFacts, check: Callable[[], None], *, confirm: bool
    ) -> list[Leftover]:
        found = []
        needed = needed_now(self._graph)
        for due in due_leftovers(self._graph, facts, needed, self._policy):
            error = None
            if confirm:
                check()
                try:
                    due.remove()
                except (OmnigraphError, StorageSignal) as failed:
                    error = str(failed)
                    log.warning("not removed", extra={"what": due.name, "why": error})
            found.append(Leftover(kind=due.kind, name=due.name, error=error))
        return found
