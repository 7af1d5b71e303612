"""Rows that hold the extremes of every scalar type, and comparisons of exact numbers."""

import operator
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from fractions import Fraction
from itertools import zip_longest
from typing import Any

import numpy as np

OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    # Any: numbers, texts, dates and booleans are all compared by them.
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

TENTH_F32 = float(np.float32(0.1))
ABOVE_TENTH_F32 = float(np.nextafter(np.float32(0.1), np.float32(1)))
MOST_F32 = float(np.finfo(np.float32).max)
LEAST_F32 = float(np.float32(1e-45))
MOST_F64 = float(np.finfo(np.float64).max)
ABOVE_TENTH = float(np.nextafter(0.1, 1))

WHOLE: Mapping[str, list[int | None]] = {
    "i32": [-(2**31), -7, -1, 0, 1, 2, 5, 2**31 - 1, None],
    "i64": [-(2**63), -(2**53) - 1, -(2**53), -1, 0, 1, 5, 2**53, 2**53 + 1, 2**63 - 1, None],
    "u32": [0, 1, 5, 2**31, 2**32 - 1, None],
    "u64": [0, 1, 5, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, None],
}
REAL: Mapping[str, list[float | None]] = {
    "f32": [
        *(-MOST_F32, -1.5, -TENTH_F32, 0.0, LEAST_F32, TENTH_F32, ABOVE_TENTH_F32, 1.0, 1.5, 5.0),
        *(16777216.0, MOST_F32, None),
    ],
    "f64": [
        *(-MOST_F64, -0.1, 0.0, 5e-324, TENTH_F32, 0.1, ABOVE_TENTH, 1.5, 5.0, 2.0**53),
        *(2.0**53 + 2, 2.0**63, MOST_F64, None),
    ],
}
NUMBERS: Mapping[str, list[Any]] = {**WHOLE, **REAL}
OTHERS: Mapping[str, list[Any]] = {
    "day": [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), None],
    "at": [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2024, 2, 29, 12, 0, 0, 1_000, tzinfo=UTC),
        None,
    ],
    "word": ["", "B", "a", "ab", "a\u0301", "z", "\uffff", "\U00010000", "a_b", "a%b", None],
    "flag": [False, True, None],
    "level": ["high", "low", "mid-1", None],
}
SCALARS: Mapping[str, list[Any]] = {**NUMBERS, **OTHERS}

_TYPES = {
    "i32": "I32",
    "i64": "I64",
    "u32": "U32",
    "u64": "U64",
    "f32": "F32",
    "f64": "F64",
    "day": "Date",
    "at": "DateTime",
    "word": "String",
    "flag": "Bool",
    "level": "enum(low, high, mid-1)",
}
_LISTED = [name for name in _TYPES if name != "level"]


def declare(*, indexed: bool) -> str:
    """A schema with a node and an edge of every scalar type; hubs lead to all rows."""
    mark = " @index" if indexed else ""
    scalars = "\n".join(f"  {name}: {kind}?{mark}" for name, kind in _TYPES.items())
    lists = "\n".join(f"  {name}s: [{_TYPES[name]}]?" for name in _LISTED)
    return (
        f"node Row {{\n  key: String @key\n{scalars}\n{lists}\n}}\n"
        "node Hub { key: String @key }\n"
        f"edge Has: Hub -> Row {{\n{scalars}\n}}\n"
    )


def rows() -> list[dict[str, Any]]:
    """The values side by side; a column that has no more is null.

    The list of a row holds the value above and the one of its own row, with a null between.
    """
    found: list[dict[str, Any]] = []
    columns = zip_longest(*SCALARS.values())
    for number, cells in enumerate(columns):
        row: dict[str, Any] = {"key": f"r{number:02}", **dict(zip(SCALARS, cells, strict=True))}
        for name in _LISTED:
            before = found[-1][name] if found else None
            row[f"{name}s"] = None if number == 2 else [before, None, row[name]]
        found.append(row)
    found[3].update({f"{name}s": [] for name in _LISTED})
    return found


def edges() -> list[dict[str, Any]]:
    """An edge from the hub to each row, with the values of the row."""
    return [{"src": "hub", "dst": row["key"], **{n: row[n] for n in _TYPES}} for row in rows()]


