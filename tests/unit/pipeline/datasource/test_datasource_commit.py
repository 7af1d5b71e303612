"""A write through the data source, step by step, as Spark's processes take the steps.

The writer is pickled between two steps, because each runs in another process.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import IntegerType, StringType, StructField, StructType
from tests.extended import thinned

from omnigraph import Graph
from omnigraph.errors import ReadSetChanged
from omnigraph.failpoints import Action, FailpointHit, armed
from omnigraph.pipeline.datasource.errors import DataSourceFailed
from omnigraph.pipeline.datasource.source import OmnigraphDataSource
from omnigraph.pipeline.datasource.staged_frame import StagedFiles, StagedFrame
from omnigraph.pipeline.datasource.writer import StagedPart, TableWriter
from omnigraph.pipeline.spark.lanes import LocalLane

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql.datasource import WriterCommitMessage

SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob?  @range(age, 0..150) }
edge Knows: Person -> Person { since: I32? }
"""
FIELDS: list[pa.Field[Any]] = [pa.field("name", pa.string()), pa.field("age", pa.int32())]
PEOPLE = pa.schema(FIELDS)
PARTS = [[("a", 1), ("b", 2)], [], [("c", 3)]]


def people(rows: list[tuple[str, int]]) -> pa.RecordBatch:
    names, ages = [name for name, _ in rows], [age for _, age in rows]
    columns: list[pa.Array[Any]] = [pa.array(names, pa.string()), pa.array(ages, pa.int32())]
    return pa.RecordBatch.from_arrays(columns, schema=PEOPLE)


@dataclass
class Steps:
    """One write; every step has its own copy of the writer."""

    path: Path
    options: dict[str, str] = field(default_factory=lambda: {"type": "Person"})
    overwrite: bool = False
    schema: pa.Schema = PEOPLE

    def __post_init__(self) -> None:
        source = OmnigraphDataSource({"graph": str(self.path), **self.options})
        schema = from_arrow_schema(self.schema, prefer_timestamp_ntz=False)
        self._made = pickle.dumps(source.writer(schema, self.overwrite))

    @property
    def writer(self) -> TableWriter:
        made = pickle.loads(self._made)  # noqa: S301 - pickled above
        assert isinstance(made, TableWriter)
        return made

    def stage(self, *parts: pa.RecordBatch) -> list[WriterCommitMessage | None]:
        """What the tasks tell of these partitions."""
        found = [self.writer.stage(number, [part]) for number, part in enumerate(parts)]
        return list(pickle.loads(pickle.dumps(found)))  # noqa: S301 - as Spark hands them on


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "graph"


@pytest.fixture
def graph(path: Path) -> Iterator[Graph]:
    with Graph.init(path, schema=SCHEMA) as opened:
        yield opened


def rows(graph: Graph, type_name: str = "Person", branch: str = "main") -> list[tuple[Any, ...]]:
    graph.refresh()
    found = graph.snapshot(branch=branch).scan(type_name).read_all().to_pylist()
    names = ("name", "age") if type_name == "Person" else ("id", "src", "dst", "since")
    return sorted(tuple(row[name] for name in names) for row in found)


def commits(graph: Graph) -> int:
    graph.refresh()
    return len(list(graph.commits.list()))


def files(path: Path) -> set[str]:
    """Everything that lies in the graph but for the object that a writer probes the store with."""
    return {str(each.relative_to(path)) for each in path.rglob("*") if each.is_file()}


def told_files(graph: Graph, writer: TableWriter, messages: list[Any]) -> list[str]:
    """The files that the messages name."""
    results = [each.result for each in messages if each is not None]
    staged = StagedFiles(graph=graph._graph, plan=writer._plan, results=results)
    return list(staged.paths())


def test_parts_become_one_commit_and_nothing_stays_beside_it(graph: Graph, path: Path) -> None:
    before = commits(graph)
    write = Steps(path)
    messages = write.stage(*(people(part) for part in PARTS))
    assert commits(graph) == before
    assert rows(graph) == []
    write.writer.commit(messages)
    assert rows(graph) == [("a", 1), ("b", 2), ("c", 3)]
    assert commits(graph) == before + 1
    assert not [each for each in files(path) if each.startswith("__staging")]


def test_a_frame_without_rows_commits_nothing_in_any_mode(graph: Graph, path: Path) -> None:
    graph.load({"Person": pa.Table.from_batches([people([("a", 1)])])}, mode="append")
    before = commits(graph)
    for write in (
        Steps(path),
        Steps(path, overwrite=True),
        Steps(path, {"type": "Person", "mode": "merge"}),
    ):
        write.writer.commit(write.stage(people([]), people([])))
        write.writer.commit([])
    assert commits(graph) == before
    assert rows(graph) == [("a", 1)]


def test_an_abort_deletes_the_files_that_the_messages_name(graph: Graph, path: Path) -> None:
    before, there = commits(graph), files(path)
    write = Steps(path)
    # Rows that are left out have files beside those of the table.
    messages = write.stage(people([("a", 1), ("b", 151), ("c", 3)]), people([("d", 4)]))
    named = told_files(graph, write.writer, messages)
    assert len(named) == 2
    assert {*named} < files(path)
    write.writer.abort([*messages, None])
    assert files(path) == there
    assert commits(graph) == before


