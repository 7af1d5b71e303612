"""Conflicts with the rules of a schema, decided by those who have a part in them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.engine.graphs import fill, put, remove
from tests.unit.graph.merge.merges import (
    ages,
    apart,
    knows,
    links,
    made,
    people,
    planned,
)

from omnigraph.errors import InvalidArgument, MergeConflicts

if TYPE_CHECKING:
    from tests.unit.graph.graphs import Opened

    from omnigraph import Graph


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


def _decided(graph: Graph, *given: dict[str, Any], **how: Any) -> list[tuple[str, str]]:  # noqa: ANN401
    """What is recorded of a merge with decisions."""
    commit = made(graph.branches.merge("b", resolutions=given, **how))
    return [(each["id"], each["take"]) for each in commit.stats["merge"]["decided"]]


def _emails(graph: Graph) -> dict[str, str | None]:
    found = graph.snapshot().scan("Person").read_all().to_pylist()
    return {row["id"]: row["email"] for row in found}


@pytest.fixture
def twins(graphs: Opened) -> Graph:
    """Each side has a person with the same address."""
    graph = graphs.init()
    apart(
        graph,
        lambda graph, branch: put(graph, branch=branch, Person=[{"name": "u1", "email": "e"}]),
        lambda graph, branch: put(graph, branch=branch, Person=[{"name": "u2", "email": "e"}]),
    )
    return graph


@pytest.mark.parametrize(
    ("decision", "left"),
    [
        ({"id": "u1", "take": "delete"}, {"u2": "e"}),
        ({"id": "u2", "take": "delete"}, {"u1": "e"}),
        ({"id": "u2", "take": "theirs"}, {"u1": "e"}),
        ({"id": "u2", "row": {"name": "u2", "email": "f"}}, {"u1": "e", "u2": "f"}),
    ],
    ids=str,
)
def test_a_value_that_two_have_is_decided_by_either_of_them(
    twins: Graph, decision: dict[str, Any], left: dict[str, str]
) -> None:
    (conflict,) = twins.branches.merge_plan("b").conflict_list
    assert conflict.entity_ids == ("u1", "u2")
    assert conflict.to_dict()["entity_ids"] == ["u1", "u2"]
    assert "'u1'" in conflict.message
    assert "'u2'" in conflict.message
    _decided(twins, {"type": "Person", **decision})
    assert _emails(twins) == left


def test_a_decision_that_changes_nothing_leaves_the_conflict(twins: Graph) -> None:
    assert planned(twins, resolutions={"type": "Person", "id": "u2", "take": "ours"}) == [
        ("Person", "u1", "unique_violation")
    ]


CARD = """
node P { name: String @key }
edge Low: P -> P @card(1..)
edge High: P -> P @card(0..2)
"""


def _edge(edge_id: str, ends: str) -> dict[str, str]:
    return {"id": edge_id, "src": ends[0], "dst": ends[1]}


@pytest.fixture
def few(graphs: Opened) -> Graph:
    """Two edges of `a` that each side removes one of; `a` needs one."""
    graph = graphs.init(CARD)
    fill(
        graph,
        P=[{"name": each} for each in "abc"],
        Low=[_edge("1", "ab"), _edge("2", "ac"), _edge("3", "bc")],
    )
    apart(
        graph,
        lambda graph, branch: remove(graph, branch=branch, Low=["1"]),
        lambda graph, branch: remove(graph, branch=branch, Low=["2"]),
    )
    return graph


@pytest.mark.parametrize(
    ("decision", "left"),
    [
        ({"id": "1", "take": "ours"}, {"1": "ab"}),
        ({"id": "1", "take": "base"}, {"1": "ab"}),
        ({"id": "2", "take": "theirs"}, {"2": "ac"}),
        ({"id": "2", "row": {"from": "a", "to": "a"}}, {"2": "aa"}),
    ],
    ids=str,
)
def test_too_few_edges_are_decided_by_those_that_went(
    few: Graph, decision: dict[str, Any], left: dict[str, str]
) -> None:
    (conflict,) = few.branches.merge_plan("b").conflict_list
    assert (conflict.type_name, conflict.entity_id) == ("Low", "a")
    assert conflict.entity_ids == ("1", "2")
    _decided(few, {"type": "Low", **decision})
    found = few.snapshot().scan("Low").read_all().to_pylist()
    assert {row["id"]: row["src"] + row["dst"] for row in found} == {**left, "3": "bc"}


def test_what_a_conflict_with_a_rule_advises_decides_it(few: Graph) -> None:
    (conflict,) = few.branches.merge_plan("b").conflict_list
    assert conflict.remedy == '{"type": "Low", "id": "1", "take": "ours"}'
    with pytest.raises(MergeConflicts) as caught:
        few.branches.merge("b")
    assert conflict.remedy in caught.value.message
    assert _decided(few, json.loads(conflict.remedy)) == [("1", "ours")]


@pytest.mark.parametrize(
    "given",
    [
        {"id": "1", "take": "theirs"},
        {"id": "2", "take": "ours"},
        {"id": "1", "row": {"from": "b", "to": "a"}},
    ],
    ids=str,
)
def test_decisions_that_leave_too_few_edges_are_no_way_out(
    few: Graph, given: dict[str, Any]
) -> None:
    assert planned(few, resolutions={"type": "Low", **given}) == [
        ("Low", "a", "cardinality_violation")
    ]


@pytest.mark.parametrize("entity", ["a", "3", "9"])
def test_no_decision_is_taken_of_an_edge_that_has_no_part_in_the_count(
    few: Graph, entity: str
) -> None:
    """Not even a row for an edge that is not there: none is invented."""
    given = {"type": "Low", "id": entity, "row": {"from": "a", "to": "b"}}
    with pytest.raises(InvalidArgument, match="without a conflict; remove it; there is one of Low"):
        few.branches.merge("b", resolutions=given)


@pytest.fixture
def many(graphs: Opened) -> Graph:
    """An edge of `a` to which each side adds another; `a` may have two."""
    graph = graphs.init(CARD)
    fill(graph, P=[{"name": each} for each in "abc"], High=[_edge("1", "ab")])
    apart(
        graph,
        lambda graph, branch: put(graph, branch=branch, High=[_edge("2", "ac")]),
        lambda graph, branch: put(graph, branch=branch, High=[_edge("3", "aa")]),
    )
    return graph


@pytest.mark.parametrize(
    ("entity", "take"), [("1", "delete"), ("2", "ours"), ("3", "theirs"), ("3", "delete")]
)
def test_too_many_edges_are_decided_by_any_of_them(many: Graph, entity: str, take: str) -> None:
    (conflict,) = many.branches.merge_plan("b").conflict_list
    assert (conflict.entity_id, conflict.entity_ids) == ("a", ("2", "3"))
    assert conflict.remedy == '{"type": "High", "id": "2", "take": "delete"}'
    _decided(many, {"type": "High", "id": entity, "take": take})
    left = many.snapshot().scan("High").read_all()["id"].to_pylist()
    assert set(left) == {"1", "2", "3"} - {entity}


def test_too_many_edges_are_decided_by_moving_one(many: Graph) -> None:
    _decided(many, {"type": "High", "id": "1", "row": {"from": "c", "to": "b"}})
    found = many.snapshot().scan("High").read_all().to_pylist()
    assert {row["id"]: row["src"] for row in found} == {"1": "c", "2": "a", "3": "a"}


def test_a_node_that_is_kept_keeps_its_edges_by_decision(graphs: Opened) -> None:
    """One side deletes a node with its edges, the other changes it, and it is kept."""
    graph = graphs.init("node P { name: String @key n: I32? } edge L: P -> P @card(1..)")
    fill(graph, P=[{"name": "a"}, {"name": "b"}], L=[_edge("1", "ab")])
    apart(
        graph,
        lambda graph, branch: remove(graph, branch=branch, P=["a"], L=["1"]),
        lambda graph, branch: put(graph, branch=branch, P=[{"name": "a", "n": 1}]),
    )
    assert planned(graph) == [("P", "a", "delete_vs_update")]
    assert planned(graph, strategy="ours") == [("L", "a", "cardinality_violation")]
    (conflict,) = graph.branches.merge_plan("b", strategy="ours").conflict_list
    remedy = json.loads(conflict.remedy or "")
    assert _decided(graph, remedy, strategy="ours") == [("1", "ours"), ("a", "ours")]
    assert graph.snapshot().count("L") == 1


def test_what_is_advised_of_too_few_edges_brings_one_that_the_merge_lacks(graphs: Opened) -> None:
    """An edge that both sides changed is there already, or moved away by the strategy alone."""
    graph = graphs.init("node P { name: String @key } edge L: P -> P @card(2..) { n: I32? }")
    ends = {"1": "ab", "2": "ab", "3": "ab", "4": "ab", "5": "bb", "6": "bb", "7": "bb"}
    fill(
        graph,
        P=[{"name": each} for each in "abcd"],
        L=[_edge(each, where) for each, where in ends.items()],
    )

    def source(graph: Graph, branch: str) -> None:
        put(graph, branch=branch, L=[_edge(each, "da") for each in "78"])
        remove(graph, branch=branch, L=["1", "3"])

    def target(graph: Graph, branch: str) -> None:
        put(graph, branch=branch, L=[{**_edge("1", "ab"), "n": 1}])
        put(graph, branch=branch, L=[_edge(each, "ca") for each in "79"])
        remove(graph, branch=branch, L=["2", "4"])

    apart(graph, source, target)
    advised = {
        strategy: {
            each.entity_id: json.loads(each.remedy or "")
            for each in graph.branches.merge_plan("b", strategy=strategy).conflict_list
        }
        for strategy in ("ours", "theirs")
    }
    # By `ours` the first edge of `a` stays, and by `theirs` the seventh leaves `c`.
    assert advised["ours"] == {
        "a": {"type": "L", "id": "3", "take": "ours"},
        "d": {"type": "L", "id": "7", "take": "theirs"},
    }
    assert advised["theirs"] == {
        "a": {"type": "L", "id": "1", "take": "ours"},
        "c": {"type": "L", "id": "7", "take": "ours"},
    }
    left = planned(graph, strategy="ours", resolutions=advised["ours"]["a"])
    assert left == [("L", "d", "cardinality_violation")]


def test_decisions_that_a_rule_asks_for_later_wait_for_the_other_ones(graphs: Opened) -> None:
    """A node is undecided, and only one of its forms makes the edge an orphan."""
    graph = graphs.init()
    people(graph, "main", x=0, n=0, o=0)

    def source(graph: Graph, branch: str) -> None:
        people(graph, branch, n=1)
        knows(graph, branch, new="x-n", other="x-o")

    apart(graph, source, lambda graph, branch: remove(graph, branch=branch, Person=["n", "o"]))
    waiting = [*_orphan("delete"), {"type": "Knows", "id": "other", "take": "delete"}]
    assert planned(graph, resolutions=waiting) == [("Person", "n", "delete_vs_update")]
    with pytest.raises(InvalidArgument, match="the resolution of Knows 'third' is for an entity"):
        planned(graph, resolutions=[*waiting, {"type": "Knows", "id": "third", "take": "delete"}])
    node = {"type": "Person", "id": "n", "take": "ours"}
    assert planned(graph, resolutions=[node, *waiting]) == []


def test_the_table_of_conflicts_has_who_has_a_part(many: Graph) -> None:
    (row,) = many.branches.merge_plan("b").conflicts.to_pylist()
    assert (row["id"], row["entity_ids"]) == ("a", ["2", "3"])
    assert row["remedy"].startswith('{"type": "High"')
    assert row["message"].startswith("@card violation on edge High: source 'a' has 3 edges")
