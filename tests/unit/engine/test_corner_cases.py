"""Places where two shortcuts, two scopes or two limits meet."""

import math
from time import sleep

import pyarrow as pa
import pytest
from tests.unit.engine.graphs import Opened, index

from omnigraph import Graph
from omnigraph.engine import walk
from omnigraph.engine.runtime_cache import TableVersion
from omnigraph.errors import (
    BranchNotFound,
    DeadlineExceeded,
    InvalidArgument,
    NumericOverflow,
    ParameterError,
    ResourceLimit,
)

PERSONS = "node P { name: String @key  city: String?  n: I32? }\nedge E: P -> P"
DOCS = "node D { name: String @key  t: String? @index  v: Vector(2)? @index }"


def persons(graphs: Opened, count: int, **env: str) -> Graph:
    graph = graphs.init(PERSONS, embedder=None, **env)
    with graph.write() as write:
        names = [f"p{number:05d}" for number in range(count)]
        numbers = pa.array(range(count), pa.int32())
        write.append("P", pa.table({"name": names, "n": numbers}))
        write.commit()
    return graph


def docs(
    graphs: Opened, texts: list[str | None], vectors: list[list[float]] | None = None
) -> Graph:
    graph = graphs.init(DOCS)
    with graph.write() as write:
        names = [f"d{number:03d}" for number in range(len(texts))]
        columns: dict[str, object] = {"name": names, "t": pa.array(texts, pa.string())}
        if vectors is not None:
            columns["v"] = pa.array(vectors, pa.list_(pa.float32(), 2))
        write.append("D", pa.table(columns))
        write.commit()
    return graph


def rows(graph: Graph, text: str, **params: object) -> list[dict[str, object]]:
    return graph.query(text, params=params or None).to_dicts()


# --- counts -----------------------------------------------------------------------------------


def test_counts_beyond_any_table_are_exact_or_refused(graphs: Opened) -> None:
    graph = persons(graphs, 4096)
    parts = "$a: P  $b: P  $c: P  $d: P  $e: P"
    found = rows(graph, f"query q() {{ match {{ {parts} }} return {{ count($a) as c }} }}")
    assert found == [{"c": 4096**5}]
    with pytest.raises(NumericOverflow):
        rows(graph, f"query q() {{ match {{ {parts} $f: P }} return {{ count($a) as c }} }}")


# --- text and vectors -------------------------------------------------------------------------


def test_a_fused_rank_is_that_of_the_whole_match(graphs: Opened) -> None:
    texts: list[str | None] = ["fox " * (1 + number % 7) for number in range(40)]
    graph = docs(graphs, texts, [[1.0, float(number)] for number in range(40)])
    query = """query q() { match { $d: D }
        return { $d.name, rrf(bm25($d.t, "fox"), nearest($d.v, [1.0, 0.0])) as r }
        order { bm25($d.t, "fox") } limit 5 }"""
    before = rows(graph, query)
    index(graph)
    after = rows(graph, query)
    assert {row["d.name"] for row in after} == {row["d.name"] for row in before}


def test_a_vector_too_short_for_single_precision_is_still_ranked(graphs: Opened) -> None:
    vectors = [[-1.0, 0.0]] * 600 + [[0.0, 1e-44]]
    graph = docs(graphs, [None] * 601, vectors)
    query = """query q() { match { $d: D } return { $d.name, nearest($d.v, [1.0, 0.0]) as x }
        order { nearest($d.v, [1.0, 0.0]) } limit 1 }"""
    assert rows(graph, query) == [{"d.name": "d600", "x": pytest.approx(1.0)}]


def test_a_plan_tells_the_calls_on_one_name_that_means_two_types(graphs: Opened) -> None:
    graph = graphs.init(
        "node A { name: String @key }\n"
        "node B { name: String @key  v: Vector(2)?  t: String? }\n"
        "node C { name: String @key  w: Vector(3)? }\n"
        "edge Ab: A -> B\nedge Ac: A -> C",
        EMBED_PROVIDER="mock",
    )
    query = """query q() { match { $a: A
          not { $a ab $x  nearest($x.v, "text") < 2.0  search($x.t, "y") }
          not { $a ac $x  nearest($x.w, "text") < 2.0 } }
        return { $a } }"""
    calls = {(each["kind"], each["property"]) for each in graph.explain(query).search}
    assert calls == {("nearest", "B.v"), ("search", "B.t"), ("nearest", "C.w")}


# --- budgets ----------------------------------------------------------------------------------


def dense(graphs: Opened, count: int, **env: str) -> Graph:
    graph = persons(graphs, count, **env)
    names = [f"p{number:05d}" for number in range(count)]
    with graph.write() as write:
        ends = {"src": [a for a in names for _ in names], "dst": names * count}
        write.append("E", pa.table(ends))
        write.commit()
    return graph


