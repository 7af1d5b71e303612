"""Rows of tables as lines of the graph format, so that a rejected row can be mended and loaded."""

from __future__ import annotations

import base64
import math
from typing import TYPE_CHECKING, Any, Final

import msgspec

from omnigraph.graph.blobs.blob_values import INLINE
from omnigraph.graph.results.values import json_values
from omnigraph.lang.catalog import EdgeType
from omnigraph.lang.types import STRING
from omnigraph.storage.blobs import STORED_BLOB

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from omnigraph.lang.catalog import NodeType


def _spelled(value: object) -> object:
    """A value that JSON does not know: what Arrow gives for times, and numbers of any size."""
    spell = getattr(value, "isoformat", None)
    return str(value) if spell is None else spell()


_STORED: Final = set(STORED_BLOB.names)
_ENCODER: Final = msgspec.json.Encoder(enc_hook=_spelled)


def given_line(item: NodeType | EdgeType, values: Mapping[str, object]) -> bytes:
    """The line of a row as it was given: Python values by column, whether or not they fit."""
    data = {
        name: _without_bytes(_blob(value) if name in item.blob_properties else value)
        for name, value in values.items()
    }
    if not isinstance(item, EdgeType):
        return _ENCODER.encode({"type": item.name, "data": data})
    ends = {"from": data.pop("src", None), "to": data.pop("dst", None)}
    return _ENCODER.encode({"edge": item.name, **ends, "data": data})


def stored_lines(item: NodeType | EdgeType, rows: pa.Table) -> list[bytes]:
    """The lines of rows of a table, whole, with their blobs."""
    columns: dict[str, list[Any]] = {}  # Any: JSON, or the parts of a blob
    for name in rows.column_names:
        if name in item.blob_properties:
            columns[name] = rows[name].to_pylist()
        else:
            kind = item.properties[name].type if name in item.properties else STRING
            columns[name] = list(json_values(rows[name], kind))
    return [
        given_line(item, dict(zip(columns, row, strict=True)))
        for row in zip(*columns.values(), strict=True)
    ]


def _blob(cell: object) -> object:
    """The bytes or the address, where a table has one of both."""
    if not isinstance(cell, dict) or cell.keys() != _STORED:
        return cell
    return cell["data"] if cell["uri"] is None else cell["uri"]


def _without_bytes(value: object) -> object:
    if isinstance(value, bytes):
        return INLINE + base64.b64encode(value).decode()
    if isinstance(value, list):
        return [_without_bytes(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        # JSON would make it null, which may be loaded.
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    return value
