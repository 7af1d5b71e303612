"""Measures on Spark: the rows of this process, in the same order; written as one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.measured_graphs import make_graph, make_roads

from omnigraph.errors import InvalidArgument, ResourceLimit
from omnigraph.pipeline.analytics.measures import (
    ConnectedComponents,
    Degree,
    LabelPropagation,
    Measure,
    PageRank,
    ShortestPaths,
    Triangles,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from omnigraph import Graph
    from omnigraph.pipeline.pipeline import Pipeline
    from omnigraph.pipeline.spark.session import PipelineSession

_SIZES = [(14, 18), (30, 20), (25, 90), (1, 1), (60, 45)]
_ALL_SEEDS = 20
_SOME_SEEDS = 3
_CASES = [
    # One iteration and one that depends on what it finds; each measure takes seconds on Spark.
    pytest.param(0, slice(1, 3)),
    *(pytest.param(seed, slice(None), marks=pytest.mark.extended) for seed in range(_SOME_SEEDS)),
    *(
        pytest.param(seed, slice(None), marks=pytest.mark.slow)
        for seed in range(_SOME_SEEDS, _ALL_SEEDS)
    ),
]


def measures(landmarks: list[str]) -> list[Measure]:
    return [
        Degree(),
        PageRank(max_iter=4, tol=1e-12),
        ConnectedComponents(),
        Triangles(),
        LabelPropagation(max_iter=3),
        ShortestPaths(landmarks=landmarks),
        ShortestPaths(landmarks=landmarks[:1], weight="length", direction="both"),
    ]


def require_equal(found: pa.Table, expected: pa.Table) -> None:
    """Equal rows in equal order; ranks are sums, whose last digits depend on their order."""
    assert found.schema.equals(expected.schema)
    if "pagerank" in found.column_names:
        ours, theirs = (table["pagerank"].to_numpy() for table in (found, expected))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-13)
        found, expected = (table.drop_columns(["pagerank"]) for table in (found, expected))
    assert found.equals(expected)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with make_graph(tmp_path_factory.mktemp("roads") / "graph", make_roads(7)) as opened:
        yield opened


@pytest.fixture
def pipeline(graph: Graph, session: PipelineSession) -> Pipeline:
    return graph.pipeline(session.spark)


@pytest.mark.parametrize(("seed", "some"), _CASES)
def test_spark_measures_what_this_process_does(
    seed: int, some: slice, tmp_path: Path, session: PipelineSession
) -> None:
    nodes, edges = _SIZES[seed % len(_SIZES)]
    roads = make_roads(seed, nodes=nodes, edges=edges)
    starts = sorted({roads.ids[int(roads.sources[0])], roads.ids[-1]})
    with make_graph(tmp_path / "graph", roads) as graph:
        analytics = graph.pipeline(session.spark).analytics
        for measure in measures(starts)[some]:
            here, spread = (
                analytics.measure(measure, edge="Road", engine=engine)
                for engine in ("local", "spark")
            )
            require_equal(spread.to_arrow(), here.to_arrow())


@pytest.mark.extended
def test_nodes_of_two_types_with_equal_ids_stay_apart(pipeline: Pipeline) -> None:
    for measure in (ConnectedComponents(), ShortestPaths(landmarks=["Firm:p0"], direction="both")):
        here, spread = (
            pipeline.analytics.measure(measure, edge="Seat", engine=engine)
            for engine in ("local", "spark")
        )
        require_equal(spread.to_arrow(), here.to_arrow())


def test_values_of_spark_are_written_as_one_commit(graph: Graph, pipeline: Pipeline) -> None:
    graph.mutate('query q() { update Place set { note: "kept" } where name = "p0" }')
    before = graph.snapshot()
    scores = pipeline.analytics.pagerank(edge="Road", engine="spark", max_iter=2)
    report = scores.write_to("Place.rank")
    after = graph.snapshot()
    assert (report.engine, after.seq) == ("spark", before.seq + 1)
    rows = after.scan("Place", columns=["id", "rank"]).read_all().sort_by("id")
    assert rows["rank"].combine_chunks().equals(scores.to_arrow()["pagerank"].combine_chunks())
    kept = graph.query("query q() { match { $p: Place $p.note is not null } return { $p.note } }")
    assert kept.to_dicts() == [{"p.note": "kept"}]
    assert scores.write_to("Place.rank").commit is None


@pytest.mark.extended
def test_a_weight_may_be_called_like_a_column_of_ours(
    tmp_path: Path, session: PipelineSession
) -> None:
    roads = make_roads(4, nodes=9, edges=12)
    with make_graph(tmp_path / "graph", roads) as graph:
        measure = ShortestPaths(landmarks=roads.ids[:1], weight="node", direction="both")
        analytics = graph.pipeline(session.spark).analytics
        here, spread = (
            analytics.measure(measure, edge="Road", engine=engine) for engine in ("local", "spark")
        )
        require_equal(spread.to_arrow(), here.to_arrow())


@pytest.mark.extended
def test_frames_are_ordered_whatever_computed_them(pipeline: Pipeline) -> None:
    for engine in ("local", "spark"):
        scores = pipeline.analytics.degree(edge="Road", engine=engine)
        frame = scores.df
        assert frame.columns == ["type", "id", "in_degree", "out_degree", "degree"]
        assert frame.toArrow().equals(scores.to_arrow().cast(frame.toArrow().schema))


def test_what_cannot_be_measured_on_spark_is_refused(pipeline: Pipeline) -> None:
    with pytest.raises(InvalidArgument, match="no Place with the id of the landmark 'nowhere'"):
        pipeline.analytics.shortest_paths(
            edge="Road", landmarks=["nowhere"], engine="spark"
        ).to_arrow()
    with pytest.raises(InvalidArgument, match="runs in this process only"):
        pipeline.analytics.strongly_connected_components(edge="Road", engine="spark")


def test_wrong_weights_and_rows_that_do_not_fit_are_refused(
    tmp_path: Path, session: PipelineSession
) -> None:
    few = {"OMNIGRAPH_PIPELINE_ANALYTICS_LOCAL_BYTES": "500"}
    with make_graph(tmp_path / "graph", make_roads(2, nodes=20, edges=9), **few) as graph:
        graph.mutate('query q() { insert Road { from: "p0", to: "p7" } }')
        graph.mutate('query q() { insert Road { from: "p0", to: "p7", length: -1.0 } }')
        analytics = graph.pipeline(session.spark).analytics
        wrong = analytics.shortest_paths(edge="Road", landmarks=["p0"], weight="length")
        assert wrong.engine == "spark"
        with pytest.raises(ResourceLimit, match=r"take them as a frame \(\.df\)"):
            wrong.to_arrow()
        with pytest.raises(InvalidArgument, match=r"has 1 without a weight .* and 1 with a neg"):
            _ = wrong.df


def test_frames_are_what_graphframes_takes(pipeline: Pipeline) -> None:
    assert pipeline.read(type="Place", columns=["id", "name"]).columns == ["id", "name"]
    assert pipeline.read(type="Place").columns[0] == "id"
    assert pipeline.read(edge="Road").columns[:3] == ["id", "src", "dst"]


@pytest.mark.extended
def test_checkpoints_are_made_where_the_setting_says(
    tmp_path: Path, session: PipelineSession
) -> None:
    if session.classic_context is None:
        pytest.skip("over Spark Connect the server says where checkpoints are")
    where = tmp_path / "checkpoints"
    given = {"OMNIGRAPH_PIPELINE_CHECKPOINT_URI": str(where)}
    with make_graph(tmp_path / "graph", make_roads(3, nodes=6, edges=6), **given) as graph:
        graph.pipeline(session.spark).analytics.degree(edge="Road", engine="spark").to_arrow()
    assert list(where.rglob("part-*"))
