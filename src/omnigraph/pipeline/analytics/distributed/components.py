"""Connected components by large stars and small stars.

A large star joins the larger neighbours of a node to the smallest of its neighbours and itself, a
small star the others. In turns they end in one star for each component, around its smallest node,
after a number of rounds that grows with the logarithm of the nodes, whatever the paths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from omnigraph.pipeline.analytics.distributed.frames import DST, NODE, SRC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from omnigraph.pipeline.analytics.distributed.frames import NumberedGraph, Steps

HIGH = "high"
LOW = "low"
LABEL = "label"


def connected_components(graph: NumberedGraph, steps: Steps) -> DataFrame:
    """For each node the smallest one of its component."""
    apart = graph.edges.filter(F.col(SRC) != F.col(DST))
    edges = steps.keep(
        apart.select(F.greatest(SRC, DST).alias(HIGH), F.least(SRC, DST).alias(LOW)).distinct()
    )
    while not _are_stars(edges, steps):
        edges = steps.keep(_small_stars(_large_stars(edges)))
    labels = edges.select(F.col(HIGH).alias(NODE), F.col(LOW).alias(LABEL))
    joined = graph.numbers.join(labels, NODE, "left")
    return joined.select(NODE, F.coalesce(LABEL, NODE).alias(LABEL))


def _are_stars(edges: DataFrame, steps: Steps) -> bool:
    """Whether no node has two smaller neighbours, or one and a larger."""
    repeated = edges.groupBy(HIGH).agg(F.count("*").alias("times")).filter("times > 1")
    if not steps.is_empty(repeated):
        return False
    ends = edges.select(F.col(HIGH).alias(LOW))
    return steps.is_empty(edges.join(ends, LOW, "left_semi"))


def _large_stars(edges: DataFrame) -> DataFrame:
    turned = edges.select(F.col(HIGH).alias("node"), F.col(LOW).alias("other"))
    ways = turned.unionByName(edges.select(F.col(LOW).alias("node"), F.col(HIGH).alias("other")))
    least = ways.groupBy("node").agg(F.least(F.min("other"), F.col("node")).alias("least"))
    larger = ways.filter(F.col("other") > F.col("node")).join(least, "node")
    return larger.select(F.col("other").alias(HIGH), F.col("least").alias(LOW)).distinct()


def _small_stars(edges: DataFrame) -> DataFrame:
    least = edges.groupBy(HIGH).agg(F.min(LOW).alias("least"))
    others = edges.join(least, HIGH).filter(F.col(LOW) != F.col("least"))
    moved = others.select(F.col(LOW).alias(HIGH), F.col("least").alias(LOW))
    return least.select(HIGH, F.col("least").alias(LOW)).unionByName(moved).distinct()
