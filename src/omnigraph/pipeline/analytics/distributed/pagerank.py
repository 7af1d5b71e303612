"""PageRank by power iteration; the mass of nodes without an edge out is spread over all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from omnigraph.pipeline.analytics.distributed.frames import DST, NODE, SRC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from omnigraph.pipeline.analytics.distributed.frames import NumberedGraph, Steps
    from omnigraph.pipeline.analytics.measures import PageRank

RANK = "pagerank"


def pagerank(graph: NumberedGraph, measure: PageRank, steps: Steps) -> DataFrame:
    """The rank of each node."""
    count = max(1, graph.node_count)
    leaving = graph.edges.groupBy(SRC).agg(F.count("*").alias("leaving"))
    pairs = graph.edges.groupBy(SRC, DST).agg(F.count("*").alias("times")).join(leaving, SRC)
    shares = pairs.select(SRC, DST, (F.col("times") / F.col("leaving")).alias("share"))
    shares = steps.keep(shares)
    nodes = graph.numbers.join(leaving.withColumnRenamed(SRC, NODE), NODE, "left")
    is_dangling = F.col("leaving").isNull().alias("is_dangling")
    ranks = steps.keep(nodes.select(NODE, is_dangling, F.lit(1.0 / count).alias(RANK)))
    for _ in range(measure.max_iter):
        spread = _dangling(ranks, steps) / count
        ranks = steps.keep(_after(ranks, shares, measure.damping, spread, count))
        (moved,) = steps.numbers(ranks, F.sum(F.abs(F.col(RANK) - F.col("before"))))
        if (moved or 0.0) < measure.tol:
            break
        ranks = ranks.drop("before")
    return ranks.select(NODE, RANK)


def _dangling(ranks: DataFrame, steps: Steps) -> float:
    (mass,) = steps.numbers(ranks.filter("is_dangling"), F.sum(RANK))
    return mass or 0.0


def _after(
    ranks: DataFrame, shares: DataFrame, damping: float, spread: float, count: int
) -> DataFrame:
    given = shares.join(ranks.select(F.col(NODE).alias(SRC), RANK), SRC)
    taken = given.groupBy(F.col(DST).alias(NODE)).agg(
        F.sum(F.col(RANK) * F.col("share")).alias("taken")
    )
    mass = F.coalesce(F.col("taken"), F.lit(0.0)) + F.lit(spread)
    return ranks.join(taken, NODE, "left").select(
        NODE,
        "is_dangling",
        (F.lit((1 - damping) / count) + F.lit(damping) * mass).alias(RANK),
        F.col(RANK).alias("before"),
    )
