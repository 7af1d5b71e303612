"""Frames of tabular sources: read by Spark, projected to the columns of a type.

Expressions are Spark SQL, parsed by Spark; they never reach Lance. What Spark says about a source
that it cannot read becomes a `SourceError`, without the secrets of its options. A file that Spark
would leave out without a word is refused before.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from omnigraph.errors import SourceError
from omnigraph.pipeline.files.row_origin import ORIGIN
from omnigraph.pipeline.sources.database_errors import database_errors
from omnigraph.pipeline.sources.equal_rows import deduplicated, distinct_rows
from omnigraph.pipeline.sources.time_zones import (
    as_instants,
    narrowed,
    require_utc,
    zone_options,
)
from omnigraph.pipeline.spec.pipeline_spec import Column, SourceFormat
from omnigraph.pipeline.spec.sql_tables import within_brackets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from omnigraph.pipeline.sources.time_zones import Near
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
_LEFT_OUT: Final = re.compile(r"\.|_[^=]*$|.*\._COPYING_$", re.DOTALL)
"""Names of files that Spark leaves out wherever it meets them."""
_PATTERN: Final = re.compile(r"[{}\[\]*?\\]")


def read_frame(
    session: PipelineSession,
    source: SourceSpec,
    files: Sequence[InputFile] = (),
    named: Mapping[str, DataFrame] | None = None,
    near: Near | None = None,
) -> DataFrame:
    """The rows of a source, lazily; of exactly these files where they were found.

    `named`: the sources that its query names. `near`: rows elsewhere may be left out.

    Raises:
        SourceError: a file that Spark would leave out, or a Java that is not in UTC.
    """
    with database_errors(source):
        frame = _read(session, source, files, named or {})
    require_utc(session, frame, source)
    return as_instants(narrowed(frame, source, near), source)


def _read(
    session: PipelineSession,
    source: SourceSpec,
    files: Sequence[InputFile],
    named: Mapping[str, DataFrame],
) -> DataFrame:
    spark = session.spark
    if source.format is SourceFormat.TABLE:
        return spark.table(source.table or "")
    if source.format is SourceFormat.SQL:
        return _answer(session, source.query or "", named)
    reader = spark.read.format(source.format.value)
    defaults = _DEFAULTS.get(source.format, {})
    reader = reader.options(**{**defaults, **source.options, **zone_options(source)})
    if source.schema is not None:
        reader = reader.schema(", ".join(f"{quoted(n)} {t}" for n, t in source.schema.items()))
    if source.format is SourceFormat.JDBC:
        return reader.load()
    if files:
        _require_readable(source.name, files)
        return reader.load(addresses_of(source, files))
    return reader.load(source.path or "")


def _answer(session: PipelineSession, query: str, named: Mapping[str, DataFrame]) -> DataFrame:
    """The rows of a query, for which the frames are tables of these names."""
    if not named:
        return session.spark.sql(query)
    frames: dict[str, Any] = {f"frame_{at}": frame for at, frame in enumerate(named.values())}
    # Spark puts a view of its own, with a name of this call, in the place of each frame.
    views = ", ".join(
        f"{quoted(name)} AS (SELECT * FROM {{{view}}})"  # noqa: S608 - no text of a user
        for name, view in zip(named, frames, strict=True)
    )
    whole = within_brackets(query).replace("{", "{{").replace("}", "}}")
    return session.spark.sql(f"WITH {views} SELECT * FROM {whole}", **frames)  # noqa: S608 - Spark's own text


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


def project(frame: DataFrame, mapping: RowMapping, flags: Iterable[SparkColumn] = ()) -> DataFrame:
    """The values of a mapping, by their names, and flags; where rows come from is kept."""
    from pyspark.sql import functions as f

    if mapping.where is not None:
        frame = frame.where(f.expr(mapping.where))
    frame = deduplicated(frame, mapping)
    kept = [f.col(quoted(name)) for name in ORIGIN if name in frame.columns]
    values = [value_column(value).alias(name) for name, value in mapping.values.items()]
    return distinct_rows(frame.select(*values, *flags, *kept), mapping)


def frame_types(frame: DataFrame) -> dict[str, pa.DataType]:
    """The Arrow types in which the columns of a frame leave Spark."""
    from pyspark.sql.pandas.types import to_arrow_type

    return {each.name: to_arrow_type(each.dataType, timezone="UTC") for each in frame.schema.fields}


def quoted(name: str) -> str:
    """The name of a column in Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def value_column(value: Value) -> SparkColumn:
    """The column, or the expression, that a value of a mapping is."""
    from pyspark.sql import functions as f

    return f.col(quoted(value.name)) if isinstance(value, Column) else f.expr(value.sql)
