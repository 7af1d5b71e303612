"""A merge of two branches: what it takes, what it refuses, what it leaves behind."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.extended import thinned
from tests.unit.engine.graphs import compact, fill, put, remove
from tests.unit.graph.graphs import Opened, listing, once, quick, require_settled
from tests.unit.graph.merge.merges import (
    Change,
    ages,
    apart,
    edge,
    head,
    knows,
    links,
    made,
    nothing,
    people,
    planned,
    properties,
)

from omnigraph import Graph, limits
from omnigraph.errors import (
    BranchNotFound,
    IdempotencyKeyReused,
    InvalidArgument,
    MergeConflicts,
    PreconditionFailed,
    ReadOnlyGraph,
    ReadSetChanged,
    ResourceLimit,
    SchemaDiverged,
    SnapshotReclaimed,
)
from omnigraph.failpoints import FailpointHit, armed
from omnigraph.graph.blobs.blob_values import INLINE
from omnigraph.graph.merge import conflicts as conflicts_module
from omnigraph.graph.merge import contests as contests_module
from omnigraph.graph.merge import decisions as decisions_module
from omnigraph.graph.schema_apply import apply as schema_apply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from omnigraph.graph.merge.merge_plan import MergePlan

# --- the truth table --------------------------------------------------------------------------

GONE = None
# Value in the base, on the source, on the target; the merged value, or the kind of the conflict.
TRUTH: list[tuple[int | None, int | None, int | None, int | str | None]] = [
    (1, 1, 1, 1),
    (GONE, GONE, 3, 3),
    (1, 1, 3, 3),
    (1, 1, GONE, GONE),
    (GONE, 2, GONE, 2),
    (GONE, 3, 3, 3),
    (GONE, 2, 3, "divergent_insert"),
    (1, 2, 1, 2),
    (1, 3, 3, 3),
    (1, 2, 3, "divergent_update"),
    (1, 2, GONE, "delete_vs_update"),
    (1, GONE, 1, GONE),
    (1, GONE, 3, "delete_vs_update"),
    (1, GONE, GONE, GONE),
]
AGAIN = [row for row in TRUTH if row[0] is not None]
"""Rows that a side may also reach by deleting the entity and inserting it again."""
CASES = [
    *((f"{at}", *row, "") for at, row in enumerate(TRUTH)),
    *((f"s{at}", *row, "source") for at, row in enumerate(AGAIN) if row[1] is not None),
    *((f"t{at}", *row, "target") for at, row in enumerate(AGAIN) if row[2] is not None),
]
KINDS = {"n": "Person", "e": "Knows"}


def _truth_rows(name: str, which: int) -> list[dict[str, Any]]:
    given = [(f"{name}{case[0]}", case[which]) for case in CASES if case[which] is not None]
    if name == "n":
        return [{"name": each, "age": value} for each, value in given]
    return [edge(each, f"x-y:{value}") for each, value in given]


def _truth_side(graph: Graph, branch: str, side: str, which: int) -> None:
    gone = {
        KINDS[name]: [
            f"{name}{case[0]}"
            for case in CASES
            if case[1] is not None and (case[which] is None or case[5] == side)
        ]
        for name in KINDS
    }
    remove(graph, branch=branch, **gone)
    put(graph, branch=branch, **{KINDS[name]: _truth_rows(name, which) for name in KINDS})


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MergePlan, dict[str, Any]]]:
    """The plan of a merge with every row of the table, and what `main` has when ours is taken."""
    opened = Opened(tmp_path_factory.mktemp("truth"))
    graph = opened.init()
    people(graph, "main", x=0, y=0)
    fill(graph, Person=_truth_rows("n", 1), Knows=_truth_rows("e", 1))
    graph.branches.create("b")
    _truth_side(graph, "b", "source", 2)
    _truth_side(graph, "main", "target", 3)
    plan = graph.branches.merge_plan("b")
    with pytest.raises(MergeConflicts) as caught:
        graph.branches.merge("b")
    assert caught.value.details["total"] == plan.conflict_count == len(plan.conflict_list)
    assert caught.value.details["merge_conflicts"] == [
        each.to_dict() for each in plan.conflict_list
    ]
    graph.branches.merge("b", strategy="ours")
    since = {each: int(told.partition(":")[2]) for each, told in links(graph).items()}
    yield plan, ages(graph) | since
    opened.close()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[1:]}")
def test_every_row_of_the_truth_table(
    truth: tuple[MergePlan, dict[str, Any]], case: tuple[Any, ...], name: str
) -> None:
    plan, merged = truth
    label, base, source, target, expected, _ = case
    found = [each for each in plan.conflict_list if each.entity_id == f"{name}{label}"]
    if not isinstance(expected, str):
        assert found == []
        assert merged.get(f"{name}{label}") == expected
        return
    (conflict,) = found
    assert (conflict.type_name, conflict.kind) == (KINDS[name], expected)
    shown = "age" if name == "n" else "since"
    images = [properties(each) for each in (conflict.base, conflict.theirs, conflict.ours)]
    values = [each and each[shown] for each in images]
    assert values == [base, source, target]
    assert merged.get(f"{name}{label}") == target


def test_conflicts_come_in_order_and_name_what_differs(
    truth: tuple[MergePlan, dict[str, Any]],
) -> None:
    plan, _ = truth
    places = [(each.entity_kind == "edge", each.entity_id) for each in plan.conflict_list]
    assert places == sorted(places)
    by_id = {each.entity_id: each.message for each in plan.conflict_list}
    at = TRUTH.index((1, 2, 3, "divergent_update"))
    assert by_id[f"n{at}"].endswith("was changed on both sides with different values of age")
    assert by_id[f"e{at}"].endswith("was changed on both sides with different values of since")
    at = TRUTH.index((1, 2, GONE, "delete_vs_update"))
    assert by_id[f"n{at}"].endswith("was deleted on the target and changed on the source")


def test_the_table_of_conflicts_has_a_row_for_each_contested_property(
    truth: tuple[MergePlan, dict[str, Any]],
) -> None:
    at = TRUTH.index((1, 2, 3, "divergent_update"))
    shown = [row for row in truth[0].conflicts.to_pylist() if row["id"] == f"n{at}"]
    assert [(row["property"], row["base"], row["ours"], row["theirs"]) for row in shown] == [
        ("age", "1", "3", "2")
    ]
    gone = TRUTH.index((1, GONE, 3, "delete_vs_update"))
    shown = [row for row in truth[0].conflicts.to_pylist() if row["id"] == f"e{gone}"]
    assert [(row["property"], row["base"], row["ours"], row["theirs"]) for row in shown] == [
        ("since", "1", "3", None)
    ]


def test_a_plan_has_a_json_form(truth: tuple[MergePlan, dict[str, Any]]) -> None:
    body = truth[0].to_dict()
    assert (body["source"], body["target"], body["outcome"]) == ("b", "main", "merged")
    assert body["conflict_count"] == len(body["conflicts"]) > 0
    assert body["base_commit_id"] not in (None, body["source_commit_id"], body["target_commit_id"])


# --- the outcome matrix -----------------------------------------------------------------------

# Each side works on entities of its own: `s…` for the source, `t…` for the target.
OPERATIONS: dict[str, Callable[[Graph, str, str], object]] = {
    "no change": lambda graph, branch, _own: nothing(graph, branch),
    "add node": lambda graph, branch, own: people(graph, branch, **{f"{own}new": 1}),
    "remove node": lambda graph, branch, own: remove(graph, branch=branch, Person=[f"{own}gone"]),
    "add edge": lambda graph, branch, own: knows(graph, branch, **{f"{own}new": f"{own}1-{own}2"}),
    "remove edge": lambda graph, branch, own: remove(graph, branch=branch, Knows=[f"{own}e"]),
    "set property": lambda graph, branch, own: people(graph, branch, **{f"{own}1": 7}),
    "net zero": lambda graph, branch, own: (
        people(graph, branch, **{f"{own}zero": 1}),
        remove(graph, branch=branch, Person=[f"{own}zero"]),
    ),
}
OUTCOMES = {
    "no change": "UTD UTD UTD UTD UTD UTD UTD",
    "add node": "FF M M M M M M",
    "remove node": "FF M M M M M M",
    "add edge": "FF M M M M M M",
    "remove edge": "FF M M M M M M",
    "set property": "FF M M M M M M",
    "net zero": "FF M M M M M M",
}
MEANING = {"UTD": "already_up_to_date", "FF": "fast_forward", "M": "merged"}
PAIRS = [(source, target) for source in OPERATIONS for target in OPERATIONS]


def outcome(source: str, target: str) -> str:
    """What the matrix says; an operation that it does not know fails."""
    return MEANING[OUTCOMES[source].split()[list(OPERATIONS).index(target)]]


def _matrix_base(graph: Graph) -> None:
    every = [f"{own}{each}" for own in "st" for each in ("1", "2", "gone")]
    people(graph, "main", **dict.fromkeys(every, 0))
    knows(graph, "main", se="s1-s2", te="t1-t2")


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    """For every operation a branch `s-…` and a branch `t-…` that did it."""
    opened = Opened(tmp_path_factory.mktemp("matrix"))
    graph = opened.init()
    _matrix_base(graph)
    for name, act in OPERATIONS.items():
        for own in "st":
            branch = f"{own}-{name.replace(' ', '-')}"
            graph.branches.create(branch)
            act(graph, branch, own)
    yield graph
    opened.close()


def test_the_matrix_knows_every_operation() -> None:
    assert list(OUTCOMES) == list(OPERATIONS)
    assert {len(row.split()) for row in OUTCOMES.values()} == {len(OPERATIONS)}


def _branches(source: str, target: str) -> tuple[str, str]:
    return f"s-{source.replace(' ', '-')}", f"t-{target.replace(' ', '-')}"


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_the_outcome_of_every_pair_of_operations(matrix: Graph, source: str, target: str) -> None:
    ours, theirs = _branches(source, target)
    plan = matrix.branches.merge_plan(ours, into=theirs)
    assert (plan.outcome, plan.conflict_list) == (outcome(source, target), ())
    if source in ("no change", "net zero"):
        assert plan.tables == {}


@pytest.mark.extended
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_every_pair_of_operations_merged(matrix: Graph, source: str, target: str) -> None:
    ours, theirs = _branches(source, target)
    name = f"{ours}-{theirs}"
    matrix.branches.create(name, from_=theirs)
    done = matrix.branches.merge(ours, into=name)
    expected = outcome(source, target)
    assert done.outcome == expected
    assert (done.commit is None) == (expected == "already_up_to_date")
    for show in (ages, links):
        base, own, other = (show(matrix, each) for each in ("main", ours, theirs))
        assert show(matrix, name) == _joined(base, own, other)
    assert matrix.branches.merge(ours, into=name).outcome == "already_up_to_date"
    require_settled(matrix, name)


def _joined(base: Mapping[str, Any], own: Mapping[str, Any], other: Mapping[str, Any]) -> object:
    merged = dict(other)
    for each in base.keys() | own.keys():
        if own.get(each, GONE) != base.get(each, GONE) or (each in own) != (each in base):
            merged.pop(each, None)
            if each in own:
                merged[each] = own[each]
    return merged


def _removes(graph: Graph, branch: str) -> None:
    remove(graph, branch=branch, Person=["n"], Knows=["hangs"])


def _removes_new(graph: Graph, branch: str) -> None:
    remove(graph, branch=branch, Person=["new"])


def _sets(age: int) -> Change:
    return lambda graph, branch: people(graph, branch, n=age)


def _adds(age: int) -> Change:
    return lambda graph, branch: people(graph, branch, new=age)


def _links(ends: str, edge_id: str = "new") -> Change:
    return lambda graph, branch: knows(graph, branch, **{edge_id: ends})


def _cuts(edge_id: str) -> Change:
    return lambda graph, branch: remove(graph, branch=branch, Knows=[edge_id])


# What both sides do to the same entity; the base has x, y, n, and the edges hang: x-n, e: x-y.
TOGETHER: list[tuple[str, Change, Change, list[tuple[str, str | None, str]]]] = [
    ("insert, other values", _adds(1), _adds(2), [("Person", "new", "divergent_insert")]),
    ("insert, equal values", _adds(1), _adds(1), []),
    ("remove the same node", _removes, _removes, []),
    ("remove, edge added", _removes, _links("x-n"), [("Knows", "new", "orphan_edge")]),
    ("edge added, remove", _links("x-n"), _removes, [("Knows", "new", "orphan_edge")]),
    ("remove, edge moved", _removes, _links("x-n", "e"), [("Knows", "e", "orphan_edge")]),
    ("edge moved, remove", _links("n-y", "e"), _removes, [("Knows", "e", "orphan_edge")]),
    ("a loop added", _links("n-n"), _removes, [("Knows", "new", "orphan_edge")] * 2),
    (
        "remove, its edge changed",
        _removes,
        _links("x-n:9", "hangs"),
        [
            ("Knows", "hangs", "delete_vs_update"),
        ],
    ),
    (
        "its edge changed, remove",
        _links("x-n:9", "hangs"),
        _removes,
        [
            ("Knows", "hangs", "delete_vs_update"),
        ],
    ),
    ("remove, its edge cut", _removes, _cuts("hangs"), []),
    ("its edge cut, remove", _cuts("hangs"), _removes, []),
    ("remove, set", _removes, _sets(5), [("Person", "n", "delete_vs_update")]),
    ("set, remove", _sets(5), _removes, [("Person", "n", "delete_vs_update")]),
    ("set other values", _sets(5), _sets(6), [("Person", "n", "divergent_update")]),
    ("set equal values", _sets(5), _sets(5), []),
    ("cut the same edge", _cuts("e"), _cuts("e"), []),
    ("edges of equal ends", _links("x-y", "one"), _links("x-y", "two"), []),
    (
        "one edge moved apart",
        _links("y-x", "e"),
        _links("y-y", "e"),
        [
            ("Knows", "e", "divergent_update"),
        ],
    ),
    ("remove, unrelated", _removes, _adds(1), []),
]


@pytest.fixture
def small(graphs: Opened) -> Graph:
    """Three persons, two edges."""
    graph = graphs.init()
    people(graph, "main", x=0, y=0, n=0)
    knows(graph, "main", hangs="x-n", e="x-y")
    return graph


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    """For every case two branches."""
    opened = Opened(tmp_path_factory.mktemp("together"))
    graph = opened.init()
    people(graph, "main", x=0, y=0, n=0)
    knows(graph, "main", hangs="x-n", e="x-y")
    for at, (_, source, target, _) in enumerate(TOGETHER):
        for side, act in (("s", source), ("t", target)):
            graph.branches.create(f"{side}{at}")
            act(graph, f"{side}{at}")
    yield graph
    opened.close()


@pytest.mark.parametrize(
    "at", thinned(range(len(TOGETHER)), keep=8), ids=[case[0] for case in TOGETHER]
)
def test_both_sides_work_on_one_entity(together: Graph, at: int) -> None:
    expected = TOGETHER[at][3]
    source, target = f"s{at}", f"t{at}"
    assert sorted(set(planned(together, source, into=target))) == sorted(set(expected))
    if expected:
        before = head(together, target)
        with pytest.raises(MergeConflicts):
            together.branches.merge(source, into=target)
        assert head(together, target) == before
        people(together, target, later=1)
        assert "later" in ages(together, target)
        return
    assert together.branches.merge(source, into=target).outcome == "merged"
    have = links(together, target)
    if "remove" in TOGETHER[at][0]:
        assert "hangs" not in have
        assert "n" not in ages(together, target)
    if "equal ends" in TOGETHER[at][0]:
        assert {"one", "two"} <= have.keys()


# --- rules ------------------------------------------------------------------------------------

RULES = """
node Person { name: String @key  email: String? @unique  first: String?  last: String?
  @unique(first, last) }
