import math
from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from omnigraph.lang import PropType, Scalar
from omnigraph.lang.values import (
    UnfitValue,
    date_days,
    datetime_ms,
    describe_json,
    fit_number,
    format_datetime,
    parse_date,
    parse_datetime,
    positional,
    read_json,
)

_STRING = PropType(scalar=Scalar.STRING)
_ENUM = PropType(scalar=Scalar.STRING, enum_values=("a", "b"))
_INTEGERS = PropType(scalar=Scalar.I32, is_list=True)
_VECTOR = PropType(scalar=Scalar.VECTOR, vector_dim=2)


def _kind(scalar: Scalar) -> PropType:
    return PropType(scalar=scalar)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-02-29", "2024-02-29T00:00:00.000Z"),
        ("2024-02-29T12:30:45", "2024-02-29T12:30:45.000Z"),
        ("2024-02-29 12:30:45Z", "2024-02-29T12:30:45.000Z"),
        ("2024-02-29T12:30:45.1239Z", "2024-02-29T12:30:45.123Z"),
        ("2024-02-29T12:30:45.1Z", "2024-02-29T12:30:45.100Z"),
        ("2024-02-29T00:30:00+01:00", "2024-02-28T23:30:00.000Z"),
        ("2024-02-29T23:30:00-01:30", "2024-03-01T01:00:00.000Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999Z"),
    ],
)
def test_a_date_time_is_converted_to_utc(text: str, moment: str) -> None:
    assert format_datetime(parse_datetime(text)) == moment


@pytest.mark.parametrize(
    "text",
    [
        *("", "2024", "2024-2-1", "2024-02-30", "2023-02-29", "0000-01-01", "10000-01-01"),
        *("2024-02-29T", "2024-02-29T12", "2024-02-29T12:30", "2024-02-29T24:00:00Z"),
        *("2024-02-29T12:60:00Z", "2024-02-29T12:00:61Z", "2024-02-29T12:00:00.Z"),
        *("2024-02-29T12:00:00+24:00", "2024-02-29T12:00:00+1:00", "2024-02-29T12:00:00+0100"),
        *(" 2024-02-29", "2024-02-29 ", "2024-02-29T12:00:00Z ", "2024-02-29  12:00:00Z"),
        *(
            "0001-01-01T00:00:00+00:01",
            "9999-12-31T23:59:59-00:01",
            "\uff12\uff10\uff12\uff14-02-29",
        ),
    ],
)
def test_another_form_is_no_date_time(text: str) -> None:
    with pytest.raises(UnfitValue):
        parse_datetime(text)


@pytest.mark.parametrize("text", ["2024-02-29T00:00:00Z", "2024-02-30", "24-02-29", "2024-02-29\n"])
def test_another_form_is_no_date(text: str) -> None:
    with pytest.raises(UnfitValue):
        parse_date(text)


def test_python_moments_are_taken_in_utc() -> None:
    moment = datetime(2024, 2, 29, 12, tzinfo=timezone(timedelta(hours=2)))
    assert datetime_ms(moment) == parse_datetime("2024-02-29T10:00:00Z")
    naive = moment.replace(tzinfo=None)
    assert datetime_ms(naive) == parse_datetime("2024-02-29T12:00:00Z")
    before = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    assert datetime_ms(before) == -1
    assert date_days(date(1969, 12, 31)) == -1


@pytest.mark.parametrize(
    ("value", "scalar", "read"),
    [
        ("x", Scalar.STRING, "x"),
        (True, Scalar.BOOL, True),
        (5, Scalar.I32, 5),
        ("-5", Scalar.I32, -5),
        ("18446744073709551615", Scalar.U64, 2**64 - 1),
        (1, Scalar.F64, 1.0),
        (0.1, Scalar.F32, 0.10000000149011612),
        ("2024-01-01", Scalar.DATE, 19723),
        ("2024-01-01", Scalar.DATETIME, 19723 * 86_400_000),
        ("base64:AA==", Scalar.BLOB, "base64:AA=="),
        (b"\x00", Scalar.BLOB, b"\x00"),
    ],
)
def test_a_json_value_of_its_type_is_read(value: object, scalar: Scalar, read: object) -> None:
    found = read_json(value, _kind(scalar))
    assert found == read
    assert type(found) is type(read)


