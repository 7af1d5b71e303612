"""Triangles: edges lead to the end of higher degree, and two from one node are closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from omnigraph.pipeline.analytics.distributed.frames import DST, NODE, SRC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from omnigraph.pipeline.analytics.distributed.frames import NumberedGraph, Steps

FOUND = "triangles"


def triangles(graph: NumberedGraph, steps: Steps) -> DataFrame:
    """In how many triangles each node is."""
    edges = steps.keep(_oriented(graph))
    first = edges.select("low", F.col("high").alias("one"))
    second = edges.select("low", F.col("high").alias("other"))
    pairs = first.join(second, "low").filter(F.col("one") < F.col("other"))
    closing = edges.select(F.col("low").alias("one"), F.col("high").alias("other"))
    closed = pairs.join(closing, ["one", "other"])
    corners = closed.select(
        F.explode(F.array(F.col("low.node"), F.col("one.node"), F.col("other.node"))).alias(NODE)
    )
    counts = corners.groupBy(NODE).agg(F.count("*").alias(FOUND))
    return graph.numbers.join(counts, NODE, "left").fillna(0, [FOUND])


def _oriented(graph: NumberedGraph) -> DataFrame:
    """Each pair of neighbours once, from the end that comes first by degree and node."""
    apart = graph.edges.filter(F.col(SRC) != F.col(DST))
    pairs = apart.select(F.least(SRC, DST).alias("a"), F.greatest(SRC, DST).alias("b")).distinct()
    ends = pairs.select(F.explode(F.array("a", "b")).alias(NODE))
    degrees = ends.groupBy(NODE).agg(F.count("*").alias("degree"))
    for end in ("a", "b"):
        ranked = degrees.select(F.col(NODE).alias(end), _place().alias(f"{end}_place"))
        pairs = pairs.join(ranked, end)
    return pairs.select(
        F.least("a_place", "b_place").alias("low"), F.greatest("a_place", "b_place").alias("high")
    )


def _place() -> Column:
    return F.struct("degree", NODE)
