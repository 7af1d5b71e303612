"""Walks of several hops as joins: breadth first for all sources at once, hop by hop.

The rule is that of the engine, per source: a node counts at its shortest distance only, the source
never comes back through a cycle, and a self loop leads to the node it is on, when that is as far as
the walk must go. Each hop is kept where it was computed, and the walk ends when a hop finds nothing
new; so a walk runs when its frame is built.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from omnigraph.lang.ir import WalkProperty

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from omnigraph.pipeline.query.keeper import Keeper
    from omnigraph.pipeline.query.match_frame import Names

PATHS = (WalkProperty.PATH, WalkProperty.PATH_BACK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A list of ids that a walk tells: read from the source, or from the end."""

    name: str
    """Its column."""
    from_source: bool

    def start(self, node: Column) -> Column:
        """At the source."""
        return F.array(node)

    def longer(self, way: Column, node: Column) -> Column:
        """With one more node at the end of the walk."""
        return F.concat(way, F.array(node)) if self.from_source else F.concat(F.array(node), way)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What each source reaches: a row for each pair."""

    frame: DataFrame
    source: str
    target: str
    hops: str
    ways: Sequence[Way] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjacency:
    """Pairs of neighbours, each once."""

    frame: DataFrame
    near: str
    far: str


def walk(
    sources: DataFrame,
    source: str,
    adjacency: Adjacency,
    hops: tuple[int, int],
    ways: Sequence[Way],
    keeper: Keeper,
    names: Names,
) -> Reached:
    """What distinct sources, none of them null, reach within the bounds."""
    out = Reached(
        frame=sources, source=names.fresh(), target=names.fresh(), hops=names.fresh(), ways=ways
    )
    start = sources.select(
        F.col(source).alias(out.source),
        F.col(source).alias(out.target),
        F.lit(0).cast("bigint").alias(out.hops),
        *(way.start(F.col(source)).alias(way.name) for way in ways),
    )
    edges = adjacency
    if hops[1] > 1:
        edges = Adjacency(
            frame=keeper.keep(adjacency.frame), near=adjacency.near, far=adjacency.far
        )
        start = keeper.keep(start)
    visited = [start]
    emitted: list[DataFrame] = []
    frontier = start
    for hop in range(1, min(hops[1], keeper.most_hops) + 1):
        steps = _steps(out, frontier, edges, hop)
        is_loop = F.col(edges.near) == F.col(edges.far)
        if hop == hops[0]:
            # A node at this distance less one was not emitted yet; its self loop emits it.
            emitted.append(_nearest(out, steps.filter(is_loop), edges))
        fresh = _nearest(out, steps.filter(~is_loop), edges)
        fresh = _without(out, fresh, _union(visited), names)
        if hop < hops[1]:
            fresh = keeper.keep(fresh)
        if hop >= hops[0]:
            emitted.append(fresh)
        if hop == hops[1] or keeper.is_empty(fresh):
            break
        visited.append(fresh)
        frontier = fresh
    found = _union(emitted) if emitted else start.limit(0)
    return Reached(frame=found, source=out.source, target=out.target, hops=out.hops, ways=ways)


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return functools.reduce(lambda one, other: one.unionByName(other), frames)


def _steps(out: Reached, frontier: DataFrame, edges: Adjacency, hop: int) -> DataFrame:
    """A row for each edge at the frontier, with the way over it."""
    joined = frontier.join(edges.frame, F.col(out.target) == F.col(edges.near))
    return joined.select(
        F.col(out.source),
        F.col(edges.near),
        F.col(edges.far),
        F.lit(hop).cast("bigint").alias(out.hops),
        *(way.longer(F.col(way.name), F.col(edges.far)).alias(way.name) for way in out.ways),
    )


def _nearest(out: Reached, steps: DataFrame, edges: Adjacency) -> DataFrame:
    """Each pair once, with the smallest way."""
    pairs = steps.withColumnRenamed(edges.far, out.target)
    keys = [out.source, out.target, out.hops]
    if not out.ways:
        return pairs.select(*keys).distinct()
    return pairs.groupBy(*keys).agg(*(F.min(way.name).alias(way.name) for way in out.ways))


def _without(out: Reached, pairs: DataFrame, before: DataFrame, names: Names) -> DataFrame:
    """Pairs that were not reached before."""
    source, target = names.fresh(), names.fresh()
    seen = before.select(F.col(out.source).alias(source), F.col(out.target).alias(target))
    is_seen = (F.col(out.source) == F.col(source)) & (F.col(out.target) == F.col(target))
    return pairs.join(seen, is_seen, "left_anti")
