"""The columns of CSV files as their header, or a declared schema, tells them before Spark reads.

Only what Spark's reader would say of them is told. Where an option, a quote or an encoding could
make it something else, nothing is. Of several files the first with text is asked: Spark refuses
files whose headers differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from omnigraph.pipeline.files.csv_text import csv_text, separator_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.storage.input_files import InputFile, InputFiles

_FIRST_BYTES: Final = 1 << 16
_OF_VALUES: Final = frozenset({
    "sep", "header", "inferschema", "nullvalue", "emptyvalue", "nanvalue", "escape", "multiline",
    "dateformat", "timestampformat", "timestampntzformat", "locale",
})  # fmt: skip
"""Options that change nothing of a header in which nothing is quoted."""
_TYPES: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "double": pa.float64(),
    "date": pa.date32(),
}


@dataclass(frozen=True, kw_only=True)
class CsvHeader:
    """What the files of one source tell; they are asked once."""

    reader: InputFiles
    files: Sequence[InputFile]
    options: Mapping[str, str]
    """Of Spark's reader."""
    declared: Mapping[str, str] | None = None
    """Columns with their types in Spark SQL."""

    @cached_property
    def schema(self) -> pa.Schema | None:
        """The columns, a type that is not known as that of nulls; `None` where only Spark knows.

        Raises:
            InputChanged: a file is not the one that was found.
            SourceError: it cannot be read.
        """
        if self.declared is not None:
            return pa.schema(
                {
                    name: _TYPES.get(kind.strip().lower(), pa.null())
                    for name, kind in self.declared.items()
                }
            )
        names = self._names()
        kind = pa.null() if self._option("inferschema") == "true" else pa.string()
        return None if names is None else pa.schema([(name, kind) for name in names])

    def _names(self) -> list[str] | None:
        given = {name.lower() for name in self.options}
        separator = separator_of({"sep": self._option("sep", ",")})
        if separator is None or not given <= _OF_VALUES or self._option("header", "true") != "true":
            return None
        file = next((each for each in self.files if each.size_bytes), None)
        if file is None:
            return None
        first = self.reader.read(file, 0, _FIRST_BYTES)
        text = csv_text(first, separator)
        has_whole_header = bool(text.rows) or file.size_bytes <= len(first)
        header = text.header
        if header is None or not has_whole_header or b'"' in header or not _is_utf8(header):
            return None
        alone = csv_text(header, separator)
        return alone.names if alone.why_spark() is None else None

    def _option(self, name: str, default: str = "") -> str:
        values = {key.lower(): value for key, value in self.options.items()}
        value = values.get(name, default)
        return value if name == "sep" else value.strip().lower()


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
