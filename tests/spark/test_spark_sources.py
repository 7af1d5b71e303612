"""Tabular sources of a load: every format gives the rows of the graph format, or says why not."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql.functions import udf
from tests.extended import thinned
from tests.load_jobs import spark_load

from omnigraph import Graph
from omnigraph.errors import (
    InputChanged,
    InvalidArgument,
    LoadRejected,
    PipelineTaskError,
    SourceError,
)
from omnigraph.pipeline.intake.inputs import Where
from omnigraph.pipeline.sources.request import source_of
from omnigraph.pipeline.sources.sources import FrameSource
from omnigraph.pipeline.spark.lanes import SparkLane
from omnigraph.pipeline.spark.session import PipelineSession
from omnigraph.pipeline.spark.stage_runner import StageRunner
from omnigraph.pipeline.spec.column_map import TargetSpec
from omnigraph.pipeline.spec.pipeline_spec import (
    Column,
    Expression,
    KeyParts,
    SourceFormat,
    SourceSpec,
)
from omnigraph.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from omnigraph.graph.jobs.stage_progress import StageProgress
    from omnigraph.pipeline.intake.row_stager import IntakePlan
    from omnigraph.pipeline.pipeline import Pipeline

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  score: F64?
  big: U64?
  small: U32?
  born: Date?
  seen: DateTime?
  tags: [String]?
  vec: Vector(2)?
  photo: Blob?
  level: enum(junior, senior)? @default("junior")
  @range(age, 0..150)
}
node Visit { day: Date  name: String  @key(day, name) }
edge Knows: Person -> Person { since: I32? }
node Bare { note: String? }
edge Made: Person -> Visit
"""

PEOPLE: list[dict[str, Any]] = [
    {
        "name": f"p{n}",
        "age": n,
        "score": n / 4,
        "big": 2**63 + n,
        "small": n,
        "born": date(2000, 1, 1 + n),
        "seen": datetime(2024, 1, 1, n, tzinfo=UTC),
        "tags": [f"t{n}", None],
        "vec": [float(n), 1.0],
        "photo": b"hi",
        "level": "senior",
    }
    for n in range(9)
]
_PEOPLE_TYPES: dict[str, pa.DataType] = {
    "name": pa.string(),
    "age": pa.int32(),
    "score": pa.float64(),
    "big": pa.uint64(),
    "small": pa.uint32(),
    "born": pa.date32(),
    "seen": pa.timestamp("us", "UTC"),
    "tags": pa.list_(pa.string()),
    "vec": pa.list_(pa.float32()),
    "photo": pa.binary(),
    "level": pa.string(),
}
PEOPLE_SCHEMA = pa.schema(_PEOPLE_TYPES)


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with Graph.init(tmp_path / "graph", schema=SCHEMA) as opened:
        yield opened


@pytest.fixture
def pipeline(graph: Graph, session: PipelineSession) -> Pipeline:
    return graph.pipeline(session.spark)


def rows(graph: Graph, type_name: str = "Person") -> list[dict[str, Any]]:
    lines = b"".join(graph.export(types=[type_name])).splitlines()
    return [json.loads(line) for line in lines]


def lane_of(session: PipelineSession) -> SparkLane:
    return SparkLane(session=session, runner=StageRunner(session))


def people() -> pa.Table:
    return pa.Table.from_pylist(PEOPLE, PEOPLE_SCHEMA)


def expected(tmp_path: Path) -> list[dict[str, Any]]:
    with Graph.init(tmp_path / "expected", schema=SCHEMA) as other:
        other.load({"Person": people()}, mode="append")
        return rows(other)


