"""The stages of one job: how long each took and how much it did, told to whoever watches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.graph.jobs.stage_teller import NOTHING_KNOWN, Amount, StageTeller
from omnigraph.graph.jobs.stage_times import StageTimes

if TYPE_CHECKING:
    from omnigraph.clock import Clock
    from omnigraph.graph.jobs.report import StageReport
    from omnigraph.graph.jobs.stage_progress import Progress


class JobStages:
    """Enters the stages of one job, one after the other; each may be entered more than once."""

    def __init__(self, clock: Clock, progress: Progress | None = None) -> None:
        self.times = StageTimes(clock)
        self.teller = StageTeller(progress)
        self.work = NOTHING_KNOWN
        """What a stage has to do if nothing else is said: the input, as far as it is known."""

    def enter(self, stage: str, work: Amount | None = None) -> None:
        """A stage begins, and the one before it ends."""
        self.times.enter(stage)
        self.teller.enter(stage, self.work if work is None else work)

    def end(self) -> None:
        """The last stage ends."""
        self.times.enter(None)

    def count(
        self, *, tasks: int = 0, retries: int = 0, rows: int = 0, size_bytes: int = 0
    ) -> None:
        """What the current stage did."""
        self.times.count(tasks=tasks, retries=retries, rows=rows, size_bytes=size_bytes)

    def reports(self) -> tuple[StageReport, ...]:
        """The stages in the order in which they were first entered."""
        return self.times.reports()
