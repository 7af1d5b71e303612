"""Timestamps of a database are the same instants wherever, and in whatever zone, they are read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from tests.extended import thinned
from tests.spark.derby_tables import DRIVER, TABLE, address, execute, rows_of

from omnigraph import Graph
from omnigraph.errors import SourceError
from omnigraph.pipeline.sources.cursors import near
from omnigraph.pipeline.sources.frames import read_frame
from omnigraph.pipeline.spark.session import PipelineSession
from omnigraph.pipeline.spec.pipeline_spec import Cursor, CursorType, SourceFormat, SourceSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

FEED = """
version: 1
name: feed
mode: append
sources:
  events:
    format: jdbc
    options: {{url: "{url}", dbtable: events, driver: {driver}}}
    cursor: {{column: SEEN, type: timestamp}}{more}
nodes:
  - {{type: Event, from: events, columns: {{name: NAME, at: SEEN}}}}
"""
# Clocks of New York skip 02:30 on March 10 and show 01:30 twice on November 3; those of Lord Howe
# Island skip 02:15 on October 6.
BY_ZONE = {
    "America/New_York": [("a", "2024-03-10 02:30:00"), ("b", "2024-03-10 12:45:00")],
    "UTC": [("c", "2024-03-10 12:46:00"), ("d", "2024-10-06 02:15:00")],
    "Australia/Lord_Howe": [("e", "2024-10-06 02:16:00"), ("f", "2024-11-03 01:30:00")],
}


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    schema = "node Event { name: String @key  at: DateTime? }"
    with Graph.init(tmp_path / "graph", schema=schema) as opened:
        yield opened


def declare(folder: Path, more: str = "") -> Path:
    path = folder / "feed.yaml"
    path.write_text(FEED.format(url=address(folder), driver=DRIVER, more=more))
    return path


def stored(graph: Graph) -> dict[str, str]:
    lines = b"".join(graph.export(types=["Event"])).splitlines()
    found = [json.loads(line)["data"] for line in lines]
    return {each["name"]: each["at"] for each in found}


@pytest.mark.extended
def test_runs_in_three_zones_load_every_row_once_at_the_same_instant(
    tmp_path: Path, graph: Graph
) -> None:
    declare(tmp_path)
    for zone, moments in BY_ZONE.items():
        ended = subprocess.run(
            [sys.executable, "-m", "tests.spark.zoned_driver", str(tmp_path)]
            + [text for moment in moments for text in moment],
            env={**os.environ, "TZ": zone},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=True,
            text=True,
        )
        assert ended.stdout.split() == ["2"]
    rows = [row for moments in BY_ZONE.values() for row in moments]
    assert stored(graph) == {name: f"{at.replace(' ', 'T')}.000Z" for name, at in rows}


def test_a_source_declares_the_zone_of_its_clocks(
    tmp_path: Path, graph: Graph, session: PipelineSession
) -> None:
    path = declare(tmp_path, "\n    timezone: America/New_York")
    pipeline = graph.pipeline(session.spark)
    first = [("winter", "2024-03-10 01:59:00"), ("summer", "2024-03-10 03:00:00")]
    execute(session.spark, tmp_path, [TABLE, *rows_of("events", first)])
    assert pipeline.run(path).cursors == {"events": "2024-03-10T07:00:00.000000Z"}
    execute(session.spark, tmp_path, rows_of("events", [("later", "2024-03-10 03:01:00")]))
    assert pipeline.run(path).tables[0].added == 1
    assert stored(graph) == {
        "later": "2024-03-10T07:01:00.000Z",
        "summer": "2024-03-10T07:00:00.000Z",
        "winter": "2024-03-10T06:59:00.000Z",
    }


FILES = """
version: 1
name: files
mode: append
sources:
  events:
    {{format: {form}, path: events.{form}, options: {options}, timezone: America/New_York}}
nodes:
  - {{type: Event, from: events, columns: {{name: name, at: at}}}}
