"""Graphs with random histories on several branches, whose every commit is remembered.

Each step writes, removes, replaces, compacts or forks on one branch; what a commit shows is read by
a full export, which knows nothing of diffs and merges.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from tests.unit.engine.graphs import compact

from omnigraph.graph.changes.entity_change import Image

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random  # noqa: TID251 - seeded

    from omnigraph import Graph

SCHEMA = """
node Person { name: String @key  age: I32?  nick: String?  tags: [String]?  face: Blob? }
node Note { name: String @key  mark: F64? }
edge Knows: Person -> Person { since: I32? }
"""
PEOPLE = tuple(f"p{number}" for number in range(7))
NOTES = tuple(f"n{number}" for number in range(3))
EDGES = tuple(f"e{number}" for number in range(5))
TYPES = ("Person", "Note", "Knows")
BLOB = pa.large_binary()

Key = tuple[str, str]
State = dict[Key, Image]
"""Every entity by type and id."""


@dataclass(kw_only=True)
class History:
    """A graph whose every commit is remembered with all that it showed."""

    graph: Graph
    rng: Random
    branches: list[str] = field(default_factory=lambda: ["main"])
    seen: dict[str, State] = field(default_factory=dict)
    trail: list[str] = field(default_factory=list)

    def step(self) -> None:
        branch = self.rng.choice(self.branches)
        acts: list[Callable[[str], None]] = [self.put, self.put, self.put, self.remove, self.remove]
        acts += [self.compact, self.replace, self.fork]
        act = self.rng.choice(acts)
        self.trail.append(f"{act.__name__} on {branch}")
        act(branch)
        self.remember(branch)

    def remember(self, branch: str) -> None:
        commit = self.graph.snapshot(branch=branch).graph_commit_id
        if commit not in self.seen:
            self.seen[commit] = exported(self.graph, branch)

    def put(self, branch: str) -> None:
        """Some rows added or written, many of them as they were."""
        people = self._some(PEOPLE)
        with self.graph.write(branch) as writer:
            writer.upsert("Person", self._people(people))
            if self.rng.random() < 0.5:
                writer.upsert("Note", self._notes(self._some(NOTES)))
            if self.rng.random() < 0.7:
                known = sorted({*self._ids(branch, "Person"), *people})
                writer.upsert("Knows", self._edges(self._some(EDGES), known))
            writer.commit()

    def remove(self, branch: str) -> None:
        """Some people with their edges, or edges alone."""
        known = self._ids(branch, "Person")
        gone = self.rng.sample(known, min(len(known), self.rng.randint(0, 2)))
        hanging = [
            each
            for (name, each), image in self._state(branch).items()
            if name == "Knows" and set(image.endpoints or ()) & set(gone)
        ]
        with self.graph.write(branch) as writer:
            writer.delete("Knows", sorted({*hanging, *self._some(EDGES)}))
            writer.delete("Person", gone)
            writer.commit()

    def replace(self, branch: str) -> None:
        """All notes at once."""
        with self.graph.write(branch) as writer:
            writer.overwrite("Note", self._notes(self._some(NOTES)))
            writer.commit()

    def compact(self, branch: str) -> None:
        compact(self.graph, self.rng.choice(TYPES), branch)

    def fork(self, branch: str) -> None:
        if len(self.branches) < 4:
            name = f"b{len(self.branches)}"
            self.graph.branches.create(name, from_=branch)
            self.branches.append(name)

    def _some(self, ids: tuple[str, ...]) -> list[str]:
        return self.rng.sample(ids, self.rng.randint(1, 3))

    def _state(self, branch: str) -> State:
        return self.seen[self.graph.snapshot(branch=branch).graph_commit_id]

    def _ids(self, branch: str, name: str) -> list[str]:
        return [each for type_name, each in self._state(branch) if type_name == name]

    def _people(self, ids: list[str]) -> pa.Table:
        choose = self.rng.choice
        faces = [choose((None, b"", b"ab", b"ba")) for _ in ids]
        return pa.table(
            {
                "name": pa.array(ids),
                "age": pa.array([choose((None, 0, 1)) for _ in ids], pa.int32()),
                "nick": pa.array([choose((None, "")) for _ in ids], pa.string()),
                "tags": pa.array([choose((None, [], ["x"])) for _ in ids], pa.list_(pa.string())),
                "face": pa.array(faces, BLOB),
            }
        )

    def _notes(self, ids: list[str]) -> pa.Table:
        marks = [self.rng.choice((0.0, -0.0, 1.0, None)) for _ in ids]
        return pa.table({"name": ids, "mark": pa.array(marks, pa.float64())})

    def _edges(self, ids: list[str], people: list[str]) -> pa.Table:
        ends = [[self.rng.choice(people) for _ in ids] for _ in range(2)]
        since = pa.array([self.rng.choice((None, 1)) for _ in ids], pa.int32())
        return pa.table({"id": ids, "src": ends[0], "dst": ends[1], "since": since})


def exported(graph: Graph, branch: str) -> State:
    """All rows of a branch, by a way that knows nothing of diffs."""
    state: State = {}
    for line in b"".join(graph.export(branch=branch)).decode().splitlines():
        record = json.loads(line)
        data = record["data"]
        ends = (record["from"], record["to"]) if "edge" in record else None
        name = record.get("type") or record["edge"]
        state[name, data.pop("id")] = Image(properties=data, endpoints=ends)
    return state
