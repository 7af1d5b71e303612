"""`bm25`: the formula, its nulls, and its place as filter, column and order."""

import math
from collections.abc import Mapping, Sequence

import pytest
from tests.unit.engine.graphs import Opened, ask, fill, first_of, index, put, remove
from tests.unit.engine.values import OPERATORS

from omnigraph import Graph

SCHEMA = """
node Doc { slug: String @key  body: String? @index  copy: String?  rank: I32? @index }
node Author { name: String @key }
edge Wrote: Author -> Doc
"""
TEXTS: Mapping[str, str | None] = {
    "a": "red red red",
    "b": "red green",
    "c": "green green green green blue cyan pink",
    "d": "blue",
    "e": None,
    "f": "violet",
    "g": "red green blue cyan pink brown black gray gold lime",
    "h": "gold gold",
    "i": None,
    "j": "cyan pink brown black gray lime navy teal",
}


@pytest.fixture(scope="module")
def graph(shared: Opened) -> Graph:
    made = shared.init(SCHEMA)
    docs = [
        {"slug": slug, "body": text, "copy": text, "rank": ord(slug)}
        for slug, text in TEXTS.items()
    ]
    fill(made, Doc=docs)
    fill(made, Author=[{"name": "ann"}, {"name": "bob"}])
    wrote = [("ann", "abce"), ("bob", "bcdg")]
    fill(made, Wrote=[{"src": who, "dst": slug} for who, each in wrote for slug in each])
    index(made)
    return made


def scores(texts: Mapping[str, str | None], query: Sequence[str]) -> dict[str, float | None]:
    """BM25 with k1 = 1.2 and b = 0.75 over the texts that are not null."""
    words = {slug: text.split() for slug, text in texts.items() if text is not None}
    number = len(words)
    mean = sum(map(len, words.values())) / number
    found: dict[str, float | None] = {}
    for slug in texts:
        has = words.get(slug, [])
        score = 0.0
        for token in query:
            times = has.count(token)
            holders = sum(token in each for each in words.values())
            idf = math.log(1 + (number - holders + 0.5) / (holders + 0.5))
            score += idf * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * len(has) / mean))
        found[slug] = score if set(query) & set(has) else None
    return found


@pytest.mark.parametrize("column", ["body", "copy"])
@pytest.mark.parametrize(
    "query", [["red"], ["green"], ["gold"], ["red", "green"], ["blue", "navy", "lime"], ["cyan"]]
)
def test_the_score_is_that_of_the_formula(graph: Graph, column: str, query: list[str]) -> None:
    returns = f'$d, bm25($d.{column}, "{" ".join(query)}") as score'
    found = dict(ask(graph, "$d: Doc", returns))
    wanted = scores(TEXTS, query)
    assert {slug: each is None for slug, each in found.items()} == {
        slug: each is None for slug, each in wanted.items()
    }
    for slug, score in wanted.items():
        assert found[slug] == (None if score is None else pytest.approx(score, rel=1e-4)), slug


def test_a_text_without_words_is_no_row_of_the_statistics(graphs: Opened) -> None:
    """As Lance counts: its index has no entry for such a row."""
    texts: dict[str, str | None] = {"a": "red green", "b": "red", "c": "", "d": "blue", "e": None}
    graph = graphs.init(SCHEMA)
    fill(graph, Doc=[{"slug": slug, "body": text} for slug, text in texts.items()])
    index(graph)
    found = dict(ask(graph, "$d: Doc", '$d, bm25($d.body, "red") as score'))
    with_words = {slug: text for slug, text in texts.items() if text}
    assert found["b"] == pytest.approx(scores(with_words, ["red"])["b"], rel=1e-4)


def test_a_query_of_no_tokens_has_no_score(graph: Graph) -> None:
    for text in ("", "the of", "zebra"):
        assert ask(graph, "$d: Doc", f'bm25($d.body, "{text}")') == [(None,)] * len(TEXTS)
        assert ask(graph, f'$d: Doc bm25($d.body, "{text}") >= 0', "$d") == []
        assert ask(graph, "$d: Doc", "$d", tail=f'order {{ bm25($d.body, "{text}") }}') == []


