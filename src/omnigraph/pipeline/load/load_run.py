"""What the parts of one run of a load share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.pipeline.spark.stage_teller import Amount

if TYPE_CHECKING:
    from omnigraph.graph.jobs.stage_times import StageTimes
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.load.options import LoadOptions
    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.pipeline.spark.stage_runner import StageRunner
    from omnigraph.settings import Settings


@dataclass(kw_only=True)
class LoadRun:
    """One run of one load: what it was asked, and where it runs."""

    graph: GraphCoordinator
    session: PipelineSession | None
    """`None`: everything happens in this process."""
    settings: Settings
    options: LoadOptions
    operation_id: str
    runner: StageRunner
    times: StageTimes
    work: Amount = field(default_factory=Amount)
    """What the stages have to do: the bytes of the input until it is read, then its rows."""
    is_rehearsal: bool = False
    """Nothing of it stays."""

    @property
    def root(self) -> str:
        """Where the graph is."""
        return str(self.graph.storage.location)

    def enter(self, stage: str | None) -> None:
        """A stage begins; its tasks are told when there are any."""
        self.times.enter(stage)
        if stage is not None:
            self.runner.teller.enter(stage, self.work)
