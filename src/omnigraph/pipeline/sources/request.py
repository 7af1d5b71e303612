"""The source of a load as a caller names it: files, a table or a frame, and what becomes of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from omnigraph.errors import InvalidArgument, SourceError
from omnigraph.lang.suggest import did_you_mean
from omnigraph.pipeline.files.column_shapes import FileShapes
from omnigraph.pipeline.files.csv_header import CsvHeader
from omnigraph.pipeline.files.formats import guess_format, reader_options
from omnigraph.pipeline.intake.inputs import marks_of
from omnigraph.pipeline.sources.frames import has_only_empty_files, read_frame
from omnigraph.pipeline.sources.named_sources import (
    NamedSource,
    files_below,
    opened_all,
    specs_below,
)
from omnigraph.pipeline.sources.sources import FrameSource, LineFiles, ParquetFiles
from omnigraph.pipeline.sources.text_checks import TextCheck
from omnigraph.pipeline.spec.column_map import TargetSpec
from omnigraph.pipeline.spec.pipeline_spec import Column, Expression, SourceFormat, SourceSpec
from omnigraph.pipeline.spec.secrets import holds_url_secret, is_secret_option, url_secrets
from omnigraph.pipeline.spec.sql_tables import reads_only
from omnigraph.storage.input_files import InputFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from omnigraph.pipeline.sources.sources import LoadSource
    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.pipeline.spec.pipeline_spec import PipelineSpec, Value
    from omnigraph.settings import Settings
    from omnigraph.storage.input_files import InputFile

_FILES: Final = (SourceFormat.JSON, SourceFormat.CSV, SourceFormat.PARQUET, SourceFormat.ORC)
_TEXTS: Final = (SourceFormat.JSON, SourceFormat.CSV)
_COLUMNAR: Final = (SourceFormat.PARQUET, SourceFormat.ORC)
_OF_LOADS: Final = (SourceFormat.NDJSON, *_FILES, SourceFormat.TABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRequest:
    """What a caller says about the source of a load."""

    source: str | Path | DataFrame
    format: str | None = None
    type: str | None = None
    """A node type."""
    edge: str | None = None
    """An edge type."""
    columns: Mapping[str, str | Mapping[str, str]] | None = None
    """A column, or `{"expr": "…"}`, by property."""
    takes_same_names: bool = False
    """Properties that `columns` leaves out take the column of their name."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of Spark's reader."""
    keeps_values: bool = False
    """What rows do not give stays as it is."""


def plan_source(request: SourceRequest, settings: Settings) -> LoadSource:
    """The source, with its files found; Spark is not needed yet.

    Raises:
        InvalidArgument: the request contradicts itself.
        SourceError: there is no such format, or no such file.
    """
    if not isinstance(request.source, str | Path):
        return _frame_source(request)
    where = str(request.source)
    form = _format(where, request.format)
    if form is SourceFormat.NDJSON:
        _require_bare(request)
        files = InputFiles(settings.storage).find(where)
        return LineFiles(files=files, split_bytes=settings.pipeline.split_bytes)
    spec = SourceSpec(
        name=where,
        format=form,
        path=_absolute(where) if form in _FILES else None,
        table=where if form is SourceFormat.TABLE else None,
        options=reader_options(where, form, request.options),
    )
    return source_of(spec, [_target(request)], settings)


def source_of(
    spec: SourceSpec,
    targets: Sequence[TargetSpec],
    settings: Settings,
    named: Mapping[str, NamedSource] | None = None,
) -> FrameSource | ParquetFiles:
    """A tabular source of any format, for one or more types.

    `named`: the sources that its query names.

    Raises:
        SourceError: there is no such file.
    """
    files = find_files(spec, settings)
    frame = frame_source(
        spec,
        targets,
        settings,
        files,
        opened_by=_Reader(spec, tuple(files), named or {}),
        marks=marks_of_rows(spec, files, named or {}),
        named=named,
    )
    # Only Spark's reader makes instants of the times of a zone.
    has_own_ways = bool(spec.options) or spec.timezone is not None
    is_plain = frame.shapes is not None and len(targets) == 1 and not has_own_ways
    if frame.shapes is None or not is_plain or spec.format is not SourceFormat.PARQUET:
        return frame
    return ParquetFiles(shapes=frame.shapes, target=targets[0], through_spark=frame)


