"""Text of graph lines to columns by type, piece after piece.

A piece is taken as a whole where all of its lines are plain records; every other piece is read
line by line by the strict reader, which alone finds fault. Either way the records, their order and
what is reported are the same. The JSON values of one piece stand in memory at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from omnigraph.graph.ndjson.bulk_reader import PlainLines
from omnigraph.graph.ndjson.strict_reader import GraphLineReader
from omnigraph.graph.validation import REPORTED_VIOLATIONS, Findings, JsonRows
from omnigraph.lang.catalog import EdgeType

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from omnigraph.lang.catalog import Catalog, NodeType

_PIECE_BYTES: Final = 2 * 1024 * 1024
# Making the parser of a type takes as long as reading so much text strictly.
_WORTH_BYTES: Final = 8 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeColumns:
    """Records of one type, in the order of the input."""

    item: NodeType | EdgeType
    rows: JsonRows
    lines: npt.NDArray[np.int64]
    """The number of the line of each."""


class LineColumnReader:
    """Reads the lines of one input, text after text, and keeps what was wrong with some."""

    def __init__(self, catalog: Catalog, *, limit: int = REPORTED_VIOLATIONS) -> None:
        self._strict = GraphLineReader(catalog, limit=limit)
        self._plain = PlainLines(catalog)
        self._worth_bytes = _WORTH_BYTES * (len(catalog.node_types) + len(catalog.edge_types))
        self._bytes = 0
        self._bytes_done = 0
        self._lines = 0

    @property
    def lines(self) -> int:
        """How many lines were read."""
        return self._lines

    @property
    def bytes_done(self) -> int:
        """How much of the text the records so far were made of."""
        return min(self._bytes_done, self._bytes)

    @property
    def findings(self) -> Findings:
        """The lines that were no records."""
        return self._strict.findings

    def read(self, text: bytes) -> Iterator[TypeColumns]:
        """The records of lines that follow those read before; the last is without its line feed.

        Those of each piece come by type, nodes first, by name.

        Raises:
            ResourceLimit: a line is too long, or would become too many objects.
        """
        self._bytes += len(text)
        for piece in _pieces(text):
            self._bytes_done += len(piece) + 1
            yield from self._plain_records(piece) or self._strict_records(piece)

    def _plain_records(self, piece: bytes) -> list[TypeColumns] | None:
        if self._bytes < self._worth_bytes:
            return None
        read = self._plain.read(piece)
        if read is None:
            return None
        first = self._lines + 1
        self._lines += read.lines
        return [
            TypeColumns(item=records.item, rows=records.rows, lines=records.at + first)
            for records in sorted(read.records, key=lambda records: _place(records.item))
        ]

    def _strict_records(self, piece: bytes) -> list[TypeColumns]:
        lines = piece.split(b"\n")
        self._strict.read(lines, first=self._lines + 1)
        self._lines += len(lines)
        return [
            TypeColumns(
                item=records.item,
                rows=JsonRows.of(records.rows),
                lines=np.array(records.lines, np.int64),
            )
            for records in self._strict.take()
        ]


def _place(item: NodeType | EdgeType) -> tuple[bool, str]:
    return isinstance(item, EdgeType), item.name


def _pieces(text: bytes) -> Iterator[bytes]:
    """Pieces of whole lines, each without its last line feed; an empty last line is its own."""
    is_ended = text.endswith(b"\n")
    start = 0
    while start <= len(text) - is_ended:
        end = text.find(b"\n", start + _PIECE_BYTES, len(text) - is_ended)
        if end < 0:
            end = len(text) - is_ended
        yield text[start:end]
        start = end + 1
    if is_ended:
        yield b""
