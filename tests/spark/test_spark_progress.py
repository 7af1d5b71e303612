"""Whoever watches a job on Spark is told rows and bytes, and in the end the exact ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from omnigraph.graph.jobs.stage_progress import StageProgress
    from omnigraph.pipeline.pipeline import Pipeline
    from omnigraph.pipeline.spark.session import PipelineSession

PEOPLE = 2_000


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Graph]:
    monkeypatch.setenv("OMNIGRAPH_PIPELINE_SPLIT_BYTES", "65536")
    with Graph.init(tmp_path / "g", schema="node Person { name: String @key }") as made:
        yield made


@pytest.fixture
def pipeline(graph: Graph, session: PipelineSession) -> Iterator[Pipeline]:
    with graph.pipeline(session.spark) as opened:
        yield opened


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """Two files of several splits each."""
    folder = tmp_path / "in"
    folder.mkdir()
    for part in range(2):
        with (folder / f"{part}.jsonl").open("w") as file:
            for number in range(PEOPLE // 2):
                name = f"{part}-{number:0100}"
                file.write(json.dumps({"type": "Person", "data": {"name": name}}) + "\n")
    return folder


def test_the_events_of_a_load_end_at_the_bytes_of_the_input_and_the_rows_read(
    pipeline: Pipeline, people: Path
) -> None:
    told: list[StageProgress] = []
    report = pipeline.load(people, mode="append", progress=told.append)
    size_bytes = sum(file.stat().st_size for file in people.iterdir())
    intake = [each for each in told if each.stage == "intake"]
    assert {each.total_bytes for each in intake} == {size_bytes}
    so_far = [each.bytes for each in intake if each.bytes is not None]
    assert so_far == sorted(so_far)
    assert intake[-1].total == report.stages[1].tasks > 2
    assert (intake[-1].done, intake[-1].rows, intake[-1].bytes) == (
        intake[-1].total,
        PEOPLE,
        size_bytes,
    )
    later = [each for each in told[told.index(intake[-1]) :] if each.stage != "intake"]
    assert {each.stage for each in later} == {"check", "resolve", "commit"}
    assert {each.total_rows for each in later} == {PEOPLE}


def test_the_rows_of_parquet_files_are_told_while_they_are_read(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    path = tmp_path / "people.parquet"
    names = [f"p{number}" for number in range(400)]
    pq.write_table(pa.table({"name": names}), path, row_group_size=100)
    told: list[StageProgress] = []
    pipeline.load(path, mode="append", type="Person", progress=told.append)
    shares = [each for each in told if each.stage == "intake" and each.total]
    assert all(each.rows == 400 * each.done // 4 for each in shares)
    assert (shares[-1].done, shares[-1].bytes) == (4, path.stat().st_size)


def test_the_rows_of_a_frame_are_told_when_it_was_read(
    pipeline: Pipeline, session: PipelineSession
) -> None:
    told: list[StageProgress] = []
    frame = session.spark.range(300).selectExpr("CAST(id AS STRING) AS name")
    pipeline.load(frame, mode="append", type="Person", progress=told.append)
    (*_, last) = [each for each in told if each.stage == "intake"]
    assert (last.rows, last.bytes, last.total_bytes) == (300, None, None)


def test_the_events_of_an_export_end_at_the_rows_of_the_graph(
    pipeline: Pipeline, people: Path, tmp_path: Path
) -> None:
    pipeline.load(people, mode="append")
    told: list[StageProgress] = []
    pipeline.export(tmp_path / "out", progress=told.append)
    (*_, last) = [each for each in told if each.stage == "write"]
    assert (last.rows, last.total_rows) == (PEOPLE, PEOPLE)
    assert (told[-1].stage, told[-1].total_rows) == ("publish", PEOPLE)


def test_what_an_interrupt_cancelled_and_removed_is_noted(pipeline: Pipeline, people: Path) -> None:
    def interrupt(told: StageProgress) -> None:
        if told.stage == "check":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        pipeline.load(people, mode="append", progress=interrupt)
    (note,) = caught.value.__notes__
    assert note.endswith("were removed")
    assert int(note.split()[0].replace(",", "")) >= 1
