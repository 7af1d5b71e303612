"""`fuzzy`: words within a few edits, by characters, without any index."""

from random import Random  # noqa: TID251 - seeded

import pytest
from tests.unit.engine.graphs import Opened, ask, fill, first_of, index, put

from omnigraph import Graph
from omnigraph.errors import InvalidArgument, QueryInvalid
from omnigraph.graph.query.fuzzy import fold, is_within, words_of

TEXTS = {
    "a": "Helsinki University",
    "b": "The Grey Wolf",
    "c": "Straße nach Zürich",
    "d": None,
    "e": "running-shoes, 2024",
    "f": "wolves",
    "g": "",
}


@pytest.fixture(scope="module")
def graph(shared: Opened) -> Graph:
    made = shared.init(
        "node Doc { slug: String @key  body: String? @index  copy: String? }\n"
        "node Author { name: String @key }\nedge Wrote: Author -> Doc\n"
    )
    fill(made, Doc=[{"slug": slug, "body": TEXTS[slug], "copy": TEXTS[slug]} for slug in "abcd"])
    index(made)
    fill(made, Doc=[{"slug": slug, "body": TEXTS[slug], "copy": TEXTS[slug]} for slug in "efg"])
    fill(made, Author=[{"name": "ann"}])
    fill(made, Wrote=[{"src": "ann", "dst": slug} for slug in "bdf"])
    return made


def found_by(graph: Graph, text: str, edits: int | None = None, column: str = "body") -> str:
    more = "" if edits is None else f", {edits}"
    match = f"$d: Doc fuzzy($d.{column}, $q{more})"
    return "".join(first_of(ask(graph, match, "$d", declared="$q: String", params={"q": text})))


@pytest.mark.parametrize("column", ["body", "copy"])
@pytest.mark.parametrize(
    ("text", "edits", "slugs"),
    [
        ("helsinki", 0, "a"),
        ("HELSINKI", 0, "a"),
        ("helsinky", 0, ""),
        ("helsinky", 1, "a"),
        ("elsinky", 1, ""),
        ("elsinky", 2, "a"),
        ("elsinky", None, "a"),
        ("hxlsxnkx", 2, ""),
        ("wlof", 1, ""),
        ("wlof", 2, "b"),
        ("wolf", 0, "b"),
        ("wolf", 2, "b"),
        ("wolve", 1, "f"),
        ("wolves", 0, "f"),
        ("zurich", 0, "c"),
        ("ZÜRICH", 0, "c"),
        ("zuerich", 1, "c"),
        ("strasse", 0, "c"),
        ("the", 0, "b"),
        ("run", 0, ""),
        ("running", 0, "e"),
        ("shoe", 1, "e"),
        ("running-shoes", 0, "e"),
        ("2023", 1, "e"),
        ("wolf shoes", 0, "be"),
        ("", 2, ""),
        ("!? --", 2, ""),
        ("x", 0, ""),
    ],
)
def test_a_word_is_found_within_its_edits(
    graph: Graph, column: str, text: str, edits: int | None, slugs: str
) -> None:
    assert found_by(graph, text, edits, column) == slugs


def test_a_short_word_may_be_replaced_altogether(graph: Graph) -> None:
    # Two edits make any word of two letters; an empty text has no word to be near to.
    near = found_by(graph, "xy", 2)
    assert near == "".join(
        slug for slug, text in TEXTS.items() if any(len(word) <= 2 for word in words_of(text or ""))
    )


def test_fuzzy_filters_wherever_a_filter_may_stand(graph: Graph) -> None:
    call = 'fuzzy($d.body, "wlof")'
    assert first_of(ask(graph, f"$d: Doc {call} = false", "$d")) == [*"acdefg"]
    assert first_of(ask(graph, f"$d: Doc not {{ {call} }}", "$d")) == [*"acdefg"]
    assert first_of(ask(graph, f"$a: Author $a wrote $d {call}", "$d")) == ["b"]
    assert first_of(ask(graph, f"$a: Author not {{ $a wrote $d {call} }}", "$a")) == []
    both = f'$d: Doc {call} search($d.copy, "gray grey")'
    assert first_of(ask(graph, both, "$d")) == ["b"]
    assert ask(graph, "$d: Doc", f"$d, {call} as near", tail="order { near desc } limit 2") == [
        ("b", True),
        ("a", False),
    ]


