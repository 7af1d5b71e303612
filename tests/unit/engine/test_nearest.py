"""`nearest`: exact distances, ties by id, and a limit that nothing starves."""

from random import Random  # noqa: TID251 - seeded

import numpy as np
import pytest
from tests.unit.engine.graphs import Opened, ask, fill, first_of, index, put, remove
from tests.unit.engine.vectors import SCHEMA, Vectors, by_distance, distance, spell

from omnigraph import Graph
from omnigraph.errors import InvalidQueryVector, ParameterError

QUERY = [1.0, 2.0, -0.5]
FEW: Vectors = {
    "a": [1.0, 2.0, -0.5],
    "b": [2.0, 4.0, -1.0],
    "c": [-1.0, -2.0, 0.5],
    "d": [0.0, 0.0, 0.0],
    "e": None,
    "f": [0.5, -1.0, 3.0],
    "g": [1.0, 2.0, -0.25],
    "h": [0.25, 1.0, 0.0],
}


@pytest.fixture(scope="module")
def graph(shared: Opened) -> Graph:
    made = shared.init(SCHEMA)
    docs = [{"slug": slug, "vec": vec, "rank": ord(slug)} for slug, vec in FEW.items()]
    fill(made, Doc=docs, Author=[{"name": "ann"}, {"name": "bob"}])
    wrote = [("ann", "abde"), ("bob", "bcefgh")]
    fill(made, Wrote=[{"src": who, "dst": slug} for who, each in wrote for slug in each])
    fill(made, Cites=[{"src": "a", "dst": "b"}, {"src": "g", "dst": "d"}])
    return made


def nearest(
    graph: Graph,
    limit: int,
    match: str = "$d: Doc",
    *,
    query: list[float] = QUERY,
    returns: str = "$d",
) -> list[str]:
    tail = f"order {{ nearest($d.vec, $q) }} limit {limit}"
    declared, params = "$q: Vector(3)", {"q": query}
    return first_of(ask(graph, match, returns, declared=declared, params=params, tail=tail))


def test_a_distance_is_that_of_the_formula_and_null_without_a_direction(graph: Graph) -> None:
    for query in (QUERY, [0.0, 0.0, 1e-30], [3e38, 3e38, -3e38], [-7.0, 0.125, 0.0]):
        found = dict(
            ask(
                graph,
                "$d: Doc",
                "$d, nearest($d.vec, $q)",
                declared="$q: Vector(3)",
                params={"q": query},
            )
        )
        exact = [float(np.float32(part)) for part in query]
        for slug, vector in FEW.items():
            wanted = distance(vector, exact)
            if wanted is None:
                assert found[slug] is None, slug
            else:
                assert found[slug] == pytest.approx(wanted, rel=1e-12, abs=1e-12), slug


def test_the_nearest_come_first_and_what_has_no_direction_never(graph: Graph) -> None:
    wanted = by_distance(FEW, QUERY)
    assert set(wanted) == set(FEW) - {"d", "e"}
    for limit in (1, 2, 3, 6, 100):
        assert nearest(graph, limit) == wanted[:limit]
    by_alias = ask(
        graph,
        "$d: Doc",
        f"$d, nearest($d.vec, {spell(QUERY)}) as away",
        tail="order { away } limit 4",
    )
    assert first_of(by_alias) == wanted[:4]


def test_a_distance_filters_as_a_value_and_null_never_passes(graph: Graph) -> None:
    call = f"nearest($d.vec, {spell(QUERY)})"
    distances = {slug: distance(vector, QUERY) for slug, vector in FEW.items()}
    near = [slug for slug, away in distances.items() if away is not None and away < 0.5]
    far = [slug for slug, away in distances.items() if away is not None and away >= 0.5]
    assert first_of(ask(graph, f"$d: Doc {call} < 0.5", "$d")) == near
    assert first_of(ask(graph, f"$d: Doc {call} >= 0.5", "$d")) == far
    assert first_of(ask(graph, f"$d: Doc not {{ {call} < 0.5 }}", "$d")) == sorted({*FEW} - {*near})
    reached = ask(graph, f'$a: Author {{ name: "bob" }} $a wrote $d {call} < 0.5', "$d")
    assert first_of(reached) == [slug for slug in near if slug in "bcefgh"]


def test_a_limit_is_filled_whatever_filters_walks_and_negations_leave(graph: Graph) -> None:
    order = by_distance(FEW, QUERY)

    def wanted(slugs: str) -> list[str]:
        return [slug for slug in order if slug in slugs]

    for limit in (1, 2, 5):
        assert nearest(graph, limit, "$d: Doc $d.rank >= 99") == wanted("cdefgh")[:limit]
        match = '$a: Author { name: "bob" } $a wrote $d'
        assert nearest(graph, limit, match) == wanted("bcefgh")[:limit]
        match = "$d: Doc not { $d cites $_ }"
        assert nearest(graph, limit, match) == wanted("bcdefh")[:limit]
        match = '$d: Doc not { $a: Author { name: "ann" } $a wrote $d }'
        assert nearest(graph, limit, match) == wanted("cfgh")[:limit]
    assert nearest(graph, 3, '$d: Doc { slug: "c" }') == ["c"]
    assert nearest(graph, 3, '$d: Doc { slug: "d" }') == []
    assert nearest(graph, 3, '$d: Doc { slug: "nobody" }') == []


