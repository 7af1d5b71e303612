"""Timestamps of sources are the same instants on every machine.

A timestamp without a zone is one in UTC, or in the zone that its source declares. A database driver
makes an instant of it in the zone of its Java, so nothing is read in a Java of another zone: what
was stored, and where a cursor ended, would depend on the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from omnigraph.errors import SourceError
from omnigraph.pipeline.spark.options import EXECUTOR_JAVA_OPTIONS, IN_UTC, JAVA_OPTIONS
from omnigraph.pipeline.spec.pipeline_spec import SourceFormat

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.pipeline.spec.pipeline_spec import SourceSpec

_MOST_SHIFTED: Final = timedelta(days=1)
"""No clocks were ever put back further."""
_UTC: Final = frozenset({"UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "UCT", "Etc/UCT", "Zulu"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """The instants between which a reader looks, as texts; `None` for no bound."""

    column: str
    after: str | None
    until: str | None = None


def zone_options(source: SourceSpec) -> dict[str, str]:
    """What tells the reader of a source about its zone."""
    if source.timezone is None:
        return {}
    if source.format in (SourceFormat.CSV, SourceFormat.JSON):
        # These readers make instants of texts themselves.
        return {"timeZone": source.timezone}
    # Lets a database say which of its timestamps have no zone.
    return {"preferTimestampNTZ": "true"}


def narrowed(frame: DataFrame, source: SourceSpec, near: Near | None) -> DataFrame:
    """The rows as they are read, without most of those that lie elsewhere.

    A condition on instants that were made of local times is no condition that a database takes; one
    on the local times is. It lets through what is near, for whoever looks at the instants.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import TimestampNTZType

    if near is None or source.timezone is None:
        return frame
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    if not isinstance(kinds.get(near.column), TimestampNTZType):
        return frame
    column = f.col(f"`{near.column.replace('`', '``')}`")
    bounds: list[SparkColumn] = []
    if near.after is not None:
        bounds.append(column >= _local(near.after, source.timezone, -_MOST_SHIFTED))
    if near.until is not None:
        bounds.append(column <= _local(near.until, source.timezone, _MOST_SHIFTED))
    return frame.where(reduce(and_, bounds) | column.isNull()) if bounds else frame


def _local(instant: str, zone: str, shift: timedelta) -> SparkColumn:
    """The time on the clocks of a zone, somewhat earlier or later."""
    from pyspark.sql import functions as f

    at = datetime.fromisoformat(instant).astimezone(ZoneInfo(zone)).replace(tzinfo=None) + shift
    return f.lit(at.isoformat(sep=" ")).cast("timestamp_ntz")


def as_instants(frame: DataFrame, source: SourceSpec) -> DataFrame:
    """The frame with every timestamp without a zone as the instant that its source means.

    Of two instants with the same time on the clock it is the first; a time that the clocks skipped
    is as much later. Without a declared zone nothing changes.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import TimestampNTZType, TimestampType

    if source.timezone is None:
        return frame
    # Spark reads a timestamp of ORC, which has no zone, as if it had one.
    is_orc = source.format is SourceFormat.ORC
    local = (TimestampNTZType, TimestampType) if is_orc else (TimestampNTZType,)
    return frame.withColumns(
        {
            field.name: f.to_utc_timestamp(
                f.col(f"`{field.name.replace('`', '``')}`").cast("timestamp"), source.timezone
            )
            for field in frame.schema.fields
            if isinstance(field.dataType, local)
        }
    )


def require_utc(session: PipelineSession, frame: DataFrame, source: SourceSpec) -> None:
    """Refuse to read timestamps of a database in a Java that is not in UTC.

    Raises:
        SourceError: with the options that put it there.
    """
    from pyspark.sql.types import TimestampNTZType, TimestampType

    if source.format is not SourceFormat.JDBC:
        return
    kinds = [field.dataType for field in frame.schema.fields]
    if not any(isinstance(kind, TimestampType | TimestampNTZType) for kind in kinds):
        return
    zone = session.time_zone()
    if zone not in _UTC:
        raise SourceError(
            f"the Java of Spark runs in the time zone {zone}, and timestamps of the database in"
            f" source {source.name!r} would depend on it; start the session with {IN_UTC} in"
            f" {JAVA_OPTIONS} and {EXECUTOR_JAVA_OPTIONS}",
            source=source.name,
            timezone=zone,
        )
