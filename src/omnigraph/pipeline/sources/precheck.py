"""What is wrong with the sources of a load, as far as it shows before Spark is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.pipeline.sources.sources import FrameSource, ParquetFiles
from omnigraph.pipeline.spec.column_map import mistakes_told, plan_mapping, require_target

if TYPE_CHECKING:
    from omnigraph.lang.catalog import Catalog
    from omnigraph.pipeline.sources.sources import LoadSource


def precheck(catalog: Catalog, source: LoadSource) -> None:
    """Refuse types, properties and columns that do not exist, where the files tell.

    Raises:
        InvalidArgument: there is no such type.
        SourceError: a property or a column does not exist, or a file cannot be read.
    """
    if isinstance(source, ParquetFiles):
        names = source.shapes.found[0].schema.names
        with mistakes_told(source.through_spark.name, source.target):
            plan_mapping(catalog, source.target, names)
    elif isinstance(source, FrameSource):
        for target in source.targets:
            with mistakes_told(source.name, target):
                require_target(catalog, target)
