"""Loads on Spark: the same rows and answers as here, by three ways to check and to merge."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from tests.load_jobs import spark_load
from tests.race.club import lines
from tests.race.operations import Load, Operation, told_of

from omnigraph.graph.blobs.addresses import DENY_ALL
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.load.request import LoadRequest
from omnigraph.ids import BranchName
from omnigraph.pipeline.checks.way import CheckWay
from omnigraph.pipeline.sources.request import SourceRequest, plan_source
from omnigraph.settings import MergeStrategy

if TYPE_CHECKING:
    from tests.race.operations import Told

    from omnigraph import Graph
    from omnigraph.pipeline.spark.session import PipelineSession


@dataclass(frozen=True, slots=True)
class Lane:
    """How a load on Spark checks and merges, whatever its size."""

    way: CheckWay
    merge: MergeStrategy


LANES = {
    "driver": Lane(way=CheckWay.KEYS, merge=MergeStrategy.DRIVER),
    "whole": Lane(way=CheckWay.WHOLE, merge=MergeStrategy.DRIVER),
    "joins": Lane(way=CheckWay.JOINS, merge=MergeStrategy.DRIVER),
    "executors": Lane(way=CheckWay.JOINS, merge=MergeStrategy.DISTRIBUTED),
}


@dataclass(frozen=True, slots=True)
class SparkOperation(Operation):
    """A load on Spark."""

    load: Load
    lane: Lane
    session: PipelineSession | None
    """`None` for tasks in this process."""
    kind = "load"

    def send(self, graph: Graph, branch: str) -> Told:
        given = lines(self.load.records)
        path = Path(str(graph._graph.storage.location)).with_name(
            f"{sha256(given).hexdigest()}.jsonl"
        )
        if not path.exists():
            path.write_bytes(given)
        settings = replace(
            graph._settings, pipeline=replace(graph._settings.pipeline, merge=self.lane.merge)
        )
        job = spark_load(
            graph,
            self.session,
            settings,
            [plan_source(SourceRequest(source=str(path)), settings)],
            LoadRequest(mode=LoadMode(self.load.mode), branch=BranchName(branch)),
            external=DENY_ALL,
            way=self.lane.way,
        )
        return told_of(job.report())

    @property
    def empties(self) -> bool:
        return self.load.empties
