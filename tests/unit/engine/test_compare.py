"""Comparisons in memory: every number with every column, and columns with each other."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.engine import values
from tests.unit.engine.values import NUMBERS, OPERATORS, SCALARS, exact_pair, is_true

from omnigraph.graph.query.compare import Column, Const, Operand
from omnigraph.graph.query.compare import is_true as compared
from omnigraph.lang.arrow_schema import arrow_type
from omnigraph.lang.ir import FilterOp
from omnigraph.lang.types import PropType, Scalar

OPS: Mapping[str, FilterOp] = {
    "=": FilterOp.EQ,
    "!=": FilterOp.NE,
    "<": FilterOp.LT,
    "<=": FilterOp.LE,
    ">": FilterOp.GT,
    ">=": FilterOp.GE,
}
KINDS: Mapping[str, Scalar] = {
    "i32": Scalar.I32,
    "i64": Scalar.I64,
    "u32": Scalar.U32,
    "u64": Scalar.U64,
    "f32": Scalar.F32,
    "f64": Scalar.F64,
    "day": Scalar.DATE,
    "at": Scalar.DATETIME,
    "word": Scalar.STRING,
    "flag": Scalar.BOOL,
    "level": Scalar.STRING,
}
LITERALS = list(values.literals())


def column_of(name: str, cells: list[Any] | None = None) -> Column:
    kind = PropType(scalar=KINDS[name], nullable=True)
    return Column(pa.array(SCALARS[name] if cells is None else cells, arrow_type(kind)), kind)


def listed(name: str, cells: list[Any]) -> Column:
    kind = PropType(scalar=KINDS[name], is_list=True, nullable=True)
    return Column(pa.array(cells, arrow_type(kind)), kind)


def const(literal: object) -> Const:
    scalar = Scalar.F64 if isinstance(literal, float) else Scalar.I64
    return Const(literal, PropType(scalar=scalar, nullable=True))


def truth(left: Operand, op: FilterOp, right: Operand, rows: int) -> list[bool]:
    return [bool(each) for each in compared(left, op, right, rows)]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("op", OPS)
def test_a_column_is_compared_with_every_number_exactly(name: str, op: str) -> None:
    cells = SCALARS[name]
    wrong = []
    for literal in LITERALS:
        wanted = [is_true(name, each, op, literal) for each in cells]
        if truth(column_of(name), OPS[op], const(literal), len(cells)) != wanted:
            wrong.append(literal)
    assert wrong == []


@pytest.mark.parametrize("left", NUMBERS)
@pytest.mark.parametrize("right", NUMBERS)
def test_two_columns_are_compared_exactly_or_as_floats(left: str, right: str) -> None:
    pairs = [(a, b) for a in SCALARS[left] for b in SCALARS[right]]
    first = column_of(left, [a for a, _ in pairs])
    second = column_of(right, [b for _, b in pairs])
    for op, compare in OPERATORS.items():
        wanted = [None not in (a, b) and compare(*exact_pair(left, a, right, b)) for a, b in pairs]
        assert truth(first, OPS[op], second, len(pairs)) == wanted, op


@pytest.mark.parametrize("name", ["day", "at", "word", "flag", "level"])
def test_values_that_are_no_numbers_compare_by_their_own_order(name: str) -> None:
    pairs = [(a, b) for a in SCALARS[name] for b in SCALARS[name]]
    first, second = ([pair[at] for pair in pairs] for at in (0, 1))
    for op in OPERATORS:
        wanted = [is_true(name, a, op, b) for a, b in pairs]
        assert truth(column_of(name, first), OPS[op], column_of(name, second), len(pairs)) == wanted
        for literal in SCALARS[name]:
            fixed = Const(literal, PropType(scalar=KINDS[name], nullable=True))
            found = truth(column_of(name), OPS[op], fixed, len(SCALARS[name]))
            assert found == [is_true(name, each, op, literal) for each in SCALARS[name]]


@pytest.mark.parametrize("op", [*OPS.values(), FilterOp.STR_CONTAINS, FilterOp.STARTS_WITH])
def test_a_comparison_with_null_is_never_true(op: FilterOp) -> None:
    null = Const(None, PropType(scalar=Scalar.STRING, nullable=True))
    some = Const("a", PropType(scalar=Scalar.STRING))
    words = column_of("word")
    rows = len(words.values)
    for left, right in ((words, null), (null, words), (null, null), (some, null), (null, some)):
        assert not compared(left, op, right, rows).any()


@pytest.mark.parametrize("op", OPS)
def test_two_constants_are_compared_exactly(op: str) -> None:
    for left, right in ((2**53 + 1, 2.0**53), (1, 1.0), (2**64 - 1, 2.0**64), ("a", "\uffff")):
        wanted = OPERATORS[op](left, right)  # Python compares whole numbers and floats exactly.
        assert truth(const(left), OPS[op], const(right), 3) == [wanted] * 3


def test_texts_compare_by_bytes_and_not_by_code_units() -> None:
    words = column_of("word", ["\uffff"])
    astral = Const("\U00010000", PropType(scalar=Scalar.STRING))
    assert truth(words, FilterOp.LT, astral, 1) == [True]
    assert truth(words, FilterOp.LT, column_of("word", ["\U00010000"]), 1) == [True]


@pytest.mark.parametrize("op", [FilterOp.STR_CONTAINS, FilterOp.STARTS_WITH])
def test_texts_are_found_in_texts_character_by_character(op: FilterOp) -> None:
    wholes = ["", "abc", "a%c", "a_c", "ABC", "b", "\U00010000b", None]
    parts = ["", "a", "a%", "_", "b", "abc", "abcd", "\U00010000", None]
    pairs = [(a, b) for a in wholes for b in parts]

    def holds(whole: str | None, part: str | None) -> bool:
        if whole is None or part is None:
            return False
        return whole.startswith(part) if op is FilterOp.STARTS_WITH else part in whole

    wanted = [holds(a, b) for a, b in pairs]
    first = column_of("word", [a for a, _ in pairs])
    assert truth(first, op, column_of("word", [b for _, b in pairs]), len(pairs)) == wanted
    for part in parts:
        fixed = Const(part, PropType(scalar=Scalar.STRING, nullable=True))
        found = truth(column_of("word", wholes), op, fixed, len(wholes))
        assert found == [holds(each, part) for each in wholes]
        found = truth(fixed, op, column_of("word", wholes), len(wholes))
        assert found == [holds(part, each) for each in wholes]


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_looked_for_among_the_items_of_a_list(name: str) -> None:
    cells = SCALARS[name]
    lists: list[Any] = [[a, None, b] for a, b in zip(cells, [*cells[1:], None], strict=True)]
    lists += [[], None, [None]]
    for literal in LITERALS:
        wanted = [any(is_true(name, item, "=", literal) for item in each or ()) for each in lists]
        found = truth(listed(name, lists), FilterOp.LIST_CONTAINS, const(literal), len(lists))
        assert found == wanted, literal


@pytest.mark.parametrize("name", NUMBERS)
def test_a_column_is_looked_for_in_a_list_of_numbers(name: str) -> None:
    items = [literal for literal in LITERALS if isinstance(literal, float)]
    whole = Const([*items, None], PropType(scalar=Scalar.F64, is_list=True))
    wanted = [any(is_true(name, cell, "=", each) for each in items) for cell in SCALARS[name]]
    found = truth(whole, FilterOp.LIST_CONTAINS, column_of(name), len(wanted))
    assert found == wanted
    assert any(wanted)
    assert not all(wanted)


@pytest.mark.parametrize("left", NUMBERS)
@pytest.mark.parametrize("right", NUMBERS)
def test_a_column_is_looked_for_among_the_items_beside_it(left: str, right: str) -> None:
    pairs = [(a, b) for a in SCALARS[left] for b in SCALARS[right]]
    lists = listed(left, [[None, a] for a, _ in pairs])
    wanted = [None not in (a, b) and _equal(left, a, right, b) for a, b in pairs]
    second = column_of(right, [b for _, b in pairs])
    assert truth(lists, FilterOp.LIST_CONTAINS, second, len(pairs)) == wanted


def _equal(left: str, a: float, right: str, b: float) -> bool:
    first, second = exact_pair(left, a, right, b)
    return first == second
