"""`bm25` over many rows, and what a score does not depend on."""

from collections.abc import Mapping, Sequence

import pytest
from tests.unit.engine.graphs import Opened, ask, fill, first_of, index, remove

from omnigraph import Graph
from omnigraph.engine.tables import QueryTable
from omnigraph.graph.arrays import RowIds, Values

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


def test_equal_scores_come_in_the_order_of_ids(graphs: Opened) -> None:
    graph = graphs.init(SCHEMA)
    slugs = [f"d{number:03}" for number in range(200)]
    fill(graph, Doc=[{"slug": slug, "body": "red fox"} for slug in reversed(slugs)])
    index(graph)
    call = 'bm25($d.body, "fox")'
    assert first_of(ask(graph, "$d: Doc", "$d", tail=f"order {{ {call} }}")) == slugs
    assert first_of(ask(graph, "$d: Doc", "$d", tail=f"order {{ {call} }} limit 7")) == slugs[:7]


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


def test_rows_without_an_index_do_not_make_a_limit_read_the_others(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best rows are known by their scores; of all others that match nothing is read."""
    graph = graphs.init(SCHEMA, AUTO_MAINTENANCE="0")
    fill(graph, Doc=[{"slug": f"d{number:03}", "body": "red fox"} for number in range(300)])
    index(graph)
    fill(graph, Doc=[{"slug": "first", "body": "red red"}, {"slug": "last", "body": "a red fox"}])
    taken: list[int] = []
    take = QueryTable.take

    def counted(table: QueryTable, row_ids: RowIds, columns: Sequence[str]) -> dict[str, Values]:
        taken.append(len(row_ids))
        return take(table, row_ids, columns)

    monkeypatch.setattr(QueryTable, "take", counted)
    tail = 'order { bm25($d.body, "red") } limit 1'
    assert first_of(ask(graph, '$d: Doc search($d.body, "red")', "$d.slug", tail=tail)) == ["first"]
    assert max(taken, default=0) <= 1
    monkeypatch.undo()
    index(graph)
    assert first_of(ask(graph, '$d: Doc search($d.body, "red")', "$d.slug", tail=tail)) == ["first"]
