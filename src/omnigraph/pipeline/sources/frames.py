"""Frames of tabular sources: read by Spark, projected to the columns of a type.

Expressions are Spark SQL, parsed by Spark; they never reach Lance. What Spark says about a source
that it cannot read becomes a `SourceError`, without the secrets of its options. A file that Spark
would leave out without a word is refused before.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from omnigraph.errors import InvalidArgument, PipelineTaskError, SourceError, SparkUnavailable
from omnigraph.pipeline.files.row_origin import ORIGIN
from omnigraph.pipeline.spark.errors import find_reason, is_session_lost, translate_spark_error
from omnigraph.pipeline.spec.pipeline_spec import WHERE, Column, SourceFormat
from omnigraph.pipeline.spec.secrets import hide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from omnigraph.errors import JsonValue, OmnigraphError
    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.pipeline.spec.column_map import RowMapping
    from omnigraph.pipeline.spec.pipeline_spec import SourceSpec, Value
    from omnigraph.storage.input_files import InputFile

_DEFAULTS: Final[Mapping[SourceFormat, Mapping[str, str]]] = {
    # A row that cannot be read fails the job; none is left out or half read.
    # Without all its columns a broken row of CSV looks like a whole one.
    # A quote inside quotes is doubled, as everybody but Spark writes it.
    SourceFormat.CSV: {
        "header": "true",
        "escape": '"',
        "mode": "FAILFAST",
        "enforceSchema": "false",
        "columnPruning": "false",
    },
    SourceFormat.JSON: {"mode": "FAILFAST"},
}
_NO_BUCKETS: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_BUCKET_CLASSES: Final = "spark.jars.packages=org.apache.hadoop:hadoop-aws"
_LEFT_OUT: Final = re.compile(r"\.|_[^=]*$|.*\._COPYING_$", re.DOTALL)
"""Names of files that Spark leaves out wherever it meets them."""
_PATTERN: Final = re.compile(r"[{}\[\]*?\\]")
_LONGEST: Final = 600
_LONGEST_PART: Final = 160


def read_frame(
    session: PipelineSession, source: SourceSpec, files: Sequence[InputFile] = ()
) -> DataFrame:
    """The rows of a source, lazily; of exactly these files where they were found."""
    spark = session.spark
    if source.format is SourceFormat.TABLE:
        return spark.table(source.table or "")
    if source.format is SourceFormat.SQL:
        return spark.sql(source.query or "")
    reader = spark.read.format(source.format.value)
    reader = reader.options(**{**_DEFAULTS.get(source.format, {}), **source.options})
    if source.schema is not None:
        reader = reader.schema(", ".join(f"{quoted(n)} {t}" for n, t in source.schema.items()))
    if source.format is SourceFormat.JDBC:
        return reader.load()
    if files:
        _require_readable(source.name, files)
        return reader.load(addresses_of(source, files))
    return reader.load(source.path or "")


def addresses_of(source: SourceSpec, files: Sequence[InputFile]) -> list[str]:
    """What Spark is to read, as its file systems name it."""
    return [_address(each) for each in files] or [source.path or ""]


def has_only_empty_files(source: SourceSpec, files: Sequence[InputFile]) -> bool:
    """Whether there is no row, and nothing that tells of columns."""
    is_text = source.format in (SourceFormat.CSV, SourceFormat.JSON)
    return is_text and bool(files) and not any(each.size_bytes for each in files)


def _require_readable(name: str, files: Sequence[InputFile]) -> None:
    for each in files:
        last = each.uri.rpartition("/")[2]
        if _LEFT_OUT.match(last):
            raise SourceError(
                f"Spark leaves out {each.uri}, because of its name: rename it, so that it neither"
                " begins with a dot or an underscore nor ends in ._COPYING_",
                source=name,
                path=each.uri,
            )
        if ":" in last and not each.uri.startswith("s3://"):
            raise SourceError(
                f"Spark cannot read {each.uri}, because its name has a colon: rename it",
                source=name,
                path=each.uri,
            )


def _address(file: InputFile) -> str:
    """The file as Spark's file systems name it; no character of it is one of a pattern."""
    # Spark's own option for this reads several files more than once when one has such a name.
    name = _PATTERN.sub(r"\\\g<0>", file.uri)
    return f"s3a://{name[5:]}" if name.startswith("s3://") else f"file://{name}"


def project(frame: DataFrame, mapping: RowMapping) -> DataFrame:
    """The values of a mapping, by their names; where rows come from is kept."""
    from pyspark.sql import functions as f

    if mapping.where is not None:
        frame = frame.where(f.expr(mapping.where))
    kept = [f.col(quoted(name)) for name in ORIGIN if name in frame.columns]
    values = [_value(value).alias(name) for name, value in mapping.values.items()]
    return frame.select(*values, *kept)


def frame_types(frame: DataFrame) -> dict[str, pa.DataType]:
    """The Arrow types in which the columns of a frame leave Spark."""
    from pyspark.sql.pandas.types import to_arrow_type

    return {each.name: to_arrow_type(each.dataType, timezone="UTC") for each in frame.schema.fields}


def quoted(name: str) -> str:
    """The name of a column in Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


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


def _value(value: Value) -> SparkColumn:
    from pyspark.sql import functions as f

    return f.col(quoted(value.name)) if isinstance(value, Column) else f.expr(value.sql)


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
