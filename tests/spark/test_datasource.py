"""`spark.read.format("omnigraph")` gives the rows that Spark would pick from the same table."""

from __future__ import annotations

import contextlib
import io
import os
import random  # noqa: TID251 - seeded
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from tests.extended import thinned

from omnigraph import Graph
from omnigraph.pipeline import register
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.pipeline.spark.session import PipelineSession

SCHEMA = """
node Thing {
  name: String @key
  text: String?
  level: enum(high, low, medium)?
  flag: Bool?
  i32: I32?
  i64: I64?
  u32: U32?
  u64: U64?
  f32: F32?
  f64: F64?
  day: Date?
  at: DateTime?
  tags: [String]?
  numbers: [U64]?
  vec: Vector(2)?
  photo: Blob?
}
node Empty { name: String @key }
edge Next: Thing -> Thing { weight: F64? }
"""
TIMES = (
    datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
    datetime(2024, 1, 1, 10, tzinfo=UTC),
    datetime(2024, 1, 1, 10, 0, 0, 1_000, tzinfo=UTC),
)
VALUES: dict[str, tuple[object, ...]] = {
    "text": ("", "a", "ab", "abc", "b", "é", "ab\U0010ffff", "\U0010ffff"),
    "level": ("high", "low", "medium"),
    "flag": (True, False),
    "i32": (-(2**31), -1, 0, 7, 2**31 - 1),
    "i64": (-(2**63), -1, 0, 7, 2**63 - 1),
    "u32": (0, 7, 2**31, 2**32 - 1),
    "u64": (0, 7, 2**63, 2**64 - 1),
    "f32": (-1.5, 0.0, 0.10000000149011612, 1.0),
    "f64": (-1.5, 0.0, 0.1, 1e300),
    "day": (date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)),
    "at": TIMES,
    "tags": (["a"], [], ["a", None]),
    "numbers": ([1], [2**64 - 1, None]),
    "vec": ([0.0, 1.0],),
}
LITERALS: dict[str, tuple[str, ...]] = {
    "text": ("''", "'a'", "'ab'", "'b'", "'é'", "'zz'"),
    "level": ("'high'", "'low'", "'other'"),
    "flag": ("true", "false"),
    "i32": ("-2147483648", "0", "7", "7.5", "2147483648L", "null"),
    "i64": ("-1", "7", "9223372036854775807", "8e0", "null"),
    "u32": ("-1", "0", "7", "2147483648", "4294967295", "4294967296", "7.5"),
    "u64": ("-1", "0", "7", "7.5", "9223372036854775808", "18446744073709551616"),
    "f32": ("0", "-0.0f", "0.1f", "0.1d", "1e39d", "float('NaN')", "float('infinity')", "1"),
    "f64": ("0", "-0.0d", "0.1d", "0.1", "double('NaN')", "double('-infinity')", "1e300"),
    "day": ("date'2024-02-29'", "date'0001-01-01'", "date'2024-03-01'"),
    "at": (
        "timestamp'2024-01-01 10:00:00'",
        "timestamp'2024-01-01 10:00:00.0004'",
        "timestamp'2024-01-01 10:00:00.001'",
        "timestamp'1969-12-31 23:59:59.9995'",
        "timestamp'2024-01-01 10:00:00+01:00'",
    ),
}
OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "<=>")


@dataclass
class Source:
    """A graph and the session that reads it."""

    graph: Graph
    path: Path
    spark: SparkSession

    def read(self, **options: str) -> DataFrame:
        """A frame of the data source."""
        reader = self.spark.read.format("omnigraph").option("graph", str(self.path))
        return reader.options(**options).load()


