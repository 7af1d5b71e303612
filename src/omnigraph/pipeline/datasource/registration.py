"""Makes the data source `omnigraph` known to a Spark session; PySpark is imported by the call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register `spark.read.format("omnigraph")` in a session; again does no harm."""
    from omnigraph.pipeline.datasource.source import OmnigraphDataSource

    spark.dataSource.register(OmnigraphDataSource)
