"""Frames of tabular sources: read by Spark, projected to the columns of a type.

Expressions are Spark SQL, parsed by Spark; they never reach Lance. What Spark says about a source
that it cannot read becomes a `SourceError`, without the secrets of its options.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from omnigraph.errors import PipelineTaskError, SourceError
from omnigraph.pipeline.pipeline_spec import Column, SourceFormat
from omnigraph.pipeline.spark_errors import is_session_lost, translate_spark_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from omnigraph.pipeline.column_map import RowMapping
    from omnigraph.pipeline.pipeline_spec import SourceSpec, Value
    from omnigraph.pipeline.session import PipelineSession
    from omnigraph.storage.input_files import InputFile

_DEFAULTS: Final[Mapping[SourceFormat, Mapping[str, str]]] = {
    # A row that cannot be read fails the job; none is left out or half read.
    # Without all its columns a broken row of CSV looks like a whole one.
    SourceFormat.CSV: {
        "header": "true",
        "mode": "FAILFAST",
        "enforceSchema": "false",
        "columnPruning": "false",
    },
    SourceFormat.JSON: {"mode": "FAILFAST"},
}
_CONDITION: Final = re.compile(r"\[[A-Z][A-Z0-9_.]+\]")
_LONGEST: Final = 600
_HIDDEN: Final = "***"


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
        # Spark would look for patterns again, and read them in its own way.
        return reader.option("__globPaths__", "false").load([_address(each) for each in files])
    return reader.load(source.path or "")


def _address(file: InputFile) -> str:
    """The file as Spark's file systems name it."""
    return f"s3a://{file.uri[5:]}" if file.uri.startswith("s3://") else f"file://{file.uri}"


def project(frame: DataFrame, mapping: RowMapping) -> DataFrame:
    """The values of a mapping, by their names."""
    from pyspark.sql import functions as f

    if mapping.where is not None:
        frame = frame.where(f.expr(mapping.where))
    return frame.select(*(_value(value).alias(name) for name, value in mapping.values.items()))


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
def reading_errors(name: str, secrets: Sequence[str] = ()) -> Iterator[None]:
    """Errors of Spark while the rows of a source are read, as errors of the source.

    Raises:
        SourceError: a row or an expression could not be evaluated.
        PipelineTaskError: the tasks failed for another reason.
    """
    try:
        yield
    except PipelineTaskError as error:
        cause = error.details.get("cause")
        text = str(cause.get("message")) if isinstance(cause, dict) else ""
        if isinstance(cause, dict) and cause.get("error") == "spark" and _CONDITION.search(text):
            raise SourceError(
                f"source {name!r} cannot be read: {_shown(text, secrets)}; nothing was committed",
                source=name,
            ) from None
        if any(secret in error.message for secret in secrets):
            raise SourceError(
                f"source {name!r} cannot be read: {_shown(text, secrets)}; nothing was committed",
                source=name,
            ) from None
        raise


def _value(value: Value) -> SparkColumn:
    from pyspark.sql import functions as f

    return f.col(quoted(value.name)) if isinstance(value, Column) else f.expr(value.sql)


def _told(name: str, error: Exception, secrets: Sequence[str]) -> Exception:
    if is_session_lost(error):
        return translate_spark_error(error, stage="list")
    return SourceError(
        f"source {name!r} cannot be read: {_shown(_first_words(str(error)), secrets)}", source=name
    )


def _first_words(text: str) -> str:
    """What Spark says, without the plan and the stack that follow."""
    lines = [line.strip() for line in text.splitlines()]
    stop = next(
        (
            at
            for at, line in enumerate(lines)
            if at and (not line or line.startswith(("at ", "'", "+-", "JVM stacktrace", "== ")))
        ),
        len(lines),
    )
    return " ".join(line for line in lines[:stop] if line)


def _shown(text: str, secrets: Sequence[str]) -> str:
    for secret in sorted(secrets, key=len, reverse=True):
        if secret:
            text = text.replace(secret, _HIDDEN)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
