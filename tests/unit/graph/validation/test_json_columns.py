"""Columns of JSON values: what fits a type, what it becomes, and why another value does not."""

import math
import struct
from collections.abc import Sequence
from typing import Any

import pytest

from omnigraph.graph.validation.json_columns import JsonValues, fit_json_column
from omnigraph.lang.arrow_schema import arrow_type
from omnigraph.lang.types import PropType, Scalar

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
FIRST_DAY, LAST_DAY = -719_162, 2_932_896


def fitted(scalar: Scalar, values: Sequence[object], **shape: Any) -> list[object]:  # noqa: ANN401
    """The stored values; dates and moments as the numbers that Arrow holds."""
    kind = PropType(scalar=scalar, **shape)
    found = fit_json_column(JsonValues.of(values), kind)
    assert found.fitted.values.type == arrow_type(kind)
    assert [at for at, bad in enumerate(found.fitted.unfit) if bad] == sorted(found.reasons)
    column = found.fitted.values
    column.validate(full=True)
    if scalar is Scalar.DATE and not kind.is_list:
        column = column.view("int32")
    if scalar is Scalar.DATETIME and not kind.is_list:
        column = column.view("int64")
    return list(column.to_pylist())


def reasons(scalar: Scalar, values: Sequence[object], **shape: Any) -> dict[int, str]:  # noqa: ANN401
    return dict(fit_json_column(JsonValues.of(values), PropType(scalar=scalar, **shape)).reasons)


@pytest.mark.parametrize("scalar", list(Scalar))
def test_nothing_but_nulls_fits_every_type(scalar: Scalar) -> None:
    shape = {"vector_dim": 3} if scalar is Scalar.VECTOR else {}
    assert fitted(scalar, [None, None], **shape) == [None, None]
    assert fitted(scalar, [], **shape) == []


@pytest.mark.parametrize(
    ("scalar", "low", "high"),
    [
        (Scalar.I32, -(2**31), 2**31 - 1),
        (Scalar.I64, -(2**63), 2**63 - 1),
        (Scalar.U32, 0, 2**32 - 1),
        (Scalar.U64, 0, 2**64 - 1),
    ],
)
def test_integers_are_exact_up_to_the_ends_of_their_range(
    scalar: Scalar, low: int, high: int
) -> None:
    assert fitted(scalar, [low, None, high]) == [low, None, high]
    assert fitted(scalar, [str(low), high, str(high)]) == [low, high, high]
    assert fitted(scalar, [low - 1, 1, high + 1, 10**30]) == [None, 1, None, None]
    assert set(reasons(scalar, [low - 1, 1, high + 1, 10**30])) == {0, 2, 3}


@pytest.mark.parametrize("value", [True, 1.0, 1.5, "1.0", "+1", " 1", "", "1e3", [1], {}, "x"])
def test_what_is_no_integer_is_none_of_any_integer_type(value: object) -> None:
    for scalar in (Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64):
        assert reasons(scalar, [1, value])[1].startswith(f"expected {scalar}, got ")


def test_a_float_is_the_nearest_of_its_width_and_has_no_negative_zero() -> None:
    values = [0.1, 1, -0.0, 2**53 + 1, 16_777_217, 5e-324, None]
    wide = [0.1, 1.0, 0.0, float(2**53), 16_777_217.0, 5e-324, None]
    assert fitted(Scalar.F64, values) == wide
    narrow = fitted(Scalar.F32, values)
    assert narrow[0] == struct.unpack("<f", struct.pack("<f", 0.1))[0]
    assert narrow[1:] == [1.0, 0.0, float(2**53), 16_777_216.0, 0.0, None]
    for column in (fitted(Scalar.F64, [-0.0, 1.0]), narrow):
        assert all(math.copysign(1, float(str(each))) > 0 for each in column if each is not None)


def test_an_integer_is_rounded_once_on_its_way_to_a_narrow_float() -> None:
    value = 2**54 + 2**30 + 1
    assert fitted(Scalar.F32, [value]) == [float(2**54 + 2**31)]


@pytest.mark.parametrize("value", [3.4028236e38, -1e39, 10**39])
def test_a_number_beyond_a_narrow_float_is_refused(value: float) -> None:
    assert "is too large for F32" in reasons(Scalar.F32, [1.0, value])[1]
    assert fitted(Scalar.F32, [3.4028234e38, value])[1] is None


def test_a_number_beyond_every_float_is_refused() -> None:
    assert "is too large for F64" in reasons(Scalar.F64, [10**400])[0]
    assert "is too large for F32" in reasons(Scalar.F32, [10**400])[0]


@pytest.mark.parametrize("value", ["1.5", True, [], {}])
def test_a_float_is_a_number(value: object) -> None:
    assert reasons(Scalar.F64, [1.0, value])[1].startswith("expected F64, got ")


def test_dates_reach_from_the_year_1_to_the_year_9999() -> None:
    given = ["0001-01-01", "9999-12-31", "2000-02-29", FIRST_DAY, LAST_DAY, None]
    wanted = [FIRST_DAY, LAST_DAY, 11_016, FIRST_DAY, LAST_DAY, None]
    assert fitted(Scalar.DATE, given) == wanted
    assert fitted(Scalar.DATE, given[:3]) == wanted[:3]


