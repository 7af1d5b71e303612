"""What Spark says, read without Spark: which words are whose."""

from __future__ import annotations

import pytest

from omnigraph.errors import PipelineTaskError, SourceError, SparkUnavailable
from omnigraph.pipeline.files.source_errors import reading_errors
from omnigraph.pipeline.spark.errors import find_reason, is_session_lost, translate_spark_error

STACK = "\n\tat org.apache.spark.Some.method(Some.scala:1)\n"
UNREAD = (
    "An error occurred while calling o9.getResult.\n"
    ": org.apache.spark.SparkException: Exception thrown in awaitResult: "
    f"{STACK}Caused by: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered"
    f" error while reading file file:///in/a%20b.csv.  SQLSTATE: KD001{STACK}"
)


class Py4JError(Exception):
    """As the gateway names it."""


class Py4JJavaError(Py4JError):
    """As the gateway names what Java raised."""


class PythonException(Exception):
    """As both clients name what a worker raised."""


def test_a_connection_that_a_job_lost_is_no_lost_session() -> None:
    refused = "java.net.ConnectException: Connection refused"
    assert not is_session_lost(Py4JJavaError(f"{UNREAD}Caused by: {refused}"))
    assert not is_session_lost(PythonException("Connection refused, StatusCode.UNAVAILABLE"))
    assert is_session_lost(Py4JError("Connection refused"))
    assert is_session_lost(ConnectionRefusedError())
    assert is_session_lost(Py4JJavaError("job was cancelled because SparkContext was shut down"))


def test_the_last_line_of_a_python_error_is_the_reason() -> None:
    text = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        '  File "x.py", line 1, in f\n    raise ValueError("no")\nValueError: no\n'
    )
    told = translate_spark_error(PythonException(text), stage="intake")
    assert isinstance(told, PipelineTaskError)
    assert "ValueError: no" in told.message


def test_the_file_that_was_read_is_named_with_the_innermost_cause() -> None:
    found = find_reason(f"{UNREAD}Caused by: java.io.EOFException: Unexpected end{STACK}")
    assert (found.path, found.text) == ("/in/a b.csv", "Unexpected end")
    assert find_reason("while reading file s3a://b/k.csv. x").path == "s3://b/k.csv"


def test_what_a_source_did_is_an_error_of_the_source() -> None:
    told = translate_spark_error(Py4JJavaError(UNREAD), stage="intake")
    with pytest.raises(SourceError) as caught, reading_errors("in"):
        raise told
    assert caught.value.details == {"source": "in", "path": "/in/a b.csv"}
    killed = translate_spark_error(Py4JJavaError(f"{UNREAD}ExecutorLostFailure"), stage="intake")
    with pytest.raises(PipelineTaskError), reading_errors("in"):
        raise killed


def test_a_lost_session_shows_no_secret_of_a_source() -> None:
    lost = translate_spark_error(ConnectionError("url of sesame"), stage="list")
    with pytest.raises(SparkUnavailable) as caught, reading_errors("db", ["sesame"]):
        raise lost
    assert "sesame" not in str(caught.value)
