"""Walks that are only counted: as many as there are, whatever rows they would be."""

from collections import Counter
from itertools import pairwise, product

import pyarrow as pa
import pytest
from tests.unit.engine.graphs import Opened

from omnigraph import Graph
from omnigraph.engine import match
from omnigraph.errors import NumericOverflow, ResourceLimit

SCHEMA = """
interface Named { name: String }
node Person implements Named { name: String @key  age: I32? }
node City implements Named { name: String @key }
edge Knows: Person -> Person
edge Lives: Person -> City
"""
PEOPLE = 40
AGES = {f"p{n}": n % 5 for n in range(PEOPLE)}
HOMES = {f"p{n}": f"c{n % 3}" for n in range(PEOPLE) if n % 7}
KNOWS = {
    (f"p{n}", f"p{(n * step + step) % PEOPLE}")
    for n in range(PEOPLE)
    for step in (3, 7, 11, 20, 13, 1)[: 1 + n % 7]
}
AFTER = {name: sorted(dst for src, dst in KNOWS if src == name) for name in AGES}
FEW_ROWS = 300
"""Fewer than walks of two hops: who makes a row of each is refused."""


@pytest.fixture(scope="module", params=["csr", "indexed"])
def graph(request: pytest.FixtureRequest, shared: Opened) -> Graph:
    graph = shared.init(SCHEMA, TRAVERSAL_MODE=request.param, MAX_BINDING_ROWS=str(FEW_ROWS))
    with graph.write() as write:
        write.append(
            "Person",
            pa.table({"name": [*AGES], "age": pa.array(AGES.values(), pa.int32())}),
        )
        write.append("City", pa.table({"name": ["c0", "c1", "c2"]}))
        src, dst = zip(*sorted(KNOWS), strict=True)
        write.append("Knows", pa.table({"src": src, "dst": dst}))
        write.append("Lives", pa.table({"src": [*HOMES], "dst": [*HOMES.values()]}))
        write.commit()
    return graph


def counted(graph: Graph, body: str, returns: str = "count($a) as n") -> list[tuple[object, ...]]:
    found = graph.query(f"query q() {{ match {{ $a: Person {body} }} return {{ {returns} }} }}")
    return [tuple(row.values()) for row in found]


def walks(hops: int) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [(name,) for name in AGES]
    for _ in range(hops):
        found = [(*walk, after) for walk in found for after in AFTER[walk[-1]]]
    return found


def test_walks_of_many_hops_are_counted_though_no_row_could_hold_them(graph: Graph) -> None:
    expected = len(walks(3))
    assert expected > 4 * FEW_ROWS
    assert counted(graph, "$a knows $b $b knows $c $c knows $d") == [(expected,)]
    # With a property of every node on the way each walk is a row.
    with pytest.raises(ResourceLimit):
        counted(
            graph,
            "$a knows $b $b knows $c $c knows $d",
            "$a.age, $b.age, $c.age, $d.age, count($a) as n",
        )


def test_conditions_on_the_way_and_branches_of_a_walk_are_counted(graph: Graph) -> None:
    on_the_way = [
        walk for walk in walks(3) if AGES[walk[1]] > 1 and AGES[walk[3]] < 3 and AGES[walk[0]] != 2
    ]
    assert counted(
        graph, "$a.age != 2 $a knows $b $b.age > 1 $b knows $c $c knows $d $d.age < 3"
    ) == [(len(on_the_way),)]
    tree = [
        (walk, other)
        for walk in walks(2)
        for other in AFTER[walk[0]]
        if walk[0] in HOMES and walk[1] in HOMES
    ]
    assert counted(graph, "$a knows $b $b knows $c $a lives $h $b lives $i $a knows $d") == [
        (len(tree),)
    ]


def test_groups_of_the_first_or_of_the_last_node_weigh_the_others(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match, "FOLDED_ROWS", 0)
    assert len(walks(2)) > FEW_ROWS
    of_first = Counter(AGES[walk[0]] for walk in walks(3))
    found = counted(graph, "$a knows $b $b knows $c $c knows $d", "$a.age, count($d) as n")
    assert found == sorted(of_first.items())
    of_last = Counter(HOMES[walk[2]] for walk in walks(2) if walk[2] in HOMES)
    found = counted(graph, "$a knows $b $b knows $c $c lives $h", "$h, count($a) as n")
    assert found == sorted(of_last.items())
    ages = [AGES[walk[0]] for walk in walks(2)]
    found = counted(graph, "$a knows $b $b knows $c", "sum($a.age) as s, max($a.age) as m")
    assert found == [(float(sum(ages)), max(ages))]


def test_blocks_count_and_test_walks_without_rows(graph: Graph) -> None:
    many = {name for name, n in Counter(walk[0] for walk in walks(2)).items() if n > 12}
    assert many
    found = counted(graph, "count { $a knows $b $b knows $c } > 12", "count($a) as n")
    assert found == [(len(many),)]
    old = {walk[0] for walk in walks(2) if AGES[walk[2]] == 4}
    assert counted(graph, "exists { $a knows $b $b knows $c $c.age = 4 }") == [(len(old),)]
    assert counted(graph, "not { $a knows $b $b knows $c $c.age = 4 }") == [(PEOPLE - len(old),)]