def test_files_of_a_task_that_told_nothing_are_left_to_cleanup(graph: Graph, path: Path) -> None:
    write = Steps(path)
    told, untold = write.stage(people([("a", 1)]), people([("b", 2)]))
    (lost,) = told_files(graph, write.writer, [untold])
    write.writer.abort([told, None])
    assert lost in files(path)
    write = Steps(path)
    write.writer.commit(write.stage(people([("c", 3)])))
    assert rows(graph) == [("c", 3)]


def test_refused_rows_leave_no_file_and_no_commit(graph: Graph, path: Path) -> None:
    before, there = commits(graph), files(path)
    write = Steps(path)
    bad = [(f"p{n:02}", 200) for n in range(12)]
    messages = write.stage(people([("a", 1), ("b", -1)]), people(bad))
    with pytest.raises(DataSourceFailed) as caught:
        write.writer.commit(messages)
    told = str(caught.value).splitlines()
    assert told[0].startswith("load_rejected: load refused: 13 violations, the first: row 2: ")
    assert told[1] == "  range_violation: 13"
    assert told[2] == "  row 2: @range violation on Person.age: value -1 < min 0"
    assert told[3] == "  row 3: @range violation on Person.age: value 200 > max 150"
    assert len(told) == 13
    assert told[-1] == "  and 3 more"
    write.writer.abort(messages)
    assert files(path) == there
    assert commits(graph) == before


def test_a_commit_that_stopped_after_its_hand_over_is_not_undone_by_the_abort(
    graph: Graph, path: Path
) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    write = Steps(path)
    messages = write.stage(people([("a", 1)]), people([("b", 2)]))
    with armed("load.post_phase_b_pre_manifest_commit", stop), pytest.raises(KeyboardInterrupt):
        write.writer.commit(messages)
    assert [each for each in files(path) if "__recovery" in each or "sidecar" in each]
    write.writer.abort(messages)
    # What recovery finished is whole.
    assert rows(graph) == [("a", 1), ("b", 2)]
    assert not [each for each in files(path) if each.startswith("__staging")]


def test_a_commit_that_landed_is_not_undone_by_the_abort(graph: Graph, path: Path) -> None:
    failed, lost = Steps(path), Steps(path)
    messages = failed.stage(people([("a", 1)]))
    with (
        armed("load.post_phase_d_pre_release", Action.RAISE),
        pytest.raises(FailpointHit),
    ):
        failed.writer.commit(messages)
    failed.writer.abort(messages)
    assert rows(graph) == [("a", 1)]
    # Only the answer was lost.
    messages = lost.stage(people([("b", 2)]))
    lost.writer.commit(messages)
    lost.writer.abort(messages)
    assert rows(graph) == [("a", 1), ("b", 2)]
    assert not [each for each in files(path) if each.startswith("__staging")]


@pytest.mark.parametrize("step", thinned(["spark_load.post_resolve", "spark_load.post_intake"]))
def test_an_abort_beside_a_commit_that_still_runs_deletes_nothing(
    graph: Graph, path: Path, step: str
) -> None:
    write = Steps(path)
    messages = write.stage(people([("a", 1)]), people([("b", 2)]))
    with armed(step, lambda: write.writer.abort(messages)):
        write.writer.commit(messages)
    assert rows(graph) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("step", "stays"), [("spark_load.post_open", True), ("load.post_capture", False)]
)
def test_a_failed_commit_or_the_abort_deletes_what_was_never_taken(
    graph: Graph,
    path: Path,
    step: str,
    stays: bool,  # noqa: FBT001 - a parameter
) -> None:
    there = files(path)
    write = Steps(path)
    messages = write.stage(people([("a", 1)]))
    with armed(step, Action.RAISE), pytest.raises(FailpointHit):
        write.writer.commit(messages)
    assert ({*told_files(graph, write.writer, messages)} < files(path)) is stays
    write.writer.abort(messages)
    assert files(path) == there


def test_a_commit_that_comes_after_the_abort_is_refused(graph: Graph, path: Path) -> None:
    before = commits(graph)
    write = Steps(path)
    messages = write.stage(people([("a", 1)]))
    plan = write.writer._plan
    aborting = StagedFiles(graph=graph._graph, plan=plan, results=[])
    assert aborting.claim()
    with pytest.raises(DataSourceFailed, match=r"^cancelled: Spark aborted this write"):
        write.writer.commit(messages)
    aborting.end_claim()
    write.writer.abort(messages)
    with pytest.raises(DataSourceFailed, match=r"^storage_unavailable: 1 of 1 files that tasks"):
        write.writer.commit(messages)
    assert commits(graph) == before


