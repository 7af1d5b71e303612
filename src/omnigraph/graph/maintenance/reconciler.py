"""Maintenance that happens by itself: does what is due, one process at a time.

A round joins fragments, brings lagging indexes up to date, and removes versions of tables that are
older than the retention and that no floor of `cleanup` protects. It works beside writers and by
their rules: its commits change no row, and what others do meanwhile wins. A process that finds
another one at it leaves the round to that one. What fails for one branch is told and does not keep
the others from their turn.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from omnigraph.errors import BranchBusy, InvalidArgument, OmnigraphError
from omnigraph.graph.lifecycle.background import start_quietly
from omnigraph.graph.maintenance.cleanup import cleanup
from omnigraph.graph.maintenance.due import Need, TableDue, due_on, list_due
from omnigraph.graph.maintenance.ensure_indices import ensure_indices
from omnigraph.graph.maintenance.kept_versions import parse_policy
from omnigraph.graph.maintenance.optimize import optimize
from omnigraph.graph.recovery.leases import MAINTENANCE_SCOPE
from omnigraph.storage.signals import StorageSignal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.ids import BranchId

log = logging.getLogger(__name__)

MAINTENANCE_ACTOR: Final = "omnigraph:maintenance"
SHORTEST_PAUSE_S: Final = 0.01
CLEAN_EVERY_US: Final = 60 * 60 * 1_000_000
LONGEST_PAUSE_S: Final = 365 * 24 * 3600.0
MOST_ROWS_UNASKED: Final = 1_048_576
"""A table with more is indexed only where somebody asked for maintenance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceRound:
    """What one round did."""

    tables: tuple[TableDue, ...] = ()
    """For which something was due when it began."""

    commits: tuple[Commit, ...] = ()
    versions_removed: int = 0
    errors: tuple[str, ...] = ()
    """What could not be done, and why; the next round tries again."""

    is_busy: bool = False
    """Another process was at it, and nothing was done."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "tables": [table.to_dict() for table in self.tables],
            "commits": [commit.to_dict() for commit in self.commits],
            "versions_removed": self.versions_removed,
            "errors": list(self.errors),
            "busy": self.is_busy,
        }


def run_due(
    graph: GraphCoordinator,
    *,
    work_days: int,
    cleans: bool = True,
    progress: Progress | None = None,
) -> MaintenanceRound:
    """Do what is due now, if no other process is at it.

    Args:
        graph: the graph.
        work_days: how long work files of dead jobs stay.
        cleans: remove old versions, and what dead processes left, too.
        progress: told for every table that is done.
    """
    try:
        with graph.leases.holding(MAINTENANCE_SCOPE, wait_ms=0):
            done = _Round(graph, progress).run(list_due(graph))
        return _cleaned(graph, done, work_days, progress) if cleans else done
    except BranchBusy as busy:
        log.info("maintenance left to others", extra={"why": str(busy)})
        return MaintenanceRound(is_busy=True)


def _cleaned(
    graph: GraphCoordinator, done: MaintenanceRound, work_days: int, progress: Progress | None
) -> MaintenanceRound:
    """The round, with what a cleanup by the retention removed; it takes the lease by itself."""
    policy = replace(
        parse_policy(None, timedelta(days=graph.retention_days), work_days=work_days),
        commits=graph.kept_versions,
    )
    try:
        report = cleanup(graph, policy, confirm=True, progress=progress)
    except (OmnigraphError, StorageSignal) as error:
        log.warning("cleanup failed", extra={"cause": str(error)})
        return replace(done, errors=(*done.errors, f"cleanup: {error}"))
    return replace(
        done,
        versions_removed=sum(table.old_versions_removed for table in report.tables),
        errors=(*done.errors, *report.errors),
    )


class _Round:
    def __init__(self, graph: GraphCoordinator, progress: Progress | None) -> None:
        self._graph = graph
        self._progress = progress
        self._commits: list[Commit] = []
        self._errors: list[str] = []

    def run(self, tables: Iterable[TableDue]) -> MaintenanceRound:
        tables = tuple(tables)
        for branch in dict.fromkeys(table.branch for table in tables):
            here = [table for table in tables if table.branch == branch]
            crowded = [table.table_key for table in here if Need.COMPACTION in table.needs]
            lagging = [table.table_key for table in here if Need.COMPACTION not in table.needs]
            self._try(branch, Need.COMPACTION, crowded)
            self._try(branch, Need.INDEXES, lagging)
        return MaintenanceRound(
            tables=tables, commits=tuple(self._commits), errors=tuple(self._errors)
        )

    def _try(self, branch: str, need: Need, types: list[str]) -> None:
        """Joining fragments brings the indexes of a table up to date as well."""
        if not types:
            return
        work = optimize if need is Need.COMPACTION else ensure_indices
        try:
            report = work(
                self._graph,
                branch=branch,
                types=types,
                actor_id=MAINTENANCE_ACTOR,
                progress=self._progress,
            )
        except (OmnigraphError, StorageSignal) as error:
            log.warning("maintenance failed", extra={"branch": branch, "cause": str(error)})
            self._errors.append(f"{need} on {branch!r}: {error}")
            return
        if report.commit is not None:
            self._commits.append(report.commit)


def watch_lag(graph: GraphCoordinator) -> None:
    """Have indexes brought up to date when writes to an open graph leave them behind."""
    watch = LagWatch(graph)
    graph.on_folded = watch.after_fold
    graph.at_close(watch.close)


def _is_pause(every_s: object) -> bool:
    if isinstance(every_s, bool) or not isinstance(every_s, int | float):
        return False
    return SHORTEST_PAUSE_S <= every_s <= LONGEST_PAUSE_S


class BackgroundMaintenance:
    """Rounds in a thread of this process: one at once, then one after every pause."""

    def __init__(self, graph: GraphCoordinator, every_s: float, *, work_days: int) -> None:
        if not _is_pause(every_s):
            raise InvalidArgument(
                f"every_s is a pause in seconds from {SHORTEST_PAUSE_S} to {LONGEST_PAUSE_S:.0f},"
                f" not {every_s!r}",
                argument="every_s",
            )
        self._graph = graph
        self._every_s = every_s
        self._work_days = work_days
        self._cleaned_us: int | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="maintenance", daemon=True)
        graph.at_close(self.stop)
        self._thread.start()

    def stop(self) -> None:
        """Begin no other round, and wait for the one that runs; safe twice."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                cleans = self._is_time_to_clean()
                run_due(self._graph, work_days=self._work_days, cleans=cleans)
            except Exception as error:  # Whatever it is: else one odd failure ends all rounds.
                log.warning("maintenance failed", exc_info=error)
            if self._ended.wait(self._every_s):
                return

    def _is_time_to_clean(self) -> bool:
        """Looking for old versions lists the files of every table, so it is done now and then."""
        now_us = self._graph.clock.monotonic_us()
        if self._cleaned_us is not None and now_us - self._cleaned_us < CLEAN_EVERY_US:
            return False
        self._cleaned_us = now_us
        return True


