"""Tabular sources of a load: every format gives the rows of the graph format, or says why not."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph
from omnigraph.errors import InputChanged, InvalidArgument, LoadRejected, SourceError
from omnigraph.pipeline.column_map import TargetSpec
from omnigraph.pipeline.load_job import SparkLoad
from omnigraph.pipeline.load_sources import FrameSource
from omnigraph.pipeline.pipeline_spec import Column, Expression, KeyParts, SourceFormat, SourceSpec
from omnigraph.pipeline.source_request import source_of
from omnigraph.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from omnigraph.pipeline.pipeline import Pipeline
    from omnigraph.pipeline.session import PipelineSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(300),
]

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

    def change(stage: str, *_: int) -> None:
        if stage == "intake":
            path.write_text("name\nada\nbob\n")

    with pytest.raises(InputChanged, match=r"people\.csv"):
        pipeline.load(path, mode="append", type="Person", progress=change)
    assert rows(graph) == []


def test_broken_rows_of_csv_are_not_half_read(
    tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    for number, text in enumerate(('name,level\nA,"x\ny"\nB,z\n', "name,level\nA\n")):
        path = tmp_path / f"{number}.csv"
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
    source.inputs(graph.snapshot().catalog, session)
    source.release()
    assert session.spark.catalog.isCached("cached_pairs")
    session.spark.catalog.uncacheTable("cached_pairs")


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


def test_what_was_read_can_be_written_back(graph: Graph, pipeline: Pipeline) -> None:
    graph.load({"Person": people()}, mode="append")
    before = rows(graph)
    frame = pipeline.read(type="Person").drop("id", "photo")
    report = pipeline.load(frame, mode="merge", type="Person")
    assert (report.tables[0].added, report.tables[0].changed) == (0, 9)
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
    assert rows(graph) == []


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


def _load(
    graph: Graph, session: PipelineSession, spec: SourceSpec, targets: list[TargetSpec]
) -> Any:  # noqa: ANN401 - the report
    from omnigraph.graph.external_blobs import DENY_ALL
    from omnigraph.graph.job_report import LoadMode
    from omnigraph.graph.load_options import LoadOptions
    from omnigraph.ids import BranchName

    settings = Settings()
    return SparkLoad(
        graph._graph,
        session,
        settings,
        [source_of(spec, targets, settings)],
        LoadOptions(mode=LoadMode.MERGE, branch=BranchName("main")),
        external=DENY_ALL,
    ).report()
