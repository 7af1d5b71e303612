"""Cursors of incremental runs: which rows of a source are new, and up to where they were read.

The upper bound is fixed before anything is read, so a row that arrives meanwhile is read by the
next run and by no other. Values are kept in JSON: moments as ISO 8601 in UTC, days as dates.
A window that a lag reads again is known by what its rows hold: one of them may have changed while
neither their number nor the largest value did.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from omnigraph.errors import SourceError
from omnigraph.pipeline.files.source_errors import reading_errors, source_errors
from omnigraph.pipeline.sources.frames import quoted
from omnigraph.pipeline.sources.time_zones import Near
from omnigraph.pipeline.spec.pipeline_spec import CursorType, SourceFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from omnigraph.errors import JsonValue
    from omnigraph.pipeline.spark.stage_runner import StageRunner
    from omnigraph.pipeline.spec.pipeline_spec import Cursor, SourceSpec

_SPARK_TYPES: Final = {
    # Without a zone it is one in UTC, as Spark takes it in our sessions.
    CursorType.TIMESTAMP: ("timestamp", "timestamp_ntz"),
    CursorType.DATE: ("date",),
    CursorType.INTEGER: ("tinyint", "smallint", "int", "bigint"),
    CursorType.STRING: ("string",),
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorRange:
    """The rows of one run: above `after`, up to `until`; each in its JSON form."""

    after: JsonValue
    """`None` reads from the beginning, rows without a value too."""
    until: JsonValue
    """`None` when there is no row."""
    rows: int = 0
    """How many rows are within."""
    without_value: int = 0
    """Rows that have no value in the column."""
    content: str = ""
    """What tells the rows of a window that a lag reads again from any other; else empty."""
    has_types: bool = True
    """There are rows, or something else, that tell of columns and their types."""


def has_nothing_to_read(
    frame: DataFrame, spec: SourceSpec, runner: StageRunner, secrets: Sequence[str] = ()
) -> bool:
    """Whether texts have no row that would tell the types of their columns.

    A header without the column of the cursor does tell: it is missing.
    """
    if spec.format not in (SourceFormat.CSV, SourceFormat.JSON) or spec.schema is not None:
        return False
    with source_errors(spec.name, secrets):
        names = frame.columns
    if spec.cursor is not None and names and spec.cursor.column not in names:
        return False
    with reading_errors(spec.name, secrets):
        return runner.run("list", frame.limit(1).count) == 0


def require_column(cursor: Cursor, names: Sequence[str], source: str) -> None:
    """Refuse a source without the column of its cursor.

    Raises:
        SourceError: with the columns that there are.
    """
    if cursor.column not in names:
        raise _refused(
            f"source {source!r} has no column `{cursor.column}` for its cursor; it has"
            f" {', '.join(names) or 'none'}",
            cursor,
            source,
        )


def find_range(
    frame: DataFrame,
    cursor: Cursor,
    last: JsonValue,
    runner: StageRunner,
    *,
    source: str,
    used: Sequence[str] = (),
    secrets: Sequence[str] = (),
) -> CursorRange:
    """What is new since the last value: the upper bound is the largest value there is now.

    Args:
        frame: the source.
        cursor: its column.
        last: where the run before ended.
        runner: runs the stage that looks.
        source: its name, for errors.
        used: the columns of which something is made; they tell one lag window from another.
        secrets: what no error shows.

    Raises:
        SourceError: the column is missing or of another type.
    """
    from pyspark.sql import functions as f

    with source_errors(source, secrets):
        types = dict(frame.dtypes)
    require_column(cursor, list(types), source)
    if types[cursor.column] not in _SPARK_TYPES[cursor.type]:
        raise _refused(
            f"the cursor `{cursor.column}` of source {source!r} is {types[cursor.column]} and is"
            f" declared as {cursor.type}; declare the type that it has, or cast it in the source",
            cursor,
            source,
        )
    column = f.col(quoted(cursor.column))
    after = lagged(cursor, last)
    newer = frame
    if after is not None:
        newer = frame.where((column > _literal(cursor, after)) | column.isNull())
    value = f.max(column)
    if cursor.type is CursorType.TIMESTAMP:
        value = f.unix_micros(value.cast("timestamp"))
    asked = newer.select(
        value.alias("until"),
        f.count(column).alias("rows"),
        f.count_if(column.isNull()).alias("missing"),
        _content(frame, used) if cursor.lag and after is not None else f.lit("").alias("content"),
    )
    with reading_errors(source, secrets):
        table: pa.Table = runner.run("list", asked.toArrow)
    row = table.to_pylist()[0]
    return CursorRange(
        after=after,
        until=_json(cursor, row["until"]),
        rows=int(row["rows"]),
        without_value=int(row["missing"]),
        content=str(row["content"]),
    )


def rows_within(frame: DataFrame, cursor: Cursor, found: CursorRange) -> DataFrame:
    """The rows of a range."""
    from pyspark.sql import functions as f

    column = f.col(quoted(cursor.column))
    if found.until is None:
        return frame.where(column.isNull()) if found.after is None else frame.limit(0)
    within = column <= _literal(cursor, found.until)
    if found.after is None:
        return frame.where(within | column.isNull())
    return frame.where(within & (column > _literal(cursor, found.after)))


def _content(frame: DataFrame, names: Sequence[str]) -> SparkColumn:
    """What rows hold in these columns, whatever their order."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import AtomicType

    parts = [f.lit(len(names))]
    for field in frame.schema.fields:
        if field.name in names:
            value = f.col(quoted(field.name))
            if not isinstance(field.dataType, AtomicType):
                # Hashes leave out nulls, and maps have none; the text of a value has both.
                value = f.to_json(f.struct(value), {"ignoreNullFields": "false"})
            parts += [value.isNull(), value]
    total = f.sum(f.xxhash64(*parts).cast("decimal(20,0)"))
    return f.coalesce(total.cast("string"), f.lit("")).alias("content")


