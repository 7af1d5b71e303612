"""SQL over other sources of the file, and mappings that keep one row of several."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidArgument, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from omnigraph.pipeline.pipeline import Pipeline
    from omnigraph.pipeline.spark.session import PipelineSession

SCHEMA = """
node Plane { tail: String @key  year: I32?  isKnown: Bool? }
node Carrier { code: String @key }
node Flight { number: String @key  delay: I32? }
edge FlownBy: Flight -> Plane
"""

FLIGHTS = "number,tail,carrier,delay,at\n1,N1,UA,5,1\n2,N2,UA,7,1\n3,N2,AA,x,2\n3,N2,AA,9,3\n"
PLANES = "tail,year\nN1,1999\n"

FILE = """
version: 1
name: air
mode: merge
sources:
  flights: {format: csv, path: flights.csv}
  planes: {format: csv, path: planes.csv}
  unknown_planes:
    format: sql
    query: >
      SELECT DISTINCT f.tail FROM flights f LEFT ANTI JOIN planes p ON f.tail = p.tail
      WHERE f.tail <> 'planes;'; -- of {flights}
nodes:
  - {type: Plane, from: planes, columns: {tail: tail, year: {expr: "cast(year as int)"}}}
  - {type: Plane, from: unknown_planes, columns: {tail: tail, isKnown: {expr: "false"}}}
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with Graph.init(tmp_path / "graph", schema=SCHEMA) as opened:
        yield opened


@pytest.fixture
def pipeline(graph: Graph, session: PipelineSession) -> Pipeline:
    return graph.pipeline(session.spark)


@pytest.fixture
def air(tmp_path: Path) -> Path:
    folder = tmp_path / "of [the] file"
    folder.mkdir()
    (folder / "flights.csv").write_text(FLIGHTS)
    (folder / "planes.csv").write_text(PLANES)
    (folder / "air.yaml").write_text(FILE)
    return folder / "air.yaml"


def rows(graph: Graph, type_name: str) -> list[dict[str, object]]:
    lines = b"".join(graph.export(types=[type_name])).splitlines()
    return [json.loads(line)["data"] for line in lines]


def test_a_relative_path_in_sql_starts_at_the_folder_of_the_file(
    air: Path, graph: Graph, pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "planes.csv").write_text("wrong\n")
    monkeypatch.chdir(elsewhere)
    air.write_text(
        "version: 1\nname: n\nmode: merge\n"
        "sources: {p: {format: sql, query: 'SELECT _c0 FROM csv.`planes.csv` LIMIT 1'}}\n"
        "nodes: [{type: Carrier, from: p, columns: {code: _c0}}]\n"
    )
    pipeline.run(air)
    assert [each["code"] for each in rows(graph, "Carrier")] == ["tail"]


def test_a_query_reads_other_sources_and_is_known_by_their_files(
    air: Path, graph: Graph, pipeline: Pipeline
) -> None:
    first = pipeline.run(air)
    assert rows(graph, "Plane") == [
        {"id": "N1", "tail": "N1", "year": 1999, "isKnown": None},
        {"id": "N2", "tail": "N2", "year": None, "isKnown": False},
    ]
    assert first.warnings == ()
    assert pipeline.run(air).already_loaded
    with (air.parent / "flights.csv").open("a") as file:
        file.write("4,N3,UA,1,4\n")
    second = pipeline.run(air)
    assert not second.already_loaded
    assert [each["tail"] for each in rows(graph, "Plane")] == ["N1", "N2", "N3"]


@pytest.mark.extended
def test_a_query_that_reads_something_else_is_read_by_every_run(
    air: Path, graph: Graph, pipeline: Pipeline
) -> None:
    air.write_text(air.read_text().replace("FROM flights f", "FROM csv.`flights.csv` x, flights f"))
    assert len(pipeline.run(air).warnings) == 1
    assert not pipeline.run(air).already_loaded
    assert len(rows(graph, "Plane")) == 2


@pytest.mark.extended
def test_a_query_over_a_query_sees_all_rows_of_a_source_with_a_cursor(
    air: Path, graph: Graph, pipeline: Pipeline
) -> None:
    air.write_text(
        "version: 1\nname: n\nmode: merge\nsources:\n"
        "  flights: {format: csv, path: flights.csv, options: {inferSchema: true},"
        " cursor: {column: at, type: integer}}\n"
        "  tails: {format: sql, query: 'SELECT tail, count(*) AS n FROM flights GROUP BY tail'}\n"
        "  many: {format: sql, query: 'SELECT * FROM tails WHERE n > 2'}\n"
        "nodes:\n"
        "  - {type: Flight, from: flights, columns: {number: {expr: string(number)}},"
        " dedupe: {by: [number], order: at}}\n"
        "  - {type: Plane, from: many, columns: {tail: tail}}\n"
    )
    pipeline.run(air)
    assert [each["tail"] for each in rows(graph, "Plane")] == ["N2"]
    with (air.parent / "flights.csv").open("a") as file:
        file.write("4,N1,UA,1,4\n5,N1,UA,1,5\n")
    report = pipeline.run(air)
    assert {each.table: each.read for each in report.tables} == {"node:Flight": 2, "node:Plane": 2}
    assert [each["tail"] for each in rows(graph, "Plane")] == ["N1", "N2"]
    with pytest.raises(InvalidArgument, match="only queries read it"):
        pipeline.run(air, only=["tails"])


