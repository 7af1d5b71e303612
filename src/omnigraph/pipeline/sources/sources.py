"""Where the rows of a load come from, and how each source becomes inputs of the job.

Files are found before Spark is needed. A source is asked for its inputs with the catalog that its
rows must fit, and again when the schema changed meanwhile.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from omnigraph.errors import SourceError
from omnigraph.graph.type_names import find_type
from omnigraph.pipeline.files.row_origin import ORIGIN, with_origin
from omnigraph.pipeline.files.source_errors import changes_told, described, source_errors
from omnigraph.pipeline.files.splits import cut
from omnigraph.pipeline.intake.inputs import FrameInput, LineInput, ParquetInput, RowGroup, marks_of
from omnigraph.pipeline.sources.frames import frame_types, project
from omnigraph.pipeline.sources.guarded_values import project_guarded, with_lost_flags
from omnigraph.pipeline.spark.errors import is_session_lost
from omnigraph.pipeline.spark.lanes import require_spark
from omnigraph.pipeline.spec.column_map import (
    column_types,
    look_at_mapping,
    mistakes_told,
    plan_mapping,
    require_types,
)
from omnigraph.pipeline.spec.mistakes import Mistakes, as_one
from omnigraph.pipeline.spec.pipeline_spec import ALL_COLUMNS, WHERE, Column, Expression, KeyParts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from omnigraph.lang.catalog import Catalog
    from omnigraph.pipeline.files.column_shapes import FileShapes
    from omnigraph.pipeline.files.csv_header import CsvHeader
    from omnigraph.pipeline.intake.inputs import JobInput
    from omnigraph.pipeline.sources.text_checks import TextCheck
    from omnigraph.pipeline.spark.lanes import TaskLane
    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.pipeline.spec.column_map import RowMapping, TargetSpec
    from omnigraph.storage.input_files import InputFile

_MOVES_ROWS: Final = re.compile(r"\b(?:over|select)\b", re.IGNORECASE)


class LoadSource(Protocol):
    """One source of rows."""

    @property
    def definition(self) -> str:
        """What is read how, and what becomes of it; without secrets."""
        ...

    def inputs(self, catalog: Catalog, lane: TaskLane) -> Sequence[JobInput]:
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
        lane: TaskLane,  # noqa: ARG002
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
    files: Sequence[InputFile] = ()
    """What Spark reads, where it is known."""
    shapes: FileShapes | None = None
    """Of files that must be alike."""
    has_columns_of_files: bool = False
    """Its columns are those that the schemas of its files tell."""
    header: CsvHeader | None = None
    """Of files of CSV."""
    texts: TextCheck | None = None
    """Of files whose text must not be changed."""
    is_empty: bool = False
    """There is no row, and nothing that tells of columns."""
    _kept: list[DataFrame] = field(default_factory=list, repr=False)
    _looked_at: list[DataFrame] = field(default_factory=list, repr=False)
    """The frame, from when it was looked at until it is read."""

    @property
    def known_columns(self) -> pa.Schema | None:
        """Its columns as far as its files tell them without Spark; `None` if they do not."""
        if self.header is not None:
            return self.header.schema
        return self.shapes.found[0].schema if self.shapes and self.has_columns_of_files else None

    @property
    def definition(self) -> str:
        """The reader and the targets."""
        return f"{self.read_as} {list(self.targets)!r}"

    def look(self, session: PipelineSession) -> tuple[DataFrame, list[str]]:
        """The frame, which is the one that is read then, and the names of its columns."""
        with source_errors(self.name, self.secrets):
            if not self._looked_at:
                self._looked_at.append(self.open(session))
            return self._looked_at[0], self._looked_at[0].columns

    def require_fitting(self, catalog: Catalog, session: PipelineSession) -> None:
        """Refuse what shows in the columns of the frame, before any row is read.

        Raises:
            SourceError: a column is missing or does not fit, or Spark refuses an expression.
        """
        mistakes = Mistakes()
        with changes_told(self.require_same):
            frame, names = self.look(session)
            for target, mapping in self._mappings(catalog, names, mistakes):
                with mistakes.of_part(), mistakes_told(self.name, target):
                    self._projected(frame, mapping)
            mistakes.require_none()

    def inputs(self, catalog: Catalog, lane: TaskLane) -> Sequence[JobInput]:
        """One input for each type."""
        session = require_spark(lane).session
        if self.is_empty:
            for target in self.targets:
                with mistakes_told(self.name, target):
                    find_type(catalog, target.type)
            return []
        with changes_told(self.require_same):
            return self._inputs(catalog, session)

    def _inputs(self, catalog: Catalog, session: PipelineSession) -> list[JobInput]:
        frame, names = self._opened(session)
        mistakes = Mistakes()
        mappings = self._mappings(catalog, names, mistakes)
        if mistakes.are_none:
            with mistakes.of_part():
                self._require_files_fit(session, frame, mappings)
        inputs: list[JobInput] = []
        for target, mapping in mappings:
            with mistakes.of_part(), mistakes_told(self.name, target):
                inputs.append(self._input(frame, mapping))
        mistakes.require_none()
        return inputs

    def _mappings(
        self, catalog: Catalog, names: Sequence[str], mistakes: Mistakes
    ) -> list[tuple[TargetSpec, RowMapping]]:
        """What each target takes of columns of these names."""
        mappings: list[tuple[TargetSpec, RowMapping]] = []
        for target in self.targets:
            with mistakes.of_part(), mistakes_told(self.name, target):
                mapping, wrong = look_at_mapping(catalog, target, names)
                mappings.append((target, mapping))
                if wrong:
                    raise as_one(wrong)
        return mappings

    def _require_files_fit(
        self,
        session: PipelineSession,
        frame: DataFrame,
        mappings: Sequence[tuple[TargetSpec, RowMapping]],
    ) -> None:
        """Refuse files that differ, or whose text Spark would change."""
        if self.shapes is not None:
            self.shapes.require_alike(_used_columns(mappings))
        if self.texts is not None:
            self.texts.require_kept(session, frame, _plain_columns([each for _, each in mappings]))

    def _input(self, frame: DataFrame, mapping: RowMapping) -> JobInput:
        mapped = self._projected(frame, mapping)
        left_out = ORIGIN if _moves_rows(mapping) else ()
        return FrameInput(
            name=self.name,
            frame=mapped.drop(*left_out),
            guarded=partial(_guarded, frame, mapping, mapped, left_out),
            mapping=mapping,
            marks=self.marks,
            secrets=self.secrets,
            require_same=self.require_same,
            files=self.files,
        )

    def _projected(self, frame: DataFrame, mapping: RowMapping) -> DataFrame:
        """The values of a mapping, of the types that they must have."""
        try:
            with source_errors(self.name, self.secrets):
                mapped = project(frame, mapping)
                types = frame_types(mapped)
                columns = [name for name in frame.columns if name not in ORIGIN]
                mapped = mapped if mapping.is_plain else with_lost_flags(frame, mapping, columns)
        except SourceError:
            self._require_parts(frame, mapping)
            raise
        require_types(mapping, types)
        return mapped

    def _require_parts(self, frame: DataFrame, mapping: RowMapping) -> None:
        """Refuse the parts of a mapping that Spark refuses by themselves, by their names."""
        mapping = replace(mapping, distinct=False, dedupe=None)
        alone = [
            (name, replace(mapping, where=None, values={name: mapping.values[name]}))
            for name in mapping.values
        ]
        parts = [(WHERE, replace(mapping, values={}))] if mapping.where is not None else []
        mistakes = Mistakes()
        for name, part in [*parts, *alone]:
            with mistakes.of_part():
                require_types(part, self._part_types(frame, name, part))
        mistakes.require_none()

    def _part_types(self, frame: DataFrame, name: str, part: RowMapping) -> dict[str, pa.DataType]:
        try:
            with source_errors(self.name, self.secrets):
                return frame_types(project(frame, part))
        except SourceError as error:
            raise SourceError(
                f"{described(part, name, self.secrets)}: {error.message}",
                **error.details,
                property=name,
                type=part.item.name,
            ) from None

    def _opened(self, session: PipelineSession) -> tuple[DataFrame, list[str]]:
        """The frame, and the names of its columns."""
        from pyspark import StorageLevel

        frame, names = self.look(session)
        self._looked_at.clear()
        with source_errors(self.name, self.secrets):
            if self.files and not self._takes_all_columns:
                frame = with_origin(frame)
            if len(self.targets) > 1 and not _is_cached(frame):
                frame = frame.persist(StorageLevel.DISK_ONLY)
                self._kept.append(frame)
        return frame, names

    @property
    def _takes_all_columns(self) -> bool:
        """Whether an expression would take in columns that the source does not have."""
        return any(ALL_COLUMNS.search(text) for each in self.targets for text in _sql_of(each))

    def release(self) -> None:
        """Forget what Spark keeps of the frame."""
        try:
            for frame in self._kept:
                frame.unpersist()
        except Exception as error:
            # A session that is lost keeps nothing; what lost it is told already.
            if not is_session_lost(error):
                raise
        self._kept.clear()


@dataclass(frozen=True, kw_only=True)
class ParquetFiles:
    """Parquet files for one type; tasks read them without Spark's reader where they can."""

    shapes: FileShapes
    target: TargetSpec
    through_spark: FrameSource
    """For values that are expressions."""

    @property
    def files(self) -> Sequence[InputFile]:
        """The files."""
        return self.shapes.files

    @property
    def has_expressions(self) -> bool:
        """Whether Spark is to read them."""
        return bool(_sql_of(self.target))

    @property
    def marks(self) -> Sequence[str]:
        """The files as they were when they were found."""
        return marks_of(self.files)

    @property
    def definition(self) -> str:
        """As for the frame that Spark would read."""
        return self.through_spark.definition

    def inputs(self, catalog: Catalog, lane: TaskLane) -> Sequence[JobInput]:
        """Row groups, or a frame where expressions are to be computed."""
        shapes = self.shapes.found
        first = shapes[0]
        with mistakes_told(self.through_spark.name, self.target):
            mapping = plan_mapping(catalog, self.target, first.schema.names)
        if not mapping.is_plain or any("." in name for name in first.schema.names):
            return self.through_spark.inputs(catalog, lane)
        groups: list[RowGroup] = []
        for shape in shapes:
            with mistakes_told(self.through_spark.name, self.target), _told_of(shape.file):
                other = plan_mapping(catalog, self.target, shape.schema.names)
                _require_columns(mapping, first.file, other, shape.schema)
            groups += [
                RowGroup(file=shape.file, number=number) for number in range(shape.row_groups)
            ]
        rows = sum(each.rows for each in shapes)
        return [ParquetInput(files=self.files, groups=groups, mapping=mapping, rows=rows)]


