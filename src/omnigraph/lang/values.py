"""Values of the property types: reading, fitting and writing them without silent change.

A value is held as Python sees the stored one: text, bool, int, float, days (Date) or milliseconds
(DateTime) since the epoch, a list of these, or a list of floats (Vector). Two roundings are
allowed, and no others: a decimal to the nearest float of the stored width, and digits below the
millisecond are cut.
"""

import math
import re
import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from omnigraph.lang.types import INTEGER_RANGES, PropType, Scalar

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_DAY_MS = 86_400_000
_MIN_MS = (date.min.toordinal() - _EPOCH_ORDINAL) * _DAY_MS
_MAX_MS = (date.max.toordinal() - _EPOCH_ORDINAL + 1) * _DAY_MS - 1
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(
    r"[T ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))?"
)
_DECIMAL_INTEGER = re.compile(r"-?[0-9]{1,40}")


class UnfitValue(ValueError):
    """A value that its type cannot hold; the message says why.

    Never reaches a caller: whoever fits a value knows the place and raises the error for it.
    """


def parse_date(text: str) -> int:
    """Days since the epoch of `YYYY-MM-DD`.

    Raises:
        UnfitValue: another form, or no such day.
    """
    match = _DATE.fullmatch(text)
    if match is None:
        raise UnfitValue(f"{_shown(text)} is not a date; write YYYY-MM-DD")
    try:
        day = date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError as error:
        raise UnfitValue(f"{_shown(text)} is not a date: {error}") from error
    return day.toordinal() - _EPOCH_ORDINAL


def parse_datetime(text: str) -> int:
    """Milliseconds since the epoch of an RFC 3339 text; a bare date is midnight UTC.

    Raises:
        UnfitValue: another form, no such time, or outside the years 0001 to 9999 in UTC.
    """
    day_ms = parse_date_part(text) * _DAY_MS
    if len(text) == 10:
        return day_ms
    match = _TIME.fullmatch(text, 10)
    if match is None:
        raise UnfitValue(
            f"{_shown(text)} is not a date-time; write YYYY-MM-DDTHH:MM:SS with an optional "
            "fraction and an optional Z or ±HH:MM"
        )
    hour, minute, second = int(match[1]), int(match[2]), int(match[3])
    offset_hour, offset_minute = int(match[6] or 0), int(match[7] or 0)
    if hour > 23 or minute > 59 or second > 59 or offset_hour > 23 or offset_minute > 59:
        raise UnfitValue(f"{_shown(text)} is not a time of day")
    time_ms = ((hour * 60 + minute) * 60 + second) * 1000 + int((match[4] or "0")[:3].ljust(3, "0"))
    offset_ms = (offset_hour * 60 + offset_minute) * 60_000 * (-1 if match[5] == "-" else 1)
    at_ms = day_ms + time_ms - offset_ms
    if not _MIN_MS <= at_ms <= _MAX_MS:
        raise UnfitValue(f"{_shown(text)} lies outside the years 0001 to 9999 in UTC")
    return at_ms


def parse_date_part(text: str) -> int:
    """Days since the epoch of the first ten characters of a date-time text."""
    try:
        return parse_date(text[:10])
    except UnfitValue as error:
        raise UnfitValue(f"{_shown(text)} is not a date-time: {error}") from error


def format_date(days: int) -> str:
    """`YYYY-MM-DD`."""
    return date.fromordinal(days + _EPOCH_ORDINAL).isoformat()


