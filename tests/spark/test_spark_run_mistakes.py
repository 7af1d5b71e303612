"""What a run of a `pipeline.yaml` says of mistakes, of files that change, and of nothing to do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.extended import thinned

from omnigraph import Graph
from omnigraph.errors import InputChanged, InvalidArgument, SourceError
from omnigraph.graph.blobs.addresses import DENY_ALL
from omnigraph.pipeline.load.pipeline_run import PipelineRun, RunOptions
from omnigraph.pipeline.spark.job import JobContext, open_job
from omnigraph.pipeline.spec.pipeline_file import read_pipeline
from omnigraph.pipeline.spec.pipeline_spec import with_paths_from
from omnigraph.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from omnigraph.pipeline.pipeline import Pipeline
    from omnigraph.pipeline.spark.session import PipelineSession

SCHEMA = """
node Person { slug: String @key  age: I32? }
node Order { number: String @key }
edge Placed: Person -> Order
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with Graph.init(tmp_path / "graph", schema=SCHEMA) as opened:
        yield opened


@pytest.fixture
def pipeline(graph: Graph, session: PipelineSession) -> Pipeline:
    return graph.pipeline(session.spark)


def ids(graph: Graph, type_name: str) -> list[str]:
    lines = b"".join(graph.export(types=[type_name])).splitlines()
    found = [json.loads(line)["data"] for line in lines]
    return [each.get("slug") or each.get("number") or each["id"] for each in found]


def commits(graph: Graph) -> int:
    return len(graph.commits.list(limit=1_000))


def cursor_file(folder: Path, name: str, more: str = "") -> Path:
    """A pipeline that follows the column `n` of a text file."""
    form = name.rpartition(".")[2]
    file = folder / "feed.yaml"
    file.write_text(
        "version: 1\nname: feed\nmode: merge\n"
        f"sources:\n  p: {{format: {form}, path: {name}, {more}cursor: "
        "{column: n, type: integer}}\n"
        "nodes: [{type: Person, from: p, columns: {slug: slug}}]\n"
    )
    return file


INFERRED = "options: {inferSchema: true}, "
TEXTS = {
    "csv": ("slug,n\na,1\n", INFERRED),
    "json": ('{"slug":"a","n":1}\n', ""),
}


@pytest.mark.extended
@pytest.mark.parametrize(
    ("form", "empty"),
    [("csv", ""), ("csv", "\n"), ("csv", "slug,n\n"), ("json", ""), ("json", " \n\n")],
)
def test_a_cursor_over_files_without_rows_has_nothing_to_load_and_stays(
    tmp_path: Path, graph: Graph, pipeline: Pipeline, form: str, empty: str
) -> None:
    rows, more = TEXTS[form]
    data = tmp_path / f"people.{form}"
    file = cursor_file(tmp_path, data.name, more)
    before = commits(graph)
    data.write_text(empty)
    first = pipeline.run(file)
    assert (first.commit, first.cursors, first.tables) == (None, {}, ())
    data.write_text(rows)
    assert pipeline.run(file).cursors == {"p": 1}
    data.write_text(empty)
    again = pipeline.run(file)
    assert (again.commit, again.cursors) == (None, {"p": 1})
    assert (commits(graph), ids(graph, "Person")) == (before + 1, ["a"])
    data.write_text(rows.replace("a", "b").replace("1", "2"))
    assert pipeline.run(file).cursors == {"p": 2}


