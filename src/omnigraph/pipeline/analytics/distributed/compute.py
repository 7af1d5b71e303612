"""A measure on Spark: the rows as a frame that is computed, with the columns of the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from omnigraph.errors import InternalError, SettingInvalid
from omnigraph.pipeline.analytics.distributed.components import connected_components
from omnigraph.pipeline.analytics.distributed.degree import degrees
from omnigraph.pipeline.analytics.distributed.frames import (
    COMPUTE,
    NODE,
    READ,
    Steps,
    numbered_graph,
)
from omnigraph.pipeline.analytics.distributed.label_propagation import label_propagation
from omnigraph.pipeline.analytics.distributed.pagerank import pagerank
from omnigraph.pipeline.analytics.distributed.shortest_paths import shortest_paths
from omnigraph.pipeline.analytics.distributed.triangles import triangles
from omnigraph.pipeline.analytics.measures import (
    ConnectedComponents,
    Degree,
    LabelPropagation,
    PageRank,
    ShortestPaths,
    StronglyConnectedComponents,
    Triangles,
)
from omnigraph.pipeline.analytics.scope import result_columns
from omnigraph.pipeline.spark.lanes import require_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from omnigraph.pipeline.analytics.distributed.frames import NumberedGraph
    from omnigraph.pipeline.analytics.measures import Measure
    from omnigraph.pipeline.analytics.scope import Scope
    from omnigraph.pipeline.spark.job import JobContext


def compute_frame(job: JobContext, scope: Scope, measure: Measure) -> DataFrame:
    """The rows of a result, in no order.

    Raises:
        SettingInvalid: checkpoints are asked for where they cannot be made.
    """
    steps = Steps(lane=require_spark(job.lane), has_checkpoints=_has_checkpoints(job))
    job.stages.enter(READ)
    graph = numbered_graph(job, scope, steps)
    job.stages.enter(COMPUTE)
    values = _values(graph, scope, measure, steps)
    names = [column.name for column in result_columns(measure)]
    return steps.keep(graph.nodes.join(values, NODE).select(*names))


def _values(graph: NumberedGraph, scope: Scope, measure: Measure, steps: Steps) -> DataFrame:
    match measure:
        case Degree():
            return degrees(graph)
        case PageRank():
            return pagerank(graph, measure, steps)
        case ConnectedComponents():
            return _labelled(graph, connected_components(graph, steps), measure.written)
        case Triangles():
            return triangles(graph, steps)
        case LabelPropagation():
            found = label_propagation(graph, measure, steps)
            return _labelled(graph, found, measure.written)
        case ShortestPaths():
            return shortest_paths(graph, scope, measure, steps)
        case StronglyConnectedComponents():
            raise InternalError("strong components are found in one process; please report this")
        case _:
            assert_never(measure)


def _labelled(graph: NumberedGraph, numbers: DataFrame, name: str) -> DataFrame:
    """The labels behind the numbers."""
    labels = graph.labels("text").withColumnRenamed(NODE, "label")
    return numbers.join(labels, "label").select(NODE, F.col("text").alias(name))


def _has_checkpoints(job: JobContext) -> bool:
    uri = job.settings.pipeline.checkpoint_uri
    if uri is None:
        return False
    if not require_spark(job.lane).session.checkpoint_at(uri):
        raise SettingInvalid(
            "pipeline.checkpoint_uri: over Spark Connect the folder of checkpoints is set where the"
            " server starts, as spark.checkpoint.dir; set it there, or leave it out",
            name="pipeline.checkpoint_uri",
        )
    return True