def test_all_rows_of_an_entity_stay_together_and_the_limit_cuts_rows(graph: Graph) -> None:
    pairs = [("ann", slug) for slug in "abde"] + [("bob", slug) for slug in "bcefgh"]
    order = by_distance(FEW, QUERY)
    distances = {slug: distance(FEW[slug], QUERY) for slug in order}
    scored = [pair for pair in pairs if pair[1] in order]
    best = sorted(scored, key=lambda pair: (round(distances[pair[1]] or 0.0, 12), *pair))
    for limit in (1, 2, 3, 4, 50):
        found = ask(
            graph,
            "$a: Author $a wrote $d",
            "$a, $d",
            declared="$q: Vector(3)",
            params={"q": QUERY},
            tail=f"order {{ nearest($d.vec, $q) }} limit {limit}",
        )
        assert found == best[:limit]


def test_a_second_key_orders_what_is_equally_near(graph: Graph) -> None:
    tail = f"order {{ nearest($d.vec, {spell(QUERY)}), $d.rank desc }} limit 1"
    assert first_of(ask(graph, "$d: Doc", "$d", tail=tail)) == ["b"]


def test_a_negated_walk_may_be_ranked_by_its_outer_variable(graph: Graph) -> None:
    match = "$d: Doc not { $a: Author $a wrote $d $d cites $o }"
    order = [slug for slug in by_distance(FEW, QUERY) if slug not in "ag"]
    assert nearest(graph, 3, match) == order[:3]


@pytest.mark.parametrize("query", [[0.0, 0.0, 0.0], [0.0, -0.0, 0.0]])
def test_a_zero_query_vector_is_refused(graph: Graph, query: list[float]) -> None:
    for source in (
        "query q($q: Vector(3)) { match { $d: Doc } return { $d }"
        " order { nearest($d.vec, $q) } limit 1 }",
        "query q($q: Vector(3)) { match { $d: Doc } return { nearest($d.vec, $q) } }",
        "query q($q: Vector(3)) { match { $d: Doc nearest($d.vec, $q) < 1 } return { $d } }",
    ):
        with pytest.raises(InvalidQueryVector, match=r"Doc\.vec"):
            graph.query(source, params={"q": query})
    with pytest.raises(InvalidQueryVector):
        graph.query(
            "query q() { match { $d: Doc } return { $d }"
            " order { nearest($d.vec, [0, 0, 0]) } limit 1 }"
        )


def test_a_zero_query_vector_is_refused_also_when_no_row_is_left(graph: Graph) -> None:
    source = (
        'query q($q: Vector(3)) { match { $d: Doc { slug: "nobody" } }'
        " return { $d, nearest($d.vec, $q) as away } order { away } limit 1 }"
    )
    with pytest.raises(InvalidQueryVector):
        graph.query(source, params={"q": [0, 0, 0]})


@pytest.mark.parametrize("part", [float("nan"), float("inf"), float("-inf"), 1e39])
def test_a_query_vector_that_is_not_finite_is_refused(graph: Graph, part: float) -> None:
    source = "query q($q: Vector(3)) { match { $d: Doc } return { nearest($d.vec, $q) } }"
    with pytest.raises((ParameterError, InvalidQueryVector)):
        graph.query(source, params={"q": [1.0, part, 0.0]})


@pytest.mark.parametrize("size", [1e-44, 1e-30, 1e30, 1e38])
def test_the_length_of_a_query_vector_does_not_matter(graph: Graph, size: float) -> None:
    text = np.format_float_positional(size, trim="0")
    found = ask(graph, "$d: Doc", f"$d, nearest($d.vec, [{text}, {text}, 0.0])")
    for slug, away in found:
        wanted = distance(FEW[slug], [1.0, 1.0, 0.0])
        assert away == (None if wanted is None else pytest.approx(wanted, abs=1e-12)), slug


def test_a_null_query_vector_has_no_distance(graph: Graph) -> None:
    shown = ask(
        graph,
        "$d: Doc",
        "nearest($d.vec, $q)",
        declared="$q: Vector(3)?",
        params={"q": None},
    )
    assert shown == [(None,)] * len(FEW)
    tail = "order { nearest($d.vec, $q) } limit 3"
    found = ask(graph, "$d: Doc", "$d", declared="$q: Vector(3)?", params={"q": None}, tail=tail)
    assert found == []


def random_vectors(count: int, seed: int = 1) -> dict[str, list[float] | None]:
    rng = Random(seed)  # noqa: S311 - no secret
    made: dict[str, list[float] | None] = {}
    for number in range(count):
        kind = rng.randrange(12)
        vector = [float(np.float32(rng.gauss(0, 1))) for _ in range(3)]
        made[f"d{number:04}"] = None if kind == 0 else [0.0] * 3 if kind == 1 else vector
    return made


