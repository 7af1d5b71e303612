"""A load whose driver was killed goes on from what it had staged, and only once."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.extended import thinned
from tests.load_jobs import spark_load

from omnigraph import Graph
from omnigraph.errors import IdempotencyKeyReused, InvalidArgument
from omnigraph.failpoints import armed
from omnigraph.graph.blobs.addresses import DENY_ALL
from omnigraph.graph.jobs.pins import PINS
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.load.request import LoadRequest
from omnigraph.ids import MAIN_BRANCH
from omnigraph.pipeline.checks.way import CheckWay
from omnigraph.pipeline.load import resume
from omnigraph.pipeline.load.leftovers import LoadLeftovers
from omnigraph.pipeline.sources.request import SourceRequest, plan_source
from omnigraph.settings import Settings
from omnigraph.storage.objects import StorageAdapter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.pipeline.spark.session import PipelineSession

SCHEMA = """
node Person { name: String @key }
edge Knows: Person -> Person
"""
LINES = "".join(
    [
        *(json.dumps({"type": "Person", "data": {"name": f"p{n}"}}) + "\n" for n in range(40)),
        *(json.dumps({"edge": "Knows", "from": f"p{n}", "to": "p0"}) + "\n" for n in range(40)),
    ]
)


class _Killed(BaseException):
    """Stands for the end of the driver: nothing is cleaned up after it."""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with Graph.init(tmp_path / "graph", schema=SCHEMA) as opened:
        yield opened


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "input.jsonl"
    path.write_text(LINES)
    return path


def cut_off(
    graph: Graph,
    session: PipelineSession,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    **options: Any,  # noqa: ANN401 - as the load takes them
) -> str:
    """A load that ended after its intake as if its process had been killed; its operation."""
    told: list[str] = []
    with killed_after_intake(monkeypatch):
        graph.pipeline(session.spark).load(source, mode="append", started=told.append, **options)
    return told[0]


@contextmanager
def killed_after_intake(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def end() -> None:
        raise _Killed

    with monkeypatch.context() as patched:
        patched.setattr(LoadLeftovers, "_clear", lambda _: None)
        patched.setattr(LoadLeftovers, "remove_files", lambda _: None)
        with armed("spark_load.post_intake", end), pytest.raises(_Killed):
            yield


def test_a_load_goes_on_without_reading_its_input_again(
    graph: Graph, session: PipelineSession, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = cut_off(graph, session, source, monkeypatch)
    assert b"".join(graph.export()) == b""
    report = graph.pipeline(session.spark).load(source, mode="append", resume=operation)
    assert [(each.table, each.added) for each in report.tables] == [
        ("node:Person", 40),
        ("edge:Knows", 40),
    ]
    assert report.warnings == ()
    (intake,) = [each for each in report.stages if each.name == "intake"]
    assert intake.rows == 0
    assert len(b"".join(graph.export()).splitlines()) == 80
    # Whoever has only the operation that was printed finds the commit by it.
    assert list(graph.commits.list(operation=operation)) == [report.commit]


@pytest.mark.extended
def test_a_forced_run_goes_on_without_reading_its_sources_again(
    graph: Graph, session: PipelineSession, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = source.parent / "pipeline.yaml"
    file.write_text(
        "version: 1\nname: nightly\nmode: merge\n"
        "sources:\n  lines: {format: ndjson, path: input.jsonl}\n"
    )
    pipeline = graph.pipeline(session.spark)
    pipeline.run(file)
    told: list[str] = []
    with killed_after_intake(monkeypatch):
        pipeline.run(file, force=True, started=told.append)
    report = pipeline.run(file, force=True, resume=told[0])
    assert (report.already_loaded, report.warnings) == (False, ())
    (intake,) = [each for each in report.stages if each.name == "intake"]
    assert intake.rows == 0
    # Edges without ids of their own are new ones.
    assert [each.unchanged or each.added for each in report.tables] == [40, 40]


def test_nobody_goes_on_with_a_load_that_removes_its_files(
    graph: Graph, session: PipelineSession, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def refuse() -> None:
        raise RuntimeError("refused")

    def end(*_: object) -> int:
        raise _Killed

    with monkeypatch.context() as patched:
        # Killed at the first file that it removes.
        patched.setattr(StorageAdapter, "delete_tree", end)
        patched.setattr(LoadLeftovers, "_clear", lambda _: None)
        with armed("spark_load.post_check", refuse), pytest.raises(_Killed):
            graph.pipeline(session.spark).load(source, mode="append", started=told.append)
    report = graph.pipeline(session.spark).load(source, mode="append", resume=told[0])
    assert "nothing of" in report.warnings[0]
    (intake,) = [each for each in report.stages if each.name == "intake"]
    assert intake.rows == 80


def test_what_was_committed_is_not_loaded_again(
    graph: Graph, session: PipelineSession, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = cut_off(graph, session, source, monkeypatch)
    pipeline = graph.pipeline(session.spark)
    first = pipeline.load(source, mode="append", resume=operation)
    again = pipeline.load(source, mode="append", resume=operation)
    assert again.already_loaded
    assert again.commit == first.commit
    assert len(b"".join(graph.export()).splitlines()) == 80


def test_a_changed_input_or_graph_starts_over(
    graph: Graph, session: PipelineSession, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = cut_off(graph, session, source, monkeypatch)
    source.write_text(LINES + json.dumps({"type": "Person", "data": {"name": "more"}}) + "\n")
    report = graph.pipeline(session.spark).load(source, mode="append", resume=operation)
    assert "started over" in report.warnings[0]
    assert report.tables[0].added == 41
    other = cut_off(graph, session, source, monkeypatch)
    graph.load(b'{"type":"Person","data":{"name":"new"}}\n', mode="append")
    merged = graph.pipeline(session.spark).load(source, mode="merge", resume=other)
    assert "started over" in merged.warnings[0]
    assert merged.tables[0].unchanged == 41


@pytest.mark.extended
def test_another_mapping_of_the_same_files_is_another_load(
    graph: Graph, session: PipelineSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"a": ["a1", "a2"], "b": ["b1", "b2"]}), path)
    pipeline = graph.pipeline(session.spark)
    first: dict[str, str] = {"name": "a"}
    operation = cut_off(graph, session, path, monkeypatch, type="Person", columns=first)
    report = pipeline.load(
        path, mode="append", type="Person", columns={"name": "b"}, resume=operation
    )
    assert "started over" in report.warnings[0]
    assert b"b1" in b"".join(graph.export())
    pipeline.load(path, mode="append", type="Person", columns=first, idempotency_key="k")
    with pytest.raises(IdempotencyKeyReused):
        pipeline.load(path, mode="merge", type="Person", columns={"name": "b"}, idempotency_key="k")


def test_an_operation_that_is_none_is_refused(
    graph: Graph, session: PipelineSession, source: Path
) -> None:
    with pytest.raises(InvalidArgument, match="no operation of a load"):
        graph.pipeline(session.spark).load(source, mode="append", resume="../../x")
    with pytest.raises(InvalidArgument, match="dry run"):
        graph.pipeline(session.spark).load(source, mode="append", resume="0" * 26, dry_run=True)


def test_a_load_that_still_runs_is_not_taken_over(
    graph: Graph, session: PipelineSession, source: Path
) -> None:
    told: list[str] = []

    def try_to_take_over() -> None:
        with pytest.raises(InvalidArgument, match="still runs"):
            graph.pipeline(session.spark).load(source, mode="append", resume=told[0])

    with armed("spark_load.post_intake", try_to_take_over):
        report = graph.pipeline(session.spark).load(source, mode="append", started=told.append)
    assert report.tables[0].added == 40


@contextmanager
def thought_dead(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A load that is only stopped, for longer than its pin lives."""
    with monkeypatch.context() as patched:
        patched.setattr(resume, "living_pin", lambda *_: None)
        yield