@pytest.mark.parametrize(
    "value",
    [
        *("0000-12-31", "10000-01-01", "-001-01-01", "2023-02-29", "1900-02-29", "2023-13-01"),
        *("2023-00-01", "2023-01-00", "2023-1-1", "2023-01-01\n", " 2023-01-01", "20230101"),
        *("2023-01-01T00:00:00Z", "", FIRST_DAY - 1, LAST_DAY + 1, 1.0, True, []),
    ],
)
def test_what_is_no_day_is_no_date(value: object) -> None:
    assert set(reasons(Scalar.DATE, ["2020-01-01", value])) == {1}
    assert fitted(Scalar.DATE, ["2020-01-01", value]) == [18_262, None]


@pytest.mark.parametrize(
    ("value", "at_ms"),
    [
        ("1970-01-01T00:00:01Z", 1_000),
        ("1970-01-01T00:00:01.5Z", 1_500),
        ("1970-01-01T00:00:01.123Z", 1_123),
        ("1970-01-01T00:00:01.123999999Z", 1_123),
        ("1969-12-31T23:59:59.999Z", -1),
        ("1970-01-01 00:00:01Z", 1_000),
        ("1970-01-01T00:00:01", 1_000),
        ("1970-01-01", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:59:00-00:01", 0),
        ("0001-01-01T00:00:00.000Z", FIRST_MS),
        ("9999-12-31T23:59:59.999Z", LAST_MS),
        (LAST_MS, LAST_MS),
        (FIRST_MS, FIRST_MS),
    ],
)
def test_every_form_of_a_moment_is_read(value: object, at_ms: int) -> None:
    assert fitted(Scalar.DATETIME, [value]) == [at_ms]
    assert fitted(Scalar.DATETIME, ["1970-01-01T00:00:00.001Z", value, None]) == [1, at_ms, None]


@pytest.mark.parametrize(
    "value",
    [
        *("1970-01-01T24:00:00Z", "1970-01-01T00:60:00Z", "1970-01-01T00:00:60Z", "1970-01-01T00Z"),
        *("1970-01-01T00:00:00z", "1970-01-01t00:00:00Z", "1970-01-01  00:00:00", "1970-02-30"),
        *("0000-12-31T23:59:59Z", "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01"),
        *("1970-01-01T00:00:00+24:00", "1970-01-01T00:00:00.Z", "now", FIRST_MS - 1, LAST_MS + 1),
        *(0.5, True, {}),
    ],
)
def test_what_is_no_moment_is_no_date_time(value: object) -> None:
    assert set(reasons(Scalar.DATETIME, ["1970-01-01T00:00:00Z", value])) == {1}


def test_a_list_may_hold_nulls_and_reads_its_items_as_its_type_does() -> None:
    given = [[1, None, "3"], None, [], [None]]
    assert fitted(Scalar.I32, given, is_list=True) == [[1, None, 3], None, [], [None]]
    assert reasons(Scalar.I32, [[1], [2, 1.5], 3], is_list=True) == {
        1: "item 1 of [I32]: expected I32, got number 1.5",
        2: "expected [I32], got number 3",
    }
    assert fitted(Scalar.STRING, [["a", "é"], []], is_list=True) == [["a", "é"], []]


def test_a_vector_has_its_length_and_keeps_the_sign_of_zero() -> None:
    found = fitted(Scalar.VECTOR, [[1, -0.0, 0.1], None], vector_dim=3)
    assert found[1] is None
    parts = found[0]
    assert isinstance(parts, list)
    assert math.copysign(1, parts[1]) == -1
    bad = [[1, 2], [1, None, 2], [1, "2", 3], [1, True, 3], [1e39, 0, 0], "abc", 3]
    why = reasons(Scalar.VECTOR, [[1, 2, 3], *bad], vector_dim=3)
    assert sorted(why) == [1, 2, 3, 4, 5, 6, 7]
    assert why[1] == "expected Vector(3), got a list of 2"
    for each in bad:
        assert set(reasons(Scalar.VECTOR, [[1, 2, 3], None, each], vector_dim=3)) == {2}


def test_a_text_of_an_enum_is_judged_later_and_another_value_is_not() -> None:
    kind = PropType(scalar=Scalar.STRING, enum_values=("a", "b"))
    assert fit_json_column(JsonValues.of(["a", "other", None]), kind).reasons == {}
    found = fit_json_column(JsonValues.of(["a", "other", 3]), kind)
    assert found.reasons == {2: "expected enum(a, b), got number 3"}
    assert found.fitted.values.to_pylist() == ["a", "other", None]


def test_text_that_is_no_unicode_is_refused() -> None:
    assert set(reasons(Scalar.STRING, ["a", "\ud800", None])) == {1}
    assert set(reasons(Scalar.DATE, ["2020-01-01", "\ud800"])) == {1}
