"""A graph of nobody beside a pipeline with its files."""

from pathlib import Path

from omnigraph import Graph

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n"
PIPELINE = """
version: 1
name: people
mode: merge
sources:
  people: {format: csv, path: people.csv, schema: {name: string, age: int, seen: bigint},
           cursor: {column: seen, type: integer}}
  friends: {format: json, path: friends.json}
nodes:
  - {type: Person, from: people, columns: {name: name, age: age}}
edges:
  - {type: Knows, from: friends, id: key, src: a, dst: b}
"""


def lay_out_pipeline(folder: Path) -> Path:
    """Make the graph, the pipeline and its files in a folder."""
    Graph.init(folder / "people.omni", schema=SCHEMA).close()
    (folder / "pipeline.yaml").write_text(PIPELINE)
    (folder / "people.csv").write_text("name,age,seen\nAda,36,1\nBob,,2\n")
    (folder / "friends.json").write_text('{"key": "k", "a": "Ada", "b": "Bob"}\n')
    return Path("people.omni")
