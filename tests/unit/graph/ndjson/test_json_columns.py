"""Columns as JSON texts: what the encoder writes for the values one by one."""

from __future__ import annotations

from datetime import UTC, date, datetime
from math import inf, nan
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from omnigraph import compile_schema
from omnigraph.graph.ndjson.json_columns import joined, json_texts
from omnigraph.graph.results.values import json_values

CATALOG = compile_schema("""
node Every {
  s: String?  e: enum(one, two)?  b: Bool?  i: I32?  u: U32?  l: I64?  n: U64?  f: F32?  g: F64?
  d: Date?  t: DateTime?  v: Vector(2)?  w: [String]?  m: [DateTime]?
}
""")
AT = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
VALUES: dict[str, list[Any]] = {
    "s": ["", "plain", 'a "quote"', "back\\slash", "line\nfeed", "\x00\x1f\x7f", "é—😀\u2028"],
    "e": ["one", "two"],
    "b": [True, False],
    "i": [-(2**31), 0, 2**31 - 1],
    "u": [0, 2**32 - 1],
    "l": [-(2**63), 2**53 + 1, 2**63 - 1],
    "n": [0, 2**64 - 1],
    "f": [0.1, 1e30, -0.0, nan, inf],
    "g": [0.1, 1e300, 5e-324, -0.0, 1.0, -inf],
    "d": [date(1, 1, 1), date(9999, 12, 31)],
    "t": [AT, datetime(2024, 2, 29, tzinfo=UTC)],
    "v": [[0.5, 0.1], [1.0, 2.0]],
    "w": [["a", 'b"'], []],
    "m": [[AT], []],
}


@pytest.mark.parametrize("name", VALUES)
def test_a_text_is_what_the_encoder_writes(name: str) -> None:
    item = CATALOG.node_types["Every"]
    kind = item.properties[name].type
    field = item.arrow_schema.field(name)
    given = [VALUES[name], [None], [], [VALUES[name][0], None], [None, *VALUES[name], None]]
    for values in given:
        # A slice, in two pieces, as readers give them.
        padded = pa.array([None, *values, None], field.type)
        column = pa.chunked_array(
            [padded.slice(1, len(values)), padded.slice(0, 1)], type=field.type
        )
        texts = json_texts(column, kind)
        wanted = [msgspec.json.encode(value).decode() for value in json_values(column, kind)]
        assert joined("<", texts, ">").decode() == "".join(f"<{text}>" for text in wanted)
