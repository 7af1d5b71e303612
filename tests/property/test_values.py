"""Values are read, fitted and spelled without silent change, checked against Python and NumPy."""

import math
import struct
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.property import names as n
from tests.property.profiles import many, quick

from omnigraph.lang.keys import spell_key
from omnigraph.lang.types import INTEGER_RANGES, PropType, Scalar
from omnigraph.lang.values import (
    UnfitValue,
    date_days,
    datetime_ms,
    fit_number,
    format_date,
    format_datetime,
    parse_date,
    parse_datetime,
    positional,
    to_f32,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGERS = sorted(INTEGER_RANGES)
_single_bits = st.integers(0, 2**32 - 1).map(
    lambda bits: float(struct.unpack("<f", struct.pack("<I", bits))[0])
)
_singles = _single_bits.filter(math.isfinite)
_doubles = st.one_of(
    n.floats,
    st.integers(0, 2**64 - 1)
    .map(lambda bits: float(struct.unpack("<d", struct.pack("<Q", bits))[0]))
    .filter(math.isfinite),
)


@quick(300)
@given(st.dates())
@example(date.min)
@example(date.max)
def test_dates_agree_with_python(day: date) -> None:
    days = parse_date(day.isoformat())
    assert days == (day - date(1970, 1, 1)).days == date_days(day)
    assert format_date(days) == day.isoformat()


@quick(300)
@given(n.milliseconds)
@example(n.MIN_MS)
@example(n.MAX_MS)
def test_date_times_agree_with_python(at_ms: int) -> None:
    moment = _EPOCH + timedelta(milliseconds=at_ms)
    text = format_datetime(at_ms)
    assert datetime.fromisoformat(text) == moment
    assert parse_datetime(text) == at_ms == datetime_ms(moment)
    assert parse_datetime(text.replace("T", " ").removesuffix("Z")) == at_ms


@quick(300)
@given(
    st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)),  # noqa: DTZ001  # a wall time; the offset is drawn
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
)
def test_offsets_are_applied_and_digits_below_the_millisecond_cut(
    wall: datetime, offset_min: int
) -> None:
    moment = wall.replace(tzinfo=timezone(timedelta(minutes=offset_min)))
    sign, minutes = "-" if offset_min < 0 else "+", abs(offset_min)
    text = f"{wall.isoformat(timespec='microseconds')}{sign}{minutes // 60:02}:{minutes % 60:02}"
    expected = (moment - _EPOCH) // timedelta(milliseconds=1)
    assert parse_datetime(text) == expected == datetime_ms(moment)


@quick(300)
@given(st.text(st.sampled_from("0123456789-:TZ+. é٣"), max_size=30))
@example("2024-02-30")
@example("0000-01-01")
@example("2024-01-01T24:00:00Z")
@example("2024-01-01T00:00:60Z")
@example("2024-01-01T00:00:00z")
@example("2024-01-01T00:00:00.Z")
@example("2024-01-01T00:00")
@example("0001-01-01T00:00:00+00:01")
@example("9999-12-31T23:59:59.999-00:01")
@example("٢٠٢٤-01-01")
@example("2024-01-01\n")
def test_other_texts_are_refused_or_read_back(text: str) -> None:
    try:
        at_ms = parse_datetime(text)
    except UnfitValue:
        return
    assert n.MIN_MS <= at_ms <= n.MAX_MS
    assert parse_datetime(format_datetime(at_ms)) == at_ms


@quick(400)
@given(st.one_of(st.integers(-(2**70), 2**70), _doubles), st.sampled_from(_INTEGERS))
def test_integers_are_exact_or_refused(value: float, scalar: Scalar) -> None:
    low, high = INTEGER_RANGES[scalar]
    fits = Fraction(value).denominator == 1 and low <= Fraction(value) <= high
    if not fits:
        with pytest.raises(UnfitValue):
            fit_number(value, scalar)
        return
    fitted = fit_number(value, scalar)
    assert type(fitted) is int
    assert fitted == Fraction(value)


