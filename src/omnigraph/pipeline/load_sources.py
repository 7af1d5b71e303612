"""Where the rows of a load come from, and how each source becomes inputs of the job.

Files are found before Spark is needed. A source is asked for its inputs with the catalog that its
rows must fit, and again when the schema changed meanwhile.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from omnigraph.errors import InternalError, SourceError
from omnigraph.pipeline.column_map import plan_mapping, require_types
from omnigraph.pipeline.frames import frame_types, project, source_errors
from omnigraph.pipeline.job_inputs import FrameInput, LineInput, ParquetInput, RowGroup, marks_of
from omnigraph.pipeline.parquet_files import open_parquet
from omnigraph.pipeline.pipeline_spec import Column
from omnigraph.pipeline.splits import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from omnigraph.lang.catalog import Catalog
    from omnigraph.pipeline.column_map import RowMapping, TargetSpec
    from omnigraph.pipeline.job_inputs import JobInput
    from omnigraph.pipeline.session import PipelineSession
    from omnigraph.storage.input_files import InputFile, InputFiles

_FOOTER_READERS: Final = 8


class LoadSource(Protocol):
    """One source of rows."""

    @property
    def definition(self) -> str:
        """What is read how, and what becomes of it; without secrets."""
        ...

    def inputs(self, catalog: Catalog, session: PipelineSession | None) -> Sequence[JobInput]:
        """What the job reads, for rows that fit this catalog.

        Raises:
            SourceError: a column is missing or does not fit, or the source cannot be read.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class LineFiles:
    """Files of the graph format, each line with its own type."""

    files: Sequence[InputFile]
    split_bytes: int

    @property
    def definition(self) -> str:
        """Lines say themselves what they become."""
        return "ndjson"

    def inputs(
        self,
        catalog: Catalog,  # noqa: ARG002 - as every source is asked
        session: PipelineSession | None,  # noqa: ARG002
    ) -> Sequence[JobInput]:
        """One input of byte ranges."""
        return [LineInput(files=self.files, splits=cut(self.files, self.split_bytes))]


@dataclass(frozen=True, kw_only=True)
class FrameSource:
    """A Spark frame, or whatever Spark reads, for one or more types.

    `open` is called once for each planning; the frame it gives is read once, also for many types.
    """

    name: str
    open: Callable[[PipelineSession], DataFrame]
    targets: Sequence[TargetSpec]
    marks: Sequence[str] | None = None
    read_as: str = "frame"
    """How the frame comes to be, without secrets."""
    secrets: Sequence[str] = field(default=(), repr=False)
    """Texts that no error may show."""
    require_same: Callable[[], None] | None = None
    """Raises if the files are not those that were found."""
    _kept: list[DataFrame] = field(default_factory=list, repr=False)

    @property
    def definition(self) -> str:
        """The reader and the targets."""
        return f"{self.read_as} {list(self.targets)!r}"

    def inputs(self, catalog: Catalog, session: PipelineSession | None) -> Sequence[JobInput]:
        """One input for each type."""
        from pyspark import StorageLevel

        if session is None:
            raise InternalError("a frame needs Spark and there is none; please report this")
        found: list[JobInput] = []
        with source_errors(self.name, self.secrets):
            frame = self.open(session)
            names = frame.columns
            if len(self.targets) > 1 and not _is_cached(frame):
                frame = frame.persist(StorageLevel.DISK_ONLY)
                self._kept.append(frame)
        for target in self.targets:
            mapping = plan_mapping(catalog, target, names)
            with source_errors(self.name, self.secrets):
                mapped = project(frame, mapping)
                types = frame_types(mapped)
            require_types(mapping, types)
            found.append(
                FrameInput(
                    name=self.name,
                    frame=mapped,
                    mapping=mapping,
                    marks=self.marks,
                    secrets=self.secrets,
                    require_same=self.require_same,
                )
            )
        return found

    def release(self) -> None:
        """Forget what Spark keeps of the frame."""
        for frame in self._kept:
            frame.unpersist()
        self._kept.clear()


@dataclass(frozen=True, kw_only=True)
class ParquetFiles:
    """Parquet files for one type; tasks read them without Spark's reader where they can."""

    reader: InputFiles
    files: Sequence[InputFile]
    target: TargetSpec
    through_spark: FrameSource
    """For values that are expressions."""

    @property
    def marks(self) -> Sequence[str]:
        """The files as they were when they were found."""
        return marks_of(self.files)

    @property
    def definition(self) -> str:
        """As for the frame that Spark would read."""
        return self.through_spark.definition

    def inputs(self, catalog: Catalog, session: PipelineSession | None) -> Sequence[JobInput]:
        """Row groups, or a frame where expressions are to be computed."""
        with ThreadPoolExecutor(_FOOTER_READERS) as pool:
            footers = list(pool.map(self._footer, self.files))
        schema, _ = footers[0]
        mapping = plan_mapping(catalog, self.target, schema.names)
        if not mapping.is_plain or any("." in name for name in schema.names):
            return self.through_spark.inputs(catalog, session)
        groups: list[RowGroup] = []
        for file, (found, count) in zip(self.files, footers, strict=True):
            try:
                _require_columns(mapping, plan_mapping(catalog, self.target, found.names), found)
            except SourceError as error:
                raise _in_file(error, file) from error
            groups += [RowGroup(file=file, number=number) for number in range(count)]
        return [ParquetInput(files=self.files, groups=groups, mapping=mapping)]

    def _footer(self, file: InputFile) -> tuple[pa.Schema, int]:
        with open_parquet(self.reader, file) as opened:
            return opened.schema_arrow, opened.num_row_groups


def _require_columns(first: RowMapping, mapping: RowMapping, schema: pa.Schema) -> None:
    """The columns of a file give the same properties as those of the first, with fitting types."""
    if mapping.values != first.values:
        names = sorted(mapping.values.keys() ^ first.values.keys())
        raise SourceError(
            f"its columns give other properties than those of the first file ({', '.join(names)});"
            " load the files apart, or say which columns to take",
            properties=names,
        )
    types: dict[str, pa.DataType] = {}
    for name, value in mapping.values.items():
        if isinstance(value, Column):
            if schema.names.count(value.name) > 1:
                raise SourceError(f"it has more than one column `{value.name}`", column=value.name)
            types[name] = schema.field(value.name).type
    require_types(mapping, types)


def _is_cached(frame: DataFrame) -> bool:
    level = frame.storageLevel
    return level.useMemory or level.useDisk


def _in_file(error: SourceError, file: InputFile) -> SourceError:
    return SourceError(f"{file.uri}: {error.message}", **{**error.details, "path": file.uri})
