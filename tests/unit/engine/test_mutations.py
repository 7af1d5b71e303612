"""Mutations beside others, their blobs, commits and receipts; `tests/scripts` has the rest."""

import threading
from collections.abc import Mapping

import pyarrow as pa
import pytest
from tests.unit.engine.graphs import Opened, SteppedClock, engine_at

from omnigraph import Graph
from omnigraph.engine.writes.mutations import MutationRequest
from omnigraph.errors import (
    DeadlineExceeded,
    IdempotencyKeyReused,
    InvalidArgument,
    PreconditionFailed,
    ReadOnlyGraph,
    ReadSetChanged,
    ResourceLimit,
)
from omnigraph.failpoints import armed
from omnigraph.graph.results.mutation_result import MutationResult
from omnigraph.ids import MAIN_BRANCH

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  email: String? @unique
  nick: String? @default("none")
  picture: Blob?
  @range(age, 0..150)
}
node Note { text: String  at: DateTime?  small: U32? }
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City @card(0..1)
"""
PEOPLE = {"Alice": 30, "Bob": 25, "Charlie": 35, "Diana": 28}


def run(
    graph: Graph, body: str, params: Mapping[str, object] | None = None, declared: str = ""
) -> MutationResult:
    return graph.mutate(f"query m({declared}) {{ {body} }}", params=params)


def people(graph: Graph, branch: str = "main") -> dict[str, int | None]:
    found = graph.snapshot(branch=branch).scan("Person", columns=["name", "age"]).read_all()
    return {str(row["name"]): row["age"] for row in found.to_pylist()}


def versions(graph: Graph, branch: str = "main") -> dict[str, tuple[str | None, int]]:
    return {
        each.table_key: (each.native_dataset_branch, each.published_dataset_version)
        for each in graph.snapshot(branch=branch).tables
    }


@pytest.fixture
def graph(graphs: Opened) -> Graph:
    graph = graphs.init(SCHEMA)
    for name, age in PEOPLE.items():
        run(graph, f'insert Person {{ name: "{name}", age: {age} }}')
    run(
        graph,
        'insert Knows { from: "Alice", to: "Bob" } insert Knows { from: "Bob", to: "Charlie" }'
        ' insert Knows { from: "Charlie", to: "Diana" }',
    )
    return graph


# --- insert -----------------------------------------------------------------------------------


def test_values_of_every_kind_arrive(graphs: Opened) -> None:
    graph = graphs.init(
        "node All { name: String @key  b: Bool?  i: I64?  u: U64?  f: F32?  g: F64?  d: Date?"
        "  t: DateTime?  l: [I32]?  v: Vector(2)?  e: enum(a, b)?  x: Blob? }"
    )
    declared = (
        "$b: Bool, $i: I64, $u: U64, $f: F32, $g: F64, $d: Date, $t: DateTime, $l: [I32],"
        " $v: Vector(2), $e: String, $x: Blob"
    )
    values: dict[str, object] = {
        "b": True,
        "i": -(2**63),
        "u": 2**64 - 1,
        "f": 0.1,
        "g": 1e300,
        "d": "2024-02-29",
        "t": "2024-02-29T12:00:00.123Z",
        "l": [1, 2],
        "v": [1.5, -2.0],
        "e": "b",
        "x": "base64:aGVsbG8=",
    }
    given = ", ".join(f"{name}: ${name}" for name in values)
    run(graph, f'insert All {{ name: "x", {given} }}', values, declared)
    found = graph.snapshot().entity("All", "x")
    assert found is not None
    assert (found["b"], found["i"], found["u"]) == (True, -(2**63), 2**64 - 1)
    assert found["f"] == pytest.approx(0.1, rel=1e-7)
    assert (str(found["d"]), found["t"].isoformat()) == (
        "2024-02-29",
        "2024-02-29T12:00:00.123000+00:00",
    )
    assert (found["l"], found["v"], found["e"]) == ([1, 2], [1.5, -2.0], "b")
    assert blob(graph, "All", "x", "x") == b"hello"


def blob(graph: Graph, type_name: str, entity: str, name: str) -> bytes | None:
    snapshot = graph.snapshot()
    found = graph._graph.tables.blob(snapshot.handle(snapshot.type(type_name)), entity, name)
    return None if found is None else found.read(0, 1000)


# --- update -----------------------------------------------------------------------------------


def test_a_statement_sees_what_the_one_before_it_did(graph: Graph) -> None:
    result = run(
        graph,
        'insert Person { name: "Eve", age: 40 } update Person set { age: 41 } where age = 40'
        " update Person set { age: 42 } where age = 41 update Person set { age: 0 } where age = 40",
    )
    assert people(graph)["Eve"] == 42
    assert result.affected_nodes == 3
    assert len(list(graph.commits)) == 7


def test_an_update_keeps_what_it_does_not_set_blobs_too(graph: Graph) -> None:
    run(graph, 'update Person set { picture: "base64:cGlj", email: "b@x" } where name = "Bob"')
    result = run(graph, 'update Person set { age: 26 } where name = "Bob"')
    assert (result.affected_nodes, result.warnings) == (1, ())
    found = graph.snapshot().entity("Person", "Bob")
    assert found is not None
    assert (found["age"], found["email"]) == (26, "b@x")
    assert blob(graph, "Person", "Bob", "picture") == b"pic"
    run(
        graph,
        'update Person set { picture: "base64:bmV3" } where name = "Alice"'
        ' update Person set { age: 27 } where name = "Bob"'
        ' insert Person { name: "Zoe" }',
    )
    assert blob(graph, "Person", "Bob", "picture") == b"pic"
    assert blob(graph, "Person", "Alice", "picture") == b"new"
    assert people(graph)["Bob"] == 27
    assert people(graph)["Zoe"] is None
    run(graph, 'update Person set { picture: null } where name = "Bob"')
    assert blob(graph, "Person", "Bob", "picture") is None


# --- delete -----------------------------------------------------------------------------------


def test_a_delete_again_leaves_every_table_where_it_is(graph: Graph) -> None:
    run(graph, 'delete Person where name = "Alice"')
    before = versions(graph)
    result = run(graph, 'delete Person where name = "Alice"')
    assert (result.affected_nodes, result.affected_edges, result.commit) == (0, 0, None)
    assert versions(graph) == before
    run(graph, 'delete Person where name = "Diana"')
    assert versions(graph)["edge:LivesIn"] == before["edge:LivesIn"]


# --- rules and conditions ---------------------------------------------------------------------


def test_a_write_is_made_only_while_the_given_commit_is_the_head(graph: Graph) -> None:
    head = graph.snapshot().graph_commit_id
    source = 'query m() { insert Person { name: "X" } }'
    assert graph.mutate(source, if_commit=head).commit is not None
    with pytest.raises(PreconditionFailed):
        graph.mutate(source, if_commit=head)
    with pytest.raises(PreconditionFailed):
        graph.mutate('query m() { delete Person where name = "Nobody" }', if_commit=head)


def test_a_key_gives_the_first_receipt_again(graph: Graph) -> None:
    source = "query m($t: String) { insert Note { text: $t } }"
    first = graph.mutate(source, params={"t": "x"}, idempotency_key="k")
    again = graph.mutate(source, params={"t": "x"}, idempotency_key="k")
    assert again == first
    assert graph.snapshot().count("Note") == 1
    with pytest.raises(IdempotencyKeyReused):
        graph.mutate(source, params={"t": "y"}, idempotency_key="k")
    for bad in ("", "x" * 201, "é", "a\n"):
        with pytest.raises(InvalidArgument):
            graph.mutate(source, params={"t": "x"}, idempotency_key=bad)


def test_a_key_is_looked_at_before_a_condition(graph: Graph) -> None:
    head = graph.snapshot().graph_commit_id
    source = 'query m() { insert Note { text: "x" } }'
    first = graph.mutate(source, if_commit=head, idempotency_key="k")
    assert graph.mutate(source, if_commit=head, idempotency_key="k") == first
    with pytest.raises(PreconditionFailed):
        graph.mutate(source, if_commit=head, idempotency_key="other")


def test_the_receipt_is_that_of_the_contract(graph: Graph) -> None:
    actor = graph.as_actor("ann")
    found = actor.mutate('query m() { insert City { name: "rome" } }').to_dict()
    assert set(found) == {
        "branch", "query_name", "affected_nodes", "affected_edges", "actor_id", "commit",
    }  # fmt: skip
    assert (found["branch"], found["query_name"], found["actor_id"]) == ("main", "m", "ann")
    assert found["commit"]["kind"] == "mutation"
    assert found["commit"]["graph_commit_id"] == graph.snapshot().graph_commit_id


def test_without_time_or_the_right_to_write_nothing_happens(graphs: Opened, graph: Graph) -> None:
    source = 'query m() { insert City { name: "x" } }'
    request = MutationRequest(source=source, branch=MAIN_BRANCH)
    for number in range(2, 5):
        late = engine_at(graph, SteppedClock(number))
        with pytest.raises(DeadlineExceeded):
            late.mutate(graph._graph.protocol, graph._graph.ids, request, timeout_s=1)
    reader = Graph.open(graphs._root / "g0", mode="read_only")
    with reader, pytest.raises(ReadOnlyGraph):
        run(reader, 'insert City { name: "x" }')
    assert graph.snapshot().count("City") == 0


def test_more_rows_than_a_mutation_may_write_are_refused(graphs: Opened) -> None:
    graph = graphs.init("node N { name: String @key  a: I32? }")
    with graph.write() as write:
        write.append("N", pa.table({"name": [f"n{number}" for number in range(8_193)]}))
        write.commit()
    with pytest.raises(ResourceLimit) as caught:
        run(graph, 'update N set { a: 1 } where name != ""')
    assert caught.value.details["resource"] == "keyed write entities for node:N"
    assert run(graph, 'update N set { a: 1 } where name != "n0"').affected_nodes == 8_192
    assert run(graph, 'delete N where name != ""').affected_nodes == 8_193


# --- with others ------------------------------------------------------------------------------


def test_inserts_of_many_threads_all_land_once(graph: Graph) -> None:
    def insert(worker: int) -> None:
        for number in range(5):
            run(graph, f'insert Person {{ name: "w{worker}-{number}" }}')

    threads = [threading.Thread(target=insert, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert graph.snapshot().count("Person") == 24


def test_of_two_updates_of_one_row_one_wins_and_the_other_is_told(
    graphs: Opened, graph: Graph
) -> None:
    other = graphs.again(graph)
    done: list[int] = []

    def overtake() -> None:
        if not done:
            done.append(1)
            run(other, 'update Person set { age: 99 } where name = "Bob"')

    with armed("mutation.post_stage_pre_lease", overtake), pytest.raises(ReadSetChanged):
        run(graph, 'update Person set { age: 11 } where name = "Bob"')
    assert people(graph)["Bob"] == 99
    done.clear()
    with armed("mutation.post_stage_pre_lease", overtake):
        run(graph, 'update Person set { age: 12 } where name = "Alice"')
    assert (people(graph)["Alice"], people(graph)["Bob"]) == (12, 99)


def test_deletes_of_other_nodes_and_their_edges_do_not_disturb_each_other(
    graphs: Opened, graph: Graph
) -> None:
    for name in ("Eve", "Finn", "Gil", "Hal"):
        run(graph, f'insert Person {{ name: "{name}" }}')
    run(graph, 'insert Knows { from: "Eve", to: "Finn" }')
    run(graph, 'insert Knows { from: "Gil", to: "Hal" }')
    other = graphs.again(graph)
    waiting = ["Gil"]

    def overtake() -> None:
        if waiting:
            run(other, f'delete Person where name = "{waiting.pop()}"')

    with armed("mutation.post_stage_pre_lease", overtake):
        run(graph, 'delete Person where name = "Eve"')
    assert not {"Eve", "Gil"} & set(people(graph))
    run(graph, 'insert Person { name: "Eve" }')
    run(graph, 'insert Knows { from: "Eve", to: "Hal" }')
    waiting.append("Hal")
    with armed("mutation.post_stage_pre_lease", overtake), pytest.raises(ReadSetChanged):
        # The edge that goes with the other node is one that this delete would remove too.
        run(graph, 'delete Person where name = "Eve"')


def test_two_updates_that_count_up_one_row_lose_no_count(graphs: Opened, graph: Graph) -> None:
    other = graphs.again(graph)
    count_up = 'update Person set { age: age + 1 } where name = "Bob"'
    waiting = [count_up]

    def overtake() -> None:
        if waiting:
            run(other, waiting.pop())

    with armed("mutation.post_stage_pre_lease", overtake), pytest.raises(ReadSetChanged):
        run(graph, count_up)
    assert people(graph)["Bob"] == PEOPLE["Bob"] + 1
    waiting.append('update Person set { age: age + 1 } where name = "Alice"')
    with armed("mutation.post_stage_pre_lease", overtake):
        run(graph, count_up)
    assert people(graph)["Bob"] == PEOPLE["Bob"] + 2
    assert people(graph)["Alice"] == PEOPLE["Alice"] + 1


# --- vectors ----------------------------------------------------------------------------------


def test_an_insert_of_what_is_absent_leaves_a_node_that_came_meanwhile(
    graphs: Opened, graph: Graph
) -> None:
    other = graphs.again(graph)
    waiting = [7]

    def overtake() -> None:
        if waiting:
            run(other, f'insert Person {{ name: "Eve", age: {waiting.pop()} }}')

    with armed("mutation.post_stage_pre_lease", overtake):
        result = run(graph, 'insert Person if absent { name: "Eve", age: 8 }')
    assert (result.affected_nodes, result.commit) == (0, None)
    assert people(graph)["Eve"] == 7


def test_an_update_of_edges_meets_whoever_changes_one_that_it_selects(
    graphs: Opened, graph: Graph
) -> None:
    run(graph, 'insert Knows { from: "Diana", to: "Diana", since: 1 }')
    run(graph, 'insert Knows { from: "Bob", to: "Bob", since: 5 }')
    other = graphs.again(graph)
    waiting = ['update Knows set { since: 6 } where from = "Bob" and to = "Bob"']

    def overtake() -> None:
        if waiting:
            run(other, waiting.pop())

    update = 'update Knows set { since: 2 } where from = "Diana" and to = "Diana" or since < 2'
    with armed("mutation.post_stage_pre_lease", overtake):
        assert run(graph, update).affected_edges == 1
    waiting.append('delete Person where name = "Diana"')
    with armed("mutation.post_stage_pre_lease", overtake), pytest.raises(ReadSetChanged):
        run(graph, update)


def test_a_condition_that_names_no_row_meets_every_change(graphs: Opened, graph: Graph) -> None:
    other = graphs.again(graph)
    waiting = ['update Person set { age: 1 } where name = "Bob"']

    def overtake() -> None:
        if waiting:
            run(other, waiting.pop())

    with armed("mutation.post_stage_pre_lease", overtake), pytest.raises(ReadSetChanged):
        run(graph, "update Person set { age: 3 } where name != nick")
    waiting.append('update Person set { age: 2 } where name = "Bob"')
    with armed("mutation.post_stage_pre_lease", overtake):
        run(graph, 'delete Person where id in ["Alice", "Diana"] and nick != name')
    assert people(graph)["Bob"] == 2
