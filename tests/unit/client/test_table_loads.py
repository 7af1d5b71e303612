"""A load of tables through a server gives the rows of the same load of an open graph."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.serving import serving

import omnigraph
from omnigraph import Graph
from omnigraph.client.table_lines import table_lines
from omnigraph.errors import InvalidArgument, LoadRejected, NotServed
from omnigraph.lang import compile_schema

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
node Person {
  name: String @key
  age: I64?
  score: F32?
  born: Date?
  seen: DateTime?
  weights: [F64]?
  photo: Blob?
  known: Bool @default(true)
}
edge Knows: Person -> Person { since: I32? }
"""
MOMENT = datetime(2026, 1, 31, 1, 2, 3, 4000, UTC)
PEOPLE = pa.table(
    {
        "name": ["Ada", "Bob"],
        "age": pa.array([2**53 + 1, None], pa.int64()),
        "score": pa.array([0.1, None], pa.float32()),
        "born": [date(1815, 12, 10), None],
        "seen": pa.array([MOMENT, None], pa.timestamp("ms")),
        "weights": [[1.5, 2.0], None],
        "photo": pa.array([b"\x00\x01", None], pa.binary()),
    }
)
KNOWS = pa.table({"src": ["Ada"], "dst": ["Bob"], "since": pa.array([1833], pa.int16())})


def test_rows_of_tables_arrive_as_they_would_in_an_open_graph(tmp_path: Path) -> None:
    exports = []
    for name in ("ours", "theirs"):
        path = tmp_path / name
        with Graph.init(path, schema=SCHEMA) as graph:
            if name == "theirs":
                graph.load({"Person": PEOPLE, "Knows": KNOWS}, mode="append")
                graph.load({"Person": PEOPLE.select(["name", "photo"])}, mode="update")
            else:
                with (
                    serving({"people": path}) as live,
                    omnigraph.connect(live.url, graph="people") as there,
                ):
                    report = there.load({"Person": PEOPLE, "edge:Knows": KNOWS}, mode="append")
                    there.load({"Person": PEOPLE.select(["name", "photo"])}, mode="update")
                    with pytest.raises(LoadRejected):
                        there.load({"Person": pa.table({"age": [1]})}, mode="append")
                assert [(table.table, table.added) for table in report.tables] == [
                    ("node:Person", 2),
                    ("edge:Knows", 1),
                ]
            lines = b"".join(graph.export(types=["Person"]))
            ends = graph.snapshot().scan("Knows").read_all().select(["src", "dst", "since"])
            exports.append((lines, ends.to_pylist()))
    assert exports[0] == exports[1]


@pytest.mark.parametrize(
    ("tables", "mode", "kind"),
    [
        ({"Nobody": KNOWS}, "append", InvalidArgument),
        ({"Person": pa.table({"nick": ["x"]})}, "append", InvalidArgument),
        ({"Person": {"name": ["x"]}}, "append", InvalidArgument),
        ({"Person": PEOPLE, "node:Person": PEOPLE}, "append", InvalidArgument),
        ({"Person": PEOPLE.slice(0, 0)}, "overwrite", NotServed),
    ],
)
def test_what_no_line_can_say_is_refused_before_it_is_sent(
    tables: dict[str, pa.Table], mode: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        table_lines(compile_schema(SCHEMA), tables, mode=mode)