@pytest.mark.parametrize(("name", "text"), [("p.csv", "slug,m\n"), ("p.json", "{}\n")])
def test_a_cursor_whose_column_is_missing_is_refused_at_its_place(
    tmp_path: Path, pipeline: Pipeline, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    file = cursor_file(tmp_path, name)
    with pytest.raises(SourceError, match=r"feed\.yaml:5:.*no column `n` for its cursor") as told:
        pipeline.run(file)
    assert str(told.value.details["place"]).startswith(f"{file}:5:")


@pytest.mark.extended
def test_an_empty_file_beside_another_source_keeps_the_cursor(
    tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    (tmp_path / "p.csv").write_text("slug,n\na,1\n")
    file = cursor_file(tmp_path, "p.csv", INFERRED)
    file.write_text(
        file.read_text().replace("sources:", "sources:\n  more: {format: ndjson, path: more.jsonl}")
    )
    (tmp_path / "more.jsonl").write_text('{"type":"Person","data":{"slug":"x"}}\n')
    pipeline.run(file)
    (tmp_path / "p.csv").write_text("")
    (tmp_path / "more.jsonl").write_text('{"type":"Person","data":{"slug":"yy"}}\n')
    report = pipeline.run(file)
    assert report.cursors == {"p": 1}
    kept = graph.commits.list().commits[0].stats["pipeline"]["cursors"]
    assert kept["p"]["value"] == 1
    assert ids(graph, "Person") == ["a", "x", "yy"]


@pytest.mark.parametrize(
    "text", thinned([None, "slug\nb\n", "slug,n\na,x\n", "slug,n\na,1\nb,2\n"], keep=2)
)
def test_files_that_change_before_the_end_of_a_cursor_is_found_are_told(
    tmp_path: Path, graph: Graph, session: PipelineSession, text: str | None
) -> None:
    data = tmp_path / "people.csv"
    data.write_text("slug,n\na,1\n")
    file = cursor_file(tmp_path, data.name, "schema: {slug: string, n: bigint}, ")
    stages: list[str] = []

    def opened() -> JobContext:
        # Asked for when the files are found, and before Spark reads them.
        data.unlink(missing_ok=True) if text is None else data.write_text(text)
        progress = lambda told: stages.append(told.stage)  # noqa: E731
        return open_job(graph._graph, session, Settings(), kind="load", progress=progress)

    run = PipelineRun(
        graph._graph,
        Settings(),
        opened,
        with_paths_from(read_pipeline(file, {}), tmp_path),
        RunOptions(),
        external=DENY_ALL,
    )
    with pytest.raises(InputChanged, match=r"people\.csv"):
        run.report()
    assert "intake" not in stages
    assert ids(graph, "Person") == []


MAPPED = """version: 1
name: crm
mode: merge
sources:
  people: {format: FORM, path: people.FORM}
nodes:
  - type: Person
    from: people
    columns:
      slug: person
      age: {expr: "cast(years as int)"}
    where: "years <> '0'"
  - type: Order
    from: people
    columns: {number: person}
edges:
  - type: Placed
    from: people
    src: person
    dst: {key: {number: person}}
"""


@pytest.mark.parametrize("form", thinned(["csv", "parquet"]))
@pytest.mark.parametrize(
    ("given", "wrong", "place", "said"),
    [
        ("type: Person\n", "type: Persn\n", "7:5", "there is no type"),
        ("slug: person", "slugg: person", "10:7", "no property `slugg`"),
        ("slug: person", "slug: persn", "10:7", "no column `persn`"),
        ("(years as int)", "(yers as int)", "11:7", "Person.age, which is the expression"),
        ("cast(years as int)", "years", "11:7", "type_error: the expression 'years'"),
        ("cast(years as int)", "cast(", "11:7", "PARSE_SYNTAX_ERROR"),
        ("years <> '0'", "yers <> '0'", "12:5", "the condition \"yers <> '0'\" of Person"),
        ("{number: person}\nedges", "{}\nedges", "13:5", "nothing of the source becomes"),
        ("src: person", "src: persn", "19:5", "no column `persn` for Placed.src"),
        ("{key: {number: person}}", "{key: {nr: person}}", "20:5", "has the key (number)"),
        ("{key: {number: person}}", "{key: {number: persn}}", "20:17", "no column `persn`"),
    ],
)
def test_a_mistake_of_a_mapping_is_told_with_its_source_and_its_line(
    tmp_path: Path,
    graph: Graph,
    pipeline: Pipeline,
    form: str,
    given: str,
    wrong: str,
    place: str,
    said: str,
) -> None:
    pq.write_table(pa.table({"person": ["a"], "years": ["7"]}), tmp_path / "people.parquet")
    (tmp_path / "people.csv").write_text("person,years\na,7\n")
    text = MAPPED.replace("FORM", form)
    assert text.count(given) == 1
    file = tmp_path / "crm.yaml"
    file.write_text(text.replace(given, wrong))
    with pytest.raises((SourceError, InvalidArgument)) as told:
        pipeline.run(file)
    assert said in told.value.message
    assert told.value.message.startswith(f"{file}:{place}: ")
    assert told.value.message.count("source 'people'") == 1
    assert told.value.details["place"] == f"{file}:{place}"
    assert told.value.details["source"] == "people"
    assert ids(graph, "Person") == []


ALL = """version: 1
name: crm
mode: merge
sources:
  people: {format: parquet, path: people.parquet}
  orders: {format: csv, path: orders.csv}
nodes:
  - type: Person
    from: people
    columns: {slug: id, age: years}
  - type: Order
    from: orders
    columns: {number: nr}
    where: "state <> 'x'"
edges:
  - type: Placed
    from: people
    src: id
    dst: {expr: "cast(years as int)"}
  - type: Placed
    from: orders
    src: {expr: "cast(nr as int)"}
    dst: {expr: "lowr(nr)"}
"""


def places_of_mistakes(error: SourceError) -> list[tuple[str, str]]:
    found = error.details["mistakes"]
    assert isinstance(found, list)
    return [(str(each["place"]).partition(".yaml:")[2], each["source"]) for each in found]


def test_all_mistakes_of_a_run_are_told_at_once(
    tmp_path: Path, graph: Graph, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"id": ["a"], "years": ["7"]}), tmp_path / "people.parquet")
    (tmp_path / "orders.csv").write_text("nr\n1\n")
    file = tmp_path / "crm.yaml"
    file.write_text(ALL)

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("Spark was started")

    with monkeypatch.context() as patched:
        patched.setattr("omnigraph.pipeline.pipeline.open_session", refuse)
        file.write_text(ALL.replace("number: nr", "nmber: nr").replace("src: id", "src: idd"))
        with pytest.raises(SourceError) as told:
            graph.pipeline().run(file)
    assert places_of_mistakes(told.value) == [
        ("13:15", "orders"),
        ("10:25", "people"),
        ("18:5", "people"),
    ]
    file.write_text(ALL.replace("age: years", 'age: {expr: "years"}'))
    with pytest.raises(SourceError) as told:
        pipeline.run(file)
    assert places_of_mistakes(told.value) == [
        ("10:25", "people"),
        ("19:5", "people"),
        ("14:5", "orders"),
        ("22:5", "orders"),
        ("23:5", "orders"),
    ]
    assert ids(graph, "Person") == []


