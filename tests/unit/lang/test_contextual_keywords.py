"""Every keyword is contextual: a property, an alias, a query or an edge may be called by any."""

import pytest

from omnigraph.errors import QueryInvalid
from omnigraph.lang import compile_query, compile_schema

WORDS = [
    "node",
    "edge",
    "interface",
    "implements",
    "enum",
    "query",
    "match",
    "return",
    "not",
    "as",
    "order",
    "limit",
    "insert",
    "update",
    "delete",
    "set",
    "where",
    "asc",
    "desc",
    "contains",
    "starts_with",
    "null",
    "true",
    "false",
    "date",
    "datetime",
    "type",
    "count",
    "now",
]
LITERALS = {"true", "false"}


def test_properties_of_all_keywords_stand_beside_each_other_without_commas() -> None:
    members = " ".join(f"{word}: I32? @index" for word in WORDS)
    schema = f"node A {{ k: String @key {members} }} edge E: A -> A {{ {members} }}"
    catalog = compile_schema(schema)
    assert [*catalog.node_types["A"].properties] == ["k", *WORDS]
    assert [*catalog.edge_types["E"].properties] == WORDS


def test_assignments_of_all_keywords_need_no_commas() -> None:
    catalog = compile_schema(
        f"node A {{ k: String @key {' '.join(f'{word}: I32?' for word in WORDS)} }}"
    )
    assigns = " ".join(f"{word} : 1 /* : */" for word in WORDS)
    compiled = compile_query(catalog, f'query q() {{ insert A {{ k: "x" {assigns} }} }}')
    assert str(compiled.ir.to_dict()).count("'Assign'") == len(WORDS) + 1


@pytest.mark.parametrize("word", WORDS)
def test_a_keyword_names_a_query_an_alias_and_an_edge(word: str) -> None:
    catalog = compile_schema(
        f"node A {{ {word}: I32? }} edge {word.capitalize()}: A -> A {{ {word}: I32? }}"
    )
    order = "" if word in LITERALS else f"order {{ {word} desc }}"
    compiled = compile_query(
        catalog,
        f"query {word}(${word}: I32) {{ match {{ $a: A {{ {word}: 1 }} $a {word} $b "
        f"$b $w:{word} $c $c.{word} > 1 $w.{word} = ${word} }} "
        f"return {{ $a.{word} as {word} }} {order} limit 1 }}",
    )
    assert [column.name for column in compiled.operation.result] == [word]


@pytest.mark.parametrize("text", ["limit10", "order{", "limit 1 0"])
def test_a_keyword_ends_at_a_word_boundary(text: str) -> None:
    catalog = compile_schema("node A { x: I32? }")
    with pytest.raises(QueryInvalid):
        compile_query(catalog, f"query q() {{ match {{ $a: A }} return {{ $a.x }} {text} }}")