def test_of_equal_rows_one_is_taken(air: Path, graph: Graph, pipeline: Pipeline) -> None:
    air.write_text(
        "version: 1\nname: n\nmode: merge\nsources: {f: {format: csv, path: flights.csv}}\n"
        "nodes:\n"
        "  - {type: Carrier, from: f, columns: {code: carrier}, distinct: true}\n"
        "  - {type: Plane, from: f, columns: {tail: tail}, dedupe: {by: [tail], order: at,"
        " keep: first}}\n"
        "  - {type: Flight, from: f, columns: {number: number, delay: {expr: cast(delay as int)}},"
        " dedupe: {by: [number], order: at}}\n"
    )
    report = pipeline.run(air)
    assert {each.table: each.read for each in report.tables} == {
        "node:Carrier": 2,
        "node:Flight": 3,
        "node:Plane": 2,
    }
    assert [each["delay"] for each in rows(graph, "Flight")] == [5, 7, 9]


@pytest.mark.extended
def test_a_row_that_fails_is_not_taken_for_an_equal_one(
    air: Path, graph: Graph, pipeline: Pipeline, tmp_path: Path
) -> None:
    (air.parent / "flights.csv").write_text("number,delay,at\n3,9,1\n3,7,x\n3,8,2\n3,,3\n3,y,3\n")
    air.write_text(
        "version: 1\nname: n\nmode: merge\nsources: {f: {format: csv, path: flights.csv}}\n"
        f"on_error: {{action: quarantine, rejects: '{tmp_path}/rejects', max_reject_ratio: 0.9}}\n"
        "nodes:\n"
        "  - {type: Flight, from: f, columns: {number: number, delay: {expr: cast(delay as int)}},"
        " where: cast(at as int) < 3, dedupe: {by: [number], order: at}}\n"
    )
    report = pipeline.run(air)
    assert [(each.added, each.rejected) for each in report.tables] == [(1, 1)]
    assert [each["delay"] for each in rows(graph, "Flight")] == [8]
    air.write_text(air.read_text().replace("where: cast(at as int) < 3, dedupe", "#"))
    text = air.read_text().split("#")[0].rstrip().rstrip(",") + ", distinct: true}\n"
    air.write_text(text.replace("name: n\n", "name: m\n"))
    (air.parent / "flights.csv").write_text("number,delay,at\n3,,1\n3,,2\n3,y,3\n3,y,4\n3,z,4\n")
    report = pipeline.run(air)
    assert [(each.changed, each.rejected) for each in report.tables] == [(1, 2)]


@pytest.mark.extended
def test_of_rows_that_nothing_tells_apart_always_the_same_is_taken(
    air: Path, graph: Graph, pipeline: Pipeline
) -> None:
    folder = air.parent / "parts"
    folder.mkdir()
    air.write_text(
        "version: 1\nname: n\nmode: merge\nsources: {f: {format: parquet, path: parts/}}\n"
        "nodes: [{type: Flight, from: f, columns: {number: number, delay: delay},"
        " dedupe: {by: [number], order: at}}]\n"
    )
    taken = set()
    for names in (("a", "b", "c"), ("c", "a", "b"), ("b", "c", "a")):
        for delay, name in enumerate(names):
            table = pa.table({"number": ["1"], "delay": pa.array([delay], pa.int32()), "at": [1]})
            pq.write_table(table, folder / f"{name}.parquet")
        pipeline.run(air, force=True)
        taken.add(rows(graph, "Flight")[0]["delay"])
    assert len(taken) == 1


@pytest.mark.extended
def test_a_column_of_dedupe_that_is_missing_is_told_at_its_place(
    air: Path, pipeline: Pipeline
) -> None:
    air.write_text(
        "version: 1\nname: n\nmode: merge\nsources: {f: {format: csv, path: flights.csv}}\n"
        "nodes:\n  - type: Carrier\n    from: f\n    columns: {code: carrier}\n"
        "    dedupe: {by: [carrier], order: moment}\n"
    )
    with pytest.raises(SourceError, match=r"no column `moment` for the `dedupe`") as told:
        pipeline.run(air)
    assert told.value.details["property"] == "dedupe"
    assert str(told.value.details["place"]).startswith(f"{air}:9:")