def frame_source(
    spec: SourceSpec,
    targets: Sequence[TargetSpec],
    settings: Settings,
    files: Sequence[InputFile],
    *,
    opened_by: Callable[[PipelineSession], DataFrame],
    marks: Sequence[str] | None,
    is_empty: bool = False,
    named: Mapping[str, NamedSource] | None = None,
) -> FrameSource:
    """A source that Spark reads; of files it is asked after reading whether they are the same."""
    read = [spec, *specs_below(named or {})]
    return FrameSource(
        name=spec.name,
        open=opened_by,
        targets=targets,
        marks=marks,
        read_as=" of ".join(describe_reader(each) for each in read),
        secrets=[
            *(value for each in read for value in secrets_of(each)),
            *(value for each in targets for value in each.filled),
        ],
        require_same=same_files([*files, *files_below(named or {})], settings),
        files=files,
        shapes=_shapes(spec, files, settings),
        has_columns_of_files=spec.format is SourceFormat.PARQUET
        and spec.schema is None
        and not spec.options,
        header=_header(spec, files, settings),
        texts=_texts(spec, files),
        is_empty=is_empty or has_only_empty_files(spec, files),
    )


def find_named(
    spec: SourceSpec, pipeline: PipelineSpec, settings: Settings
) -> dict[str, NamedSource]:
    """The sources of a pipeline that the query of one of them names, with their files.

    Raises:
        SourceError: there is no such file.
    """
    found: dict[str, NamedSource] = {}
    for name, other in pipeline.read_by(spec.name).items():
        files, named = find_files(other, settings), find_named(other, pipeline, settings)
        found[name] = NamedSource(
            spec=other,
            files=files,
            marks=marks_of_rows(other, files, named),
            shapes=_shapes(other, files, settings),
            texts=_texts(other, files),
            named=named,
        )
    return found


def marks_of_rows(
    spec: SourceSpec, files: Sequence[InputFile], named: Mapping[str, NamedSource]
) -> list[str] | None:
    """What tells the rows of a source from those of another run; `None` when nothing does.

    A query has the marks of what it names, if it reads nothing else.
    """
    if spec.query is None:
        return marks_of(files) if files else None
    marks = [each.marks for each in named.values()]
    if not marks or None in marks or not reads_only(spec.query, named):
        return None
    return [text for each in marks for text in each or ()]


def _shapes(spec: SourceSpec, files: Sequence[InputFile], settings: Settings) -> FileShapes | None:
    """For files that must be alike."""
    if not files or spec.format not in _COLUMNAR or _merges_schemas(spec):
        return None
    return FileShapes(reader=InputFiles(settings.storage), files=files, format=spec.format)


def _header(spec: SourceSpec, files: Sequence[InputFile], settings: Settings) -> CsvHeader | None:
    """For files that tell the names of their columns in their first line."""
    if not files or spec.format is not SourceFormat.CSV:
        return None
    return CsvHeader(
        reader=InputFiles(settings.storage),
        files=files,
        options=spec.options,
        declared=spec.schema,
    )


def _texts(spec: SourceSpec, files: Sequence[InputFile]) -> TextCheck | None:
    """For files whose text must not be changed."""
    return TextCheck(spec=spec, files=files) if files and spec.format in _TEXTS else None


def find_files(spec: SourceSpec, settings: Settings) -> list[InputFile]:
    """The files of a source; none for a source of another kind, or with an address of Spark's own.

    Raises:
        SourceError: there is no such file.
    """
    path = spec.path or ""
    is_ours = "://" not in path or path.lower().startswith(("file://", "s3://", "s3a://"))
    if not path or spec.format not in _FILES or not is_ours:
        return []
    return InputFiles(settings.storage).find(path)


def same_files(files: Sequence[InputFile], settings: Settings) -> Callable[[], None] | None:
    """What raises `InputChanged` if the files are not those that were found; of files only."""
    return partial(InputFiles(settings.storage).require_same, files) if files else None