def test_a_null_query_has_no_score(graph: Graph) -> None:
    found = ask(graph, "$d: Doc", "bm25($d.body, $q)", declared="$q: String?", params={"q": None})
    assert found == [(None,)] * len(TEXTS)


def test_the_score_does_not_depend_on_what_else_is_asked(graph: Graph) -> None:
    returns = '$d, bm25($d.body, "red green") as score'
    everything = dict(ask(graph, "$d: Doc", returns))
    for match in (
        '$d: Doc search($d.body, "red green")',
        '$d: Doc search($d.body, "green")',
        "$d: Doc $d.rank > 98",
        '$d: Doc { slug: "b" }',
        '$a: Author { name: "bob" } $a wrote $d',
        "$d: Doc not { $a: Author $a wrote $d }",
        '$d: Doc bm25($d.body, "red green") > 0.1',
    ):
        part = dict(ask(graph, match, returns))
        assert part == {slug: everything[slug] for slug in part}, match
        assert part
    ordered = ask(graph, "$d: Doc", returns, tail="order { score desc } limit 2")
    assert ordered == [(slug, everything[slug]) for slug in first_of(ordered)]


@pytest.mark.parametrize("bound", [0.0, 0.4, 0.7, 1.2])
@pytest.mark.parametrize("match", ["$d: Doc", "$a: Author $a wrote $d"])
def test_a_score_filters_as_a_value_and_null_never_passes(
    graph: Graph, match: str, bound: float
) -> None:
    call = 'bm25($d.body, "red green")'
    scored = sorted(set(ask(graph, match, f"$d, {call} as score")))
    for op in (">", "<=", "!="):
        wanted = [s for s, score in scored if score is not None and OPERATORS[op](score, bound)]
        found = ask(graph, f"{match} {call} {op} {bound}", "$d")
        assert sorted(set(first_of(found))) == wanted, op
    flipped = ask(graph, f"{match} {bound} < {call}", "$d")
    assert sorted(set(first_of(flipped))) == [
        slug for slug, score in scored if score is not None and bound < score
    ]


def ranked(graph: Graph, tail: str, match: str = "$d: Doc") -> list[str]:
    return first_of(ask(graph, match, '$d, bm25($d.body, "red green") as score', tail=tail))


def test_a_rank_order_is_best_first_and_drops_what_has_no_score(graph: Graph) -> None:
    wanted = {s: v for s, v in scores(TEXTS, ["red", "green"]).items() if v is not None}
    best = sorted(wanted, key=lambda slug: (-wanted[slug], slug))
    call = 'bm25($d.body, "red green")'
    assert ranked(graph, f"order {{ {call} }}") == best
    assert ranked(graph, f"order {{ {call} desc }}") == best
    assert ranked(graph, f"order {{ {call} asc }}") == best[::-1]
    assert ranked(graph, f"order {{ {call} }} limit 2") == best[:2]
    assert ranked(graph, "order { score desc }") == best
    assert ranked(graph, "order { score }") == best[::-1]
    assert ranked(graph, "order { score desc } limit 3") == best[:3]
    assert ranked(graph, "order { score desc, $d.rank } limit 3") == best[:3]


def test_a_rank_order_keeps_every_row_of_an_entity_in_the_order_of_ids(graph: Graph) -> None:
    call = 'bm25($d.body, "green")'
    wanted = scores(TEXTS, ["green"])
    pairs = [(who, slug) for who, each in (("ann", "abce"), ("bob", "bcdg")) for slug in each]
    kept = [pair for pair in pairs if wanted[pair[1]] is not None]
    best = sorted(kept, key=lambda pair: (-(wanted[pair[1]] or 0), pair))
    found = ask(graph, "$a: Author $a wrote $d", "$a, $d", tail=f"order {{ {call} }}")
    assert found == best
    assert (
        ask(graph, "$a: Author $a wrote $d", "$a, $d", tail=f"order {{ {call} }} limit 3")
        == best[:3]
    )


