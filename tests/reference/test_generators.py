"""The generators: the same for a seed every time, valid, and reaching everything they should."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.extended import thinned
from tests.reference.agreement import make_case
from tests.reference.evaluator import ReferenceGraph
from tests.reference.graphs import generate_graph
from tests.reference.queries import Compiled, generate_query
from tests.reference.storing import store

from omnigraph.lang import Scalar
from omnigraph.lang.arrow_schema import arrow_field

_GRAPHS = 47
_MORE_GRAPHS = 80
_QUERIES_PER_GRAPH = 25
_PLAIN = [each for each in Scalar if each not in (Scalar.BLOB, Scalar.VECTOR)]
_LISTS = [Scalar.STRING, Scalar.I64, Scalar.U64, Scalar.F32, Scalar.F64, Scalar.DATE, Scalar.BOOL]
_NUMERIC = [each for each in Scalar if each.is_numeric]
_ORDERED = [each for each in _PLAIN if each is not Scalar.BOOL]

FEATURES = {
    *(f"filter: {kind} {op}" for kind in _PLAIN for op in ("=", "!=", "<", "<=", ">", ">=")),
    *(f"aggregate: {func} of {kind}" for func in ("sum", "avg") for kind in _NUMERIC),
    *(f"aggregate: {func} of {kind}" for func in ("min", "max") for kind in _ORDERED),
    *(f"aggregate: count of {kind}" for kind in (*_PLAIN, Scalar.VECTOR)),
    *(f"group: {kind}" for kind in _PLAIN),
    *(f"return: {kind}" for kind in (*_PLAIN, Scalar.VECTOR)),
    *(f"return: [{kind}]" for kind in (*_LISTS, Scalar.DATETIME)),
    *("aggregate: no keys", "aggregate: with others", "aggregate: ordered"),
    *("aggregate: count of a node variable", "group: node variable"),
    *("constant: now", "constant: null parameter", "constant: parameter"),
    *("constant: out of range", "constant: fraction to an integer column"),
    *("constant: whole float to an integer column", "constant: integer to a float column"),
    *("constant: float to a float column", "filter: constant on the left"),
    *("filter: columns of two types, as floats", "filter: columns of two types, integers"),
    *("filter: columns of one variable", "filter: columns of two variables"),
    *("filter: a list contains a constant", "filter: a list contains a column"),
    *("filter: a constant list contains a column", "filter: contains of a text"),
    *("filter: starts_with of a text", "filter: a constant text contains a column"),
    *("filter: ids", "filter: constants only", "filter: is null", "filter: is not null"),
    *(f"filter: {word} {what}" for word in ("in", "not in") for what in ("constants", "a column")),
    *("condition: and", "condition: or", "condition: not", "offset", "count: parameter"),
    *("distinct", "having", "value", "value: count", "aggregate: count of distinct values"),
    *("aggregate: collect of distinct values", "aggregate: count of distinct lists"),
    *("aggregate: of no property", "constant: list parameter", "match: one of a list"),
    *("value: by a condition", "value: count of a block", "walk: a bound as a parameter"),
    *(f"aggregate: collect of {kind}" for kind in _ORDERED),
    *("block: not", "block: exists", "block: optional", "filter: after an optional block"),
    *("interface", "interface: walk", "interface: walk in a block"),
    *("limit", "limit 0", "order", "order: descending", "walk: told"),
    *("match: cross product", "match: list member", "match: property"),
    *("negation: walk", "negation: nested", "negation: filter on an outer variable"),
    *("negation: join by a comparison", "negation: compares inner and outer variables"),
    "negation: outer variable bound again",
    *("rank: nearest", "rank: rrf", "rank: by an alias", "rank: and another key"),
    *("return: literal", "return: list literal", "return: parameter", "return: list parameter"),
    *("return: node variable", "return: text predicate", "return: nearest"),
    *("search: search", "search: match_text", "search: fuzzy", "search: compared with a Bool"),
    "search: nearest in a filter",
    *("walk: from the bound end", "walk: to the bound end", "walk: undirected", "walk: hops"),
    *("walk: hops between two types", "walk: both ends bound", "walk: from a node to itself"),
    *("walk: anonymous end", "walk: anonymous edge", "walk: edge variable", "walk: no end bound"),
}


def test_a_seed_gives_the_same_graph_and_queries_every_time() -> None:
    for seed in range(20):
        graph, again = generate_graph(seed), generate_graph(seed)
        assert graph == again
        assert generate_query(graph, f"{seed}/0") == generate_query(again, f"{seed}/0")
    assert generate_graph(1) != generate_graph(2)


@pytest.mark.parametrize("graphs", thinned([_GRAPHS, _MORE_GRAPHS]))
def test_nine_queries_of_ten_compile_and_every_feature_occurs(graphs: int) -> None:
    compiled, found = Compiled(), Counter[str]()
    for seed in range(graphs):
        for query, _ in compiled.queries(generate_graph(seed), seed, _QUERIES_PER_GRAPH):
            found.update(query.features)
    total = compiled.accepted + len(compiled.discarded)
    print(f"{len(compiled.discarded)} of {total} generated queries did not compile")  # noqa: T201
    assert compiled.accepted >= 0.9 * total, compiled.discarded[:3]
    assert set(found) - FEATURES == set(), "list what the generator can do"
    assert FEATURES - set(found) == set()


def test_graphs_have_loops_parallel_edges_pairs_both_ways_and_ids_of_two_types() -> None:
    seen = Counter[str]()
    for seed in range(60):
        graph = generate_graph(seed)
        seen.update(f"{kind} empty" for kind in _empty(graph))
        for name, edges in graph.edges.items():
            pairs = Counter((edge["src"], edge["dst"]) for edge in edges)
            edge = graph.catalog.edge_types[name]
            one_type = edge.from_type == edge.to_type
            seen["parallel"] += any(count > 1 for count in pairs.values())
            seen["one id, two types"] += not one_type and any(a == b for a, b in pairs)
            seen["loop"] += one_type and any(a == b for a, b in pairs)
            seen["both ways"] += one_type and any(a != b and (b, a) in pairs for a, b in pairs)
    assert all(seen[each] for each in ("parallel", "one id, two types", "loop", "both ways")), seen
    assert seen["nodes empty"], seen
    assert seen["edges empty"], seen


@pytest.mark.parametrize("commits", [1, 3])
@pytest.mark.parametrize("churn", [False, True])
@pytest.mark.parametrize("seed", thinned(range(4)))
def test_every_way_of_writing_ends_in_the_same_rows(
    seed: int,
    churn: bool,  # noqa: FBT001 - a parameter of the test
    commits: int,
    tmp_path: Path,
) -> None:
    graph = generate_graph(seed)
    with store(graph, tmp_path / "g", commits=commits, churn=churn, seed=seed) as stored:
        snapshot = stored.snapshot()
        for kind, tables in (("node", graph.nodes), ("edge", graph.edges)):
            for name, rows in tables.items():
                found = snapshot.scan(f"{kind}:{name}").read_all().to_pylist()
                assert sorted(found, key=lambda row: str(row["id"])) == sorted(
                    rows, key=lambda row: str(row["id"])
                )


def test_a_wrong_answer_is_told_with_all_that_repeats_it() -> None:
    graph = generate_graph(3)
    query, compiled = next(
        (query, compiled)
        for query, compiled in Compiled().queries(graph, 3, 40)
        if len(make_case(graph, 3, query, compiled).expected) > 1
    )
    case = make_case(graph, 3, query, compiled)
    schema = pa.schema([arrow_field(each.name, each.type) for each in compiled.result_schema])
    right = pa.table(
        [
            pa.array(values, field.type)
            for values, field in zip(zip(*case.expected, strict=True), schema, strict=True)
        ],
        schema=schema,
    )
    assert case.difference(right) is None
    shorter = case.difference(right.slice(1))
    assert shorter is not None
    report = case.report("csr", shorter)
    for part in (graph.schema, query.text, "csr", repr(case.expected[0][0]), query.seed):
        assert part in report
    renamed = right.rename_columns([f"{name}x" for name in schema.names])
    assert case.difference(renamed) is not None
    assert replace(case, expected=[*case.expected[:-1], ("other",)]).difference(right) is not None


def _empty(graph: ReferenceGraph) -> set[str]:
    tables = {"nodes": graph.nodes, "edges": graph.edges}
    return {kind for kind, found in tables.items() if not all(found.values())}
