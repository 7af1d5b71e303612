"""Nodes and edges of a snapshot as frames of numbers, and the steps that are run on them.

Nodes are numbered in their order, with gaps; so numbers are compared and joined instead of ids, and
the smallest number is the smallest node. Every step of an iteration is kept where it was computed,
which a lost executor voids, or at a checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from omnigraph.pipeline.datasource.snapshot_frame import plan_scan, table_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from omnigraph.lang.catalog import EdgeType, NodeType
    from omnigraph.pipeline.analytics.scope import Scope
    from omnigraph.pipeline.spark.job import JobContext
    from omnigraph.pipeline.spark.lanes import SparkLane

NODE = "node"
SRC = "src"
DST = "dst"
WEIGHT = "weight"
READ = "topology"
COMPUTE = "compute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Runs what an iteration needs at once."""

    lane: SparkLane
    has_checkpoints: bool

    def keep(self, frame: DataFrame, stage: str = COMPUTE) -> DataFrame:
        """The same rows, computed."""
        action = frame.checkpoint if self.has_checkpoints else frame.localCheckpoint
        return self.lane.runner.run(stage, action)

    def is_empty(self, frame: DataFrame) -> bool:
        """Whether there is no row."""
        return self.lane.runner.run(COMPUTE, frame.isEmpty)

    def numbers(self, frame: DataFrame, *columns: Column, stage: str = COMPUTE) -> Sequence[Any]:
        """Aggregates over a frame; Any: each has its own type."""
        (row,) = self.lane.runner.run(stage, frame.agg(*columns).collect)
        return tuple(row)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedGraph:
    """What is measured."""

    nodes: DataFrame
    """`node`, `type`, `id`."""
    edges: DataFrame
    """`src`, `dst` and, if asked for, `weight`."""
    node_count: int
    has_two_types: bool

    @property
    def numbers(self) -> DataFrame:
        """The numbers of all nodes."""
        return self.nodes.select(NODE)

    def both_ways(self) -> DataFrame:
        """Each edge from either end, but loops."""
        apart = self.edges.filter(F.col(SRC) != F.col(DST))
        return apart.unionByName(turned(apart))

    def labels(self, name: str) -> DataFrame:
        """What each node is called where it stands for others: `node` and the name."""
        text = F.concat_ws(":", "type", "id") if self.has_two_types else F.col("id")
        return self.nodes.select(NODE, text.alias(name))


def turned(edges: DataFrame) -> DataFrame:
    """Each edge the other way."""
    others = [name for name in edges.columns if name not in (SRC, DST)]
    return edges.select(F.col(DST).alias(SRC), F.col(SRC).alias(DST), *others)


def numbered_graph(job: JobContext, scope: Scope, steps: Steps) -> NumberedGraph:
    """The nodes and edges of a scope."""
    frames = [
        _rows(job, scope, steps, item, ["id"]).select(F.lit(item.name).alias("type"), "id")
        for item in scope.nodes
    ]
    all_nodes = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
    ordered = steps.keep(all_nodes.orderBy("type", "id"), READ)
    # Its partitions are kept as they are, and come in the order of the rows.
    numbered = ordered.select(F.monotonically_increasing_id().alias(NODE), "type", "id")
    nodes = steps.keep(numbered, READ)
    edges = _edges(job, scope, steps)
    for end, name in ((SRC, scope.edge.from_type), (DST, scope.edge.to_type)):
        ids = nodes.filter(F.col("type") == F.lit(name)).select(F.col(NODE), F.col("id").alias(end))
        edges = edges.join(ids, end).drop(end).withColumnRenamed(NODE, end)
    return NumberedGraph(
        nodes=nodes,
        edges=steps.keep(edges, READ),
        node_count=scope.node_count,
        has_two_types=scope.has_two_types,
    )


def _edges(job: JobContext, scope: Scope, steps: Steps) -> DataFrame:
    """The ids of the ends, and the weight under a name of its own: a property may have any."""
    if scope.weight is None:
        return _rows(job, scope, steps, scope.edge, [SRC, DST])
    rows = _rows(job, scope, steps, scope.edge, [SRC, DST, scope.weight])
    return rows.select(SRC, DST, F.col(f"`{scope.weight}`").cast("double").alias(WEIGHT))


def _rows(
    job: JobContext,
    scope: Scope,
    steps: Steps,
    item: NodeType | EdgeType,
    columns: Sequence[str],
) -> DataFrame:
    scans = plan_scan(job.root, job.graph.tables, scope.snapshot, item, columns=columns)
    return table_frame(steps.lane.session, scans, item, columns)