def things(seed: int, count: int) -> pa.Table:
    """Rows that hold every value of every property, and nulls."""
    chosen = random.Random(seed)  # noqa: S311 - a test that can be repeated
    columns: dict[str, Any] = {"name": [f"{seed}-{n:03}" for n in range(count)]}
    for name, values in VALUES.items():
        columns[name] = [chosen.choice((*values, None)) for _ in range(count)]
    types = {
        "u32": pa.uint32(),
        "u64": pa.uint64(),
        "i32": pa.int32(),
        "f32": pa.float32(),
        "at": pa.timestamp("ms", "UTC"),
        "tags": pa.list_(pa.string()),
        "numbers": pa.list_(pa.uint64()),
        "vec": pa.list_(pa.float32(), 2),
    }
    return pa.table({name: pa.array(held, types.get(name)) for name, held in columns.items()})


@pytest.fixture(scope="module")
def source(session: PipelineSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    path = tmp_path_factory.mktemp("datasource") / "graph"
    with Graph.init(path, schema=SCHEMA) as graph:
        for seed in range(3):
            graph.load({"Thing": things(seed, 40)}, mode="append")
        ends = pa.table(
            {"src": ["0-000", "0-001"], "dst": ["0-001", "0-001"], "weight": [0.5, None]}
        )
        graph.load({"Next": ends}, mode="append")
        register(session.spark)
        register(session.spark)
        yield Source(graph, path, session.spark)


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted(frame.toArrow().to_pylist(), key=lambda row: str(row.get("id")))


def plan_of(frame: DataFrame) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        frame.explain("formatted")
    return shown.getvalue()


def failure(frame: DataFrame) -> str:
    with pytest.raises(PySparkException) as caught:
        frame.collect()
    return str(caught.value)


def test_a_frame_has_what_the_pipeline_reads(source: Source) -> None:
    found = rows(source.read(type="Thing"))
    assert "photo" not in found[0]
    assert len(found) == 120
    assert found == rows(source.graph.pipeline(source.spark).read(type="Thing"))
    assert [row["weight"] for row in rows(source.read(edge="Next").orderBy("src"))] in (
        [0.5, None],
        [None, 0.5],
    )
    assert source.read(type="Empty").columns == ["id", "name"]
    assert {"id", "src", "dst"} <= set(source.read(edge="Next").columns)
    assert rows(source.read(type="Empty")) == []


def predicates(seed: int, count: int) -> list[str]:
    chosen = random.Random(seed)  # noqa: S311 - a test that can be repeated
    made = [f"{name} is null" for name in VALUES] + [f"{name} is not null" for name in VALUES]
    for name, literals in LITERALS.items():
        shuffled = chosen.sample(OPERATORS, len(OPERATORS))
        made += [f"{name} {op} {chosen.choice(literals)}" for op in shuffled[:4]]
        two = ", ".join(chosen.sample(literals, 2))
        made += [f"{name} in ({two})", f"{name} not in ({two})"]
        made += [f"not ({name} {chosen.choice(OPERATORS)} {chosen.choice(literals)})"]
    for prefix in ("", "a", "ab", "\U0010ffff"):
        made += [f"text like '{prefix}%'", f"text not like '{prefix}%'"]
        made += [f"startswith(text, '{prefix}')", f"not startswith(text, '{prefix}')"]
    made += ["flag", "not flag", "text like '%b%'", "tags = array('a')", "i32 = 7 or i64 = 7"]
    made += [" and ".join(chosen.sample(made, 2)) for _ in range(20)]
    return chosen.sample(made, min(count, len(made)))


@pytest.mark.parametrize(
    ("seed", "count"),
    [
        (0, 3),
        pytest.param(0, 8, marks=pytest.mark.extended),
        *(pytest.param(seed, 45, marks=pytest.mark.slow) for seed in range(2)),
    ],
)
def test_pushed_and_unpushed_filters_agree(source: Source, seed: int, count: int) -> None:
    texts = predicates(seed, count)
    # Without pushdown Spark judges all rows by itself.
    truths = source.read(type="Thing").selectExpr(
        "id", *(f"({text}) as p{n}" for n, text in enumerate(texts))
    )
    judged = truths.toArrow().to_pylist()
    for n, text in enumerate(texts):
        expected = sorted(row["id"] for row in judged if row[f"p{n}"])
        frame = source.read(type="Thing", pushdown="true").filter(text)
        found = frame.select("id").toArrow()["id"].to_pylist()
        assert sorted(str(each) for each in found) == expected, text


@pytest.mark.extended
def test_a_frame_without_pushdown_can_be_read_again_and_joined_with_itself(source: Source) -> None:
    frame = source.read(type="Thing")
    sevens = frame.filter("i32 = 7")
    assert 0 < sevens.count() < 120
    assert frame.count() == 120
    both = sevens.union(frame.filter("i32 = 0"))
    assert both.filter("i32 = 0").count() == frame.filter("i32 = 0").count() > 0
    assert sevens.alias("a").join(frame.alias("b"), "id").count() == sevens.count()


def test_spark_still_reads_a_pushing_frame_with_the_filters_of_another_query(
    source: Source,
) -> None:
    """Once this fails, filters can go to the table without being asked for."""
    frame = source.read(type="Thing", pushdown="true")
    sevens = frame.filter("i32 = 7").count()
    assert frame.count() == sevens < 120


@pytest.mark.parametrize(
    ("text", "pushed"),
    [
        ("i32 > 6", "GreaterThan(i32,6)"),
        ("u64 = 18446744073709551615", "EqualTo(u64,18446744073709551615)"),
        ("u32 in (7, 8)", "In(u32, [7,8])"),
        ("text like 'ab%'", "StringStartsWith(text,ab)"),
        # Every query plans in a process of its own.
        *(
            pytest.param(text, pushed, marks=pytest.mark.slow)
            for text, pushed in (
                ("not flag", "Not(EqualTo(flag,true))"),
                ("at >= timestamp'2024-01-01 10:00:00.0004'", "GreaterThanOrEqual(at,"),
                ("day < date'2024-02-29'", "LessThan(day,"),
                ("vec is null", "IsNull(vec)"),
                ("level <=> 'low'", "EqualNullSafe(level,low)"),
            )
        ),
    ],
)
def test_a_pushed_filter_is_judged_by_the_table_alone(
    source: Source, text: str, pushed: str
) -> None:
    frame = source.read(type="Thing", pushdown="true").filter(text)
    plan = plan_of(frame)
    assert pushed in plan
    # Nothing of Spark filters, so that the rows that are missing never left the table.
    assert "Filter" not in plan.replace("PushedFilters", "").replace("RuntimeFilters", "")
    assert 0 < len(rows(frame)) < 120


@pytest.mark.parametrize("text", ["text like '%b%'", "tags = array('a')", "i32 = 7 or i64 = 7"])
def test_a_filter_that_the_table_cannot_judge_stays_with_spark(source: Source, text: str) -> None:
    frame = source.read(type="Thing", pushdown="true").filter(text)
    assert "Filter" in plan_of(frame).replace("PushedFilters", "").replace("RuntimeFilters", "")
    assert 0 < len(rows(frame)) < 120


def test_a_moment_is_compared_in_the_time_zone_of_the_session(source: Source) -> None:
    text = "at = timestamp'2024-01-01 19:00:00'"
    frame = source.read(type="Thing", columns="id,at", pushdown="true").filter(text)
    assert rows(frame) == []
    source.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        frame = source.read(type="Thing", columns="id,at", pushdown="true").filter(text)
        found = {row["id"] for row in rows(frame)}
    finally:
        source.spark.conf.set("spark.sql.session.timeZone", "UTC")
    everything = rows(source.read(type="Thing"))
    assert found == {row["id"] for row in everything if row["at"] == TIMES[1]} != set()


def test_columns_and_a_predicate_of_the_language_narrow_the_scan(source: Source) -> None:
    frame = source.read(type="Thing", columns="i32, name", filter="u32 = 7")
    assert frame.columns == ["i32", "name"]
    everything = rows(source.read(type="Thing"))
    expected = sorted((row["name"], row["i32"]) for row in everything if row["u32"] == 7)
    assert sorted((row["name"], row["i32"]) for row in frame.collect()) == expected
    both = frame.filter("i32 >= 0")
    assert sorted(row["name"] for row in both.collect()) == [
        name for name, i32 in expected if i32 is not None and i32 >= 0
    ]


@pytest.mark.extended
def test_a_frame_shows_its_snapshot_however_often_it_is_evaluated(
    session: PipelineSession, tmp_path: Path
) -> None:
    register(session.spark)
    schema = "node Person { name: String @key  age: I32? }"
    with Graph.init(tmp_path / "graph", schema=schema) as graph:
        source = Source(graph, tmp_path / "graph", session.spark)

        def add(name: str, branch: str = "main") -> None:
            people = pa.table({"name": [name], "age": pa.array([1], pa.int32())})
            graph.load({"Person": people}, mode="append", branch=branch)

        add("a")
        first = graph.snapshot().graph_commit_id
        graph.tags.create("first")
        graph.branches.create("side")
        before = source.read(type="Person")
        add("b")
        add("c", "side")

        def names(frame: DataFrame) -> list[str]:
            return sorted(row["name"] for row in frame.collect())

        assert names(before) == names(before.filter("age = 1")) == ["a"]
        assert names(source.read(type="Person")) == ["a", "b"]
        assert names(source.read(type="Person", branch="side")) == ["a", "c"]
        for target in (first, "first", "1"):
            assert names(source.read(type="Person", snapshot=target)) == ["a"]
        at = next(
            each.committed_at
            for each in graph.commits.list().commits
            if each.graph_commit_id == first
        )
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
        assert names(source.read(type="Person", timestampAsOf=moment.isoformat())) == ["a"]
        late = "2999-12-31"
        assert names(source.read(type="Person", timestampAsOf=late)) == ["a", "b"]
        assert names(source.read(type="Person", timestampAsOf=late, branch="side")) == ["a", "c"]
        given = source.spark.read.format("omnigraph").schema(before.schema)
        given = given.options(graph=str(source.path), type="Person")
        assert names(given.load()) == ["a", "b"]


@pytest.mark.extended
def test_a_table_is_read_in_groups_of_fragments(session: PipelineSession, tmp_path: Path) -> None:
    register(session.spark)
    count = 1 << 19
    with Graph.init(tmp_path / "graph", schema="node Row { n: I64 }") as graph:
        graph.load({"Row": pa.table({"n": pa.array(range(count))})}, mode="append")
        graph.load({"Row": pa.table({"n": pa.array([count, count + 1])})}, mode="append")
        graph.load({"Row": pa.table({"n": pa.array([count + 2])})}, mode="append")
        frame = Source(graph, tmp_path / "graph", session.spark).read(type="Row", columns="n")
        parts = frame.selectExpr("spark_partition_id() as part", "n").groupBy("part")
        found = parts.agg({"n": "count"}).toArrow().to_pylist()
    assert sorted(row["count(n)"] for row in found) == [3, count]


def test_system_tables_are_read_as_the_graph_shows_them(source: Source) -> None:
    for name in ("graph_commits", "graph_commit_recoveries", "manifest"):
        expected = source.graph.system(name)
        frame = source.read(system=name)
        assert frame.columns == expected.column_names
        assert frame.count() == expected.num_rows
    commits = source.read(system="graph_commits", columns="graph_commit_id,kind")
    loads = commits.filter("kind = 'load'").toArrow()
    assert loads.column_names == ["graph_commit_id", "kind"]
    assert loads.num_rows == 4


def test_a_view_of_sql_takes_the_same_options(source: Source) -> None:
    source.spark.sql(
        "create or replace temporary view things using omnigraph"
        f" options (graph '{source.path}', type 'Thing', columns 'id, i32')"
    )
    try:
        (found,) = source.spark.sql("select count(*) as n from things where i32 = 7").collect()
    finally:
        source.spark.catalog.dropTempView("things")
    assert found["n"] == sum(row["i32"] == 7 for row in rows(source.read(type="Thing")))


@pytest.mark.parametrize(
    ("options", "told"),
    # Every error is found in a process of its own.
    thinned(
        [
            (
                {"type": "Thing", "nope": "1"},
                "invalid_argument: the data source omnigraph has no opt",
            ),
            (
                {"type": "Thin"},
                "invalid_argument: there is no type 'node:Thin'; did you mean Thing?",
            ),
            ({"edge": "Thing"}, "invalid_argument: 'Thing' is a node type; name it with"),
            (
                {"type": "Thing", "columns": "photo"},
                "invalid_argument: Thing has no column 'photo'",
            ),
            ({"type": "Thing", "branch": "gone"}, "branch_not_found: "),
            (
                {"type": "Thing", "snapshot": "01J"},
                "commit_not_found: there is no commit and no tag",
            ),
            ({"system": "users"}, "invalid_argument: there is no system table 'users'"),
            (
                {"query": "query q() {}"},
                "invalid_argument: the option query is not in this version",
            ),
            ({"type": "Thing", "storage.durability": "no"}, "setting_invalid: an option storage.*"),
        ],
        keep=2,
    ),
)
def test_spark_shows_the_code_and_the_message_of_an_error(
    source: Source, options: dict[str, str], told: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        source.read(**options)
    assert f"DataSourceFailed: {told}" in str(caught.value)


@pytest.mark.extended
def test_errors_of_planning_and_of_tasks_show_their_code_too(
    session: PipelineSession, tmp_path: Path
) -> None:
    register(session.spark)
    with Graph.init(tmp_path / "graph", schema="node Row { n: I64 }") as graph:
        graph.load({"Row": pa.table({"n": pa.array([1])})}, mode="append")
        source = Source(graph, tmp_path / "graph", session.spark)
        bad_filter = source.read(type="Row", filter="n > 'x'")
        assert "DataSourceFailed: query_invalid: " in failure(bad_filter)
        given = source.spark.read.format("omnigraph").schema("n string")
        given = given.options(graph=str(source.path), type="Row")
        assert "invalid_argument: the schema struct<n:string> was given" in failure(given.load())
        frame = source.read(type="Row")
        assert frame.count() == 1
        for file in tmp_path.rglob("*.lance"):
            if file.is_file():
                file.unlink()
        assert "DataSourceFailed: snapshot_reclaimed: version" in failure(frame)


@pytest.mark.extended
@pytest.mark.s3
def test_options_of_the_storage_reach_the_driver_and_the_tasks(
    session: PipelineSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    from tests.s3.stand_in import StandIn  # found only through the path that was added above

    register(session.spark)
    # Spark's processes have the environment of this one, so that only the options can tell them.
    assert "AWS_ENDPOINT_URL" not in os.environ
    with StandIn() as server:
        settings = load_settings(server.environment())
        with Graph.init(
            server.uri("source.omni"), schema="node Row { n: I64 }", settings=settings
        ) as graph:
            graph.load({"Row": pa.table({"n": pa.array([1, 2])})}, mode="append")
        options = {f"storage.{name}": text for name, text in server.storage_options().items()}
        reader = session.spark.read.format("omnigraph").options(**options)
        reader = reader.options(graph=server.uri("source.omni"))
        assert sorted(row["n"] for row in reader.option("type", "Row").load().collect()) == [1, 2]


def test_a_secret_is_in_no_plan_and_no_error(source: Source) -> None:
    options = {"storage.aws_secret_access_key": "hush", "graph": str(source.path)}
    reader = source.spark.read.format("omnigraph").options(**options)
    frame = reader.option("type", "Thing").load().filter("i32 = 7")
    for mode in ("extended", "formatted", "cost"):
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            frame.explain(mode=mode)
        assert "omnigraph" in shown.getvalue()
        assert "hush" not in shown.getvalue()
    with pytest.raises(PySparkException) as caught:
        reader.option("type", "Nope").load()
    assert "hush" not in str(caught.value)
