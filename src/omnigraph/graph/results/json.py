"""The JSON forms of a query result: the array of rows, and JSON lines after a line of metadata.

A row is an object with the columns in their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from omnigraph.graph.results.values import json_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from omnigraph.errors import JsonValue
    from omnigraph.lang.types import PropType


def render_json(table: pa.Table, kinds: Sequence[PropType], *, js_safe: bool) -> str:
    """The rows as one array."""
    return msgspec.json.encode(json_rows(table, kinds, js_safe=js_safe)).decode()


def render_jsonl(
    table: pa.Table, kinds: Sequence[PropType], *, query_name: str, target: dict[str, JsonValue]
) -> str:
    """A line of metadata, then a line per row; each ends in LF."""
    metadata: dict[str, JsonValue] = {
        "kind": "metadata",
        "query_name": query_name,
        "target": target,
        "row_count": table.num_rows,
    }
    return msgspec.json.Encoder().encode_lines([metadata, *json_rows(table, kinds)]).decode()
