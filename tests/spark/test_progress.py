"""Stages: how far they are, and that cancelling one leaves nothing running."""

import re
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.errors import Cancelled, PipelineTaskError, SparkUnavailable
from omnigraph.graph.jobs.stage_progress import StageProgress
from omnigraph.graph.jobs.stage_teller import Amount
from omnigraph.pipeline.spark.errors import translate_spark_error
from omnigraph.pipeline.spark.session import PipelineSession
from omnigraph.pipeline.spark.stage_runner import SparkStage, StageRunner, count_tasks
from omnigraph.pipeline.spark.tasks import run_tasks

NUMBERS = pa.schema({"number": pa.int64()})


def stage(stage_id: int, tasks: int, done: int) -> SparkStage:
    return SparkStage(stage_id=stage_id, tasks=tasks, done=done)


@pytest.mark.parametrize(
    ("stages", "tasks", "expected"),
    [
        ([], None, (0, 0)),
        ([], 5, (0, 5)),
        ([stage(1, 2, 2), stage(3, 5, 4)], 5, (4, 5)),
        ([stage(3, 5, 4), stage(1, 2, 2)], 5, (4, 5)),
        ([stage(1, 2, 1)], 5, (0, 5)),
        ([stage(1, 2, 1)], 2, (0, 2)),
        ([stage(1, 2, 2), stage(2, 2, 0), stage(3, 5, 1)], None, (3, 7)),
        ([stage(1, 2, 0)], None, (0, 2)),
    ],
)
def test_tasks_are_counted_over_the_stages_that_run(
    stages: list[SparkStage], tasks: int | None, expected: tuple[int, int]
) -> None:
    assert count_tasks(stages, tasks) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[OPERATION_CANCELED] Operation has been canceled", Cancelled),
        ("Job 3 cancelled part of cancelled job group x", Cancelled),
        ("Job 3 cancelled because SparkContext was shut down", SparkUnavailable),
        ("[INVALID_HANDLE.SESSION_CLOSED] The handle is invalid", SparkUnavailable),
        ("Task 3 in stage 1.0 failed 4 times, most recent failure: disk full", PipelineTaskError),
    ],
)
def test_what_spark_says_becomes_a_typed_error(text: str, expected: type[Exception]) -> None:
    assert type(translate_spark_error(RuntimeError(text), stage="intake")) is expected


def test_a_failure_without_words_of_ours_names_the_innermost_cause() -> None:
    text = (
        "An error occurred while calling o1.getResult.\n"
        ": org.apache.spark.SparkException: Job aborted: Task 3 in stage 1.0 failed 4 times\n"
        "\tat org.apache.spark.X\n"
        "Caused by: java.io.IOException: No space left on device: /data/x\n\tat java.io.Y\n"
    )
    error = translate_spark_error(RuntimeError(text), stage="check")
    assert error.details == {
        "stage": "check",
        "partition": 3,
        "attempts": 4,
        "cause": {
            "error": "spark",
            "message": "No space left on device: /data/x",
            "details": {},
        },
    }


def waiting(started: Path) -> Callable[[int], Iterable[pa.RecordBatch]]:
    """A task that never ends by itself."""

    def run(task: int) -> Iterable[pa.RecordBatch]:
        import threading

        (started / str(task)).touch()
        threading.Event().wait()
        return []

    return run


