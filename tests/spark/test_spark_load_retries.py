"""Tasks of a load that die or fail after they wrote their files: every row once, extra files only.

The tasks are those of the load, in real workers; around each is put what makes it fail.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pytest
from tests.spark.driven_load import orphans

from omnigraph import Graph
from omnigraph.errors import PipelineTaskError
from omnigraph.pipeline.spark import tasks
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.pipeline.spark.tasks import TaskResult

    Function = Callable[[Any], Iterable[pa.RecordBatch]]  # Any: what a task is told

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { since: I32? }
"""
PEOPLE = 200
SPLIT_BYTES = 4_000
SETTINGS = load_settings({"OMNIGRAPH_PIPELINE_SPLIT_BYTES": str(SPLIT_BYTES)})


def records() -> Iterator[dict[str, object]]:
    """Nodes and edges in turn, so that every split has both; half of the edges have no id."""
    for n in range(PEOPLE):
        yield {"type": "Person", "data": {"name": f"p{n:04}", "age": n}}
        data = {"since": n} | ({"id": f"k{n:04}"} if n % 2 else {})
        yield {"edge": "Knows", "from": f"p{n:04}", "to": f"p{(n * 7) % PEOPLE:04}", "data": data}


def rows_of(graph: Graph) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    snapshot = graph.snapshot()
    people = snapshot.scan("Person").read_all().to_pylist()
    knows = snapshot.scan("Knows").read_all().to_pylist()
    assert len({row["id"] for row in knows}) == len(knows)
    return (
        sorted((row["name"], row["age"]) for row in people),
        sorted((row["src"], row["dst"], row["since"]) for row in knows),
    )


EXPECTED = (
    [(f"p{n:04}", n) for n in range(PEOPLE)],
    sorted((f"p{n:04}", f"p{(n * 7) % PEOPLE:04}", n) for n in range(PEOPLE)),
)


@pytest.fixture
def graph(tmp_path: Path, session: PipelineSession) -> Iterator[Graph]:
    session.require_alive()
    lines = "".join(f"{json.dumps(each)}\n" for each in records())
    (tmp_path / "input.jsonl").write_text(lines)
    with Graph.init(tmp_path / "graph", schema=SCHEMA, settings=SETTINGS) as graph:
        yield graph


def putting_around(monkeypatch: pytest.MonkeyPatch, around: Callable[[Function], Function]) -> None:
    """Make every task of every intake run inside another function."""
    # What a first load imports would take the function below for the real one, and keep it.
    importlib.import_module("omnigraph.pipeline.pipeline")
    real = tasks.run_tasks

    def run_tasks(
        session: PipelineSession,
        stage: str,
        told: Sequence[Any],
        function: Function,
        schema: pa.Schema,
        **options: Any,  # noqa: ANN401 - as the real one takes them
    ) -> list[TaskResult]:
        inner = around(function) if stage == "intake" else function
        return real(session, stage, told, inner, schema, **options)

    for name, module in list(sys.modules.items()):
        if name.startswith("omnigraph.pipeline.") and vars(module).get("run_tasks") is real:
            monkeypatch.setattr(module, "run_tasks", run_tasks)


def killing_first(every: int) -> Callable[[Function], Function]:
    """The worker of every n-th task dies at its first attempt, after the task was done."""

    def around(function: Function) -> Function:
        def run(task: Any) -> Iterable[pa.RecordBatch]:  # noqa: ANN401 - passed on as it came
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


def failing_until(attempt_of: Callable[[int], int]) -> Callable[[Function], Function]:
    """A task fails after it was done, until the attempt that is given for its number."""

    def around(function: Function) -> Function:
        def run(task: Any) -> Iterable[pa.RecordBatch]:  # noqa: ANN401 - passed on as it came
            from pyspark import TaskContext

            from omnigraph.errors import StorageUnavailable

            done = list(function(task))
            context = TaskContext.get()
            assert context is not None
            if context.attemptNumber() < attempt_of(context.partitionId()):
                raise StorageUnavailable("the store did not answer")
            return done

        return run

    return around


