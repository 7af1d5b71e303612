"""The first rows in the order of ids: the same ones, without the rows behind them."""

from typing import Any

import pyarrow as pa
import pytest
from tests.unit.engine.graphs import Opened

from omnigraph import Graph
from omnigraph.errors import ResourceLimit

SCHEMA = """
node Person { name: String @key  age: I32? }
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge Lives: Person -> City
"""
NAMES = [f"p{n:03}" for n in range(300)]
STEPS = (1, 4, 9, 16, 25, 36, 49, 64)
KNOWS = [(name, NAMES[(at + step) % 300]) for at, name in enumerate(NAMES) for step in STEPS]
FEW_ROWS = 3_000
"""More than the edges, and far fewer than the walks of two hops."""

QUERIES = [
    "$a: Person  $a knows $b  $b knows $c } return { $a, $b, $c }",
    "$b: Person  $b knows $a  $a knows $c } return { $c, $a, $b }",
    "$c: Person  $b knows $c  $a knows $b } return { $a.name, $c.name }",
    "$m: Person  $m knows $a  $m knows $b  $b lives $z } return { $a, $b, $m, $z.name }",
    "$a: Person  $a $w:knows $b  $b $x:knows $c } return { $w.since, $c }",
    "$a: Person  $a knows $b  $b knows $c } return { $b, $a, $c } order { $b, $c }",
    "$a: Person  $a.age > 3  $a knows $b  $b.age < 5  $b knows $c } return { $a, $b, $c }",
    "$a: Person  $a knows $b  optional { $b knows $c $c.age = 2 } } return { $a, $b, $c }",
]


@pytest.fixture(scope="module", params=["csr", "indexed"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def graph(mode: str, shared: Opened) -> Graph:
    graph = shared.init(SCHEMA, TRAVERSAL_MODE=mode)
    ages = pa.array([at % 7 for at in range(300)], pa.int32())
    with graph.write() as write:
        write.append("Person", pa.table({"name": NAMES, "age": ages}))
        write.append("City", pa.table({"name": ["rome", "oslo"]}))
        src, dst = zip(*KNOWS, strict=True)
        since = pa.array(range(len(KNOWS)), pa.int32())
        write.append("Knows", pa.table({"src": src, "dst": dst, "since": since}))
        homes = [("rome", "oslo")[at % 2] for at in range(300)]
        write.append("Lives", pa.table({"src": NAMES, "dst": homes}))
        write.commit()
    return graph


@pytest.fixture(scope="module")
def narrow(graph: Graph, mode: str, shared: Opened) -> Graph:
    """The same graph for queries that may hold few rows."""
    return shared.again(graph, TRAVERSAL_MODE=mode, MAX_BINDING_ROWS=str(FEW_ROWS))


def rows(graph: Graph, query: str) -> list[dict[str, Any]]:
    return graph.query(f"query q() {{ match {{ {query} }}").to_dicts()


@pytest.mark.parametrize("query", QUERIES)
def test_the_first_rows_are_those_of_the_whole_result(graph: Graph, query: str) -> None:
    everything = rows(graph, query)
    assert len(everything) > 100
    for limit, offset in ((1, 0), (10, 0), (70, 35), (len(everything) + 5, 0)):
        cut = f"{query} limit {limit} offset {offset}"
        assert rows(graph, cut) == everything[offset : offset + limit]


@pytest.mark.parametrize("query", QUERIES[:6])
def test_rows_behind_the_limit_are_not_matched(narrow: Graph, query: str) -> None:
    with pytest.raises(ResourceLimit):
        rows(narrow, query)
    assert len(rows(narrow, f"{query} limit 10")) == 10


def test_a_plan_says_that_rows_are_matched_as_needed(graph: Graph) -> None:
    body = "match { $p: Person  $p knows $f } return { $p.name, $f.name }"
    plan = graph.explain(f"query q() {{ {body} limit 3 }}", analyze=True)
    assert [(step["op"], step["form"]) for step in plan.ops] == [
        ("NodeScan", "as needed"),
        ("Expand", "as needed"),
    ]
    # Rows are ordered by the ids of f first, so the walk begins there.
    assert (plan.ops[0]["var"], plan.ops[1]["direction"]) == ("f", "in")
    assert plan.ops[1]["rows"] < len(KNOWS) / 4
    for other in (f"{body} order {{ $p.age }} limit 3", body, f"{body} limit 20000"):
        plan = graph.explain(f"query q() {{ {other} }}")
        assert all("form" not in step for step in plan.ops)
