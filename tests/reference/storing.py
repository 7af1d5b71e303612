"""Writing of a reference graph, in one commit or in many that end in the same rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random  # noqa: TID251 - seeded

import pyarrow as pa
from tests.reference.evaluator import Entity, ReferenceGraph
from tests.reference.graphs import Row, spell_id

from omnigraph import Graph
from omnigraph.lang import EdgeType, NodeType
from omnigraph.settings import Settings, load_settings


def quick(**env: str) -> Settings:
    """Settings without syncs; variables by their names without the prefix."""
    given = {f"OMNIGRAPH_{name}": value for name, value in env.items()}
    return load_settings({"OMNIGRAPH_DURABILITY": "process"} | given)


def store(
    graph: ReferenceGraph, path: Path, *, commits: int = 1, churn: bool = False, seed: int = 0
) -> Graph:
    """The graph on disk, open.

    With several commits its tables have several fragments. With `churn` some rows are first
    written with other values and replaced later, and others are written only to be deleted.
    """
    stored = Graph.init(path, schema=graph.schema, settings=quick())
    rng = Random(f"store {seed}")  # noqa: S311 - no secret
    plan = _Plan(graph=graph, rng=rng, commits=commits)
    if churn:
        plan.churn()
    plan.spread()
    for step in plan.steps:
        _write(stored, graph, step)
    return stored


@dataclass(slots=True)
class _Step:
    """The changes of one commit, by `node:Type` or `edge:Type`."""

    append: dict[str, list[Entity]] = field(default_factory=dict)
    upsert: dict[str, list[Entity]] = field(default_factory=dict)
    delete: dict[str, list[str]] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class _Plan:
    graph: ReferenceGraph
    rng: Random
    commits: int
    first: dict[str, list[Entity]] = field(default_factory=dict)
    """What is appended, where it is not the final rows."""
    last: list[_Step] = field(default_factory=list)
    """What brings the final rows about."""
    steps: list[_Step] = field(default_factory=list)

    def churn(self) -> None:
        repair, removal = _Step(), _Step()
        doomed: dict[str, str] = {}
        for name, rows in self.graph.nodes.items():
            node, key = self.graph.catalog.node_types[name], f"node:{name}"
            stale = self.stale(key, rows, node, repair)
            if rows:
                gone = _doomed_node(node, self.rng.choice(rows))
                doomed[name] = gone["id"]
                removal.delete[key] = [gone["id"]]
                stale.insert(self.rng.randint(0, len(stale)), gone)
            self.first[key] = stale
        for name, rows in self.graph.edges.items():
            edge, key = self.graph.catalog.edge_types[name], f"edge:{name}"
            stale = self.stale(key, rows, edge, repair)
            for number in range(min(2, len(rows))):
                ends = {"src": doomed[edge.from_type]} if number else {"dst": doomed[edge.to_type]}
                gone = {**self.rng.choice(rows), **ends, "id": f"doomed {number}"}
                removal.delete.setdefault(key, []).append(gone["id"])
                stale.insert(self.rng.randint(0, len(stale)), gone)
            self.first[key] = stale
        self.last = [repair, removal]
        self.rng.shuffle(self.last)

    def stale(
        self, key: str, rows: Sequence[Entity], item: NodeType | EdgeType, repair: _Step
    ) -> list[Entity]:
        """The rows, some with the values of another one; those are to be repaired."""
        kept = {"id", "src", "dst", *((isinstance(item, NodeType) and item.key) or ())}
        stale: list[Entity] = []
        for row in rows:
            if self.rng.random() < 0.7:
                stale.append(row)
                continue
            other = self.rng.choice(rows)
            repair.upsert.setdefault(key, []).append(row)
            stale.append({name: (row if name in kept else other)[name] for name in row})
        return stale

    def spread(self) -> None:
        """Appends over the commits, an edge not before its nodes; then the last steps."""
        at: dict[tuple[str, str], int] = {}
        self.steps = [_Step() for _ in range(self.commits)]
        for name, rows in self.graph.nodes.items():
            for row in self.first.get(f"node:{name}", rows):
                at[name, row["id"]] = step = self.rng.randrange(self.commits)
                self.steps[step].append.setdefault(f"node:{name}", []).append(row)
        for name, rows in self.graph.edges.items():
            edge = self.graph.catalog.edge_types[name]
            for row in self.first.get(f"edge:{name}", rows):
                earliest = max(at[edge.from_type, row["src"]], at[edge.to_type, row["dst"]])
                step = self.rng.randint(earliest, self.commits - 1)
                self.steps[step].append.setdefault(f"edge:{name}", []).append(row)
        self.steps += self.last


def _doomed_node(node: NodeType, like: Entity) -> Row:
    row = dict(like)
    if node.key is None:
        row["id"] = "doomed"
    else:
        row["label"] = "doomed"
        row["id"] = spell_id(node, row)
    return row


def _write(stored: Graph, graph: ReferenceGraph, step: _Step) -> None:
    with stored.write() as writer:
        for key, rows in step.append.items():
            writer.append(key, arrow_rows(graph, key, rows))
        for key, rows in step.upsert.items():
            writer.upsert(key, arrow_rows(graph, key, rows))
        for key, ids in step.delete.items():
            writer.delete(key, ids)
        writer.commit()


def arrow_rows(graph: ReferenceGraph, key: str, rows: Iterable[Entity]) -> pa.Table:
    """Rows of `node:Type` or `edge:Type` in the schema of their table."""
    kind, _, name = key.partition(":")
    catalog = graph.catalog
    item = catalog.node_types[name] if kind == "node" else catalog.edge_types[name]
    return pa.Table.from_pylist([dict(row) for row in rows], item.arrow_schema)
