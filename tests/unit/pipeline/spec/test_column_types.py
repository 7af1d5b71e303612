"""What a user is told to write when a column has another type than its property."""

import pyarrow as pa
import pytest

from omnigraph.lang import compile_schema
from omnigraph.pipeline.spec.column_types import cast_to, widens

SCHEMA = "node Doc { name: String @key  age: I32?  tags: [String]?  sizes: [I64]? }"


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("age", pa.string(), "cast(x as int)"),
        ("tags", pa.string(), "from_json(x, 'array<string>')"),
        ("sizes", pa.large_string(), "from_json(x, 'array<bigint>')"),
        ("sizes", pa.list_(pa.float64()), "cast(x as array<bigint>)"),
    ],
)
def test_a_list_cannot_be_cast_from_text(name: str, given: pa.DataType, told: str) -> None:
    kind = compile_schema(SCHEMA).node_types["Doc"].properties[name].type
    assert cast_to("x", given, kind) == told


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_a_timestamp_is_a_moment_with_a_zone_or_without(zone: str | None) -> None:
    kind = compile_schema("node Doc { at: DateTime }").node_types["Doc"].properties["at"].type
    assert widens(pa.timestamp("ns", zone), kind)
