"""Degrees: edges counted at their ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from omnigraph.pipeline.analytics.distributed.frames import DST, NODE, SRC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from omnigraph.pipeline.analytics.distributed.frames import NumberedGraph


def degrees(graph: NumberedGraph) -> DataFrame:
    """How many edges lead to each node, how many leave it, and both."""
    frame = graph.numbers
    for end, name in ((DST, "in_degree"), (SRC, "out_degree")):
        counts = graph.edges.groupBy(F.col(end).alias(NODE)).agg(F.count("*").alias(name))
        frame = frame.join(counts, NODE, "left").fillna(0, [name])
    return frame.withColumn("degree", F.col("in_degree") + F.col("out_degree"))
