"""`rrf`: the exact fusion of two rankings of the entities of a match."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.unit.engine.graphs import Opened, ask, fill, first_of, index
from tests.unit.engine.test_bm25 import scores
from tests.unit.engine.vectors import SCHEMA, Vectors, by_distance, fused, spell

from omnigraph import Graph
from omnigraph.errors import InvalidArgument

QUERY = [1.0, 0.0, 0.0]
VECTORS: Vectors = {
    "a": [1.0, 0.5, 0.0],
    "b": [1.0, 0.1, 0.0],
    "c": [1.0, 0.3, 0.0],
    "d": None,
    "e": [0.0, 0.0, 0.0],
    "f": [1.0, 0.2, 0.0],
    "g": [-1.0, 0.0, 0.0],
    "h": None,
}
TEXTS: Mapping[str, str | None] = {
    "a": "red",
    "b": "blue",
    "c": "red red green",
    "d": "red green pink cyan gold",
    "e": "red red red lime",
    "f": None,
    "g": "blue green",
    "h": "blue",
}
NEAR = f"nearest($d.vec, {spell(QUERY)})"
TEXT = 'bm25($d.body, "red")'


@pytest.fixture(scope="module")
def graph(shared: Opened) -> Graph:
    made = shared.init(SCHEMA)
    fill(
        made,
        Doc=[
            {"slug": slug, "vec": VECTORS[slug], "body": TEXTS[slug], "rank": ord(slug)}
            for slug in VECTORS
        ],
        Author=[{"name": "ann"}, {"name": "bob"}],
    )
    wrote = [("ann", "abde"), ("bob", "abceg")]
    fill(made, Wrote=[{"src": who, "dst": slug} for who, each in wrote for slug in each])
    index(made)
    return made


def text_arm(slugs: Sequence[str] = tuple(VECTORS)) -> list[str]:
    found = {slug: score for slug, score in scores(TEXTS, ["red"]).items() if score is not None}
    return [slug for slug in sorted(found, key=lambda each: (-found[each], each)) if slug in slugs]


def near_arm(limit: int | None, slugs: Sequence[str] = tuple(VECTORS)) -> list[str]:
    return [slug for slug in by_distance(VECTORS, QUERY) if slug in slugs][:limit]


def ranked(graph: Graph, call: str, limit: int, match: str = "$d: Doc") -> list[tuple[str, float]]:
    rows: list[Any] = ask(
        graph, match, f"$d, {call} as score", tail=f"order {{ {call} }} limit {limit}"
    )
    by_alias = ask(
        graph, match, f"$d, {call} as score", tail=f"order {{ score desc }} limit {limit}"
    )
    assert rows == by_alias
    return rows


def require_scores(found: list[Any], wanted: list[tuple[str, float]]) -> None:
    assert first_of(found) == first_of(wanted)
    assert [row[-1] for row in found] == pytest.approx([row[1] for row in wanted], rel=1e-15)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 8, 100])
def test_entities_come_by_the_sum_of_their_reciprocal_places(graph: Graph, limit: int) -> None:
    wanted = fused([near_arm(limit), text_arm()], VECTORS)
    require_scores(ranked(graph, f"rrf({NEAR}, {TEXT})", limit), wanted[:limit])
    wanted = fused([text_arm(), near_arm(limit)], VECTORS)
    require_scores(ranked(graph, f"rrf({TEXT}, {NEAR})", limit), wanted[:limit])


def test_the_arms_hold_entities_that_the_other_has_not() -> None:
    near, text = set(near_arm(None)), set(text_arm())
    assert near - text
    assert text - near
    assert near & text
    assert "h" not in near | text


@pytest.mark.parametrize("k", ["1", "0.5", "60.0", "1000"])
def test_k_weighs_the_places(graph: Graph, k: str) -> None:
    wanted = fused([near_arm(4), text_arm()], VECTORS, float(k))
    require_scores(ranked(graph, f"rrf({NEAR}, {TEXT}, {k})", 4), wanted[:4])


def test_two_arms_of_one_kind_are_fused_too(graph: Graph) -> None:
    other = f"nearest($d.vec, {spell([-1.0, 1.0, 0.0])})"
    arms = [near_arm(3), by_distance(VECTORS, [-1.0, 1.0, 0.0])[:3]]
    require_scores(ranked(graph, f"rrf({NEAR}, {other})", 3), fused(arms, VECTORS)[:3])
    green = {slug: each for slug, each in scores(TEXTS, ["green"]).items() if each is not None}
    arms = [text_arm(), sorted(green, key=lambda each: (-green[each], each))]
    found = ranked(graph, f'rrf({TEXT}, bm25($d.body, "green"))', 8)
    require_scores(found, fused(arms, VECTORS))


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 9])
def test_only_entities_of_the_match_take_part_and_each_row_of_them_follows(
    graph: Graph, limit: int
) -> None:
    pairs = [("ann", slug) for slug in "abde"] + [("bob", slug) for slug in "abceg"]
    slugs = "abcdeg"
    call = f"rrf({NEAR}, {TEXT})"
    order = fused([near_arm(limit, slugs), text_arm(slugs)], slugs)
    wanted = [(who, slug, score) for slug, score in order for who, of in pairs if of == slug]
    found = ask(
        graph,
        "$a: Author $a wrote $d",
        f"$a, $d, {call} as score",
        tail=f"order {{ {call} }} limit {limit}",
    )
    assert [row[:2] for row in found] == [row[:2] for row in wanted][:limit]
    assert [row[2] for row in found] == pytest.approx([row[2] for row in wanted][:limit], rel=1e-15)


def test_a_filter_narrows_both_arms_before_they_are_ranked(graph: Graph) -> None:
    slugs = "cdefgh"
    wanted = fused([near_arm(3, slugs), text_arm(slugs)], slugs)
    found = ranked(graph, f"rrf({NEAR}, {TEXT})", 3, "$d: Doc $d.rank >= 99")
    require_scores(found, wanted[:3])


def test_as_a_column_it_is_zero_for_entities_in_neither_arm(graph: Graph) -> None:
    order = dict(fused([near_arm(None), text_arm()], VECTORS))
    found = ask(graph, "$d: Doc", f"$d, rrf({NEAR}, {TEXT}) as score")
    assert first_of(found) == list(VECTORS)
    for slug, score in found:
        assert score == pytest.approx(order.get(slug, 0.0), rel=1e-15), slug


def test_as_a_column_beside_another_order_the_limit_still_cuts_the_nearest_arm(
    graph: Graph,
) -> None:
    order = dict(fused([near_arm(2), text_arm()], VECTORS))
    found = ask(
        graph, "$d: Doc", f"$d, rrf({NEAR}, {TEXT}) as score", tail="order { $d.rank desc } limit 2"
    )
    assert first_of(found) == ["h", "g"]
    assert [row[1] for row in found] == [order.get(slug, 0.0) for slug in "hg"]


def test_beside_an_order_by_one_arm_it_still_ranks_the_whole_match(graph: Graph) -> None:
    order = dict(fused([near_arm(2), text_arm()], VECTORS))
    found = ask(
        graph,
        "$d: Doc",
        f"$d, rrf({NEAR}, {TEXT}) as score, {TEXT} as words",
        tail="order { words desc } limit 2",
    )
    assert first_of(found) == text_arm()[:2]
    assert [row[1] for row in found] == pytest.approx([order[slug] for slug in text_arm()[:2]])


def test_equal_sums_come_by_the_first_arm_then_by_id(graphs: Opened) -> None:
    graph = graphs.init(SCHEMA)
    # By distance x then y, by words y then x: both have the places 1 and 2.
    fill(
        graph,
        Doc=[
            {"slug": "x", "vec": [1.0, 0.1, 0.0], "body": "red green"},
            {"slug": "y", "vec": [1.0, 0.2, 0.0], "body": "red"},
        ],
    )
    index(graph)
    assert first_of(ranked(graph, f"rrf({NEAR}, {TEXT})", 2)) == ["x", "y"]
    assert first_of(ranked(graph, f"rrf({TEXT}, {NEAR})", 2)) == ["y", "x"]


def test_equal_places_do_not_exist_because_ids_break_them(graphs: Opened) -> None:
    graph = graphs.init(SCHEMA)
    slugs = [f"d{number}" for number in range(9)]
    fill(graph, Doc=[{"slug": slug, "vec": QUERY, "body": "red"} for slug in reversed(slugs)])
    index(graph)
    found = ranked(graph, f"rrf({NEAR}, {TEXT})", 4)
    require_scores(found, fused([slugs[:4], slugs], slugs)[:4])


@pytest.mark.parametrize("k", [0, -1, -0.5])
def test_a_parameter_for_k_must_be_above_0(graph: Graph, k: float) -> None:
    source = f"query q($k: F64) {{ match {{ $d: Doc }} return {{ rrf({NEAR}, {TEXT}, $k) as s }} }}"
    with pytest.raises(InvalidArgument, match="above 0"):
        graph.query(source, params={"k": k})


def test_a_match_without_rows_has_no_ranking(graph: Graph) -> None:
    assert ranked(graph, f"rrf({NEAR}, {TEXT})", 3, '$d: Doc { slug: "nobody" }') == []
    assert ask(graph, '$d: Doc { slug: "nobody" }', f"rrf({NEAR}, {TEXT})") == []
