"""Filters that a table evaluates: a predicate keeps exactly the rows of its filter."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.unit.engine import values
from tests.unit.engine.test_compare import KINDS, OPS
from tests.unit.engine.values import NUMBERS, SCALARS, is_true

from omnigraph.graph.query.pushdown import Pushed, push_filters
from omnigraph.lang import ir
from omnigraph.lang.arrow_schema import arrow_type
from omnigraph.lang.ir import FilterOp
from omnigraph.lang.types import PropType, Scalar
from omnigraph.storage.predicates import And, Compare, CompareOp, IsNull, Not, Predicate

LITERALS = list(values.literals())

_COMPARE: Mapping[CompareOp, Callable[[Any, Any], bool]] = {
    # Any: values of every type.
    CompareOp.EQ: operator.eq,
    CompareOp.NE: operator.ne,
    CompareOp.LT: operator.lt,
    CompareOp.LE: operator.le,
    CompareOp.GT: operator.gt,
    CompareOp.GE: operator.ge,
}


def keeps(predicate: Predicate, value: object) -> bool | None:
    """Whether a predicate on one column is true of a value; unknown is None."""
    match predicate:
        case Compare(_, op, literal):
            given = literal.as_py()
            if value is None or given is None:
                return None
            if isinstance(value, str):
                return _COMPARE[op](value.encode(), given.encode())
            return _COMPARE[op](value, given)
        case IsNull():
            return value is None
        case Not(part):
            inner = keeps(part, value)
            return None if inner is None else not inner
        case And(parts):
            found = [keeps(part, value) for part in parts]
            return False if False in found else None if None in found else True
        case _:
            raise AssertionError(f"not expected of one filter: {predicate}")


def prop(name: str) -> ir.Prop:
    return ir.Prop("r", name, PropType(scalar=KINDS[name], nullable=True))


def literal(value: object, scalar: Scalar) -> ir.Lit:
    return ir.Lit(value, PropType(scalar=scalar, nullable=True))


def pushed(item: ir.Filter) -> Pushed:
    return push_filters([item], {})


def kept(found: Pushed, cells: list[Any]) -> list[bool]:
    if found.is_never:
        return [False] * len(cells)
    assert found.predicate is not None
    assert found.rest == ()
    return [keeps(found.predicate, each) is True for each in cells]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("op", OPS)
def test_a_pushed_comparison_keeps_exactly_the_rows_of_the_filter(name: str, op: str) -> None:
    wrong = []
    for number in LITERALS:
        constant = literal(number, Scalar.F64 if isinstance(number, float) else Scalar.I64)
        found = kept(pushed(ir.Filter(prop(name), OPS[op], constant)), SCALARS[name])
        if found != [is_true(name, each, op, number) for each in SCALARS[name]]:
            wrong.append(number)
    assert wrong == []


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("op", OPS)
def test_every_pushed_literal_has_the_type_of_its_column(name: str, op: str) -> None:
    kind = arrow_type(PropType(scalar=KINDS[name]))
    for number in LITERALS:
        constant = literal(number, Scalar.F64 if isinstance(number, float) else Scalar.I64)
        found = pushed(ir.Filter(prop(name), OPS[op], constant)).predicate
        if isinstance(found, Compare):
            assert found.value.type == kind, number


@pytest.mark.parametrize("op", OPS)
def test_a_null_parameter_makes_a_filter_that_is_never_true(op: str) -> None:
    param = ir.Param("x", PropType(scalar=Scalar.I64, nullable=True))
    for item in (
        ir.Filter(prop("i64"), OPS[op], param),
        ir.Filter(param, OPS[op], prop("i64")),
    ):
        assert push_filters([item], {"x": None}).is_never


@pytest.mark.parametrize(
    "prefix",
    ["", "a", "a%", "a_", "ab", "\ud7ff", "a\U0010ffff", "\U0010ffff", "\uffff", "\U00010000"],
)
def test_a_pushed_prefix_keeps_exactly_the_texts_that_start_with_it(prefix: str) -> None:
    cells = [
        *(None, "", "a", "ab", "abc", "b", "a%", "a%b", "a_", "aX", "\ud7ff", "\ud7ffz", "\ue000"),
        *("\U0010ffff", "\U0010ffffz", "a\U0010ffff", "a\U0010ffff\U0010ffff", "\uffff", "\uffffa"),
        *("\U00010000", "\U00010000b", "\U00010001"),
    ]
    item = ir.Filter(prop("word"), FilterOp.STARTS_WITH, literal(prefix, Scalar.STRING))
    wanted = [each is not None and each.startswith(prefix) for each in cells]
    assert kept(pushed(item), cells) == wanted


@pytest.mark.parametrize("op", [FilterOp.STR_CONTAINS, FilterOp.LIST_CONTAINS])
def test_what_no_ordinary_index_answers_stays_with_the_engine(op: FilterOp) -> None:
    item = ir.Filter(prop("word"), op, literal("a", Scalar.STRING))
    assert pushed(item).rest == (item,)


def test_two_columns_stay_with_the_engine() -> None:
    item = ir.Filter(prop("i32"), FilterOp.EQ, prop("i64"))
    assert pushed(item).rest == (item,)


def test_several_filters_are_pushed_together_and_the_rest_is_kept() -> None:
    first = ir.Filter(prop("i32"), FilterOp.GT, literal(1, Scalar.I64))
    second = ir.Filter(prop("word"), FilterOp.EQ, literal("a", Scalar.STRING))
    other = ir.Filter(prop("word"), FilterOp.STR_CONTAINS, literal("a", Scalar.STRING))
    found = push_filters([first, other, second], {})
    assert found.pushed == (first, second)
    assert found.rest == (other,)
    assert isinstance(found.predicate, And)
    assert len(found.predicate.parts) == 2
