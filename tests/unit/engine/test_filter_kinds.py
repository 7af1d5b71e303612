"""Filters on two columns, on numbers in lists and with null, over every pair of types."""

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
@pytest.mark.parametrize("column", NUMBERS)
def test_a_number_among_the_items_of_a_list_is_found_exactly(
    plain: Graph, form: str, column: str
) -> None:
    for literal in values.FEW_LITERALS[column]:
        kind = "F64" if isinstance(literal, float) else "I64" if literal < 2**63 else "U64"
        match = FORMS[form].format(f"$r.{column}s", "contains", "$x")
        found = ask(plain, match, "$r", declared=f"$x: {kind}", params={"x": literal})
        assert first_of(found) == _holding(column, literal), literal


def _holding(column: str, literal: object) -> list[str]:
    return [
        row["key"]
        for row in ROWS
        if any(is_true(column, item, "=", literal) for item in row[f"{column}s"] or ())
    ]


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
