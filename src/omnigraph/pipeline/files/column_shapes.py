"""The columns of Parquet and ORC files as the files tell them, and whether they are alike.

Spark takes the columns of one file for those of all: a column that another file lacks is null in
its rows, and one that only another file has is not read. So files are compared before any row is.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraph.errors import SourceError
from omnigraph.pipeline.files.parquet import open_parquet
from omnigraph.pipeline.files.ranged_reader import FileRanges
from omnigraph.pipeline.spec.pipeline_spec import SourceFormat

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from omnigraph.storage.input_files import InputFile, InputFiles

_READERS: Final = 8
_REMEDY: Final = (
    "load the files apart, or give the option mergeSchema=true of Spark's reader, which takes null"
    " for what a file lacks"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileShape:
    """What a file tells of itself."""

    file: InputFile
    schema: pa.Schema
    rows: int
    row_groups: int = 0
    """Of a Parquet file."""


@dataclass(frozen=True, kw_only=True)
class FileShapes:
    """The files of a source; each is asked once."""

    reader: InputFiles
    files: Sequence[InputFile]
    format: SourceFormat

    @cached_property
    def found(self) -> list[FileShape]:
        """The shape of each file, in their order.

        Raises:
            SourceError: a file is not of the format, or cannot be read.
            InputChanged: it is not the file that was found.
        """
        ask = self._parquet if self.format is SourceFormat.PARQUET else self._orc
        with ThreadPoolExecutor(_READERS) as pool:
            return list(pool.map(ask, self.files))

    def require_alike(self, names: Collection[str] | None = None) -> None:
        """Make sure that all files have the same columns, of these names or at all.

        Raises:
            SourceError: with two files that differ, and the column.
        """
        first = self.found[0]
        for other in self.found[1:]:
            for name in _names(first.schema, other.schema):
                if names is None or name in names:
                    _require_same_column(first, other, name)

    def _parquet(self, file: InputFile) -> FileShape:
        with open_parquet(self.reader, file) as opened:
            return FileShape(
                file=file,
                schema=opened.schema_arrow,
                rows=opened.metadata.num_rows,
                row_groups=opened.num_row_groups,
            )

    def _orc(self, file: InputFile) -> FileShape:
        from pyarrow import orc

        try:
            opened = orc.ORCFile(pa.PythonFile(FileRanges(self.reader, file), mode="r"))
            return FileShape(file=file, schema=opened.schema, rows=opened.nrows)
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"cannot read {file.uri} as ORC: {error}", path=file.uri) from error


def _names(first: pa.Schema, other: pa.Schema) -> list[str]:
    return [*first.names, *(name for name in other.names if name not in first.names)]


def _require_same_column(first: FileShape, other: FileShape, name: str) -> None:
    has, lacks = (first, other) if name in first.schema.names else (other, first)
    if name not in lacks.schema.names:
        raise SourceError(
            f"{lacks.file.uri} has no column `{name}`, and {has.file.uri} has one; {_REMEDY}",
            path=lacks.file.uri,
            other=has.file.uri,
            column=name,
        )
    # A name that a file has twice is for Spark to refuse.
    one, two = (
        each.schema.field(each.schema.get_field_index(name)).type
        if each.schema.names.count(name) == 1
        else None
        for each in (first, other)
    )
    if one is not None and two is not None and _as_read(one) != _as_read(two):
        raise SourceError(
            f"the column `{name}` is {two} in {other.file.uri} and {one} in {first.file.uri};"
            " load the files apart, with the cast that each of them needs",
            path=other.file.uri,
            other=first.file.uri,
            column=name,
        )


def _as_read(kind: Any) -> str:  # noqa: ANN401 - an Arrow type with its members
    """A type as Spark's readers see it, who know nothing of layouts in memory."""
    known = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _as_read(kind.storage_type)
    if known.is_dictionary(kind):
        return _as_read(kind.value_type)
    if known.is_string(kind) or known.is_large_string(kind) or known.is_string_view(kind):
        return "string"
    if known.is_date(kind):
        return "date"
    if known.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamp of a zone"
    if known.is_list(kind) or known.is_large_list(kind) or known.is_fixed_size_list(kind):
        return f"list of {_as_read(kind.value_type)}"
    if known.is_struct(kind):
        return f"struct of {[(each.name, _as_read(each.type)) for each in kind]}"
    if (
        known.is_binary(kind)
        or known.is_large_binary(kind)
        or known.is_fixed_size_binary(kind)
        or known.is_binary_view(kind)
    ):
        return "binary"
    return str(kind)
