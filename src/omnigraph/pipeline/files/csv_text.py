"""CSV text taken apart in this process, exactly as Spark's reader does.

All values are text; an empty one is null, in quotes too. Lines end before values do: no value holds
the end of a line. What the two readers would take apart in different ways is left to Spark, by
name; so are texts whose header Spark refuses.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa
import pyarrow.csv

from omnigraph.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_BOM: Final = b"\xef\xbb\xbf"
_BLANK: Final = bytes(range(33))
"""What Java takes for white space at the ends of a line."""
_MOST_COLUMNS: Final = 20_480
_SHOWN: Final = 60
_BLOCK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class CsvText:
    """A file of CSV: its header, and the lines of its rows."""

    header: bytes | None
    rows: list[bytes]
    separator: str

    @property
    def names(self) -> list[str]:
        """The names of its columns; text that is no UTF-8 is replaced in them."""
        if self.header is None:
            return []
        text = self.header.decode("utf-8", "replace").encode()
        (row,) = _parsed([text], self.separator, None).to_pylist()
        return [name or "" for name in row.values()]

    def why_spark(self) -> str | None:
        """What of it only Spark's reader takes apart; `None` if nothing is."""
        lines = self.rows if self.header is None else [self.header, *self.rows]
        if any(b"\0" in line for line in lines):
            return "a CSV with zero bytes"
        pattern = _regular(self.separator)
        if any(b'"' in line and pattern.fullmatch(line) is None for line in lines):
            return "a CSV whose quotes are not closed in their line or stand beside other text"
        names = self.names
        if self.header is not None and (not all(names) or len(set(names)) < len(names)):
            return "a CSV whose header has a name twice or none"
        return "a CSV of so many columns" if len(names) > _MOST_COLUMNS else None

    def require_utf8(self, *, source: str, path: str) -> None:
        """Make sure that nothing of it would be replaced.

        Raises:
            SourceError: it is no UTF-8; with the line.
        """
        for line in [self.header or b"", *self.rows]:
            try:
                line.decode()
            except UnicodeDecodeError:
                raise not_utf8(path, line.decode("utf-8", "replace")[:_SHOWN], source) from None

    def table(self, *, source: str, path: str) -> pa.Table:
        """The rows, in their order.

        Raises:
            SourceError: a row has more or fewer values than the header.
        """
        names = self.names
        if not self.rows:
            return pa.table({name: pa.array([], pa.string()) for name in names})
        bad: list[str] = []

        def keep(row: pa.csv.InvalidRow) -> Literal["skip", "error"]:
            bad.append(row.text or "")
            return "skip"

        parsed = _parsed(self.rows, self.separator, names, keep)
        if bad:
            raise SourceError(
                f"source {source!r} cannot be read: [MALFORMED_CSV_RECORD] Malformed CSV record:"
                f" {bad[0]} SQLSTATE: KD000; nothing was committed",
                source=source,
                path=path,
            )
        return parsed


def csv_text(data: bytes, separator: str) -> CsvText:
    """The text of a file."""
    lines = data.removeprefix(_BOM).splitlines()
    rows = [line for line in lines if line.strip(_BLANK)]
    return CsvText(header=rows[0] if rows else None, rows=rows[1:], separator=separator)


def separator_of(options: Mapping[str, str]) -> str | None:
    """What parts values, if nothing else is asked of Spark's reader; `None` if something is."""
    given = options.get("sep", ",")
    is_plain = (
        len(given) == 1 and given.isascii() and not given.isalnum() and given not in '"\r\n\0 '
    )
    return given if is_plain and set(options) <= {"sep"} else None


def not_utf8(path: str, line: str, source: str) -> SourceError:
    """That a file is in another encoding."""
    return SourceError(
        f"{path} is no UTF-8, in the line {line!r}; convert it, or give its encoding as an option"
        " of the reader (encoding=ISO-8859-1)",
        source=source,
        path=path,
    )


def _regular(separator: str) -> re.Pattern[bytes]:
    sign = re.escape(separator.encode())
    value = rb'(?:"(?:[^"]|"")*+"|(?:[^"%b][^%b]*+)?)' % (sign, sign)
    return re.compile(rb"%b(?:%b%b)*+" % (value, sign, value), re.DOTALL)


def _parsed(
    lines: list[bytes],
    separator: str,
    names: list[str] | None,
    on_bad_row: Callable[[pa.csv.InvalidRow], Literal["skip", "error"]] | None = None,
) -> pa.Table:
    data = b"\n".join([*lines, b""])
    known = names or [str(at) for at in range(data.count(separator.encode()) + 1)]
    return pa.csv.read_csv(
        io.BytesIO(data),
        read_options=pa.csv.ReadOptions(
            column_names=names,
            autogenerate_column_names=names is None,
            use_threads=False,
            block_size=max(len(data) + 1, _BLOCK_BYTES),
        ),
        parse_options=pa.csv.ParseOptions(
            delimiter=separator, newlines_in_values=False, invalid_row_handler=on_bad_row
        ),
        convert_options=pa.csv.ConvertOptions(
            column_types={name if names else f"f{name}": pa.string() for name in known},
            null_values=[""],
            strings_can_be_null=True,
            check_utf8=True,
        ),
    )