class LagWatch:
    """Brings lagging indexes of smaller tables up to date, in a thread, when a write tells of them.

    So a graph that one process writes to stays quick although nobody asked for maintenance. Tables
    that take long to index are left to rounds, and to whoever calls `ensure_indices`.
    """

    def __init__(self, graph: GraphCoordinator) -> None:
        self._graph = graph
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def after_fold(self, branch_id: BranchId) -> None:
        """Look at a branch, unless this is being done; what fails fails no write."""
        with self._guard:
            if self._closed or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = start_quietly(lambda: self._catch_up(branch_id), "index-lag")

    def close(self) -> None:
        """Begin nothing any more, and wait for what runs; safe twice."""
        with self._guard:
            self._closed = True
        if self._thread is not None:
            self._thread.join()

    def _catch_up(self, branch_id: BranchId) -> None:
        try:
            branch = self._graph.lines.branch_name(branch_id)
            tables = due_on(self._graph, branch, branch_id)
            lagging = [
                table.table_key
                for table in tables
                if Need.INDEXES in table.needs and table.rows <= MOST_ROWS_UNASKED
            ]
            if lagging:
                ensure_indices(
                    self._graph, branch=branch, types=lagging, actor_id=MAINTENANCE_ACTOR
                )
        except (OmnigraphError, StorageSignal) as error:
            log.info("indexes left behind", extra={"branch_id": branch_id, "cause": str(error)})
