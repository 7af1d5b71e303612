"""`frame.write.format("omnigraph")` on Spark gives what a load of the same frame gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from omnigraph import Graph
from omnigraph.pipeline import register
from omnigraph.pipeline.datasource.options import write_options
from omnigraph.pipeline.datasource.source import OmnigraphDataSource
from omnigraph.pipeline.datasource.writer import StagedPart, TableWriter
from omnigraph.pipeline.spark.arrow_types import spark_type
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSourceWriter, WriterCommitMessage
    from pyspark.sql.types import StructType

    from omnigraph.pipeline.spark.session import PipelineSession

SCHEMA = """
node Person { name: String @key  age: I32?  @range(age, 0..150) }
node Thing {
  name: String @key
  level: enum(high, low)?
  flag: Bool?
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
edge Knows: Person -> Person { since: I32? }
"""
THINGS = pa.table(
    {
        "name": pa.array([f"t{n}" for n in range(7)]),
        "level": pa.array(["high", "low", None, *["low"] * 4]),
        "flag": pa.array([True, False, None, *[True] * 4]),
        "i64": pa.array([-(2**63), 0, 2**63 - 1, None, 1, 2, 3]),
        "u32": pa.array([0, 2**32 - 1, None, 1, 2, 3, 4], pa.uint32()),
        "u64": pa.array([0, 2**64 - 1, None, 1, 2, 3, 4], pa.uint64()),
        "f32": pa.array([0.5, -1.5, None, 1.0, 2.0, 3.0, 4.0], pa.float32()),
        "f64": pa.array([0.1, 1e300, None, 1.0, 2.0, 3.0, 4.0]),
        "day": pa.array([date(1, 1, 1), date(9999, 12, 31), None, *[date(2024, 2, 29)] * 4]),
        "at": pa.array(
            [datetime(2024, 1, 1, n, tzinfo=UTC) for n in range(6)] + [None],
            pa.timestamp("us", "UTC"),
        ),
        "tags": pa.array([["a", None], [], None, ["b"], ["c"], ["d"], ["e"]]),
        "numbers": pa.array(
            [[1], [2**64 - 1, None], None, [], [1], [2], [3]], pa.list_(pa.uint64())
        ),
        "vec": pa.array([[0.0, 1.0]] * 6 + [None], pa.list_(pa.float32())),
        "photo": pa.array([b"hi", b"", None, *[b"x"] * 4]),
    }
)


@dataclass
class Target:
    """A graph and the session that writes to it."""

    graph: Graph
    path: Path
    spark: SparkSession

    def write(self, frame: DataFrame, mode: str = "append", **options: str) -> None:
        self.write_as("omnigraph", frame, mode, **options)

    def write_as(self, source: str, frame: DataFrame, mode: str = "append", **options: str) -> None:
        writer = frame.write.format(source).options(graph=str(self.path), **options)
        writer.mode(mode).save()

    def refusal(self, frame: DataFrame, mode: str = "append", **options: str) -> str:
        """What Spark says of a write that must not succeed."""
        with pytest.raises(PySparkException) as caught:
            self.write(frame, mode, **options)
        return str(caught.value)

    def people(self, first: int, end: int, *, partitions: int = 1, age: str = "n") -> DataFrame:
        return (
            self.spark.range(first, end, 1, partitions)
            .selectExpr("id as n")
            .selectExpr("concat('p', n) as name", f"cast({age} as int) as age")
        )

    def rows(self, type_name: str = "Person", branch: str = "main") -> list[dict[str, Any]]:
        self.graph.refresh()
        lines = b"".join(self.graph.export(types=[type_name], branch=branch)).splitlines()
        return [json.loads(line) for line in lines]

    def ages(self, branch: str = "main") -> dict[str, int]:
        return {row["data"]["name"]: row["data"]["age"] for row in self.rows(branch=branch)}

    @property
    def commits(self) -> int:
        self.graph.refresh()
        return len(list(self.graph.commits.list()))

    @property
    def files(self) -> set[Path]:
        return {each for each in self.path.rglob("*") if each.is_file()}


@pytest.fixture
def target(session: PipelineSession, tmp_path: Path) -> Iterator[Target]:
    register(session.spark)
    with Graph.init(tmp_path / "graph", schema=SCHEMA) as graph:
        yield Target(graph, tmp_path / "graph", session.spark)


@pytest.fixture
def other(target: Target, tmp_path: Path) -> Iterator[Target]:
    with Graph.init(tmp_path / "other", schema=SCHEMA) as graph:
        yield Target(graph, tmp_path / "other", target.spark)


def register_writer(spark: SparkSession, called: str, made: type[TableWriter]) -> None:
    """Make a source known that writes with another writer."""

    class Source(OmnigraphDataSource):
        @classmethod
        def name(cls) -> str:
            return called

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's
            return made(write_options(self.options, overwrite=overwrite), schema)

    spark.dataSource.register(Source)


def test_a_frame_of_many_partitions_is_one_commit_with_the_rows_of_a_load(
    target: Target, other: Target
) -> None:
    columns = [
        each.cast(spark_type(field.type))
        for each, field in zip(THINGS.columns, THINGS.schema, strict=True)
    ]
    held = pa.Table.from_arrays(columns, names=THINGS.column_names)
    frame = target.spark.createDataFrame(held).repartition(3)
    before = target.commits
    target.write(frame, type="Thing")
    assert target.commits == before + 1
    other.graph.pipeline(target.spark).load(frame, mode="append", type="Thing")
    assert target.rows("Thing") == other.rows("Thing")
    assert len(target.rows("Thing")) == 7
    assert not [each for each in target.files if "__staging" in each.parts]


def test_moments_do_not_move_with_the_time_zone_of_the_session(
    target: Target, other: Target
) -> None:
    frame = target.spark.createDataFrame(THINGS.select(["name", "at"]))
    other.write(frame, type="Thing")
    target.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        target.write(frame, type="Thing")
    finally:
        target.spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert target.rows("Thing") == other.rows("Thing")
    assert target.rows("Thing")[1]["data"]["at"] == "2024-01-01T01:00:00.000Z"


@pytest.mark.extended
def test_what_the_source_reads_it_can_write(target: Target, other: Target) -> None:
    target.graph.load({"Thing": THINGS.drop_columns(["photo"])}, mode="append")
    read = target.spark.read.format("omnigraph").options(graph=str(target.path), type="Thing")
    other.write(read.load(), type="Thing")
    assert other.rows("Thing") == target.rows("Thing")


def test_merge_replaces_rows_of_the_same_key(target: Target) -> None:
    target.write(target.people(0, 4), type="Person")
    told = target.refusal(target.people(2, 6), type="Person")
    assert "DataSourceFailed: key_conflict: load refused: 2 violations" in told
    assert "row 1: Person 'p2' exists already" in told
    frame = target.people(2, 6, partitions=2, age="n + 10")
    frame.write.format("omnigraph").options(graph=str(target.path), type="Person").option(
        "mode", "merge"
    ).mode("append").save()
    assert target.ages() == {"p0": 0, "p1": 1, "p2": 12, "p3": 13, "p4": 14, "p5": 15}


@pytest.mark.extended
def test_overwrite_replaces_one_table_and_never_orphans_an_edge(target: Target) -> None:
    target.write(target.people(0, 4), type="Person")
    edges = target.spark.sql("select 'p0' as src, 'p3' as dst, 2020 as since")
    target.write(edges, edge="Knows")
    before, commits = target.rows(), target.commits
    told = target.refusal(target.people(0, 3), mode="overwrite", type="Person")
    refused = "load refused: 1 violation: edge Knows: dst 'p3' not found in Person"
    assert f"load_rejected: {refused}" in told
    assert (target.rows(), target.commits) == (before, commits)
    target.write(target.people(0, 4, age="n + 1"), mode="overwrite", type="Person")
    assert target.ages() == {"p0": 1, "p1": 2, "p2": 3, "p3": 4}
    assert [(row["from"], row["to"]) for row in target.rows("Knows")] == [("p0", "p3")]


@pytest.mark.extended
def test_edges_are_written_to_the_branch_that_was_named(target: Target) -> None:
    target.write(target.people(0, 4), type="Person")
    target.graph.branches.create("side")
    edges = target.spark.range(0, 3, 1, 3).selectExpr(
        "concat('p', id) as src", "concat('p', id + 1) as dst"
    )
    target.write(edges, edge="Knows", branch="side")
    found = [(row["from"], row["to"]) for row in target.rows("Knows", "side")]
    assert sorted(found) == [("p0", "p1"), ("p1", "p2"), ("p2", "p3")]
    assert target.rows("Knows") == []
    told = target.refusal(edges.selectExpr("src", "'nobody' as dst"), edge="Knows", branch="side")
    assert "orphan_edge: 3" in told
    assert "branch_not_found: " in target.refusal(edges, edge="Knows", branch="gone")


@pytest.mark.extended
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_frame_without_rows_changes_nothing(target: Target, other: Target, mode: str) -> None:
    for each in (target, other):
        each.write(target.people(0, 2), type="Person")
    before = target.commits
    target.write(target.people(0, 2).limit(0), mode=mode, type="Person")
    assert target.commits == before
    assert (
        other.graph.pipeline(target.spark)
        .load(
            target.people(0, 2).limit(0),
            mode="append" if mode == "append" else "overwrite",
            type="Person",
        )
        .commit
        is None
    )
    assert target.rows() == other.rows()


def test_bad_rows_are_told_with_their_code_and_nothing_stays(target: Target) -> None:
    target.write(target.people(0, 1), type="Person")
    before, files = target.commits, target.files
    told = target.refusal(target.people(1, 201, partitions=2), type="Person")
    assert "DataSourceFailed: load_rejected: load refused: 50 violations, the first: " in told
    assert "\n  range_violation: 50\n" in told
    assert "\n  row 151: @range violation on Person.age: value 151 > max 150\n" in told
    assert "\n  and 40 more\n" in told
    assert (target.commits, target.files) == (before, files)


@pytest.mark.extended
def test_a_frame_that_does_not_fit_is_refused_before_its_rows_are_computed(target: Target) -> None:
    files = target.files
    boom = target.spark.sql("select cast(raise_error('computed') as string) as name, 'x' as age")
    assert "source_error: type_error: `age` is string" in target.refusal(boom, type="Person")
    told = target.refusal(boom.withColumnRenamed("age", "agee"), type="Person")
    assert "source_error: Person has no property for the column `agee`" in told
    assert "exactly one of the options type, edge" in target.refusal(boom)
    assert '"ErrorIfExists" mode' in target.refusal(boom, mode="error", type="Person")
    assert target.files == files


@pytest.mark.extended
def test_a_task_that_fails_once_is_tried_again_and_gives_its_rows_once(target: Target) -> None:
    class Stumbling(TableWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedPart:  # type: ignore[override]
            from pyspark import TaskContext

            done = super().write(iterator)
            context = TaskContext.get()
            if context is not None and context.partitionId() and not context.attemptNumber():
                raise RuntimeError("after its files were written")
            return done

    register_writer(target.spark, "stumbling", Stumbling)
    before = target.commits
    target.write_as("stumbling", target.people(0, 60, partitions=3), type="Person")
    assert target.ages() == {f"p{n}": n for n in range(60)}
    assert target.commits == before + 1
    data = [each for each in target.files if each.suffix == ".lance"]
    assert len([each for each in data if each.parent.name == "data"]) >= 5


@pytest.mark.extended
def test_a_write_whose_task_fails_for_good_leaves_no_version_and_no_file_that_was_told_of(
    target: Target, tmp_path: Path
) -> None:
    told = tmp_path / "told.json"

    class Failing(TableWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedPart:  # type: ignore[override]
            from pyspark import TaskContext

            done = super().write(iterator)
            context = TaskContext.get()
            # It starts when another task has told what it wrote: two run at once.
            if context is not None and context.partitionId() == 3:
                raise RuntimeError("this task never succeeds")
            return done

        def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
            from omnigraph.pipeline.datasource.staged_frame import StagedFiles

            parts = [each for each in messages if isinstance(each, StagedPart)]
            results = [each.result for each in parts if each.result is not None]
            with self._open() as graph:
                files = StagedFiles(graph=graph, plan=self._plan, results=results)
                told.write_text(json.dumps([len(messages), *files.paths()]))
            super().abort(messages)

    register_writer(target.spark, "failing", Failing)
    before = target.commits
    with pytest.raises(PySparkException, match="this task never succeeds"):
        target.write_as("failing", target.people(0, 40, partitions=4), type="Person")
    count, *named = json.loads(told.read_text())
    assert count == 4
    assert named
    assert not [each for each in named if (target.path / each).exists()]
    assert target.commits == before
    assert target.rows() == []
    target.write(target.people(0, 2), type="Person")
    assert target.ages() == {"p0": 0, "p1": 1}


@pytest.mark.extended
def test_a_commit_killed_after_its_hand_over_is_finished_by_recovery(
    target: Target, tmp_path: Path
) -> None:
    class Dying(TableWriter):
        def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
            from omnigraph.failpoints import Action, armed

            with armed("load.post_phase_b_pre_manifest_commit", Action.KILL):
                super().commit(messages)

        def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
            (tmp_path / "aborted").write_text(str(len(messages)))
            super().abort(messages)

    register_writer(target.spark, "dying", Dying)
    # Spark has no words of its own for a process that is gone.
    with pytest.raises((PySparkException, Py4JJavaError)):
        target.write_as("dying", target.people(0, 40, partitions=2), type="Person")
    assert (tmp_path / "aborted").read_text() == "2"
    target.write(target.people(100, 101), type="Person")
    assert target.ages() == {f"p{n}": n for n in (*range(40), 100)}


@pytest.mark.extended
@pytest.mark.s3
def test_options_of_the_storage_reach_the_tasks_and_the_commit(
    session: PipelineSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    from tests.s3.stand_in import StandIn  # found only through the path that was added above

    register(session.spark)
    # Spark's processes have the environment of this one, so that only the options can tell them.
    assert "AWS_ENDPOINT_URL" not in os.environ
    with StandIn() as server:
        settings = load_settings(server.environment())
        with Graph.init(server.uri("target.omni"), schema=SCHEMA, settings=settings) as graph:
            options = {f"storage.{name}": text for name, text in server.storage_options().items()}
            options["graph"] = server.uri("target.omni")

            def write(query: str, **more: str) -> None:
                frame = session.spark.sql(query)
                frame.write.format("omnigraph").options(**options, **more).mode("append").save()

            write("select 'a' as name, 1 as age union all select 'b', 2", type="Person")
            # The first of two equal ids is left out, for which its rows are staged again.
            edges = "select 'k' as id, 'a' as src, 'b' as dst, {} as since"
            write(
                f"{edges.format(1)} union all {edges.format(2)}",
                edge="Knows",
                mode="merge",
            )
            with pytest.raises(PySparkException) as caught:
                write("select 'a' as name, 1 as age", type="Person")
            assert "key_conflict" in str(caught.value)
            for name, text in server.storage_options().items():
                assert "secret" not in name or text not in str(caught.value)
            graph.refresh()
            found = graph.snapshot().scan("Knows").read_all().to_pylist()
            assert [(row["id"], row["since"]) for row in found] == [("k", 2)]


WRITING = """
import sys
from omnigraph.pipeline import register
from omnigraph.pipeline.spark.session import open_session
from omnigraph.settings import load_process_settings

with open_session(load_process_settings()) as session:
    register(session.spark)
    frame = session.spark.range(3).selectExpr("concat('p', id) as name")
    frame.write.format("omnigraph").options(graph=sys.argv[1], type="Person").mode("append").save()
    print("written")
"""


@pytest.mark.extended
def test_a_session_that_was_started_here_finds_the_source_when_it_first_writes(
    target: Target, tmp_path: Path
) -> None:
    conf = "spark.driver.memory=1g;spark.driver.host=127.0.0.1;spark.driver.bindAddress=127.0.0.1"
    environ = {
        "OMNIGRAPH_SPARK_MASTER": "local[1]",
        "OMNIGRAPH_SPARK_CONF": conf,
        "OMNIGRAPH_SPARK_CDS": "0",
    }
    done = subprocess.run(
        [sys.executable, "-c", WRITING, str(target.path)],
        env=dict(os.environ) | environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.stdout == "written\n", done.stderr
    assert len(target.rows()) == 3
