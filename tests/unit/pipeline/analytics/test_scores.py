"""`pipeline.analytics` without Spark: rows, their order, what is written, what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.measured_graphs import make_graph, make_roads

from omnigraph import Graph
from omnigraph.errors import (
    BranchNotFound,
    InvalidArgument,
    LoadRejected,
    PolicyError,
    ReadOnlyGraph,
    ResourceLimit,
)
from omnigraph.policy import load_policy
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from omnigraph.pipeline.analytics.analytics import Analytics
    from omnigraph.pipeline.analytics.scores import Scores

    Ask = Callable[[Analytics], object]

ROADS = make_roads(11)
ONLY_READS = """
version: 1
groups: {readers: [act-reader]}
rules:
  - id: readers-read
    allow: {actors: {group: readers}, actions: [read], branch_scope: any}
"""


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever would start Spark, or use one that other tests have left, fails."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("this needs no Spark")

    monkeypatch.setattr("omnigraph.pipeline.pipeline.open_reachable_session", refuse)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with make_graph(tmp_path_factory.mktemp("roads") / "graph", ROADS) as opened:
        yield opened


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    """One that a test may change."""
    with make_graph(tmp_path / "graph", ROADS) as opened:
        yield opened


@pytest.fixture
def analytics(stored: Graph) -> Analytics:
    return stored.pipeline().analytics


MEASURES: dict[str, Callable[[Analytics], Scores]] = {
    "degree": lambda a: a.degree(edge="Road"),
    "pagerank": lambda a: a.pagerank(edge="Road"),
    "connected_components": lambda a: a.connected_components(edge="Road"),
    "strongly_connected_components": lambda a: a.strongly_connected_components(edge="Road"),
    "triangles": lambda a: a.triangles(edge="Road"),
    "label_propagation": lambda a: a.label_propagation(edge="Road"),
    "shortest_paths": lambda a: a.shortest_paths(edge="Road", landmarks=["p0"], weight="length"),
}


@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_has_a_row_for_each_node_in_order(name: str, analytics: Analytics) -> None:
    scores = MEASURES[name](analytics)
    rows = scores.to_arrow()
    assert rows["type"].unique().to_pylist() == ["Place"]
    assert rows["id"].to_pylist() == ROADS.ids
    assert rows.column_names == scores.columns
    assert scores.to_arrow() is rows
    result = scores.result()
    assert (result.query_name, str(result.target)) == (name, "branch main")
    assert result.to_csv().startswith("type,id,")


def test_nodes_of_two_types_are_told_apart(analytics: Analytics) -> None:
    rows = analytics.connected_components(edge="Seat").to_arrow().to_pylist()
    assert [row["type"] for row in rows] == ["Firm"] * 20 + ["Place"] * 40
    found = {(row["type"], row["id"]): row["component"] for row in rows}
    joined = [("Firm", 0), ("Firm", 1), ("Place", 0), ("Place", 1)]
    assert {found[name, ROADS.ids[at]] for name, at in joined} == {f"Firm:{ROADS.ids[0]}"}
    assert found["Place", ROADS.ids[3]] == f"Firm:{ROADS.ids[2]}"
    assert found["Place", ROADS.ids[5]] == f"Place:{ROADS.ids[5]}"
    assert found["Firm", ROADS.ids[5]] == f"Firm:{ROADS.ids[5]}"


def test_distances_have_a_row_for_each_landmark(analytics: Analytics) -> None:
    wanted = ["Place:p7", "Firm:p0", "Firm:p0"]
    rows = analytics.shortest_paths(edge="Seat", landmarks=wanted, direction="both").to_arrow()
    assert rows.num_rows == 2 * 60
    keys = list(zip(rows["type"].to_pylist(), rows["id"].to_pylist(), strict=True))
    assert keys[::2] == keys[1::2] == sorted(keys[::2])
    assert rows["landmark"].to_pylist()[:2] == ["Firm:p0", "Place:p7"]
    assert rows.schema.field("distance").type == pa.int64()


def test_a_result_of_more_text_than_an_array_holds_is_made_in_parts(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask() -> list[Scores]:
        analytics = graph.pipeline().analytics
        far = analytics.shortest_paths(edge="Road", landmarks=["p0", "p14", "p7"])
        return [far, analytics.connected_components(edge="Road")]

    whole = [scores.to_arrow() for scores in ask()]
    monkeypatch.setattr("omnigraph.pipeline.analytics.local.compute._ROWS_AT_ONCE", 7)
    far, components = ask()
    assert [far.to_arrow(), components.to_arrow()] == whole
    for column in ("type", "id", "landmark"):
        assert max(map(len, far.to_arrow()[column].chunks)) == 7
    components.write_to("Place.part")
    rows = graph.snapshot().scan("Place", columns=["id", "part"]).read_all().sort_by("id")
    assert rows["part"].to_pylist() == whole[1]["component"].to_pylist()


def test_values_are_written_as_one_commit_and_nothing_else_changes(graph: Graph) -> None:
    graph.mutate('query q() { update Place set { note: "kept", number: 5 } where name = "p0" }')
    graph.branches.create("draft")
    before = graph.snapshot(branch="draft")
    scores = graph.pipeline().analytics.connected_components(edge="Seat", branch="draft")
    report = scores.write_to("Place.part", branch="draft")
    assert report.commit is not None
    after = graph.snapshot(branch="draft")
    assert (after.seq, after.graph_commit_id) == (before.seq + 1, report.commit.graph_commit_id)
    assert graph.snapshot().graph_commit_id != after.graph_commit_id
    (table,) = report.tables
    assert (table.table, table.added, table.changed) == ("node:Place", 0, 40)
    rows = after.scan("Place").read_all().sort_by("id")
    ours = scores.to_arrow().slice(20)
    assert rows["part"].to_pylist() == ours["component"].to_pylist()
    was = before.scan("Place").read_all().sort_by("id")
    assert rows.drop_columns(["part"]).equals(was.drop_columns(["part"]))
    assert scores.write_to("Place.part", branch="draft").commit is None


def test_what_no_way_leads_to_is_null_and_replaces_old_values(graph: Graph) -> None:
    graph.mutate("query q() { update Place set { number: 99 } where name is not null }")
    scores = graph.pipeline().analytics.shortest_paths(edge="Road", landmarks=["p0"])
    scores.write_to("Place.number")
    rows = graph.snapshot().scan("Place", columns=["id", "number"]).read_all().sort_by("id")
    assert rows["number"].to_pylist() == scores.to_arrow()["distance"].to_pylist()
    assert rows["number"].null_count


def test_one_of_several_columns_is_written_by_its_name(graph: Graph) -> None:
    scores = graph.pipeline().analytics.degree(edge="Road")
    for column, name in ((None, "degree"), ("in_degree", "in_degree")):
        scores.write_to("Place.number", column=column)
        rows = graph.snapshot().scan("Place", columns=["id", "number"]).read_all().sort_by("id")
        assert rows["number"].to_pylist() == scores.to_arrow()[name].to_pylist()


def test_the_state_is_that_of_the_question(graph: Graph) -> None:
    first = graph.snapshot().graph_commit_id
    now = graph.pipeline().analytics.degree(edge="Road")
    graph.mutate('query q() { insert Road { from: "p0", to: "p7" } }')
    then = graph.pipeline().analytics.degree(edge="Road", snapshot=first)
    later = graph.pipeline().analytics.degree(edge="Road")
    assert now.to_arrow().equals(then.to_arrow())
    assert not now.to_arrow().equals(later.to_arrow())
    assert (then.graph_commit_id, str(then.result().target)) == (first, f"snapshot {first}")


def test_a_node_that_is_gone_meanwhile_refuses_the_write(graph: Graph) -> None:
    scores = graph.pipeline().analytics.pagerank(edge="Road")
    graph.mutate('query q() { delete Place where name = "p0" }')
    with pytest.raises(LoadRejected, match="p0"):
        scores.write_to("Place.rank")
    assert graph.snapshot().scan("Place", columns=["rank"]).read_all()["rank"].null_count == 39


WRONG: list[tuple[Ask, str]] = [
    (lambda a: a.degree(edge="Raod"), r"no edge type `Raod`; did you mean `Road`\?"),
    (lambda a: a.degree(edge="Place"), "'Place' is a node type"),
    (lambda a: a.degree(edge="Road", engine="fast"), "engine is 'auto', 'local' or 'spark'"),  # type: ignore[arg-type]
    (
        lambda a: a.degree(edge="Road", branch="main", snapshot=1),
        "a branch or a snapshot, not both",
    ),
    (lambda a: a.pagerank(edge="Road", damping=1), "damping is at least 0 and below 1, not 1"),
    (lambda a: a.pagerank(edge="Road", tol=float("nan")), "tol is a number above 0, not nan"),
    (lambda a: a.pagerank(edge="Road", max_iter=0), "max_iter is a whole number above 0, not 0"),
    (lambda a: a.label_propagation(edge="Road", max_iter=True), "whole number above 0, not True"),
    (lambda a: a.shortest_paths(edge="Road", landmarks=[]), "give at least one"),
    (lambda a: a.shortest_paths(edge="Road", landmarks=None), "give at least one"),  # type: ignore[arg-type]
    (lambda a: a.shortest_paths(edge="Road", landmarks=["\ud800"]), "give at least one"),
    (
        lambda a: a.shortest_paths(edge="Road", landmarks=["p0"], weight=3),  # type: ignore[arg-type]
        "weight is the name of a property, not 3",
    ),
    (lambda a: a.shortest_paths(edge="Road", landmarks="p0"), r"not one text; give \['p0'\]"),
    (
        lambda a: a.shortest_paths(edge="Road", landmarks=[str(n) for n in range(101)]),
        "101 landmarks are given and 100 are possible",
    ),
    (lambda a: a.shortest_paths(edge="Seat", landmarks=["p0"]), "is written Firm:id or Place:id"),
    (
        lambda a: a.shortest_paths(edge="Road", landmarks=["p0"], direction="up"),  # type: ignore[arg-type]
        "direction is one of 'out', 'in', 'both', not 'up'",
    ),
    (
        lambda a: a.shortest_paths(edge="Road", landmarks=["p0"], weight="lenght"),
        r"Road has no property `lenght`; did you mean `length`\?",
    ),
    (
        lambda a: a.shortest_paths(edge="Road", landmarks=["nowhere"]).to_arrow(),
        "no Place with the id of the landmark 'nowhere'",
    ),
]


@pytest.mark.parametrize(("ask", "match"), WRONG, ids=[match for _, match in WRONG])
def test_a_wrong_question_is_refused(ask: Ask, match: str, analytics: Analytics) -> None:
    with pytest.raises(InvalidArgument, match=match):
        ask(analytics)


UNWRITABLE = [
    ("pagerank", "Place.part", None, r"is String\?, and pagerank .* declared as `part: F64\?`"),
    ("degree", "Place.rank", None, r"is F64\?, and degree of degree is I64"),
    ("connected_components", "Place.name", None, "is in the key of Place"),
    ("pagerank", "Place.rnk", None, r"no property `rnk`; did you mean `rank`\?"),
    ("pagerank", "Firm.rank", None, "Road joins no nodes of the type `Firm`"),
    ("pagerank", "rank", None, "is written as Place.name, not 'rank'"),
    ("degree", "Place.number", "in", "degree has no column `in`"),
]


@pytest.mark.parametrize(("name", "target", "column", "match"), UNWRITABLE)
def test_what_a_property_cannot_take_is_refused_before_anything_runs(
    name: str,
    target: str,
    column: str | None,
    match: str,
    analytics: Analytics,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(*_: object) -> None:
        raise AssertionError("it was measured")

    monkeypatch.setattr("omnigraph.pipeline.analytics.scores.compute_here", run)
    with pytest.raises(InvalidArgument, match=match):
        MEASURES[name](analytics).write_to(target, column=column)
    with pytest.raises(InvalidArgument, match="write those from one landmark at a time"):
        analytics.shortest_paths(edge="Road", landmarks=["p0", "p7"]).write_to("Place.number")


def test_weights_that_cannot_be_added_are_refused(graph: Graph) -> None:
    graph.mutate('query q() { insert Road { from: "p0", to: "p7" } }')
    graph.mutate('query q() { insert Road { from: "p0", to: "p7", length: -1.0 } }')
    analytics = graph.pipeline().analytics
    wrong = analytics.shortest_paths(edge="Road", landmarks=["p0"], weight="length")
    with pytest.raises(InvalidArgument, match=r"1 without a weight .* and 1 with a negative one"):
        wrong.to_arrow()


def test_a_measure_that_does_not_fit_goes_to_spark_or_is_refused(
    graph: Graph, tmp_path: Path
) -> None:
    few = {"OMNIGRAPH_PIPELINE_ANALYTICS_LOCAL_BYTES": "1000"}
    with Graph.open(tmp_path / "graph", settings=load_settings(few)) as small:
        analytics = small.pipeline().analytics
        assert analytics.degree(edge="Road").engine == "spark"
        with pytest.raises(ResourceLimit, match=r"about 2,480 bytes .* give the engine 'spark'"):
            analytics.degree(edge="Road", engine="local")
        with pytest.raises(ResourceLimit, match="it runs nowhere else"):
            analytics.strongly_connected_components(edge="Road")
    by_setting = load_settings({"OMNIGRAPH_ENGINE": "spark"})
    with Graph.open(tmp_path / "graph", settings=by_setting) as chosen:
        analytics = chosen.pipeline().analytics
        assert analytics.degree(edge="Road").engine == "spark"
        assert analytics.degree(edge="Road", engine="local").engine == "local"
        assert analytics.strongly_connected_components(edge="Road").engine == "local"
    assert graph.pipeline().analytics.degree(edge="Road").engine == "local"


def test_reading_and_writing_ask_the_policy(graph: Graph, tmp_path: Path) -> None:
    bundle = tmp_path / "policy.yaml"
    bundle.write_text(ONLY_READS, encoding="utf-8")
    with Graph.open(tmp_path / "graph", policy=load_policy(bundle), actor="act-reader") as guarded:
        scores = guarded.pipeline().analytics.pagerank(edge="Road")
        assert scores.to_arrow().num_rows == 40
        with pytest.raises(PolicyError, match="change"):
            scores.write_to("Place.rank")
        with pytest.raises(PolicyError, match="read"):
            guarded.as_actor("act-other").pipeline().analytics.pagerank(edge="Road")
    assert graph.snapshot().scan("Place", columns=["rank"]).read_all()["rank"].null_count == 40


@pytest.mark.usefixtures("graph")
def test_a_graph_that_is_open_for_reading_is_measured_and_not_written(tmp_path: Path) -> None:
    with Graph.open(tmp_path / "graph", mode="read_only") as opened:
        scores = opened.pipeline().analytics.triangles(edge="Road")
        assert scores.to_arrow().num_rows == 40
        with pytest.raises(ReadOnlyGraph):
            scores.write_to("Place.number")
        with pytest.raises(BranchNotFound):
            opened.pipeline().analytics.triangles(edge="Road", branch="gone")


def test_progress_tells_reading_and_computing(analytics: Analytics) -> None:
    told: list[str] = []
    analytics.pagerank(edge="Road", progress=lambda at: told.append(at.stage)).to_arrow()
    assert list(dict.fromkeys(told)) == ["topology", "compute"]