edge Owns: Person -> Person @card(1..2)
edge Pairs: Person -> Person { @unique(src, dst) }
"""


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    """Persons with two things each."""
    opened = Opened(tmp_path_factory.mktemp("rules"))
    graph = opened.init(RULES)
    fill(
        graph,
        Person=[
            {"name": "a", "email": "a@x"},
            {"name": "b", "email": "b@x"},
            *({"name": each} for each in "xyz"),
        ],
        Owns=[
            {"id": "o1", "src": "a", "dst": "x"},
            {"id": "p1", "src": "b", "dst": "x"},
            {"id": "p2", "src": "b", "dst": "y"},
        ],
    )
    yield graph
    opened.close()


def _mails(**mails: str | None) -> Change:
    given = [{"name": name, "email": mail} for name, mail in mails.items()]
    return lambda graph, branch: put(graph, branch=branch, Person=given)


def _named(name: str, first: str | None, last: str | None) -> Change:
    given = [{"name": name, "first": first, "last": last}]
    return lambda graph, branch: put(graph, branch=branch, Person=given)


def _owns(edge_id: str, src: str, dst: str, name: str = "Owns") -> Change:
    given = [{"id": edge_id, "src": src, "dst": dst}]
    return lambda graph, branch: put(graph, branch=branch, **{name: given})


def _loses(*ids: str) -> Change:
    return lambda graph, branch: remove(graph, branch=branch, Owns=ids)


def _then(*acts: Change) -> Change:
    def both(graph: Graph, branch: str) -> None:
        for act in acts:
            act(graph, branch)

    return both


def _moves(name: str) -> Change:
    return _then(_mails(a=None), _mails(**{name: "a@x"}))


BROKEN: list[tuple[str, Change, Change, set[str]]] = [
    ("inserts", _mails(n="n@x"), _mails(m="n@x"), {"unique_violation"}),
    ("insert, update", _mails(n="n@x"), _mails(x="n@x"), {"unique_violation"}),
    ("updates", _mails(x="n@x"), _mails(y="n@x"), {"unique_violation"}),
    ("moved, unchanged", _moves("x"), nothing, set()),
    ("moved, unrelated", _moves("x"), _mails(m="m@x"), set()),
    ("swapped", _then(_mails(a=None), _mails(b="a@x"), _mails(a="b@x")), _mails(m="1"), set()),
    ("freed here, taken there", _mails(a="free"), _then(_mails(b="b2")), set()),
    ("moved on both", _moves("x"), _moves("x"), set()),
    (
        "moved to two",
        _moves("x"),
        _moves("y"),
        {"unique_violation"},
    ),
    ("groups", _named("n", "f", "l"), _named("m", "f", "l"), {"unique_violation"}),
    ("groups with null", _named("n", "f", None), _named("m", "f", None), set()),
    ("above max", _owns("o2", "a", "y"), _owns("o3", "a", "y"), {"cardinality_violation"}),
    ("at max", _owns("o2", "a", "y"), _owns("q", "x", "y"), set()),
    ("below min", _loses("p1"), _loses("p2"), {"cardinality_violation"}),
    ("at min", _loses("p1"), _loses("p1"), set()),
    ("moved below min", _owns("p1", "a", "x"), _loses("p2"), {"cardinality_violation"}),
    ("moved above max", _owns("p1", "a", "x"), _owns("o2", "a", "z"), {"cardinality_violation"}),
    ("replaced", _then(_owns("p3", "x", "y")), _loses("p2"), set()),
    ("pairs", _owns("1", "x", "y", "Pairs"), _owns("2", "x", "y", "Pairs"), {"unique_violation"}),
    ("other pairs", _owns("1", "x", "y", "Pairs"), _owns("2", "y", "x", "Pairs"), set()),
]


RARE = {"insert, update", "updates", "moved, unrelated", "freed here, taken there", "at max"}
RARE |= {"groups with null", "at min", "moved above max", "replaced", "other pairs"}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case[0], marks=pytest.mark.extended if case[0] in RARE else ())
        for case in BROKEN
    ],
)
def test_rules_are_held_against_the_merged_image(
    ruled: Graph, case: tuple[str, Change, Change, set[str]]
) -> None:
    at = BROKEN.index(case)
    source, target = f"s{at}", f"t{at}"
    for branch, act in ((source, case[1]), (target, case[2])):
        ruled.branches.create(branch)
        act(ruled, branch)
    assert {kind for _, _, kind in planned(ruled, target, into=source)} == case[3]
    if not case[3]:
        assert ruled.branches.merge(source, into=target).commit is not None
        return
    # A strategy decides entities that both changed; a rule stays a rule.
    with pytest.raises(MergeConflicts) as caught:
        ruled.branches.merge(source, into=target, strategy="theirs")
    conflicts = caught.value.details["merge_conflicts"]
    assert isinstance(conflicts, list)
    assert {each["kind"] for each in conflicts if isinstance(each, dict)} == case[3]


# --- values: blobs, vectors, lists ------------------------------------------------------------

VALUES = "node File { name: String @key  x: Blob?  v: Vector(2)?  l: [String]?  f: F64? }"
BLOB = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
# Property; value in the base, on the source, on the target; merged, or "!" for a conflict.
VALUE_CASES: list[tuple[str, Any, Any, Any, Any]] = [
    ("x", b"ab", b"ba", b"ab", b"ba"),
    ("x", b"ab", b"ba", b"ba", b"ba"),
    ("x", b"ab", b"ba", b"bb", "!"),
    ("x", b"ab", b"ab", b"ba", b"ba"),
    ("x", None, b"", None, b""),
    ("x", b"", None, b"", None),
    ("x", b"a", None, b"", "!"),
    ("x", b"a", b"", None, "!"),
    ("x", b"a", b"", b"", b""),
    ("x", b"a" * 70_000, b"a" * 69_999 + b"b", b"a" * 70_000, b"a" * 69_999 + b"b"),
    ("x", "one", "two", "one", "two"),
    ("x", None, "one", None, "one"),
    ("x", "one", "two", "two", "two"),
    ("x", "one", b"same", "one", b"same"),
    ("x", b"a", b"same", "one", "!"),
    ("v", [0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]),
    ("v", None, [1.0, 0.0], None, [1.0, 0.0]),
    ("v", [0.0, 1.0], None, [1.0, 0.0], "!"),
    ("v", None, [0.0, 1.0], [-0.0, 1.0], [0.0, 1.0]),
    ("l", ["a", "b"], ["b", "a"], ["a", "b"], ["b", "a"]),
    ("l", None, [], None, []),
    ("l", [], None, ["x"], "!"),
    ("l", ["ab"], ["a", "b"], ["a", "b"], ["a", "b"]),
    ("f", 1.0, -0.0, 0.0, 0.0),
    ("f", 0.0, -0.0, 2.0, 2.0),
    ("f", None, 0.0, None, 0.0),
]


def _files(graph: Graph, which: int, folder: Path) -> pa.Table:
    def blob(value: object) -> Mapping[str, object] | None:
        if isinstance(value, str):
            return {"data": None, "uri": (folder / value).as_uri()}
        return None if value is None else {"data": value, "uri": None}

    columns: dict[str, pa.Array[Any]] = {
        "name": pa.array([str(at) for at in range(len(VALUE_CASES))])
    }
    for field in graph.snapshot().type("File").arrow_schema:
        cells = [case[which] if case[0] == field.name else None for case in VALUE_CASES]
        if field.name == "x":
            columns["x"] = pa.array([blob(value) for value in cells], BLOB)
        elif field.name not in ("id", "name"):
            columns[field.name] = pa.array(cells, field.type)
    return pa.table(columns)


@pytest.fixture(scope="module")
def valued(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[set[str | None], Graph, Path]]:
    """Which entities conflict, and the graph merged by ours and read after the source is gone."""
    folder = tmp_path_factory.mktemp("values")
    for name in ("one", "two"):
        (folder / name).write_bytes(b"same")
    opened = Graph.init(
        folder / "g", schema=VALUES, external_blobs=[folder.as_uri()], settings=quick()
    )
    with opened as graph:
        for branch, which in (("main", 1), ("b", 2), ("main", 3)):
            if branch == "b":
                graph.branches.create("b")
            with graph.write(branch) as writer:
                writer.upsert("File", _files(graph, which, folder))
                writer.commit()
        contested = {each.entity_id for each in graph.branches.merge_plan("b").conflict_list}
        graph.branches.merge("b", strategy="ours", delete_branch=True)
        yield contested, graph, folder


@pytest.mark.parametrize("at", range(len(VALUE_CASES)), ids=lambda at: str(VALUE_CASES[at])[:50])
def test_values_of_every_kind_are_compared_and_taken(
    valued: tuple[set[str | None], Graph, Path], at: int
) -> None:
    contested, graph, folder = valued
    name, _, _, target, expected = VALUE_CASES[at]
    assert (str(at) in contested) == (expected == "!")
    if expected == "!":
        expected = target
    snapshot = graph.snapshot()
    if name != "x":
        row = snapshot.entity("File", str(at))
        assert row is not None
        assert row[name] == expected
        return
    found = _blobs(graph)[str(at)]
    if isinstance(expected, str):
        assert found == (folder / expected).as_uri()
    else:
        assert found == (None if expected is None else INLINE + b64encode(expected).decode())


def _blobs(graph: Graph) -> dict[str, str | None]:
    lines = b"".join(graph.export()).decode().splitlines()
    data = [json.loads(line)["data"] for line in lines]
    return {row["name"]: row.get("x") for row in data}


def test_types_without_columns_of_their_own_are_merged(graphs: Opened) -> None:
    graph = graphs.init("node Bare {} node Only { x: Blob? } edge Ties: Bare -> Only")
    fill(graph, Bare=[{"id": "a"}, {"id": "b"}])
    graph.branches.create("b")
    with graph.write("b") as writer:
        writer.upsert("Bare", pa.table({"id": ["c"]}))
        writer.delete("Bare", ["a"])
        cells = pa.array([{"data": b"1", "uri": None}, None], BLOB)
        writer.upsert("Only", pa.table({"id": ["o", "p"], "x": cells}))
        writer.upsert("Ties", pa.table({"id": ["t"], "src": ["c"], "dst": ["o"]}))
        writer.commit()
    with graph.write() as writer:
        writer.upsert("Only", pa.table({"id": ["o"], "x": pa.array([None], BLOB)}))
        writer.upsert("Bare", pa.table({"id": ["c"]}))
        writer.commit()
    assert planned(graph) == [("Only", "o", "divergent_insert")]
    graph.branches.merge("b", strategy="theirs")
    assert set(graph.snapshot().scan("Bare").read_all()["id"].to_pylist()) == {"b", "c"}
    assert graph.blob("node", "Only", "o", "x").read() == b"1"
    assert graph.snapshot().count("Ties") == 1


# --- what a merge writes ----------------------------------------------------------------------

VERSIONS = ["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


def _stamps(graph: Graph, name: str = "Person") -> dict[str, tuple[int, ...]]:
    snapshot = graph.snapshot()
    found = snapshot.handle(snapshot.type(name)).dataset.to_table(columns=VERSIONS)
    rows = zip(*(each.to_pylist() for each in found.columns), strict=True)
    return {row[0]: row[1:] for row in rows}


def test_rows_that_do_not_change_keep_their_version_columns(small: Graph) -> None:
    people(small, "main", also=1, dropped=1)

    def source(graph: Graph, branch: str) -> None:
        people(graph, branch, n=1, same=2, x=0)
        remove(graph, branch=branch, Person=["dropped"])

    apart(small, source, lambda graph, branch: people(graph, branch, same=2, own=3))
    before = _stamps(small), _stamps(small, "Knows")
    plan = small.branches.merge_plan("b")
    assert plan.tables == {"node:Person": {"inserted": 0, "updated": 1, "deleted": 1}}
    small.branches.merge("b")
    after = _stamps(small), _stamps(small, "Knows")
    assert after[1] == before[1]
    kept = before[0].keys() - {"n", "dropped"}
    assert {each: after[0][each] for each in kept} == {each: before[0][each] for each in kept}
    assert after[0]["n"][2] > before[0]["n"][2]
    assert after[0]["n"][:2] == before[0]["n"][:2]


def test_the_commit_has_two_parents_and_tells_how_it_came(graphs: Opened) -> None:
    graphs.init().close()
    graph = graphs.open(actor="ann")
    apart(graph, _adds(1), _sets(2))
    plan, ours, theirs = graph.branches.merge_plan("b"), head(graph), head(graph, "b")
    done = graph.branches.merge("b")
    commit = made(done)
    assert (commit.parent_commit_id, commit.merged_parent_commit_id) == (ours, theirs)
    assert (commit.kind, commit.actor_id, commit.graph_branch) == ("merge", "ann", "main")
    assert commit.stats["merge"] == {
        "source": "b",
        "source_commit": theirs,
        "base_commit": plan.base_commit_id,
        "outcome": "merged",
        "strategy": "fail",
    }
    assert graph.commits.get(commit.graph_commit_id) == commit
    assert head(graph) == commit.graph_commit_id
    body = done.to_dict()
    assert body == {
        "source": "b",
        "target": "main",
        "outcome": "merged",
        "actor_id": "ann",
        "commit": commit.to_dict(),
    }
    changed = graph.commits.changes(commit.graph_commit_id)
    assert [(each.op, each.id) for each in changed.changes] == [("insert", "new")]
    require_settled(graph, "main", "b")


def test_a_source_without_a_net_change_is_merged_once(small: Graph) -> None:
    def source(graph: Graph, branch: str) -> None:
        people(graph, branch, zero=1, x=9)
        remove(graph, branch=branch, Person=["zero"])
        people(graph, branch, x=0)
        compact(graph, "Person", branch)

    apart(small, source, _sets(4))
    before, pins = _stamps(small), small.snapshot().tables
    done = small.branches.merge("b")
    assert (done.outcome, made(done).merged_parent_commit_id) == ("merged", head(small, "b"))
    assert (_stamps(small), small.snapshot().tables) == (before, pins)
    again = small.branches.merge("b")
    assert (again.outcome, again.commit) == ("already_up_to_date", None)


def test_a_target_without_a_net_change_never_conflicts(small: Graph) -> None:
    def to_and_fro(graph: Graph, branch: str) -> None:
        people(graph, branch, n=9, new=1)
        remove(graph, branch=branch, Person=["n", "new"], Knows=["hangs"])
        people(graph, branch, n=0)
        knows(graph, branch, hangs="x-n")

    apart(small, _then(_sets(5), _adds(6), _links("x-n:7", "hangs")), to_and_fro)
    assert planned(small) == []
    small.branches.merge("b")
    assert (ages(small)["n"], ages(small)["new"], links(small)["hangs"]) == (5, 6, "x-n:7")


# --- the base ---------------------------------------------------------------------------------


def test_an_edge_that_was_cut_does_not_return_by_merging_back_and_forth(small: Graph) -> None:
    apart(small, _cuts("e"), _sets(1))
    for _ in range(3):
        small.branches.merge("b")
        small.branches.merge("main", into="b")
        people(small, "b", x=(ages(small)["x"] or 0) + 1)
        assert "e" not in links(small)
        assert "e" not in links(small, "b")
    people(small, "main", y=5)
    small.branches.merge("main", into="b")
    small.branches.merge("b")
    assert "e" not in links(small)
    assert ages(small) == ages(small, "b")


def test_a_merge_of_equal_changes_makes_no_conflict_later(small: Graph) -> None:
    apart(small, _sets(5), _sets(5))
    small.branches.merge("b")
    people(small, "b", n=6)
    assert small.branches.merge("b").outcome == "merged"
    assert ages(small)["n"] == 6
    people(small, "main", n=7)
    assert small.branches.merge("main", into="b").outcome == "fast_forward"
    assert ages(small, "b")["n"] == 7


def test_criss_cross(small: Graph) -> None:
    """Each side took the first commit of the other; the later of the two is the base."""
    apart(
        small,
        lambda graph, branch: people(graph, branch, x=1),
        lambda graph, branch: people(graph, branch, y=1),
    )
    later = head(small)
    small.branches.create("was-main")
    small.branches.merge("b")
    small.branches.merge("was-main", into="b")
    for branch in ("main", "b"):
        assert ages(small, branch) == {"n": 0, "x": 1, "y": 1}
    plan = small.branches.merge_plan("b")
    assert (plan.base_commit_id, plan.outcome, plan.tables) == (later, "merged", {})
    # y is as in the base: taken. x differs from the base on both sides, unless equally.
    people(small, "b", y=2)
    assert planned(small) == []
    people(small, "b", x=3)
    assert planned(small) == [("Person", "x", "divergent_update")]
    people(small, "main", x=3)
    small.branches.merge("b")
    assert ages(small) == {"n": 0, "x": 3, "y": 2}
    assert small.branches.merge("main", into="b").outcome == "fast_forward"
    assert small.branches.merge("b").outcome == "fast_forward"


def test_branch_of_a_branch_into_main_and_main_into_it(small: Graph) -> None:
    small.branches.create("b")
    people(small, "b", n=1)
    small.branches.create("c", from_="b")
    people(small, "c", x=2)
    people(small, "b", late=1)
    people(small, "main", y=3)
    assert small.branches.merge("main", into="c").outcome == "merged"
    assert ages(small, "c") == {"n": 1, "x": 2, "y": 3}
    assert small.branches.merge("c").outcome == "fast_forward"
    assert ages(small) == {"n": 1, "x": 2, "y": 3}
    plan = small.branches.merge_plan("b")
    assert plan.tables == {"node:Person": {"inserted": 1, "updated": 0, "deleted": 0}}
    small.branches.merge("b")
    assert ages(small) == {"late": 1, "n": 1, "x": 2, "y": 3}
    assert [each.outcome for each in (small.branches.merge("b"), small.branches.merge("c"))] == [
        "already_up_to_date"
    ] * 2


def test_a_child_stays_readable_when_its_parent_is_merged(small: Graph) -> None:
    small.branches.create("b")
    people(small, "b", n=1)
    small.branches.create("c", from_="b")
    people(small, "c", x=2)
    done = small.branches.merge("b", delete_branch=True)
    assert (done.outcome, done.branch_deleted) == ("fast_forward", False)
    assert "c" in (done.branch_delete_error or "")
    assert ages(small, "c") == {"n": 1, "x": 2, "y": 0}
    assert small.branches.merge("c", delete_branch=True).branch_deleted
    done = small.branches.merge("b", delete_branch=True)
    assert (done.outcome, done.branch_deleted) == ("already_up_to_date", True)
    assert [each.name for each in small.branches.list()] == ["main"]
    assert ages(small) == {"n": 1, "x": 2, "y": 0}


def test_what_a_deleted_source_did_stays_known(small: Graph) -> None:
    apart(small, _then(_adds(1), _sets(2)), lambda graph, branch: people(graph, branch, x=3))
    last = head(small, "b")
    first = small.commits.get(last).parent_commit_id
    assert first is not None
    known = [small.commits.get(each) for each in (last, first)]
    done = small.branches.merge("b", delete_branch=True)
    assert done.branch_deleted
    assert [small.commits.get(each) for each in (last, first)] == known
    listed = [each.graph_commit_id for each in small.commits.list()]
    assert {last, first} < set(listed)
    assert len(listed) == len(set(listed)) == len(list(small.commits))
    assert listed[0] == made(done).graph_commit_id
    assert listed.index(last) < listed.index(first)
    for commit in (last, first):
        with pytest.raises(SnapshotReclaimed):
            small.snapshot(at=commit).scan("Person").read_all()
    assert ages(small) == {"n": 2, "new": 1, "x": 3, "y": 0}
    # A new branch of the old name is another one.
    small.branches.create("b")
    assert small.branches.merge("b").outcome == "already_up_to_date"
    people(small, "b", n=8)
    assert small.branches.merge("b").outcome == "fast_forward"


def test_a_base_that_went_with_its_branch_is_replaced_by_an_older_one(small: Graph) -> None:
    """Two branches have the same commit of a third one, which is gone."""
    for name in ("b", "c", "d"):
        small.branches.create(name)
    people(small, "d", new=1)
    for name in ("b", "c"):
        people(small, name, **{name: 1})
        small.branches.merge("d", into=name)
    small.branches.delete("d")
    assert planned(small, "b", into="c") == []
    assert small.branches.merge("b", into="c").outcome == "merged"
    assert ages(small, "c") == {"b": 1, "c": 1, "n": 0, "new": 1, "x": 0, "y": 0}


@pytest.mark.parametrize("way", ["merged", "decided"])
@pytest.mark.parametrize(
    ("source", "target"),
    [(_adds(2), _removes_new), (_removes_new, _adds(2)), (_removes_new, _sets(7))],
    ids=["removed by the target", "removed by the source", "removed by the source alone"],
)
def test_what_came_from_a_gone_base_and_was_removed_does_not_come_back_unasked(
    small: Graph, way: str, source: Change, target: Change
) -> None:
    """The base that is left never had the entity, and neither has the side that removed it."""
    for name in ("b", "c", "d"):
        small.branches.create(name)
    people(small, "d", new=1, other=1)
    for name in ("b", "c"):
        people(small, name, **{name: 1, "other": 1 if way == "merged" else 3})
        assert small.branches.merge("d", into=name, strategy="theirs").outcome == "merged"
    small.branches.delete("d")
    source(small, "b")
    target(small, "c")
    assert ("Person", "new", "delete_vs_update") in planned(small, "b", into="c")


@pytest.mark.parametrize("side", ["b", "c"])
@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (_adds(2), _sets(7), 2),
        (_removes_new, _sets(7), GONE),
        (_sets(7), _removes_new, GONE),
        (_adds(2), _removes_new, "delete_vs_update"),
        (_adds(2), _adds(3), "divergent_update"),
    ],
    ids=["set", "removed", "removed by the target", "set, removed", "set otherwise"],
)
def test_a_gone_base_is_read_where_a_side_was_forwarded_to_it(
    small: Graph, side: str, source: Change, target: Change, expected: int | str | None
) -> None:
    """One side shows the state of the base in its own history, so nothing has to be guessed."""
    for name in ("b", "c", "d"):
        small.branches.create(name)
    people(small, "d", new=1)
    gone = head(small, "d")
    people(small, "c" if side == "b" else "b", other=1)
    for name in ("b", "c"):
        outcome = "fast_forward" if name == side else "merged"
        assert small.branches.merge("d", into=name).outcome == outcome
    small.branches.delete("d")
    source(small, "b")
    target(small, "c")
    assert small.branches.merge_plan("b", into="c").base_commit_id == gone
    if isinstance(expected, str):
        assert planned(small, "b", into="c") == [("Person", "new", expected)]
        return
    small.branches.merge("b", into="c")
    assert ages(small, "c").get("new") == expected
    assert {"other", "n", "x", "y"} <= ages(small, "c").keys()
    assert small.branches.merge("b", into="c").outcome == "already_up_to_date"


def test_a_base_that_a_gone_branch_had_inherited_is_read_where_it_was_made(small: Graph) -> None:
    """The branch that brought the commit is gone; the one that made it lives."""
    small.branches.create("a")
    people(small, "a", new=1)
    made_there = head(small, "a")
    small.branches.create("b", from_="a")
    small.branches.create("c")
    people(small, "c", c=1)
    people(small, "main", m=1)
    for name in ("main", "c"):
        small.branches.merge("b", into=name)
    small.branches.delete("b")
    people(small, "c", new=2)
    plan = small.branches.merge_plan("c")
    assert (plan.base_commit_id, plan.conflict_count) == (made_there, 0)
    people(small, "a", new=3)
    assert planned(small, "a", into="c") == [("Person", "new", "divergent_update")]
    small.branches.merge("a")
    assert ages(small)["new"] == 3


def test_a_base_that_cleanup_removed_is_replaced_by_an_older_one(graphs: Opened) -> None:
    graph = graphs.init("node Person { name: String @key  age: I32? }")
    people(graph, "main", a=1, x=1)
    graph.branches.create("b")
    for number in range(3):
        people(graph, "b", **{f"b{number}": 1})
        people(graph, "main", **{f"m{number}": 1})
        graph.branches.merge("b")
        people(graph, "b", x=2)
        people(graph, "b", x=1)  # So that it is not forwarded, and does not show the state of main.
        graph.branches.merge("main", into="b")
    base = graph.snapshot()
    people(graph, "b", a=2)
    people(graph, "main", last=1)
    assert graph.branches.merge_plan("b").base_commit_id == base.graph_commit_id
    (table,) = base.tables
    gone = (1 << 64) - 1 - table.published_dataset_version
    (graphs.root / table.dataset_path / "_versions" / f"{gone:020d}.manifest").unlink()
    with graphs.open() as other:
        plan = other.branches.merge_plan("b")
        assert plan.base_commit_id not in (None, base.graph_commit_id)
        assert plan.conflict_count == 0
        other.branches.merge("b")
        assert (ages(other)["a"], ages(other)["last"]) == (2, 1)


# --- what is asked ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"source": "none"}, BranchNotFound),
        ({"into": "none"}, BranchNotFound),
        ({"into": "s-add-node"}, InvalidArgument),
        ({"source": "main", "into": "main"}, InvalidArgument),
        ({"source": ""}, BranchNotFound),
        ({"source": "S-add-node"}, BranchNotFound),
        ({"strategy": "union"}, InvalidArgument),
        ({"strategy": "OURS"}, InvalidArgument),
        ({"strategy": None}, InvalidArgument),
        ({"strategy": ["ours"]}, InvalidArgument),
        ({"source": None}, InvalidArgument),
        ({"idempotency_key": ""}, InvalidArgument),
        ({"if_commit": "01j00000000000000000000000"}, PreconditionFailed),
    ],
)
def test_what_is_asked_wrongly_is_refused_and_nothing_is_written(
    matrix: Graph, how: dict[str, Any], error: type[Exception]
) -> None:
    before = matrix.branches.list()
    asked: dict[str, Any] = {"source": "s-add-node", "into": "t-no-change"} | how
    with pytest.raises(error):
        matrix.branches.merge(**asked, delete_branch=True)
    assert matrix.branches.list() == before


def test_branches_with_different_schemas_are_refused(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No call leads there: a schema does not change beside a branch."""
    source = "node Person { name: String @key  age: I32? }"
    graph = graphs.init(source)
    people(graph, "main", x=1)
    graph.branches.create("b")
    theirs = people(graph, "b", x=2)
    monkeypatch.setattr(schema_apply, "_require_no_branches", lambda _: None)
    graph.schema.apply(source.replace("age: I32?", "age: I32?  nick: String?"))
    for target, refused_commit in (("main", theirs), ("b", head(graph))):
        ours = head(graph, target)
        with pytest.raises(SchemaDiverged) as refused:
            graph.branches.merge("b" if target == "main" else "main", into=target)
        commits = {"source_commit": refused_commit, "target_commit": ours}
        assert refused.value.details == commits
        assert head(graph, target) == ours


