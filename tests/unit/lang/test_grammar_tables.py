"""Parser tables that are built beforehand: fresh, equal in effect, and never in the way."""

from pathlib import Path

import pytest

from omnigraph.lang import grammar_tables
from omnigraph.lang.grammar_tables import GRAMMARS, build_parser, parser_of, stamp_of

_SOURCES = {
    "query.lark": (
        'query q($a: I32) { match { $p: Person { name: "x" }  $p knows{1,2} $f  not { $f.a > $a } }'
        " return { $p.name as n, count($f) } order { n desc } limit 3 }"
    ),
    "schema.lark": (
        'node Person @description("x") { name: String @key  tags: [I32]? }'
        " edge Knows: Person -> Person @card(0..2) { since: Date? }"
    ),
}


@pytest.mark.parametrize("grammar", GRAMMARS)
def test_the_tables_are_those_of_the_grammar_and_of_the_installed_release(grammar: str) -> None:
    tables = Path(grammar_tables.__file__).with_name(grammar).with_suffix(".tables")
    assert tables.read_bytes().partition(b"\n")[0] == stamp_of(grammar), "run `make grammar`"


@pytest.mark.parametrize("grammar", GRAMMARS)
def test_a_parser_from_tables_gives_the_tree_of_one_that_is_built(grammar: str) -> None:
    source = _SOURCES[grammar]
    found, built = parser_of(grammar).parse(source), build_parser(grammar).parse(source)
    assert found == built
    assert [each.meta.start_pos for each in found.iter_subtrees() if not each.meta.empty] == [
        each.meta.start_pos for each in built.iter_subtrees() if not each.meta.empty
    ]


def test_tables_of_another_grammar_or_release_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def elsewhere(grammar: str) -> Path:
        return tmp_path / grammar

    monkeypatch.setattr(grammar_tables, "_tables_path", elsewhere)
    for content in (b"lark 0.0 00\nnot tables", b"", None):
        parser_of.cache_clear()
        if content is not None:
            elsewhere("query.lark").write_bytes(content)
        else:
            elsewhere("query.lark").unlink()
        assert parser_of("query.lark").parse(_SOURCES["query.lark"]) is not None
    parser_of.cache_clear()
