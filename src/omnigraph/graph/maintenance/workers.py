"""Who does the work on the tables of one call: the threads of this process, or others.

Whoever it is drives the steps of staged writes to their ends. What is planned, kept over attempts
and committed is the caller's, and the same for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from omnigraph.graph.maintenance.table_work import for_each
from omnigraph.settings import Engine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.storage.handles import StagedWrite
    from omnigraph.storage.shared_work import Spread, Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """What was staged for one table."""

    staged: StagedWrite
    took_us: int
    """How long its tasks took, one after the other."""


class Workers(Protocol):
    """Drive the steps of several tables."""

    @property
    def engine(self) -> Engine:
        """The lane, as reports name it."""
        ...

    @property
    def spread(self) -> Spread | None:
        """How each index is spread over tasks; `None` if one task builds it."""
        ...

    def stage(
        self, stage: str, steps: Mapping[TableRef, Steps[StagedWrite]]
    ) -> dict[TableRef, Worked]:
        """What the steps of each table stage."""
        ...

    def hand_over(self, files: Iterable[str]) -> None:
        """These files may be committed from now on, also by a recovery."""
        ...


class LocalWorkers:
    """Threads of this process, each with a table of its own."""

    engine = Engine.LOCAL
    spread = None

    def __init__(self, graph: GraphCoordinator, progress: Progress) -> None:
        self._graph = graph
        self._progress = progress

    def stage(
        self, stage: str, steps: Mapping[TableRef, Steps[StagedWrite]]
    ) -> dict[TableRef, Worked]:
        """What the steps of each table stage."""
        return for_each(
            self._graph, stage, list(steps), lambda ref: self._finish(steps[ref]), self._progress
        )

    def _finish(self, steps: Steps[StagedWrite]) -> Worked:
        started_us = self._graph.clock.monotonic_us()
        staged = self._graph.tables.finish(steps)
        return Worked(staged=staged, took_us=self._graph.clock.monotonic_us() - started_us)

    def hand_over(self, files: Iterable[str]) -> None:
        """Nothing is kept: what no commit takes is left to a cleanup."""
