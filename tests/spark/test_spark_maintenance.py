"""Compaction and index builds on Spark: what this process would do, by other hands."""

from __future__ import annotations

import json
from contextlib import contextmanager
from random import Random  # noqa: TID251 - seeded
from typing import TYPE_CHECKING, Any

import lance
import pytest
from lance import LanceOperation
from lance.dataset import Index
from tests.property.test_index_coverage import SCHEMA, Row, _answers, _arrow, _doc, _edge
from tests.unit.graph.graphs import once

from omnigraph import Graph
from omnigraph.errors import BranchNotFound, InvalidArgument, PipelineTaskError, ReadOnlyGraph
from omnigraph.failpoints import armed
from omnigraph.graph.commit.txn import PreparedWrite, WriteRequest, WriteTxn
from omnigraph.graph.manifest.intent import SidecarKind
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.ids import BranchName
from omnigraph.pipeline.maintenance import workers
from omnigraph.pipeline.maintenance.job import MaintenanceJob, MaintenanceOptions
from omnigraph.pipeline.maintenance.tasks import do_part
from omnigraph.pipeline.spark.job import open_job
from omnigraph.settings import load_settings
from omnigraph.storage.indexes import IndexKind, IndexSpec
from omnigraph.storage.shared_work import Asked, SegmentTask, outcomes_of
from omnigraph.storage.table_store import TableStore
from omnigraph.storage.transactions import staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from subprocess import CompletedProcess

    import pyarrow as pa

    from omnigraph.graph.jobs.stage_progress import StageProgress
    from omnigraph.graph.maintenance.index_report import IndexReport
    from omnigraph.graph.maintenance.optimize_report import OptimizeReport
    from omnigraph.pipeline.maintenance.tasks import PartTask
    from omnigraph.pipeline.spark.session import PipelineSession

    Function = Callable[[PartTask], Iterable[pa.RecordBatch]]

SETTINGS = load_settings({"OMNIGRAPH_DURABILITY": "process"})
ROWS_PER_TASK = 8
PORTION = 6
TYPES = ("Doc", "Cites")
STAGED = "optimize.post_stage_pre_lease"


def portion(graph: Graph, rng: Random, at: int, branch: str = "main") -> None:
    """A fragment of documents, and one of what they cite."""
    docs = {f"d{n:03}": _doc(rng, f"d{n:03}") for n in range(at * PORTION, (at + 1) * PORTION)}
    edges: dict[str, Row] = {}
    for n in range(PORTION):
        edge = _edge(rng, list(docs), at * PORTION + n)
        edges[edge["id"]] = edge
    with graph.write(branch) as writer:
        writer.append("Doc", _arrow(graph, "Doc", docs))
        writer.append("Cites", _arrow(graph, "Cites", edges))
        writer.commit()


def filled(path: Path, portions: int = 5) -> Graph:
    graph = Graph.init(path, schema=SCHEMA, settings=SETTINGS)
    rng = Random(7)  # noqa: S311 - no secret
    for at in range(portions):
        portion(graph, rng, at)
    return graph


def changed(graph: Graph) -> None:
    """Rows that an index covers take new values, some go, and new ones come."""
    rng = Random(11)  # noqa: S311 - no secret
    slugs = [f"d{n:03}" for n in range(0, 4 * PORTION, 3)]
    with graph.write() as writer:
        writer.upsert("Doc", _arrow(graph, "Doc", {slug: _doc(rng, slug) for slug in slugs}))
        writer.commit()
    with graph.write() as writer:
        gone = graph.snapshot().scan("Cites", columns=["id"], limit=4).read_all()["id"]
        writer.delete("Cites", [str(each) for each in gone.to_pylist()])
        writer.commit()
    portion(graph, rng, 90)


@pytest.fixture
def graph(tmp_path: Path, session: PipelineSession) -> Iterator[Graph]:
    session.require_alive()
    with filled(tmp_path / "graph") as graph:
        yield graph


def job_on(
    graph: Graph, session: PipelineSession, branch: str = "main", rows: int = ROWS_PER_TASK
) -> MaintenanceJob:
    job = open_job(graph._graph, session, SETTINGS, kind="maintenance")
    return MaintenanceJob(job, MaintenanceOptions(branch=branch, rows_per_task=rows))


