"""The `.gq` mutations that crash tests make, and what each of them must give.

What a predicate hits depends on what is there, so the model is told by a function, not by rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.crash.model import Content, note, person, put

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from omnigraph import Graph
    from omnigraph.graph.history.commit_graph import Commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One mutation query."""

    source: str
    effect: Callable[[Content], None]
    """Does to the model what the query does to the graph."""

    is_repeatable: bool = True
    """Every mutation is: an insert of a key replaces, an edge is new each time."""

    def apply(self, content: Content) -> None:
        """Do to the model what the write does to the graph."""
        self.effect(content)

    def send(self, graph: Graph, branch: str) -> Commit | None:
        """Make the write."""
        return graph.mutate(self.source, branch=branch).commit


def _insert(content: Content) -> None:
    put(content["Person"], person("g0", 40))
    put(content["Knows"], {"src": "g0", "dst": "p0", "since": 5})


def _update(content: Content) -> None:
    for row in list(content["Person"].values()):
        if row["age"] > 1:
            put(content["Person"], {**row, "age": 70})
    put(content["Note"], {**content["Note"]["n0"], "stars": 9})
    put(content["Note"], note("g1", 1))


def _delete(content: Content) -> None:
    gone = {"p0", "p1"}
    content["Person"] = {name: row for name, row in content["Person"].items() if name not in gone}
    content["Knows"] = {
        name: row for name, row in content["Knows"].items() if not gone & {row["src"], row["dst"]}
    }


MUTATIONS: Mapping[str, Mutation] = {
    # Two tables; the id of the edge is the graph's choice.
    "gq_insert": Mutation(
        source="""query m() {
  insert Person { name: "g0", age: 40 }
  insert Knows { from: "g0", to: "p0", since: 5 }
}""",
        effect=_insert,
    ),
    # Two tables. The note keeps its scan, which takes a link of its own beside the new note.
    "gq_update": Mutation(
        source="""query m() {
  update Person set { age: 70 } where age > 1
  update Note set { stars: 9 } where title = "n0"
  insert Note { title: "g1", stars: 1 }
}""",
        effect=_update,
    ),
    # Two tables: the edges go with their people.
    "gq_delete": Mutation(
        source="""query m() {
  delete Person where name = "p0"
  delete Person where name = "p1"
}""",
        effect=_delete,
    ),
}
