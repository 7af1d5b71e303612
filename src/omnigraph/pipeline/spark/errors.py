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
from urllib.parse import unquote

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
    r"|SESSION_CLOSED|SESSION_NOT_FOUND"
)
_LOST_CLASSES: Final = ("Py4JNetworkError", "RetriesExceeded", "ConnectionError")
_NO_ANSWER: Final = re.compile(
    r"StatusCode\.UNAVAILABLE|failed to connect to all addresses|Connection refused"
    r"|Answer from Java side is empty"
)
_WIRES: Final = ("Py4JError", "SparkConnectGrpcException")
"""Classes, themselves and no others below them, of errors between a client and its Spark."""
_OF_A_JOB: Final = re.compile(r"Traceback \(most recent|Caused by: |stage failure|Python worker")
_JVM_PREFIX: Final = re.compile(
    r"^(?:Caused by: |: |\()?(?:[\w$]+\.)+[A-Z][\w$]*(?:Exception|Error)(?:: |\) )"
)
_CALL: Final = re.compile(r"^An error occurred while calling \S+$")
_CONDITION: Final = re.compile(r"\[(?P<name>[A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
_OF_SPARK: Final = ("INTERNAL_ERROR", "UNABLE_TO_ACQUIRE_MEMORY")
"""Conditions that say nothing about what was asked of Spark."""
_WORDLESS: Final = ("FAILED_READ_FILE.NO_HINT",)
_FILE_READ: Final = re.compile(r"while reading file (?P<path>.+?)\.(?: |$)", re.MULTILINE)
_SQL_LINE: Final = re.compile(r"^== SQL \(line \d+, position \d+\) ==\n(?P<line>.*)$", re.MULTILINE)
_TRACEBACK: Final = "Traceback (most recent call last):"
_DATABASE: Final = re.compile(r"\bJDBCRDD\b")


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
            f"the Spark session was lost in stage {stage} ({find_reason(text).text}); nothing was"
            " committed; run the job again",
            stage=stage,
        )
    return _failed_without_words(text, stage)


def is_session_lost(error: Exception) -> bool:
    """Whether there is no Spark to talk to any more.

    What a job says proves little: a user's function has lost connections of its own.
    """
    names = {cls.__name__ for cls in type(error).__mro__}
    if not names.isdisjoint(_LOST_CLASSES):
        return True
    text = str(error)
    if "PythonException" in names or _TRACEBACK in text:
        return False
    if _LOST.search(text):
        return True
    is_between = type(error).__name__ in _WIRES or "RpcError" in names
    return is_between and _NO_ANSWER.search(text) is not None and not _OF_A_JOB.search(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkReason:
    """What Spark says about a failure, without its stacks."""

    text: str
    conditions: tuple[str, ...] = ()
    """Spark's names for it, the innermost last."""
    path: str | None = None
    """The file that was being read, as an address of ours."""
    is_of_database: bool = False
    """Rows of a database were being read."""
    sql: str | None = None
    """The line of an expression that failed for a row, as it is written."""


def find_reason(text: str) -> SparkReason:
    """The innermost cause that Spark has words for, and what it was doing."""
    if _TRACEBACK in text:
        return SparkReason(text=_last_words(text))
    causes = _causes(text)
    named = [each for each in causes if _has_words(each)]
    told = named[-1] if named else causes[-1]
    if told is not causes[-1]:
        told = f"{told} ({causes[-1]})"
    file, sql = _FILE_READ.search(text), _SQL_LINE.search(text)
    return SparkReason(
        text=told[:_LONGEST],
        conditions=tuple(
            each["name"]
            for cause in causes
            for each in _CONDITION.finditer(cause)
            if not each["name"].startswith(_OF_SPARK)
        ),
        path=None if file is None else our_address(file["path"]),
        is_of_database=_DATABASE.search(text) is not None,
        sql=None if sql is None else sql["line"],
    )


def _failed_without_words(text: str, stage: str) -> PipelineTaskError:
    lost = _LOST_TASK.search(text)
    partition = None if lost is None else int(lost["task"])
    attempts = None if lost is None else int(lost["times"])
    spark_reason = find_reason(text)
    reason = spark_reason.text
    is_killed = _KILLED.search(text) is not None
    if is_killed:
        reason = "its Python worker or executor was killed, most often for lack of memory"
        advice = "lower pipeline.batch_bytes, use more partitions, or give the workers more memory"
    else:
        advice = "see the log of Spark for the whole error"
    task = "a task" if partition is None else f"task {partition}"
    often = "" if attempts is None else f" {_times(attempts)}"
    details: dict[str, JsonValue] = {
        "conditions": list(spark_reason.conditions),
        "path": spark_reason.path,
        "is_of_database": spark_reason.is_of_database,
        "sql": spark_reason.sql,
    }
    if is_killed:
        details = {}
    return PipelineTaskError(
        f"stage {stage}: {task} failed{often}: {reason}; nothing was committed; {advice}",
        stage=stage,
        partition=partition,
        attempts=attempts,
        cause={
            "error": "spark",
            "message": reason,
            "details": {name: value for name, value in details.items() if value},
        },
    )


def _is_panic(error: BaseException) -> bool:
    return type(error).__name__ == "PanicException"


def _times(attempts: int) -> str:
    return "once" if attempts == 1 else f"{attempts} times"


def _causes(text: str) -> list[str]:
    """What Spark and its causes say, the outermost first; each in one line."""
    paragraphs: list[list[str]] = []
    is_stack = False
    for line in text.splitlines():
        shown = line.strip()
        if shown.startswith(("Caused by: ", ": ")) or (shown and not paragraphs):
            paragraphs.append([shown])
            is_stack = False
        elif shown.startswith(("at ", "== ", "JVM stacktrace", "...")) or not shown:
            is_stack = True
        elif not is_stack:
            paragraphs[-1].append(shown)
    causes = [_JVM_PREFIX.sub("", " ".join(lines)) for lines in paragraphs]
    return [each for each in causes if not _CALL.match(each)] or ["no reason was given"]


def _has_words(cause: str) -> bool:
    condition = _CONDITION.search(cause)
    return condition is not None and condition["name"] not in _WORDLESS


def _last_words(text: str) -> str:
    """The line of a Python error below its stack."""
    lines = text[text.rindex(_TRACEBACK) :].splitlines()[1:]
    told = [line for line in lines if line.strip() and not line.startswith((" ", "\t"))]
    return next(iter(told), "no reason was given")[:_LONGEST]


def our_address(path: str) -> str:
    """The address of a file that Spark names, as we name it."""
    path = unquote(path)
    if path.startswith("s3a://"):
        return f"s3://{path[6:]}"
    return re.sub("^file:/+", "/", path)