def segments(graph: Graph) -> dict[str, tuple[str, int]]:
    """The trained indexes of all tables: kind and segments; every one covers every row."""
    snapshot, found = graph.snapshot(), {}
    for name in TYPES:
        handle = snapshot.handle(snapshot.type(name))
        for index in graph._graph.tables.index_coverage(handle):
            if index.fragments:
                assert index.is_complete, index
                found[f"{name} {index.name}"] = index.kind, index.segments
    return found


def row_ids(graph: Graph) -> dict[str, dict[str, int]]:
    snapshot = graph.snapshot()
    found = {}
    for name in TYPES:
        rows = graph._graph.tables.scan(
            snapshot.handle(snapshot.type(name)), columns=["id"], with_row_ids=True
        ).read_all()
        found[name] = {row["id"]: row["_rowid"] for row in rows.to_pylist()}
    return found


def told(report: OptimizeReport | IndexReport, but: str = "") -> dict[str, Any]:  # Any: JSON
    """What must be the same in both lanes; `but` names what of a table is left out."""
    body = report.to_dict()
    body["commit"] = None if report.commit is None else report.commit.kind
    body["tables"] = [{**table, but: None} for table in body["tables"]]
    return {name: value for name, value in body.items() if name != "engine"}


def files_of(graph: Graph) -> set[str]:
    root = graph._graph.storage.location.path("")
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def unnamed(graph: Graph) -> set[str]:
    """Data files and segments of indexes that no version names, and versions of no line."""
    root = graph._graph.storage.location.path("")
    found = {path.name for path in root.rglob("d*.manifest")}
    for folder in root.glob("*s/*/data"):
        table = lance.dataset(str(folder.parent))
        named: set[str] = set()
        for version in table.versions():
            at = table.checkout_version(version["version"])
            named |= {file.path for each in at.get_fragments() for file in each.data_files()}
            named |= {segment.uuid for index in at.describe_indices() for segment in index.segments}
        found |= {path.name for path in folder.glob("*.lance")} - named
        found |= {path.name for path in folder.parent.glob("_indices/*")} - named
    return found


@contextmanager
def tasks_inside(
    monkeypatch: pytest.MonkeyPatch, around: Callable[[Function], Function]
) -> Iterator[None]:
    """Make every task run inside another function."""
    with monkeypatch.context() as patched:
        patched.setattr(workers, "do_part", around(do_part))
        yield


def test_spark_does_what_this_process_does(
    graph: Graph, tmp_path: Path, session: PipelineSession
) -> None:
    with filled(tmp_path / "here") as here:
        built = job_on(graph, session).ensure_indices()
        assert built.engine == "spark"
        assert told(built) == told(here.maintenance.ensure_indices(engine="local"))
        kinds = segments(graph)
        assert kinds.keys() == segments(here).keys()
        assert {count for kind, count in kinds.values() if kind != "BTree"} == {1}
        assert {count for kind, count in kinds.values() if kind == "BTree"} == {3}
        assert _answers(graph) == _answers(here)
        for each in (graph, here):
            changed(each)
        before = row_ids(graph)
        joined = job_on(graph, session).optimize()
        # Indexes in parts keep a write from joining fragments across them, so there are more left.
        assert told(joined, but="fragments_removed") == told(
            here.maintenance.optimize(engine="local"), but="fragments_removed"
        )
        assert row_ids(graph) == before
        snapshot = graph.snapshot()
        for name in TYPES:
            handle = snapshot.handle(snapshot.type(name))
            assert len(graph._graph.tables.fragments(handle)) == 1
        assert {count for _, count in segments(graph).values()} == {1}
        assert _answers(graph) == _answers(here)
    assert unnamed(graph) == set()
    files = files_of(graph)
    assert job_on(graph, session).optimize().commit is None
    assert job_on(graph, session).ensure_indices().commit is None
    assert {path for path in files_of(graph) ^ files if not path.startswith("__")} == set()


