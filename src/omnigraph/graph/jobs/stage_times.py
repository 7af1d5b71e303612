"""How long the stages of a job took, with how many tasks and retries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.graph.jobs.report import StageReport

if TYPE_CHECKING:
    from omnigraph.clock import Clock


@dataclass
class _Stage:
    spent_us: int = 0
    tasks: int = 0
    retries: int = 0
    rows: int = 0
    bytes: int = 0


class StageTimes:
    """Collects the stages of one job; each may be entered more than once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._stages: dict[str, _Stage] = {}
        self._current: str | None = None
        self._began_us = 0

    def enter(self, stage: str | None) -> None:
        """A stage begins, and the one before it ends."""
        now_us = self._clock.monotonic_us()
        if self._current is not None:
            self._stages[self._current].spent_us += now_us - self._began_us
        self._current, self._began_us = stage, now_us
        if stage is not None:
            self._stages.setdefault(stage, _Stage())

    def count(
        self, *, tasks: int = 0, retries: int = 0, rows: int = 0, size_bytes: int = 0
    ) -> None:
        """What the current stage did."""
        if self._current is None:
            return
        stage = self._stages[self._current]
        stage.tasks += tasks
        stage.retries += retries
        stage.rows += rows
        stage.bytes += size_bytes

    def reports(self) -> tuple[StageReport, ...]:
        """The stages in the order in which they were first entered."""
        return tuple(
            StageReport(
                name=name,
                seconds=stage.spent_us / 1_000_000,
                tasks=stage.tasks or 1,
                retries=stage.retries,
                rows=stage.rows,
                bytes=stage.bytes,
            )
            for name, stage in self._stages.items()
        )
