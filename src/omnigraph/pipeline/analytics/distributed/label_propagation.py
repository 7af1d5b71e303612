"""Label propagation: all nodes at once take the label that most edges bring, or the smallest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from omnigraph.pipeline.analytics.distributed.frames import DST, NODE, SRC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from omnigraph.pipeline.analytics.distributed.frames import NumberedGraph, Steps
    from omnigraph.pipeline.analytics.measures import LabelPropagation

LABEL = "label"


def label_propagation(graph: NumberedGraph, measure: LabelPropagation, steps: Steps) -> DataFrame:
    """For each node the node whose label it has."""
    ways = graph.both_ways().groupBy(SRC, DST).agg(F.count("*").alias("times"))
    ways = steps.keep(ways)
    labels = steps.keep(graph.numbers.withColumn(LABEL, F.col(NODE)))
    for _ in range(measure.max_iter):
        after = steps.keep(_after(labels, ways))
        is_settled = steps.is_empty(after.filter(F.col(LABEL) != F.col("before")))
        labels = after.drop("before")
        if is_settled:
            break
    return labels


def _after(labels: DataFrame, ways: DataFrame) -> DataFrame:
    brought = ways.join(labels.withColumnRenamed(NODE, SRC), SRC)
    counted = brought.groupBy(F.col(DST).alias(NODE), LABEL).agg(F.sum("times").alias("times"))
    taken = counted.groupBy(NODE).agg(F.min(F.struct(-F.col("times"), LABEL))[LABEL].alias("taken"))
    return labels.join(taken, NODE, "left").select(
        NODE, F.coalesce("taken", LABEL).alias(LABEL), F.col(LABEL).alias("before")
    )
