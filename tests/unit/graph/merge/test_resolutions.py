"""Conflicts decided: by a strategy, entity by entity, and what is refused."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.unit.engine.graphs import fill, put, remove
from tests.unit.graph.graphs import Opened
from tests.unit.graph.merge.merges import (
    ages,
    apart,
    head,
    knows,
    links,
    made,
    people,
    planned,
)

from omnigraph.errors import IdempotencyKeyReused, InvalidArgument, MergeConflicts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph import Graph

START = {"both": 0, "cut": 0, "gone": 0, "x": 0, "y": 0}
CONTESTED = ["both", "cut", "gone", "new"]


def _source(graph: Graph, branch: str) -> None:
    people(graph, branch, both=1, cut=1, new=1)
    remove(graph, branch=branch, Person=["gone"])
    knows(graph, branch, e="x-x:1")


def _target(graph: Graph, branch: str) -> None:
    people(graph, branch, both=2, gone=2, new=2)
    remove(graph, branch=branch, Person=["cut"])
    knows(graph, branch, e="x-y:2")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    graphs = Opened(tmp_path_factory.mktemp("contested"))
    yield graphs
    graphs.close()


@pytest.fixture(scope="module")
def contested(opened: Opened) -> Graph:
    """Branches `b` and `t` with every kind of contest; tests merge into copies of `t`."""
    graph = opened.init()
    people(graph, "main", **START)
    knows(graph, "main", e="x-y")
    for branch, act in (("b", _source), ("t", _target)):
        graph.branches.create(branch)
        act(graph, branch)
    return graph


@pytest.fixture
def copy(contested: Graph) -> str:
    """A branch that has what `t` has."""
    name = f"t{len(contested.branches.list())}"
    contested.branches.create(name, from_="t")
    return name


def every(take: str) -> list[dict[str, Any]]:
    """The same decision for all."""
    given = [{"type": "Person", "id": each, "take": take} for each in CONTESTED]
    return [*given, {"type": "Knows", "id": "e", "take": take}]


REST = {"x": 0, "y": 0}
OURS = {"both": 2, "gone": 2, "new": 2, **REST}, {"e": "x-y:2"}
THEIRS = {"both": 1, "cut": 1, "new": 1, **REST}, {"e": "x-x:1"}
TAKEN: dict[str, tuple[dict[str, int], dict[str, str]]] = {
    "ours": OURS,
    "theirs": THEIRS,
    "base": ({"both": 0, "cut": 0, "gone": 0, **REST}, {"e": "x-y"}),
    "delete": (REST, {}),
}
KINDS = {
    "both": "divergent_update",
    "cut": "delete_vs_update",
    "e": "divergent_update",
    "gone": "delete_vs_update",
    "new": "divergent_insert",
}


def test_without_a_decision_nothing_is_taken(contested: Graph) -> None:
    assert {each: kind for _, each, kind in planned(contested, into="t")} == KINDS


@pytest.mark.parametrize("take", TAKEN)
def test_every_form_can_be_taken(contested: Graph, copy: str, take: str) -> None:
    commit = made(contested.branches.merge("b", into=copy, resolutions=every(take)))
    assert (ages(contested, copy), links(contested, copy)) == TAKEN[take]
    facts = commit.stats["merge"]
    assert (facts["decided_count"], facts["strategy"]) == (5, "fail")
    assert {each["id"]: each["kind"] for each in facts["decided"]} == KINDS
    assert {each["take"] for each in facts["decided"]} == {take}
    assert {each["type"] for each in facts["decided"]} == {"Person", "Knows"}


@pytest.mark.parametrize("strategy", ["ours", "theirs"])
def test_a_strategy_decides_what_is_left(contested: Graph, copy: str, strategy: str) -> None:
    other = {"ours": "theirs", "theirs": "ours"}[strategy]
    chosen = [{"type": "node:Person", "id": "both", "take": other}]
    commit = made(contested.branches.merge("b", into=copy, strategy=strategy, resolutions=chosen))
    expected, edges = TAKEN[strategy]
    swapped = expected | {"both": TAKEN[other][0]["both"]}
    assert (ages(contested, copy), links(contested, copy)) == (swapped, edges)
    taken = {each["id"]: each["take"] for each in commit.stats["merge"]["decided"]}
    assert taken == dict.fromkeys(KINDS, strategy) | {"both": other}
    assert contested.branches.merge("b", into=copy).outcome == "already_up_to_date"


def test_rows_of_ones_own(contested: Graph, copy: str) -> None:
    lines = [
        {"type": "Person", "id": "both", "row": {"name": "both", "age": 7}},
        {"type": "Person", "id": "cut", "row": {"name": "cut", "age": 8}},
        {"type": "Person", "id": "gone", "row": {"name": "gone"}},
        {"type": "Person", "id": "new", "row": {"name": "new", "age": None}},
        {"type": "Knows", "id": "e", "row": {"from": "y", "to": "both", "since": 5}},
    ]
    given = b"\n\n".join(json.dumps(line).encode() for line in lines) + b"\n"
    commit = made(contested.branches.merge("b", into=copy, resolutions=given))
    assert ages(contested, copy) == {"both": 7, "cut": 8, "gone": None, "new": None, **REST}
    assert links(contested, copy) == {"e": "y-both:5"}
    assert {each["take"] for each in commit.stats["merge"]["decided"]} == {"row"}


def test_decisions_for_some_leave_the_others_as_conflicts(contested: Graph) -> None:
    chosen = every("theirs")[:2]
    left = {each: kind for _, each, kind in planned(contested, into="t", resolutions=chosen)}
    assert left == {each: kind for each, kind in KINDS.items() if each not in ("both", "cut")}


ROWS: list[tuple[str, str, dict[Any, Any]]] = [
    ("Person", "both", {"name": "other"}),
    ("Person", "both", {}),
    ("Person", "both", {"name": "both", "age": "old"}),
    ("Person", "both", {"name": "both", "age": 2**40}),
    ("Person", "both", {"name": "both", "weight": 1}),
    ("Person", "both", {"name": None}),
    ("Person", "both", {"name": "both", "age": date(2020, 1, 1)}),
    ("Person", "both", {"name": "both", "age": float("nan")}),
    ("Person", "both", {"name": "both", 7: 1}),
    ("Person", "both", {"name": "both", "age": {1, 2}}),
    ("Knows", "e", {"since": 1}),
    ("Knows", "e", {"from": "x", "since": 1}),
    ("Knows", "e", {"from": 1, "to": "y"}),
    ("Knows", "e", {"src": "x", "dst": "y"}),
    ("Knows", "e", {"from": "x", "to": "y", "odd": 1}),
]


@pytest.mark.parametrize(("name", "entity", "row"), ROWS, ids=str)
def test_a_row_that_does_not_fit_is_refused(
    contested: Graph, name: str, entity: str, row: dict[str, Any]
) -> None:
    before = head(contested, "t")
    chosen = [{"type": name, "id": entity, "row": row}]
    with pytest.raises(InvalidArgument) as caught:
        contested.branches.merge("b", into="t", strategy="ours", resolutions=chosen)
    assert caught.value.details["argument"] == "resolutions"
    assert head(contested, "t") == before


def test_a_row_is_held_against_the_rules(contested: Graph) -> None:
    chosen = [{"type": "Knows", "id": "e", "row": {"from": "x", "to": "nobody"}}]
    assert planned(contested, into="t", strategy="ours", resolutions=chosen) == [
        ("Knows", "e", "orphan_edge")
    ]


MALFORMED: list[Any] = [
    [{}],
    [{"type": "Person", "id": "both"}],
    [{"type": "Person", "take": "ours"}],
    [{"id": "both", "take": "ours"}],
    [{"type": "Person", "id": 1, "take": "ours"}],
    [{"type": None, "id": "both", "take": "ours"}],
    [{"type": "Person", "id": "both", "take": "mine"}],
    [{"type": "Person", "id": "both", "take": "row"}],
    [{"type": "Person", "id": "both", "take": ["ours"]}],
    [{"type": "Person", "id": "both", "take": {}}],
    [{"type": "Person", "id": "both", "take": "ours", "row": {"name": "both"}}],
    [{"type": "Person", "id": "both", "row": "both"}],
    [{"type": "Person", "id": "both", "row": []}],
    [{"type": "Person", "id": "both", "take": "ours", "why": "so"}],
    [*every("ours"), *every("ours")],
    [*every("ours"), {"type": "Person", "id": "both", "take": "theirs"}],
    [None],
    ["ours"],
    "ours",
    7,
    {"type": "Person", "id": "both", "take": "ours"},
    b"ours",
    b"[]",
    b"{",
    b"\xff",
    b'{"type": "Person", "id": "both", "take": "ours"} {}',
    b'{"type": "Person", "id": "both", "take": ["ours"]}',
]
UNUSED: list[Any] = [
    [*every("ours"), {"type": "Person", "id": "x", "take": "ours"}],
    [*every("ours"), {"type": "Person", "id": "nobody", "take": "delete"}],
    [*every("ours"), {"type": "Nothing", "id": "both", "take": "ours"}],
    [*every("ours"), {"type": "Doc", "id": "both", "take": "ours"}],
    [*every("ours"), {"type": "edge:Person", "id": "both", "take": "ours"}],
    [*every("ours"), {"type": "node:Person", "id": "both", "take": "ours"}],
    [*every("ours"), {"type": "Person", "id": "", "take": "ours"}],
    [*every("ours"), {"type": "Person", "id": "x", "row": {"name": "x"}}],
]


@pytest.mark.parametrize("given", [*MALFORMED, *UNUSED], ids=lambda given: str(given)[-60:])
def test_decisions_that_are_wrong_or_not_needed_are_refused(contested: Graph, given: Any) -> None:  # noqa: ANN401
    before = head(contested, "t")
    with pytest.raises(InvalidArgument) as caught:
        contested.branches.merge("b", into="t", resolutions=given)
    assert caught.value.details["argument"] == "resolutions"
    assert head(contested, "t") == before


def test_a_wrong_line_is_named(contested: Graph) -> None:
    given = b'{"type": "Person", "id": "both", "take": "ours"}\n\n{"type": 1}\n'
    with pytest.raises(InvalidArgument, match="resolution 3: ") as caught:
        contested.branches.merge_plan("b", into="t", resolutions=given)
    assert caught.value.details["line"] == 3


def test_decisions_for_a_merge_that_has_nothing_to_do_are_refused(contested: Graph) -> None:
    contested.branches.create("idle", from_="t")
    with pytest.raises(InvalidArgument):
        contested.branches.merge("idle", into="t", resolutions=every("ours"))
    assert contested.branches.merge("idle", into="t", resolutions=[]).commit is None


def test_the_key_of_a_request_knows_its_decisions(contested: Graph, copy: str) -> None:
    def merged(take: str, **how: Any) -> str:  # noqa: ANN401
        chosen = reversed(every(take)) if how else every(take)
        done = contested.branches.merge("b", into=copy, resolutions=chosen, idempotency_key="k")
        return made(done).graph_commit_id

    first = merged("ours")
    assert merged("ours", order="another") == first
    with pytest.raises(IdempotencyKeyReused):
        merged("theirs")


# --- rules ------------------------------------------------------------------------------------


@pytest.fixture
def small(graphs: Opened) -> Graph:
    """Three persons, an edge."""
    graph = graphs.init()
    people(graph, "main", x=0, y=0, n=0)
    knows(graph, "main", e="x-y")
    return graph


def _removes(graph: Graph, branch: str) -> None:
    remove(graph, branch=branch, Person=["n"])


def _orphan(take: str) -> list[dict[str, str]]:
    return [{"type": "Knows", "id": "new", "take": take}]


@pytest.mark.parametrize("take", ["delete", "base", "ours"])
def test_an_edge_of_the_source_without_its_node_is_left_out(small: Graph, take: str) -> None:
    apart(small, lambda graph, branch: knows(graph, branch, new="x-n", e="x-y:3"), _removes)
    assert planned(small) == [("Knows", "new", "orphan_edge")]
    assert planned(small, resolutions=_orphan("theirs")) == [("Knows", "new", "orphan_edge")]
    commit = made(small.branches.merge("b", resolutions=_orphan(take)))
    assert links(small) == {"e": "x-y:3"}
    assert commit.stats["merge"]["decided"] == [
        {"type": "Knows", "id": "new", "kind": "rule", "take": take}
    ]


@pytest.mark.parametrize("take", ["delete", "base", "theirs"])
def test_an_edge_of_the_target_without_its_node_is_removed(small: Graph, take: str) -> None:
    apart(small, _removes, lambda graph, branch: knows(graph, branch, new="n-x"))
    assert planned(small, resolutions=_orphan("ours")) == [("Knows", "new", "orphan_edge")]
    small.branches.merge("b", resolutions=_orphan(take))
    assert (links(small), ages(small)) == ({"e": "x-y"}, {"x": 0, "y": 0})


def test_an_edge_without_its_node_gets_another_one(small: Graph) -> None:
    apart(small, _removes, lambda graph, branch: knows(graph, branch, new="n-x"))
    chosen = [{"type": "Knows", "id": "new", "row": {"from": "y", "to": "x"}}]
    small.branches.merge("b", resolutions=chosen)
    assert links(small) == {"e": "x-y", "new": "y-x"}


def test_an_edge_that_was_moved_to_a_deleted_node_stays_where_it_was(small: Graph) -> None:
    apart(small, lambda graph, branch: knows(graph, branch, e="x-n"), _removes)
    chosen = [{"type": "Knows", "id": "e", "take": "base"}]
    small.branches.merge("b", resolutions=chosen)
    assert links(small) == {"e": "x-y"}


def test_a_decision_for_the_node_brings_the_orphan_of_it(small: Graph) -> None:
    """The node was changed there and deleted here; taking the deletion strands its new edge."""

    def source(graph: Graph, branch: str) -> None:
        people(graph, branch, n=1)
        knows(graph, branch, new="x-n")

    apart(small, source, _removes)
    node = {"type": "Person", "id": "n", "take": "ours"}
    assert planned(small) == [("Person", "n", "delete_vs_update")]
    assert planned(small, resolutions=[node]) == [("Knows", "new", "orphan_edge")]
    assert planned(small, strategy="ours") == [("Knows", "new", "orphan_edge")]
    assert planned(small, strategy="theirs") == []
    done = small.branches.merge("b", resolutions=[node, *_orphan("delete")])
    assert made(done).stats["merge"]["decided_count"] == 2
    assert (links(small), ages(small)) == ({"e": "x-y"}, {"x": 0, "y": 0})


def test_one_decision_may_bring_out_the_need_of_another(graphs: Opened) -> None:
    """The row that is given for one edge takes the place of a second one, decided as well."""
    graph = graphs.init(
        "node P { name: String @key } edge L: P -> P { @unique(src, dst) } edge M: P -> P"
    )
    fill(graph, P=[{"name": each} for each in "abcn"])
    graph.branches.create("b")
    remove(graph, branch="b", P=["n"])
    put(graph, branch="b", L=[{"id": "other", "src": "a", "dst": "b"}])
    put(graph, L=[{"id": "new", "src": "a", "dst": "n"}])
    moved: dict[str, Any] = {"type": "L", "id": "new", "row": {"from": "a", "to": "b"}}
    assert planned(graph, resolutions=[moved]) == [("L", "other", "unique_violation")]
    both = [moved, {"type": "L", "id": "other", "take": "delete"}]
    decided = made(graph.branches.merge("b", resolutions=both)).stats["merge"]["decided"]
    assert [(each["id"], each["take"]) for each in decided] == [("new", "row"), ("other", "delete")]
    assert graph.snapshot().scan("L").read_all()["id"].to_pylist() == ["new"]


def test_a_value_that_both_took_is_decided_by_the_one_that_is_told(graphs: Opened) -> None:
    graph = graphs.init()
    apart(
        graph,
        lambda graph, branch: put(graph, branch=branch, Person=[{"name": "s", "email": "e"}]),
        lambda graph, branch: put(graph, branch=branch, Person=[{"name": "t", "email": "e"}]),
    )
    assert planned(graph) == [("Person", "s", "unique_violation")]
    row = {"name": "s", "email": "other"}
    graph.branches.merge("b", resolutions=[{"type": "Person", "id": "s", "row": row}])
    found = graph.snapshot().scan("Person").read_all().to_pylist()
    assert {each["id"]: each["email"] for each in found} == {"s": "other", "t": "e"}


def test_no_decision_invents_an_edge_for_a_count(graphs: Opened) -> None:
    """What is told of a broken count is the node, which is no edge of the type."""
    graph = graphs.init("node P { name: String @key } edge L: P -> P @card(1..)")
    fill(
        graph,
        P=[{"name": "a"}, {"name": "b"}],
        L=[{"id": "1", "src": "a", "dst": "a"}, {"id": "2", "src": "a", "dst": "b"}],
    )
    apart(
        graph,
        lambda graph, branch: remove(graph, branch=branch, L=["1"]),
        lambda graph, branch: remove(graph, branch=branch, L=["2"]),
    )
    assert planned(graph) == [("L", "a", "cardinality_violation")]
    chosen = [{"type": "L", "id": "a", "row": {"from": "a", "to": "b"}}]
    with pytest.raises(MergeConflicts):
        graph.branches.merge("b", resolutions=chosen)


def test_a_row_cannot_give_a_blob(graphs: Opened) -> None:
    graph = graphs.init("node File { name: String @key  x: Blob?  n: I32? }")
    cell = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
    graph.branches.create("b")
    for branch, data in (("b", b"1"), ("main", b"2")):
        with graph.write(branch) as writer:
            blobs = pa.array([{"data": data, "uri": None}], cell)
            writer.upsert("File", pa.table({"name": ["f"], "x": blobs}))
            writer.commit()
    row: dict[str, object] = {"name": "f", "n": 1}
    with pytest.raises(InvalidArgument, match="blob 'x'"):
        graph.branches.merge(
            "b", resolutions=[{"type": "File", "id": "f", "row": row | {"x": "base64:AA=="}}]
        )
    (conflict,) = graph.branches.merge_plan("b").conflict_list
    assert conflict.message.endswith("different values of x")
    graph.branches.merge("b", resolutions=[{"type": "File", "id": "f", "take": "theirs"}])
    assert graph.blob("node", "File", "f", "x").read() == b"1"