class TestStages:
    pytestmark = pytest.mark.timeout(600)

    @pytest.mark.extended
    def test_progress_tells_the_stage_and_ends_with_all_tasks(
        self, session: PipelineSession, tmp_path: Path
    ) -> None:
        told: list[StageProgress] = []
        release = tmp_path / "release"

        def wait_for_release(task: int) -> Iterable[pa.RecordBatch]:
            import time

            while task == 1 and not release.exists():
                time.sleep(0.01)
            return []

        def listen(event: StageProgress) -> None:
            told.append(event)
            # The second task may begin when the first has ended, where something else still runs.
            if (event.done, event.spark_stages) == (1, 1):
                release.touch()

        runner = StageRunner(session, listen, poll_s=0.02)
        work = Amount(size_bytes=1000)
        run_tasks(session, "intake", [0, 1], wait_for_release, NUMBERS, runner=runner, work=work)
        assert {each.stage for each in told} == {"intake"}
        assert {(each.done, each.total, each.bytes) for each in told} >= {(1, 2, 500), (2, 2, 1000)}
        assert [each.done for each in told] == sorted(each.done for each in told)
        assert {each.spark_stages for each in told if each.done == 1} <= {0, 1}
        assert told[-1].spark_stages == 0

    def test_an_action_without_a_known_number_of_tasks_is_counted_too(
        self, session: PipelineSession
    ) -> None:
        told: list[StageProgress] = []
        runner = StageRunner(session, told.append, poll_s=0.005)
        frame = session.spark.range(0, 2_000_000, 1, 4).selectExpr("id % 7 as k").groupBy("k")
        assert runner.run("check", lambda: frame.count().count()) == 7
        assert told
        assert all(each.stage == "check" and 0 <= each.done <= each.total for each in told)

    def test_a_cancelled_stage_ends_at_once_and_no_other_begins(
        self, session: PipelineSession, tmp_path: Path
    ) -> None:
        runner = StageRunner(session, poll_s=0.05)
        begun = threading.Thread(target=_cancel_when_started, args=(runner, tmp_path / "0"))
        begun.start()
        with pytest.raises(Cancelled, match="stage intake"):
            run_tasks(session, "intake", [0], waiting(tmp_path), NUMBERS, runner=runner)
        begun.join()
        _assert_idle(session)
        with pytest.raises(Cancelled, match="stage check"):
            runner.run("check", lambda: session.spark.range(1).count())

    @pytest.mark.extended
    def test_an_interrupt_cancels_the_jobs_and_is_passed_on(
        self, session: PipelineSession, tmp_path: Path
    ) -> None:
        def interrupt(told: StageProgress) -> None:
            if (tmp_path / "0").exists():
                raise KeyboardInterrupt(told.stage)

        with pytest.raises(KeyboardInterrupt) as caught:
            run_tasks(
                session,
                "intake",
                [0, 1],
                waiting(tmp_path),
                NUMBERS,
                runner=StageRunner(session, interrupt, poll_s=0.05),
            )
        _assert_idle(session)
        assert session.spark.range(3).count() == 3
        (note,) = caught.value.__notes__
        assert re.fullmatch(r"the Spark jobs omnigraph-intake-\w+ were cancelled", note)

    @pytest.mark.extended
    def test_cancelling_one_job_leaves_others_alone(
        self, session: PipelineSession, tmp_path: Path
    ) -> None:
        other = StageRunner(session, poll_s=0.05)
        runner = StageRunner(session, poll_s=0.05)
        counted: list[int] = []

        def cancel_after_count() -> None:
            _wait_for(tmp_path / "0")
            counted.append(other.run("count", lambda: session.spark.range(9).count()))
            runner.cancel()

        beside = threading.Thread(target=cancel_after_count)
        beside.start()
        with pytest.raises(Cancelled):
            run_tasks(session, "intake", [0], waiting(tmp_path), NUMBERS, runner=runner)
        beside.join()
        assert counted == [9]

    def test_an_error_of_the_caller_is_not_taken_for_one_of_spark(
        self, session: PipelineSession
    ) -> None:
        def action() -> int:
            raise Cancelled("by hand")

        with pytest.raises(Cancelled, match="by hand"):
            StageRunner(session).run("check", action)


def _cancel_when_started(runner: StageRunner, started: Path) -> None:
    _wait_for(started)
    runner.cancel()


def _wait_for(path: Path) -> None:
    pause = threading.Event()
    while not path.exists():
        pause.wait(0.02)


def _assert_idle(session: PipelineSession) -> None:
    context = session.classic_context
    assert context is not None
    tracker, pause = context.statusTracker(), threading.Event()
    # Spark tells whoever waits for a job before it tells those who count jobs.
    for _ in range(600):
        if not tracker.getActiveJobsIds():
            return
        pause.wait(0.05)
    pytest.fail(f"jobs still run: {tracker.getActiveJobsIds()}")