"""
LOCAL = {"winter": "2024-03-10 01:59:00", "skipped": "2024-03-10 02:30:00"}
TEXTS = {
    "csv": "name,at\n" + "".join(f"{name},{at}\n" for name, at in LOCAL.items()),
    "json": "".join(f'{{"name":"{name}","at":"{at}"}}\n' for name, at in LOCAL.items()),
}


@pytest.mark.parametrize("form", thinned(["csv", "parquet", "orc", "json"], keep=3))
def test_files_have_times_of_the_zone_that_their_source_declares(
    tmp_path: Path, graph: Graph, session: PipelineSession, form: str
) -> None:
    path = tmp_path / f"events.{form}"
    if form in TEXTS:
        path.write_text(TEXTS[form])
    else:
        moments = [datetime.fromisoformat(at) for at in LOCAL.values()]
        table = pa.table({"name": list(LOCAL), "at": pa.array(moments, pa.timestamp("us"))})
        (pq if form == "parquet" else orc).write_table(table, path)
    options = {"csv": "{inferSchema: true}", "json": "{inferTimestamp: true}"}.get(form, "{}")
    file = tmp_path / "files.yaml"
    file.write_text(FILES.format(form=form, options=options))
    graph.pipeline(session.spark).run(file)
    assert stored(graph) == {
        "skipped": "2024-03-10T07:30:00.000Z",
        "winter": "2024-03-10T06:59:00.000Z",
    }


def test_a_file_without_zones_has_times_in_utc_and_a_cursor_follows_them(
    tmp_path: Path, graph: Graph, session: PipelineSession
) -> None:
    file = tmp_path / "files.yaml"
    text = FILES.format(form="parquet", options="{}").replace("append", "merge")
    followed = "cursor: {column: at, type: timestamp, lag: 1h}"
    file.write_text(text.replace("timezone: America/New_York", followed))
    pipeline = graph.pipeline(session.spark)
    for at in ("02:30", "02:20", "12:45"):
        moment = datetime.fromisoformat(f"2024-03-10 {at}")
        table = pa.table({"name": [at], "at": pa.array([moment], pa.timestamp("us"))})
        pq.write_table(table, tmp_path / "events.parquet")
        report = pipeline.run(file)
        assert [each.added for each in report.tables] == [1]
    assert report.cursors == {"events": "2024-03-10T12:45:00.000000Z"}
    assert stored(graph) == {at: f"2024-03-10T{at}:00.000Z" for at in ("02:20", "02:30", "12:45")}


def test_a_cursor_over_local_times_is_left_to_the_database(
    tmp_path: Path, session: PipelineSession
) -> None:
    execute(session.spark, tmp_path, [TABLE, *rows_of("events", LOCAL.items())])
    options = {"url": address(tmp_path), "dbtable": "events", "driver": DRIVER}
    spec = SourceSpec(
        name="events", format=SourceFormat.JDBC, options=options, timezone="America/New_York"
    )
    cursor = Cursor(column="SEEN", type=CursorType.TIMESTAMP)
    around = near(cursor, "2024-03-10T07:00:00.000000Z", "2024-03-10T08:00:00.000000Z")
    frame = read_frame(session, spec, near=around)
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "GreaterThanOrEqual(SEEN,2024-03-09T03:00)" in plan
    assert "LessThanOrEqual(SEEN,2024-03-11T04:00)" in plan
    assert frame.count() == 2
    assert near(cursor, None) is None


def test_a_java_of_another_zone_is_refused_with_the_option_that_it_needs(
    tmp_path: Path, graph: Graph, session: PipelineSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert session.time_zone() == "UTC"
    execute(session.spark, tmp_path, [TABLE])
    monkeypatch.setattr(PipelineSession, "time_zone", lambda _: "Asia/Tokyo")
    with pytest.raises(SourceError, match=r"Asia/Tokyo.*-Duser\.timezone=UTC"):
        graph.pipeline(session.spark).run(declare(tmp_path))
