"""Filters on values that are no plain numbers, on lists, on two columns and with null."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.unit.engine import values
from tests.unit.engine.graphs import Opened, ask, fill, first_of, index
from tests.unit.engine.values import NUMBERS, OPERATORS, OTHERS, exact_pair, is_true

from omnigraph import Graph

ROWS = values.rows()
KEYS = [row["key"] for row in ROWS]
FORMS = {
    "scanned": "$r: Row {0} {1} {2}",
    "reached": "$h: Hub $h has $r {0} {1} {2}",
}
PARAMETERS = {"day": "Date", "at": "DateTime", "word": "String", "flag": "Bool", "level": "String"}


@pytest.fixture(scope="module")
def plain(shared: Opened) -> Graph:
    made = shared.init(values.declare(indexed=False))
    fill(made, Row=ROWS, Hub=[{"key": "hub"}], Has=values.edges())
    return made


@pytest.fixture(scope="module")
def indexed(shared: Opened) -> Graph:
    made = shared.init(values.declare(indexed=True))
    fill(made, Row=ROWS, Hub=[{"key": "hub"}], Has=values.edges())
    index(made)
    return made


@pytest.fixture(params=["plain", "indexed"])
def graph(request: pytest.FixtureRequest) -> Graph:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Graph)
    return found


def chosen(column: str, op: str, literal: object) -> list[str]:
    return [row["key"] for row in ROWS if is_true(column, row[column], op, literal)]


@pytest.mark.parametrize("column", OTHERS)
def test_values_of_every_other_type_are_compared_by_their_own_order(
    plain: Graph, indexed: Graph, column: str
) -> None:
    declared = f"$x: {PARAMETERS[column]}"
    places = (("scanned", plain), ("scanned", indexed), ("reached", plain))
    for at, literal in enumerate(OTHERS[column][:-1]):
        for number, op in enumerate(OPERATORS):
            form, graph = places[(at + number) % 3]
            match = FORMS[form].format(f"$r.{column}", op, "$x")
            found = ask(graph, match, "$r", declared=declared, params={"x": literal})
            assert first_of(found) == chosen(column, op, literal), (op, literal)


@pytest.mark.parametrize(
    ("column", "text", "literal"),
    [
        ("day", 'date("1970-01-01")', OTHERS["day"][2]),
        ("at", 'datetime("1970-01-01T00:00:00Z")', OTHERS["at"][2]),
        ("at", 'datetime("2024-02-29 14:00:00.001999+02:00")', OTHERS["at"][3]),
        ("word", '"\U00010000"', "\U00010000"),
        ("flag", "true", True),
        ("level", '"low"', "low"),
    ],
)
def test_a_literal_of_another_type_is_written_in_the_query(
    graph: Graph, column: str, text: str, literal: object
) -> None:
    for op in ("=", "!=", "<="):
        found = first_of(ask(graph, f"$r: Row $r.{column} {op} {text}", "$r"))
        assert found == chosen(column, op, literal)


def test_now_is_a_date_time_like_any_other(graph: Graph) -> None:
    past = chosen("at", "<", datetime(2026, 1, 1, tzinfo=UTC))
    assert past
    assert first_of(ask(graph, "$r: Row $r.at < now()", "$r")) == past
    assert ask(graph, "$r: Row $r.at >= now()", "$r") == []


@pytest.mark.parametrize("form", [*FORMS, "negated"])
@pytest.mark.parametrize("column", [*NUMBERS, *OTHERS])
def test_a_null_parameter_makes_every_comparison_unknown(
    indexed: Graph, form: str, column: str
) -> None:
    kind = PARAMETERS.get(column, column.upper())
    forms = {**FORMS, "negated": "$r: Row not {{ {0} {1} {2} }}"}
    for op in ("=", "!=", "<"):
        match = forms[form].format(f"$r.{column}", op, "$x")
        found = ask(indexed, match, "$r", declared=f"$x: {kind}?", params={"x": None})
        assert first_of(found) == (KEYS if form == "negated" else []), op


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("op", ["contains", "starts_with"])
def test_null_contains_nothing_and_starts_with_nothing(graph: Graph, form: str, op: str) -> None:
    match = FORMS[form].format("$r.word", op, "$x")
    assert ask(graph, match, "$r", declared="$x: String?", params={"x": None}) == []
    for row in ask(graph, FORMS[form].format("$r.word", op, '""'), "$r.word"):
        assert row[0] is not None


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("part", ["", "a", "a_", "a%", "B", "b", "\U00010000", "\u0301"])
def test_texts_are_searched_as_they_are_written(plain: Graph, form: str, part: str) -> None:
    words = {row["key"]: row["word"] for row in ROWS if row["word"] is not None}

    def found(left: str, op: str, right: str) -> list[str]:
        match = FORMS[form].format(left, op, right)
        return first_of(ask(plain, match, "$r", declared="$x: String", params={"x": part}))

    assert found("$r.word", "contains", "$x") == [k for k, word in words.items() if part in word]
    assert found("$r.word", "starts_with", "$x") == [
        k for k, word in words.items() if word.startswith(part)
    ]
    text = f'"{part}"'
    assert found(text, "contains", "$r.word") == [k for k, word in words.items() if word in part]
    assert found(text, "starts_with", "$r.word") == [
        k for k, word in words.items() if part.startswith(word)
    ]


def test_a_text_may_be_compared_with_another_text_of_its_row(plain: Graph) -> None:
    wanted = [
        row["key"]
        for row in ROWS
        if row["word"] is not None and row["level"] is not None and row["word"] < row["level"]
    ]
    assert first_of(ask(plain, "$r: Row $r.word < $r.level", "$r")) == wanted != []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("column", NUMBERS)
def test_a_number_among_the_items_of_a_list_is_found_exactly(
    plain: Graph, form: str, column: str
) -> None:
    for literal in values.FEW_LITERALS[column]:
        kind = "F64" if isinstance(literal, float) else "I64" if literal < 2**63 else "U64"
        match = FORMS[form].format(f"$r.{column}s", "contains", "$x")
        found = ask(plain, match, "$r", declared=f"$x: {kind}", params={"x": literal})
        assert first_of(found) == _holding(column, literal), literal


@pytest.mark.parametrize("column", ["day", "at", "word", "flag"])
def test_a_value_among_the_items_of_a_list_is_found(plain: Graph, column: str) -> None:
    declared = f"$x: {PARAMETERS[column]}?"
    for literal in OTHERS[column]:
        params = {"x": literal}
        found = ask(
            plain, f"$r: Row $r.{column}s contains $x", "$r", declared=declared, params=params
        )
        assert first_of(found) == _holding(column, literal), literal
        if literal is not None:
            match = f"$r: Row {{ {column}s: $x }}"
            found = ask(plain, match, "$r", declared=declared, params=params)
            assert first_of(found) == _holding(column, literal), literal


def _holding(column: str, literal: object) -> list[str]:
    return [
        row["key"]
        for row in ROWS
        if any(is_true(column, item, "=", literal) for item in row[f"{column}s"] or ())
    ]


def test_a_list_may_be_looked_up_by_a_column_and_a_column_in_a_list(plain: Graph) -> None:
    own = [row["key"] for row in ROWS if row["i64"] is not None and row["i64s"]]
    assert first_of(ask(plain, "$r: Row $r.i64s contains $r.i64", "$r")) == own != []
    wanted = [row["key"] for row in ROWS if row["u64"] in (5, 2**53 + 1)]
    match = "$r: Row [5, 9007199254740993, -1] contains $r.u64"
    assert first_of(ask(plain, match, "$r")) == wanted != []
    match = "$r: Row [5.0, 4.5, -1.0] contains $r.u64"
    assert first_of(ask(plain, match, "$r")) == wanted[:1]
    found = ask(plain, '$r: Row ["a", "a%b", ""] contains $r.word', "$r")
    assert first_of(found) == [row["key"] for row in ROWS if row["word"] in ("a", "a%b", "")]


@pytest.mark.parametrize("left", NUMBERS)
def test_two_columns_of_one_row_compare_exactly(plain: Graph, left: str) -> None:
    for right in NUMBERS:
        for op in ("=", "<"):
            compare = OPERATORS[op]
            wanted = [
                row["key"]
                for row in ROWS
                if None not in (row[left], row[right])
                and compare(*exact_pair(left, row[left], right, row[right]))
            ]
            found = first_of(ask(plain, f"$r: Row $r.{left} {op} $r.{right}", "$r"))
            assert found == wanted, (left, op, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        *(("i64", "u64"), ("u64", "i64"), ("i32", "u32"), ("i64", "f64"), ("u64", "f32")),
        *(("f32", "f64"), ("f64", "f64"), ("i64", "i64"), ("u32", "i64")),
    ],
)
def test_columns_of_two_variables_compare_exactly_joined_or_not(
    plain: Graph, left: str, right: str
) -> None:
    for op, compare in OPERATORS.items():
        wanted = [
            (a["key"], b["key"])
            for a in ROWS
            for b in ROWS
            if None not in (a[left], b[right])
            and compare(*exact_pair(left, a[left], right, b[right]))
        ]
        # An equality joins the two parts, anything else filters their product.
        assert ask(plain, f"$a: Row $b: Row $a.{left} {op} $b.{right}", "$a, $b") == wanted, op
        connected = f"$h: Hub $h has $a $h has $b $a.{left} {op} $b.{right}"
        assert ask(plain, connected, "$a, $b") == wanted, op


@pytest.mark.parametrize("column", OTHERS)
def test_other_columns_of_two_variables_compare_by_their_own_order(
    plain: Graph, column: str
) -> None:
    for op in OPERATORS:
        wanted: list[tuple[Any, ...]] = [
            (a["key"], b["key"])
            for a in ROWS
            for b in ROWS
            if is_true(column, a[column], op, b[column])
        ]
        assert ask(plain, f"$a: Row $b: Row $a.{column} {op} $b.{column}", "$a, $b") == wanted, op


def test_two_parts_may_be_joined_by_several_equalities(plain: Graph) -> None:
    match = "$a: Row $b: Row $a.flag = $b.flag $a.i64 = $b.u64 $b.level = $a.level"
    wanted = [
        (a["key"], b["key"])
        for a in ROWS
        for b in ROWS
        if None not in (a["flag"], a["i64"], a["level"])
        and (a["flag"], a["i64"], a["level"]) == (b["flag"], b["u64"], b["level"])
    ]
    assert ask(plain, match, "$a, $b") == wanted