def is_true(column: str, value: Any, op: str, literal: Any) -> bool:  # noqa: ANN401 - of any type
    """Whether `column op literal` is true of a value, by the table of literals."""
    if value is None or literal is None:
        return False
    compare = OPERATORS[op]
    if column in WHOLE:
        return compare(Fraction(value), Fraction(literal))
    if column not in REAL:
        return compare(_ordered(value), _ordered(literal))
    exact = Fraction(literal)
    if column == "f32" and op in ("=", "!="):
        near = nearest_f32(exact)
        return compare(value, near)
    try:
        fitted = Fraction(float(exact))
    except OverflowError:
        return compare(0, 1 if exact > 0 else -1)
    return compare(Fraction(value), fitted)


def _ordered(value: object) -> object:
    return value.encode() if isinstance(value, str) else value


def nearest_f32(exact: Fraction) -> float:
    """The nearest F32 of a number, ties to even; infinity beyond the largest."""
    if abs(exact) >= Fraction(2) ** 128 - Fraction(2) ** 103:
        return float("inf") if exact > 0 else float("-inf")
    near = np.float32(min(max(float(exact), -MOST_F32), MOST_F32))
    most = np.float32(MOST_F32)
    around = (np.nextafter(near, -most), near, np.nextafter(near, most))
    return float(min(around, key=lambda each: (abs(Fraction(float(each)) - exact), _odd(each))))


def _odd(value: np.float32) -> int:
    return int(value.view(np.uint32)) % 2


def spell(number: float) -> str:
    """A number as a literal of the language."""
    if isinstance(number, int):
        return str(number)
    text = np.format_float_positional(number, trim="0")
    return f"-{text}" if number == 0 and np.signbit(number) and text[0] != "-" else text


def literals() -> Iterator[float]:
    """Numbers at, beside and far from the borders of every type."""
    for border in (0, 1, 5, 2**31, 2**32, 2**53, 2**63):
        yield from (border - 1, border, border + 1)
    yield 2**64 - 1
    for border in (-1, -(2**31), -(2**53)):
        yield from (border - 1, border)
    yield -(2**63)
    yield from (0.0, -0.0, 1.0, 5.0, 0.5, -0.5, 1.5, -1.5, 4.999, 0.1, TENTH_F32, ABOVE_TENTH)
    yield from (2.0**31 - 0.5, -(2.0**31) - 0.5, 2.0**32 - 0.5, 2.0**53, 2.0**63, 2.0**64)
    yield from (-(2.0**63), -(2.0**63) - 2048.0, 1e19, 1e39, -1e39, 1e300, -1e300, MOST_F64)
    yield from (MOST_F32, 3.4028235677973362e38, 3.4028235677973366e38, 1e-46, 7e-46, -7e-46)


FEW_LITERALS: Mapping[str, tuple[float, ...]] = {
    "i32": (-(2**31) - 1, -(2**31) - 0.5, -(2**31), -0.5, 5, 4.999, 2.0**31 - 0.5, 2**31, 1e300),
    "i64": (-1e300, -(2**63), -(2.0**53), 0.0, 0.5, 5.0, 2**53 + 1, 2**63 - 1, 2.0**63, 2**64 - 1),
    "u32": (-1, -0.5, -0.0, 5, 4.999, 2**32 - 1, 2.0**32 - 0.5, 2**32, 2.0**64),
    "u64": (-(2**63), -0.5, 0, 5.0, 2**53 + 1, 2**63, 2.0**63, 2**64 - 1, 2.0**64, 1e39),
    "f32": (-1e39, -0.0, 7e-46, 0.1, TENTH_F32, 5, 2**53 + 1, MOST_F32, 3.4028235677973366e38),
    "f64": (-1e300, -0.0, 0.1, TENTH_F32, ABOVE_TENTH, 5, 2**53 + 1, 2**63, MOST_F64),
}
"""Of every cell of the table one or two, for what takes longer."""


def exact_pair(left: str, a: float, right: str, b: float) -> tuple[float, float]:
    """Two values as columns compare them: as floats if one is a float, else as they are."""
    if left in REAL or right in REAL:
        return float(a), float(b)
    return a, b
