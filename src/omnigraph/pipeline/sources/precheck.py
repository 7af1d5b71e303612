"""What is wrong with the sources of a load, as far as it shows before Spark is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.pipeline.sources.local_source import CsvFile
from omnigraph.pipeline.sources.sources import FrameSource, ParquetFiles
from omnigraph.pipeline.spec.column_map import (
    column_types,
    look_at_mapping,
    mistakes_told,
    require_target,
    type_mistakes,
)
from omnigraph.pipeline.spec.mistakes import Mistakes, as_one

if TYPE_CHECKING:
    from omnigraph.lang.catalog import Catalog
    from omnigraph.pipeline.sources.sources import LoadSource
    from omnigraph.pipeline.spec.column_map import TargetSpec


def precheck(catalog: Catalog, source: LoadSource) -> None:
    """Refuse types, properties and columns that do not exist or fit, where the files tell.

    Raises:
        InvalidArgument: there is no such type.
        SourceError: a property or a column does not exist, a type does not fit, or a file cannot be
            read; with all mistakes of the source.
    """
    mistakes = Mistakes()
    if isinstance(source, ParquetFiles):
        schema = source.shapes.found[0].schema
        with mistakes.of_part(), mistakes_told(source.through_spark.name, source.target):
            _require_fitting(catalog, source.target, schema, is_read_here=True)
    elif isinstance(source, FrameSource | CsvFile):
        is_read_here = isinstance(source, CsvFile)
        frame = source.through_spark if isinstance(source, CsvFile) else source
        # A text that only Spark takes apart is told as that first.
        told = None if is_read_here else frame.known_columns
        for target in frame.targets:
            with mistakes.of_part(), mistakes_told(frame.name, target):
                if told is None:
                    require_target(catalog, target)
                else:
                    _require_fitting(catalog, target, told, is_read_here=False)
    mistakes.require_none()


def _require_fitting(
    catalog: Catalog, target: TargetSpec, schema: pa.Schema, *, is_read_here: bool
) -> None:
    """Refuse what the columns of a file do not have, or have in types that do not fit.

    `is_read_here`: columns that are taken as they are do not go through Spark.
    """
    mapping, mistakes = look_at_mapping(catalog, target, schema.names)
    types = column_types(mapping, schema)
    if not (is_read_here and mapping.is_plain):
        types = {name: kind for name, kind in types.items() if _is_read_as_told(kind)}
    mistakes += type_mistakes(mapping, types)
    if mistakes:
        raise as_one(mistakes)


def _is_read_as_told(kind: pa.DataType) -> bool:
    """Whether Spark reads a column as the type that the file tells; of times it may not."""
    return (
        pa.types.is_string(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_date32(kind)
    )