def _guarded(
    frame: DataFrame, mapping: RowMapping, mapped: DataFrame, left_out: Sequence[str]
) -> DataFrame:
    """The values with flags where they fail, as far as Spark can put them into other ones."""
    from pyspark.errors import PySparkException

    if mapping.is_plain:
        return mapped.drop(*left_out)
    try:
        guarded = project_guarded(frame, mapping).drop(*left_out)
        frame_types(guarded)
    except PySparkException:
        return mapped.drop(*left_out)  # A function that makes rows, above all.
    return guarded


def files_of(sources: Sequence[LoadSource]) -> list[InputFile]:
    """The files of all sources that are known to be files."""
    known = (LineFiles, FrameSource, ParquetFiles)
    return [file for each in sources if isinstance(each, known) for file in each.files]


def _used_columns(
    mappings: Sequence[tuple[TargetSpec, RowMapping]],
) -> frozenset[str] | None:
    """The columns that rows are made of; `None` if it may be any of them."""
    used: set[str] = set()
    for target, mapping in mappings:
        if not mapping.is_plain or (target.columns is None and not target.takes_same_names):
            return None
        used |= _plain_columns([mapping])
        if target.takes_same_names:
            used |= set(mapping.item.arrow_schema.names)
    return frozenset(used)


def _plain_columns(mappings: Sequence[RowMapping]) -> frozenset[str]:
    """The columns that are taken as they are."""
    return frozenset(
        each.name
        for mapping in mappings
        for each in mapping.values.values()
        if isinstance(each, Column)
    )


