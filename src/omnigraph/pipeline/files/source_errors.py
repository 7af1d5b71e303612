"""What Spark says about a source that it cannot read, told as an error of the source.

It names the source, the file and the part of a mapping where they are known, and hides secrets.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from omnigraph.errors import InvalidArgument, PipelineTaskError, SourceError, SparkUnavailable
from omnigraph.pipeline.spark.errors import find_reason, is_session_lost, translate_spark_error
from omnigraph.pipeline.spec.pipeline_spec import WHERE, Column
from omnigraph.pipeline.spec.secrets import hide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from omnigraph.errors import JsonValue, OmnigraphError
    from omnigraph.pipeline.spec.column_map import RowMapping
    from omnigraph.storage.input_files import InputFile

_NO_BUCKETS: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_BUCKET_CLASSES: Final = "spark.jars.packages=org.apache.hadoop:hadoop-aws"
_LONGEST: Final = 600
_LONGEST_PART: Final = 160


@contextmanager
def source_errors(name: str, secrets: Sequence[str] = ()) -> Iterator[None]:
    """Errors of Spark while a source is looked at, as errors of the source.

    Raises:
        SourceError: the source cannot be read, or an expression is wrong.
        SparkUnavailable: the session is lost.
    """
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise _told(name, error, secrets) from None
    except Exception as error:
        # What Java raised and Spark does not name: a driver of a database, above all.
        if type(error).__name__ != "Py4JJavaError":
            raise
        raise _told(name, error, secrets) from None


@contextmanager
def reading_errors(
    name: str,
    secrets: Sequence[str] = (),
    *,
    mapping: RowMapping | None = None,
    files: Sequence[InputFile] = (),
) -> Iterator[None]:
    """Errors of Spark while the rows of a source are read, as errors of the source.

    An error of an expression is told with what the mapping makes of it, and with the file if there
    is only one: Spark names neither the file nor the row of a value.

    Raises:
        SourceError: a row or an expression could not be evaluated, or a file not be read.
        PipelineTaskError: the tasks failed for another reason.
        SparkUnavailable: the session is lost.
    """
    try:
        yield
    except PipelineTaskError as error:
        cause = error.details.get("cause")
        if not isinstance(cause, dict):
            raise
        text, known = str(cause.get("message")), cause.get("details")
        known = known if isinstance(known, dict) else {}
        is_of_source = cause.get("error") == "spark" and bool(known)
        if is_of_source or any(secret in error.message for secret in secrets):
            parts = _parts_with(mapping, known.get("sql"))
            path = known.get("path") or (files[0].uri if len(files) == 1 else None)
            told = "; ".join(
                [described(mapping, each, secrets) for each in parts] if mapping else []
            )
            raise _unreadable(
                name,
                f"{told}: {text}" if told else text,
                secrets,
                path=path if isinstance(path, str) else None,
                end="; nothing was committed",
                **({"property": parts[0].removeprefix(":")} if parts else {}),
            ) from None
        raise
    except SparkUnavailable as error:
        raise _without(error, secrets) from None


@contextmanager
def changes_told(require_same: Callable[[], None] | None) -> Iterator[None]:
    """A source that fails because its files changed meanwhile is told as that.

    Raises:
        InputChanged: a file is not what it was when it was found.
    """
    try:
        yield
    except (InvalidArgument, SourceError, PipelineTaskError):
        if require_same is not None:
            require_same()
        raise


def described(mapping: RowMapping, name: str, secrets: Sequence[str]) -> str:
    """A part of a mapping for people, short, and without secrets."""
    return _cut(hide(mapping.describe(name), secrets), _LONGEST_PART)


def _told(name: str, error: Exception, secrets: Sequence[str]) -> Exception:
    if is_session_lost(error):
        return _without(translate_spark_error(error, stage="list"), secrets)
    if _NO_BUCKETS in str(error):
        return SourceError(
            f"source {name!r} cannot be read: this Spark has no classes for s3:// addresses; give"
            f" them with --spark-conf {_BUCKET_CLASSES}:VERSION, of the version of its Hadoop, or"
            " bring Parquet whose columns are taken as they are, or lines of the graph format,"
            " which need none",
            source=name,
            missing=_NO_BUCKETS,
        )
    reason = find_reason(str(error))
    return _unreadable(name, reason.text, secrets, path=reason.path)


def _parts_with(mapping: RowMapping | None, line: object) -> list[str]:
    """The values, and the condition, that have a line of SQL in their expressions."""
    if mapping is None or not isinstance(line, str):
        return []
    texts = {
        name: value.sql for name, value in mapping.values.items() if not isinstance(value, Column)
    }
    if mapping.where is not None:
        texts[WHERE] = mapping.where
    return [name for name, sql in texts.items() if line in sql.splitlines()]


def _unreadable(
    name: str,
    text: str,
    secrets: Sequence[str],
    *,
    path: str | None,
    end: str = "",
    **more: JsonValue,
) -> SourceError:
    where = more if path is None else {"path": path, **more}
    inside = f"{path}: " if path is not None and path != name else ""
    return SourceError(
        f"source {name!r} cannot be read: {inside}{_shown(text, secrets)}{end}",
        source=name,
        **where,
    )


def _without(error: OmnigraphError, secrets: Sequence[str]) -> OmnigraphError:
    if not any(secret in error.message for secret in secrets):
        return error
    return type(error)(_shown(error.message, secrets), **error.details)


def _shown(text: str, secrets: Sequence[str]) -> str:
    return _cut(hide(text, secrets), _LONGEST)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
