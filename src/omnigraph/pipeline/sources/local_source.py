"""One CSV or Parquet file of moderate size, taken in without Spark.

What is said of it, what its rows become and where they stand is the same as on Spark. What only
Spark can do is told by name, before anything is opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.errors import InvalidArgument
from omnigraph.graph.type_names import find_type
from omnigraph.pipeline.files.csv_text import CsvText, csv_text, separator_of
from omnigraph.pipeline.intake.inputs import TableInput, marks_of
from omnigraph.pipeline.sources.request import plan_source
from omnigraph.pipeline.sources.sources import FrameSource, LineFiles, ParquetFiles, files_of
from omnigraph.pipeline.spec.column_map import (
    column_types,
    look_at_mapping,
    mistakes_told,
    plan_mapping,
    require_types,
)
from omnigraph.pipeline.spec.mistakes import Mistakes, as_one
from omnigraph.pipeline.spec.pipeline_spec import SourceFormat
from omnigraph.storage.input_files import InputFiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from omnigraph.lang.catalog import Catalog
    from omnigraph.pipeline.intake.inputs import JobInput
    from omnigraph.pipeline.sources.request import SourceRequest
    from omnigraph.pipeline.sources.sources import LoadSource
    from omnigraph.pipeline.spark.lanes import TaskLane
    from omnigraph.pipeline.spec.column_map import TargetSpec
    from omnigraph.settings import Settings
    from omnigraph.storage.input_files import InputFile


def why_spark(path: Path, form: str, options: Mapping[str, str]) -> str | None:
    """What of a file needs Spark; `None` for what can be read here, or not at all.

    `options`: of the reader, `sep` of a file of tabs among them.
    """
    if form == SourceFormat.CSV:
        separator = separator_of(options)
        if separator is None:
            return "an option of Spark's reader"
        try:
            return csv_text(path.read_bytes(), separator).why_spark()
        except OSError:
            return None  # Whoever reads it says why.
    if form != SourceFormat.PARQUET:
        return f"the format {form}"
    if options:
        return "an option of Spark's reader"
    try:
        names = pq.read_schema(path).names
    except (OSError, pa.ArrowException):
        return None  # As above.
    has_dots = any("." in name for name in names)
    return "a column whose name has a dot" if has_dots else None


def plan_local_source(request: SourceRequest, settings: Settings) -> LoadSource:
    """The source of a load in this process, with its file found.

    Raises:
        InvalidArgument: it needs Spark.
        SourceError: there is no such file.
    """
    source = plan_source(request, settings)
    if len(files_of([source])) == 1:
        (file,), most = files_of([source]), settings.spark.min_input_bytes
        if file.size_bytes > most:
            raise _needs_spark(f"a file of {file.size_bytes:,} bytes (more than {most:,})")
        values = (request.columns or {}).values()
        if not all(isinstance(value, str) for value in values):
            raise _needs_spark("an expression")
        if isinstance(source, LineFiles):
            return source
        if isinstance(source, ParquetFiles):
            if any("." in name for name in source.shapes.found[0].schema.names):
                raise _needs_spark("a column whose name has a dot")
            return source
        if (
            isinstance(source, FrameSource)
            and source.texts is not None
            and source.texts.spec.format is SourceFormat.CSV
        ):
            separator = separator_of(source.texts.spec.options)
            if separator is None:
                raise _needs_spark("an option of Spark's reader")
            return CsvFile(
                files=source.files,
                reader=InputFiles(settings.storage),
                separator=separator,
                through_spark=source,
            )
    raise _needs_spark("what is not one file of CSV, Parquet or graph lines")


@dataclass(frozen=True, kw_only=True)
class CsvFile:
    """A file of CSV whose columns are taken as they are, all of them text."""

    files: Sequence[InputFile]
    reader: InputFiles
    separator: str
    through_spark: FrameSource
    """The same on Spark."""

    @property
    def definition(self) -> str:
        """As for the frame that Spark would read."""
        return self.through_spark.definition

    @cached_property
    def text(self) -> CsvText:
        """What it holds."""
        (file,) = self.files
        return csv_text(self.reader.read(file, 0, file.size_bytes), self.separator)

    def inputs(
        self,
        catalog: Catalog,
        lane: TaskLane,  # noqa: ARG002 - as every source is asked
    ) -> Sequence[JobInput]:
        """One input; none for a file without a byte.

        Raises:
            InvalidArgument: the text needs Spark.
            SourceError: a column is missing or does not fit, or a row is broken.
        """
        source, (file,) = self.through_spark, self.files
        (target,) = source.targets
        if source.is_empty:
            with mistakes_told(source.name, target):
                find_type(catalog, target.type)
            return []
        why = self.text.why_spark()
        if why is not None:
            raise _needs_spark(why)
        mistakes = Mistakes()
        mapping, wrong = look_at_mapping(catalog, target, self.text.names)
        with mistakes.of_part(), mistakes_told(source.name, target):
            if wrong:
                raise as_one(wrong)
        if mistakes.are_none:
            with mistakes.of_part():
                self.text.require_utf8(source=source.name, path=file.uri)
        with mistakes.of_part(), mistakes_told(source.name, target):
            require_types(mapping, dict.fromkeys(mapping.values, pa.string()))
        mistakes.require_none()
        rows = self.text.table(source=source.name, path=file.uri)
        return [
            TableInput(
                name=file.uri,
                mapping=mapping,
                rows=rows,
                size_bytes=file.size_bytes,
                marks=marks_of(self.files),
            )
        ]


@dataclass(frozen=True, kw_only=True)
class TableSource:
    """Rows of this process for one type; their columns are taken as they are."""

    name: str
    target: TargetSpec
    rows: pa.Table

    @property
    def definition(self) -> str:
        """What the rows are, and what becomes of them."""
        return f"{self.name} {self.target!r}"

    def inputs(
        self,
        catalog: Catalog,
        lane: TaskLane,  # noqa: ARG002 - as every source is asked
    ) -> Sequence[JobInput]:
        """One input.

        Raises:
            SourceError: a column is missing or does not fit.
        """
        mapping = plan_mapping(catalog, self.target, self.rows.column_names)
        require_types(mapping, column_types(mapping, self.rows.schema))
        return [
            TableInput(name=self.name, mapping=mapping, rows=self.rows, size_bytes=self.rows.nbytes)
        ]


def _needs_spark(what: str) -> InvalidArgument:
    return InvalidArgument(
        f"{what} needs Spark; leave the engine out, or give 'spark'", argument="engine"
    )
