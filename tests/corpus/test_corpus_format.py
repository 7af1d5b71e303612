"""The format of corpus files: what it reads, and that it refuses what it does not know."""

from pathlib import Path

import pytest
from tests.corpus.corpus_format import Case, CorpusError, parse_file


def parse(text: str) -> tuple[Case, ...]:
    return parse_file(text, path=Path("x.test"), file="x")


def test_a_case_has_its_sections_and_those_of_the_head() -> None:
    first, second = parse(
        "# about\n--- schema: S\n\n=== one\n# note\n--- match ($a: I32)\n$p: A\n\n$q: B\n\n"
        "--- expect accepted\n\n=== two\n--- schema\nnode A {}\n--- expect error S000\n"
    )
    assert [(item.name, item.argument, item.text) for item in first.sections] == [
        ("schema", "S", ""),
        ("match", "($a: I32)", "$p: A\n\n$q: B"),
        ("expect", "accepted", ""),
    ]
    assert first.id == "x::one"
    assert [(item.name, item.reference) for item in second.sections] == [
        ("schema", False),
        ("expect", False),
    ]


def test_an_escaped_section_holds_any_bytes() -> None:
    (case,) = parse("=== one\n--- query escaped\n\\xffa\\n\\\\\n--- expect accepted\n")
    section = case.section("query")
    assert section is not None
    assert section.source() == b"\xffa\n\\"


def test_an_unknown_escape_is_refused() -> None:
    (case,) = parse("=== one\n--- query escaped\n\\q\n--- expect accepted\n")
    with pytest.raises(CorpusError, match="escape"):
        case.all("query")[0].source()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no case"),
        ("=== One\n", "kebab-case"),
        ("stray\n=== one\n--- expect accepted\n", "outside a section"),
        ("=== one\n--- nope\nx\n--- expect accepted\n", "unknown section"),
        ("=== one\n--- expect accepted\nx\n", "never have a text"),
        ("=== one\n--- expect\n", "must have an argument"),
        ("=== one\n--- body\n--- expect accepted\n", "must have a text"),
        ("=== one\n--- body\na\n--- body\nb\n--- expect accepted\n", "given twice"),
        ("=== one\n--- body\na\n", "expects nothing"),
        ("=== one\n--- expect accepted\n=== one\n--- expect accepted\n", "given twice"),
        ("=== one\n--- schema: S\nnode A {}\n--- expect accepted\n", "without text"),
    ],
)
def test_what_is_not_in_the_format_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(CorpusError, match=complaint):
        parse(text)