@pytest.mark.parametrize(
    ("value", "scalar"),
    [
        (1, Scalar.STRING),
        ("true", Scalar.BOOL),
        (1, Scalar.BOOL),
        (True, Scalar.I32),
        (1.0, Scalar.I32),
        (2**31, Scalar.I32),
        (-1, Scalar.U32),
        ("1.0", Scalar.I32),
        ("+1", Scalar.I32),
        (" 1", Scalar.I32),
        ("٣", Scalar.I32),
        ("", Scalar.I32),
        ("1" * 41, Scalar.I64),
        ("1", Scalar.F64),
        (True, Scalar.F64),
        (math.nan, Scalar.F64),
        (math.inf, Scalar.F32),
        (1e39, Scalar.F32),
        (19723, Scalar.DATE),
        (True, Scalar.DATE),
        ({}, Scalar.STRING),
        ([], Scalar.STRING),
        (b"x", Scalar.STRING),
    ],
)
def test_a_json_value_of_another_kind_is_refused(value: object, scalar: Scalar) -> None:
    with pytest.raises(UnfitValue):
        read_json(value, _kind(scalar))


@pytest.mark.parametrize("scalar", [Scalar.I32, Scalar.U64, Scalar.F32, Scalar.F64, Scalar.DATE])
@pytest.mark.parametrize("digits", [400, 5_000])
def test_a_number_of_any_length_is_refused_with_a_short_message(
    digits: int, scalar: Scalar
) -> None:
    for value in (10**digits, -(10**digits)):
        with pytest.raises(UnfitValue) as caught:
            read_json(value, _kind(scalar), epoch_numbers=True)
        assert len(str(caught.value)) < 200


def test_epoch_numbers_are_dates_only_where_asked_for() -> None:
    for scalar, value in ((Scalar.DATE, -719_162), (Scalar.DATETIME, 0)):
        assert read_json(value, _kind(scalar), epoch_numbers=True) == value
        for wrong in (2**62, -(2**62), 1.0, True):
            with pytest.raises(UnfitValue):
                read_json(wrong, _kind(scalar), epoch_numbers=True)


def test_a_list_holds_nulls_only_where_allowed() -> None:
    assert read_json([1, None, "2"], _INTEGERS) == [1, None, 2]
    assert read_json((), _INTEGERS) == []
    with pytest.raises(UnfitValue, match="item 1"):
        read_json([1, None], _INTEGERS, null_items=False)
    with pytest.raises(UnfitValue, match="item 0"):
        read_json(["x"], _INTEGERS)
    for wrong in ("12", b"12", 1, {"0": 1}):
        with pytest.raises(UnfitValue):
            read_json(wrong, _INTEGERS)


def test_a_vector_has_its_length_and_finite_parts() -> None:
    assert read_json([1, 0.5], _VECTOR) == [1.0, 0.5]
    negative_zero = read_json([-0.0, 1], _VECTOR)
    assert isinstance(negative_zero, list)
    assert math.copysign(1, negative_zero[0]) == -1
    for wrong in ([1], [1, 2, 3], [1, None], [1, True], [1, "2"], [1, math.nan], [1, 1e39], "ab"):
        with pytest.raises(UnfitValue):
            read_json(wrong, _VECTOR)


def test_an_enum_takes_its_values_only() -> None:
    assert read_json("a", _ENUM) == "a"
    for wrong in ("c", "A", 1, None):
        with pytest.raises(UnfitValue):
            read_json(wrong, _ENUM)


def test_a_decimal_is_rounded_once() -> None:
    # Through F64 the last digit is lost and the tie goes the wrong way.
    assert fit_number(2**60 + 2**36 + 1, Scalar.F32) == float(2**60 + 2**37)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "null"),
        (True, "boolean true"),
        (7, "number 7"),
        (1.5, "number 1.5"),
        ("x", 'string "x"'),
        ("x" * 100, 'string "' + "x" * 59 + '…"'),
        (b"", "bytes"),
        ([], "array"),
        ((), "array"),
        ({}, "object"),
        (1 << 16_609, "number of 16,610 bits"),
        (object(), "object"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_json_value_is_described_in_a_few_words(value: object, words: str) -> None:
    assert describe_json(value) == words


@pytest.mark.parametrize(
    ("value", "text"), [(1e22, "1" + "0" * 22), (1.5, "1.5"), (-1e-5, "-0.00001"), (0.0, "0")]
)
def test_positional_digits_have_no_exponent(value: float, text: str) -> None:
    assert positional(value) == text
    assert positional(float(text), single=False) == text


def test_a_string_is_a_string() -> None:
    assert read_json("anything", _STRING) == "anything"