FOLLOWED = """version: 1
name: crm
mode: merge
sources:
  people: {format: parquet, path: people.parquet, cursor: {column: at, type: integer}}
  orders: {format: csv, path: orders.csv, cursor: {column: at, type: string}}
  more: {format: csv, path: orders.csv}
nodes:
  - {type: Person, from: people, columns: {slug: id, age: years}}
  - {type: Order, from: orders, columns: {number: nmber}}
  - {type: Person, from: more, columns: {slug: nr, age: nr}}
"""


def test_mistakes_that_files_tell_need_no_spark_also_beside_a_cursor(
    tmp_path: Path, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = pa.table({"id": ["a"], "years": ["7"], "at": pa.array([1], pa.int32())})
    pq.write_table(people, tmp_path / "people.parquet")
    (tmp_path / "orders.csv").write_text("nr\n1\n")
    file = tmp_path / "crm.yaml"
    file.write_text(FOLLOWED)

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("Spark was started")

    monkeypatch.setattr("omnigraph.pipeline.pipeline.open_session", refuse)
    with pytest.raises(SourceError) as told:
        graph.pipeline().run(file)
    assert places_of_mistakes(told.value) == [
        ("9:54", "people"),
        ("10:43", "orders"),
        ("11:52", "more"),
    ]
    file.write_text(FOLLOWED.replace("{number: nmber}", "{number: nr}").replace("years", "at"))
    with pytest.raises(SourceError) as told:
        graph.pipeline().run(file)
    assert places_of_mistakes(told.value) == [("6:52", "orders"), ("11:52", "more")]


def test_mistakes_of_all_sources_are_told_before_a_cursor_reads_a_row(
    tmp_path: Path, pipeline: Pipeline, session: PipelineSession
) -> None:
    for name in ("followed_people", "followed_orders"):
        session.spark.sql(
            "SELECT 'a' AS id, cast(raise_error('a row was read') AS bigint) AS n"
        ).createOrReplaceTempView(name)
    file = tmp_path / "crm.yaml"
    file.write_text(
        "version: 1\nname: crm\nmode: merge\nsources:\n"
        "  p: {format: table, table: followed_people, cursor: {column: n, type: integer}}\n"
        "  o: {format: table, table: followed_orders, cursor: {column: n, type: integer}}\n"
        "  q: {format: table, table: followed_people}\n"
        "nodes:\n"
        "  - {type: Person, from: p, columns: {slug: idd, age: n}}\n"
        "  - {type: Order, from: o, columns: {number: n}}\n"
        "  - {type: Order, from: q, columns: {number: {expr: lowr(id)}}}\n"
    )
    with pytest.raises(SourceError) as told:
        pipeline.run(file)
    assert places_of_mistakes(told.value) == [
        ("9:39", "p"),
        ("9:50", "p"),
        ("10:38", "o"),
        ("11:38", "q"),
    ]


def test_columns_of_parquet_files_are_told_with_file_and_line(
    tmp_path: Path, pipeline: Pipeline
) -> None:
    (tmp_path / "people").mkdir()
    pq.write_table(
        pa.table({"slug": ["a"], "age": pa.array([1], pa.int32())}), tmp_path / "people/1.parquet"
    )
    pq.write_table(pa.table({"slug": ["b"], "age": ["x"]}), tmp_path / "people/2.parquet")
    file = tmp_path / "crm.yaml"
    file.write_text(
        "version: 1\nname: crm\nmode: merge\n"
        "sources: {people: {format: parquet, path: people}}\n"
        "nodes: [{type: Person, from: people, columns: {slug: slug, age: age}}]\n"
    )
    with pytest.raises(SourceError) as told:
        pipeline.run(file)
    second = str(tmp_path / "people" / "2.parquet")
    assert told.value.message.startswith(f"{file}:5:60: source 'people': {second}: type_error")
    assert told.value.details["path"] == second


@pytest.mark.extended
def test_where_a_mapping_stands_is_no_part_of_what_a_run_is_known_by(
    tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    (tmp_path / "people.csv").write_text("person,years\na,7\n")
    file = tmp_path / "crm.yaml"
    file.write_text(MAPPED.replace("FORM", "csv"))
    pipeline.run(file)
    file.write_text("# moved\n" + MAPPED.replace("FORM", "csv"))
    before = commits(graph)
    assert pipeline.run(file).already_loaded
    assert commits(graph) == before


@pytest.mark.extended
def test_a_value_that_cannot_be_cast_is_told_with_its_property_and_expression(
    tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    (tmp_path / "1.csv").write_text("slug,age\na,1\n")
    wrong = tmp_path / "2.csv"
    wrong.write_text("slug,age\nb,old\n")
    columns: dict[str, str | dict[str, str]] = {
        "slug": "slug",
        "age": {"expr": "1 +\n  cast(age as int)"},
    }

    def load(path: Path) -> SourceError:
        with pytest.raises(SourceError, match="CAST_INVALID_INPUT") as told:
            pipeline.load(path, mode="append", format="csv", type="Person", columns=columns)
        assert "Person.age, which is the expression" in told.value.message
        assert "'old'" in told.value.message
        assert told.value.details["property"] == "age"
        return told.value

    alone = load(wrong)
    assert (alone.details["path"], str(wrong) in alone.message) == (str(wrong), True)
    assert "path" not in load(tmp_path / "*.csv").details
    assert ids(graph, "Person") == []


@pytest.mark.parametrize("column", thinned(["years", "yers"]))
@pytest.mark.parametrize("part", thinned(["cast(years as int)", "years <> '0'"]))
def test_the_value_of_a_variable_in_an_expression_is_not_shown(
    tmp_path: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, column: str, part: str
) -> None:
    (tmp_path / "people.csv").write_text("person,years\na,7\n")
    monkeypatch.setenv("PEPPER", "top-hidden-value")
    long = "0 + " * 100
    sql = f"cast(concat({column}, '${{PEPPER}}') as int) + {long}0"
    file = tmp_path / "crm.yaml"
    wrong = sql if part.startswith("cast") else f"{sql} > 0"
    file.write_text(MAPPED.replace("FORM", "csv").replace(part, wrong))
    with pytest.raises(SourceError, match=r"CAST_INVALID_INPUT|UNRESOLVED_COLUMN") as told:
        pipeline.run(file)
    assert "hidden" not in f"{told.value.message}{json.dumps(told.value.details)}"
    assert told.value.details["property"] == ("age" if part.startswith("cast") else "where")


def test_the_value_of_a_variable_is_not_shown_with_a_type_that_does_not_fit(
    tmp_path: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "people.csv").write_text("person,years\na,7\n")
    monkeypatch.setenv("PEPPER", "top-hidden-value")
    file = tmp_path / "crm.yaml"
    wrong = "concat(years, '${PEPPER}')"
    file.write_text(MAPPED.replace("FORM", "csv").replace("cast(years as int)", wrong))
    with pytest.raises(SourceError, match="type_error: the expression") as told:
        pipeline.run(file)
    assert "hidden" not in f"{told.value.message}{json.dumps(told.value.details)}"
    assert told.value.details["property"] == "age"


@pytest.mark.extended
def test_a_condition_that_fails_for_a_row_is_told(tmp_path: Path, pipeline: Pipeline) -> None:
    (tmp_path / "people.csv").write_text("person,years\na,old\n")
    file = tmp_path / "crm.yaml"
    text = MAPPED.replace("FORM", "csv").replace("years <> '0'", "cast(years as bigint) > 3")
    file.write_text(text.replace('{expr: "cast(years as int)"}', '{expr: "3"}'))
    with pytest.raises(SourceError) as told:
        pipeline.run(file)
    assert "the condition 'cast(years as bigint) > 3' of Person" in told.value.message


@pytest.mark.extended
def test_a_source_that_feeds_several_types_is_read_once(
    tmp_path: Path, session: PipelineSession, pipeline: Pipeline
) -> None:
    reads = tmp_path / "reads"
    reads.mkdir()
    folder = str(reads)

    def told(number: int) -> str:
        from pathlib import Path
        from tempfile import mkstemp

        mkstemp(prefix=f"{number}-", dir=Path(folder))
        return f"n{number}"

    spark = session.spark
    spark.udf.register("told_read", told, "string")
    spark.range(6, numPartitions=3).selectExpr("told_read(id) as name").createOrReplaceTempView(
        "read_once"
    )
    file = tmp_path / "crm.yaml"
    file.write_text(
        "version: 1\nname: crm\nmode: append\n"
        "sources: {names: {format: table, table: read_once}}\n"
        "nodes:\n"
        "  - {type: Person, from: names, columns: {slug: name}}\n"
        "  - {type: Order, from: names, columns: {number: name}}\n"
        "edges:\n"
        "  - {type: Placed, from: names, src: name, dst: name}\n"
    )
    report = pipeline.run(file)
    assert [each.added for each in report.tables] == [6, 6, 6]
    assert sorted(each.name.partition("-")[0] for each in reads.iterdir()) == list("012345")
    level = spark.table("read_once").storageLevel
    assert (level.useMemory, level.useDisk) == (False, False)
