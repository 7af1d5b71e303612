"""What Spark raises, translated once; and how an error of a task crosses to the driver.

A task that fails says why in one line of JSON behind a mark, inside the text of the exception that
Spark carries; everything else of that text is Spark's own and differs between its two clients. A
failure without the mark (a killed worker, a lost executor) is told from Spark's words.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from omnigraph import errors
from omnigraph.errors import (
    Cancelled,
    InputChanged,
    JsonValue,
    OmnigraphError,
    PipelineTaskError,
    Retry,
    SparkUnavailable,
    StorageInternalError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_MARK: Final = "omnigraph task failure: "
_LONGEST: Final = 4_000
_LOST_TASK: Final = re.compile(r"Task (?P<task>[0-9]+) in stage [0-9.]+ failed (?P<times>[0-9]+)")
_KILLED: Final = re.compile(
    r"Python worker exited unexpectedly|Python worker failed to connect back|ExecutorLostFailure"
    r"|exit code:? ?137|OutOfMemoryError"
)
_CANCELLED: Final = re.compile(r"OPERATION_CANCELED|part of cancelled job group|cancelled job tags")
_LOST: Final = re.compile(
    r"SparkContext was shut down|Cannot call methods on a stopped SparkContext|SESSION_CHANGED"
    r"|SESSION_CLOSED|SESSION_NOT_FOUND|StatusCode\.UNAVAILABLE|failed to connect to all addresses"
    r"|Connection refused|Answer from Java side is empty"
)
_LOST_CLASSES: Final = ("Py4JNetworkError", "RetriesExceeded", "ConnectionError")
_JVM_PREFIX: Final = re.compile(r"^(?:Caused by: )?(?:[\w$]+\.)+[A-Z][\w$]*(?:Exception|Error): ")


class TaskFailed(Exception):
    """Raised in a task so that Spark tries it again; its text is the failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailure:
    """Why one attempt of a task failed, as it travels to the driver."""

    error: str
    message: str
    details: Mapping[str, JsonValue]
    partition: int
    attempt: int

    def to_json(self) -> str:
        """One line."""
        return json.dumps(
            {
                "error": self.error,
                "message": self.message,
                "details": self.details,
                "partition": self.partition,
                "attempt": self.attempt,
            },
            default=str,
        )

    def to_exception(self) -> TaskFailed:
        """What makes Spark try the task again."""
        return TaskFailed(f"{_MARK}{self.to_json()}")

    def to_typed(self) -> OmnigraphError | None:
        """The error that the task raised, if it was one of ours."""
        cls = getattr(errors, self.error, None)
        if not (isinstance(cls, type) and issubclass(cls, OmnigraphError)):
            return None
        return cls(self.message, **self.details)

    def to_error(self, stage: str) -> OmnigraphError:
        """What the driver raises: the error itself if it is final, otherwise the failed task."""
        typed = self.to_typed()
        if typed is not None and not can_be_retried(typed):
            typed.add_note(f"raised in task {self.partition} of stage {stage}")
            return typed
        return PipelineTaskError(
            f"stage {stage}: task {self.partition} failed {_times(self.attempt)}:"
            f" {self.error}: {self.message}; nothing was committed",
            stage=stage,
            partition=self.partition,
            attempts=self.attempt,
            cause={"error": self.error, "message": self.message, "details": self.details},
        )


def is_failure(error: BaseException) -> bool:
    """Whether this is an error, not a request to stop; a native panic is no `Exception`."""
    return isinstance(error, Exception) or _is_panic(error)


def describe_failure(error: BaseException, *, partition: int, attempt: int) -> TaskFailure:
    """What a task raised, in the form that crosses to the driver."""
    if _is_panic(error):
        error = StorageInternalError(f"a task failed inside the storage engine: {error}")
    message, details = str(error) or repr(error), dict[str, JsonValue]()
    if isinstance(error, OmnigraphError):
        message, details = error.message, error.details
    return TaskFailure(
        error=type(error).__name__,
        message=message[:_LONGEST],
        details=details,
        partition=partition,
        attempt=attempt,
    )


def read_failure(text: str) -> TaskFailure:
    """The failure of `TaskFailure.to_json`, with or without text after it."""
    fields, _ = json.JSONDecoder().raw_decode(text)
    return TaskFailure(**fields)


def can_be_retried(error: BaseException) -> bool:
    """Whether the same task may end well when Spark tries it again.

    An error of ours that says "try again as it is" may, and so may one that we know nothing of.
    """
    if isinstance(error, OmnigraphError):
        # A file that changed stays changed for this job.
        return error.retry is Retry.AS_IS and not isinstance(error, InputChanged)
    return isinstance(error, Exception)


def translate_spark_error(error: Exception, *, stage: str) -> OmnigraphError:
    """The typed error that stands for what a Spark action raised.

    One of ours that is final comes back as it was raised in the task; anything else that failed
    all its attempts is `PipelineTaskError`, with the error of the task in its details.
    """
    if isinstance(error, OmnigraphError):
        return error
    text = str(error)
    mark = text.rfind(_MARK)
    if mark >= 0:
        return read_failure(text[mark + len(_MARK) :]).to_error(stage)
    if _CANCELLED.search(text):
        return Cancelled(f"stage {stage} was cancelled; nothing was committed", stage=stage)
    if is_session_lost(error):
        return SparkUnavailable(
            f"the Spark session was lost in stage {stage} ({_reason(text)}); nothing was committed;"
            " run the job again",
            stage=stage,
        )
    return _failed_without_words(text, stage)


def is_session_lost(error: Exception) -> bool:
    """Whether there is no Spark to talk to any more."""
    names = {cls.__name__ for cls in type(error).__mro__}
    return not names.isdisjoint(_LOST_CLASSES) or _LOST.search(str(error)) is not None


def _failed_without_words(text: str, stage: str) -> PipelineTaskError:
    lost = _LOST_TASK.search(text)
    partition = None if lost is None else int(lost["task"])
    attempts = None if lost is None else int(lost["times"])
    reason = _reason(text)
    if _KILLED.search(text):
        reason = "its Python worker or executor was killed, most often for lack of memory"
        advice = "lower pipeline.batch_bytes, use more partitions, or give the workers more memory"
    else:
        advice = "see the log of Spark for the whole error"
    task = "a task" if partition is None else f"task {partition}"
    often = "" if attempts is None else f" {_times(attempts)}"
    return PipelineTaskError(
        f"stage {stage}: {task} failed{often}: {reason}; nothing was committed; {advice}",
        stage=stage,
        partition=partition,
        attempts=attempts,
        cause={"error": "spark", "message": reason, "details": {}},
    )


def _is_panic(error: BaseException) -> bool:
    return type(error).__name__ == "PanicException"


def _times(attempts: int) -> str:
    return "once" if attempts == 1 else f"{attempts} times"


def _reason(text: str) -> str:
    """The innermost cause that Spark names, without its stack."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    shown = causes[-1] if causes else next(iter(lines), "no reason was given")
    return _JVM_PREFIX.sub("", shown)[:_LONGEST]
