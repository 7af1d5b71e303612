"""Types as tables store them."""

import pyarrow as pa

from omnigraph.lang import compile_schema

SCHEMA = """
node A {
  s: String  b: Bool?  i: I32  l: I64  u: U32  v: U64  f: F32  g: F64  d: Date  t: DateTime
  vec: Vector(3)?  tags: [String]  e: enum(x, y)?  file: Blob?
}
edge E: A -> A { since: Date? }
"""


def test_a_node_table_has_its_id_and_then_its_properties() -> None:
    fields: list[pa.Field[pa.DataType]] = [
        pa.field("id", pa.utf8(), nullable=False),
        pa.field("s", pa.utf8(), nullable=False),
        pa.field("b", pa.bool_()),
        pa.field("i", pa.int32(), nullable=False),
        pa.field("l", pa.int64(), nullable=False),
        pa.field("u", pa.uint32(), nullable=False),
        pa.field("v", pa.uint64(), nullable=False),
        pa.field("f", pa.float32(), nullable=False),
        pa.field("g", pa.float64(), nullable=False),
        pa.field("d", pa.date32(), nullable=False),
        pa.field("t", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("vec", pa.list_(pa.float32(), 3)),
        pa.field("tags", pa.list_(pa.utf8()), nullable=False),
        pa.field("e", pa.utf8()),
        pa.field("file", pa.large_binary()),
    ]
    assert compile_schema(SCHEMA).node_types["A"].arrow_schema == pa.schema(fields)


def test_an_edge_table_has_its_endpoints_after_its_id() -> None:
    fields = compile_schema(SCHEMA).edge_types["E"].arrow_schema
    assert fields.names == ["id", "src", "dst", "since"]
    assert [fields.field(name).nullable for name in fields.names] == [False, False, False, True]
