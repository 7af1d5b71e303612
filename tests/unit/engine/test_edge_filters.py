"""Filters on an edge variable are judged where the edges are read, in every way to read them."""

from typing import Any

import pytest
from tests.unit.engine.graphs import Opened, fill, index

from omnigraph import Graph
from omnigraph.lang import ir

SCHEMA = """
node Person { name: String @key }
edge Knows: Person -> Person { since: I32? @index  note: String?  tags: [String]? }
"""
PEOPLE = [f"p{number}" for number in range(6)]
EDGES: list[dict[str, Any]] = [  # Any: values of several types
    {
        "src": PEOPLE[number % 6],
        "dst": PEOPLE[number * 5 % 6],
        "since": None if number % 7 == 0 else number,
        "note": f"n{number % 3}",
        "tags": ["a"] if number % 2 else [],
    }
    for number in range(24)
]


@pytest.fixture(scope="module")
def graph(shared: Opened) -> Graph:
    made = shared.init(SCHEMA)
    fill(made, Person=[{"name": name} for name in PEOPLE], Knows=EDGES)
    index(made)
    return made


def triples(graph: Graph, match: str, **params: object) -> list[tuple[object, ...]]:
    declared = "($low: I32)" if params else "()"
    source = (
        f"query q{declared} {{ match {{ {match} }} return {{ $a.name, $b.name, $e.since }}"
        " order { $a.name, $b.name, $e.since } }"
    )
    return [tuple(row.values()) for row in graph.query(source, params=params).to_dicts()]


def expected(keep: object) -> list[tuple[object, ...]]:
    assert callable(keep)
    found = [(each["src"], each["dst"], each["since"]) for each in EDGES if keep(each)]
    return sorted(found, key=repr)


@pytest.mark.parametrize("limit", ["0", "1024"])
@pytest.mark.parametrize(
    ("condition", "keep"),
    [
        ("$e.since = 5", lambda e: e["since"] == 5),
        ('$e.since > 11 $e.note = "n1"', lambda e: (e["since"] or 0) > 11 and e["note"] == "n1"),
        ("$e.since is null", lambda e: e["since"] is None),
        ('$e.tags contains "a"', lambda e: e["tags"] == ["a"]),
        ("$e.since = 5 $e.since = 6", lambda _: False),
        ("$e.since in []", lambda _: False),
        ("not ($e.since >= 4)", lambda e: e["since"] is not None and e["since"] < 4),
    ],
)
def test_every_way_to_read_edges_gives_the_rows_of_the_filter(
    graph: Graph, shared: Opened, limit: str, condition: str, keep: object
) -> None:
    with shared.again(graph, OMNIGRAPH_EXPAND_INDEXED_MAX_FRONTIER=limit) as opened:
        for walk in ("$a: Person $a $e: knows $b", "$b: Person $a $e: knows $b"):
            found = triples(opened, f"{walk} {condition}")
            assert sorted(found, key=repr) == expected(keep)


def test_a_parameter_is_pushed_and_a_bound_end_too(graph: Graph) -> None:
    match = '$a: Person { name: "p1" } $a $e: knows $b $e.since >= $low'
    assert triples(graph, match, low=8) == [
        (each["src"], each["dst"], each["since"])
        for each in EDGES
        if each["src"] == "p1" and (each["since"] or 0) >= 8
    ]


def test_the_plan_has_the_filters_with_the_walk_and_their_index(graph: Graph) -> None:
    source = (
        'query q() { match { $a: Person $a $e: knows $b $e.since = 5 $e.note = "n2" }'
        " return { $a.name } }"
    )
    request = graph._request(source, None, None, None, None, None)
    query = graph._engine.compile(request).ir
    assert not [op for op in query.ops if isinstance(op, ir.Where)]
    (walk,) = [op for op in query.ops if isinstance(op, ir.Expand)]
    assert len(walk.edge_filters) == 2
    told = str(graph.explain(source))
    assert "filter e.since = 5 pushed, since BTREE covers 100%" in told
    assert 'filter e.note = "n2" pushed' in told