def _refused(message: str, cursor: Cursor, source: str) -> SourceError:
    known = {"source": source, "column": cursor.column}
    if not cursor.place:
        return SourceError(message, **known)
    return SourceError(f"{cursor.place}: {message}", **known, place=cursor.place)


def near(cursor: Cursor, after: JsonValue, until: JsonValue = None) -> Near | None:
    """Where a reader may look for the rows of a range; `None` for anywhere."""
    if cursor.type is not CursorType.TIMESTAMP or after is None:
        return None
    return Near(column=cursor.column, after=str(after), until=None if until is None else str(until))


def lagged(cursor: Cursor, last: JsonValue) -> JsonValue:
    """The last value, as far back as rows are read again."""
    if last is None or not cursor.lag:
        return last
    match cursor.type:
        case CursorType.INTEGER if isinstance(last, int):
            return last - cursor.lag
        case CursorType.TIMESTAMP:
            moment = datetime.fromisoformat(str(last)) - timedelta(microseconds=cursor.lag)
            return _moment(moment)
        case CursorType.DATE:
            return (date.fromisoformat(str(last)) - timedelta(days=cursor.lag)).isoformat()
    return last


def _json(cursor: Cursor, value: Any) -> JsonValue:  # noqa: ANN401 - of whatever type the column has
    if value is None:
        return None
    match cursor.type:
        case CursorType.TIMESTAMP:
            return _moment(_EPOCH + int(value) * _MICROSECOND)
        case CursorType.DATE:
            return str(value.isoformat())
        case CursorType.INTEGER:
            return int(value)
    return str(value)


def _literal(cursor: Cursor, value: JsonValue) -> SparkColumn:
    from pyspark.sql import functions as f

    match cursor.type:
        case CursorType.TIMESTAMP:
            moment = datetime.fromisoformat(str(value))
            return f.timestamp_micros(f.lit((moment - _EPOCH) // _MICROSECOND).cast("bigint"))
        case CursorType.DATE:
            return f.lit(date.fromisoformat(str(value)))
        case CursorType.INTEGER if isinstance(value, int):
            return f.lit(value).cast("bigint")
    return f.lit(str(value))


def _moment(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
