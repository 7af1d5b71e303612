"""Rows of one type as lines of the load format.

Every property is written, null as null: a default would fill one that is left out. Bytes of blobs
are read and encoded piece by piece, so a line may come in several parts.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from omnigraph.graph.arrays import row_ids_of
from omnigraph.graph.blobs.blob_values import INLINE
from omnigraph.graph.ndjson.json_columns import joined, json_texts
from omnigraph.graph.results.values import json_values
from omnigraph.lang.catalog import NodeType
from omnigraph.lang.types import STRING
from omnigraph.storage.blob_rows import blobs_of_rows
from omnigraph.storage.blobs import Blob
from omnigraph.storage.reading import ROW_ID

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from omnigraph.errors import JsonValue
    from omnigraph.graph.ndjson.json_columns import JsonTexts
    from omnigraph.lang import EdgeType
    from omnigraph.lang.types import PropType
    from omnigraph.storage.blob_rows import BlobValue
    from omnigraph.storage.handles import TableHandle

_PIECE_BYTES: Final = 3 * 1024 * 1024
"""A multiple of three, so that the encoded pieces of one blob can be joined."""

_ENDS: Final = ("src", "dst")
_ENCODER: Final = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordWriter:
    """Writes the rows of one table."""

    item: NodeType | EdgeType
    handle: TableHandle

    @property
    def columns(self) -> list[str]:
        """The columns that a row must bring; blobs are fetched by its row id."""
        return [
            name for name in self.item.arrow_schema.names if name not in self.item.blob_properties
        ]

    def lines(self, rows: pa.Table) -> Iterator[bytes]:
        """The rows as lines, in parts; they have the columns and the row ids."""
        if self.item.blob_properties:
            yield from self._with_blobs(rows)
        elif rows.num_rows:
            yield self._joined(rows)

    def _joined(self, rows: pa.Table) -> bytes:
        """The rows of a type without blobs, written column by column."""
        names = self.columns
        parts: list[str | JsonTexts] = []
        if isinstance(self.item, NodeType):
            parts.append(f'{{"type":{_text(self.item.name)}')
        else:
            names = [name for name in names if name not in _ENDS]
            parts.append(f'{{"edge":{_text(self.item.name)}')
            for member, name in zip(("from", "to"), _ENDS, strict=True):
                parts += (f',"{member}":', json_texts(rows[name], STRING))
        opening = ',"data":{'
        for name in names:
            parts += (f"{opening}{_text(name)}:", json_texts(rows[name], self._kind(name)))
            opening = ","
        return joined(*parts, "}}\n")

    def _kind(self, name: str) -> PropType:
        declared = self.item.properties.get(name)
        return STRING if declared is None else declared.type

    def _with_blobs(self, rows: pa.Table) -> Iterator[bytes]:
        values = {name: json_values(rows[name], self._kind(name)) for name in self.columns}
        if isinstance(self.item, NodeType):
            heads: list[dict[str, JsonValue]] = [{"type": self.item.name}] * rows.num_rows
        else:
            ends = zip(*(values.pop(name) for name in _ENDS), strict=True)
            heads = [{"edge": self.item.name, "from": src, "to": dst} for src, dst in ends]
        data = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
        names = self.item.blob_properties
        row_ids = row_ids_of(rows[ROW_ID]).tolist()
        blobs = [blobs_of_rows(self.handle, row_ids, name) for name in names]
        for at, (head, members) in enumerate(zip(heads, data, strict=True)):
            # The blobs come last: what precedes them is written without its two closing braces.
            yield _ENCODER.encode({**head, "data": members})[:-2]
            for name, column in zip(names, blobs, strict=True):
                yield b"," + _ENCODER.encode(name) + b":"
                yield from _blob_text(column[at])
            yield b"}}\n"


def _text(text: str) -> str:
    return _ENCODER.encode(text).decode()


def _blob_text(value: BlobValue) -> Iterator[bytes]:
    if not isinstance(value, Blob):
        yield _ENCODER.encode(value)
        return
    yield b'"' + INLINE.encode()
    for start in range(0, value.length, _PIECE_BYTES):
        yield base64.b64encode(value.read(start, start + _PIECE_BYTES))
    yield b'"'
