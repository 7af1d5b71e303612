"""The JSON forms write every value exactly, in column order."""

import json
import math
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.profiles import quick
from tests.unit.graph.results.results import (
    COMMIT,
    NUMBER,
    TEXT,
    column_of,
    optional,
    result_of,
    results,
    to_f32,
    vector,
)

from omnigraph.graph.query.target import QueryTarget
from omnigraph.graph.results.query_result import QueryResult
from omnigraph.lang.types import PropType, Scalar
from omnigraph.lang.values import parse_date, parse_datetime

MOMENT = datetime(2026, 1, 31, 23, 59, 58, 7000, tzinfo=UTC)
FIRST = datetime(1, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)
BEFORE_EPOCH = datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)

TEXTS: list[tuple[PropType, object, str]] = [
    (TEXT, "Ada", '"Ada"'),
    (TEXT, "", '""'),
    (TEXT, 'é"\\\n\x01😀', '"é\\"\\\\\\n\\u0001😀"'),
    (PropType(scalar=Scalar.STRING, nullable=True, enum_values=("a", "b")), "a", '"a"'),
    (optional(Scalar.BOOL), True, "true"),
    (optional(Scalar.BOOL), False, "false"),
    (optional(Scalar.I32), -(2**31), "-2147483648"),
    (optional(Scalar.U32), 2**32 - 1, "4294967295"),
    (NUMBER, 2**53 + 1, "9007199254740993"),
    (NUMBER, -(2**63), "-9223372036854775808"),
    (optional(Scalar.U64), 2**64 - 1, "18446744073709551615"),
    (optional(Scalar.F32), 0.1, "0.1"),
    (optional(Scalar.F32), 16777216.0, "16777216.0"),
    (optional(Scalar.F32), 3.4028235e38, "3.4028235e38"),
    (optional(Scalar.F32), 1.401298464324817e-45, "1e-45"),
    (optional(Scalar.F64), 0.1, "0.1"),
    (optional(Scalar.F64), to_f32(0.1), "0.10000000149011612"),
    (optional(Scalar.F64), 1.0, "1.0"),
    (optional(Scalar.F64), 1e22, "1e22"),
    (optional(Scalar.F64), math.nan, '"NaN"'),
    (optional(Scalar.F64), math.inf, '"Infinity"'),
    (optional(Scalar.F64), -math.inf, '"-Infinity"'),
    (optional(Scalar.F32), math.nan, '"NaN"'),
    (optional(Scalar.F32), -math.inf, '"-Infinity"'),
    (optional(Scalar.DATE), date(2026, 1, 31), '"2026-01-31"'),
    (optional(Scalar.DATE), date.min, '"0001-01-01"'),
    (optional(Scalar.DATE), date.max, '"9999-12-31"'),
    (optional(Scalar.DATETIME), MOMENT, '"2026-01-31T23:59:58.007Z"'),
    (optional(Scalar.DATETIME), FIRST, '"0001-01-01T00:00:00.000Z"'),
    (optional(Scalar.DATETIME), LAST, '"9999-12-31T23:59:59.999Z"'),
    (optional(Scalar.DATETIME), BEFORE_EPOCH, '"1969-12-31T23:59:59.999Z"'),
    (vector(3), [0.1, 1.0, -2.5], "[0.1,1.0,-2.5]"),
    (vector(2), [math.nan, 0.2], '["NaN",0.2]'),
    (optional(Scalar.STRING, is_list=True), ["a", None, ""], '["a",null,""]'),
    (optional(Scalar.STRING, is_list=True), [], "[]"),
    (optional(Scalar.U64, is_list=True), [2**64 - 1, None], "[18446744073709551615,null]"),
    (optional(Scalar.F32, is_list=True), [0.1, None], "[0.1,null]"),
    (optional(Scalar.F64, is_list=True), [math.inf, 0.5], '["Infinity",0.5]'),
    (optional(Scalar.BOOL, is_list=True), [True, None], "[true,null]"),
    (optional(Scalar.DATE, is_list=True), [date(2026, 1, 31)], '["2026-01-31"]'),
    (optional(Scalar.DATETIME, is_list=True), [MOMENT], '["2026-01-31T23:59:58.007Z"]'),
]


@pytest.mark.parametrize(("kind", "value", "text"), TEXTS)
def test_each_type_has_one_text(kind: PropType, value: object, text: str) -> None:
    assert column_of(kind, value, None).to_json() == f'[{{"v":{text}}},{{"v":null}}]'