def format_datetime(at_ms: int) -> str:
    """`YYYY-MM-DDTHH:MM:SS.mmmZ`."""
    days, rest_ms = divmod(at_ms, _DAY_MS)
    seconds, ms = divmod(rest_ms, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{format_date(days)}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"


def datetime_ms(moment: datetime) -> int:
    """Milliseconds since the epoch; a moment without a zone is taken as UTC.

    Raises:
        UnfitValue: outside the years 0001 to 9999 in UTC.
    """
    local = moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    at_ms = (local - (moment.utcoffset() or timedelta())) // timedelta(milliseconds=1)
    if not _MIN_MS <= at_ms <= _MAX_MS:
        raise UnfitValue(f"{moment} lies outside the years 0001 to 9999 in UTC")
    return at_ms


def date_days(day: date) -> int:
    """Days since the epoch."""
    return day.toordinal() - _EPOCH_ORDINAL


def to_f32(value: float) -> float:
    """The nearest F32, as a Python float.

    Raises:
        UnfitValue: the value rounds to infinity.
    """
    try:
        # Through F64 a long integer would be rounded twice.
        exact = float(_round_to_24_bits(value) if isinstance(value, int) else value)
        (rounded,) = struct.unpack("<f", struct.pack("<f", exact))
    except OverflowError as error:
        raise UnfitValue(f"{_number(value)} is too large for F32") from error
    return float(rounded)


def _round_to_24_bits(value: int) -> int:
    """The nearest integer with 24 significant bits, ties to even."""
    extra = abs(value).bit_length() - 24
    if extra <= 0:
        return value
    kept, cut = divmod(abs(value), 1 << extra)
    half = 1 << (extra - 1)
    if cut > half or (cut == half and kept % 2):
        kept += 1
    return (kept << extra) * (-1 if value < 0 else 1)


def fit_number(value: float, scalar: Scalar) -> int | float:
    """A number as the stored type holds it: exact for integers, nearest for floats.

    Raises:
        UnfitValue: a fraction or a value out of range for an integer type, or not finite.
    """
    if scalar.is_integer:
        return _fit_integer(value, scalar)
    if not isinstance(value, int) and not math.isfinite(value):
        raise UnfitValue(f"{value} is not a finite number")
    if scalar is Scalar.F32:
        rounded = to_f32(value)
    else:
        try:
            rounded = float(value)
        except OverflowError as error:
            raise UnfitValue(f"{_number(value)} is too large for {scalar}") from error
    return rounded + 0.0  # -0.0 becomes 0.0


def _fit_integer(value: float, scalar: Scalar) -> int:
    if isinstance(value, float):
        if not value.is_integer():
            raise UnfitValue(f"{value!r} is not a whole number; {scalar} holds none else")
        value = int(value)
    low, high = INTEGER_RANGES[scalar]
    if not low <= value <= high:
        raise UnfitValue(f"{_number(value)} is out of range for {scalar} ({low} to {high})")
    return value


def read_json(
    value: object, kind: PropType, *, null_items: bool = True, epoch_numbers: bool = False
) -> object:
    """A non-null JSON value as its type holds it.

    `null_items` lets a list hold nulls; `epoch_numbers` lets Date and DateTime be integers.

    Raises:
        UnfitValue: wrong kind, fraction, range, length, or not finite.
    """
    if kind.is_list:
        return _read_list(value, kind, null_items=null_items, epoch_numbers=epoch_numbers)
    if kind.scalar is Scalar.VECTOR:
        return read_vector(value, kind)
    if kind.enum_values is not None:
        return _read_enum(value, kind)
    return _read_scalar(value, kind.scalar, epoch_numbers=epoch_numbers)


def _read_list(
    value: object, kind: PropType, *, null_items: bool, epoch_numbers: bool
) -> list[object]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise UnfitValue(f"expected {kind}, got {describe_json(value)}")
    items: list[object] = []
    for position, item in enumerate(value):
        if item is None:
            if not null_items:
                raise UnfitValue(f"item {position} of {kind} is null")
            items.append(None)
            continue
        try:
            items.append(_read_scalar(item, kind.scalar, epoch_numbers=epoch_numbers))
        except UnfitValue as error:
            raise UnfitValue(f"item {position} of {kind}: {error}") from error
    return items


def read_vector(value: object, kind: PropType) -> list[float]:
    """The parts of a vector as F32.

    Raises:
        UnfitValue: no list of numbers, another length, or a part that is not finite in F32.
    """
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise UnfitValue(f"expected {kind}, got {describe_json(value)}")
    if len(value) != kind.vector_dim:
        raise UnfitValue(f"expected {kind}, got a list of {len(value)}")
    parts: list[float] = []
    for position, part in enumerate(value):
        if isinstance(part, bool) or not isinstance(part, int | float):
            raise UnfitValue(
                f"part {position} of {kind}: expected a number, got {describe_json(part)}"
            )
        try:
            is_negative = math.copysign(1, part) < 0 if isinstance(part, float) else part < 0
            size = abs(fit_number(part, Scalar.F32))
            parts.append(-size if is_negative else size)
        except UnfitValue as error:
            raise UnfitValue(f"part {position} of {kind}: {error}") from error
    return parts


def _read_enum(value: object, kind: PropType) -> str:
    if not isinstance(value, str):
        raise UnfitValue(f"expected {kind}, got {describe_json(value)}")
    if value not in (kind.enum_values or ()):
        raise UnfitValue(f"{_shown(value)} is not one of {', '.join(kind.enum_values or ())}")
    return value


def _read_scalar(value: object, scalar: Scalar, *, epoch_numbers: bool) -> object:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match scalar:
        case Scalar.STRING | Scalar.BLOB if isinstance(value, str):
            return _read_text(value)
        case Scalar.BLOB if isinstance(value, bytes):
            return value
        case Scalar.BOOL if isinstance(value, bool):
            return value
        case Scalar.DATE if isinstance(value, str):
            return parse_date(value)
        case Scalar.DATETIME if isinstance(value, str):
            return parse_datetime(value)
        case Scalar.DATE | Scalar.DATETIME if epoch_numbers and is_number:
            return _read_epoch(value, scalar)
        case Scalar.F32 | Scalar.F64 if isinstance(value, int | float) and is_number:
            return fit_number(value, scalar)
        case _ if scalar.is_integer:
            return _read_integer(value, scalar)
    raise UnfitValue(f"expected {scalar}, got {describe_json(value)}")


def _read_text(value: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise UnfitValue("the text is not valid Unicode: it has a lone surrogate") from error
    return value


def _read_integer(value: object, scalar: Scalar) -> int:
    if isinstance(value, str) and _DECIMAL_INTEGER.fullmatch(value):
        return _fit_integer(int(value), scalar)
    if isinstance(value, int) and not isinstance(value, bool):
        return _fit_integer(value, scalar)
    raise UnfitValue(f"expected {scalar}, got {describe_json(value)}")


def _read_epoch(value: object, scalar: Scalar) -> int:
    low, high = (
        (_MIN_MS, _MAX_MS)
        if scalar is Scalar.DATETIME
        else (_MIN_MS // _DAY_MS, _MAX_MS // _DAY_MS)
    )
    if not isinstance(value, int) or not low <= value <= high:
        raise UnfitValue(f"expected {scalar}, got {describe_json(value)}")
    return value


def describe_json(value: object) -> str:
    """What a JSON value is, short enough for a message: `string "x"`, `number 1.5`, `array`."""
    match value:
        case None:
            return "null"
        case bool():
            return f"boolean {str(value).lower()}"
        case int() | float():
            return f"number {_number(value)}".replace("number a number", "number")
        case str():
            return f"string {_shown(value)}"
        case bytes():
            return "bytes"
        case Sequence():
            return "array"
        case dict():
            return "object"
        case _:
            return type(value).__name__


def positional(value: float, *, single: bool = False) -> str:
    """The shortest digits that read back to the same float, without exponent or trailing `.0`.

    `single` takes the digits of an F32.
    """
    text = format(Decimal(_shortest_f32(value) if single else repr(value)), "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def _shortest_f32(value: float) -> str:
    for digits in range(9):
        text = f"{value:.{digits}e}"
        step = Decimal(1).scaleb(int(text.split("e")[1]) - digits)
        near = Decimal(text)
        # An F32 at a power of two has a wider gap above than below, so the nearest decimal may fail
        # where its neighbour still reads back.
        for candidate in (near, near + step, near - step):
            if to_f32_or_inf(candidate) == value:
                return str(candidate)
    return repr(value)


def to_f32_or_inf(value: Decimal) -> float:
    """The nearest F32 of a decimal, or infinity."""
    try:
        return to_f32(float(value))
    except UnfitValue:
        return math.inf


def _number(value: float) -> str:
    """A number short enough for a message; Python refuses to spell very long integers."""
    if isinstance(value, int) and value.bit_length() > 1_000:
        return f"a number of {value.bit_length():,} bits"
    return _cut(repr(value))


def _shown(text: str) -> str:
    return f'"{_cut(text)}"'


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"
