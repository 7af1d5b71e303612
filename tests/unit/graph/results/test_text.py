"""The forms for people fit a terminal, show every value as text, and carry no code."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.profiles import quick
from tests.unit.graph.results.results import (
    NUMBER,
    TEXT,
    column_of,
    optional,
    result_of,
    results,
    vector,
)

from omnigraph.errors import InvalidArgument
from omnigraph.graph.query.target import QueryTarget
from omnigraph.graph.results.query_result import QueryResult
from omnigraph.graph.results.terminal_text import cell_width
from omnigraph.lang.types import Scalar

PEOPLE = result_of({"p.name": (TEXT, ["Ada", "Bob"]), "p.age": (NUMBER, [36, None])})


def _table(*lines: str) -> str:
    return "\n".join(lines)


def test_a_table_has_a_heading_a_header_and_a_line_per_row() -> None:
    assert PEOPLE.to_table() == _table(
        "2 rows from branch main via find",
        "p.name | p.age",
        "-------+------",
        "Ada    | 36",
        "Bob    | null",
    )


def test_the_heading_names_a_snapshot_and_counts_one_row_in_the_singular() -> None:
    found = result_of({"v": (TEXT, ["a"])}, target=QueryTarget(branch=None, snapshot="main@01K"))
    assert found.to_table().splitlines()[0] == "1 row from snapshot main@01K via find"


def test_lists_and_vectors_are_shown_as_json() -> None:
    found = result_of(
        {
            "tags": (optional(Scalar.STRING, is_list=True), [["a", None]]),
            "vector": (vector(2), [[0.1, 1.0]]),
            "yes": (optional(Scalar.BOOL), [True]),
        }
    )
    assert found.to_table().splitlines()[-1] == '["a",null] | [0.1,1.0] | true'


def test_a_long_value_is_cut_with_an_ellipsis() -> None:
    found = result_of({"a long name": (TEXT, ["abcdefgh", "abcdef"]), "n": (NUMBER, [1, 2])})
    assert found.to_table(max_width=6) == _table(
        "2 rows from branch main via find",
        "a lon… | n",
        "-------+--",
        "abcde… | 1",
        "abcdef | 2",
    )


def test_a_column_takes_eighty_cells_if_nothing_else_is_asked() -> None:
    assert column_of(TEXT, "x" * 81).to_table().splitlines()[-1] == "x" * 79 + "…"
    assert column_of(TEXT, "x" * 80).to_table().splitlines()[-1] == "x" * 80


def test_a_long_value_is_wrapped_on_request() -> None:
    found = result_of({"text": (TEXT, ["abcdefghij", ""]), "n": (NUMBER, [12345678, 2])})
    assert found.to_table(max_width=4, wrap=True) == _table(
        "2 rows from branch main via find",
        "text | n",
        "-----+-----",
        "abcd | 1234",
        "efgh | 5678",
        "ij   |",
        "     | 2",
    )


def test_wide_and_combining_characters_keep_the_columns_straight() -> None:
    found = result_of({"v": (TEXT, ["日本", "e\u0301a", "abcd"]), "n": (NUMBER, [1, 2, 3])})
    assert found.to_table().splitlines()[1:] == [
        "v    | n",
        "-----+--",
        "日本 | 1",
        "e\u0301a   | 2",
        "abcd | 3",
    ]


def test_a_wide_character_that_does_not_fit_before_the_ellipsis_is_left_out() -> None:
    lines = column_of(TEXT, "日本語").to_table(max_width=4).splitlines()
    assert lines[-1] == "日…"


def test_a_newline_and_a_terminal_command_are_shown_and_not_obeyed() -> None:
    hostile = "a\nb\r\x1b[2J\x9b31m\u202e\u2028"
    shown = r"a\nb\r\x1b[2J\x9b31m\u202e\u2028"
    found = result_of({hostile: (TEXT, [hostile])})
    assert found.to_table().splitlines()[1:] == [shown, "-" * len(shown), shown]
    assert found.to_kv().splitlines()[-1] == f"{shown}: {shown}"


@pytest.mark.parametrize("max_width", [0, -1])
def test_a_column_has_at_least_one_cell(max_width: int) -> None:
    with pytest.raises(InvalidArgument, match=f"at least 1, not {max_width}"):
        PEOPLE.to_table(max_width=max_width)


@given(results(), st.integers(2, 12), st.booleans())
@quick(40)
def test_no_column_is_wider_than_asked(found: QueryResult, width: int, wrap: bool) -> None:  # noqa: FBT001 - drawn
    _require_width(found, width, wrap=wrap)


@pytest.mark.extended
@given(results(), st.integers(2, 12), st.booleans())
@quick(150)
def test_no_column_of_many_is_wider_than_asked(found: QueryResult, width: int, wrap: bool) -> None:  # noqa: FBT001 - drawn
    _require_width(found, width, wrap=wrap)


def _require_width(found: QueryResult, width: int, *, wrap: bool) -> None:
    _, *lines = found.to_table(max_width=width, wrap=wrap).split("\n")
    if len(found) == 0:
        assert lines == ["(no rows)"]
        return
    # A name that is wrapped may have lines that are empty, or look like a shorter rule.
    rule = max((line for line in lines if set(line) <= {"-", "+"}), key=len)
    assert max(map(len, rule.split("-+-"))) <= width
    assert all(cell_width(line) <= len(rule) for line in lines)
    assert wrap or len(lines) == len(found) + 2


def test_kv_has_a_block_per_row_and_cuts_nothing() -> None:
    found = result_of({"p.name": (TEXT, ["A" * 90, ""]), "p.age": (NUMBER, [36, None])})
    assert found.to_kv() == _table(
        "2 rows from branch main via find",
        "",
        "row 1",
        "p.name: " + "A" * 90,
        "p.age: 36",
        "",
        "row 2",
        "p.name: ",
        "p.age: null",
    )


def test_html_escapes_names_and_values() -> None:
    found = result_of({"<b>&": (TEXT, ['<script>alert("1")</script>'])})
    assert found._repr_html_() == (
        "<div><p>1 row from branch main via find</p><table>"
        "<thead><tr><th>&lt;b&gt;&amp;</th></tr></thead>"
        "<tbody><tr><td>&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;</td></tr></tbody>"
        "</table></div>"
    )


@pytest.mark.parametrize(
    ("rows", "note"), [(50, None), (51, "<p>… 1 more row</p>"), (1050, "<p>… 1000 more rows</p>")]
)
def test_html_shows_the_first_rows_and_how_many_more_there_are(rows: int, note: str | None) -> None:
    shown = column_of(NUMBER, *range(rows))._repr_html_()
    assert shown.count("<td>") == 50
    assert "<td>49</td>" in shown
    assert (note in shown) if note is not None else ("more row" not in shown)


def test_html_cuts_long_values() -> None:
    assert f"<td>{'x' * 79}…</td>" in column_of(TEXT, "x" * 5000)._repr_html_()


def test_html_of_no_rows_has_the_header() -> None:
    shown = result_of({"p.name": (TEXT, [])})._repr_html_()
    assert "<th>p.name</th>" in shown
    assert "<tbody></tbody>" in shown