def test_equal_scores_come_in_the_order_of_ids(graphs: Opened) -> None:
    graph = graphs.init(SCHEMA)
    slugs = [f"d{number:03}" for number in range(200)]
    fill(graph, Doc=[{"slug": slug, "body": "red fox"} for slug in reversed(slugs)])
    index(graph)
    call = 'bm25($d.body, "fox")'
    assert first_of(ask(graph, "$d: Doc", "$d", tail=f"order {{ {call} }}")) == slugs
    assert first_of(ask(graph, "$d: Doc", "$d", tail=f"order {{ {call} }} limit 7")) == slugs[:7]


def test_who_matches_is_exact_while_statistics_lag(graphs: Opened) -> None:
    graph = graphs.init(SCHEMA)
    fill(graph, Doc=[{"slug": slug, "body": text} for slug, text in TEXTS.items()])
    index(graph)
    put(graph, Doc=[{"slug": "a", "body": "green"}, {"slug": "z", "body": "red"}])
    remove(graph, Doc=["b"])
    found = dict(ask(graph, "$d: Doc", '$d, bm25($d.body, "red") as score'))
    assert {slug for slug, score in found.items() if score is not None} == {"g", "z"}
    assert all(score > 0 for score in found.values() if score is not None)
    assert dict(ask(graph, "$d: Doc", '$d, bm25($d.body, "red") as score')) == found


def test_a_score_is_never_null_for_a_text_that_a_search_finds(graph: Graph) -> None:
    for text in ("red", "green blue", "navy", "the red"):
        shown = ask(graph, "$d: Doc", f'search($d.body, "{text}") as hit, bm25($d.body, "{text}")')
        assert all((score is not None) == hit for hit, score in shown)


def test_a_limit_is_filled_after_the_best_rows_were_deleted(graphs: Opened) -> None:
    graph = graphs.init(SCHEMA)
    best = [{"slug": f"a{number:03}", "body": "red"} for number in range(120)]
    rest = [{"slug": f"z{number:03}", "body": "red and grey"} for number in range(30)]
    fill(graph, Doc=best + rest)
    index(graph)
    remove(graph, Doc=[row["slug"] for row in best[1:]])
    left = ["a000", *(row["slug"] for row in rest)]
    call = 'bm25($d.body, "red")'
    for limit in (1, 5, 20, 31, 50):
        tail = f"order {{ {call} }} limit {limit}"
        assert first_of(ask(graph, "$d: Doc", "$d", tail=tail)) == left[:limit]
        match = '$d: Doc search($d.body, "red")'
        assert first_of(ask(graph, match, "$d", tail=tail)) == left[:limit]


def test_a_limit_does_not_change_scores_or_the_order_of_equals(graphs: Opened) -> None:
    graph = graphs.init(SCHEMA)
    words = ["red", "green", "blue", "pink"]
    docs = [
        {"slug": f"d{at:03}", "body": " ".join(words[at % n] for n in (1, 2, 3, 4) if at % 7 != n)}
        for at in range(210)
    ]
    fill(graph, Doc=docs)
    index(graph)
    returns = '$d, bm25($d.body, "red blue") as score'
    everything = ask(graph, "$d: Doc", returns, tail="order { score desc }")
    for limit in (1, 3, 17, 60, 200):
        tail = f"order {{ score desc }} limit {limit}"
        assert ask(graph, "$d: Doc", returns, tail=tail) == everything[:limit]
        tail = f"order {{ score desc, $d desc }} limit {limit}"
        reordered = sorted(everything, key=lambda row: row[0], reverse=True)
        wanted = sorted(reordered, key=lambda row: -row[1])
        assert ask(graph, "$d: Doc", returns, tail=tail) == wanted[:limit]
    worst = ask(graph, "$d: Doc", returns, tail="order { score } limit 5")
    assert worst == sorted(everything, key=lambda row: (row[1], row[0]))[:5]
