"""Fitting of numbers to columns, against exact arithmetic."""

import operator
import struct
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.profiles import quick

from omnigraph.lang.ir import FilterOp
from omnigraph.lang.literals import Compare, Constant, fit_literal, fit_members
from omnigraph.lang.types import INTEGER_RANGES, Scalar

Number = float | Fraction
COMPARE: dict[FilterOp, Callable[[Number, Number], bool]] = {
    FilterOp.EQ: operator.eq,
    FilterOp.NE: operator.ne,
    FilterOp.LT: operator.lt,
    FilterOp.LE: operator.le,
    FilterOp.GT: operator.gt,
    FilterOp.GE: operator.ge,
}
EDGES = [edge for low, high in INTEGER_RANGES.values() for edge in (low, high)]
NUMBERS = st.one_of(
    st.integers(min_value=-(2**70), max_value=2**70),
    st.sampled_from(EDGES).flatmap(lambda edge: st.integers(edge - 2, edge + 2)),
    st.floats(allow_nan=False, allow_infinity=False, width=64),
    st.integers(-5, 5).map(lambda n: n + 0.5),
    st.integers(-5, 5).map(float),
)


def _holds(column: Scalar, op: FilterOp, literal: float, stored: float) -> bool:
    """What an executor answers for one stored value."""
    match fit_literal(column, op, literal):
        case Constant(truth=truth):
            return truth
        case Compare(op=fitted, value=value, scalar=scalar):
            assert isinstance(value, int | float)
            if column.is_integer:
                assert scalar is column
                low, high = INTEGER_RANGES[column]
                assert isinstance(value, int)
                assert low <= value <= high
            return COMPARE[fitted](stored, value)


@given(
    column=st.sampled_from([*INTEGER_RANGES]),
    op=st.sampled_from([*COMPARE]),
    literal=NUMBERS,
    data=st.data(),
)
@quick(100)
def test_an_integer_column_compares_exactly(
    column: Scalar, op: FilterOp, literal: float, data: st.DataObject
) -> None:
    low, high = INTEGER_RANGES[column]
    near = int(min(max(literal, low), high))
    stored = data.draw(
        st.one_of(
            st.integers(low, high),
            st.integers(max(low, near - 2), min(high, near + 2)),
        )
    )
    assert _holds(column, op, literal, stored) == COMPARE[op](stored, Fraction(literal))


@given(
    op=st.sampled_from([FilterOp.LT, FilterOp.LE, FilterOp.GT, FilterOp.GE]),
    literal=st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53),
    stored=st.floats(allow_nan=False, allow_infinity=False, width=32),
)
@quick(100)
def test_order_on_an_f32_column_is_exact(op: FilterOp, literal: float, stored: float) -> None:
    assert _holds(Scalar.F32, op, literal, stored) == COMPARE[op](
        Fraction(stored), Fraction(float(literal))
    )


@given(literal=st.floats(allow_nan=False, allow_infinity=False, width=32))
@quick(100)
def test_equality_on_an_f32_column_finds_the_rounded_literal(literal: float) -> None:
    shortest = float(f"{literal:.9g}")
    assert fit_literal(Scalar.F32, FilterOp.EQ, shortest) == Compare(
        FilterOp.EQ, literal, Scalar.F32
    )


def test_equality_on_an_f32_column_rounds_a_decimal() -> None:
    (stored,) = struct.unpack("<f", struct.pack("<f", 0.1))
    assert fit_literal(Scalar.F32, FilterOp.EQ, 0.1) == Compare(FilterOp.EQ, stored, Scalar.F32)
    assert fit_literal(Scalar.F32, FilterOp.EQ, 1e300) == Constant(truth=False)
    assert fit_literal(Scalar.F32, FilterOp.NE, -1e300) == Constant(truth=True)


@pytest.mark.parametrize("op", COMPARE)
def test_a_number_beyond_f64_is_a_constant(op: FilterOp) -> None:
    assert fit_literal(Scalar.F64, op, 10**400) == Constant(truth=COMPARE[op](0, 1))
    assert fit_literal(Scalar.F64, op, -(10**400)) == Constant(truth=COMPARE[op](1, 0))


def test_membership_follows_equality() -> None:
    contains = FilterOp.LIST_CONTAINS
    assert fit_literal(Scalar.I32, contains, 3.0) == Compare(contains, 3, Scalar.I32)
    assert fit_literal(Scalar.I32, contains, 3.5) == Constant(truth=False)
    assert fit_literal(Scalar.STRING, contains, "a") == Compare(contains, "a", Scalar.STRING)


def test_values_that_are_no_numbers_pass_unchanged() -> None:
    flag: object = True
    assert fit_literal(Scalar.BOOL, FilterOp.EQ, flag) == Compare(FilterOp.EQ, flag, Scalar.BOOL)
    assert fit_literal(Scalar.DATE, FilterOp.LT, 5) == Compare(FilterOp.LT, 5, Scalar.DATE)


@quick(100)
@given(st.sampled_from([each for each in Scalar if each.is_numeric]), st.lists(NUMBERS | st.none()))
def test_the_members_of_a_list_are_fitted_as_each_of_them_is(
    column: Scalar, values: list[float | None]
) -> None:
    fitted = [fit_literal(column, FilterOp.EQ, value) for value in values if value is not None]
    wanted = [each.value for each in fitted if isinstance(each, Compare)]
    assert Counter(fit_members(column, values).to_pylist()) == Counter(wanted)
