"""A `pipeline.yaml` is one commit; the same run again is none; cursors move with their data."""

from __future__ import annotations

import json
import random  # noqa: TID251 - seeded
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.extended import thinned

from omnigraph import Graph
from omnigraph.errors import (
    BranchNotFound,
    IdempotencyKeyReused,
    InputChanged,
    InvalidArgument,
    JsonValue,
    LoadRejected,
    PipelineTaskError,
    ReadSetChanged,
    SettingInvalid,
    SourceError,
)
from omnigraph.failpoints import STEPS, armed
from omnigraph.pipeline.files.source_errors import reading_errors
from omnigraph.pipeline.sources.request import describe_reader, secrets_of
from omnigraph.pipeline.spec.pipeline_spec import SourceFormat, SourceSpec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from omnigraph.graph.jobs.stage_progress import StageProgress
    from omnigraph.pipeline.pipeline import Pipeline
    from omnigraph.pipeline.spark.session import PipelineSession

SCHEMA = """
node Person { slug: String @key  name: String?  age: I32?  at: DateTime? }
node Order { number: String @key  total: F64? }
edge Placed: Person -> Order
"""

FILE = """
version: 1
name: crm
mode: merge
sources:
  people: {format: parquet, path: "people/*.parquet"}
  orders: {format: csv, path: orders.csv}
  more: {format: ndjson, path: more.jsonl}
nodes:
  - type: Person
    from: people
    columns: {slug: person_id, name: full_name, age: {expr: "cast(age as int)"}}
  - type: Order
    from: orders
    columns: {number: order_id, total: {expr: "cast(total as double)"}}
edges:
  - type: Placed
    from: orders
    id: {expr: "concat('o-', order_id)"}
    src: customer
    dst: {key: {number: order_id}}
    where: "status <> 'test'"
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with Graph.init(tmp_path / "graph", schema=SCHEMA) as opened:
        yield opened


@pytest.fixture
def pipeline(graph: Graph, session: PipelineSession) -> Pipeline:
    return graph.pipeline(session.spark)


@pytest.fixture
def crm(tmp_path: Path) -> Path:
    (tmp_path / "people").mkdir()
    write_people(tmp_path, "a", range(3))
    (tmp_path / "orders.csv").write_text(
        "order_id,customer,total,status\n1,p0,2.5,new\n2,p1,3,test\n3,p9,1,new\n"
    )
    (tmp_path / "more.jsonl").write_text('{"type":"Person","data":{"slug":"p9"}}\n')
    (tmp_path / "pipeline.yaml").write_text(FILE)
    return tmp_path / "pipeline.yaml"


def write_people(folder: Path, name: str, numbers: range) -> None:
    table = pa.table(
        {
            "person_id": [f"p{n}" for n in numbers],
            "full_name": [f"Name {n}" for n in numbers],
            "age": [float(n) for n in numbers],
        }
    )
    pq.write_table(table, folder / "people" / f"{name}.parquet")


def ids(graph: Graph, type_name: str) -> list[str]:
    lines = b"".join(graph.export(types=[type_name])).splitlines()
    found = [json.loads(line)["data"] for line in lines]
    return [each.get("slug") or each.get("number") or each["id"] for each in found]


def commits(graph: Graph) -> int:
    return len(graph.commits.list(limit=1_000))


def test_rows_of_some_columns_change_only_those(
    crm: Path, tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    pipeline.run(crm)
    (tmp_path / "ages.csv").write_text("who,age\np0,50\np1,1\np77,7\n")
    some = """
