"""A source with a cursor, found before anybody knows what of it is new.

What is wrong with its columns shows before a row is read: the whole of it is a source of its own,
whose frame is looked at and from which the range of a run is cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.pipeline.sources.cursors import near, require_column, rows_within
from omnigraph.pipeline.sources.frames import read_frame
from omnigraph.pipeline.sources.named_sources import files_below, opened_all, specs_below
from omnigraph.pipeline.sources.precheck import precheck
from omnigraph.pipeline.sources.request import (
    find_files,
    find_named,
    frame_source,
    same_files,
    secrets_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from omnigraph.lang.catalog import Catalog
    from omnigraph.pipeline.sources.cursors import CursorRange
    from omnigraph.pipeline.sources.named_sources import NamedSource
    from omnigraph.pipeline.sources.sources import FrameSource
    from omnigraph.pipeline.sources.time_zones import Near
    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.pipeline.spec.column_map import TargetSpec
    from omnigraph.pipeline.spec.pipeline_spec import Cursor, PipelineSpec, SourceSpec
    from omnigraph.settings import Settings
    from omnigraph.storage.input_files import InputFile


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedSource:
    """A source and its cursor."""

    spec: SourceSpec
    cursor: Cursor
    opened: OpenedRows
    whole: FrameSource
    """All its rows."""
    settings: Settings

    @property
    def secrets(self) -> list[str]:
        """What no error shows."""
        read = [self.spec, *specs_below(self.opened.named)]
        return [value for each in read for value in secrets_of(each)]

    @property
    def require_same(self) -> Callable[[], None] | None:
        """Raises if the files are not those that were found."""
        return same_files([*self.opened.files, *files_below(self.opened.named)], self.settings)

    def precheck(self, catalog: Catalog) -> None:
        """Refuse what does not exist or fit, where the files tell.

        Raises:
            InvalidArgument, SourceError: with all mistakes of the source.
        """
        precheck(catalog, self.whole)
        told = self.whole.known_columns
        if told is not None:
            require_column(self.cursor, told.names, self.spec.name)

    def within(self, span: CursorRange, marks: Sequence[str]) -> FrameSource:
        """The rows of a range, known by these marks."""
        return frame_source(
            self.spec,
            self.whole.targets,
            self.settings,
            self.opened.files,
            opened_by=_Within(self.opened, self.cursor, span),
            marks=marks,
            is_empty=not span.has_types,
            named=self.opened.named,
        )


@dataclass(frozen=True, slots=True)
class OpenedRows:
    """Opens all rows of a source."""

    spec: SourceSpec
    files: tuple[InputFile, ...]
    named: Mapping[str, NamedSource]

    def __call__(self, session: PipelineSession, near: Near | None = None) -> DataFrame:
        """The frame; rows that are not near may be left out."""
        named = opened_all(session, self.named)
        return read_frame(session, self.spec, self.files, named, near)


@dataclass(frozen=True, slots=True)
class _Within:
    """Opens the rows of a range."""

    source: OpenedRows
    cursor: Cursor
    span: CursorRange

    def __call__(self, session: PipelineSession) -> DataFrame:
        around = near(self.cursor, self.span.after, self.span.until)
        return rows_within(self.source(session, around), self.cursor, self.span)


def follow(
    spec: SourceSpec,
    cursor: Cursor,
    pipeline: PipelineSpec,
    targets: Sequence[TargetSpec],
    settings: Settings,
) -> FollowedSource:
    """The source with its files found; Spark is not needed yet.

    Raises:
        SourceError: there is no such file.
    """
    files = find_files(spec, settings)
    named = find_named(spec, pipeline, settings)
    opened = OpenedRows(spec, tuple(files), named)
    whole = frame_source(spec, targets, settings, files, opened_by=opened, marks=None, named=named)
    return FollowedSource(spec=spec, cursor=cursor, opened=opened, whole=whole, settings=settings)
