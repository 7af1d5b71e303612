"""Text for a terminal is harmless, and measured in cells."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.profiles import quick

from omnigraph.graph.results.terminal_text import cell_width, cut, harmless, padded, wrapped

ANY_TEXT = st.text(max_size=20)
HARMLESS = ANY_TEXT.map(harmless)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 日本 😀", "plain é 日本 😀"),
        ("a\tb\n", r"a\tb\n"),
        ("\x00\x1b\x7f\x85\x9b", r"\x00\x1b\x7f\x85\x9b"),
        ("\u200e\u202a\u2066\ufeff", r"\u200e\u202a\u2066\ufeff"),
        ("\U000e0041", r"\U000e0041"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("\ud800", r"\ud800"),
        ("wide\u3000space\xa0", "wide\u3000space\xa0"),
        ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e"),
        ("C:\\new", "C:\\new"),
    ],
)
def test_control_and_format_characters_are_escaped(text: str, shown: str) -> None:
    assert harmless(text) == shown


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("", 0),
        ("abc", 3),
        ("é…", 2),
        ("e\u0301", 1),
        ("日本", 4),
        ("\uff71", 1),
        ("\uff21", 2),
        ("😀", 2),
        ("각", 2),
        ("\u1100\u1161\u11a8", 2),
        ("a\u200cb", 2),
    ],
)
def test_width_counts_cells(text: str, width: int) -> None:
    assert cell_width(text) == width
    assert cell_width(padded(text, 9)) == 9


@given(ANY_TEXT)
@quick(200)
def test_no_control_character_is_left(text: str) -> None:
    assert not {unicodedata.category(char) for char in harmless(text)} & {"Cc", "Cs", "Zl", "Zp"}


@given(HARMLESS, st.integers(1, 12))
@quick(200)
def test_cut_text_fits_and_begins_like_the_whole(text: str, width: int) -> None:
    short = cut(text, width)
    assert cell_width(short) <= width
    assert short == text or (short.endswith("…") and text.startswith(short[:-1]))


@given(HARMLESS, st.integers(2, 12))
@quick(200)
def test_wrapped_lines_fit_and_join_to_the_whole(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert "".join(lines) == text
    assert all(cell_width(line) <= width for line in lines)


def test_a_character_wider_than_a_line_has_a_line_of_its_own() -> None:
    assert wrapped("日本", 1) == ["日", "本"]