version: 1
name: ages
mode: MODE
sources: {ages: {format: csv, path: ages.csv, schema: {who: string, age: int}}}
nodes: [{type: Person, from: ages, columns: {slug: who, age: age}}]
"""
    file = tmp_path / "ages.yaml"
    file.write_text(some.replace("MODE", "update"))
    with pytest.raises(LoadRejected, match="there is no Person 'p77' to update"):
        pipeline.run(file)
    file.write_text(some.replace("MODE", "merge\ncolumns: only"))
    (table,) = pipeline.run(file).tables
    assert (table.added, table.changed, table.unchanged) == (1, 1, 1)
    people = {each["slug"]: each for each in graph.snapshot().scan("Person").read_all().to_pylist()}
    assert (people["p0"]["name"], people["p0"]["age"]) == ("Name 0", 50)
    assert (people["p77"]["name"], people["p77"]["age"]) == (None, 7)


def test_rows_of_some_columns_are_known_by_their_id_alone(
    crm: Path, tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    pipeline.run(crm)
    lines = tmp_path / "some.jsonl"
    lines.write_text('{"type":"Person","data":{"id":"p0","age":51}}\n')
    assert pipeline.load(lines, mode="update").tables[0].changed == 1
    (tmp_path / "ages.csv").write_text("id,age\np1,61\np99,7\n")
    file = tmp_path / "ages.yaml"
    file.write_text(
        "version: 1\nname: ages\nmode: update\n"
        "sources: {ages: {format: csv, path: ages.csv, schema: {id: string, age: int}}}\n"
        "nodes: [{type: Person, from: ages, id: id, columns: {age: age}}]\n"
    )
    with pytest.raises(LoadRejected, match="there is no Person 'p99' to update") as refused:
        pipeline.run(file)
    assert refused.value.details["counts"] == {"unknown_key": 1}
    (tmp_path / "ages.csv").write_text("id,age\np1,61\n")
    pipeline.run(file)
    people = {
        each["id"]: each["age"] for each in graph.snapshot().scan("Person").read_all().to_pylist()
    }
    assert (people["p0"], people["p1"]) == (51, 61)


def test_a_file_is_one_commit_and_the_same_run_again_is_none(
    crm: Path, graph: Graph, pipeline: Pipeline
) -> None:
    before = commits(graph)
    report = pipeline.run(crm)
    assert commits(graph) == before + 1
    assert [(each.table, each.read, each.added) for each in report.tables] == [
        ("node:Order", 3, 3),
        ("node:Person", 4, 4),
        ("edge:Placed", 2, 2),
    ]
    assert ids(graph, "Person") == ["p0", "p1", "p2", "p9"]
    assert ids(graph, "Placed") == ["o-1", "o-3"]
    assert report.job_key is not None
    again = pipeline.run(crm)
    assert again.already_loaded
    assert (again.commit, again.tables) == (report.commit, report.tables)
    assert commits(graph) == before + 1
    forced = pipeline.run(crm, force=True)
    assert not forced.already_loaded
    assert [each.unchanged for each in forced.tables] == [3, 4, 2]
    assert (forced.commit, commits(graph)) == (None, before + 1)


@pytest.mark.extended
def test_a_changed_file_or_mapping_is_another_run(
    crm: Path, graph: Graph, pipeline: Pipeline
) -> None:
    first = pipeline.run(crm, only=["people"])
    write_people(crm.parent, "b", range(3, 5))
    second = pipeline.run(crm, only=["people"])
    assert second.job_key != first.job_key
    assert ids(graph, "Person") == [f"p{n}" for n in range(5)]
    crm.write_text(FILE.replace("name: full_name, ", ""))
    third = pipeline.run(crm, only=["people"])
    assert third.job_key not in (first.job_key, second.job_key)
    assert third.tables[0].changed == 5


@pytest.mark.extended
def test_nothing_of_a_failed_run_is_seen(crm: Path, graph: Graph, pipeline: Pipeline) -> None:
    (crm.parent / "more.jsonl").write_text("no json\n")
    before = commits(graph)
    with pytest.raises(Exception, match=r"more\.jsonl|line 1|malformed"):
        pipeline.run(crm)
    assert commits(graph) == before
    assert ids(graph, "Person") == []


@pytest.mark.extended
def test_bad_rows_of_a_run_are_set_aside(crm: Path, graph: Graph, pipeline: Pipeline) -> None:
    crm.write_text(
        FILE.replace(
            "mode: merge",
            "mode: merge\non_error: {action: quarantine, rejects: bad, max_reject_ratio: 0.5}",
        )
    )
    (crm.parent / "more.jsonl").write_text(
        '{"type":"Person","data":{"slug":"p9"}}\n{"type":"Person","data":{"slug":5}}\n'
    )
    report = pipeline.run(crm)
    assert report.violations == {"type_error": 1}
    assert report.rejects_uri is not None
    assert report.rejects_uri.startswith(str(crm.parent / "bad"))
    (bad,) = (crm.parent / "bad").glob("*/rejects.ndjson")
    (line,) = map(json.loads, bad.read_text().splitlines())
    assert (line["source"], line["line"]) == (str(crm.parent / "more.jsonl"), 2)
    assert ids(graph, "Person") == ["p0", "p1", "p2", "p9"]
    again = pipeline.run(crm)
    assert (again.already_loaded, again.violations) == (True, report.violations)
    assert again.rejects_uri == report.rejects_uri


@pytest.mark.extended
def test_a_dry_run_changes_nothing(crm: Path, graph: Graph, pipeline: Pipeline) -> None:
    before = commits(graph)
    report = pipeline.run(crm, dry_run=True)
    assert (report.dry_run, report.commit) == (True, None)
    assert [each.added for each in report.tables] == [3, 4, 2]
    assert commits(graph) == before


def test_options_that_contradict_each_other_are_refused(crm: Path, pipeline: Pipeline) -> None:
    with pytest.raises(InvalidArgument, match="say one of the two"):
        pipeline.run(crm, full_refresh=True, keep_cursor=True)
    with pytest.raises(InvalidArgument, match="names no source"):
        pipeline.run(crm, only=[])


def test_mistakes_are_told(crm: Path, pipeline: Pipeline) -> None:
    with pytest.raises(InvalidArgument, match="people"):
        pipeline.run(crm, only=["peopel"])
    with pytest.raises(SettingInvalid, match="cannot be read"):
        pipeline.run(crm.parent / "none.yaml")
    crm.write_text(FILE.replace("full_name", "fullname"))
    with pytest.raises(SourceError, match=r"no column `fullname`.*full_name"):
        pipeline.run(crm)


CURSOR_FILE = """
version: 1
name: feed
mode: {mode}
sources:
  events: {{format: table, table: {table}, cursor: {{column: {column}, type: {type}{lag}}}}}