def test_fuzzy_sees_a_text_right_after_it_was_written(graphs: Opened) -> None:
    graph = graphs.init("node Doc { slug: String @key  body: String? @index }")
    fill(graph, Doc=[{"slug": "a", "body": "wolf"}])
    index(graph)
    assert found_by(graph, "wulf", 1) == "a"
    put(graph, Doc=[{"slug": "a", "body": "bear"}, {"slug": "b", "body": "wolf"}])
    assert found_by(graph, "wulf", 1) == "b"


@pytest.mark.parametrize("edits", [-1, 3, 100])
def test_a_parameter_for_the_edits_must_be_0_to_2(graph: Graph, edits: int) -> None:
    source = 'query q($e: I32) { match { $d: Doc fuzzy($d.body, "wolf", $e) } return { $d } }'
    with pytest.raises(InvalidArgument, match=str(edits)) as caught:
        graph.query(source, params={"e": edits})
    assert caught.value.details["argument"] == "max_edits"
    assert len(graph.query(source, params={"e": 0})) == 1


def test_a_literal_for_the_edits_must_be_0_to_2(graph: Graph) -> None:
    for edits in ("3", "-1"):
        found = f'fuzzy($d.body, "wolf", {edits})'
        with pytest.raises(QueryInvalid):
            graph.query(f"query q() {{ match {{ $d: Doc {found} }} return {{ $d }} }}")


def test_edits_that_are_null_are_the_usual_ones(graph: Graph) -> None:
    match = '$d: Doc fuzzy($d.body, "wlof", $e)'
    found = ask(graph, match, "$d", declared="$e: I32?", params={"e": None})
    assert first_of(found) == ["b"]


def test_bad_edits_are_refused_also_when_no_row_is_left_to_ask(graph: Graph) -> None:
    source = (
        'query q($e: I32) { match { $d: Doc { slug: "nobody" }'
        ' fuzzy($d.body, "wolf", $e) } return { $d } }'
    )
    with pytest.raises(InvalidArgument):
        graph.query(source, params={"e": 3})


def distance(first: str, second: str) -> int:
    """The textbook table, whole."""
    row = list(range(len(second) + 1))
    for at, left in enumerate(first, 1):
        before, row[0] = row[0], at
        for place, right in enumerate(second, 1):
            step = min(row[place] + 1, row[place - 1] + 1, before + (left != right))
            before, row[place] = row[place], step
    return row[-1]


def test_the_bounded_distance_agrees_with_the_whole_table() -> None:
    rng = Random(7)  # noqa: S311 - no secret
    for _ in range(4_000):
        first = "".join(rng.choices("abé", k=rng.randrange(8)))
        second = "".join(rng.choices("abé", k=rng.randrange(8)))
        for edits in (0, 1, 2):
            wanted = distance(first, second) <= edits
            assert is_within(first, second, edits) == wanted, (first, second, edits)


@pytest.mark.parametrize(
    ("word", "folded"),
    [
        ("Straße", "strasse"),
        ("ÉCOLE", "ecole"),
        ("Łódź", "lodz"),
        ("œuvre", "oeuvre"),
        ("ﬁn", "fin"),
    ],
)
def test_a_word_is_lowered_and_folded(word: str, folded: str) -> None:
    assert fold(word) == folded


def test_texts_of_any_script_are_split_and_compared_by_characters(graphs: Opened) -> None:
    graph = graphs.init("node Doc { slug: String @key  body: String? }")
    texts = {"a": "Привет, мир", "b": "日本語 テスト", "c": "مرحبا", "d": "x\U0001f600y", "e": None}
    fill(graph, Doc=[{"slug": slug, "body": text} for slug, text in texts.items()])
    assert found_by(graph, "ПРИВЕТ", 0) == "a"
    assert found_by(graph, "мира", 1) == "a"
    assert found_by(graph, "テスト", 0) == "b"
    assert found_by(graph, "y", 0) == "d"
    assert found_by(graph, "مرحباا", 1) == "c"
