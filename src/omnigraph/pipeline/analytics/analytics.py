"""`pipeline.analytics`: a call for each measure; it is checked at once and answered later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from omnigraph.errors import InvalidArgument
from omnigraph.graph.access import Action
from omnigraph.graph.history.allowed_states import open_state
from omnigraph.graph.query.target import QueryTarget
from omnigraph.ids import MAIN_BRANCH
from omnigraph.pipeline.analytics.measures import (
    DAMPING,
    MOST_ROUNDS,
    MOST_STEPS,
    TOLERANCE,
    ConnectedComponents,
    Degree,
    LabelPropagation,
    PageRank,
    ShortestPaths,
    StronglyConnectedComponents,
    Triangles,
)
from omnigraph.pipeline.analytics.scope import find_scope
from omnigraph.pipeline.analytics.scores import Scores
from omnigraph.settings import Engine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.graph.history.targets import ReadTarget
    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.pipeline.analytics.measures import Measure
    from omnigraph.pipeline.analytics.scope import Scope
    from omnigraph.pipeline.analytics.scores import Workplace
    from omnigraph.settings import Settings

    Where = Literal["auto", "local", "spark"]


class Analytics:
    """Measures of the nodes that an edge type joins, over all its edges in one snapshot.

    Every call takes the `edge` type, the `branch` whose head is measured (`main` by default) or a
    `snapshot` of it, the `engine`, and `progress`, which is told a `StageProgress` whenever more is
    known. `auto` computes in this process what fits `OMNIGRAPH_PIPELINE_ANALYTICS_LOCAL_BYTES`,
    and all else on Spark.

    Raises:
        InvalidArgument: there is no such edge type, or a parameter is not possible.
        BranchNotFound, CommitNotFound, SnapshotReclaimed: there is no such state.
        ResourceLimit: it is to be computed here and does not fit.
    """

    def __init__(self, place: Workplace) -> None:
        self._place = place

    def degree(
        self,
        *,
        edge: str,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
        engine: Where = "auto",
        progress: Progress | None = None,
    ) -> Scores:
        """`in_degree`, `out_degree` and their sum `degree`; parallel edges and loops count."""
        return self.measure(
            Degree(), edge=edge, branch=branch, snapshot=snapshot, engine=engine, progress=progress
        )

    def pagerank(
        self,
        *,
        edge: str,
        damping: float = DAMPING,
        tol: float = TOLERANCE,
        max_iter: int = MOST_STEPS,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
        engine: Where = "auto",
        progress: Progress | None = None,
    ) -> Scores:
        """`pagerank`; the ranks add up to 1, those of nodes without edges out are spread evenly.

        It ends when a step moves less than `tol` in all, at the latest after `max_iter` steps.
        """
        return self.measure(
            PageRank(damping=damping, tol=tol, max_iter=max_iter),
            edge=edge,
            branch=branch,
            snapshot=snapshot,
            engine=engine,
            progress=progress,
        )

    def connected_components(
        self,
        *,
        edge: str,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
        engine: Where = "auto",
        progress: Progress | None = None,
    ) -> Scores:
        """`component`: the smallest node of those that hang together, whichever way edges go."""
        return self.measure(
            ConnectedComponents(),
            edge=edge,
            branch=branch,
            snapshot=snapshot,
            engine=engine,
            progress=progress,
        )

    def strongly_connected_components(
        self,
        *,
        edge: str,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
        engine: Where = "auto",
        progress: Progress | None = None,
    ) -> Scores:
        """`component`: the smallest node of those that reach each other; never on Spark."""
        return self.measure(
            StronglyConnectedComponents(),
            edge=edge,
            branch=branch,
            snapshot=snapshot,
            engine=engine,
            progress=progress,
        )

    def triangles(
        self,
        *,
        edge: str,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
        engine: Where = "auto",
        progress: Progress | None = None,
    ) -> Scores:
        """`triangles` that a node is in; direction, parallel edges and loops do not count."""
        return self.measure(
            Triangles(),
            edge=edge,
            branch=branch,
            snapshot=snapshot,
            engine=engine,
            progress=progress,
        )

    def label_propagation(
        self,
        *,
        edge: str,
        max_iter: int = MOST_ROUNDS,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
        engine: Where = "auto",
        progress: Progress | None = None,
    ) -> Scores:
        """`label` of a community: that of most neighbours, taken by all at once, again and again.

        Of equally frequent labels the smallest is taken. It ends when nothing changes, at the
        latest after `max_iter` steps.
        """
        return self.measure(
            LabelPropagation(max_iter=max_iter),
            edge=edge,
            branch=branch,
            snapshot=snapshot,
            engine=engine,
            progress=progress,
        )

    def shortest_paths(
        self,
        *,
        edge: str,
        landmarks: Sequence[str],
        weight: str | None = None,
        direction: Literal["out", "in", "both"] = "out",
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
        engine: Where = "auto",
        progress: Progress | None = None,
    ) -> Scores:
        """`landmark` and `distance`: a row for each node and landmark, null where no way leads.

        Edges are counted, or the numbers of their property `weight` are added, none of which may
        be negative. They are followed from the landmark `out`, `in` or in `both` directions.
        """
        return self.measure(
            ShortestPaths(landmarks=landmarks, weight=weight, direction=direction),
            edge=edge,
            branch=branch,
            snapshot=snapshot,
            engine=engine,
            progress=progress,
        )

    def measure(
        self,
        measure: Measure,
        *,
        edge: str,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
        engine: Where = "auto",
        progress: Progress | None = None,
    ) -> Scores:
        """Any measure, for a caller who has it as a value."""
        place = self._place
        state = open_state(place.graph, place.gate, Action.READ, branch=branch, snapshot=snapshot)
        scope = find_scope(state, edge, measure)
        named = MAIN_BRANCH if branch is None and snapshot is None else branch
        return Scores(
            place,
            scope,
            measure,
            target=QueryTarget(branch=named, snapshot=None if snapshot is None else str(snapshot)),
            engine=choose_engine(scope, measure, engine, place.settings),
            progress=progress,
        )


def choose_engine(scope: Scope, measure: Measure, engine: str, settings: Settings) -> Engine:
    """Where a measure is computed: `local` or `spark`.

    Raises:
        InvalidArgument: there is no such engine, or the measure cannot run there.
        ResourceLimit: it can only run in this process, and does not fit.
    """
    if not isinstance(engine, str) or engine not in set(Engine):
        raise InvalidArgument(
            f"engine is 'auto', 'local' or 'spark', not {engine!r}", argument="engine"
        )
    most = settings.pipeline.analytics_local_bytes
    if isinstance(measure, StronglyConnectedComponents):
        if engine == Engine.SPARK:
            raise InvalidArgument(
                f"{measure.name} runs in this process only; leave the engine out, or give 'local'",
                argument="engine",
            )
        scope.require_local(measure, most, "it runs nowhere else:")
        return Engine.LOCAL
    lane = settings.spark.engine if engine == Engine.AUTO else Engine(engine)
    if lane is Engine.LOCAL:
        scope.require_local(measure, most, "give the engine 'spark', or")
    if lane is not Engine.AUTO:
        return lane
    return Engine.LOCAL if scope.local_bytes(measure) <= most else Engine.SPARK