def _nearest_single(value: float) -> float | None:
    """The F32 nearest to a number, by exact arithmetic, ties to even; None beyond the range."""
    exact = Fraction(value)
    with np.errstate(over="ignore", under="ignore"):
        guess = np.float32(value)
        ends = (np.float32(-np.inf), np.float32(np.inf))
        around = [guess, *(np.nextafter(guess, end) for end in ends)]
    if not all(np.isfinite(around)):
        return None
    best = min(
        around,
        key=lambda single: (
            abs(Fraction(float(single)) - exact),
            int(single.view(np.uint32)) & 1,
        ),
    )
    return float(best)


@quick(400)
@given(_doubles)
@example(3.4028234663852886e38)
@example(1e-46)
@example(7.006492321624085e-46)
@example(7.006492321624086e-46)
def test_a_double_becomes_the_nearest_single(value: float) -> None:
    expected = _nearest_single(value)
    if expected is not None:
        fitted = fit_number(value, Scalar.F32)
        assert fitted == expected
        assert math.copysign(1, fitted) == 1 or fitted < 0


def test_a_double_beyond_f32_is_refused_and_the_largest_that_rounds_down_is_not() -> None:
    largest = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
    edge = 2.0**128 - 2.0**103
    assert fit_number(math.nextafter(edge, 0), Scalar.F32) == largest
    for value in (edge, -edge, 1e39, math.inf, -math.inf, math.nan):
        with pytest.raises(UnfitValue):
            fit_number(value, Scalar.F32)


@quick(300)
@given(st.integers(-(2**1030), 2**1030))
def test_a_large_integer_becomes_the_nearest_double(value: int) -> None:
    try:
        expected = float(value)
    except OverflowError:
        with pytest.raises(UnfitValue):
            fit_number(value, Scalar.F64)
    else:
        assert fit_number(value, Scalar.F64) == expected


@pytest.mark.parametrize("scalar", [Scalar.F32, Scalar.F64])
def test_minus_zero_is_stored_as_zero(scalar: Scalar) -> None:
    assert math.copysign(1, fit_number(-0.0, scalar)) == 1


def _numpy_digits(value: float, *, single: bool) -> str:
    number = np.float32(value) if single else np.float64(value)
    text = np.format_float_positional(number, unique=True, trim="-")
    return "0" if text in ("-0", "0") else text


def _check_digits(value: float, *, single: bool) -> None:
    text = positional(value, single=single)
    kind = PropType(scalar=Scalar.F32 if single else Scalar.F64)
    assert text == spell_key(value, kind)
    assert "e" not in text.lower()
    assert not text.endswith((".", ".0"))
    assert text == _numpy_digits(value, single=single)
    read = float(np.float32(text)) if single else float(text)
    assert read == value


@quick(500)
@given(_singles)
def test_f32_keys_have_the_shortest_digits(value: float) -> None:
    _check_digits(value, single=True)


@quick(500)
@given(_doubles)
def test_f64_keys_have_the_shortest_digits(value: float) -> None:
    _check_digits(value, single=False)


@many
@given(_singles)
def test_f32_keys_always_have_the_shortest_digits(value: float) -> None:
    _check_digits(value, single=True)


def test_powers_of_two_and_the_ends_of_f32_have_the_shortest_digits() -> None:
    powers = [math.ldexp(1.0, exponent) for exponent in range(-149, 128)]
    near = [
        float(np.nextafter(np.float32(power), np.float32(towards)))
        for power in powers[:-1]
        for towards in (-np.inf, np.inf)
    ]
    ends = [3.4028234663852886e38, 1.1754943508222875e-38, 1.401298464324817e-45]
    for value in (*powers, *near, *ends):
        for signed in (value, -value):
            _check_digits(signed, single=True)


def test_powers_of_two_and_of_ten_and_the_ends_of_f64_have_the_shortest_digits() -> None:
    values = [math.ldexp(1.0, exponent) for exponent in range(-1074, 1024)]
    values += [float(f"1e{exponent}") for exponent in range(-323, 309)]
    values += [1.7976931348623157e308, 2.2250738585072014e-308, 5e-324]
    for value in values:
        _check_digits(value, single=False)


def test_to_f32_agrees_with_numpy() -> None:
    generator = np.random.default_rng(7)
    bits = generator.integers(0, 2**64, size=20_000, dtype=np.uint64)
    with np.errstate(over="ignore", invalid="ignore"):
        for value in bits.view(np.float64)[np.isfinite(bits.view(np.float64))]:
            single = np.float32(value)
            if np.isfinite(single):
                assert to_f32(float(value)) == float(single)