def test_parquet_is_read_by_row_groups_with_every_type(
    tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    pq.write_table(people(), tmp_path / "people.parquet", row_group_size=2)
    report = pipeline.load(tmp_path / "people.parquet", mode="append", type="Person")
    assert [(each.table, each.added) for each in report.tables] == [("node:Person", 9)]
    assert report.stages[1].tasks == 5
    assert rows(graph) == expected(tmp_path)


def test_columns_named_like_ends_of_edges_are_properties_of_nodes(
    tmp_path: Path, session: PipelineSession
) -> None:
    (tmp_path / "airports.csv").write_text("faa,dst,src\nEWR,A,1\nJFK,,\n")
    (tmp_path / "more.csv").write_text("faa,dst,src\nEWR,,\nLGA,,2\n")
    schema = "node Airport { faa: String @key  dst: String? @index  src: String? }"
    with Graph.init(tmp_path / "airports", schema=schema) as graph:
        pipeline = graph.pipeline(session.spark)
        pipeline.load(tmp_path / "airports.csv", mode="append", type="Airport")
        pipeline.load(tmp_path / "more.csv", mode="merge", type="Airport")
        found = [(row["data"]["dst"], row["data"]["src"]) for row in rows(graph, "Airport")]
        assert found == [(None, None), (None, None), (None, "2")]


@pytest.mark.extended
def test_a_folder_of_parquet_needs_no_format(
    tmp_path: Path, graph: Graph, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    for part in range(2):
        pq.write_table(people().slice(part * 4, 4), tmp_path / "in" / f"{part}.parquet")
    monkeypatch.chdir(tmp_path)
    assert pipeline.load("in", mode="append", type="Person").tables[0].added == 8
    (tmp_path / "more.csv").write_text("name\nzoe\n")
    assert pipeline.load("more.csv", mode="append", type="Person").tables[0].added == 1
    assert len(rows(graph)) == 9


def test_spark_reads_exactly_the_files_that_were_found(
    tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    for name in ("a.csv", "x/b.csv", "x/y/c.csv"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"name\n{path.stem}\n")
    (tmp_path / "f1.csv").write_text("name\nneighbour\n")
    (tmp_path / "f[1].csv").write_text("name\nitself\n")
    pipeline.load(tmp_path / "in" / "**" / "*.csv", mode="append", type="Person")
    pipeline.load(tmp_path / "f[1].csv", mode="append", type="Person")
    assert [each["data"]["name"] for each in rows(graph)] == ["a", "b", "c", "itself"]


def test_a_file_that_changes_while_spark_reads_it_fails_the_load(
    tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    path = tmp_path / "people.csv"
    path.write_text("name\nada\n")

    def change(told: StageProgress) -> None:
        if told.stage == "intake":
            path.write_text("name\nada\nbob\n")

    with pytest.raises(InputChanged, match=r"people\.csv"):
        pipeline.load(path, mode="append", type="Person", progress=change)
    assert rows(graph) == []


@pytest.mark.extended
@pytest.mark.parametrize("text", thinned(['name,level\nA,"x\ny"\nB,z\n', "name,level\nA\n"]))
def test_broken_rows_of_csv_are_not_half_read(
    tmp_path: Path, graph: Graph, pipeline: Pipeline, text: str
) -> None:
    path = tmp_path / "broken.csv"
    path.write_text(text)
    with pytest.raises(SourceError, match="MALFORMED"):
        pipeline.load(path, mode="append", type="Person", columns={"name": "name"})
    assert rows(graph) == []


def test_files_whose_columns_differ_are_refused(
    tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(people().select(["name"]), tmp_path / "in" / "1.parquet")
    pq.write_table(people().select(["name", "age"]), tmp_path / "in" / "2.parquet")
    with pytest.raises(SourceError, match=r"2\.parquet.*age"):
        pipeline.load(tmp_path / "in", mode="append", type="Person")
    twice = pa.table([pa.array(["a"]), pa.array(["b"])], names=["name", "name"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    with pytest.raises(SourceError, match="more than one column `name`"):
        pipeline.load(tmp_path / "twice.parquet", mode="append", type="Person")
    assert rows(graph) == []


def test_a_cache_of_the_user_stays(graph: Graph, session: PipelineSession) -> None:
    frame = session.spark.createDataFrame([("a", "b"), ("b", "a")], "one string, other string")
    frame.createOrReplaceTempView("cached_pairs")
    session.spark.catalog.cacheTable("cached_pairs")
    spec = SourceSpec(name="pairs", format=SourceFormat.TABLE, table="cached_pairs")
    ends = {"src": Column(name="one"), "dst": Column(name="other")}
    targets = [
        TargetSpec(type="node:Person", columns={"name": Column(name="one")}),
        TargetSpec(type="edge:Knows", columns={}, ends=ends),
    ]
    source = source_of(spec, targets, Settings())
    assert isinstance(source, FrameSource)
    source.inputs(graph.snapshot().catalog, lane_of(session))
    source.release()
    assert session.spark.catalog.isCached("cached_pairs")
    session.spark.catalog.uncacheTable("cached_pairs")


@pytest.mark.extended
def test_expressions_and_conditions_go_through_spark(
    tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    pq.write_table(people().select(["name", "age"]), tmp_path / "people.parquet")
    report = pipeline.load(
        tmp_path / "people.parquet",
        mode="append",
        type="Person",
        columns={"name": {"expr": "upper(name)"}, "small": {"expr": "cast(age * 2 as bigint)"}},
    )
    assert report.tables[0].added == 9
    found = {each["data"]["name"]: each["data"]["small"] for each in rows(graph)}
    assert found == {f"P{n}": n * 2 for n in range(9)}


def test_text_is_not_cast_in_silence(tmp_path: Path, graph: Graph, pipeline: Pipeline) -> None:
    (tmp_path / "people.csv").write_text("name,age\nada,36\n")
    with pytest.raises(SourceError, match=r"type_error.*`age` is string.*cast\(age as int\)"):
        pipeline.load(tmp_path / "people.csv", mode="append", type="Person")
    report = pipeline.load(
        tmp_path / "people.csv",
        mode="append",
        type="Person",
        columns={"name": "name", "age": {"expr": "cast(age as int)"}},
    )
    assert report.tables[0].added == 1
    assert rows(graph)[0]["data"]["age"] == 36


@pytest.mark.extended
def test_a_value_that_cannot_be_cast_fails_the_load(
    tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    (tmp_path / "people.csv").write_text("name,age\nada,x\n")
    with pytest.raises(SourceError, match="CAST_INVALID_INPUT"):
        pipeline.load(
            tmp_path / "people.csv",
            mode="append",
            type="Person",
            columns={"name": "name", "age": {"expr": "cast(age as int)"}},
        )
    assert rows(graph) == []


@pytest.mark.extended
def test_tables_of_tabs_json_and_orc_are_read(
    tmp_path: Path, graph: Graph, pipeline: Pipeline, session: PipelineSession
) -> None:
    (tmp_path / "people.tsv").write_text("name\tlevel\nada\tsenior\n")
    pipeline.load(tmp_path / "people.tsv", mode="append", type="Person")
    (tmp_path / "people.json").write_text('{"name":"bob","age":7}\n{"name":"cy"}\n')
    pipeline.load(
        tmp_path / "people.json",
        mode="append",
        format="json",
        type="Person",
        columns={"name": "name", "age": {"expr": "cast(age as int)"}},
    )
    frame = session.spark.createDataFrame([("dan", 9)], "name string, age int")
    frame.write.orc(str(tmp_path / "people.orc"))
    pipeline.load(tmp_path / "people.orc", mode="append", type="Person")
    found = {each["data"]["name"]: each["data"].get("age") for each in rows(graph)}
    assert found == {"ada": None, "bob": 7, "cy": None, "dan": 9}


@pytest.mark.extended
def test_what_was_read_can_be_written_back(graph: Graph, pipeline: Pipeline) -> None:
    graph.load({"Person": people()}, mode="append")
    before = rows(graph)
    frame = pipeline.read(type="Person").drop("id", "photo")
    report = pipeline.load(frame, mode="merge", type="Person")
    (table,) = report.tables
    assert (table.added, table.changed + table.unchanged) == (0, 9)
    for each in before:
        del each["data"]["photo"]
    assert [
        {**each, "data": {k: v for k, v in each["data"].items() if v is not None}}
        for each in rows(graph)
    ] == before


def test_ids_beyond_64_bits_are_found_row_by_row(
    graph: Graph, pipeline: Pipeline, session: PipelineSession
) -> None:
    frame = session.spark.createDataFrame(
        [("a", Decimal(2**64 - 1)), ("b", Decimal(2**64)), ("c", Decimal(-1))],
        "name string, big decimal(20,0)",
    ).coalesce(1)
    with pytest.raises(LoadRejected) as caught:
        pipeline.load(frame, mode="append", type="Person")
    found = caught.value.details["violations"]
    assert isinstance(found, list)
    assert [(each["entity_id"], each["input_line"], each["code"]) for each in found] == [
        ("b", 2, "type_error"),
        ("c", 3, "type_error"),
    ]
    assert rows(graph) == []


def test_bad_rows_are_named_by_file_and_row(
    tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    for name, age in (("a", 1), ("b", 200)):
        table = pa.table({"name": [f"{name}{n}" for n in range(6)], "age": [age] * 6})
        table = table.set_column(1, "age", table["age"].cast(pa.int32()))
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=4)
    with pytest.raises(LoadRejected) as caught:
        pipeline.load(tmp_path / "*.parquet", mode="append", type="Person", format="parquet")
    found = caught.value.details["violations"]
    assert isinstance(found, list)
    shown = [(each["source"], each["input_line"]) for each in found]
    assert shown == [(str(tmp_path / "b.parquet"), n) for n in range(1, 7)]
    assert f"{tmp_path / 'b.parquet'}, row 1: " in caught.value.message
    assert rows(graph) == []


@pytest.mark.extended
def test_edges_find_their_ends_by_the_parts_of_a_key(
    graph: Graph, session: PipelineSession
) -> None:
    graph.load({"Person": people()}, mode="append")
    graph.load(b'{"type":"Visit","data":{"day":"2024-05-06","name":"x"}}\n', mode="append")
    session.spark.createDataFrame(
        [("p1", date(2024, 5, 6), "x", "keep"), ("p2", date(2024, 5, 6), "x", "drop")],
        "who string, day date, name string, what string",
    ).createOrReplaceTempView("visits")
    target = TargetSpec(
        type="edge:Made",
        columns={},
        id=Expression(sql="concat('e-', who)"),
        ends={
            "src": Column(name="who"),
            "dst": KeyParts(parts={"name": Column(name="name"), "day": Column(name="day")}),
        },
        where="what = 'keep'",
    )
    for form, spec in (
        (SourceFormat.TABLE, SourceSpec(name="v", format=SourceFormat.TABLE, table="visits")),
        (
            SourceFormat.SQL,
            SourceSpec(name="v", format=SourceFormat.SQL, query="select * from visits"),
        ),
    ):
        _load(graph, session, spec, [target])
        assert rows(graph, "Made") == [
            {"edge": "Made", "from": "p1", "to": '["19849","x"]', "data": {"id": "e-p1"}}
        ], form


def test_one_source_feeds_several_types_in_one_commit(
    graph: Graph, session: PipelineSession
) -> None:
    session.spark.createDataFrame(
        [("a", "b"), ("b", "c"), ("c", "a")], "one string, other string"
    ).createOrReplaceTempView("pairs")
    spec = SourceSpec(name="pairs", format=SourceFormat.TABLE, table="pairs")
    targets = [
        TargetSpec(type="node:Person", columns={"name": Column(name="one")}),
        TargetSpec(
            type="edge:Knows",
            columns={},
            ends={"src": Column(name="one"), "dst": Column(name="other")},
        ),
    ]
    head = graph.commits.list().commits[0].graph_commit_id
    report = _load(graph, session, spec, targets)
    assert [(each.table, each.added) for each in report.tables] == [
        ("node:Person", 3),
        ("edge:Knows", 3),
    ]
    assert graph.commits.list().commits[1].graph_commit_id == head


def test_a_database_is_read_over_jdbc_and_its_secrets_are_not_shown(
    tmp_path: Path, graph: Graph, session: PipelineSession
) -> None:
    url = f"jdbc:derby:{tmp_path / 'db'};create=true"
    session.spark.createDataFrame([("ada", 36)], "name string, age int").write.format(
        "jdbc"
    ).options(
        url=url, dbtable="people", driver="org.apache.derby.iapi.jdbc.AutoloadedDriver"
    ).save()
    spec = SourceSpec(
        name="people",
        format=SourceFormat.JDBC,
        options={
            "url": url,
            "dbtable": "people",
            "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
        },
    )
    target = TargetSpec(
        type="node:Person", columns={"name": Column(name="name"), "age": Column(name="age")}
    )
    _load(graph, session, spec, [target])
    assert rows(graph)[0]["data"]["age"] == 36
    wrong = SourceSpec(
        name="people",
        format=SourceFormat.JDBC,
        options={
            "url": f"jdbc:derby:{tmp_path / 'none'};user=u;password=sesame",
            "dbtable": "people",
            "password": "sesame",
        },
    )
    with pytest.raises(SourceError) as caught:
        _load(graph, session, wrong, [target])
    assert "sesame" not in str(caught.value) + repr(caught.value.details)


def test_mistakes_are_told_before_anything_runs(
    tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    pq.write_table(people().select(["name", "age"]), tmp_path / "people.parquet")
    where = tmp_path / "people.parquet"
    with pytest.raises(InvalidArgument, match="type"):
        pipeline.load(where, mode="append")
    with pytest.raises(InvalidArgument, match="no type"):
        pipeline.load(where, mode="append", type="Persn")
    with pytest.raises(SourceError, match=r"no column `nme`.*name"):
        pipeline.load(where, mode="append", type="Person", columns={"name": "nme"})
    with pytest.raises(SourceError, match="no property `nam`"):
        pipeline.load(where, mode="append", type="Person", columns={"nam": "name"})
    with pytest.raises(SourceError, match="must have a value"):
        pipeline.load(where, mode="append", type="Person", columns={"age": "age"})
    with pytest.raises(SourceError, match="no column `src`"):
        pipeline.load(where, mode="append", edge="Knows", columns={})
    with pytest.raises(SourceError, match="nothing of the source"):
        pipeline.load(where, mode="append", type="Bare", columns={})
    with pytest.raises(SourceError, match=r"pipeline\.yaml"):
        pipeline.load("x", mode="append", format="jdbc", type="Person")
    with pytest.raises(SourceError, match="parquet"):
        pipeline.load("x", mode="append", format="parqet", type="Person")
    with pytest.raises(SourceError, match="there is no file"):
        pipeline.load(tmp_path / "none.parquet", mode="append", type="Person")
    (tmp_path / "no.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(SourceError, match=r"no\.parquet"):
        pipeline.load(tmp_path / "no.parquet", mode="append", type="Person")
    with pytest.raises(SourceError, match="cannot be read"):
        pipeline.load("no_such_table", mode="append", format="table", type="Person")
    with pytest.raises(SourceError, match="PARSE_SYNTAX_ERROR"):
        pipeline.load(where, mode="append", type="Person", columns={"name": {"expr": "((("}})
    with pytest.raises(InvalidArgument, match="name their own types"):
        pipeline.load(tmp_path / "x.jsonl", mode="append", type="Person")
    extra = people().select(["name"]).append_column("extra", pa.array([1] * 9))
    pq.write_table(extra, tmp_path / "extra.parquet")
    with pytest.raises(SourceError, match="no property for the column `extra`"):
        pipeline.load(tmp_path / "extra.parquet", mode="append", type="Person")
    assert rows(graph) == []


def test_files_that_differ_are_refused_also_where_spark_reads_them(
    tmp_path: Path, graph: Graph, pipeline: Pipeline, session: PipelineSession
) -> None:
    for number, names in enumerate((["name"], ["name", "age"])):
        for form in ("parquet", "orc"):
            (tmp_path / form).mkdir(exist_ok=True)
            _write(people().select(names), tmp_path / form / f"{number}.{form}")
    upper: dict[str, str | Mapping[str, str]] = {"name": {"expr": "upper(name)"}}
    told = r"0\.parquet has no column `age`, and .*1\.parquet"
    with pytest.raises(SourceError, match=told):
        pipeline.load(tmp_path / "parquet", mode="append", type="Person", columns=upper)
    with pytest.raises(SourceError, match=told) as caught:
        pipeline.load(tmp_path / "parquet", mode="append", type="Person", options={"x": "y"})
    assert caught.value.details["column"] == "age"
    with pytest.raises(SourceError, match=r"0\.orc has no column `age`, and .*1\.orc"):
        pipeline.load(tmp_path / "orc", mode="append", type="Person")
    both = SourceSpec(name="b", format=SourceFormat.PARQUET, path=str(tmp_path / "parquet"))
    name = {"name": Column(name="name"), "age": Column(name="age")}
    targets = [TargetSpec(type="node:Person", columns=name)] * 2
    with pytest.raises(SourceError, match="age"):
        _load(graph, session, both, targets)
    assert rows(graph) == []


def test_columns_of_several_types_are_refused_where_spark_reads_them(
    tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    pq.write_table(pa.table({"name": ["a"], "age": [1], "x": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"name": ["b"], "age": ["1"], "x": [1]}), tmp_path / "2.parquet")
    with pytest.raises(SourceError, match=r"`age` is string in .*2\.parquet and int64 in .*1\.p"):
        pipeline.load(
            tmp_path / "*.parquet",
            mode="append",
            format="parquet",
            type="Person",
            columns={"name": "name", "age": {"expr": "cast(age as int)"}},
        )
    assert rows(graph) == []


@pytest.mark.extended
def test_files_are_alike_however_they_lie_in_memory(
    tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    for number, kind in enumerate((pa.string(), pa.large_string())):
        table = pa.table({"name": pa.array([f"n{number}"], kind)})
        pq.write_table(table, tmp_path / f"{number}.parquet")
    pq.write_table(pa.table({"name": pa.array(["n2"]).dictionary_encode()}), tmp_path / "2.parquet")
    pipeline.load(
        tmp_path / "*.parquet",
        mode="append",
        format="parquet",
        type="Person",
        columns={"name": {"expr": "upper(name)"}},
    )
    assert [each["data"]["name"] for each in rows(graph)] == ["N0", "N1", "N2"]


@pytest.mark.extended
@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_an_option_of_the_reader_joins_files_that_differ(
    tmp_path: Path, graph: Graph, pipeline: Pipeline, form: str
) -> None:
    _write(people().slice(0, 1).select(["name"]), tmp_path / f"1.{form}")
    _write(people().slice(1, 1).select(["name", "age"]), tmp_path / f"2.{form}")
    pipeline.load(
        tmp_path / f"*.{form}",
        mode="append",
        format=form,
        type="Person",
        options={"mergeSchema": "true"},
    )
    found = {each["data"]["name"]: each["data"].get("age") for each in rows(graph)}
    assert found == {"p0": None, "p1": 1}


@pytest.mark.extended
def test_broken_files_fail_the_load_in_a_session_that_would_leave_them_out(
    tmp_path: Path, graph: Graph, session: PipelineSession
) -> None:
    text = "name\n" + "".join(f"n{n * 7919}\n" for n in range(20_000))
    packed = gzip.compress(text.encode())
    (tmp_path / "people.csv.gz").write_bytes(packed[: len(packed) // 2])
    spark = session.spark.newSession()
    for what in ("Corrupt", "Missing"):
        spark.conf.set(f"spark.sql.files.ignore{what}Files", "true")
    with pytest.raises(SourceError, match="end of input") as caught:
        graph.pipeline(spark).load(tmp_path / "people.csv.gz", mode="append", type="Person")
    assert caught.value.details["path"] == str(tmp_path / "people.csv.gz")
    assert rows(graph) == []


@pytest.mark.parametrize(
    "name", thinned(["_x.csv", "_metadata.csv", ".x.csv", "x.csv._COPYING_", "a:b.csv"], keep=2)
)
def test_a_file_that_spark_would_leave_out_is_refused_by_name(
    tmp_path: Path, graph: Graph, pipeline: Pipeline, name: str
) -> None:
    (tmp_path / name).write_text("name\nada\n")
    with pytest.raises(SourceError, match="rename it") as caught:
        pipeline.load(tmp_path / name, mode="append", format="csv", type="Person")
    assert caught.value.details["path"] == str(tmp_path / name)
    assert rows(graph) == []


@pytest.mark.extended
def test_files_whose_names_could_be_patterns_are_read_once(
    tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    for name in ("x1.csv", "x[1].csv", "x{1,2}.csv", "x*.csv", "x\\1.csv"):
        (tmp_path / name).write_text(f"note\n{name.replace(',', '')}\n")
    pipeline.load(tmp_path / "*.csv", mode="append", format="csv", type="Bare")
    found = sorted(each["data"]["note"] for each in rows(graph, "Bare"))
    assert found == ["x*.csv", "x1.csv", "x[1].csv", "x\\1.csv", "x{12}.csv"]


@pytest.mark.extended
def test_a_file_that_spark_reads_by_any_other_name_is_not_refused(
    tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    for number, name in enumerate(("_a=1.csv", "x_.csv")):
        (tmp_path / name).write_text(f"name\nn{number}\n")
        pipeline.load(tmp_path / name, mode="append", type="Person")
    assert len(rows(graph)) == 2


@pytest.mark.parametrize("form", thinned(["json", "csv"]))
def test_a_file_without_a_byte_has_no_rows(
    tmp_path: Path, graph: Graph, pipeline: Pipeline, form: str
) -> None:
    (tmp_path / f"1.{form}").write_text("")
    report = pipeline.load(tmp_path / f"1.{form}", mode="append", format=form, type="Person")
    assert (report.commit, report.tables) == (None, ())
    with pytest.raises(InvalidArgument, match="no type"):
        pipeline.load(tmp_path / f"1.{form}", mode="append", format=form, type="Persn")
    (tmp_path / f"2.{form}").write_text("name\nada\n" if form == "csv" else '{"name":"ada"}\n')
    pipeline.load(tmp_path / f"*.{form}", mode="append", format=form, type="Person")
    assert [each["data"]["name"] for each in rows(graph)] == ["ada"]


@pytest.mark.parametrize("text", thinned([None, "other\nx\n", "name,other\nx\n"]))
def test_a_file_that_changes_before_spark_reads_it_is_told_as_that(
    tmp_path: Path, graph: Graph, pipeline: Pipeline, text: str | None
) -> None:
    path = tmp_path / "people.csv"
    path.write_text("name\nada\n")

    def change(_: str) -> None:
        path.unlink() if text is None else path.write_text(text)

    with pytest.raises(InputChanged, match=r"people\.csv"):
        pipeline.load(path, mode="append", type="Person", started=change)
    assert rows(graph) == []


@pytest.mark.extended
def test_a_file_that_spark_cannot_read_any_more_is_told_as_changed(
    tmp_path: Path, graph: Graph, session: PipelineSession
) -> None:
    path = tmp_path / "people.csv"
    path.write_text("name,level\nada,senior\n")
    spec = SourceSpec(name="people", format=SourceFormat.CSV, path=str(path))
    names = {"name": Column(name="name"), "level": Column(name="level")}
    source = source_of(spec, [TargetSpec(type="node:Person", columns=names)], Settings())
    catalog = graph.snapshot().catalog
    with session.configured():
        (given,) = source.inputs(catalog, lane_of(session))
        path.write_text("name\nada\n")
        # No task gets as far as to ask for more of the plan.
        plan = cast("IntakePlan", SimpleNamespace(keeps_rejects=None))
        where = Where(source=0, first=0)
        with pytest.raises(InputChanged, match=r"people\.csv"):
            given.take(plan, where, lane_of(session))


@pytest.mark.extended
def test_a_file_that_spark_cannot_read_is_named(
    tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    (tmp_path / "1.csv").write_text("name,level\nada,senior\n")
    (tmp_path / "2 %.csv").write_text("name,level\nbob,junior\ncy\n")
    with pytest.raises(SourceError, match="MALFORMED_CSV_RECORD") as caught:
        pipeline.load(tmp_path / "*.csv", mode="append", format="csv", type="Person")
    assert caught.value.details["path"] == str(tmp_path / "2 %.csv")
    (tmp_path / "2 %.csv").write_text("name\nbob\n")
    with pytest.raises(SourceError, match="CSV header") as caught:
        pipeline.load(tmp_path / "*.csv", mode="append", format="csv", type="Person")
    assert str(tmp_path) in str(caught.value.details["path"])
    assert rows(graph) == []


@pytest.mark.extended
def test_bad_rows_of_spark_are_named_by_file_and_row(
    tmp_path: Path, graph: Graph, session: PipelineSession
) -> None:
    names = ["1.csv", "we ird%41#ü[x].csv", "x{1}+'&=@;!.csv"]
    for number, name in enumerate(names):
        lines = [f"{number}-{n},{'boss' if n % 300 == 7 else 'junior'}\n" for n in range(320)]
        (tmp_path / name).write_text("name,level\n" + "".join(lines))
    spark = session.spark.newSession()
    spark.conf.set("spark.sql.files.maxPartitionBytes", "3000")
    spark.conf.set("spark.sql.files.openCostInBytes", "100")
    pipeline = graph.pipeline(spark)
    with pytest.raises(LoadRejected) as caught:
        pipeline.load(tmp_path / "*.csv", mode="append", format="csv", type="Person")
    expected = {(str(tmp_path / name), row) for name in names for row in (8, 308)}
    assert set(_told_places(caught.value)) == expected


@pytest.mark.extended
def test_rows_that_an_expression_moved_are_numbered_within_the_source(
    tmp_path: Path, pipeline: Pipeline
) -> None:
    for number in range(2):
        (tmp_path / f"{number}.csv").write_text(f"name,level\n{number},boss\n")
    with pytest.raises(LoadRejected) as caught:
        pipeline.load(
            tmp_path / "*.csv",
            mode="append",
            format="csv",
            type="Person",
            columns={
                "name": "name",
                "level": "level",
                "age": {"expr": "cast(row_number() over (order by name desc) as int)"},
            },
        )
    assert _told_places(caught.value) == [(str(tmp_path / "*.csv"), n) for n in (2, 1)]


def test_values_of_several_types_in_json_are_not_made_text(
    tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    path = tmp_path / "people.json"
    path.write_text('{"name":"a"}\n{"name":1}\n{"name":{"b":1}}\n')
    with pytest.raises(SourceError, match="type_error: `name`"):
        pipeline.load(path, mode="append", format="json", type="Person")
    pipeline.load(
        path,
        mode="append",
        format="json",
        type="Person",
        columns={"name": {"expr": "cast(name as string)"}},
    )
    assert [each["data"]["name"] for each in rows(graph)] == ["1", "a", '{"b":1}']


@pytest.mark.extended
def test_bytes_that_are_no_text_are_not_replaced(
    tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    (tmp_path / "1.csv").write_text("name\nada\n")
    (tmp_path / "2 .csv").write_bytes(b"name\nbob\nm\xfcller\n")
    with pytest.raises(SourceError, match="no UTF-8") as caught:
        pipeline.load(tmp_path / "*.csv", mode="append", format="csv", type="Person")
    assert caught.value.details["path"] == str(tmp_path / "2 .csv")
    (tmp_path / "1.csv").write_text("name\nada \ufffd\n")
    pipeline.load(tmp_path / "1.csv", mode="append", type="Person")
    latin = {"encoding": "ISO-8859-1"}
    pipeline.load(tmp_path / "2 .csv", mode="append", type="Person", options=latin)
    assert [each["data"]["name"] for each in rows(graph)] == ["ada \ufffd", "bob", "müller"]


@pytest.mark.extended
def test_the_error_of_a_function_of_a_frame_is_shown(
    graph: Graph, pipeline: Pipeline, session: PipelineSession
) -> None:
    def asked(_: str) -> str:
        raise ConnectionRefusedError("Connection refused by the lookup")

    frame = session.spark.createDataFrame([("a",)], "name string")
    with pytest.raises(PipelineTaskError, match="ConnectionRefusedError: Connection refused by"):
        pipeline.load(
            frame.select(udf(asked, "string", useArrow=False)("name").alias("name")),
            mode="append",
            type="Person",
        )
    assert rows(graph) == []


def test_local_files_need_executors_that_see_them(
    tmp_path: Path, graph: Graph, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "people.csv").write_text("name\nada\n")
    (tmp_path / "people.jsonl").write_text('{"type":"Person","data":{"name":"bob"}}\n')
    monkeypatch.setattr(PipelineSession, "is_here", property(lambda _: False))
    # As for a graph in a bucket.
    monkeypatch.setattr(PipelineSession, "require_access", lambda *_, **__: None)
    with pytest.raises(InvalidArgument, match=r"people\.csv .*--shared-filesystem"):
        pipeline.load(tmp_path / "people.csv", mode="append", type="Person")
    with pytest.raises(InvalidArgument, match=r"people\.jsonl .*--shared-filesystem"):
        pipeline.load(tmp_path / "people.jsonl", mode="append")
    assert rows(graph) == []


def _write(table: pa.Table, path: Path) -> None:
    orc.write_table(table, path) if path.suffix == ".orc" else pq.write_table(table, path)


def _told_places(error: LoadRejected) -> list[tuple[str, int]]:
    found = error.details["violations"]
    assert isinstance(found, list)
    return [(each["source"], each["input_line"]) for each in found]


def _load(
    graph: Graph, session: PipelineSession, spec: SourceSpec, targets: list[TargetSpec]
) -> Any:  # noqa: ANN401 - the report
    from omnigraph.graph.blobs.addresses import DENY_ALL
    from omnigraph.graph.jobs.report import LoadMode
    from omnigraph.graph.load.request import LoadRequest
    from omnigraph.ids import BranchName

    settings = Settings()
    return spark_load(
        graph,
        session,
        settings,
        [source_of(spec, targets, settings)],
        LoadRequest(mode=LoadMode.MERGE, branch=BranchName("main")),
        external=DENY_ALL,
    ).report()
