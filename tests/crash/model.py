"""The graph that crash tests write to, and the model of it: a dictionary of rows.

The model knows an edge whose id the graph chose by what the edge says, because nobody can precheck
that id: two contents are equal when they differ in nothing else.
"""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

Row: TypeAlias = dict[str, Any]
Content: TypeAlias = dict[str, dict[str, Row]]
"""Every row of every table: by type, by id."""

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  vec: Vector(2)? @embed("name")
}
node Note {
  title: String @key
  stars: I32?
  scan: Blob?
}
edge Knows: Person -> Person {
  since: I32?
}
"""

EVOLVED = """
node Person {
  name: String @key
  years: I32? @rename_from("age")
  vec: Vector(2)? @embed("name")
  level: I64 @default(7)
  bio: String? @index
  @range(years, 0..)
}
node Memo @rename_from("Note") {
  title: String @key
  scan: Blob?
  tags: [String]?
}
node Place {
  name: String @key
}
edge Knows: Person -> Person {
  since: I32?
}
edge In: Person -> Place
"""
"""The schema after a change that fills, adds, drops and renames columns, and makes tables."""


def _columns(**types: pa.DataType) -> pa.Schema:
    return pa.schema(types)


COLUMNS: Mapping[str, pa.Schema] = {
    "Person": _columns(name=pa.string(), age=pa.int32(), vec=pa.list_(pa.float32(), 2)),
    "Note": _columns(title=pa.string(), stars=pa.int32(), scan=pa.large_binary()),
    "Knows": _columns(id=pa.string(), src=pa.string(), dst=pa.string(), since=pa.int32()),
}

_CHOSEN = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


def person(name: str, age: int) -> Row:
    return {"id": name, "name": name, "age": age, "vec": None}


def note(title: str, stars: int | None = None, scan: bytes | None = None) -> Row:
    return {"id": title, "title": title, "stars": stars, "scan": scan}


def knows(id: str, src: str, dst: str, since: int) -> Row:  # noqa: A002 - as the column is called
    return {"id": id, "src": src, "dst": dst, "since": since}


def put(table: dict[str, Row], row: Row) -> None:
    """Hold a row by its id, replacing the one before; one without an own id is always new."""
    if _is_named(row):
        table[row["id"]] = row
        return
    says = f"{row['src']}-{row['dst']}-{row['since']}"
    name = next(name for name in (f"{says} #{n}" for n in count(1)) if name not in table)
    table[name] = {**row, "id": name}


def _is_named(row: Row) -> bool:
    return "id" in row and not _CHOSEN.fullmatch(row["id"])
