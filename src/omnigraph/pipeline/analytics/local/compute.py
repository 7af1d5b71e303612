"""A measure in this process: reads, computes, and gives the rows in the order of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

import numpy as np
import pyarrow as pa

from omnigraph.graph.query.topology import ABSENT
from omnigraph.lang.arrow_schema import arrow_field
from omnigraph.pipeline.analytics.local.components import connected_components
from omnigraph.pipeline.analytics.local.degree import degrees
from omnigraph.pipeline.analytics.local.label_propagation import label_propagation
from omnigraph.pipeline.analytics.local.pagerank import pagerank
from omnigraph.pipeline.analytics.local.shortest_paths import distances
from omnigraph.pipeline.analytics.local.strong_components import strong_components
from omnigraph.pipeline.analytics.local.topology import read_nodes, read_topology
from omnigraph.pipeline.analytics.local.triangles import triangles
from omnigraph.pipeline.analytics.measures import (
    ConnectedComponents,
    Degree,
    Direction,
    LabelPropagation,
    PageRank,
    ShortestPaths,
    StronglyConnectedComponents,
    Triangles,
)
from omnigraph.pipeline.analytics.scope import result_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.graph.arrays import Column, Columns, Ids, Numbers
    from omnigraph.graph.jobs.stages import JobStages
    from omnigraph.pipeline.analytics.local.topology import Nodes, Topology
    from omnigraph.pipeline.analytics.measures import Measure
    from omnigraph.pipeline.analytics.scope import Scope

READ: Final = "topology"
COMPUTE: Final = "compute"
_ROWS_AT_ONCE: Final = 1 << 18
"""Texts in one part of a result: an array holds at most 2 GiB, and a result may have more."""


def compute_here(scope: Scope, measure: Measure, stages: JobStages) -> pa.Table:
    """The rows of a result, by type and id."""
    stages.enter(READ)
    nodes = read_nodes(scope)
    starts = _landmarks(scope, measure, nodes)
    topology = read_topology(scope, nodes)
    stages.count(rows=len(nodes) + len(topology.sources))
    stages.enter(COMPUTE)
    if isinstance(measure, ShortestPaths):
        columns = _from_landmarks(measure, nodes, topology, starts, stages)
    else:
        columns = [nodes.all_types, nodes.all_ids, *_values(measure, nodes, topology, stages)]
    fields = [arrow_field(column.name, column.type) for column in result_columns(measure)]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _values(
    measure: Measure, nodes: Nodes, topology: Topology, stages: JobStages
) -> Sequence[Column | Columns]:
    def tell(done: int, most: int) -> None:
        stages.teller.tell_tasks(COMPUTE, done, most)

    match measure:
        case Degree():
            arriving, leaving = degrees(topology)
            return [pa.array(each) for each in (arriving, leaving, arriving + leaving)]
        case PageRank():
            return [pa.array(pagerank(topology, measure, tell))]
        case ConnectedComponents():
            return [_labels(nodes, connected_components(topology))]
        case StronglyConnectedComponents():
            return [_labels(nodes, strong_components(topology))]
        case Triangles():
            return [pa.array(triangles(topology, tell))]
        case LabelPropagation():
            return [_labels(nodes, label_propagation(topology, measure, tell))]
        case ShortestPaths():
            raise TypeError("distances have a row for each landmark")
        case _:
            assert_never(measure)


def _labels(nodes: Nodes, numbers: Numbers) -> Columns:
    return _taken(nodes.labels, numbers)


def _taken(texts: Ids, places: Numbers) -> Columns:
    """The texts at these places, in parts."""
    starts = range(0, len(places), _ROWS_AT_ONCE)
    parts = [texts.take(pa.array(places[at : at + _ROWS_AT_ONCE], pa.int64())) for at in starts]
    return pa.chunked_array(parts, pa.string())


def _landmarks(scope: Scope, measure: Measure, nodes: Nodes) -> list[int]:
    if not isinstance(measure, ShortestPaths):
        return []
    starts = []
    for text in measure.landmarks:
        at = nodes.find(*scope.split_landmark(text))
        if at == ABSENT:
            raise scope.unknown_landmark(text)
        starts.append(at)
    return starts


def _from_landmarks(
    measure: ShortestPaths,
    nodes: Nodes,
    topology: Topology,
    starts: Sequence[int],
    stages: JobStages,
) -> list[Column | Columns]:
    far = np.empty((len(nodes), len(starts)))
    for number, start in enumerate(starts):
        stages.teller.tell_tasks(COMPUTE, number, len(starts))
        far[:, number] = distances(topology, start, Direction(measure.direction))
    rows = np.repeat(np.arange(len(nodes)), len(starts))
    which = np.tile(np.arange(len(starts)), len(nodes))
    lengths = pa.array(far.ravel(), mask=~np.isfinite(far.ravel()))
    return [
        _taken(nodes.all_types, rows),
        _taken(nodes.all_ids, rows),
        _taken(pa.array(measure.landmarks, pa.string()), which),
        lengths.cast(pa.int64()) if measure.weight is None else lengths,
    ]
