"""A CSV or Parquet file is loaded without Spark, with rows, errors and row numbers of a load."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidArgument, LoadRejected, SourceError
from omnigraph.pipeline.files.csv_text import csv_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from omnigraph.graph.jobs.report import JobReport

SCHEMA = """
node Person { name: String @key  city: String?  age: I64? }
edge Knows: Person -> Person { note: String? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with Graph.init(tmp_path / "graph", schema=SCHEMA) as opened:
        yield opened


def load(graph: Graph, file: Path, data: bytes) -> JobReport:
    file.write_bytes(data)
    with graph.pipeline() as pipeline:
        return pipeline.load(str(file), mode="merge", type="Person", engine="local")


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (b"a,b\n1,2\n\n3,\n,4", [("1", "2"), ("3", None), (None, "4")]),
        (b'a,b\r\n"x","y ""q"""\r"",z\n', [("x", 'y "q"'), (None, "z")]),
        (b'a,b\n5" disk,"ok, so"\nx"y"z, w \n', [('5" disk', "ok, so"), ('x"y"z', " w ")]),
        (b"\n\xef\xbb\xbfa,b\n", []),
        (b"\xef\xbb\xbfa,b\n  \n\t\n#1,\x0c\n", [("#1", "\x0c")]),
        ("a,b\n\u00e9\u2028x,\u0085\n".encode(), [("\u00e9\u2028x", "\u0085")]),
    ],
)
def test_text_is_taken_apart_as_spark_does(
    data: bytes, rows: list[tuple[str | None, str | None]]
) -> None:
    text = csv_text(data, ",")
    assert text.why_spark() is None
    assert [tuple(row.values()) for row in text.table(source="s", path="p").to_pylist()] == rows


@pytest.mark.parametrize(
    "data",
    [
        *(b'a,b\n"x"y,2\n', b'a,b\n1,"x\n2,3"\n', b'a,b\n"""\n', b"a,a\n1,2\n", b"a,,c\n1,2,3\n"),
        *(b"a,b\n1,\x002\n", b'a\n"x" \n'),
    ],
)
def test_text_that_only_spark_takes_apart_is_told(
    graph: Graph, tmp_path: Path, data: bytes
) -> None:
    assert csv_text(data, ",").why_spark() is not None
    with pytest.raises(InvalidArgument, match="needs Spark"):
        load(graph, tmp_path / "people.csv", data)


def test_a_csv_is_loaded_and_its_errors_name_rows(graph: Graph, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    report = load(graph, file, b"name,city\nAda,\n\nAlan,Wilmslow\n")
    assert (report.engine, report.tables[0].added) == ("local", 2)
    assert graph.snapshot().entity("Person", "Ada") == {
        "id": "Ada",
        "name": "Ada",
        "city": None,
        "age": None,
    }
    with pytest.raises(LoadRejected) as refused:
        load(graph, file, b"name,city\nGrace,x\n,y\nAda,z\nAda,z\n")
    found = refused.value.details["violations"]
    assert isinstance(found, list)
    assert [each["input_line"] for each in found if isinstance(each, dict)] == [2, 4]
    for data, message in (
        (b"name,city\nx\n", r"MALFORMED_CSV_RECORD.*: x "),
        (b"name,age\nx,1\n", r"type_error.*cast\(age as bigint\)"),
        (b"name,town\nx,1\n", "no property for the column `town`"),
        (b"name\n\xff\n", "is no UTF-8, in the line"),
    ):
        with pytest.raises(SourceError, match=message):
            load(graph, file, data)
    assert load(graph, file, b"").commit is None


def test_bad_rows_are_set_aside_with_their_numbers(graph: Graph, tmp_path: Path) -> None:
    file = tmp_path / "knows.csv"
    load(graph, tmp_path / "people.csv", b"name\nAda\nAlan\n")
    file.write_text("id,a,b\n1,Ada,Alan\n2,Ada,Zed\n")
    report = graph.pipeline().load(
        str(file),
        mode="append",
        edge="Knows",
        columns={"src": "a", "dst": "b"},
        takes_same_names=True,
        engine="local",
        on_error="quarantine",
        rejects=str(tmp_path / "rejects"),
        max_reject_ratio=0.9,
    )
    assert (report.tables[0].added, report.tables[0].rejected) == (1, 1)
    (rejects,) = (tmp_path / "rejects").glob("*/rejects.ndjson")
    row = json.loads(rejects.read_text())
    assert (row["source"], row["line"], row["code"]) == (str(file), 2, "orphan_edge")


def test_a_parquet_file_is_loaded_with_its_types(graph: Graph, tmp_path: Path) -> None:
    file = tmp_path / "people.parquet"
    pq.write_table(pa.table({"name": ["a", "b"], "age": [1, None]}), file, row_group_size=1)
    report = graph.pipeline().load(file, mode="append", type="Person", engine="local")
    assert (report.engine, report.tables[0].added, report.stages[1].tasks) == ("local", 2, 2)


def test_a_timestamp_without_a_zone_is_one_in_utc(tmp_path: Path) -> None:
    at = pa.array([datetime(2024, 3, 10, 2, 30)], pa.timestamp("ns"))  # noqa: DTZ001 - has none
    file = tmp_path / "events.parquet"
    pq.write_table(pa.table({"name": ["a"], "at": at}), file)
    schema = "node Event { name: String @key  at: DateTime }"
    with Graph.init(tmp_path / "events", schema=schema) as graph:
        graph.pipeline().load(file, mode="append", type="Event", engine="local")
        (line,) = b"".join(graph.export()).splitlines()
    assert json.loads(line)["data"]["at"] == "2024-03-10T02:30:00.000Z"


def test_what_needs_spark_is_told_before_anything_is_read(graph: Graph, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("name\nx\n")
    for source, options in (
        (str(file), {"columns": {"name": {"expr": "upper(name)"}}}),
        (str(file), {"options": {"header": "false"}}),
        (str(file), {"format": "json"}),
        ("people", {"format": "table"}),
    ):
        with pytest.raises(InvalidArgument, match="needs Spark"):
            graph.pipeline().load(source, mode="append", type="Person", engine="local", **options)