nodes:
  - type: Person
    from: events
    columns: {{slug: slug, at: {{expr: "cast(at as timestamp)"}}}}
"""


class Feed:
    """A table that grows, and the pipeline that follows it."""

    def __init__(self, folder: Path, session: PipelineSession) -> None:
        self.path = folder / "feed.yaml"
        self.spark = session.spark
        self.name = f"events_{abs(hash(folder))}"
        self.rows: list[tuple[Any, ...]] = []

    def declare(self, *, mode: str = "append", lag: str = "", kind: str = "timestamp") -> None:
        column = {"timestamp": "at", "date": "day", "integer": "n", "string": "slug"}[kind]
        self.path.write_text(
            CURSOR_FILE.format(mode=mode, table=self.name, column=column, type=kind, lag=lag)
        )

    def add(self, *numbers: int) -> None:
        start = datetime(2024, 1, 1, tzinfo=UTC)
        self.rows += [
            (f"e{n:03}", start + timedelta(minutes=n), date(2024, 1, 1) + timedelta(days=n), n)
            for n in numbers
        ]
        self.publish()

    def publish(self) -> None:
        frame = self.spark.createDataFrame(
            self.rows, "slug string, at timestamp, day date, n bigint"
        )
        frame.createOrReplaceTempView(self.name)


@pytest.fixture
def feed(tmp_path: Path, session: PipelineSession) -> Feed:
    return Feed(tmp_path, session)


@pytest.mark.parametrize("kind", thinned(["timestamp", "date", "integer", "string"]))
def test_a_cursor_reads_only_what_is_new(
    kind: str, feed: Feed, graph: Graph, pipeline: Pipeline
) -> None:
    feed.declare(kind=kind)
    feed.add(1, 2, 3)
    first = pipeline.run(feed.path)
    assert first.tables[0].added == 3
    feed.add(4, 5)
    second = pipeline.run(feed.path)
    assert second.tables[0].read == 2
    before = commits(graph)
    third = pipeline.run(feed.path)
    assert (third.commit, commits(graph)) == (None, before)
    assert third.cursors == second.cursors
    assert ids(graph, "Person") == [f"e{n:03}" for n in (1, 2, 3, 4, 5)]
    kept = graph.commits.list().commits[0].stats["pipeline"]["cursors"]["events"]["value"]
    assert {"events": kept} == second.cursors


def test_a_lag_reads_late_rows_again(feed: Feed, graph: Graph, pipeline: Pipeline) -> None:
    feed.declare(mode="merge", lag=", lag: 2m")
    feed.add(1, 5)
    pipeline.run(feed.path)
    feed.add(4)
    report = pipeline.run(feed.path)
    assert (report.tables[0].added, report.tables[0].unchanged) == (1, 1)
    assert ids(graph, "Person") == ["e001", "e004", "e005"]


def test_a_row_that_changes_within_the_lag_is_loaded_though_nothing_newer_came(
    feed: Feed, graph: Graph, pipeline: Pipeline
) -> None:
    feed.declare(mode="merge", lag=", lag: 5m")
    feed.add(16, 20)
    pipeline.run(feed.path)
    assert pipeline.run(feed.path).commit is None
    first = feed.rows[0]
    for minute in (18, 16):  # later, then again as it was
        feed.rows[0] = (first[0], datetime(2024, 1, 1, 0, minute, tzinfo=UTC), *first[2:])
        feed.publish()
        report = pipeline.run(feed.path)
        assert (report.already_loaded, report.tables[0].changed) == (False, 1)
        line = b"".join(graph.export(types=["Person"])).splitlines()[0]
        assert json.loads(line)["data"]["at"] == f"2024-01-01T00:{minute}:00.000Z"


@pytest.mark.extended
def test_a_row_that_comes_late_within_the_lag_is_read(
    feed: Feed, graph: Graph, pipeline: Pipeline
) -> None:
    feed.declare(mode="merge", lag=", lag: 5m")
    feed.add(1, 20)
    pipeline.run(feed.path)
    pipeline.run(feed.path)
    feed.add(18)
    report = pipeline.run(feed.path)
    assert (report.already_loaded, report.tables[0].added) == (False, 1)
    assert ids(graph, "Person") == ["e001", "e018", "e020"]


@pytest.mark.extended
def test_rows_without_a_value_are_told_whenever_they_are_left_out(
    feed: Feed, graph: Graph, pipeline: Pipeline
) -> None:
    feed.declare(mode="merge")
    feed.rows.append(("never", None, None, None))
    feed.publish()
    pipeline.run(feed.path)
    feed.rows.append(("never2", None, None, None))
    feed.publish()
    assert not pipeline.run(feed.path).already_loaded
    assert ids(graph, "Person") == ["never", "never2"]
    feed.add(1)
    pipeline.run(feed.path)
    feed.add(2)
    report = pipeline.run(feed.path)
    assert "2 rows without a value" in report.warnings[0]


class _Killed(BaseException):
    """The run ends here, wherever it is."""


@pytest.mark.parametrize("seed", thinned(range(2)))
def test_no_row_is_lost_or_read_twice_when_runs_end_anywhere(
    seed: int, feed: Feed, graph: Graph, session: PipelineSession
) -> None:
    rng = random.Random(seed)  # noqa: S311 - a test
    points = [
        *(f"spark_load.post_{step}" for step in ("list", "intake", "check", "resolve")),
        *(f"load.{step}" for step in STEPS if step != "between_links"),
    ]

    def end() -> None:
        raise _Killed

    feed.declare()
    number = cut_off = 0
    for _ in range(5):
        feed.add(*range(number, number + rng.randint(1, 3)))
        number = len(feed.rows)
        with armed(rng.choice(points), end):
            try:
                graph.pipeline(session.spark).run(feed.path)
            except _Killed:
                cut_off += 1
        if rng.random() < 0.5:
            graph.pipeline(session.spark).run(feed.path)
    graph.pipeline(session.spark).run(feed.path)
    assert cut_off
    assert ids(graph, "Person") == [f"e{n:03}" for n in range(number)]
    kept = graph.commits.list().commits[0].stats["pipeline"]["cursors"]["events"]["value"]
    assert kept == f"2024-01-01T00:{number - 1:02}:00.000000Z"


def test_files_with_a_cursor_that_change_while_they_are_read_fail_the_run(
    tmp_path: Path, graph: Graph, pipeline: Pipeline
) -> None:
    data = tmp_path / "people.csv"
    data.write_text("slug,n\na,1\n")
    file = tmp_path / "files.yaml"
    file.write_text(
        "version: 1\nname: files\nmode: merge\n"
        "sources: {p: {format: csv, path: people.csv, schema: {slug: string, n: bigint},"
        " cursor: {column: n, type: integer}}}\n"
        "nodes: [{type: Person, from: p, columns: {slug: slug}}]\n"
    )

    def change(told: StageProgress) -> None:
        if told.stage == "intake":
            data.write_text("slug,n\na,1\nb,2\n")

    with pytest.raises(InputChanged, match=r"people\.csv"):
        pipeline.run(file, progress=change)
    assert ids(graph, "Person") == []


def test_a_cursor_cannot_overwrite(feed: Feed, pipeline: Pipeline) -> None:
    feed.declare(mode="overwrite")
    feed.add(1)
    with pytest.raises(SettingInvalid, match="a cursor reads what is new"):
        pipeline.run(feed.path)


def test_the_secrets_of_a_source_are_not_in_its_errors() -> None:
    spec = SourceSpec(
        name="q",
        format=SourceFormat.JDBC,
        options={"url": "jdbc:x://h/db?user=u&password=s3cret", "dbtable": "t"},
    )
    cause: dict[str, JsonValue] = {"error": "spark", "message": "no login with password=s3cret"}
    with pytest.raises(SourceError) as caught, reading_errors("q", secrets_of(spec)):
        raise PipelineTaskError("failed: password=s3cret", stage="list", cause=cause)
    assert "s3cret" not in str(caught.value) + repr(caught.value.details)
    assert "s3cret" not in describe_reader(spec)


@pytest.mark.extended
def test_a_full_refresh_reads_everything(feed: Feed, graph: Graph, pipeline: Pipeline) -> None:
    feed.declare(mode="merge")
    feed.add(1, 5)
    pipeline.run(feed.path)
    feed.rows.append(("late", datetime(2024, 1, 1, tzinfo=UTC), date(2024, 1, 1), 0))
    feed.rows.append(("never", None, None, None))
    feed.publish()
    assert pipeline.run(feed.path).commit is None
    report = pipeline.run(feed.path, full_refresh=True)
    assert (report.tables[0].added, report.tables[0].unchanged) == (2, 2)
    assert "1 rows without a value" in report.warnings[0]
    assert "never" in ids(graph, "Person")


def test_a_changed_mapping_invalidates_its_cursor(
    feed: Feed, graph: Graph, pipeline: Pipeline
) -> None:
    feed.declare(mode="merge")
    feed.add(1)
    pipeline.run(feed.path)
    feed.path.write_text(feed.path.read_text().replace("{slug: slug,", "{slug: slug, name: slug,"))
    feed.add(2)
    with pytest.raises(InvalidArgument, match="--full-refresh"):
        pipeline.run(feed.path)
    kept = pipeline.run(feed.path, keep_cursor=True)
    assert kept.tables[0].read == 1
    assert ids(graph, "Person") == ["e001", "e002"]


@pytest.mark.extended
def test_another_type_of_a_column_that_is_used_invalidates_the_cursor(
    feed: Feed, pipeline: Pipeline
) -> None:
    feed.declare(mode="merge", kind="integer")
    feed.add(1)
    pipeline.run(feed.path)
    feed.add(2)
    frame = feed.spark.table(feed.name)
    frame.selectExpr("*", "1 AS unused").createOrReplaceTempView(feed.name)
    assert pipeline.run(feed.path).tables[0].added == 1
    narrow = frame.selectExpr("slug", "at", "day", "cast(n as int) AS n")
    narrow.createOrReplaceTempView(feed.name)
    with pytest.raises(InvalidArgument, match="changed since its cursor was kept"):
        pipeline.run(feed.path)
    assert pipeline.run(feed.path, keep_cursor=True).commit is None


@pytest.mark.extended
def test_a_source_beside_a_cursor_is_loaded_again_only_when_it_changed(
    feed: Feed, graph: Graph, pipeline: Pipeline
) -> None:
    feed.declare(mode="append")
    pairs = feed.path.parent / "pairs.csv"
    pairs.write_text("a,b\ne001,1\n")
    text = feed.path.read_text().replace(
        "sources:\n", "sources:\n  pairs: {format: csv, path: pairs.csv}\n"
    )
    feed.path.write_text(
        f"{text}  - type: Order\n    from: pairs\n    columns: {{number: b}}\n"
        "edges:\n  - {type: Placed, from: pairs, src: a, dst: {key: {number: b}}}\n"
    )
    feed.add(1)
    pipeline.run(feed.path)
    again = pipeline.run(feed.path)
    assert (again.commit, len(ids(graph, "Placed"))) == (None, 1)
    feed.add(2)
    report = pipeline.run(feed.path)
    assert [each.table for each in report.tables] == ["node:Person"]
    assert pipeline.run(feed.path).commit is None
    pairs.write_text("a,b\ne002,2\n")
    report = pipeline.run(feed.path)
    assert [(each.table, each.added) for each in report.tables if each.read] == [
        ("node:Order", 1),
        ("edge:Placed", 1),
    ]


@pytest.mark.extended
def test_rows_that_were_set_aside_are_tried_again_beside_a_cursor(
    feed: Feed, graph: Graph, pipeline: Pipeline
) -> None:
    feed.declare(mode="merge")
    folder = feed.path.parent
    (folder / "pairs.csv").write_text("a,b\ne001,1\ne002,2\n")
    text = feed.path.read_text().replace(
        "sources:\n",
        f"on_error: {{action: quarantine, rejects: {folder / 'rejects'}, max_reject_ratio: 1}}\n"
        "sources:\n  pairs: {format: csv, path: pairs.csv}\n",
    )
    feed.path.write_text(
        f"{text}  - type: Order\n    from: pairs\n    columns: {{number: b}}\n"
        "edges:\n  - {type: Placed, from: pairs, id: b, src: a, dst: {key: {number: b}}}\n"
    )
    feed.add(1)
    pipeline.run(feed.path)
    assert ids(graph, "Placed") == ["1"]
    feed.add(2)
    pipeline.run(feed.path)
    assert ids(graph, "Placed") == ["1", "2"]
    assert pipeline.run(feed.path).commit is None


@pytest.mark.extended
def test_a_run_without_a_commit_tells_the_cursor_that_is_kept(
    feed: Feed, pipeline: Pipeline
) -> None:
    feed.declare(mode="merge", kind="integer")
    text = feed.path.read_text()
    feed.path.write_text(f"{text}    where: \"slug <> 'e002'\"\n")
    feed.add(1)
    assert pipeline.run(feed.path).cursors == {"events": 1}
    feed.add(2)
    report = pipeline.run(feed.path)
    assert (report.commit, report.cursors) == (None, {"events": 1})


@pytest.mark.extended
def test_a_run_that_is_done_or_cannot_be_needs_no_spark(
    crm: Path, graph: Graph, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = pipeline.run(crm)

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("Spark was started")

    monkeypatch.setattr("omnigraph.pipeline.pipeline.open_session", refuse)
    assert graph.pipeline().run(crm).commit == done.commit
    orders = crm.parent / "orders.csv"
    header, *_ = orders.read_text().splitlines(keepends=True)
    orders.unlink()
    with pytest.raises(SourceError, match=r"orders\.csv"):
        graph.pipeline().run(crm)
    orders.write_text(header)
    mistakes: list[tuple[str, str, type[Exception], str]] = [
        ("mode: merge", "mode: merge\nbranch: nope", BranchNotFound, "nope"),
        ("type: Order\n", "type: Ordr\n", InvalidArgument, "source 'orders': .* mean Order"),
        ("{number: order_id,", "{nmber: order_id,", SourceError, "Order has no property `nmber`"),
        ("{slug: person_id,", "{slug: person,", SourceError, "no column `person` for Person.slug"),
        ("{key: {number:", "{key: {name:", SourceError, r"`dst` of Placed .*the key \(number\)"),
    ]
    for old, new, kind, told in mistakes:
        assert old in FILE
        crm.write_text(FILE.replace(old, new))
        with pytest.raises(kind, match=told):
            graph.pipeline().run(crm)


def test_a_load_that_cannot_be_needs_no_spark(
    crm: Path, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        pytest.fail("Spark was started")

    monkeypatch.setattr("omnigraph.pipeline.pipeline.open_session", refuse)
    people = crm.parent / "people"
    mistakes: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"type": "Persn"}, InvalidArgument, "did you mean Person"),
        ({"type": "Placed"}, InvalidArgument, "is an edge type"),
        ({"type": "Person"}, SourceError, "no property for the columns `person_id`"),
        ({"type": "Person", "columns": {"slug": "nope"}}, SourceError, "no column `nope`"),
        ({"type": "Person", "branch": "nope"}, BranchNotFound, "nope"),
        ({"type": "Person", "rejects": str(crm.parent / "graph" / "r")}, InvalidArgument, "inside"),
    ]
    for options, kind, told in mistakes:
        with pytest.raises(kind, match=told):
            graph.pipeline().load(people, mode="append", **options)


@pytest.mark.extended
def test_another_value_of_a_variable_is_another_run(
    crm: Path, graph: Graph, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    crm.write_text(FILE.replace("status <> 'test'", "status = '${STATUS}'"))
    monkeypatch.setenv("STATUS", "new")
    assert pipeline.run(crm).tables[2].added == 2
    monkeypatch.setenv("STATUS", "test")
    assert not pipeline.run(crm).already_loaded
    assert ids(graph, "Placed") == ["o-1", "o-2", "o-3"]


def test_a_cursor_of_another_type_is_refused(feed: Feed, pipeline: Pipeline) -> None:
    feed.declare(kind="integer")
    feed.path.write_text(feed.path.read_text().replace("column: n,", "column: slug,"))
    feed.add(1)
    with pytest.raises(SourceError, match="is string and is declared as integer"):
        pipeline.run(feed.path)
    feed.path.write_text(feed.path.read_text().replace("column: slug,", "column: nope,"))
    with pytest.raises(SourceError, match="no column `nope`"):
        pipeline.run(feed.path)


@pytest.mark.extended
def test_a_run_that_fails_at_its_commit_keeps_the_cursor(
    feed: Feed, graph: Graph, pipeline: Pipeline
) -> None:
    feed.declare()
    feed.add(1, 2)
    pipeline.run(feed.path)
    feed.add(3)
    feed.rows.append(("e001", datetime(2024, 2, 1, tzinfo=UTC), date(2024, 2, 1), 99))
    feed.publish()
    with pytest.raises(Exception, match="exists already"):
        pipeline.run(feed.path)
    del feed.rows[-1]
    feed.publish()
    report = pipeline.run(feed.path)
    assert report.tables[0].added == 1
    assert ids(graph, "Person") == ["e001", "e002", "e003"]


@pytest.mark.extended
def test_two_runs_from_one_state_do_not_both_commit(
    feed: Feed, graph: Graph, session: PipelineSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from omnigraph.pipeline.load import pipeline_run

    feed.declare(mode="merge")
    feed.add(1)
    real = pipeline_run.PipelineRun._load
    entered: list[int] = []
    most = 1

    def overtaken(self: pipeline_run.PipelineRun, *args: Any) -> Any:  # noqa: ANN401 - as the real one
        if len(entered) < most and not is_inside[-1]:
            entered.append(1)
            is_inside.append(True)
            feed.add(len(feed.rows) + 1)
            graph.pipeline(session.spark).run(feed.path)
            is_inside.pop()
        return real(self, *args)

    is_inside = [False]
    monkeypatch.setattr(pipeline_run.PipelineRun, "_load", overtaken)
    before = commits(graph)
    # It is planned again, and finds nothing new.
    assert graph.pipeline(session.spark).run(feed.path).commit is None
    assert (commits(graph), ids(graph, "Person")) == (before + 1, ["e001", "e002"])
    most = 10
    with pytest.raises(ReadSetChanged, match="other runs of the pipeline"):
        graph.pipeline(session.spark).run(feed.path)
    assert ids(graph, "Person") == [f"e{n:03}" for n in range(1, 6)]


@pytest.mark.extended
def test_a_source_without_marks_warns_and_loads_again(tmp_path: Path, pipeline: Pipeline) -> None:
    file = tmp_path / "sql.yaml"
    file.write_text(
        "version: 1\nname: s\nmode: merge\n"
        "sources: {q: {format: sql, query: \"select 'a' as slug\"}}\n"
        "nodes: [{type: Person, from: q, columns: {slug: slug}}]\n"
    )
    first = pipeline.run(file)
    assert first.job_key is None
    assert "every run reloads it" in first.warnings[0]
    second = pipeline.run(file)
    assert (second.already_loaded, second.tables[0].unchanged) == (False, 1)


def test_a_written_frame_with_a_key_is_written_once(
    pipeline: Pipeline, session: PipelineSession
) -> None:
    frame = session.spark.createDataFrame([("a", 1)], "slug string, age int")
    first = pipeline.write(frame, type="Person", job_key="q-1-0")
    assert first.tables[0].added == 1
    again = pipeline.write(frame, type="Person", job_key="q-1-0")
    assert again.already_loaded
    assert replace(again, stages=()).commit == first.commit
    assert pipeline.write(frame, type="Person").tables[0].unchanged == 1


@pytest.mark.extended
def test_a_key_belongs_to_one_write(
    graph: Graph, pipeline: Pipeline, session: PipelineSession
) -> None:
    people = session.spark.createDataFrame([("p1",)], "slug string")
    orders = session.spark.createDataFrame([("o1",)], "number string")
    pipeline.write(people, type="Person", job_key="b-1")
    with pytest.raises(IdempotencyKeyReused, match="one key for each write"):
        pipeline.write(orders, type="Order", job_key="b-1")
    with pytest.raises(IdempotencyKeyReused):
        pipeline.write(people, type="Person", mode="append", job_key="b-1")
    assert pipeline.write(people, type="Person", job_key="b-1").already_loaded
    assert ids(graph, "Order") == []


@pytest.mark.extended
def test_a_stream_is_written_once_for_each_batch(
    tmp_path: Path, graph: Graph, pipeline: Pipeline, session: PipelineSession
) -> None:
    spark = session.spark
    (tmp_path / "in").mkdir()

    def land(name: str, *slugs: str) -> None:
        lines = "".join(json.dumps({"slug": slug}) + "\n" for slug in slugs)
        (tmp_path / "in" / name).write_text(lines)

    written: list[bool] = []

    def write(batch: Any, number: int) -> None:  # noqa: ANN401 - a frame of either client
        # The batch is given twice, as Spark may after a failure between write and checkpoint.
        for _ in range(2):
            report = pipeline.write(batch, type="Person", mode="append", job_key=f"s-{number}")
            written.append(report.already_loaded)

    def run() -> None:
        query = (
            spark.readStream.schema("slug string")
            .json(str(tmp_path / "in"))
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        error = query.exception()
        assert error is None, error

    land("1.json", "a", "b")
    run()
    land("2.json", "c")
    run()
    assert written == [False, True, False, True]
    assert ids(graph, "Person") == ["a", "b", "c"]