def splits_of(folder: Path) -> int:
    return -(-(folder / "input.jsonl").stat().st_size // SPLIT_BYTES)


def load(
    graph: Graph, folder: Path, mode: Literal["append", "merge", "overwrite"] = "append"
) -> JobReport:
    return graph.load(folder / "input.jsonl", mode=mode, engine="spark")


def test_a_load_without_retries_leaves_no_orphan(graph: Graph, tmp_path: Path) -> None:
    report = load(graph, tmp_path)
    assert [(each.added, each.read) for each in report.tables] == [(PEOPLE, PEOPLE)] * 2
    assert rows_of(graph) == EXPECTED
    assert orphans(tmp_path / "graph") == set()


def test_workers_killed_after_they_wrote_change_no_row(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    putting_around(monkeypatch, killing_first(every=2))
    report = load(graph, tmp_path)
    assert rows_of(graph) == EXPECTED
    assert [(each.added, each.read) for each in report.tables] == [(PEOPLE, PEOPLE)] * 2
    killed = len(range(0, splits_of(tmp_path), 2))
    intake = next(each for each in report.stages if each.name == "intake")
    assert (intake.tasks, intake.retries) == (splits_of(tmp_path), killed)
    assert len(orphans(tmp_path / "graph")) == 2 * killed
    assert not list((tmp_path / "graph" / "__staging").rglob("*.arrow"))


@pytest.mark.extended
def test_attempts_that_fail_after_they_wrote_change_no_row(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    putting_around(monkeypatch, failing_until(lambda number: number % 3))
    load(graph, tmp_path)
    assert rows_of(graph) == EXPECTED
    failed = sum(number % 3 for number in range(splits_of(tmp_path)))
    assert len(orphans(tmp_path / "graph")) == 2 * failed


@pytest.mark.extended
def test_a_merge_with_killed_workers_gives_what_it_gives_without(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = "".join(
        f"{json.dumps({'type': 'Person', 'data': {'name': f'p{n:04}', 'age': -1}})}\n"
        for n in range(0, PEOPLE, 2)
    )
    graph.load(seed.encode(), mode="append")
    putting_around(monkeypatch, killing_first(2))
    report = load(graph, tmp_path, "merge")
    assert [(each.added, each.changed) for each in report.tables] == [
        (PEOPLE // 2, PEOPLE // 2),
        (PEOPLE, 0),
    ]
    assert rows_of(graph) == EXPECTED


@pytest.mark.extended
def test_a_task_that_fails_every_attempt_commits_nothing_and_the_next_load_works(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The last to begin: by its last attempt the others have ended, and none writes a file later.
    last = splits_of(tmp_path) - 1
    with monkeypatch.context() as patched:
        putting_around(patched, failing_until(lambda number: 9 if number == last else 0))
        with pytest.raises(PipelineTaskError, match="nothing was committed") as failed:
            load(graph, tmp_path)
    assert (failed.value.details["partition"], failed.value.details["attempts"]) == (last, 4)
    # What the other tasks had staged is gone with it, although nobody was told their results.
    assert not list((tmp_path / "graph").glob("*s/*/data/*.lance"))
    assert not list((tmp_path / "graph" / "__staging").rglob("*.*"))
    assert rows_of(graph) == ([], [])
    assert [each.kind for each in graph.commits.list()] == ["genesis"]
    load(graph, tmp_path)
    assert rows_of(graph) == EXPECTED


@pytest.mark.extended
def test_a_view_that_a_dead_driver_left_disturbs_no_load(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from omnigraph.pipeline.staging.detached_views import StagedViews

    with monkeypatch.context() as patched:
        patched.setattr(StagedViews, "close", lambda _: None)
        load(graph, tmp_path)
    assert list((tmp_path / "graph").rglob("_versions/d*.manifest"))
    again = replace(SETTINGS, pipeline=replace(SETTINGS.pipeline, split_bytes=1 << 20))
    with Graph.open(tmp_path / "graph", settings=again) as other:
        load(other, tmp_path, "overwrite")
        assert rows_of(other) == EXPECTED
