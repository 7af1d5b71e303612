"""Expressions of a mapping that flag the rows on which they fail, instead of failing the job.

Spark has no function that gives null where any expression fails. `try_to_binary` evaluates its
arguments within what it forgives, so that it is null exactly where they fail; the hash keeps Spark
from leaving an expression out because it cannot be null.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from omnigraph.pipeline.files.row_flags import FAILED, GIVEN, LOST
from omnigraph.pipeline.files.row_origin import ORIGIN
from omnigraph.pipeline.sources.frames import project, quoted, value_column
from omnigraph.pipeline.spec.pipeline_spec import WHERE, Expression

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from omnigraph.pipeline.spec.column_map import RowMapping

_FORGIVES: Final = re.compile(r"\btry_\w+\s*\(", re.IGNORECASE)


def project_guarded(frame: DataFrame, mapping: RowMapping) -> DataFrame:
    """The values of a mapping, null where they fail, with the flags of each row."""
    from pyspark.sql import functions as f

    columns = [name for name in frame.columns if name not in ORIGIN]
    kept = [f.col(quoted(name)) for name in ORIGIN if name in frame.columns]
    values: list[SparkColumn] = []
    flags: list[SparkColumn] = []
    if mapping.where is not None:
        condition = f.expr(mapping.where)
        failed = _fails(condition)
        frame = frame.where(f.when(failed, f.lit(True)).otherwise(condition))  # noqa: FBT003 - Spark's
        flags += _flags(WHERE, mapping.where, failed, columns)
    for name, value in mapping.values.items():
        column = value_column(value)
        if isinstance(value, Expression):
            failed = _fails(column)
            column = f.when(~failed, column)
            flags += _flags(name, value.sql, failed, columns)
        values.append(column.alias(name))
    return frame.select(*values, *flags, *lost_flags(mapping, columns), *kept)


def with_lost_flags(frame: DataFrame, mapping: RowMapping, columns: list[str]) -> DataFrame:
    """The values of a mapping, with the flags of values that were lost."""
    return project(frame, mapping, lost_flags(mapping, columns))


def lost_flags(mapping: RowMapping, columns: list[str]) -> Iterator[SparkColumn]:
    """For each expression that forgives: whether it made null of something."""
    from pyspark.sql import functions as f

    for name, value in mapping.values.items():
        if isinstance(value, Expression) and _FORGIVES.search(value.sql):
            used = _used(value.sql, columns)
            if used:
                is_lost = f.expr(value.sql).isNull()
                for each in used:
                    is_lost &= f.col(quoted(each)).isNotNull()
                yield is_lost.alias(f"{LOST}{name}")


def _fails(column: SparkColumn) -> SparkColumn:
    from pyspark.sql import functions as f

    word = f.when(f.xxhash64(column) == 0, f.lit("n")).otherwise(f.lit("v"))
    return f.try_to_binary(word, f.lit("utf-8")).isNull()


def _flags(name: str, sql: str, failed: SparkColumn, columns: list[str]) -> Iterator[SparkColumn]:
    from pyspark.sql import functions as f

    yield failed.alias(f"{FAILED}{name}")
    used = _used(sql, columns)
    if used:
        given = f.struct(*(f.col(quoted(each)).cast("string").alias(each) for each in used))
        yield f.when(failed, f.to_json(given)).alias(f"{GIVEN}{name}")


def _used(sql: str, columns: list[str]) -> list[str]:
    """The columns whose names an expression has as words."""
    return [
        each
        for each in columns
        if re.search(rf"(?<!\w){re.escape(each)}(?!\w)", sql, re.IGNORECASE)
    ]