def test_a_graph_that_is_open_for_reading_plans_and_does_not_merge(graphs: Opened) -> None:
    graph = graphs.init()
    people(graph, "main", n=0)
    apart(graph, _sets(1), _sets(2))
    graph.close()
    reader = graphs.read_only()
    before = listing(graphs.root)
    with pytest.raises(ReadOnlyGraph):
        reader.branches.merge("b")
    with pytest.raises(ReadOnlyGraph):
        reader.commits.revert(head(reader))
    assert planned(reader) == [("Person", "n", "divergent_update")]
    assert listing(graphs.root) == before


def test_a_plan_writes_nothing(small: Graph, graphs: Opened) -> None:
    apart(small, _adds(1), _sets(2))
    before = listing(graphs.root)
    assert small.branches.merge_plan("b").outcome == "merged"
    assert listing(graphs.root) == before


def test_a_merge_only_while_a_commit_is_the_head(small: Graph) -> None:
    apart(small, _adds(1), _sets(2))
    with pytest.raises(PreconditionFailed):
        small.branches.merge("b", if_commit=head(small, "b"))
    assert small.branches.merge("b", if_commit=head(small)).outcome == "merged"
    with pytest.raises(PreconditionFailed):
        small.branches.merge("b", if_commit=head(small, "b"))
    assert small.branches.merge("b", if_commit=head(small)).outcome == "already_up_to_date"