def test_who_may_be_of_two_types_walks_where_its_type_can(graph: Graph) -> None:
    found = graph.query(
        "query q() { match { $a: Named $a knows $b $b knows $c $c knows $d }"
        " return { count($d) as n } }"
    )
    assert [row["n"] for row in found] == [len(walks(3))]


def test_more_walks_than_a_number_holds_are_refused_where_they_are_counted(shared: Opened) -> None:
    graph = shared.init("node N { name: String @key } edge Next: N -> N")
    names = [f"n{n}" for n in range(10)]
    src, dst = zip(*product(names, names), strict=True)
    with graph.write() as write:
        write.append("N", pa.table({"name": names}))
        write.append("Next", pa.table({"src": src, "dst": dst}))
        write.commit()

    def chain(hops: int) -> str:
        return " ".join(f"$v{n} next $v{n + 1}" for n in range(hops))

    def count(body: str) -> list[object]:
        found = graph.query(f"query q() {{ match {{ $v0: N {body} }} return {{ count($v0) }} }}")
        return [row["count"] for row in found]

    assert count(chain(17)) == [10**18]
    with pytest.raises(NumericOverflow):
        count(chain(18))
    # Whether there is one is no matter of numbers.
    assert count(f"exists {{ {chain(30)} }}") == [10]


@pytest.mark.parametrize("mode", ["csr", "indexed"])
@pytest.mark.parametrize(
    "body",
    [
        "$a.ok = true $a next $b $b.big + 1 > 0",
        "$a.ok = true $a next $b $b next $c $c.big + 1 > 0",
        "$a.ok = true exists { $a next $b $b next $c 0 < -(-$c.big - 1) }",
        "$a.ok = true $a next $b count { $b next $c $c.big * 2 > 0 } > 0",
        "$a next $b $a next $w $w.ok = true $b next $c $c.big + 1 > 0",
    ],
)
def test_what_no_row_leads_to_is_not_computed(shared: Opened, mode: str, body: str) -> None:
    graph = shared.init(
        "node N { name: String @key  big: I64  ok: Bool } edge Next: N -> N", TRAVERSAL_MODE=mode
    )
    names = ["a", "b", "c", "d", "e", "z"]
    with graph.write() as write:
        write.append(
            "N",
            pa.table(
                {
                    "name": names,
                    "big": [1, 2, 3, 4, 5, 2**63 - 1],
                    "ok": [True, True, True, True, False, False],
                }
            ),
        )
        src, dst = zip("ab", "bc", "ca", "da", "ez", "zz", strict=True)
        write.append("Next", pa.table({"src": src, "dst": dst}))
        write.commit()
    query = f"query q() {{ match {{ $a: N {body} }} return {{ count($a) as n }} }}"
    assert [row["n"] for row in graph.query(query)] == [4]


def test_walks_are_too_many_only_where_rows_lead(shared: Opened) -> None:
    graph = shared.init("node N { name: String @key } edge Next: N -> N", TRAVERSAL_MODE="csr")
    hub, line = [f"h{n}" for n in range(10)], [f"t{n:02}" for n in range(30)]
    way = [*(f"s{n}" for n in range(12)), "a", "h0"]
    edges = [*product(hub, hub), *pairwise(line), *pairwise(way), ("h0", "z")]
    with graph.write() as write:
        write.append("N", pa.table({"name": [*line, *way, *hub[1:], "z"]}))
        src, dst = zip(*edges, ("z", "t00"), strict=True)
        write.append("Next", pa.table({"src": src, "dst": dst}))
        write.commit()

    def count(body: str) -> int:
        found = graph.query(f"query q() {{ match {{ $v: N {body} }} return {{ count($v) }} }}")
        return int(found.to_arrow()["count"][0].as_py())

    def after(hops: int) -> str:
        names = ["$v", *(f"$after{n}" for n in range(hops))]
        return " ".join(f"{first} next {second}" for first, second in pairwise(names))

    def before(hops: int) -> str:
        names = [*(f"$before{n}" for n in range(hops)), "$v"]
        return " ".join(f"{first} next {second}" for first, second in pairwise(names))

    # From the hub there are more walks of nineteen hops than a number holds.
    assert count(f'$v >= "t" $v < "u" {after(19)}') == 11
    # Many lead to one node, and from another one: no node has many of both.
    to_first, from_first = (count(f'$v = "a" {walk}') for walk in (before(12), after(12)))
    to_last, from_last = (count(f'$v = "z" {walk}') for walk in (before(12), after(12)))
    assert (to_first, from_last) == (1, 1)
    assert min(from_first, to_last) > 10**11
    assert count(f'$v in ["a", "z"] {before(12)} {after(12)}') == from_first + to_last


def test_a_plan_says_which_hops_are_counted(graph: Graph) -> None:
    plan = graph.explain(
        "query q() { match { $a: Person $a knows $b $b knows $c $a lives $h }"
        " return { $h.name, count($a) } }",
        analyze=True,
    )
    forms = {step["to"]: step.get("form") for step in plan.ops if step["op"] == "Expand"}
    assert forms == {"b": "counted", "c": "counted", "h": None}
    assert "expand b Knows out to c reading id, counted" in str(plan)
    listed = graph.explain("query q() { match { $a: Person $a knows $b } return { $a } }")
    assert all("form" not in step for step in listed.ops)
