"""Which rows a text query finds: by the one analyzer, whatever the index covers."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.unit.engine.graphs import Opened, arrow, ask, compact, fill, first_of, index, put, remove

from omnigraph import Graph

SCHEMA = """
node Doc { slug: String @key  body: String? @index  copy: String?  rank: I32? @index }
node Author { name: String @key }
edge Wrote: Author -> Doc
edge Cites: Doc -> Doc
"""
LONG = "x" * 30
TOO_LONG = "y" * 60
TEXTS: Mapping[str, str | None] = {
    "a": "The quick brown fox jumps over the lazy dog",
    "b": "Foxes and dogs, running QUICKLY",
    "c": "A café in Zürich: naïve running",
    "d": "brown quick",
    "e": "quick-brown bread_and butter",
    "f": None,
    "g": "",
    "h": "the of and",
    "i": "data database; databases... 2024",
    "j": f"{LONG} {TOO_LONG}",
    "k": "quick the brown",
}
SEARCHES: Mapping[str, str] = {
    "fox": "ab",
    "FOX": "ab",
    "foxes": "ab",
    "dogs": "ab",
    "run": "bc",
    "runs": "bc",
    "cafe": "c",
    "CAFÉ": "c",
    "zurich": "c",
    "naïve": "c",
    "quick": "abdek",
    "Quickly!": "abdek",
    "fox bread": "abe",
    "bread zebra": "e",
    "brown, lazy": "adek",
    "database": "i",
    "data": "i",
    "2024": "i",
    "butter": "e",
    LONG: "j",
    TOO_LONG: "",
    "zebra": "",
    "": "",
    "the": "",
    "the of AND": "",
    "?!... --": "",
    " ": "",
}
PHRASES: Mapping[str, str] = {
    "quick brown": "ae",
    "Quick-Brown FOX": "a",
    "brown quick": "d",
    "quick brown bread": "e",
    "lazy dogs": "a",
    "fox dog": "",
    "dog running quickly": "b",
    "fox": "ab",
    "naive run": "c",
    "data database databases 2024": "i",
    "zebra": "",
    "": "",
    "the": "",
    "the of and": "",
}
UNDECIDED = (
    "fox and dogs",
    "quick the brown",
    "the quick",
    "dog the",
    "over the lazy",
    "in zurich",
)
"""Phrases with stop words: the analyzer alone says what they match."""


def docs(slugs: str = "".join(TEXTS)) -> list[dict[str, Any]]:
    return [
        {"slug": slug, "body": TEXTS[slug], "copy": TEXTS[slug], "rank": ord(slug)}
        for slug in slugs
    ]


def wrong_docs(slugs: str) -> list[dict[str, Any]]:
    """The same documents with a text that nearly every query would find."""
    stale = "fox dog cafe zurich naive bread butter data quick brown quick 2024 run lazy"
    return [{**row, "body": stale, "copy": stale} for row in docs(slugs)]


def untrained(graph: Graph) -> None:
    fill(graph, Doc=docs())


def trained(graph: Graph) -> None:
    fill(graph, Doc=docs())
    index(graph)


def half_trained(graph: Graph) -> None:
    fill(graph, Doc=docs("adgj"))
    fill(graph, Doc=docs("f"))
    index(graph)
    fill(graph, Doc=docs("bchk"))
    fill(graph, Doc=docs("ei"))


def updated(graph: Graph) -> None:
    """Rows that the index has with other texts, and rows that are gone."""
    fill(graph, Doc=[*wrong_docs("abcdefg"), *docs("hijk")])
    doomed = wrong_docs("a")[0]
    fill(graph, Doc=[{**doomed, "slug": f"doomed{number}"} for number in range(3)])
    index(graph)
    put(graph, Doc=docs("abc"))
    remove(graph, Doc=[f"doomed{number}" for number in range(3)])
    put(graph, Doc=docs("defg"))


def updated_and_trained(graph: Graph) -> None:
    updated(graph)
    index(graph)


def emptied(graph: Graph) -> None:
    """Everything that was indexed is gone."""
    fill(graph, Doc=[{**row, "slug": f"old {row['slug']}"} for row in wrong_docs("abcd")])
    index(graph)
    remove(graph, Doc=[f"old {slug}" for slug in "abcd"])
    fill(graph, Doc=docs())


def compacted(graph: Graph) -> None:
    updated(graph)
    compact(graph, "Doc")


def replaced(graph: Graph) -> None:
    """The whole table written again over an indexed one."""
    fill(graph, Doc=wrong_docs("abcd"))
    index(graph)
    with graph.write() as writer:
        writer.overwrite("Doc", arrow(graph, "Doc", docs()))
        writer.commit()


STATES: list[Callable[[Graph], None]] = [
    untrained,
    trained,
    half_trained,
    updated,
    updated_and_trained,
    emptied,
    compacted,
    replaced,
]


@pytest.fixture(scope="module")
def by_state(shared: Opened) -> dict[str, Graph]:
    made: dict[str, Graph] = {}
    for state in STATES:
        graph = shared.init(SCHEMA)
        state(graph)
        fill(graph, Author=[{"name": "ann"}, {"name": "bob"}])
        authors = [("ann", "abcdef"), ("bob", "efghijk")]
        fill(graph, Wrote=[{"src": name, "dst": slug} for name, each in authors for slug in each])
        fill(graph, Cites=[{"src": "a", "dst": "b"}, {"src": "b", "dst": "h"}])
        made[state.__name__] = graph
    return made


@pytest.fixture(params=[state.__name__ for state in STATES])
def graph(request: pytest.FixtureRequest, by_state: dict[str, Graph]) -> Graph:
    return by_state[request.param]


def found_by(
    graph: Graph, call: str, text: str, column: str = "body", *, match: str = "$d: Doc {0}"
) -> str:
    clause = match.format(f"{call}($d.{column}, $q)")
    return "".join(first_of(ask(graph, clause, "$d", declared="$q: String", params={"q": text})))


@pytest.mark.parametrize("column", ["body", "copy"])
def test_a_search_finds_every_text_with_one_of_the_words(graph: Graph, column: str) -> None:
    found = {text: found_by(graph, "search", text, column) for text in SEARCHES}
    assert found == SEARCHES


@pytest.mark.parametrize("column", ["body", "copy"])
def test_a_phrase_finds_every_text_with_the_words_in_order(graph: Graph, column: str) -> None:
    found = {text: found_by(graph, "match_text", text, column) for text in PHRASES}
    assert found == PHRASES


def test_a_phrase_with_stop_words_finds_the_same_whatever_is_indexed(
    by_state: dict[str, Graph],
) -> None:
    for text in UNDECIDED:
        found = {
            (name, column): found_by(each, "match_text", text, column)
            for name, each in by_state.items()
            for column in ("body", "copy")
        }
        assert len(set(found.values())) == 1, (text, found)


@pytest.mark.parametrize("column", ["body", "copy"])
def test_text_calls_filter_wherever_a_filter_may_stand(graph: Graph, column: str) -> None:
    def found(match: str, text: str = "fox dog quick") -> str:
        return found_by(graph, "search", text, column, match=match)

    everything = "".join(TEXTS)
    hits = "abdek"
    others = "".join(slug for slug in everything if slug not in hits)
    assert found("$d: Doc {0}") == hits
    assert found("$d: Doc {0} = true") == hits
    assert found("$d: Doc {0} != true") == others
    assert found("$d: Doc {0} = false") == others
    assert found("$d: Doc {0} != false") == hits
    assert found("$d: Doc true = {0}") == hits
    assert found("$d: Doc not {{ {0} }}") == others
    assert found("$d: Doc not {{ {0} = false }}") == hits
    assert found("$d: Doc {0} $d.rank > 100") == "ek"
    assert found('$d: Doc {{ slug: "b" }} {0}') == "b"
    assert found('$d: Doc {{ slug: "c" }} {0}') == ""
    assert found('$a: Author {{ name: "ann" }} $a wrote $d {0}') == "abde"
    assert found('$a: Author {{ name: "bob" }} $a wrote $d {0} = false') == "fghij"
    assert found("$d: Doc not {{ $d cites $o {0} }}") == "cdefghijk"
    assert found("$d: Doc {0} not {{ $d cites $_ }}") == "dek"


def test_text_calls_inside_a_negation_ask_about_the_inner_variable(graph: Graph) -> None:
    match = '$d: Doc not { $d cites $o search($o.body, "fox") }'
    assert "".join(first_of(ask(graph, match, "$d"))) == "bcdefghijk"
    match = '$d: Doc not { $d cites $o search($o.copy, "fox") = false }'
    assert "".join(first_of(ask(graph, match, "$d"))) == "acdefghijk"
    match = '$a: Author not { $a wrote $d match_text($d.body, "quick brown fox") }'
    assert first_of(ask(graph, match, "$a")) == ["bob"]


@pytest.mark.parametrize("column", ["body", "copy"])
def test_several_text_calls_must_all_be_true(graph: Graph, column: str) -> None:
    def found(*clauses: str) -> str:
        match = f"$d: Doc {' '.join(clauses).replace('T', f'$d.{column}')}"
        return "".join(first_of(ask(graph, match, "$d")))

    assert found('search(T, "quick")', 'search(T, "fox")') == "ab"
    assert found('search(T, "quick")', 'match_text(T, "quick brown")') == "ae"
    assert found('search(T, "quick")', 'search(T, "cafe")') == ""
    assert found('search(T, "brown")', 'search(T, "fox") = false') == "dek"
    assert found('search(T, "brown")', 'fuzzy(T, "bred", 1)') == "e"
    assert found('search(T, "quick")', 'match_text(T, "brown quick")', "$d.rank < 101") == "d"
    assert found('search(T, "quick")', 'search(T, "")') == ""


def test_text_calls_on_two_properties_must_both_be_true(graph: Graph) -> None:
    match = '$d: Doc search($d.body, "quick") match_text($d.copy, "quick brown")'
    assert "".join(first_of(ask(graph, match, "$d"))) == "ae"


def test_text_calls_are_values_that_can_be_shown_and_ordered_by(graph: Graph) -> None:
    returns = '$d, search($d.body, "fox") as hit, match_text($d.copy, "brown quick") as phrase'
    shown = ask(graph, "$d: Doc", returns)
    assert shown == [(slug, slug in "ab", slug == "d") for slug in TEXTS]
    ordered = ask(graph, "$d: Doc", returns, tail="order { hit desc, phrase }")
    assert first_of(ordered) == [*"ab", *"cefghijk", "d"]


def test_a_text_call_can_be_counted_and_grouped_beside(graph: Graph) -> None:
    match = '$a: Author $a wrote $d search($d.body, "quick brown")'
    assert ask(graph, match, "$a.name, count($d)") == [("ann", 4), ("bob", 2)]
    assert ask(graph, '$d: Doc search($d.copy, "quick")', "count($d)") == [(5,)]
    assert ask(graph, '$d: Doc search($d.copy, "the")', "count($d)") == [(0,)]


def test_a_null_query_matches_nothing(graph: Graph) -> None:
    for call in ("search", "match_text", "fuzzy"):
        found = ask(
            graph,
            f"$d: Doc {call}($d.body, $q)",
            "$d",
            declared="$q: String?",
            params={"q": None},
        )
        assert found == [], call


def test_a_search_for_a_key_uses_its_words_and_its_equality_does_not(graphs: Opened) -> None:
    graph = graphs.init("node Doc { title: String @key  level: enum(red-hot, cold)? }")
    fill(graph, Doc=[{"title": "Red Foxes", "level": "red-hot"}, {"title": "red", "level": "cold"}])
    for _ in range(2):
        assert first_of(ask(graph, '$d: Doc search($d.title, "FOX")', "$d")) == ["Red Foxes"]
        assert first_of(ask(graph, '$d: Doc { title: "red" }', "$d")) == ["red"]
        assert first_of(ask(graph, '$d: Doc search($d.level, "Hot")', "$d")) == ["Red Foxes"]
        assert first_of(ask(graph, '$d: Doc $d.title starts_with "Red"', "$d")) == ["Red Foxes"]
        index(graph)


def test_a_text_without_index_is_found_right_after_a_write(graphs: Opened) -> None:
    graph = graphs.init(SCHEMA)
    first = fill(graph, Doc=docs("abc"))
    assert found_by(graph, "search", "fox", "copy") == "ab"
    fill(graph, Doc=[{"slug": "z", "copy": "a fox again"}])
    assert found_by(graph, "search", "fox", "copy") == "abz"
    put(graph, Doc=[{"slug": "a", "copy": "no more"}])
    assert found_by(graph, "search", "fox", "copy") == "bz"
    remove(graph, Doc=["b"])
    assert found_by(graph, "search", "fox", "copy") == "z"
    old = ask(graph, '$d: Doc search($d.copy, "fox")', "$d", snapshot=first)
    assert first_of(old) == ["a", "b"]
    put(graph, Doc=[{"slug": "z", "rank": 1}])
    assert found_by(graph, "search", "fox", "copy") == ""


def test_more_texts_without_index_than_are_kept_are_all_found(graphs: Opened) -> None:
    names = [f"t{number}" for number in range(7)]
    properties = " ".join(f"{name}: String?" for name in names)
    graph = graphs.init(f"node Doc {{ slug: String @key  {properties} }}")
    fill(graph, Doc=[{"slug": name, name: f"the fox of {name}"} for name in names])
    for _ in range(2):
        for name in names:
            assert first_of(ask(graph, f'$d: Doc search($d.{name}, "foxes")', "$d")) == [name]


@pytest.mark.parametrize("rows", [0, 2], ids=["no rows", "nulls"])
def test_an_empty_table_and_a_column_of_nulls_match_nothing(graphs: Opened, rows: int) -> None:
    graph = graphs.init(SCHEMA)
    if rows:
        fill(graph, Doc=[{"slug": f"n{number}"} for number in range(rows)])
    for _ in range(2):
        for column in ("body", "copy"):
            for call in ("search", "match_text", "fuzzy"):
                assert found_by(graph, call, "fox", column) == ""
            assert ask(graph, "$d: Doc", f'bm25($d.{column}, "fox")') == [(None,)] * rows
        index(graph)
