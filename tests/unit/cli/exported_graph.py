"""A small graph with a branch, and its records in the order of an export."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph import Graph

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
node Person { name: String @key  age: I32? }
node Link { name: String @key }
edge Link: Person -> Link
"""

ALL = [
    '{"type":"Link","data":{"id":"l","name":"l"}}',
    '{"type":"Person","data":{"id":"Ada","name":"Ada","age":null}}',
    '{"type":"Person","data":{"id":"Zoë","name":"Zoë","age":36}}',
    '{"edge":"Link","from":"Ada","to":"l","data":{"id":"e"}}',
]


def make_people(path: Path) -> Path:
    """Two people, one link, and a branch that has lost one of them."""
    with Graph.init(path, schema=SCHEMA) as graph:
        with graph.write() as writer:
            ages = pa.array([36, None], pa.int32())
            writer.append("Person", pa.table({"name": ["Zoë", "Ada"], "age": ages}))
            writer.append("node:Link", pa.table({"name": ["l"]}))
            writer.append("edge:Link", pa.table({"id": ["e"], "src": ["Ada"], "dst": ["l"]}))
            writer.commit()
        graph.branches.create("draft")
        with graph.write("draft") as writer:
            writer.delete("edge:Link", ["e"])
            writer.delete("Person", ["Ada"])
            writer.commit()
    return path