def test_a_target_that_moves_meanwhile_refuses_the_merge(small: Graph) -> None:
    apart(small, _adds(1), _sets(2))
    moves = once(lambda: people(small, "main", x=9))
    with armed("branch_merge.post_classify", moves), pytest.raises(ReadSetChanged):
        small.branches.merge("b")
    assert ages(small) == {"n": 2, "x": 9, "y": 0}
    require_settled(small, "main", "b")
    assert small.branches.merge("b").outcome == "merged"


def test_what_lands_on_the_source_meanwhile_is_not_merged(small: Graph) -> None:
    apart(small, _adds(1), _sets(2))
    captured = head(small, "b")
    with armed("branch_merge.post_classify", once(lambda: people(small, "b", late=9))):
        done = small.branches.merge("b", delete_branch=True)
    assert made(done).merged_parent_commit_id == captured
    assert done.branch_deleted is False
    assert done.branch_delete_error
    assert "late" not in ages(small)
    assert ages(small, "b")["late"] == 9
    assert small.branches.merge("b", delete_branch=True).branch_deleted
    assert ages(small)["late"] == 9


def test_main_is_merged_into_a_branch_and_never_deleted(small: Graph) -> None:
    apart(small, _adds(1), _sets(2))
    done = small.branches.merge("main", into="b", delete_branch=True)
    assert (done.outcome, done.branch_deleted) == ("merged", False)
    assert done.branch_delete_error
    assert done.to_dict()["branch_delete_error"] == done.branch_delete_error
    assert ages(small, "b") == {"n": 2, "new": 1, "x": 0, "y": 0}


