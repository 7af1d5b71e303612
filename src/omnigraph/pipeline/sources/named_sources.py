"""Sources that the query of another source names, opened as its tables.

A query reads all rows of a source that it names, also of one that has a cursor: what it counts or
compares would otherwise depend on what the run before had read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.pipeline.sources.frames import read_frame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from omnigraph.pipeline.files.column_shapes import FileShapes
    from omnigraph.pipeline.sources.text_checks import TextCheck
    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.pipeline.spec.pipeline_spec import SourceSpec
    from omnigraph.storage.input_files import InputFile


@dataclass(frozen=True, kw_only=True)
class NamedSource:
    """A source as a query sees it, with its files found."""

    spec: SourceSpec
    files: Sequence[InputFile] = ()
    marks: Sequence[str] | None = None
    """What tells its rows from those of another run; `None` when nothing does."""
    shapes: FileShapes | None = None
    texts: TextCheck | None = None
    named: Mapping[str, NamedSource]

    def opened(self, session: PipelineSession) -> DataFrame:
        """Its rows, lazily.

        Raises:
            SourceError: its files differ, or Spark would change what they say.
        """
        frame = read_frame(session, self.spec, self.files, opened_all(session, self.named))
        if self.shapes is not None:
            self.shapes.require_alike()
        if self.texts is not None:
            self.texts.require_kept(session, frame, ())
        return frame


def opened_all(session: PipelineSession, named: Mapping[str, NamedSource]) -> dict[str, DataFrame]:
    """The rows of all that a query names, lazily."""
    return {name: each.opened(session) for name, each in named.items()}


def files_below(named: Mapping[str, NamedSource]) -> list[InputFile]:
    """Their files, and those of what they name."""
    return [file for each in named.values() for file in [*each.files, *files_below(each.named)]]


def specs_below(named: Mapping[str, NamedSource]) -> list[SourceSpec]:
    """Their specifications, and those of what they name."""
    return [spec for each in named.values() for spec in [each.spec, *specs_below(each.named)]]
