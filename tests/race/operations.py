"""Every kind of write that can overtake another, several of each, on the graph of `club`.

Each of them is accepted on the seed. What they touch lies close together: p1 has room for one edge
more, p2 can spare one, the desk 7 in Oslo and the address `same` are free, and q1 and q2 are not
there yet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import pyarrow as pa
from tests.race.club import Row, edge, lines, person, team

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph import Graph
    from omnigraph.graph.jobs.report import JobReport

Mode: TypeAlias = Literal["append", "merge", "update", "overwrite"]
Told: TypeAlias = "tuple[object, ...]"
"""What a writer was told, as far as it does not depend on time."""

SEED: tuple[tuple[Row, ...], ...] = (
    (
        *(person(f"p{n}", email=f"e{n}", age=10 * n) for n in range(6)),
        team("t0", motto="go"),
        team("t1"),
        edge("Knows", "p0-p1", id="k0", mark=0),
        edge("Knows", "p0-p2", id="k1", mark=1),
        edge("Knows", "p0-p3", id="k2", mark=2),
        edge("Knows", "p1-p0", id="k3", mark=3),
        edge("Knows", "p1-p2", id="k4", mark=4),
        edge("Knows", "p2-p0", id="k5", mark=5),
        edge("Member", "p0-t0", id="m0", mark=0),
        edge("Member", "p1-t0", id="m1", mark=1),
        edge("Leads", "t0-p0", id="l0", mark=0),
        edge("Leads", "t0-p1", id="l1", mark=1),
        edge("Leads", "t0-p3", id="l2", mark=2),
    ),
    (
        person("p6", city="Rome", desk=1, age=90),
        edge("Knows", "p2-p1", id="k6", mark=6),
        edge("Knows", "p3-p4", id="k7", mark=7),
        edge("Knows", "p4-p5", id="k8", mark=8),
        edge("Knows", "p4-p0", id="k9", mark=9),
        edge("Member", "p4-t1", id="m2", mark=2, code="held"),
        edge("Leads", "t1-p3", id="l3", mark=3),
        edge("Leads", "t1-p4", id="l4", mark=4),
    ),
)
"""What is loaded before, and after, the indexes are built for the first time."""

OWN: tuple[Row, ...] = (
    person("p6", city="Rome", desk=2, age=90),
    team("t0", motto="own"),
    edge("Knows", "p4-p0", id="k9", mark=90),
    edge("Member", "p4-t1", id="m2", mark=90, code="held"),
    edge("Leads", "t1-p4", id="l4", mark=90),
)
"""The first write of a branch: from then on all its tables have lines of their own."""


class Operation(ABC):
    """One write."""

    kind: Literal["mutation", "load", "ensure_indices"]

    @abstractmethod
    def send(self, graph: Graph, branch: str) -> Told:
        """Make it, and tell what the writer was told."""

    @property
    def empties(self) -> bool:
        """Whether it may leave a source without edges: only what replaces all of them may."""
        return False


@dataclass(frozen=True, slots=True)
class Mutation(Operation):
    """Statements of one mutation query."""

    statements: str
    kind = "mutation"

    def send(self, graph: Graph, branch: str) -> Told:
        made = graph.mutate(f"query m() {{ {self.statements} }}", branch=branch)
        return made.affected_nodes, made.affected_edges


@dataclass(frozen=True, slots=True)
class Load(Operation):
    """A load in this process."""

    mode: Mode
    records: Sequence[Row]
    kind = "load"

    def send(self, graph: Graph, branch: str) -> Told:
        given = lines(self.records)
        return told_of(graph.load(given, mode=self.mode, branch=branch, engine="local"))

    @property
    def empties(self) -> bool:
        return self.mode == "overwrite"


@dataclass(frozen=True, slots=True)
class Write(Operation):
    """Steps of a `Graph.write`: a verb, and the records or ids of one type."""

    steps: Sequence[tuple[str, str, Sequence[Row] | Sequence[str]]]
    kind = "mutation"

    def send(self, graph: Graph, branch: str) -> Told:
        with graph.write(branch) as writer:
            for verb, type_, given in self.steps:
                if verb == "delete":
                    writer.delete(type_, [str(each) for each in given])
                else:
                    records = [each for each in given if isinstance(each, dict)]
                    getattr(writer, verb)(type_, table_of(type_, records))
            return (writer.commit() is not None,)

    @property
    def empties(self) -> bool:
        return any(verb == "overwrite" for verb, _, _ in self.steps)


@dataclass(frozen=True, slots=True)
class Indexes(Operation):
    """A build of indexes; what it finds to do depends on what is there, and changes no row."""

    types: tuple[str, ...] | None = None
    kind = "ensure_indices"

    def send(self, graph: Graph, branch: str) -> Told:
        graph.maintenance.ensure_indices(types=self.types, branch=branch)
        return ()


def told_of(report: JobReport) -> Told:
    """What a load says of each table."""
    return tuple((each.table, each.added, each.changed, each.removed) for each in report.tables)


def _columns(**types: pa.DataType) -> pa.Schema:
    return pa.schema(types)


_ENDS = _columns(id=pa.string(), src=pa.string(), dst=pa.string(), mark=pa.int32())
_COLUMNS = {
    "Person": _columns(name=pa.string(), email=pa.string(), age=pa.int32()),
    "Knows": _ENDS,
    "Leads": _ENDS,
}


def table_of(type_: str, records: Sequence[Row]) -> pa.Table:
    """Records of a load as the rows of a table."""
    rows = [
        each["data"] | ({"src": each["from"], "dst": each["to"]} if "edge" in each else {})
        for each in records
    ]
    return pa.Table.from_pylist(rows, schema=_COLUMNS[type_])


OPERATIONS: Mapping[str, Operation] = {
    # Nodes that are new, or are put by their key.
    "insert_node": Mutation('insert Person { name: "p9", age: 9 }'),
    "insert_q1_same_email": Mutation('insert Person { name: "q1", email: "same" }'),
    "insert_q2_same_email": Mutation('insert Person { name: "q2", email: "same" }'),
    "insert_q2_same_desk": Mutation('insert Person { name: "q2", city: "Oslo", desk: 7 }'),
    "insert_node_with_edge": Mutation(
        'insert Person { name: "q3" } insert Knows { from: "q3", to: "p5", mark: 30 }'
    ),
    "upsert_p5": Mutation('insert Person { name: "p5", age: 55 }'),
    "upsert_q1": Mutation('insert Person { name: "q1", age: 1 }'),
    "upsert_team": Mutation('insert Team { title: "t0", motto: "new" }'),
    # Edges.
    "insert_edge_p1_p4": Mutation('insert Knows { from: "p1", to: "p4", mark: 40 }'),
    "insert_edge_p1_p5": Mutation('insert Knows { from: "p1", to: "p5", mark: 41 }'),
    "insert_edge_p5_p6": Mutation('insert Knows { from: "p5", to: "p6", mark: 42 }'),
    "insert_member_code_p3": Mutation('insert Member { from: "p3", to: "t1", code: "c" }'),
    "insert_member_code_p5": Mutation('insert Member { from: "p5", to: "t0", code: "c" }'),
    "insert_member_p2_t1": Mutation('insert Member { from: "p2", to: "t1", mark: 43 }'),
    "insert_lead_t1_p5": Mutation('insert Leads { from: "t1", to: "p5", mark: 44 }'),
    # Updates.
    "update_p1_age": Mutation('update Person set { age: 11 } where name = "p1"'),
    "update_p1_email": Mutation('update Person set { email: "same" } where name = "p1"'),
    "update_p5_desk": Mutation('update Person set { city: "Oslo", desk: 7 } where name = "p5"'),
    "update_old": Mutation("update Person set { age: 100 } where age >= 50"),
    "swap_emails": Mutation(
        'update Person set { email: null } where name = "p3"'
        ' update Person set { email: "e3" } where name = "p6"'
    ),
    # Deletes.
    "delete_p5": Mutation('delete Person where name = "p5"'),
    "delete_p1": Mutation('delete Person where name = "p1"'),
    "delete_old": Mutation("delete Person where age >= 90"),
    "delete_team": Mutation('delete Team where title = "t1"'),
    "delete_edge_k5": Mutation("delete Knows where mark = 5"),
    "delete_edge_k6": Mutation("delete Knows where mark = 6"),
    "delete_edge_l1": Mutation("delete Leads where mark = 1"),
    "delete_members_of_t0": Mutation('delete Member where to = "t0"'),
    # The writer.
    "write_append_q1": Write(
        [
            ("append", "Person", [person("q1", email="same")]),
            ("append", "Knows", [edge("Knows", "q1-p5", id="w1")]),
        ]
    ),
    "write_move_k6": Write(
        [
            ("upsert", "Person", [person("p5", age=50)]),
            ("upsert", "Knows", [edge("Knows", "p1-p5", id="k6", mark=60)]),
        ]
    ),
    "write_delete_k5": Write([("delete", "Knows", ["k5"]), ("delete", "Member", ["m1"])]),
    "write_delete_p5": Write([("delete", "Knows", ["k8"]), ("delete", "Person", ["p5"])]),
    "write_replace_k6": Write(
        [("delete", "Knows", ["k6"]), ("upsert", "Knows", [edge("Knows", "p2-p5", id="w2")])]
    ),
    "write_overwrite_leads": Write(
        [("overwrite", "Leads", [edge("Leads", "t0-p5", id="w3"), edge("Leads", "t0-p2", id="w4")])]
    ),
    # Loads.
    "append_q1": Load("append", [person("q1", email="same"), edge("Knows", "q1-p1", id="a1")]),
    "append_edge_p1": Load("append", [edge("Knows", "p1-p5", id="a2")]),
    "append_member": Load("append", [edge("Member", "p2-t1"), edge("Member", "p5-t0")]),
    "merge_p5": Load("merge", [person("p5", email="same", age=5), edge("Knows", "p5-p0", id="b1")]),
    "merge_moves_k6": Load("merge", [edge("Knows", "p1-p0", id="k6", mark=61)]),
    "merge_moves_l2": Load("merge", [edge("Leads", "t1-p3", id="l2", mark=62)]),
    "merge_q1": Load("merge", [person("q1", city="Oslo", desk=7), edge("Knows", "q1-q1")]),
    "update_load_p5": Load("update", [person("p5", email="same")]),
    "update_load_people": Load("update", [person("p5", city="Oslo", desk=7), person("p1", age=12)]),
    "update_load_moves_k6": Load("update", [edge("Knows", "p1-p5", id="k6")]),
    "update_load_moves_l2": Load("update", [edge("Leads", "t1-p3", id="l2")]),
    "overwrite_members": Load(
        "overwrite", [edge("Member", "p5-t1", id="m0", code="c"), edge("Member", "p2-t1", id="o1")]
    ),
    "overwrite_knows": Load(
        "overwrite", [edge("Knows", "p0-p1", id="k0"), edge("Knows", "p5-p1", id="k5")]
    ),
    "overwrite_people": Load(
        "overwrite", [*(person(f"p{n}", email=f"e{n + 1}") for n in range(5)), person("p5")]
    ),
    # Indexes.
    "indexes": Indexes(),
    "indexes_of_people": Indexes(("Person",)),
}
"""All of them run in this process."""