def test_rows_that_were_staged_for_another_schema_are_refused(
    graph: Graph, path: Path, tmp_path: Path
) -> None:
    plan = Steps(path).writer._plan
    frame = StagedFrame(files=StagedFiles(graph=graph._graph, plan=plan, results=[]))
    assert frame.inputs(graph.snapshot().catalog, LocalLane()) == [frame]
    with (
        Graph.init(tmp_path / "other", schema=f"{SCHEMA} node More {{ n: I64 }}") as other,
        pytest.raises(ReadSetChanged, match="the schema was replaced by another while Spark wrote"),
    ):
        frame.inputs(other.snapshot().catalog, LocalLane())


def test_a_branch_that_was_made_anew_meanwhile_is_refused(graph: Graph, path: Path) -> None:
    graph.branches.create("side")
    write = Steps(path, {"type": "Person", "branch": "side"})
    messages = write.stage(people([("a", 1)]))
    graph.branches.delete("side")
    graph.branches.create("side")
    with pytest.raises(DataSourceFailed, match=r"^read_set_conflict: the branch was replaced"):
        write.writer.commit(messages)
    write.writer.abort(messages)
    assert rows(graph, branch="side") == []


def test_a_failure_that_no_retry_mends_is_told_by_the_commit(graph: Graph, path: Path) -> None:
    before, there = commits(graph), files(path)
    blob = pa.struct([pa.field("data", pa.binary()), pa.field("uri", pa.string())])
    schema = pa.schema([pa.field("name", pa.string()), pa.field("photo", blob)])
    write = Steps(path, schema=schema)

    def photo(uri: str | None, data: bytes | None) -> pa.RecordBatch:
        cells = [{"data": data, "uri": uri}]
        columns = [pa.array(["a"]), pa.array(cells, blob)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    messages = write.stage(photo(None, b"hi"), photo("s3://elsewhere/x", None))
    assert [isinstance(each, StagedPart) and each.failure is None for each in messages] == [
        True,
        False,
    ]
    with pytest.raises(DataSourceFailed, match=r"^external_blob_denied: Person.photo: "):
        write.writer.commit(messages)
    write.writer.abort(messages)
    assert files(path) == there
    assert commits(graph) == before


def test_the_last_of_equal_edge_ids_is_merged(graph: Graph, path: Path) -> None:
    graph.load({"Person": pa.Table.from_batches([people([("a", 1), ("b", 2)])])}, mode="append")
    fields: list[pa.Field[Any]] = [pa.field(name, pa.string()) for name in ("id", "src", "dst")]
    schema = pa.schema([*fields, pa.field("since", pa.int32())])

    def knows(*edges: tuple[str, str, str, int]) -> pa.RecordBatch:
        named = [dict(zip(schema.names, edge, strict=True)) for edge in edges]
        return pa.RecordBatch.from_pylist(named, schema)

    for year in (2000, 2010):
        write = Steps(path, {"edge": "Knows", "mode": "merge"}, schema=schema)
        parts = (
            knows(("k", "a", "b", year), ("l", "b", "a", year)),
            knows(("k", "a", "b", year + 1)),
        )
        write.writer.commit(write.stage(*parts))
        assert rows(graph, "Knows") == [("k", "a", "b", year + 1), ("l", "b", "a", year)]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"nmae": StringType()}, "source_error: Person has no property for the column `nmae`"),
        ({"age": IntegerType()}, "source_error: Person.name must have a value"),
        ({"name": IntegerType()}, "source_error: type_error: `name` is int32, and Person.name is"),
    ],
)
def test_a_frame_that_does_not_fit_is_refused_before_anything_is_written(
    graph: Graph, path: Path, columns: dict[str, Any], told: str
) -> None:
    graph.branches.create("side")
    there = files(path)
    schema = StructType([StructField(name, kind) for name, kind in columns.items()])
    options = {"graph": str(path), "type": "Person", "branch": "side"}
    with pytest.raises(DataSourceFailed) as caught:
        OmnigraphDataSource(options).writer(schema, overwrite=False)
    assert str(caught.value).startswith(told)
    assert files(path) == there


def test_two_columns_of_one_name_are_refused(graph: Graph, path: Path) -> None:
    graph.refresh()
    schema = StructType([StructField("name", StringType()), StructField("name", StringType())])
    source = OmnigraphDataSource({"graph": str(path), "type": "Person"})
    with pytest.raises(DataSourceFailed, match="source_error: the frame has two columns `name`"):
        source.writer(schema, overwrite=False)


def test_a_stream_is_told_to_write_batch_by_batch(path: Path) -> None:
    source = OmnigraphDataSource({"graph": str(path), "type": "Person"})
    with pytest.raises(DataSourceFailed, match=r"invalid_argument: .* use foreachBatch with"):
        source.streamWriter(StructType([]), overwrite=False)


def test_a_secret_shows_in_no_text_of_a_writer(graph: Graph, path: Path) -> None:
    graph.refresh()
    options = {"type": "Person", "storage.aws_secret_access_key": "hush"}
    writer = Steps(path, options).writer
    assert "hush" not in repr(vars(writer))
    with pytest.raises(DataSourceFailed) as caught:
        writer.commit([writer.stage(0, [people([("a", 151)])])])
    assert "hush" not in str(caught.value)
