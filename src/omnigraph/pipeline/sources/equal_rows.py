"""One row of those that are equal: `distinct` and `dedupe` of a mapping, on a frame.

Which row is taken does not depend on how Spark cut the frame: of rows that nothing tells apart by
their order, the one with the smallest hash is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.pipeline.files.row_flags import LOST
from omnigraph.pipeline.files.row_origin import ORIGIN
from omnigraph.pipeline.spec.pipeline_spec import Keep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from omnigraph.pipeline.spec.column_map import RowMapping

_NUMBER = "omnigraph:number"


def deduplicated(frame: DataFrame, mapping: RowMapping, *apart: SparkColumn) -> DataFrame:
    """The rows of a source that `dedupe` keeps; rows that differ in `apart` never stand together.

    A row without a value in the column of the order is kept only where no other has one.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    dedupe = mapping.dedupe
    if dedupe is None:
        return frame
    order = f.col(_quoted(dedupe.order))
    ordered = order.desc_nulls_last() if dedupe.keep is Keep.LAST else order.asc_nulls_last()
    by = [f.col(_quoted(name)) for name in dedupe.by]
    window = Window.partitionBy(*by, *apart).orderBy(ordered, f.xxhash64(*_hashable(frame)))
    numbered = frame.withColumn(_NUMBER, f.row_number().over(window))
    return numbered.where(f.col(_quoted(_NUMBER)) == 1).drop(_NUMBER)


def distinct_rows(projected: DataFrame, mapping: RowMapping) -> DataFrame:
    """The projected rows, each once if `distinct` says so; where they come from is then lost."""
    if not mapping.distinct:
        return projected
    # Rows of one place in a file would never be equal.
    values = projected.drop(*ORIGIN)
    return values.dropDuplicates([name for name in values.columns if not name.startswith(LOST)])


def _hashable(frame: DataFrame) -> Iterator[SparkColumn]:
    from pyspark.sql import functions as f
    from pyspark.sql.types import AtomicType

    for field in frame.schema.fields:
        if field.name not in ORIGIN:
            value = f.col(_quoted(field.name))
            # Maps have no hash; their text has one.
            plain = isinstance(field.dataType, AtomicType)
            yield value if plain else f.to_json(f.struct(value))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