def _moves_rows(mapping: RowMapping) -> bool:
    """Whether rows may come in another order than that of their files."""
    if mapping.leaves_out_equals:
        return True
    texts = [each.sql for each in mapping.values.values() if isinstance(each, Expression)]
    return any(_MOVES_ROWS.search(text) for text in [*texts, mapping.where or ""])


def _sql_of(target: TargetSpec) -> list[str]:
    """Every expression of a target."""
    values = [*(target.columns or {}).values(), target.id]
    for end in target.ends.values():
        values += end.parts.values() if isinstance(end, KeyParts) else [end]
    texts = [each.sql for each in values if isinstance(each, Expression)]
    return texts if target.where is None else [*texts, target.where]


def _require_columns(
    first: RowMapping, file: InputFile, mapping: RowMapping, schema: pa.Schema
) -> None:
    """The columns of a file give the same properties as those of the first, with fitting types."""
    if mapping.values != first.values:
        names = sorted(mapping.values.keys() ^ first.values.keys())
        raise SourceError(
            f"its columns give other properties than those of {file.uri} ({', '.join(names)}); load"
            " the files apart, or say which columns to take",
            properties=names,
            other=file.uri,
        )
    repeated = [
        value.name
        for value in mapping.values.values()
        if isinstance(value, Column) and schema.names.count(value.name) > 1
    ]
    if repeated:
        raise SourceError(f"it has more than one column `{repeated[0]}`", column=repeated[0])
    require_types(mapping, column_types(mapping, schema))


def _is_cached(frame: DataFrame) -> bool:
    level = frame.storageLevel
    return level.useMemory or level.useDisk


@contextmanager
def _told_of(file: InputFile) -> Iterator[None]:
    """Errors of a file, with its address."""
    try:
        yield
    except SourceError as error:
        known = {**error.details, "path": file.uri}
        raise SourceError(f"{file.uri}: {error.message}", **known) from error