def test_a_pipeline_tells_of_its_tables_stages_and_commit(
    graph: Graph, session: PipelineSession
) -> None:
    with graph.pipeline(session.spark) as pipeline:
        seen: list[StageProgress] = []
        report = pipeline.optimize(types=["Doc"], progress=seen.append)
        assert report.commit is not None
        assert (report.mode, report.engine, report.branch) == ("optimize", "spark", "main")
        assert report.operation_id == report.commit.operation_id
        assert [(each.table, each.read, each.unchanged) for each in report.tables] == [
            ("node:Doc", 5 * PORTION, 5 * PORTION)
        ]
        assert [each.name for each in report.stages] == ["plan", "stage", "commit"]
        assert {each.stage for each in seen} == {"plan", "stage", "handshake", "commit"}
        built = pipeline.ensure_indices()
        assert [each.table for each in built.tables] == ["edge:Cites"]
        assert pipeline.ensure_indices().commit is None
        with pytest.raises(InvalidArgument, match="Unknown"):
            pipeline.optimize(types=["Unknown"])
        with pytest.raises(BranchNotFound):
            pipeline.ensure_indices(branch="nowhere")
        with pytest.raises(InvalidArgument, match="from 1 to"):
            pipeline.optimize(target_rows=0)
    path = str(graph._graph.storage.location)
    with (
        Graph.open(path, mode="read_only") as reader,
        reader.pipeline(session.spark) as pipeline,
        pytest.raises(ReadOnlyGraph),
    ):
        pipeline.optimize()


@pytest.mark.extended
def test_an_index_of_vectors_with_two_segments_gets_one(
    graph: Graph, session: PipelineSession
) -> None:
    before = _answers(graph)
    spec = IndexSpec(property_name="vec", kind=IndexKind.IVF_FLAT)
    coordinator = graph._graph
    ref = ref_of(graph.snapshot().type("Doc"))

    def prepare(txn: WriteTxn) -> PreparedWrite:
        handle = txn.writable(ref)
        tasks = tuple(
            SegmentTask(spec=spec, fragments=part, partitions=1) for part in ((0, 1), (2, 3))
        )
        apart = outcomes_of(txn.store.perform(Asked(handle=handle, tasks=tasks)), Index)
        assert isinstance(txn.store, TableStore)
        both = LanceOperation.CreateIndex(apart, [])
        return PreparedWrite(staged=(staged(txn.store._writing, handle, both, txn.stamp),))

    request = WriteRequest(kind=SidecarKind.ENSURE_INDICES, branch=BranchName("main"))
    coordinator.protocol.run(request, prepare)
    job_on(graph, session).optimize(target_rows=2 * PORTION)
    kinds = segments(graph)
    assert [kind for kind in kinds.values() if kind[0].startswith("IVF")] == [("IVF_FLAT", 1)]
    assert _answers(graph) == before


