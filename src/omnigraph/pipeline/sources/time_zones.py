"""Timestamps of sources are the same instants on every machine.

A timestamp without a zone is one in UTC, or in the zone that its source declares. A database driver
makes an instant of it in the zone of its Java, so nothing is read in a Java of another zone: what
was stored, and where a cursor ended, would depend on the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from omnigraph.errors import SourceError
from omnigraph.pipeline.spark.options import EXECUTOR_JAVA_OPTIONS, IN_UTC, JAVA_OPTIONS
from omnigraph.pipeline.spec.pipeline_spec import SourceFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.pipeline.spec.pipeline_spec import SourceSpec

WITHOUT_ZONE: Final = {"preferTimestampNTZ": "true"}
"""Lets a database say which of its timestamps have no zone."""
_UTC: Final = frozenset({"UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "UCT", "Etc/UCT", "Zulu"})


def as_instants(frame: DataFrame, source: SourceSpec) -> DataFrame:
    """The frame with every timestamp without a zone as the instant that its source means.

    Of two instants with the same time on the clock it is the first; a time that the clocks skipped
    is as much later. Without a declared zone nothing changes.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import TimestampNTZType

    if source.timezone is None:
        return frame
    return frame.withColumns(
        {
            field.name: f.to_utc_timestamp(
                f.col(f"`{field.name.replace('`', '``')}`").cast("timestamp"), source.timezone
            )
            for field in frame.schema.fields
            if isinstance(field.dataType, TimestampNTZType)
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