def test_a_merge_that_fails_leaves_the_next_write_working(small: Graph) -> None:
    apart(small, _adds(1), _sets(2))

    def fail() -> None:
        raise FailpointHit

    with armed("branch_merge.post_classify", fail), pytest.raises(FailpointHit):
        small.branches.merge("b")
    people(small, "main", x=1)
    people(small, "b", y=1)
    assert small.branches.merge("b").outcome == "merged"
    assert ages(small) == {"n": 2, "new": 1, "x": 1, "y": 1}


def test_a_key_that_is_sent_again_gives_the_first_commit(small: Graph) -> None:
    apart(small, _adds(1), _sets(2))
    first = small.branches.merge("b", idempotency_key="k", if_commit=head(small))
    people(small, "main", x=5)
    people(small, "b", late=1)
    again = small.branches.merge("b", idempotency_key="k", if_commit=made(first).parent_commit_id)
    assert (again.commit, again.outcome) == (first.commit, first.outcome)
    assert "late" not in ages(small)
    small.branches.create("c")
    for source, strategy in (("c", "fail"), ("b", "ours")):
        with pytest.raises(IdempotencyKeyReused):
            small.branches.merge(source, strategy=strategy, idempotency_key="k")
    chosen = [{"type": "Person", "id": "x", "take": "ours"}]
    with pytest.raises(IdempotencyKeyReused):
        small.branches.merge("b", resolutions=chosen, idempotency_key="k")
    with pytest.raises(IdempotencyKeyReused):
        small.mutate('query q() { delete Person where name = "x" }', idempotency_key="k")
    # On another branch the key is free.
    assert small.branches.merge("b", into="c", idempotency_key="k").outcome == "merged"


