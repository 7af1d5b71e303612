"""The formats in which an export is written."""

from __future__ import annotations

from enum import StrEnum

from omnigraph.errors import InvalidArgument


class ExportFormat(StrEnum):
    """What the files of an export are; the value is their ending too."""

    NDJSON = "ndjson"
    """The lines that a load reads."""
    PARQUET = "parquet"
    """The columns of each table with their types."""
    CSV = "csv"
    """The columns of each table as text, below a header."""

    @classmethod
    def parse(cls, text: str) -> ExportFormat:
        """The format of that name.

        Raises:
            InvalidArgument: there is none.
        """
        try:
            return cls(text)
        except ValueError as error:
            raise InvalidArgument(
                f"format is 'ndjson', 'parquet' or 'csv', not {text!r}", argument="format"
            ) from error