def test_a_frontier_with_many_edges_is_followed_in_parts(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = dense(graphs, 40)
    listed = "query q() { match { $a: P  $a e{1,3} $b } return { $a, $b } }"
    counted = "query q() { match { $a: P  $a e{2,3} $b } return { $a, count($b) as c } }"
    expected = rows(graph, listed), rows(graph, counted)
    monkeypatch.setattr(walk, "EDGES_AT_ONCE", 7)
    assert (rows(graph, listed), rows(graph, counted)) == expected


def test_memory_is_that_of_the_whole_query(graphs: Opened) -> None:
    names = [f"c{number}" for number in range(20)]
    columns = "  ".join(f"{name}: I64?" for name in names)
    graph = graphs.init(f"node N {{ name: String @key  {columns} }}", QUERY_MEMORY_BYTES="400000")
    values = pa.array(range(5_000), pa.int64())
    with graph.write() as write:
        keys = [f"n{number}" for number in range(5_000)]
        write.append("N", pa.table({"name": keys, **dict.fromkeys(names, values)}))
        write.commit()
    one = "query q() { match { $n: N } return { $n.c0 } order { $n.c1 } limit 1 }"
    assert len(rows(graph, one)) == 1
    order = ", ".join(f"$n.{name}" for name in names)
    with pytest.raises(ResourceLimit) as caught:
        rows(
            graph, f"query q() {{ match {{ $n: N }} return {{ $n }} order {{ {order} }} limit 1 }}"
        )
    assert caught.value.details["resource"] == "query_memory_bytes"


def test_a_fuzzy_search_stops_when_its_time_is_up(graphs: Opened) -> None:
    words = [f"{number:06x}word" for number in range(30_000)]
    graph = docs(graphs, [" ".join(words[at : at + 300]) for at in range(0, 30_000, 300)])
    query = 'query q() { match { $d: D  fuzzy($d.t, "zzzzzzword") } return { $d } }'
    assert graph.query(query, timeout_s=0) is not None
    with pytest.raises(DeadlineExceeded):
        graph.query(query, timeout_s=0.001)


def test_a_topology_that_cannot_be_kept_is_built_once(graphs: Opened) -> None:
    graph = persons(graphs, 50, TOPOLOGY_CACHE_BYTES="2500")
    with graph.write() as write:
        names = [f"p{number:05d}" for number in range(50)]
        write.append("E", pa.table({"src": names, "dst": names[::-1]}))
        write.commit()
    query = "query q() { match { $a: P  $a e $b } return { $a, $b.n } }"
    first = rows(graph, query)
    snapshot = graph.snapshot()
    version = TableVersion.of(snapshot.handle(snapshot.type("E")))
    topologies = graph._engine.caches.topologies
    # On a busy machine the first query does not wait for the topology, which is built beside it.
    for _ in range(100):
        if topologies.is_too_large(version):
            break
        sleep(0.1)
        first = rows(graph, query)
    assert topologies.peek(version) is None
    assert topologies.is_too_large(version)
    assert graph.explain(query).ops[1]["mode"] == "indexed"
    assert rows(graph, query) == first


# --- plans and arguments ----------------------------------------------------------------------


def test_a_walk_of_any_fan_out_can_be_explained(graphs: Opened) -> None:
    graph = persons(graphs, 1)
    with graph.write() as write:
        write.append("E", pa.table({"src": ["p00000"] * 20_000, "dst": ["p00000"] * 20_000}))
        write.commit()
    plan = graph.explain("query q() { match { $a: P  $a e{1,64} $b } return { $b } }")
    assert plan.ops[1]["est_rows"] == 1


def test_a_plan_needs_no_parameter_and_checks_those_it_gets(graphs: Opened) -> None:
    graph = persons(graphs, 1)
    query = "query q($a: I32, $b: String) { match { $p: P { name: $b }  $p.n > $a } return { $p } }"
    assert graph.explain(query, params={"a": 1}).query_name == "q"
    with pytest.raises(ParameterError):
        graph.explain(query, params={"a": "x"})
    with pytest.raises(ParameterError):
        graph.explain(query, params={"c": 1})


def test_arguments_of_the_wrong_kind_are_told_by_name(graphs: Opened) -> None:
    graph = persons(graphs, 1)
    query = "query q() { match { $p: P } return { $p } }"
    with pytest.raises(BranchNotFound):
        graph.query(query, branch="")
    wrong: list[tuple[str, dict[str, object]]] = [
        ("source", {"source": None}),
        ("name", {"source": query, "name": 3}),
        ("params", {"source": query, "params": ["a"]}),
        ("timeout_s", {"source": query, "timeout_s": "x"}),
        ("timeout_s", {"source": query, "timeout_s": -1}),
        ("timeout_s", {"source": query, "timeout_s": math.inf}),
        ("executor", {"source": query, "executor": "cloud"}),
    ]
    for argument, given in wrong:
        with pytest.raises(InvalidArgument) as caught:
            graph.query(**given)  # type: ignore[arg-type]  # that is the point
        assert caught.value.details["argument"] == argument
    with pytest.raises(InvalidArgument):
        graph.maintenance.ensure_indices(types=[3])  # type: ignore[list-item]  # as above


def test_a_closed_graph_answers_no_more(graphs: Opened) -> None:
    graph = persons(graphs, 1)
    graph.close()
    for ask in (graph.query, graph.explain):
        with pytest.raises(InvalidArgument, match="closed"):
            ask("query q() { match { $p: P } return { $p } }")
    with pytest.raises(InvalidArgument, match="closed"):
        graph.mutate('query m() { insert P { name: "x" } }')
