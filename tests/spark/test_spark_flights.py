"""`examples/flights` from end to end: mistakes, dirt, cursors, a kill, queries and an export."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.derby_tables import address, execute

from omnigraph import Graph
from omnigraph.errors import InvalidArgument, SourceError

if TYPE_CHECKING:
    from types import ModuleType

    from omnigraph.pipeline.spark.session import PipelineSession

PROJECT = Path(__file__).parents[2]
EXAMPLE = PROJECT / "examples" / "flights"
TABLE = "CREATE TABLE departures (code VARCHAR(40), left_at TIMESTAMP, updated_at TIMESTAMP)"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("flights_generate", EXAMPLE / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["flights_generate"] = module
    spec.loader.exec_module(module)
    return module


def kept(rows: list[Any]) -> dict[str, Any]:
    """The flights that are loaded, each as its last row says."""
    by_code: dict[str, Any] = {}
    for row in sorted(rows, key=lambda each: each.updated_at):
        by_code[row.code] = row
    return {code: row for code, row in by_code.items() if row.delay != "late"}


def codes(graph: Graph) -> set[str]:
    return {str(row["code"]) for row in graph.query(
        "query q() { match { $f: Flight } return { $f.code as code } }"
    ).to_dicts()}  # fmt: skip


@pytest.mark.extended
def test_the_first_day_with_real_sources(
    tmp_path: Path,
    session: PipelineSession,
    java: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    example, folder = generator(), tmp_path / "flights"
    rows = example.write(folder)
    for each in EXAMPLE.glob("*.yaml"):
        shutil.copy(each, folder)
    queries = (EXAMPLE / "queries.gq").read_text()
    with Graph.init(tmp_path / "graph", schema=(EXAMPLE / "schema.pg").read_text()) as graph:
        pipeline = graph.pipeline(session.spark)

        with pytest.raises((SourceError, InvalidArgument)) as refused:
            pipeline.run(folder / "pipeline-first.yaml")
        assert "pipeline-first.yaml:" in refused.value.message
        assert not codes(graph)

        report = pipeline.run(folder / "pipeline.yaml")
        flights = kept(rows)
        assert codes(graph) == flights.keys()
        assert {table.table: table.added for table in report.tables} == {
            "node:Airline": 3,
            "node:Airport": 7,
            "node:Flight": len(flights),
            "node:Plane": len({"N1", "N2", "N3", "N4"} | {r.tailnum for r in rows} - {"NA"}),
            "edge:Arrives": len(flights) - 1,
            "edge:Departs": len(flights),
            "edge:FlownBy": sum(row.tailnum != "NA" for row in flights.values()),
            "edge:RunBy": len(flights),
        }
        assert report.rejects_uri is not None
        rejects = (Path(report.rejects_uri) / "rejects.ndjson").read_text().splitlines()
        found = [json.loads(line) for line in rejects]
        assert {each["code"] for each in found} == {"type_error", "orphan_edge"}
        assert any("late" in each["message"] for each in found)
        assert pipeline.run(folder / "pipeline.yaml").already_loaded

        late = graph.query(queries, name="late", params={"least": 90}).to_dicts()
        expected = {
            code for code, row in flights.items() if row.delay == "95" and row.dest != "ZZZ"
        }
        assert {row["code"] for row in late} == expected
        unlisted = graph.query(queries, name="unlisted").to_dicts()
        assert [row["tail"] for row in unlisted] == ["N7", "N8"]

        follow_departures(
            example, sorted(flights)[:6], graph, pipeline, session, folder, monkeypatch
        )
        survive_a_kill(example, rows, graph, session, folder, java)

        graph.branches.create("what-if")
        graph.load(
            b'{"type":"Airline","data":{"carrier":"ZZ","name":"Zed"}}\n',
            mode="append",
            branch="what-if",
        )
        graph.branches.merge("what-if")
        assert graph.snapshot().entity("Airline", "ZZ") is not None
        told = pipeline.export(str(tmp_path / "dump"), format="parquet")
        assert (tmp_path / "dump" / "_manifest.json").exists()
        assert {table.table: table.read for table in told.tables}["node:Airline"] == 4


def follow_departures(
    example: ModuleType,
    codes: list[str],
    graph: Graph,
    pipeline: Any,  # noqa: ANN401 - of the graph
    session: PipelineSession,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two runs read what is new, as instants; a third finds nothing."""
    monkeypatch.setenv("FLIGHTS_DB", address(folder))
    execute(session.spark, folder, [TABLE, *example.departures(codes[:4])])
    for added, whole in ((4, codes[:4]), (2, codes)):
        report = pipeline.run(folder / "departures.yaml")
        assert [(table.read, table.changed) for table in report.tables] == [(added, added)]
        for at, code in enumerate(whole):
            day = datetime.fromisoformat(code[-10:]).replace(tzinfo=UTC)
            hours = 8 + at % 12 + (5 if day.day < 10 else 4)
            left = graph.snapshot().entity("Flight", code)
            assert left is not None
            moment = datetime.fromisoformat(str(left["left_at"]))
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            assert (moment - day).total_seconds() == hours * 3_600 + 1_800
        execute(session.spark, folder, example.departures(codes[4:], start=4) if added == 4 else [])
    assert pipeline.run(folder / "departures.yaml").commit is None


def survive_a_kill(
    example: ModuleType,
    rows: list[Any],
    graph: Graph,
    session: PipelineSession,
    folder: Path,
    java: dict[str, str],
) -> None:
    """A run dies after its checks; the graph is as before, and the same run again loads all."""
    more = [*rows, *example.flights(10, 7, first=40)]
    example.write_flights(folder / "flights.csv", more)
    before, head = codes(graph), graph.commits.list().commits[0].graph_commit_id
    command = [sys.executable, "-m", "tests.spark.flights_driver", str(folder.parent / "graph")]
    command += [str(folder / "pipeline.yaml"), "spark_load.post_check"]
    ended = subprocess.run(command, cwd=PROJECT, env=environment(java), check=False)
    assert ended.returncode == 9
    assert (codes(graph), graph.commits.list().commits[0].graph_commit_id) == (before, head)
    with Graph.open(folder.parent / "graph") as again:
        again.pipeline(session.spark).run(folder / "pipeline.yaml")
    graph.refresh()
    assert codes(graph) == kept(more).keys()


def environment(java: dict[str, str]) -> dict[str, str]:
    return {**os.environ, **java}
