"""What runs while a frame is made: rows that are kept where they were computed, and counts of them.

A frame that is used again and again would be computed again and again; kept, it also has partitions
that stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from omnigraph.pipeline.spark.stage_runner import StageRunner

_SHOWN_HOPS = 2


@dataclass(frozen=True, slots=True)
class Keeper:
    """Runs what must run; without a runner nothing does, and the plan is only looked at."""

    runner: StageRunner | None

    @property
    def most_hops(self) -> int:
        """Hops of a walk that are followed; a plan that is only looked at shows the first ones."""
        return _SHOWN_HOPS if self.runner is None else 2**31

    def keep(self, frame: DataFrame) -> DataFrame:
        """The same rows, computed."""
        if self.runner is None:
            return frame
        return self.runner.run("query: kept rows", frame.localCheckpoint)

    def is_empty(self, frame: DataFrame) -> bool:
        """Whether there is no row."""
        return self.runner is not None and self.runner.run("query: next hop", frame.isEmpty)

    def counts(self, kept: DataFrame) -> Mapping[int, int]:
        """The rows of each partition of a kept frame that has any."""
        if self.runner is None:
            return {}
        counted = kept.groupBy(F.spark_partition_id().alias("part")).count()
        rows = self.runner.run("query: counts", counted.collect)
        return {int(row["part"]): int(row["count"]) for row in rows}
