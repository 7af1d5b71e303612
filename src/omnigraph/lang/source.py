"""Source text and positions in it.

Owns the step from bytes to text and from character offsets to what people and tools read: byte
offsets, lines and columns. AST nodes keep only a pair of character offsets (`Extent`); a `Span` is
built when a diagnostic is. Columns count characters from 1; a line ends at LF.
"""

from bisect import bisect_right
from dataclasses import dataclass

from omnigraph.errors import JsonValue
from omnigraph.limits import MAX_SOURCE_BYTES

_MARK_EVERY = 1_024
_BOM_BYTES = 3

Extent = tuple[int, int]
"""Half-open range of character offsets in a source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A range of a source: byte offsets (half-open), and lines and columns counted from 1."""

    start: int
    end: int
    line: int
    column: int
    end_line: int
    end_column: int

    def to_dict(self) -> dict[str, JsonValue]:
        """The JSON form used by reports and error bodies."""
        return {
            "start": self.start,
            "end": self.end,
            "line": self.line,
            "column": self.column,
            "end_line": self.end_line,
            "end_column": self.end_column,
        }


class SourceUnreadable(ValueError):
    """The bytes are no source text; carries the message and where the trouble starts.

    Never reaches a caller: each parser turns it into its syntax diagnostic.
    """

    def __init__(self, message: str, source: "Source", extent: Extent) -> None:
        super().__init__(message)
        self.message = message
        self.source = source
        self.extent = extent


class Source:
    """Text of one file or argument, with its line table."""

    __slots__ = ("_byte_marks", "_line_starts", "_skipped_bytes", "path", "text")

    def __init__(self, text: str, path: str | None = None) -> None:
        self.text = text
        self.path = path
        self._skipped_bytes = 0
        self._line_starts: list[int] | None = None
        self._byte_marks: list[int] | None = None

    @classmethod
    def decode(cls, data: str | bytes, path: str | None = None) -> "Source":
        """Decode UTF-8, skip a BOM, and enforce the size limit.

        Raises:
            SourceUnreadable: not UTF-8, or larger than `MAX_SOURCE_BYTES`.
        """
        if not isinstance(data, str | bytes):
            raise TypeError(
                f"a source is text or bytes, not {type(data).__name__}; read the file first"
            )
        size_bytes = len(data) if isinstance(data, bytes) or data.isascii() else _size_bytes(data)
        if size_bytes > MAX_SOURCE_BYTES:
            raise SourceUnreadable(
                f"the source has {size_bytes:,} bytes; the limit is {MAX_SOURCE_BYTES:,}; "
                "split it into several files",
                cls("", path),
                (0, 0),
            )
        text, broken_at = _decode(data)
        source = cls(text.removeprefix("\ufeff"), path)
        source._skipped_bytes = _BOM_BYTES if text.startswith("\ufeff") else 0
        if broken_at is not None:
            raise SourceUnreadable(
                f"the source is not valid UTF-8 (byte {broken_at}); save the file as UTF-8",
                source,
                (len(source.text), len(source.text)),
            )
        return source

    def span(self, extent: Extent) -> Span:
        """Widen a character extent to a full span; a zero width becomes one character."""
        start, end = extent
        end = max(end, start + 1)
        line, column = self._position(start)
        end_line, end_column = self._position(min(end, len(self.text)))
        if (end_line, end_column) <= (line, column):
            end_line, end_column = line, column + 1
        return Span(
            start=self._byte_offset(start),
            end=self._byte_offset(end),
            line=line,
            column=column,
            end_line=end_line,
            end_column=end_column,
        )

    def line_window(self, line: int, column: int, width: int) -> tuple[int, str]:
        """A part of a line (counted from 1) around a column (from 0): where it begins, its text.

        A line that fits is given whole, without its line end.
        """
        starts = self._starts()
        start = starts[line - 1]
        end = starts[line] - 1 if line < len(starts) else len(self.text)
        begin = max(0, column - width // 2) if end - start > width else 0
        return begin, self.text[start + begin : min(end, start + begin + width)].rstrip("\r")

    def _position(self, offset: int) -> tuple[int, int]:
        starts = self._starts()
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def _starts(self) -> list[int]:
        if self._line_starts is None:
            starts = [0]
            at = self.text.find("\n")
            while at >= 0:
                starts.append(at + 1)
                at = self.text.find("\n", at + 1)
            self._line_starts = starts
        return self._line_starts

    def _byte_offset(self, offset: int) -> int:
        return self._skipped_bytes + self._bytes_before(offset)

    def _bytes_before(self, offset: int) -> int:
        if self.text.isascii():
            return offset
        beyond = max(0, offset - len(self.text))
        mark, rest = divmod(offset - beyond, _MARK_EVERY)
        start = mark * _MARK_EVERY
        return self._marks()[mark] + len(self.text[start : start + rest].encode()) + beyond

    def _marks(self) -> list[int]:
        """Byte offsets of every 1,024th character, so that one offset costs no walk of the text."""
        if self._byte_marks is None:
            marks = [0]
            for start in range(0, len(self.text), _MARK_EVERY):
                marks.append(marks[-1] + len(self.text[start : start + _MARK_EVERY].encode()))
            self._byte_marks = marks
        return self._byte_marks


def _decode(data: str | bytes) -> tuple[str, int | None]:
    """Text, and the byte at which it stopped being UTF-8 (or None)."""
    if isinstance(data, str):
        try:
            data.encode()
        except UnicodeEncodeError as error:
            return data[: error.start], len(data[: error.start].encode())
        return data, None
    try:
        return data.decode(), None
    except UnicodeDecodeError as error:
        return data[: error.start].decode(), error.start


def _size_bytes(text: str) -> int:
    """Size in UTF-8; what cannot be encoded counts as one byte each and is refused later."""
    return len(text.encode(errors="replace"))
