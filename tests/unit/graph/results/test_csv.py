"""CSV keeps null apart from the empty string, and reads back with any RFC 4180 reader."""

import csv
import io
import json
import math
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from tests.property.profiles import quick
from tests.unit.graph.results.results import (
    NUMBER,
    TEXT,
    column_of,
    optional,
    result_of,
    results,
    vector,
)

from omnigraph.graph.results.query_result import QueryResult
from omnigraph.lang.types import PropType, Scalar


@pytest.mark.parametrize(
    ("kind", "value", "field"),
    [
        (TEXT, "Ada", "Ada"),
        (TEXT, " padded ", " padded "),
        (TEXT, "", '""'),
        (TEXT, 'a"b', '"a""b"'),
        (TEXT, "a,b", '"a,b"'),
        (TEXT, "a\rb", '"a\rb"'),
        (TEXT, "a\nb", '"a\nb"'),
        (TEXT, "null", "null"),
        (TEXT, None, ""),
        (optional(Scalar.BOOL), True, "true"),
        (optional(Scalar.BOOL), False, "false"),
        (optional(Scalar.U64), 2**64 - 1, "18446744073709551615"),
        (optional(Scalar.F32), 0.1, "0.1"),
        (optional(Scalar.F64), 1.0, "1.0"),
        (optional(Scalar.F64), math.nan, "NaN"),
        (optional(Scalar.F64), -math.inf, "-Infinity"),
        (optional(Scalar.F64), None, ""),
        (optional(Scalar.DATE), date(26, 1, 31), "0026-01-31"),
        (
            optional(Scalar.DATETIME),
            datetime(2026, 1, 31, 1, 2, 3, 4000, tzinfo=UTC),
            "2026-01-31T01:02:03.004Z",
        ),
        (vector(2), [0.1, 1.0], '"[0.1,1.0]"'),
        (vector(1), [0.5], "[0.5]"),
        (optional(Scalar.STRING, is_list=True), ["a", None], '"[""a"",null]"'),
        (optional(Scalar.STRING, is_list=True), [], "[]"),
        (optional(Scalar.STRING, is_list=True), None, ""),
    ],
)
def test_each_type_has_one_field(kind: PropType, value: object, field: str) -> None:
    found = result_of({"v": (kind, [value]), "w": (NUMBER, [1])})
    assert found.to_csv() == f"v,w\n{field},1\n"


def test_names_of_columns_are_quoted_like_values() -> None:
    found = result_of({"p.name": (TEXT, []), 'a,"b"': (TEXT, []), "": (TEXT, [])})
    assert found.to_csv() == 'p.name,"a,""b""",""\n'


def test_a_null_alone_is_an_empty_line() -> None:
    assert column_of(TEXT, "a", None, "").to_csv() == 'v\na\n\n""\n'


@given(results())
@quick(50)
def test_csv_reads_back_to_the_values_of_the_json_form(found: QueryResult) -> None:
    _require_same_values(found)


@pytest.mark.extended
@given(results())
@quick(200)
def test_csv_of_many_reads_back_to_the_values_of_the_json_form(found: QueryResult) -> None:
    _require_same_values(found)


def _require_same_values(found: QueryResult) -> None:
    header, *lines = csv.reader(io.StringIO(found.to_csv(), newline=""), strict=True)
    rows = json.loads(found.to_json())
    assert header == found.columns
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):
        for field, value in zip(line or [""], row.values(), strict=True):
            assert _holds(field, value)


def _holds(field: str, value: object) -> bool:
    if value is None or isinstance(value, str):
        return field == (value or "")
    return bool(json.loads(field) == value)