def test_many_equal_vectors_are_cut_by_id(graphs: Opened) -> None:
    graph = graphs.init(SCHEMA)
    slugs = [f"d{number:03}" for number in range(300)]
    rng = Random(3)  # noqa: S311 - no secret
    shuffled = rng.sample(slugs, len(slugs))
    near, far = [1.0, 2.0, -0.5], [1.0, 2.0, 0.5]
    for part in (shuffled[:150], shuffled[150:]):
        fill(
            graph,
            Doc=[
                {"slug": slug, "vec": near if int(slug[1:]) % 3 else far, "rank": int(slug[1:])}
                for slug in part
            ],
        )
    tied = [slug for slug in slugs if int(slug[1:]) % 3]
    wanted = tied + [slug for slug in slugs if slug not in tied]
    for _ in range(2):
        for limit in (1, 7, 40, len(tied) - 1, len(tied) + 5, 300):
            assert nearest(graph, limit) == wanted[:limit], limit
        late = [slug for slug in wanted if int(slug[1:]) >= 250]
        assert nearest(graph, 9, "$d: Doc $d.rank >= 250") == late[:9]
        index(graph)


def test_few_far_rows_that_a_filter_leaves_are_all_found(graphs: Opened) -> None:
    graph = graphs.init(SCHEMA, NEAREST_EXACT_VALUES="0")
    near = [{"slug": f"n{number:03}", "vec": [1, 2, -0.5], "rank": 0} for number in range(600)]
    far = [{"slug": f"z{number}", "vec": [-1, -2 - number, 0.5], "rank": 1} for number in range(5)]
    fill(graph, Doc=near + far, Author=[{"name": "ann"}])
    fill(graph, Wrote=[{"src": "ann", "dst": row["slug"]} for row in far])
    order = by_distance({str(row["slug"]): row["vec"] for row in far}, QUERY)  # type: ignore[misc]  # vectors
    for _ in range(2):
        for limit in (1, 3, 5, 9):
            assert nearest(graph, limit, "$d: Doc $d.rank = 1") == order[:limit]
            assert nearest(graph, limit, "$a: Author $a wrote $d") == order[:limit]
            match = "$d: Doc not { $d.rank = 0 }"
            assert nearest(graph, limit, match) == order[:limit]
        index(graph)


@pytest.mark.parametrize("exact", ["10000000", "0"], ids=["exact", "by index"])
def test_with_or_without_an_index_the_nearest_are_found(graphs: Opened, exact: str) -> None:
    graph = graphs.init(SCHEMA, NEAREST_EXACT_VALUES=exact)
    vectors = random_vectors(700)
    fill(graph, Doc=[{"slug": slug, "vec": vec} for slug, vec in list(vectors.items())[:400]])
    index(graph)
    fill(graph, Doc=[{"slug": slug, "vec": vec} for slug, vec in list(vectors.items())[400:]])
    changed = {"d0000": [1.0, 2.0, -0.5], "d0650": [2.0, 4.0, -1.0], "d0003": None}
    put(graph, Doc=[{"slug": slug, "vec": vec} for slug, vec in changed.items()])
    remove(graph, Doc=["d0001", "d0500"])
    vectors.update(changed)
    del vectors["d0001"], vectors["d0500"]
    order = by_distance(vectors, QUERY)
    for _ in range(2):
        for limit in (1, 2, 10, len(order), 1000):
            assert nearest(graph, limit) == order[:limit]
        index(graph)


def test_vectors_of_any_length_are_ordered_by_direction_alone(graphs: Opened) -> None:
    graph = graphs.init(SCHEMA)
    rng = Random(9)  # noqa: S311 - no secret
    vectors: dict[str, list[float] | None] = {}
    for number in range(120):
        size = rng.choice([1e-44, 1e-40, 1e-38, 1e-20, 1.0, 1e20, 1e38, 3e38])
        parts = [rng.choice([-1.0, -0.5, 0.0, 0.25, 0.5, 1.0]) * size for _ in range(3)]
        vectors[f"d{number:03}"] = [float(np.float32(part)) for part in parts]
    fill(graph, Doc=[{"slug": slug, "vec": vec} for slug, vec in vectors.items()])
    for query in (QUERY, [1.0, 0.0, 0.0], [0.0, 1.0, -1.0], [1.0, 1.0, 1.0]):
        order = by_distance(vectors, query)
        away = {slug: distance(vectors[slug], query) or 0.0 for slug in order}
        for limit in (1, 3, 10, 25):
            found = nearest(graph, limit, query=query)
            # Directions that differ in the last bit may come in any order.
            assert [away[slug] for slug in found] == pytest.approx(
                [away[slug] for slug in order[:limit]], abs=1e-12
            ), limit
            assert len(found) == limit