def test_an_object_has_the_columns_in_return_order() -> None:
    found = result_of({"z": (TEXT, ["a"]), "p.name": (NUMBER, [1]), "a": (TEXT, [None])})
    assert found.to_json() == '[{"z":"a","p.name":1,"a":null}]'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2**53 - 1, "9007199254740991"),
        (2**53, '"9007199254740992"'),
        (1 - 2**53, "-9007199254740991"),
        (-(2**53), '"-9007199254740992"'),
        (None, "null"),
    ],
)
def test_js_safe_spells_integers_that_a_double_cannot_hold(value: int | None, text: str) -> None:
    many = optional(Scalar.I64, is_list=True)
    found = result_of({"n": (NUMBER, [value]), "many": (many, [[value, 1]])})
    assert found.to_json(js_safe=True) == f'[{{"n":{text},"many":[{text},1]}}]'


def test_js_safe_changes_no_other_type() -> None:
    found = result_of(
        {
            "big": (optional(Scalar.U64), [2**64 - 1]),
            "u": (optional(Scalar.U32), [2**32 - 1]),
            "f": (optional(Scalar.F64), [1e300]),
            "s": (TEXT, ["9007199254740992"]),
        }
    )
    assert found.to_json(js_safe=True) == (
        '[{"big":"18446744073709551615","u":4294967295,"f":1e300,"s":"9007199254740992"}]'
    )


def test_json_lines_start_with_the_metadata() -> None:
    found = result_of({"n": (NUMBER, [1, None])}, target=QueryTarget(branch=None, snapshot="01K"))
    assert found.to_jsonl() == (
        '{"kind":"metadata","query_name":"find","target":{"branch":null,"snapshot":"01K"},'
        '"row_count":2}\n'
        '{"n":1}\n'
        '{"n":null}\n'
    )


def test_the_body_of_a_response_has_the_fields_of_the_contract_in_order() -> None:
    found = result_of({"p.name": (TEXT, ["Ada"]), "p.age": (NUMBER, [2**60])})
    assert json.dumps(found.to_dict()) == json.dumps(
        {
            "query_name": "find",
            "target": {"branch": "main", "snapshot": None},
            "row_count": 1,
            "columns": ["p.name", "p.age"],
            "rows": [{"p.name": "Ada", "p.age": 2**60}],
            "graph_commit_id": COMMIT,
        }
    )
    assert found.to_dict(js_safe=True)["rows"] == [{"p.name": "Ada", "p.age": str(2**60)}]


def test_the_body_of_a_response_says_when_rules_restricted_it() -> None:
    assert result_of({"v": (TEXT, [])}, policy_filtered=True).to_dict()["policy_filtered"] is True


def _read_back(value: object, kind: PropType) -> object:
    """The Python value that a JSON value stands for."""
    if isinstance(value, list):
        return [_read_back(each, kind) for each in value]
    match kind.scalar:
        case Scalar.DATE if isinstance(value, str):
            return date.fromordinal(parse_date(value) + date(1970, 1, 1).toordinal())
        case Scalar.DATETIME if isinstance(value, str):
            assert parse_datetime(value) is not None
            return datetime.fromisoformat(value)
        case Scalar.F32 | Scalar.VECTOR if isinstance(value, float):
            return to_f32(value)
        case _:
            return value


def _kinds(found: QueryResult) -> dict[str, PropType]:
    return dict(zip(found.columns, found._kinds, strict=True))


@given(results())
@quick(50)
def test_json_reads_back_to_the_same_values(found: QueryResult) -> None:
    _require_same_values(found)


@pytest.mark.extended
@given(results())
@quick(200)
def test_json_of_many_reads_back_to_the_same_values(found: QueryResult) -> None:
    _require_same_values(found)


def _require_same_values(found: QueryResult) -> None:
    kinds = _kinds(found)
    rows = json.loads(found.to_json())
    assert [list(row) for row in rows] == [found.columns] * len(found)
    assert [
        {name: _read_back(value, kinds[name]) for name, value in row.items()} for row in rows
    ] == found.to_dicts()


@given(results())
@quick(30)
def test_every_json_form_holds_the_same_rows(found: QueryResult) -> None:
    _require_same_rows(found)


@pytest.mark.extended
@given(results())
@quick(100)
def test_every_json_form_of_many_holds_the_same_rows(found: QueryResult) -> None:
    _require_same_rows(found)


def _require_same_rows(found: QueryResult) -> None:
    rows = json.loads(found.to_json())
    lines = [json.loads(line) for line in found.to_jsonl().rstrip("\n").split("\n")]
    assert lines[1:] == rows
    assert lines[0]["row_count"] == len(rows)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["rows"] == rows


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
@quick(200)
def test_an_f32_has_no_more_digits_than_it_needs(floats: list[float]) -> None:
    rows = json.loads(column_of(optional(Scalar.F32), *floats).to_json(), parse_float=str)
    for row, value in zip(rows, floats, strict=True):
        mantissa = row["v"].lower().partition("e")[0].lstrip("-").replace(".", "")
        digits = len(mantissa.strip("0")) or 1
        assert to_f32(float(row["v"])) == value
        assert digits == 1 or to_f32(float(f"{value:.{digits - 2}e}")) != value