def describe_reader(spec: SourceSpec) -> str:
    """How a source is read, for telling it from another; without its secrets."""
    hidden = set(_secret_options(spec))
    options = {name: value for name, value in spec.options.items() if value not in hidden}
    known = [spec.format.value, spec.table, spec.query, options, spec.schema]
    return json.dumps(known, sort_keys=True, default=dict)


def secrets_of(spec: SourceSpec) -> list[str]:
    """Values of a source that no error may show, and the secret parts of its addresses."""
    return [*_secret_options(spec), *spec.filled]


def _secret_options(spec: SourceSpec) -> list[str]:
    values = [
        value
        for name, value in spec.options.items()
        if is_secret_option(name) or holds_url_secret(value) or name.lower() in ("url", "user")
    ]
    return [*values, *(part for value in spec.options.values() for part in url_secrets(value))]


def _merges_schemas(spec: SourceSpec) -> bool:
    return any(
        name.lower() == "mergeschema" and value.strip().lower() == "true"
        for name, value in spec.options.items()
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Opens the frame of a source."""

    spec: SourceSpec
    files: tuple[InputFile, ...]
    named: Mapping[str, NamedSource]

    def __call__(self, session: PipelineSession) -> DataFrame:
        return read_frame(session, self.spec, self.files, opened_all(session, self.named))


@dataclass(frozen=True, slots=True)
class _Given:
    """A frame that exists already."""

    frame: DataFrame

    def __call__(
        self,
        session: PipelineSession,  # noqa: ARG002 - it has its own
    ) -> DataFrame:
        return self.frame


def _frame_source(request: SourceRequest) -> FrameSource:
    if request.format is not None or request.options:
        raise InvalidArgument(
            "a frame has no format and no options of a reader; leave them out", argument="format"
        )
    frame = request.source
    if isinstance(frame, str | Path) or not hasattr(frame, "mapInArrow"):
        raise InvalidArgument(
            "the source is a path, a pattern of paths or a Spark frame, not"
            f" {type(request.source).__module__}.{type(request.source).__name__}; give rows of this"
            " process to graph.load({type: rows}), or make a frame with spark.createDataFrame",
            argument="source",
        )
    return FrameSource(name="frame", open=_Given(frame), targets=[_target(request)])


def _format(where: str, given: str | None) -> SourceFormat:
    if given is None:
        return guess_format(where)
    known = [each.value for each in _OF_LOADS]
    if given in (SourceFormat.JDBC, SourceFormat.SQL):
        raise SourceError(
            f"the format {given!r} is one of a pipeline file: write a pipeline.yaml with this"
            " source and run it",
            format=given,
        )
    if given not in known:
        hint = did_you_mean(given, known, otherwise="the formats are")
        raise SourceError(f"there is no format {given!r}{hint}", format=given)
    return SourceFormat(given)


def _absolute(where: str) -> str:
    """Java may have been started in another folder."""
    return where if "://" in where else str(Path(where).absolute())


def _require_bare(request: SourceRequest) -> None:
    for name in ("type", "edge", "columns"):
        if getattr(request, name):
            raise InvalidArgument(
                f"the lines of a graph file name their own types, so `{name}` says nothing; for"
                " plain JSON lines give format='json'",
                argument=name,
            )
    if request.options:
        raise InvalidArgument("graph files have no options of a reader", argument="options")


def _target(request: SourceRequest) -> TargetSpec:
    if (request.type is None) is (request.edge is None):
        raise InvalidArgument(
            "the rows of a tabular source become nodes or edges of one type: give `type` or `edge`",
            argument="type",
        )
    columns = None if request.columns is None else _values(request.columns)
    return TargetSpec(
        type=f"edge:{request.edge}" if request.type is None else f"node:{request.type}",
        columns=columns,
        takes_same_names=request.takes_same_names,
        keeps_values=request.keeps_values,
    )


def _values(columns: Mapping[str, str | Mapping[str, str]]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for name, value in columns.items():
        if isinstance(value, str):
            values[name] = Column(name=value)
        elif isinstance(value, dict) and set(value) == {"expr"} and isinstance(value["expr"], str):
            values[name] = Expression(sql=value["expr"])
        else:
            raise InvalidArgument(
                f"`{name}` is a column of the source, or {{'expr': '…'}}, not {value!r}",
                argument="columns",
            )
    return values
