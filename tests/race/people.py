"""A graph that mutations and loads race on, and what must hold of it.

Every write is told by its verb, its keys and a value that no other write has. Whoever made it notes
that together with its commit, so history says in which order the notes explain what is there.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from omnigraph.api import Graph
from omnigraph.graph.history.commit_graph import Commit

SCHEMA = """
node Person {
  name: String @key
  value: I32?
}
edge Said: Person -> Person {
  value: I32?
}
"""

UPSERT = """
query m($name: String, $value: I32) {
  insert Person { name: $name, value: $value }
  insert Said { from: $name, to: $name, value: $value }
}
"""
UPDATE = """
query m($name: String, $value: I32) {
  update Person set { value: $value } where name = $name
}
"""
DELETE = """
query m($name: String) {
  delete Person where name = $name
}
"""


class Verb(StrEnum):
    """What a write does to each of its keys."""

    UPSERT = "upsert"
    """Puts the person and adds an edge."""

    UPDATE = "update"
    """Changes the person, if it is there."""

    DELETE = "delete"
    """Removes the person and its edges, if it is there."""

    MERGE = "merge"
    """As `UPSERT`, by a load of all keys."""

    APPEND = "append"
    """As `MERGE`, of people who must be new."""

    @property
    def kind(self) -> str:
        """The kind of writer."""
        return "load" if self in (Verb.MERGE, Verb.APPEND) else "mutation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One write; mutations have one key."""

    verb: Verb
    keys: tuple[str, ...]
    value: int

    def send(self, graph: Graph) -> Commit | None:
        """Make it; sent again after an unknown outcome, it is made once."""
        token = f"{self.verb}-{self.value}"
        match self.verb:
            case Verb.UPSERT | Verb.UPDATE | Verb.DELETE:
                source = {Verb.UPSERT: UPSERT, Verb.UPDATE: UPDATE, Verb.DELETE: DELETE}[self.verb]
                given = {"name": self.keys[0], "value": self.value}
                if self.verb is Verb.DELETE:
                    del given["value"]
                return graph.mutate(source, params=given, idempotency_key=token).commit
            case Verb.MERGE | Verb.APPEND:
                return graph.load(
                    self._lines(),
                    mode="merge" if self.verb is Verb.MERGE else "append",
                    idempotency_key=token,
                ).commit
            case _:
                assert_never(self.verb)

    def words(self) -> tuple[str, str, str]:
        """How a journal has it."""
        return self.verb, ",".join(self.keys), str(self.value)

    def _lines(self) -> bytes:
        said = {"value": self.value}
        nodes = [{"type": "Person", "data": {"name": each, **said}} for each in self.keys]
        edges = [{"edge": "Said", "from": each, "to": each, "data": said} for each in self.keys]
        return "\n".join(json.dumps(each) for each in (*nodes, *edges)).encode()


def noted(words: list[str]) -> Write:
    """The write of which a journal has these words."""
    verb, keys, value = words
    return Write(verb=Verb(verb), keys=tuple(keys.split(",")), value=int(value))


@dataclass(slots=True)
class State:
    """What is in the graph: the people with their values, and who said what."""

    people: dict[str, int | None] = field(default_factory=dict)
    said: list[tuple[str, int]] = field(default_factory=list)

    def play(self, write: Write) -> None:
        """Do what a write does."""
        for key in write.keys:
            match write.verb:
                case Verb.UPSERT | Verb.MERGE | Verb.APPEND:
                    self.people[key] = write.value
                    self.said.append((key, write.value))
                case Verb.UPDATE:
                    assert key in self.people, f"{write} changed what was not there"
                    self.people[key] = write.value
                case Verb.DELETE:
                    assert key in self.people, f"{write} removed what was not there"
                    del self.people[key]
                    self.said = [each for each in self.said if each[0] != key]
        self.said.sort()


def state_of(graph: Graph) -> State:
    """What the head of `main` holds; no id is there twice."""
    snapshot = graph.snapshot()
    people = snapshot.scan("Person").read_all().to_pylist()
    said = snapshot.scan("Said").read_all().to_pylist()
    for name, rows in (("Person", people), ("Said", said)):
        assert len({row["id"] for row in rows}) == len(rows) == snapshot.count(name), name
    return State(
        people={row["name"]: row["value"] for row in people},
        said=sorted((row["src"], row["value"]) for row in said),
    )


def replayed(graph: Graph, writes: Iterable[tuple[Write, str]]) -> State:
    """What these writes give in the order of their commits.

    Every commit but the first and those of recoveries, which change no row, must be one of theirs,
    and every one of theirs must be there.
    """
    by_commit = {commit: write for write, commit in writes}
    found = graph.commits.list(limit=100_000)
    commits = [each for each in found if each.kind in ("mutation", "load")]
    assert {each.graph_commit_id for each in commits} == set(by_commit)
    state = State()
    for each in reversed(commits):
        state.play(by_commit[each.graph_commit_id])
    return state