def killing_after_the_work(every: int) -> Callable[[Function], Function]:
    """The worker of every n-th task dies at its first attempt, after it wrote its files."""

    def around(function: Function) -> Function:
        def run(task: PartTask) -> Iterable[pa.RecordBatch]:
            import os
            import signal

            from pyspark import TaskContext

            done = list(function(task))
            context = TaskContext.get()
            assert context is not None
            if context.partitionId() % every == 0 and context.attemptNumber() == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        return run

    return around


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_workers_that_die_after_their_work_leave_no_file_and_the_same_result(
    every: int, graph: Graph, session: PipelineSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, ids = _answers(graph), row_ids(graph)
    with tasks_inside(monkeypatch, killing_after_the_work(every)):
        report = job_on(graph, session).optimize()
    assert [each.committed for each in report.tables] == [True, True]
    segments(graph)
    assert (_answers(graph), row_ids(graph)) == (before, ids)
    assert unnamed(graph) == set(), "what the first attempts noted"


def failing_at(kind: str) -> Callable[[Function], Function]:
    """Every task of one kind fails."""

    def around(function: Function) -> Function:
        def run(task: PartTask) -> Iterable[pa.RecordBatch]:
            if type(task.task).__name__ == kind:
                raise OSError("no space is left")
            return function(task)

        return run

    return around


@pytest.mark.parametrize(
    "kind", ["MergeTask", pytest.param("SegmentTask", marks=pytest.mark.extended)]
)
def test_a_job_that_fails_leaves_the_graph_as_it_was_and_nothing_that_it_knows_of(
    kind: str, graph: Graph, session: PipelineSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_on(graph, session).ensure_indices()
    changed(graph)
    commits, before, files = len(list(graph.commits)), _answers(graph), files_of(graph)
    with (
        tasks_inside(monkeypatch, failing_at(kind)),
        pytest.raises(PipelineTaskError, match="no space is left"),
    ):
        job_on(graph, session).optimize(target_rows=2 * PORTION)
    assert (len(list(graph.commits)), _answers(graph)) == (commits, before)
    assert {path for path in files_of(graph) - files if not path.startswith("__")} == set()
    assert unnamed(graph) == set()
    assert job_on(graph, session).optimize().commit is not None


def test_what_others_append_meanwhile_keeps_the_work_and_what_they_change_does_not(
    graph: Graph, session: PipelineSession
) -> None:
    path = str(graph._graph.storage.location)
    rng = Random(3)  # noqa: S311 - no secret
    stagings: list[None] = []
    with Graph.open(path, settings=SETTINGS) as other:

        def change() -> None:
            with other.write() as writer:
                writer.upsert("Doc", _arrow(other, "Doc", {"d001": _doc(rng, "d001")}))
                writer.commit()

        with (
            armed("optimize.pre_rewrite", lambda: stagings.append(None)),
            armed(STAGED, once(lambda: portion(other, rng, 70))),
        ):
            report = job_on(graph, session).optimize()
        assert (len(stagings), [each.fragments_removed for each in report.tables]) == (2, [5, 5])
        assert graph.snapshot().count("Doc") == 6 * PORTION
        with (
            armed("optimize.pre_rewrite", lambda: stagings.append(None)),
            armed(STAGED, once(change)),
        ):
            report = job_on(graph, session).optimize()
        # Both tables, and the one whose rows were changed once more.
        assert len(stagings) == 2 + 3
        assert [each.committed for each in report.tables] == [True, True]
    segments(graph)
    answers = _answers(graph)
    with filled(graph._graph.storage.location.path("").with_name("plain"), 0) as plain:
        for name in TYPES:
            rows = graph.snapshot().scan(name).read_all()
            keyed = {row["id"]: row for row in rows.to_pylist()}
            with plain.write() as writer:
                writer.append(name, _arrow(plain, name, keyed))
                writer.commit()
        assert _answers(plain) == answers


@pytest.mark.extended
def test_a_branch_forks_what_is_worked_on_and_nothing_else(
    graph: Graph, session: PipelineSession
) -> None:
    job_on(graph, session).optimize()
    graph.branches.create("rev")
    with graph.write("rev") as writer:
        writer.append("Doc", _arrow(graph, "Doc", {"own": _doc(Random(1), "own")}))  # noqa: S311 - no secret
        writer.commit()
    report = job_on(graph, session, "rev").optimize()
    assert [(each.table_key, each.committed) for each in report.tables] == [
        ("node:Doc", True),
        ("edge:Cites", False),
    ]
    pins = graph._graph.lines.read(graph._graph.branch_id("rev")).pins.values()
    assert [pin.table_key for pin in pins if pin.branch is not None] == ["node:Doc"]


def test_the_commands_say_the_same_in_both_lanes(
    call: Callable[..., CompletedProcess[str]], tmp_path: Path, session: PipelineSession
) -> None:
    assert session.is_owned
    bodies: dict[tuple[str, str], dict[str, Any]] = {}
    for lane in ("local", "spark"):
        filled(tmp_path / lane).close()
        for command in ("ensure-indices", "optimize"):
            result = call(command, tmp_path / lane, "--engine", lane, "--json")
            assert result.returncode == 0, result.stderr
            assert f"engine {lane}: --engine {lane}" in result.stderr
            bodies[lane, command] = json.loads(result.stdout)
    for command in ("ensure-indices", "optimize"):
        here, there = bodies["local", command], bodies["spark", command]
        assert (here.pop("engine"), there.pop("engine")) == ("local", "spark")
        assert here.pop("commit").keys() == there.pop("commit").keys()
        assert here == there
    result = call("optimize", tmp_path / "spark", "--engine", "local", "--spark-master", "local[1]")
    assert result.returncode == 2, result.stderr