def test_a_key_that_is_sent_again_does_not_delete_what_is_not_merged(small: Graph) -> None:
    apart(small, _adds(1), _sets(2))
    first = small.branches.merge("b", idempotency_key="k")
    people(small, "b", late=1)
    again = small.branches.merge("b", idempotency_key="k", delete_branch=True)
    assert (again.commit, again.branch_deleted) == (first.commit, False)
    assert ages(small, "b")["late"] == 1


def test_a_key_that_is_sent_again_deletes_what_is_merged(small: Graph) -> None:
    apart(small, _adds(1), _sets(2))
    first = small.branches.merge("b", idempotency_key="k")
    again = small.branches.merge("b", idempotency_key="k", delete_branch=True)
    assert (again.commit, again.branch_deleted) == (first.commit, True)


def test_a_key_that_is_sent_again_is_known_when_the_source_is_gone(small: Graph) -> None:
    apart(small, _adds(1), _sets(2))
    first = small.branches.merge("b", idempotency_key="k", delete_branch=True)
    again = small.branches.merge("b", idempotency_key="k", delete_branch=True)
    assert again == first
    for other in ("c", "b/c"):
        with pytest.raises(BranchNotFound):
            small.branches.merge(other, idempotency_key="k", delete_branch=True)
    with pytest.raises(BranchNotFound):
        small.branches.merge("b", idempotency_key="other")
    # Nor does it delete another branch that has the name now.
    small.branches.create("b")
    people(small, "b", late=1)
    small.branches.merge("b", idempotency_key="k", delete_branch=True)
    assert ages(small, "b")["late"] == 1