def test_a_load_that_was_thought_dead_spoils_nothing(
    graph: Graph, session: PipelineSession, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wakes up after another load went on with its files, and fails."""
    told: list[str] = []
    resumed: list[bool] = []

    def go_on_elsewhere() -> None:
        if resumed:
            return
        resumed.append(True)
        with thought_dead(monkeypatch):
            report = graph.pipeline(session.spark).load(source, mode="append", resume=told[0])
        assert report.warnings == ()
        raise _Killed

    with armed("spark_load.post_intake", go_on_elsewhere), pytest.raises(_Killed):
        graph.pipeline(session.spark).load(source, mode="append", started=told.append)
    with Graph.open(str(graph._graph.storage.location)) as again:
        assert len(b"".join(again.export()).splitlines()) == 80


@pytest.mark.parametrize("point", thinned(["spark_load.post_intake", "load.post_stage_pre_lease"]))
def test_a_stopped_load_and_the_one_that_goes_on_for_it_make_one_commit(
    graph: Graph,
    session: PipelineSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
) -> None:
    """Also if only the first was given a key, so that nothing but the job joins the two."""
    graph.load(LINES.encode(), mode="append")
    path = tmp_path / "edges.parquet"
    pq.write_table(pa.table({"src": ["p1", "p2", "p3"], "dst": ["p2", "p3", "p1"]}), path)
    told: list[str] = []
    resumed: list[JobReport] = []

    def load(*, key: str | None = None, resume: str | None = None) -> JobReport:
        settings = Settings()
        job = spark_load(
            graph,
            session,
            settings,
            [plan_source(SourceRequest(source=path, edge="Knows"), settings)],
            LoadRequest(mode=LoadMode.APPEND, branch=MAIN_BRANCH, idempotency_key=key),
            external=DENY_ALL,
            started=told.append,
            resume=resume,
            # As with many rows: what nobody could have given is not looked up.
            way=CheckWay.JOINS,
        )
        return job.report()

    def go_on_elsewhere() -> None:
        with armed(point, lambda: None), thought_dead(monkeypatch):
            resumed.append(load(resume=told[0]))

    with armed(point, go_on_elsewhere):
        woken = load(key="night")
    (first,) = resumed
    assert graph.snapshot().count("Knows") == 43
    assert (first.already_loaded, woken.already_loaded) == (False, True)
    assert (woken.commit, woken.tables) == (first.commit, first.tables)
    with Graph.open(str(graph._graph.storage.location)) as again:
        assert len(b"".join(again.export()).splitlines()) == 83


def test_a_stopped_run_that_is_forced_is_not_planned_anew_after_it_was_taken_over(
    graph: Graph, session: PipelineSession, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = source.parent / "pipeline.yaml"
    file.write_text(
        "version: 1\nname: nightly\nmode: merge\n"
        "sources:\n  lines: {format: ndjson, path: input.jsonl}\n"
    )
    told: list[str] = []
    pipeline = graph.pipeline(session.spark)

    def go_on_elsewhere() -> None:
        with armed("load.post_stage_pre_lease", lambda: None), thought_dead(monkeypatch):
            pipeline.run(file, force=True, resume=told[0])

    with armed("load.post_stage_pre_lease", go_on_elsewhere):
        woken = pipeline.run(file, force=True, started=told.append)
    assert woken.already_loaded
    # Edges without ids of their own are new ones each time they are loaded.
    assert graph.snapshot().count("Knows") == 40
    assert told[1:] == []


def test_a_running_load_pins_the_versions_that_it_reads(
    graph: Graph, session: PipelineSession, source: Path, tmp_path: Path
) -> None:
    seen: list[dict[str, object]] = []

    def look() -> None:
        seen.extend(
            json.loads(each.read_text()) for each in (tmp_path / "graph" / PINS).glob("pin-*.json")
        )

    with armed("spark_load.post_intake", look):
        told: list[str] = []
        graph.pipeline(session.spark).load(source, mode="append", started=told.append)
    (pin,) = seen
    assert (pin["operation_id"], pin["kind"]) == (told[0], "load")
    pins = pin["pins"]
    assert isinstance(pins, list)
    assert {each["table"] for each in pins} == {"node:Person", "edge:Knows"}
    assert not list((tmp_path / "graph" / PINS).glob("*"))
