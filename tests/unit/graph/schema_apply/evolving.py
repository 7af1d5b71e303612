"""A small graph with every kind of column, and schemas one step away from its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph import Graph

PERSON = {
    "name": "String @key",
    "age": "I32?",
    "email": "String?",
    "mood": "enum(calm, glad)?",
    "photo": "Blob?",
    "face": "Vector(2)?",
}
CITY = "node City { name: String @key  size: I32 @index  @range(size, 0..100) }"
KNOWS = "edge Knows: Person -> Person { since: I32? }"
IN = "edge In: Person -> City"

RECORDS: list[dict[str, Any]] = [
    {"type": "City", "data": {"name": "rome", "size": 7}},
    {
        "type": "Person",
        "data": {"name": "ada", "age": 36, "email": "a@x", "mood": "calm", "photo": "base64:aGk="},
    },
    {"type": "Person", "data": {"name": "bob", "age": 50, "face": [0.5, 1.0]}},
    {"edge": "In", "from": "ada", "to": "rome", "data": {}},
    {"edge": "Knows", "from": "ada", "to": "ada", "data": {"since": 2}},
    {"edge": "Knows", "from": "ada", "to": "bob", "data": {"since": 1}},
]

Rows = dict[str, list[dict[str, Any]]]


def person(*more: str, **changed: str) -> str:
    """The schema with other properties of a person; an empty text drops one."""
    parts = [f"{name}: {kind}" for name, kind in (PERSON | changed).items() if kind]
    return f"node Person {{ {'  '.join([*parts, *more])} }}\n{CITY}\n{KNOWS}\n{IN}"


BEFORE = person()


def fill(graph: Graph) -> None:
    """Load the records."""
    graph.load("\n".join(map(json.dumps, RECORDS)).encode(), mode="append")


def content(graph: Graph, snapshot: str | None = None) -> Rows:
    """The values of every entity by type, nulls left out, in the order of an export."""
    out: Rows = {}
    for line in b"".join(graph.export(snapshot=snapshot)).splitlines():
        record = json.loads(line)
        ends = {end: record[end] for end in ("from", "to") if end in record}
        values = {name: value for name, value in record["data"].items() if value is not None}
        out.setdefault(record.get("type") or record["edge"], []).append(ends | values)
    return {name: sorted(rows, key=json.dumps) for name, rows in out.items()}
