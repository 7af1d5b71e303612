"""An export on Spark: its files are sorted, complete, equal each time, and load to equal graphs."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import random  # noqa: TID251 - seeded
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.extended import thinned

from omnigraph import Graph
from omnigraph.errors import (
    BranchNotFound,
    Cancelled,
    CommitNotFound,
    InternalError,
    InvalidArgument,
    PipelineTaskError,
    RootNotEmpty,
    SnapshotReclaimed,
    StorageDenied,
    StorageUnavailable,
)
from omnigraph.pipeline.export import job
from omnigraph.pipeline.export.job import ExportSizes, SparkExport, plan_export
from omnigraph.pipeline.export.tasks import write_file
from omnigraph.pipeline.spark.job import open_job
from omnigraph.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.graph.jobs.stage_progress import StageProgress
    from omnigraph.pipeline.export.tasks import WriteTask
    from omnigraph.pipeline.spark.session import PipelineSession

SCHEMA = """
node Every {
  name: String @key
  b: Bool?  i: I32?  u: U32?  l: I64?  n: U64?  f: F32?  g: F64?
  d: Date?  t: DateTime?  v: Vector(3)?  s: [String]?  m: [DateTime]?  r: [F32]?  w: [U32]?
  e: enum(one, two)?  x: Blob?  y: Blob?
}
node Person { name: String @key  age: I32? @default(18) }
node Empty { name: String @key  note: String? }
edge Knows: Person -> Person { since: Date?  weight: F64? }
edge Link: Every -> Person
"""
NAMES = [
    "é",
    "z",
    "a",
    "Z",
    "\U0001f600",
    "\uffff",
    "日本",
    'q"\\',
    "a b",
    "10",
    "9",
    "a,b",
    "n\nl",
]
TINY = ExportSizes(
    whole_rows=3, whole_bytes=1 << 30, group_rows=40, run_bytes=1, block_bytes=300, file_bytes=2_500
)
"""Everything above three rows goes through runs, and into many files."""
MOMENT = datetime(2024, 2, 29, 12, 30, 15, 7_000, tzinfo=UTC)


def every_row() -> pa.Table:
    day = date(9999, 12, 31)
    row: dict[str, pa.Array[Any]] = {
        "name": pa.array(["full", "", "null"]),
        "b": pa.array([False, True, None]),
        "i": pa.array([-(2**31), 0, None], pa.int32()),
        "u": pa.array([2**32 - 1, 0, None], pa.uint32()),
        "l": pa.array([-(2**63), 0, None], pa.int64()),
        "n": pa.array([2**64 - 1, 0, None], pa.uint64()),
        "f": pa.array([0.1, -0.0, None], pa.float32()),
        "g": pa.array([0.1, 1e300, None], pa.float64()),
        "d": pa.array([day, date(1, 1, 1), None]),
        "t": pa.array([MOMENT, MOMENT, None], pa.timestamp("ms", "UTC")),
        "v": pa.array([[0.1, -2.0, 3e-5], [0.0, 0.0, 1.0], None], pa.list_(pa.float32(), 3)),
        "s": pa.array([["a", None, 'q",\n'], [], None]),
        "m": pa.array([[MOMENT, None], [], None], pa.list_(pa.timestamp("ms", "UTC"))),
        "r": pa.array([[0.1, 16_777_216.0], [], None], pa.list_(pa.float32())),
        "w": pa.array([[2**32 - 1, None], [], None], pa.list_(pa.uint32())),
        "e": pa.array(["two", "one", None]),
        "x": pa.array([b"\x00\xff" * 40_000, b"", None], pa.large_binary()),
        "y": pa.array([None, b"y", None], pa.large_binary()),
    }
    return pa.table(row)


def fill(graph: Graph) -> None:
    """Several fragments, deletions, rows that do not lie in the order of their ids."""
    order = random.Random(7)  # noqa: S311 - as above
    people = [*NAMES, *(f"p{number:03}" for number in range(150))]
    order.shuffle(people)
    with graph.write() as writer:
        writer.append("Every", every_row())
        writer.append("Person", pa.table({"name": people[:60]}))
        writer.commit()
    for start in (60, 100):
        with graph.write() as writer:
            names = people[start : start + (40 if start == 60 else 999)]
            ages = pa.array([len(name) if name < "p" else None for name in names], pa.int32())
            writer.append("Person", pa.table({"name": names, "age": ages}))
            writer.commit()
    with graph.write() as writer:
        ends = [(order.choice(people), order.choice(people)) for _ in range(120)]
        writer.append(
            "Knows",
            pa.table(
                {
                    "id": [f"{order.random():.9f}" for _ in ends],
                    "src": [src for src, _ in ends],
                    "dst": [dst for _, dst in ends],
                    "weight": pa.array([order.random() for _ in ends], pa.float64()),
                }
            ),
        )
        writer.append("Link", pa.table({"id": ["l"], "src": ["full"], "dst": ["a b"]}))
        writer.commit()
    graph.mutate("query q() { delete Knows where weight < 0.2 }")
    graph.mutate("query q() { update Person set { age: 99 } where age = 1 }")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with Graph.init(tmp_path_factory.mktemp("graphs") / "g", schema=SCHEMA) as opened:
        fill(opened)
        yield opened


def run(
    graph: Graph,
    session: PipelineSession,
    out: Path | str,
    *,
    form: str = "ndjson",
    sizes: ExportSizes | None = None,
    **options: Any,  # noqa: ANN401 - as `plan_export` takes them
) -> JobReport:
    where: dict[str, Any] = {"types": None, "branch": None, "snapshot": None, **options}
    plan = plan_export(graph._graph, Settings(), out, form=form, **where)
    if sizes is not None:
        plan = replace(plan, sizes=sizes)
    return SparkExport(open_job(graph._graph, session, Settings(), kind="export"), plan).report()


def manifest(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "_manifest.json").read_bytes())
    return found


def files(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


def joined(out: Path, table: str | None = None) -> bytes:
    return b"".join(
        (out / each["path"]).read_bytes()
        for each in manifest(out)["files"]
        if table in (None, each["table"])
    )


@pytest.mark.parametrize("sizes", [None, TINY], ids=["whole", "runs"])
def test_the_files_in_order_are_the_stream_of_the_graph(
    graph: Graph, session: PipelineSession, tmp_path: Path, sizes: ExportSizes | None
) -> None:
    report = run(graph, session, tmp_path / "out", sizes=sizes)
    assert joined(tmp_path / "out") == b"".join(graph.export())
    head = graph.snapshot()
    content = manifest(tmp_path / "out")
    assert content["graph_commit_id"] == head.graph_commit_id
    assert content["resolved_snapshot"] == head.resolved_snapshot
    assert (content["schema_hash"], content["format"]) == (head.schema_hash, "ndjson")
    counts = {each.table_key: each.entity_count for each in head.tables}
    assert {each["table"]: each["rows"] for each in content["tables"]} == counts
    assert content["rows"] == sum(counts.values())
    assert [each["table"] for each in content["tables"]] == list(counts)
    assert (report.mode, report.engine, report.commit) == ("export", "spark", None)
    assert {each.table: (each.read, each.unchanged) for each in report.tables} == {
        table: (rows, rows) for table, rows in counts.items()
    }
    assert [each.name for each in report.stages if each.name in ("sort", "write")] == (
        ["write"] if sizes is None else ["sort", "write"]
    )


@pytest.mark.extended
@pytest.mark.parametrize("form", ["ndjson", "parquet", "csv"])
def test_two_exports_of_one_commit_are_equal_whatever_the_session_is_set_to(
    graph: Graph, session: PipelineSession, tmp_path: Path, form: str
) -> None:
    found = []
    before = session.spark.conf.get("spark.sql.shuffle.partitions")
    try:
        for partitions in ("1", "7"):
            session.spark.conf.set("spark.sql.shuffle.partitions", partitions)
            run(graph, session, tmp_path / partitions, form=form, sizes=TINY)
            found.append(files(tmp_path / partitions))
    finally:
        session.spark.conf.set("spark.sql.shuffle.partitions", before or "2")
    assert found[0] == found[1]
    many = [name for name in found[0] if name.startswith("part-node-Person-")]
    assert len(many) > 3
    assert many[0] == f"part-node-Person-00000.{form}"


def test_the_manifest_tells_every_file_with_its_rows_bytes_and_checksum(
    graph: Graph, session: PipelineSession, tmp_path: Path
) -> None:
    report = run(graph, session, tmp_path / "out", sizes=TINY)
    content = files(tmp_path / "out")
    listed = manifest(tmp_path / "out")["files"]
    assert {each["path"] for each in listed} == content.keys() - {"_manifest.json"}
    for each in listed:
        data = content[each["path"]]
        assert (len(data), data.count(b"\n")) == (each["bytes"], each["rows"])
        assert hashlib.sha256(data).hexdigest() == each["sha256"]
    kinds = [each["table"].partition(":")[0] for each in listed]
    assert kinds == sorted(kinds, reverse=True)
    (write,) = [each for each in report.stages if each.name == "write"]
    assert (write.tasks, write.bytes) == (len(listed), sum(each["bytes"] for each in listed))


@pytest.mark.extended
def test_rows_ascend_within_a_file_and_from_file_to_file(
    graph: Graph, session: PipelineSession, tmp_path: Path
) -> None:
    run(graph, session, tmp_path / "out", sizes=TINY, types=["Person"])
    ids = [json.loads(line)["data"]["id"] for line in joined(tmp_path / "out").splitlines()]
    assert ids == sorted(ids)
    assert len(ids) == graph.snapshot().count("Person") == len(set(ids))


@pytest.mark.extended
def test_a_load_of_the_folder_gives_an_equal_graph(
    graph: Graph, session: PipelineSession, tmp_path: Path
) -> None:
    run(graph, session, tmp_path / "out", sizes=TINY)
    with Graph.init(tmp_path / "again", schema=SCHEMA) as again:
        with again.pipeline(session.spark) as pipeline:
            pipeline.load(tmp_path / "out", mode="append")
        assert b"".join(again.export()) == b"".join(graph.export())
    with Graph.init(tmp_path / "here", schema=SCHEMA) as here:
        here.load(joined(tmp_path / "out"), mode="append")
        assert b"".join(here.export()) == b"".join(graph.export())


def read_parquet(out: Path, table: str) -> pa.Table:
    return pa.concat_tables(
        pq.read_table(out / each["path"], partitioning=None)
        for each in manifest(out)["files"]
        if each["table"] == table
    )


@pytest.mark.parametrize("sizes", thinned([None, TINY]), ids=["whole", "runs"])
def test_parquet_has_the_stored_columns_with_their_types(
    graph: Graph, session: PipelineSession, tmp_path: Path, sizes: ExportSizes | None
) -> None:
    run(graph, session, tmp_path / "out", form="parquet", sizes=sizes)
    found = read_parquet(tmp_path / "out", "node:Every")
    stored = graph.snapshot().catalog.node_types["Every"].arrow_schema
    assert found.schema.names == stored.names
    for field in stored:
        vector = field.name == "v"
        assert found.schema.field(field.name).type == (
            pa.list_(pa.float32()) if vector else field.type
        )
    given = every_row().sort_by("name")
    given = given.add_column(0, "id", given["name"])
    assert found.to_pylist() == given.to_pylist()
    for name in ("Person", "Empty", "Knows", "Link"):
        key = f"{'node' if name in ('Person', 'Empty') else 'edge'}:{name}"
        scanned = graph.snapshot().scan(name).read_all().sort_by("id")
        assert read_parquet(tmp_path / "out", key).equals(scanned.cast(scanned.schema))


@pytest.mark.extended
def test_parquet_rows_load_to_an_equal_graph(
    graph: Graph, session: PipelineSession, tmp_path: Path
) -> None:
    run(graph, session, tmp_path / "out", form="parquet", sizes=TINY)
    tables = {
        each["table"]: read_parquet(tmp_path / "out", each["table"])
        for each in manifest(tmp_path / "out")["tables"]
    }
    with Graph.init(tmp_path / "again", schema=SCHEMA) as again:
        again.load(tables, mode="append")
        assert b"".join(again.export()) == b"".join(graph.export())


def test_csv_has_a_header_and_the_texts_of_the_values(
    graph: Graph, session: PipelineSession, tmp_path: Path
) -> None:
    run(graph, session, tmp_path / "out", form="csv", types=["Every", "Empty", "Link"])
    text = joined(tmp_path / "out", "node:Every").decode()
    header, empty, full, null = csv.reader(io.StringIO(text))
    assert header == graph.snapshot().catalog.node_types["Every"].arrow_schema.names
    values = dict(zip(header, full, strict=True))
    assert values.pop("x").startswith("base64:AP8A/wD/")
    assert values == {
        "id": "full",
        "name": "full",
        "b": "false",
        "i": "-2147483648",
        "u": "4294967295",
        "l": "-9223372036854775808",
        "n": "18446744073709551615",
        "f": "0.1",
        "g": "0.1",
        "d": "9999-12-31",
        "t": "2024-02-29T12:30:15.007Z",
        "v": "[0.1,-2.0,0.00003]",
        "s": '["a",null,"q\\",\\n"]',
        "m": '["2024-02-29T12:30:15.007Z",null]',
        "r": "[0.1,16777216.0]",
        "w": "[4294967295,null]",
        "e": "two",
        "y": "",
    }
    assert empty[-2:] == ["base64:", "base64:eQ=="]
    assert null == ["null", "null", *[""] * (len(header) - 2)]
    assert text.splitlines()[1].startswith('"","",true,0,')
    assert joined(tmp_path / "out", "node:Empty") == b"id,name,note\n"
    assert joined(tmp_path / "out", "edge:Link") == b"id,src,dst\nl,full,a b\n"


@pytest.mark.extended
def test_csv_texts_are_the_same_through_runs(
    graph: Graph, session: PipelineSession, tmp_path: Path
) -> None:
    run(graph, session, tmp_path / "one", form="csv", types=["Person"])
    run(graph, session, tmp_path / "many", form="csv", types=["Person"], sizes=TINY)
    lines = joined(tmp_path / "many").replace(b"id,name,age\n", b"")
    assert joined(tmp_path / "one") == b"id,name,age\n" + lines


@pytest.mark.parametrize("form", thinned(["ndjson", "parquet", "csv"]))
def test_a_graph_without_rows_has_a_file_for_every_table(
    session: PipelineSession, tmp_path: Path, form: str
) -> None:
    with Graph.init(tmp_path / "g", schema=SCHEMA) as graph:
        run(graph, session, tmp_path / "out", form=form)
        listed = manifest(tmp_path / "out")["files"]
        assert [each["path"] for each in listed] == [
            f"part-node-Empty-00000.{form}",
            f"part-node-Every-00000.{form}",
            f"part-node-Person-00000.{form}",
            f"part-edge-Knows-00000.{form}",
            f"part-edge-Link-00000.{form}",
        ]
        assert {each["rows"] for each in listed} == {0}


@pytest.mark.extended
def test_an_older_commit_and_a_branch_are_exported(
    session: PipelineSession, tmp_path: Path
) -> None:
    with Graph.init(tmp_path / "g", schema=SCHEMA) as graph:
        graph.mutate('query q() { insert Person { name: "a" } }')
        old = graph.snapshot()
        graph.branches.create("draft")
        graph.mutate('query q() { insert Person { name: "b" } }')
        graph.mutate('query q() { delete Person where name = "a" }', branch="draft")
        report = run(graph, session, tmp_path / "old", snapshot=old.graph_commit_id)
        assert joined(tmp_path / "old", "node:Person").count(b"\n") == 1
        assert manifest(tmp_path / "old")["graph_commit_id"] == old.graph_commit_id
        assert report.branch == "main"
        report = run(graph, session, tmp_path / "draft", branch="draft")
        assert joined(tmp_path / "draft") == b""
        assert report.branch == "draft"


@pytest.mark.extended
def test_a_blob_outside_is_its_address_and_parquet_refuses_it(
    session: PipelineSession, tmp_path: Path
) -> None:
    outside = tmp_path / "a,b.bin"
    outside.write_bytes(b"outside")
    bases = [tmp_path.as_uri()]
    schema = "node File { name: String @key  content: Blob? }"
    with Graph.init(tmp_path / "g", schema=schema, external_blobs=bases) as graph:
        source = 'query m($c: Blob) { insert File { name: "x", content: $c } }'
        graph.mutate(source, params={"c": outside.as_uri()})
        run(graph, session, tmp_path / "ndjson")
        assert json.loads(joined(tmp_path / "ndjson"))["data"]["content"] == outside.as_uri()
        run(graph, session, tmp_path / "csv", form="csv")
        rows = list(csv.reader(io.StringIO(joined(tmp_path / "csv").decode())))
        assert rows[1] == ["x", "x", outside.as_uri()]
        with pytest.raises(InvalidArgument, match=r"node:File 'x': the blob content is the addr"):
            run(graph, session, tmp_path / "parquet", form="parquet")
    assert not (tmp_path / "parquet").exists()


# --- what is refused --------------------------------------------------------------------------


def test_what_can_be_refused_is_refused_without_spark(graph: Graph, tmp_path: Path) -> None:
    def refused(error: type[Exception], match: str, **options: Any) -> None:  # noqa: ANN401
        out = options.pop("out", tmp_path / "out")
        given: dict[str, Any] = {"types": None, "branch": None, "snapshot": None, **options}
        with pytest.raises(error, match=match):
            plan_export(graph._graph, Settings(), out, **{"form": "ndjson", **given})

    refused(InvalidArgument, "'ndjson', 'parquet' or 'csv', not 'xml'", form="xml")
    refused(InvalidArgument, r"'Persom'; did you mean Person\?", types=["Persom"])
    refused(InvalidArgument, "types is a list", types="Person")
    refused(InvalidArgument, "a branch or a snapshot", branch="main", snapshot="x")
    refused(BranchNotFound, "nope", branch="nope")
    refused(CommitNotFound, "nope", snapshot="nope")
    refused(InvalidArgument, "no place to write to", out=" ")
    refused(InvalidArgument, "inside the graph", out=Path(str(graph._graph.storage.location)) / "x")
    refused(InvalidArgument, "ftp://", out="ftp://x/y")
    file = tmp_path / "file"
    file.write_text("x")
    refused(InvalidArgument, "is a file; name a folder", out=file)
    refused(InvalidArgument, "is a file; name a folder", out=file / "below")
    refused(RootNotEmpty, "it holds file; name an empty", out=tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_an_export_is_refused_and_stays(
    graph: Graph, session: PipelineSession, tmp_path: Path
) -> None:
    run(graph, session, tmp_path / "out", types=["Link"])
    before = files(tmp_path / "out")
    with pytest.raises(RootNotEmpty, match=r"it holds _manifest\.json; name an empty or a new"):
        run(graph, session, tmp_path / "out", types=["Link"])
    assert files(tmp_path / "out") == before


def test_a_folder_that_another_export_claimed_meanwhile_is_refused(
    graph: Graph, session: PipelineSession, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"types": None, "branch": None, "snapshot": None, "form": "ndjson"}
    plan = plan_export(graph._graph, Settings(), tmp_path / "out", **given)
    claim = tmp_path / "out" / "_temporary" / "claim"
    claim.parent.mkdir(parents=True)
    claim.write_text("another")
    with pytest.raises(RootNotEmpty, match="another job writes there, or one was cut off"):
        SparkExport(open_job(graph._graph, session, Settings(), kind="export"), plan).report()
    assert claim.read_text() == "another"


def test_a_place_that_cannot_be_written_is_told(graph: Graph, session: PipelineSession) -> None:
    with pytest.raises(StorageDenied, match="cannot write to /proc/omnigraph"):
        run(graph, session, "/proc/omnigraph/out")


# --- what fails -------------------------------------------------------------------------------


def replaced(monkeypatch: pytest.MonkeyPatch, before: Callable[[WriteTask], None]) -> None:
    """Make the tasks that write files do something before they begin."""

    def body(task: WriteTask) -> Iterable[pa.RecordBatch]:
        before(task)
        yield from write_file(task)

    monkeypatch.setattr(job, "write_file", body)


def killing_once(marks: Path) -> Callable[[WriteTask], None]:
    def kill(task: WriteTask) -> None:
        import os
        import signal
        from pathlib import Path

        from omnigraph.pipeline.export.tasks import write_file

        list(write_file(task))
        mark = marks / Path(task.path).name
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return kill


@pytest.mark.extended
def test_a_worker_that_is_killed_changes_no_byte(
    graph: Graph, session: PipelineSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "marks").mkdir()
    run(graph, session, tmp_path / "calm", types=["Person"], sizes=replace(TINY, file_bytes=6_000))
    with monkeypatch.context() as patch:
        replaced(patch, killing_once(tmp_path / "marks"))
        sizes = replace(TINY, file_bytes=6_000)
        report = run(graph, session, tmp_path / "killed", types=["Person"], sizes=sizes)
    assert list((tmp_path / "marks").iterdir())
    assert files(tmp_path / "killed") == files(tmp_path / "calm")
    assert sum(each.retries for each in report.stages) > 0


def failing(error: str) -> Callable[[WriteTask], None]:
    def fail(task: WriteTask) -> None:
        from omnigraph import errors

        if "Person" in task.path:
            raise getattr(errors, error)("out of order")

    return fail


@pytest.mark.extended
@pytest.mark.parametrize(
    ("error", "raised"),
    [("InternalError", InternalError), ("StorageUnavailable", PipelineTaskError)],
)
def test_a_task_that_fails_leaves_no_export_and_no_file(
    graph: Graph,
    session: PipelineSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: str,
    raised: type[Exception],
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    with monkeypatch.context() as patch:
        replaced(patch, failing(error))
        with pytest.raises(raised):
            run(graph, session, tmp_path / "deep" / "out", sizes=TINY)
        with pytest.raises(raised):
            run(graph, session, kept, sizes=TINY)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert list(kept.iterdir()) == []


@pytest.mark.extended
@pytest.mark.parametrize("step", ["move", "create"])
def test_a_driver_that_fails_at_the_end_leaves_no_export(
    graph: Graph,
    session: PipelineSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    from omnigraph.storage.output_files import OutputFolder

    real = getattr(OutputFolder, step)

    def fail(folder: OutputFolder, *given: object) -> None:
        real(folder, *given)
        raise StorageUnavailable("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(OutputFolder, step, fail)
        with pytest.raises(StorageUnavailable):
            run(graph, session, tmp_path / "out", sizes=TINY)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("interrupt", thinned([KeyboardInterrupt, Cancelled]))
def test_an_interrupt_removes_what_was_written(
    graph: Graph, session: PipelineSession, tmp_path: Path, interrupt: type[BaseException]
) -> None:
    told: list[str] = []

    def progress(event: StageProgress) -> None:
        told.append(event.stage)
        if event.stage == "write" and event.done:
            raise interrupt("stop")

    with graph.pipeline(session.spark) as pipeline, pytest.raises(interrupt) as caught:
        pipeline.export(tmp_path / "out", progress=progress)
    assert "write" in told
    assert not (tmp_path / "out").exists()
    assert caught.value.__notes__[-1] == f"what was written to {tmp_path / 'out'} was removed"


def test_a_version_that_cleanup_removed_is_told(
    session: PipelineSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Graph.init(tmp_path / "g", schema=SCHEMA) as graph:
        graph.mutate('query q() { insert Person { name: "a" } }')

        def remove(task: WriteTask) -> None:
            from pathlib import Path

            if "Person" in task.path:
                for path in Path(task.table.root, task.table.table.layout.location).rglob(
                    "*.lance"
                ):
                    path.unlink()

        with monkeypatch.context() as patch:
            replaced(patch, remove)
            with pytest.raises(SnapshotReclaimed, match="the version of Person at commit"):
                run(graph, session, tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_the_graph_is_left_as_it_was(session: PipelineSession, tmp_path: Path) -> None:
    with Graph.init(tmp_path / "g", schema=SCHEMA) as graph:
        fill(graph)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "g").rglob("*")}
    with Graph.open(tmp_path / "g", mode="read_only") as graph:
        with graph.pipeline(session.spark) as pipeline:
            report = pipeline.export(str(tmp_path / "out"), format="parquet", types=["Person"])
        assert report.to_dict()["tables"][0]["read"] == graph.snapshot().count("Person")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "g").rglob("*")} == before
