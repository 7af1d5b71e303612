"""A number compared with a column: exact, whatever its type, wherever the filter is evaluated."""

from collections.abc import Iterable, Mapping

import pytest
from tests.extended import thinned
from tests.unit.engine import values
from tests.unit.engine.graphs import Opened, ask, fill, first_of, index
from tests.unit.engine.values import FEW_LITERALS, NUMBERS, OPERATORS, is_true, spell

from omnigraph import Graph

ROWS = values.rows()
KEYS = [row["key"] for row in ROWS]
FORMS: Mapping[str, str] = {
    "scanned": "$r: Row {0} {1} {2}",
    "reached": "$h: Hub $h has $r {0} {1} {2}",
    "edge": "$h: Hub $h $e:has $r $e.{3} {1} {2}",
    "negated": "$r: Row not {{ {0} {1} {2} }}",
}
"""Where a filter may stand: pushed into a scan, or evaluated in memory."""
SHARP = ("i64", "f32")
"""An integer that a float cannot hold, and a float that a literal cannot."""
COLUMNS = thinned(sorted(NUMBERS, key=lambda column: column not in SHARP), keep=len(SHARP))


@pytest.fixture(scope="module")
def plain(shared: Opened) -> Graph:
    graph = shared.init(values.declare(indexed=False))
    fill(graph, Row=ROWS, Hub=[{"key": "hub"}], Has=values.edges())
    return graph


@pytest.fixture(scope="module")
def indexed(shared: Opened) -> Graph:
    graph = shared.init(values.declare(indexed=True))
    fill(graph, Row=ROWS, Hub=[{"key": "hub"}], Has=values.edges())
    index(graph)
    return graph


@pytest.fixture(scope="module")
def half_indexed(shared: Opened) -> Graph:
    graph = shared.init(values.declare(indexed=True))
    fill(graph, Row=ROWS[::2], Hub=[{"key": "hub"}], Has=values.edges()[::2])
    index(graph)
    fill(graph, Row=ROWS[1::2], Has=values.edges()[1::2])
    return graph


def expected(column: str, op: str, literal: object) -> list[str]:
    return [row["key"] for row in ROWS if is_true(column, row[column], op, literal)]


def parameter(literal: float) -> str:
    if type(literal) is float:
        return "F64"
    return "I64" if literal < 2**63 else "U64"


def disagreements(
    graph: Graph, form: str, column: str, operators: Iterable[str] = OPERATORS
) -> list[str]:
    """Every literal and operator for which the rows are not the exact ones."""
    wrong: list[str] = []
    for literal in FEW_LITERALS[column]:
        for op in operators:
            match = FORMS[form].format(f"$r.{column}", op, "$x", column)
            declared = f"$x: {parameter(literal)}"
            found = first_of(ask(graph, match, "$r", declared=declared, params={"x": literal}))
            wanted = expected(column, op, literal)
            if form == "negated":
                wanted = [key for key in KEYS if key not in wanted]
            if found != wanted:
                wrong.append(f"{column} {op} {literal!r}: {found} and not {wanted}")
    return wrong


@pytest.mark.parametrize("column", COLUMNS)
def test_a_scan_without_index_compares_numbers_exactly(plain: Graph, column: str) -> None:
    assert disagreements(plain, "scanned", column) == []


@pytest.mark.parametrize("column", COLUMNS)
def test_a_scan_with_an_index_compares_numbers_exactly(indexed: Graph, column: str) -> None:
    assert disagreements(indexed, "scanned", column) == []


@pytest.mark.parametrize("column", COLUMNS)
def test_a_scan_of_half_indexed_rows_compares_numbers_exactly(
    half_indexed: Graph, column: str
) -> None:
    assert disagreements(half_indexed, "scanned", column, ("=", "!=", "<=", ">")) == []


@pytest.mark.parametrize("form", ["reached", "edge", "negated"])
@pytest.mark.parametrize("column", COLUMNS)
def test_a_filter_that_is_not_pushed_compares_numbers_exactly(
    plain: Graph, form: str, column: str
) -> None:
    assert disagreements(plain, form, column, ("=", "!=", "<", ">=")) == []


@pytest.mark.parametrize("column", COLUMNS)
def test_a_literal_means_what_a_parameter_means_on_either_side(indexed: Graph, column: str) -> None:
    wrong: list[str] = []
    flipped = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
    for number, literal in enumerate(FEW_LITERALS[column]):
        if isinstance(literal, int) and literal >= 2**63:
            continue
        op = list(OPERATORS)[number % len(OPERATORS)]
        wanted = expected(column, op, literal)
        text = spell(literal)
        for match in (f"$r.{column} {op} {text}", f"{text} {flipped[op]} $r.{column}"):
            found = first_of(ask(indexed, f"$r: Row {match}", "$r"))
            if found != wanted:
                wrong.append(f"{match}: {found} and not {wanted}")
    assert wrong == []


@pytest.mark.parametrize("column", ["i32", "i64", "u32", "u64", "f32", "f64"])
def test_a_property_match_is_an_equality(indexed: Graph, column: str) -> None:
    for literal in (0, 5, 1.5, 2**53 + 1):
        match = f"$r: Row {{ {column}: {spell(literal)} }}"
        assert first_of(ask(indexed, match, "$r")) == expected(column, "=", literal), literal


def test_an_f32_parameter_is_the_f32_it_was_rounded_to(indexed: Graph) -> None:
    def found(column: str) -> list[str]:
        declared, params = "$x: F32", {"x": 0.1}
        match = f"$r: Row $r.{column} = $x"
        return first_of(ask(indexed, match, "$r", declared=declared, params=params))

    assert found("f32") == expected("f32", "=", values.TENTH_F32)
    assert found("f64") == expected("f64", "=", values.TENTH_F32) != expected("f64", "=", 0.1)


def test_filters_of_one_variable_hold_together(indexed: Graph, plain: Graph) -> None:
    match = "$r.i64 > -1.5 $r.i64 <= 9007199254740992.5 $r.u64 != 5 $r.f32 < 100"
    wanted = [
        row["key"]
        for row in ROWS
        if is_true("i64", row["i64"], ">", -1.5)
        and is_true("i64", row["i64"], "<=", 2**53)
        and is_true("u64", row["u64"], "!=", 5)
        and is_true("f32", row["f32"], "<", 100)
    ]
    assert len(wanted) > 1
    for graph in (indexed, plain):
        assert first_of(ask(graph, f"$r: Row {match}", "$r")) == wanted
        assert first_of(ask(graph, f"$h: Hub $h has $r {match}", "$r")) == wanted
