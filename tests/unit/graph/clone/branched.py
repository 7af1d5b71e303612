"""A small graph with what a copy can lose: branches of branches, blobs, vectors, edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.graph.graphs import quick

from omnigraph import Graph

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
node Person { name: String @key  age: I32?  email: String? @unique }
node Doc { title: String @key  body: String? @index  scan: Blob?  place: Vector(2)? @index }
edge Knows: Person -> Person { since: I32? }
"""
ROWS = b"""\
{"type": "Person", "data": {"name": "ada", "age": 1, "email": "a@x"}}
{"type": "Person", "data": {"name": "bob", "age": 2}}
{"type": "Person", "data": {"name": "cy", "age": 3}}
{"type": "Doc", "data": {"title": "t", "body": "red fox", "scan": "base64:aGk=", "place": [1, 2]}}
{"type": "Doc", "data": {"title": "u", "scan": "base64:", "place": [3, 4]}}
{"edge": "Knows", "from": "ada", "to": "bob", "data": {"since": 4}}
"""
OLDER = 'query q() { update Person set { age: 9 } where name = "ada" }'
ADD = 'query q() { insert Person { name: "dee", email: "d@x" } }'
DROP = 'query q() { delete Person where name = "bob" }'
EDIT = 'query q() { update Doc set { body: "blue fox" } where title = "t" }'
BRANCHES = ("main", "draft", "draft/two")


def made(root: Path) -> Path:
    """`main` moved on after `draft` was forked, and `draft` after `draft/two` was."""
    with Graph.init(root, schema=SCHEMA, settings=quick()) as graph:
        graph.load(ROWS, mode="append")
        graph.branches.create("draft")
        graph.mutate(OLDER)
        graph.mutate(ADD, branch="draft")
        graph.branches.create("draft/two", from_="draft")
        graph.mutate(EDIT, branch="draft")
        graph.mutate(DROP, branch="draft/two")
    return root


def content(graph: Graph, branch: str = "main", snapshot: str | None = None) -> bytes:
    """The rows of a branch, or of another state."""
    return b"".join(graph.export(branch=None if snapshot else branch, snapshot=snapshot))
