"""Runs the Spark action of a stage: tells how far it is, and can cancel it.

The action runs in a thread of its own, the caller's thread watches it. So Ctrl-C reaches a thread
that waits for nothing but a clock, the Spark jobs of the stage are cancelled, and the connection
to Spark stays usable. A classic session counts the tasks of a job group twice a second; a Connect
session is told by the server.

An action that did not end well returns only when its tasks have ended too, as far as that can be
known: whoever removes what they wrote must not be too early.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast

from omnigraph.clock import SystemClock
from omnigraph.errors import Cancelled, OmnigraphError
from omnigraph.graph.jobs.stage_teller import NOTHING_KNOWN, StageTeller
from omnigraph.pipeline.spark.errors import is_session_lost, translate_spark_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark import SparkContext, SparkJobInfo
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.shell.progress import ProgressHandler, StageInfo

    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.graph.jobs.stage_teller import Amount
    from omnigraph.pipeline.spark.session import PipelineSession

log = logging.getLogger(__name__)

POLL_S: Final = 0.5
_CANCEL_WAIT_S: Final = 30.0
_TASKS_WAIT_S: Final = 10.0
_TASKS_POLL_S: Final = 0.1
_KILLED_WITHIN_US: Final = 3_000_000
"""Spark gives a Python task that it killed two seconds to end by itself."""

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkStage:
    """How far one stage of Spark is."""

    stage_id: int
    tasks: int
    done: int
    is_running: bool = False


class StageRunner:
    """Runs the stages of one job, one after the other."""

    teller: StageTeller
    """Tells how far they are."""

    def __init__(
        self,
        session: PipelineSession,
        progress: Progress | None = None,
        *,
        teller: StageTeller | None = None,
        poll_s: float = POLL_S,
    ) -> None:
        self._session = session
        self.teller = teller or StageTeller(progress)
        self._poll_s = poll_s
        self._lock = threading.Lock()
        self._running: _Jobs | None = None
        self._is_cancelled = False

    def run(
        self,
        stage: str,
        action: Callable[[], _Result],
        *,
        tasks: int | None = None,
        work: Amount = NOTHING_KNOWN,
    ) -> _Result:
        """Run the action to its end and return its result.

        Args:
            stage: the name that progress and errors show.
            action: what calls Spark; runs in another thread.
            tasks: how many tasks the last stage of Spark has; without it all are counted.
            work: what these tasks have to do; progress shows the share of those that are done.

        Raises:
            Cancelled: `cancel` was called.
            PipelineTaskError, SparkUnavailable, OmnigraphError: what `translate_spark_error` makes
                of an error of Spark.
            KeyboardInterrupt: passed on, after the jobs were cancelled; a note names them.
        """
        session = self._session
        session.require_alive()
        jobs = _jobs_of(session, session.new_group(stage))
        watched = _Watched(stage=stage, jobs=jobs, tasks=tasks, work=work)
        with self._lock:
            if self._is_cancelled:
                raise _cancelled(stage)
            self._running = jobs
        try:
            future = _start(session.spark, jobs, action, stage)
            return self._result(stage, self._watch(watched, future))
        finally:
            with self._lock:
                self._running = None

    def cancel(self) -> None:
        """Cancel the running stage and refuse every later one; from any thread."""
        with self._lock:
            self._is_cancelled = True
            running = self._running
        if running is not None:
            _cancel(running)

    def _watch(self, watched: _Watched, future: Future[_Result]) -> Future[_Result]:
        try:
            polled = _Polled(watched.jobs, future, self._poll_s)
            while wait([future], timeout=self._poll_s).not_done:
                if self._is_cancelled:
                    # Spark has forgotten it for jobs that began afterwards.
                    _cancel(watched.jobs)
                self._tell(watched, polled.stages)
        except BaseException as error:
            # Ctrl-C above all, but also a listener that fails: nobody waits for these jobs now.
            _cancel_until_ended(watched.jobs, future)
            _wait_for_tasks(watched.jobs)
            error.add_note(f"the Spark jobs {watched.jobs.group} were cancelled")
            raise
        failed = future.exception()
        if failed is not None and not isinstance(failed, OmnigraphError):
            _wait_for_tasks(watched.jobs)
        elif failed is None and watched.tasks is not None:
            self.teller.tell_tasks(
                watched.stage, watched.tasks, watched.tasks, watched.work, spark_stages=0
            )
        return future

    def _tell(self, watched: _Watched, stages: Sequence[SparkStage]) -> None:
        done, total = count_tasks(stages, watched.tasks)
        if total:
            running = sum(each.is_running for each in stages)
            self.teller.tell_tasks(watched.stage, done, total, watched.work, spark_stages=running)

    def _result(self, stage: str, ended: Future[_Result]) -> _Result:
        error = ended.exception()
        if error is None:
            return ended.result()
        if self._is_cancelled:
            raise _cancelled(stage) from error
        if isinstance(error, Exception):
            raise translate_spark_error(error, stage=stage) from error
        raise error


def count_tasks(stages: Iterable[SparkStage], tasks: int | None) -> tuple[int, int]:
    """Tasks done and in all.

    When the number of tasks is known, only the newest stage counts, and never the first one, which
    hands the tasks out. Otherwise all do, except a stage that has done nothing and is followed by
    another: Spark had its result.
    """
    ordered = sorted(stages, key=lambda each: each.stage_id)
    if tasks is not None:
        last = [each.done for each in ordered[1:][-1:] if each.tasks == tasks]
        return (last[0] if last else 0), tasks
    counted = [each for each in ordered if each.done or each is ordered[-1]]
    return sum(each.done for each in counted), sum(each.tasks for each in counted)


class _Jobs(Protocol):
    """The Spark jobs of one stage."""

    @property
    def group(self) -> str:
        """Their name, which Spark shows too."""
        ...

    def begin(self) -> None:
        """Make the jobs that this thread starts belong here."""
        ...

    def end(self) -> None:
        """Undo `begin`, in the same thread."""
        ...

    def stages(self) -> Sequence[SparkStage]:
        """How far their stages are."""
        ...

    def cancel(self) -> None:
        """Cancel them, from any thread."""
        ...

    def has_tasks(self) -> bool:
        """Whether tasks of theirs may still run, once the action has ended."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    """An action that runs, and what is known of it."""

    stage: str
    jobs: _Jobs
    tasks: int | None
    work: Amount


class _Polled:
    """What the jobs of a running action told last, asked in a thread of its own.

    An interrupt that meets a thread while it talks to Spark would break the connection.
    """

    def __init__(self, jobs: _Jobs, action: Future[_Result], poll_s: float) -> None:
        self._stages: Sequence[SparkStage] = ()
        self._error: Exception | None = None

        def poll() -> None:
            while wait([action], timeout=poll_s).not_done:
                try:
                    self._stages = _stages_of(jobs)
                except Exception as error:  # noqa: BLE001 - the edge of a thread; the caller raises it
                    self._error = error
                    return

        threading.Thread(target=poll, name="omnigraph-poll", daemon=True).start()

    @property
    def stages(self) -> Sequence[SparkStage]:
        """How far the stages are."""
        if self._error is not None:
            raise self._error
        return self._stages


class _ClassicJobs:
    """A job group, asked for its stages."""

    def __init__(self, context: SparkContext, group: str) -> None:
        self._context = context
        self.group = group

    def begin(self) -> None:
        self._context.setJobGroup(self.group, self.group)

    def end(self) -> None:
        """The group is a property of the thread, which ends here too."""

    def stages(self) -> Sequence[SparkStage]:
        tracker = self._context.statusTracker()
        ids = {stage for job in self._jobs() for stage in job.stageIds}
        infos = [tracker.getStageInfo(stage) for stage in ids]
        return [
            SparkStage(
                stage_id=info.stageId,
                tasks=info.numTasks,
                done=info.numCompletedTasks,
                is_running=info.numActiveTasks > 0,
            )
            for info in infos
            if info is not None
        ]

    def cancel(self) -> None:
        self._context.cancelJobGroup(self.group)

    def has_tasks(self) -> bool:
        # Spark counts late. Once it calls a job ended, it has counted every task that began.
        is_counting = any(job.status == "RUNNING" for job in self._jobs())
        return is_counting or any(each.is_running for each in self.stages())

    def _jobs(self) -> list[SparkJobInfo]:
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self.group)]
        return [job for job in jobs if job is not None]


class _ConnectJobs:
    """A tag; the server tells of the operations that carry it."""

    def __init__(self, spark: SparkSession, tag: str) -> None:
        self._spark = spark
        self.group = tag
        self._thread: int | None = None
        self._stages: Sequence[SparkStage] = ()
        self._clock = SystemClock()
        self._ended_us = 0
        # Spark declares a class where any callable serves, and one in a package that needs Connect.
        self._handler = cast("ProgressHandler", self._hear)

    def begin(self) -> None:
        self._thread = threading.get_ident()
        self._spark.addTag(self.group)
        self._spark.registerProgressHandler(self._handler)

    def end(self) -> None:
        self._stages = ()  # The server tells no more.
        self._ended_us = self._clock.monotonic_us()
        self._spark.removeProgressHandler(self._handler)
        self._spark.removeTag(self.group)

    def stages(self) -> Sequence[SparkStage]:
        return self._stages

    def cancel(self) -> None:
        self._spark.interruptTag(self.group)

    def has_tasks(self) -> bool:
        # Nobody tells of the tasks of an operation that ended; only time does.
        return self._clock.monotonic_us() - self._ended_us < _KILLED_WITHIN_US

    def _hear(
        self,
        stages: Iterable[StageInfo] | None,
        # What else Spark gives to a handler, by these names.
        inflight_tasks: int,
        operation_id: str | None,  # noqa: ARG002
        done: bool,  # noqa: ARG002, FBT001
    ) -> None:
        # Handlers hear of every operation of the session, in the thread that runs it.
        if threading.get_ident() == self._thread:
            known = list(stages or ())
            unfinished = [each for each in known if each.num_completed_tasks < each.num_tasks]
            begun = [each for each in unfinished if each.num_completed_tasks]
            # The server does not say to which stage the tasks belong that run.
            running = begun or unfinished[: bool(inflight_tasks)]
            self._stages = [
                SparkStage(
                    stage_id=stage.stage_id,
                    tasks=stage.num_tasks,
                    done=stage.num_completed_tasks,
                    is_running=stage in running,
                )
                for stage in known
            ]


def _jobs_of(session: PipelineSession, group: str) -> _Jobs:
    context = session.classic_context
    if context is None:
        return _ConnectJobs(session.spark, group)
    return _ClassicJobs(context, group)


def _start(
    spark: SparkSession, jobs: _Jobs, action: Callable[[], _Result], stage: str
) -> Future[_Result]:
    from pyspark import InheritableThread

    future: Future[_Result] = Future()

    def run() -> None:
        try:
            jobs.begin()
            try:
                result = action()
            finally:
                jobs.end()
        except BaseException as error:  # noqa: BLE001 - the edge of a thread; the caller raises it
            future.set_exception(error)
        else:
            future.set_result(result)

    try:
        InheritableThread(target=run, session=spark, name="omnigraph-stage", daemon=True).start()
    except Exception as error:
        # Before it starts, such a thread asks Spark for the properties that it inherits.
        raise translate_spark_error(error, stage=stage) from error
    return future


def _stages_of(jobs: _Jobs) -> Sequence[SparkStage]:
    try:
        return jobs.stages()
    except Exception as error:
        # The action is told of a lost session too, and the caller by it.
        if not is_session_lost(error):
            raise
        return ()


def _cancel(jobs: _Jobs) -> None:
    try:
        jobs.cancel()
    except Exception as error:  # noqa: BLE001 - why they are cancelled matters more
        # With the session its jobs are gone.
        if not is_session_lost(error):
            log.warning("Spark jobs were not cancelled", extra={"why": str(error)})


def _cancel_until_ended(jobs: _Jobs, action: Future[_Result]) -> None:
    """Cancel again and again: Spark forgets it for jobs that the action begins afterwards."""
    for _ in range(round(_CANCEL_WAIT_S / POLL_S)):
        _cancel(jobs)
        if wait([action], timeout=POLL_S).done:
            return


def _wait_for_tasks(jobs: _Jobs) -> None:
    """Until no task runs: Spark calls a job ended while some still write what is removed next."""
    pause = threading.Event()
    for _ in range(round(_TASKS_WAIT_S / _TASKS_POLL_S)):
        if not _has_tasks(jobs):
            return
        pause.wait(_TASKS_POLL_S)


def _has_tasks(jobs: _Jobs) -> bool:
    try:
        return jobs.has_tasks()
    except Exception as error:  # noqa: BLE001 - the action failed with an error of its own
        if not is_session_lost(error):
            log.warning("tasks of Spark may still run", extra={"why": str(error)})
        return False


def _cancelled(stage: str) -> Cancelled:
    return Cancelled(f"the job was cancelled in stage {stage}; nothing was committed", stage=stage)
