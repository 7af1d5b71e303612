"""Expressions of a mapping that flag the rows on which they fail, instead of failing the job.

Spark has no function that gives null where any expression fails. `try_to_binary` evaluates its
arguments within what it forgives, so that it is null exactly where they fail; the hash keeps Spark
from leaving an expression out because it cannot be null.
"""

from __future__ import annotations

import re
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from omnigraph.pipeline.files.row_flags import FAILED, GIVEN, LOST
from omnigraph.pipeline.files.row_origin import ORIGIN
from omnigraph.pipeline.sources.equal_rows import deduplicated, distinct_rows
from omnigraph.pipeline.sources.frames import project, quoted, value_column
from omnigraph.pipeline.spec.pipeline_spec import WHERE, Expression

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from omnigraph.pipeline.spec.column_map import RowMapping

_FORGIVES: Final = re.compile(r"\btry_\w+\s*\(", re.IGNORECASE)
_TOKENS: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|[()]", re.DOTALL)
"""Texts and quoted names, in which a parenthesis closes nothing, and parentheses."""


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
        frame = deduplicated(frame, mapping, failed)
        flags += _flags(WHERE, mapping.where, failed, columns)
    else:
        frame = deduplicated(frame, mapping)
    for name, value in mapping.values.items():
        column = value_column(value)
        if isinstance(value, Expression):
            failed = _fails(column)
            column = f.when(~failed, column)
            flags += _flags(name, value.sql, failed, columns)
        values.append(column.alias(name))
    selected = frame.select(*values, *flags, *lost_flags(mapping, columns), *kept)
    return distinct_rows(selected, mapping)


def with_lost_flags(frame: DataFrame, mapping: RowMapping, columns: list[str]) -> DataFrame:
    """The values of a mapping, with the flags of values that were lost."""
    return project(frame, mapping, lost_flags(mapping, columns))


def lost_flags(mapping: RowMapping, columns: list[str]) -> Iterator[SparkColumn]:
    """For each expression that forgives: whether it made null of something.

    It did where it is null, and so is one of its calls that forgive, although all columns of that
    call have values.
    """
    from pyspark.sql import functions as f

    for name, value in mapping.values.items():
        if not isinstance(value, Expression):
            continue
        lost = [
            flag
            for call in forgiving_calls(value.sql)
            for flag in _made_null(call, _used(call, columns))
        ]
        if lost:
            is_null = f.expr(value.sql).isNull()
            yield (is_null & reduce(or_, lost)).alias(f"{LOST}{name}")


def forgiving_calls(sql: str) -> list[str]:
    """The calls of functions that give null where they fail, with their arguments.

    An expression with a lambda is one as a whole: its calls may name what only it knows.
    """
    starts = [each.start() for each in _FORGIVES.finditer(sql)]
    if starts and "->" in sql:
        return [sql]
    return [_call_at(sql, start) for start in starts]


def _call_at(sql: str, start: int) -> str:
    """A call, from its name to the parenthesis that closes it."""
    depth = 0
    for token in _TOKENS.finditer(sql, start):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if depth == 0 and token[0] == ")":
            return sql[start : token.end()]
    return sql


def _made_null(call: str, used: list[str]) -> Iterator[SparkColumn]:
    """Whether a call is null although its columns are not; never fails."""
    from pyspark.sql import functions as f

    if used:
        is_null = f.expr(call).isNull()
        for each in used:
            is_null &= f.col(quoted(each)).isNotNull()
        # The arguments of a call may fail in rows that never reach it.
        word = f.when(is_null, f.lit("n"))
        yield f.try_to_binary(word, f.lit("utf-8")).isNotNull()


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
