"""`nearest` over many rows: ties by id, and a limit that nothing starves."""

from random import Random  # noqa: TID251 - seeded

import numpy as np
import pytest
from tests.unit.engine.graphs import Opened, ask, fill, first_of, index, put, remove
from tests.unit.engine.vectors import SCHEMA, by_distance, distance

from omnigraph import Graph

QUERY = [1.0, 2.0, -0.5]


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
