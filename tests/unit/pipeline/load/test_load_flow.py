"""What both lanes of a load do alike because one flow does it, and what of it a dry run leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.load_jobs import spark_load

from omnigraph import Graph
from omnigraph.errors import ReadOnlyGraph
from omnigraph.failpoints import armed
from omnigraph.graph.jobs.report import JobReport, LoadMode
from omnigraph.graph.load.reject_options import parse_reject_options
from omnigraph.graph.load.request import LoadRequest
from omnigraph.ids import MAIN_BRANCH
from omnigraph.pipeline.sources.request import SourceRequest, plan_source
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS = load_settings({"OMNIGRAPH_DURABILITY": "process"})
ROWS = b"".join(b'{"type": "Person", "data": {"name": "p%d"}}\n' % n for n in range(3))


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    schema = "node Person { name: String @key }"
    with Graph.init(tmp_path / "g", schema=schema, settings=SETTINGS) as graph:
        yield graph


def by_tasks(graph: Graph, path: Path, text: bytes, request: LoadRequest) -> JobReport:
    path.write_bytes(text)
    source = plan_source(SourceRequest(source=str(path)), SETTINGS)
    return spark_load(graph, None, SETTINGS, [source], request).report()


@pytest.mark.parametrize("mode", list(LoadMode))
def test_a_dry_run_tells_what_the_run_then_does_in_both_lanes(
    mode: LoadMode, graph: Graph, tmp_path: Path
) -> None:
    graph.load(ROWS.replace(b': "p', b': "q') if mode is LoadMode.APPEND else ROWS, mode="append")
    asked = LoadRequest(mode=mode, branch=MAIN_BRANCH)
    rehearsed = LoadRequest(mode=mode, branch=MAIN_BRANCH, dry_run=True)
    told = by_tasks(graph, tmp_path / "in.jsonl", ROWS, rehearsed)
    assert told.tables == graph.load(ROWS, mode=mode.value, dry_run=True).tables
    assert (told.commit, told.dry_run) == (None, True)
    assert by_tasks(graph, tmp_path / "in.jsonl", ROWS, asked).tables == told.tables


def test_an_overwrite_by_nothing_warns_alike_in_both_lanes(graph: Graph, tmp_path: Path) -> None:
    asked = LoadRequest(mode=LoadMode.OVERWRITE, branch=MAIN_BRANCH)
    report = by_tasks(graph, tmp_path / "in.jsonl", b"", asked)
    (warning,) = report.warnings
    assert "the input has no rows" in warning
    assert graph.load(b"", mode="overwrite").warnings == report.warnings


def test_only_a_run_that_may_commit_passes_the_points_of_its_beginning(
    graph: Graph, tmp_path: Path
) -> None:
    passed: list[str] = []
    points = ("spark_load.post_open", "spark_load.post_list")
    for dry_run in (True, False):
        request = LoadRequest(mode=LoadMode.MERGE, branch=MAIN_BRANCH, dry_run=dry_run)
        with (
            armed(points[0], lambda: passed.append(points[0])),
            armed(points[1], lambda: passed.append(points[1])),
        ):
            by_tasks(graph, tmp_path / "in.jsonl", ROWS, request)
    assert passed == list(points)


def test_a_graph_that_is_open_read_only_says_so_whatever_else_is_wrong(
    graph: Graph, tmp_path: Path
) -> None:
    with (
        Graph.open(str(graph._graph.storage.location), mode="read_only") as reading,
        reading.pipeline() as pipeline,
        pytest.raises(ReadOnlyGraph),
    ):
        pipeline.load(tmp_path / "none.jsonl", mode="nothing")  # type: ignore[arg-type]


def test_the_operation_that_is_told_first_names_the_commit_and_the_rejects(
    graph: Graph, tmp_path: Path
) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(ROWS + ROWS.replace(b'"name"', b'"nmae"'))
    rejects = parse_reject_options(
        SETTINGS, on_error="quarantine", rejects=tmp_path / "rejects", max_reject_ratio=1.0
    )
    request = LoadRequest(mode=LoadMode.APPEND, branch=MAIN_BRANCH, rejects=rejects)
    told: list[str] = []
    source = plan_source(SourceRequest(source=str(path)), SETTINGS)
    report = spark_load(graph, None, SETTINGS, [source], request, started=told.append).report()
    assert told == [report.operation_id]
    assert [each.name for each in (tmp_path / "rejects").iterdir()] == told
