"""When a stage has ended badly, no task of it still writes, and nothing of it still runs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from omnigraph.errors import Cancelled, PipelineTaskError
from omnigraph.pipeline.spark import stage_runner
from omnigraph.pipeline.spark.stage_runner import StageRunner
from omnigraph.pipeline.spark.tasks import run_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from omnigraph.pipeline.spark.session import PipelineSession

pytestmark = pytest.mark.timeout(600)

NUMBERS = pa.schema({"number": pa.int64()})
QUIET_S = 3.0
"""Longer than Spark lets a task go on that it has killed."""


def writing_beside_a_failure(folder: Path) -> Callable[[int], Iterable[pa.RecordBatch]]:
    """Task 1 writes a file every now and then for a minute; task 0 fails once it has begun."""

    def run(task: int) -> Iterable[pa.RecordBatch]:
        import time

        from omnigraph.errors import StorageUnavailable

        while task == 0:
            if any(folder.iterdir()):
                raise StorageUnavailable("the store did not answer")
            time.sleep(0.01)
        for number in range(1_200):
            (folder / f"{number:04}").touch()
            time.sleep(0.05)
        return []

    return run


def require_quiet(folder: Path) -> None:
    """No file is written any more."""
    before = sorted(folder.iterdir())
    assert before
    threading.Event().wait(QUIET_S)
    assert sorted(folder.iterdir()) == before


@pytest.mark.extended
def test_no_task_writes_after_a_failed_stage_was_told(
    session: PipelineSession, tmp_path: Path
) -> None:
    with pytest.raises(PipelineTaskError, match="the store did not answer"):
        run_tasks(session, "intake", [0, 1], writing_beside_a_failure(tmp_path), NUMBERS)
    require_quiet(tmp_path)


@pytest.mark.extended
def test_no_task_writes_after_a_cancelled_stage_was_told(
    session: PipelineSession, tmp_path: Path
) -> None:
    runner = StageRunner(session, poll_s=0.05)

    def cancel() -> None:
        pause = threading.Event()
        while not any(tmp_path.iterdir()):
            pause.wait(0.02)
        runner.cancel()

    beside = threading.Thread(target=cancel)
    beside.start()
    with pytest.raises(Cancelled):
        run_tasks(
            session, "intake", [1], writing_beside_a_failure(tmp_path), NUMBERS, runner=runner
        )
    beside.join()
    require_quiet(tmp_path)


@pytest.mark.extended
def test_a_cancel_before_the_first_job_of_a_stage_holds_for_it(
    session: PipelineSession, tmp_path: Path
) -> None:
    runner = StageRunner(session, poll_s=0.05)
    frame = session.spark.range(2).repartition(1).mapInArrow(_pausing(tmp_path), "id bigint")

    def begin_late() -> int:
        runner.cancel()
        threading.Event().wait(0.3)
        return frame.count()

    with pytest.raises(Cancelled):
        runner.run("intake", begin_late)
    assert not (tmp_path / "ended").exists()


def _pausing(folder: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Passes rows on after a minute."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        time.sleep(60)
        (folder / "ended").touch()
        yield from batches

    return run


class _Unreachable:
    """Jobs of a context that was stopped, which knows nothing any more."""

    group = "omnigraph-intake-0"

    def has_tasks(self) -> bool:
        raise AttributeError("'NoneType' object has no attribute 'sc'")

    def cancel(self) -> None:
        raise AttributeError("'NoneType' object has no attribute 'sc'")


def test_nothing_that_is_asked_after_an_error_replaces_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage_runner._wait_for_tasks(_Unreachable())  # type: ignore[arg-type]
    stage_runner._cancel(_Unreachable())  # type: ignore[arg-type]
    assert [each.message for each in caplog.records] == [
        "tasks of Spark may still run",
        "Spark jobs were not cancelled",
    ]


@pytest.mark.extended
def test_a_stage_that_cannot_be_watched_is_cancelled(
    session: PipelineSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    (tmp_path / "begun").touch()
    monkeypatch.setattr(stage_runner, "_Polled", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread") as failed:
        run_tasks(session, "intake", [1], writing_beside_a_failure(tmp_path), NUMBERS)
    assert "were cancelled" in failed.value.__notes__[0]
    require_quiet(tmp_path)
    assert not [each for each in threading.enumerate() if each.name == "omnigraph-stage"]
    context = session.classic_context
    assert context is not None
    assert context.statusTracker().getActiveJobsIds() == []
