"""Distances from landmarks: breadth first, or by adding weights that are not negative.

Only nodes that came nearer are joined with their edges again; it ends when none does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from omnigraph.pipeline.analytics.distributed.frames import (
    DST,
    NODE,
    SRC,
    WEIGHT,
    turned,
)
from omnigraph.pipeline.analytics.measures import Direction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from omnigraph.pipeline.analytics.distributed.frames import NumberedGraph, Steps
    from omnigraph.pipeline.analytics.measures import ShortestPaths
    from omnigraph.pipeline.analytics.scope import Scope

LANDMARK = "landmark"
DISTANCE = "distance"
_PAIR = [LANDMARK, NODE]


def shortest_paths(
    graph: NumberedGraph, scope: Scope, measure: ShortestPaths, steps: Steps
) -> DataFrame:
    """How far each node is from each landmark; null where none leads.

    Raises:
        InvalidArgument: there is no such landmark, or a weight is missing or negative.
    """
    starts = steps.keep(_starts(graph, scope, measure, steps))
    _require_weights(graph, scope, steps)
    edges = steps.keep(_edges(graph, measure))
    far = nearer = starts
    while not steps.is_empty(nearer):
        reached = nearer.join(edges.withColumnRenamed(SRC, NODE), NODE)
        lengths = reached.groupBy(LANDMARK, F.col(DST).alias(NODE)).agg(
            F.min(F.col(DISTANCE) + F.col(WEIGHT)).alias("length")
        )
        joined = lengths.join(far, _PAIR, "left")
        # As in this process: what is too far for a float is not reached.
        joined = joined.filter(F.col("length") < F.lit(float("inf")))
        is_nearer = F.col(DISTANCE).isNull() | (F.col("length") < F.col(DISTANCE))
        nearer = steps.keep(
            joined.filter(is_nearer).select(*_PAIR, F.col("length").alias(DISTANCE))
        )
        far = steps.keep(far.join(nearer, _PAIR, "left_anti").unionByName(nearer))
    all_pairs = graph.numbers.crossJoin(starts.select(LANDMARK).hint("broadcast"))
    return all_pairs.join(far, _PAIR, "left")


def _starts(graph: NumberedGraph, scope: Scope, measure: ShortestPaths, steps: Steps) -> DataFrame:
    """The landmarks, at no distance from themselves."""
    asked = [(*scope.split_landmark(text), text) for text in measure.landmarks]
    spark = steps.lane.session.spark
    named = spark.createDataFrame(asked, f"type string, id string, {LANDMARK} string")
    named = named.hint("broadcast")
    zero = F.lit(0).cast("bigint" if measure.weight is None else "double").alias(DISTANCE)
    starts = graph.nodes.join(named, ["type", "id"]).select(LANDMARK, NODE, zero)
    rows = steps.lane.runner.run("compute", starts.select(LANDMARK).collect)
    found = {row[0] for row in rows}
    for text in measure.landmarks:
        if text not in found:
            raise scope.unknown_landmark(text)
    return starts


def _require_weights(graph: NumberedGraph, scope: Scope, steps: Steps) -> None:
    if scope.weight is None:
        return
    weight = F.col(WEIGHT)
    is_absent = weight.isNull() | F.isnan(weight) | (F.abs(weight) == F.lit(float("inf")))
    absent, negative = steps.numbers(
        graph.edges, F.count_if(is_absent), F.count_if(weight < F.lit(0.0))
    )
    scope.require_weights(absent, negative)


def _edges(graph: NumberedGraph, measure: ShortestPaths) -> DataFrame:
    """The edges as they are followed; of parallel ones the shortest."""
    direction = Direction(measure.direction)
    match direction:
        case Direction.OUT:
            edges = graph.edges
        case Direction.IN:
            edges = turned(graph.edges)
        case Direction.BOTH:
            edges = graph.both_ways()
        case _:
            assert_never(direction)
    length = F.lit(1).cast("bigint") if measure.weight is None else F.col(WEIGHT)
    return edges.groupBy(SRC, DST).agg(F.min(length).alias(WEIGHT))