def test_very_many_conflicts_are_counted_and_the_first_told(
    small: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = {f"p{at}": 1 for at in range(9)}
    apart(
        small,
        lambda graph, branch: people(graph, branch, **some),
        lambda graph, branch: people(graph, branch, **dict.fromkeys(some, 2)),
    )
    monkeypatch.setattr(conflicts_module, "REPORTED_CONFLICTS", 4)
    with pytest.raises(MergeConflicts, match="and 6 more") as caught:
        small.branches.merge("b")
    assert caught.value.details["total"] == 9
    shown = caught.value.details["merge_conflicts"]
    assert isinstance(shown, list)
    assert len(shown) == 4


def test_large_conflicts_are_named_and_their_values_left_out(
    small: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = {f"p{at:03d}": 1 for at in range(150)}
    apart(
        small,
        lambda graph, branch: people(graph, branch, **some),
        lambda graph, branch: people(graph, branch, **dict.fromkeys(some, 2)),
    )
    monkeypatch.setattr(contests_module, "MOST_IMAGE_BYTES", 2_600)
    monkeypatch.setattr(decisions_module, "REPORTED_CONFLICTS", 140)
    plan = small.branches.merge_plan("b")
    assert (plan.conflict_count, len(plan.conflict_list)) == (150, 140)
    is_shown = [each.ours is not None for each in plan.conflict_list]
    assert is_shown == [True] * 64 + [False] * 76
    last = plan.conflict_list[-1]
    assert (last.entity_id, last.kind) == ("p139", "divergent_insert")
    assert last.message.endswith("with different values of age")
    assert plan.conflicts.num_rows == 140
    assert planned(small, strategy="theirs") == []


def test_more_than_a_merge_holds_is_refused_and_comes_by_a_load(
    small: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = {f"p{at}": 1 for at in range(6)}
    people(small, "main", gone=1)
    small.branches.create("b")
    people(small, "b", **some)
    remove(small, branch="b", Person=["gone"])
    before = head(small)
    monkeypatch.setattr(limits, "MAX_MERGE_ROWS", 6)
    for call in (small.branches.merge, small.branches.merge_plan):
        with pytest.raises(ResourceLimit, match="load it into the target") as refused:
            call("b")
        assert refused.value.details == {
            "resource": "branch-merge changed rows",
            "limit": 6,
            "actual": 7,
        }
    assert head(small) == before
    people(small, "main", **some)
    assert made(small.branches.merge("b")).stats["tables"]["node:Person"]["removed"] == 1
    assert ages(small) == {"n": 0, **some, "x": 0, "y": 0}


def test_contested_rows_and_blobs_count(graphs: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graphs.init("node File { name: String @key  x: Blob? }")

    def put_blob(graph: Graph, branch: str, data: bytes) -> None:
        cell = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
        with graph.write(branch) as writer:
            blobs = pa.array([{"data": data, "uri": None}], cell)
            writer.upsert("File", pa.table({"name": ["f"], "x": blobs}))
            writer.commit()

    apart(
        graph,
        lambda graph, branch: put_blob(graph, branch, b"x" * 4_000),
        lambda graph, branch: put_blob(graph, branch, b"y"),
    )
    monkeypatch.setattr(limits, "MAX_MERGE_ARROW_BYTES", 4_000)
    with pytest.raises(MergeConflicts):
        graph.branches.merge("b")
    with pytest.raises(ResourceLimit, match="bytes"):
        graph.branches.merge("b", strategy="theirs")
    monkeypatch.setattr(limits, "MAX_MERGE_ROWS", 0)
    with pytest.raises(ResourceLimit, match="rows"):
        graph.branches.merge("b")
    assert graph.blob("node", "File", "f", "x").read() == b"y"
