"""Conflicts decided: by a strategy, entity by entity, and what is refused."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.unit.engine.graphs import remove
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

from omnigraph.errors import IdempotencyKeyReused, InvalidArgument
from omnigraph.graph.merge import merge as merge_module
from omnigraph.graph.merge.resolutions import resolution_bodies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.graph.merge.merges import Change

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


def test_of_very_many_decisions_those_of_resolutions_are_recorded_first(
    contested: Graph, copy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_module, "_RECORDED_DECISIONS", 2)
    chosen = [{"type": "Knows", "id": "e", "take": "theirs"}]
    commit = made(contested.branches.merge("b", into=copy, strategy="ours", resolutions=chosen))
    facts = commit.stats["merge"]
    assert (facts["decided_count"], facts["strategy"]) == (5, "ours")
    assert [(each["id"], each["take"]) for each in facts["decided"]] == [
        ("e", "theirs"),
        ("both", "ours"),
    ]


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
    ("Person", "both", {"id": "x", "name": "both"}),
    ("Person", "both", {"id": None, "name": "both"}),
    ("Knows", "e", {"id": "f", "from": "x", "to": "y"}),
    ("Knows", "e", {"from": "x", "to": "y", "src": "y"}),
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


def test_a_row_may_repeat_its_id_and_names_the_end_that_it_lacks(contested: Graph) -> None:
    chosen = [{"type": "Person", "id": "both", "row": {"id": "both", "name": "both"}}]
    assert "both" not in {each for _, each, _ in planned(contested, into="t", resolutions=chosen)}
    chosen = [{"type": "Knows", "id": "e", "row": {"to": "x"}}]
    with pytest.raises(InvalidArgument, match="it has no `from`; an edge has both ends"):
        contested.branches.merge_plan("b", into="t", resolutions=chosen)


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
    {"Person": "ours"},
    {"type": "Person", "id": "both", "take": "mine"},
    {},
    "\ud800",
    bytearray(b"ours"),
    b"ours",
    b"[]",
    b"{",
    b"\xff",
    b'{"type": "Person", "id": "both", "take": "ours"} {}',
    b'{"type": "Person", "id": "both", "take": ["ours"]}',
    b'{"type": "Person", "id": "both", "take": "ours", "take": "theirs"}',
    b'{"type": "Person", "id": "both", "row": {"name": "both", "age": 1, "age": 2}}',
    b'{"type": "Person", "id": "both", "row": {"name": ' + b"[" * 9_999 + b"]" * 9_999 + b"}}",
    b'\xef\xbb\xbf{"type": "Person", "id": "both", "take": "ours"}',
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


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"type": "Person", "id": "both", "take": "ours", "take": "base"}', 'member "take"'),
        (b'\xef\xbb\xbf{"type": "Person", "id": "both", "take": "ours"}', "byte order mark"),
        (b'{"type": "Person",}', "malformed JSON at column 19"),
        (b'{"row": ' + b"[" * 9_999 + b"]" * 9_999 + b"}", "nested"),
    ],
    ids=["twice", "mark", "comma", "deep"],
)
def test_a_line_is_read_as_strictly_as_a_load(contested: Graph, line: bytes, why: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"resolution 2: .*{why}"):
        contested.branches.merge_plan("b", into="t", resolutions=b"\n" + line)


ONE = {"type": "Person", "id": "both", "take": "theirs"}


@pytest.mark.parametrize(
    "given",
    [
        ONE,
        [ONE],
        (ONE,),
        {"it": ONE}.values(),
        json.dumps(ONE),
        f"\r\n{json.dumps(ONE)}\r\n",
        json.dumps(ONE).encode(),
        bytearray(json.dumps(ONE).encode()),
    ],
    ids=lambda given: type(given).__name__,
)
def test_decisions_come_in_several_forms(contested: Graph, given: Any) -> None:  # noqa: ANN401
    left = planned(contested, into="t", resolutions=given)
    assert {each for _, each, _ in left} == KINDS.keys() - {"both"}


def test_a_request_carries_decisions_as_they_were_meant() -> None:
    row = {"type": "Person", "id": "new", "row": {"name": "new"}}
    lines = f"{json.dumps(ONE)}\n{json.dumps(row)}\n"
    assert resolution_bodies(lines) == resolution_bodies([ONE, row]) == [ONE, row]
    assert resolution_bodies(ONE) == [ONE]
    assert resolution_bodies(None) is None
    with pytest.raises(InvalidArgument, match="resolution 1: take is 'mine'"):
        resolution_bodies({"type": "Person", "id": "a", "take": "mine"})


@pytest.mark.parametrize("given", [7, 7.5, True], ids=str)
def test_what_holds_no_decisions_is_told_what_does(contested: Graph, given: Any) -> None:  # noqa: ANN401
    with pytest.raises(InvalidArgument, match="a mapping, a list of mappings, or lines of JSON"):
        contested.branches.merge_plan("b", into="t", resolutions=given)


@pytest.mark.parametrize(
    ("unused", "text"),
    [
        ([("Person", "x")], "the resolution of Person 'x' is for an entity without a conflict"),
        ([("Person", "bth")], r"remove it; did you mean Person 'both'\?"),
        ([("Doc", "both")], r"remove it; did you mean Person 'both'\?"),
        ([("Person", "?")], "is one of Person 'both', Person 'cut', Person 'gone' and 2 more"),
        ([("Doc", "a"), ("Person", "y")], "Doc 'a', Person 'y' are for entities without"),
        ([("Persn", "both")], r"Persn 'both' is of a type that there is not; did you mean `Pers"),
        ([("edge:Person", "both")], r"edge:Person 'both' is of a type that there is not"),
        ([("node:Person", "both")], "Person 'both' is decided twice, with and without its kind"),
    ],
)
def test_decisions_without_a_conflict_are_refused_while_there_are_others(
    contested: Graph, unused: list[tuple[str, str]], text: str
) -> None:
    given = [{"type": name, "id": each, "take": "ours"} for name, each in unused]
    with pytest.raises(InvalidArgument, match=text):
        contested.branches.merge_plan("b", into="t", resolutions=[*every("ours")[:1], *given])


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


@pytest.mark.parametrize(("bare", "kind"), [("node", "edge"), ("edge", "node")])
def test_a_node_and_an_edge_of_one_name_are_decided_apart(
    graphs: Opened, bare: str, kind: str
) -> None:
    """Their kind tells which of the two is meant; the one without it is for the other."""
    graph = graphs.init(
        "node Link { name: String @key n: I32? } edge Link: Link -> Link { n: I32? }"
    )

    def writes(number: int) -> Change:
        def act(graph: Graph, branch: str) -> None:
            with graph.write(branch) as writer:
                rows = {
                    "id": ["l"],
                    "src": ["l"],
                    "dst": ["l"],
                    "n": pa.array([number], pa.int32()),
                }
                writer.upsert("node:Link", pa.table({"name": ["l"], "n": rows["n"]}))
                writer.upsert("edge:Link", pa.table(rows))
                writer.commit()

        return act

    apart(graph, writes(1), writes(2))
    chosen = [
        {"type": f"{kind}:Link", "id": "l", "take": "theirs"},
        {"type": "Link", "id": "l", "take": "ours"},
    ]
    graph.branches.merge("b", resolutions=chosen)
    found = {
        each: graph.snapshot().scan(f"{each}:Link").read_all()["n"].to_pylist()
        for each in ("node", "edge")
    }
    assert found == {kind: [1], bare: [2]}
