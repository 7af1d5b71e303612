"""Checks 1 to 4 and the texts of their violations."""

import pyarrow as pa
import pytest
from tests.unit.graph.validation.memory_rows import MemoryRows, Record, delta_of, rows_of

from omnigraph.graph.arrays import Column
from omnigraph.graph.validation import Code, Findings, check_rows, fit_rows, validate
from omnigraph.lang import Catalog, compile_schema


def _people(catalog: Catalog, *records: Record) -> Findings:
    people = [{"slug": f"p{at}", "active": True} | dict(one) for at, one in enumerate(records)]
    return check_rows(rows_of(catalog.node_types["Person"], people))


def test_a_value_of_another_type_is_refused_with_both_types_named(catalog: Catalog) -> None:
    found = fit_rows(catalog.node_types["Person"], pa.table({"slug": ["p"], "age": ["x"]})).findings
    assert found.total == 1
    assert found.violations[0].to_dict() == {
        "code": "type_error",
        "message": 'Person.age: expected I32, got string "x"',
        "type": "Person",
        "kind": "node",
        "property": "age",
        "entity_id": "p",
        "value": "x",
        "limit": None,
    }


def test_a_required_value_must_be_given(catalog: Catalog) -> None:
    found = _people(catalog, {"active": None})
    assert [one.to_dict() for one in found.violations] == [
        {
            "code": "required_missing",
            "message": "Person.active: expected Bool, got null",
            "type": "Person",
            "kind": "node",
            "property": "active",
            "entity_id": "p0",
            "value": None,
            "limit": None,
        }
    ]


@pytest.mark.parametrize(
    ("member", "value", "message", "limit"),
    [
        ("age", 200, "@range violation on Person.age: value 200 > max 150", 150),
        ("age", -1, "@range violation on Person.age: value -1 < min 0", 0),
        ("height", 0.25, "@range violation on Person.height: value 0.25 < min 0.5", 0.5),
        (
            "email",
            "x",
            "@check violation on Person.email: value 'x' does not match pattern '@'",
            "@",
        ),
        (
            "level",
            "boss",
            "invalid enum value 'boss' for Person.level (expected: junior, senior)",
            ["junior", "senior"],
        ),
    ],
)
def test_a_broken_rule_says_value_and_limit(
    catalog: Catalog, member: str, value: object, message: str, limit: object
) -> None:
    (violation,) = _people(catalog, {member: value}).violations
    assert violation.message == message
    twin = violation.to_dict()
    assert (twin["property"], twin["value"], twin["limit"]) == (member, value, limit)


@pytest.mark.parametrize(
    "record",
    [
        {"age": 0},
        {"age": 150},
        {"age": None, "email": None, "level": None},
        {"email": "\0@"},
        {"email": "é@\n"},
        {"height": 0.5},
        {"height": 3e38},
    ],
)
def test_bounds_nulls_and_odd_characters_pass(catalog: Catalog, record: Record) -> None:
    assert not _people(catalog, record).total


def test_the_empty_text_is_a_value(catalog: Catalog) -> None:
    found = _people(catalog, {"email": "", "level": ""})
    assert [one.code for one in found.violations] == [Code.CHECK_VIOLATION, Code.ENUM_VIOLATION]


def test_bounds_beyond_the_column_type_are_compared_exactly() -> None:
    catalog = compile_schema(
        "node N { k: I32 @key u: U64? f: F32?"
        " @range(k, -1000000000000..0.5) @range(u, 1..) @range(f, ..0.1) }"
    )
    rows = rows_of(
        catalog.node_types["N"],
        [
            {"k": 0, "u": 2**64 - 1, "f": 0.0625},
            {"k": 1, "u": 0, "f": 0.1},
        ],
    )
    # The nearest F32 of 0.1 is above 0.1, and comparisons are exact.
    assert [one.properties for one in check_rows(rows).violations] == [("k",), ("u",), ("f",)]


def test_long_values_are_cut_in_the_message_and_in_the_twin(catalog: Catalog) -> None:
    (violation,) = _people(catalog, {"email": "x" * 5_000}).violations
    assert len(violation.message) < 200
    assert len(str(violation.to_dict()["value"])) == 256


def test_enums_of_edges_are_checked_too(catalog: Catalog) -> None:
    committed = MemoryRows(catalog, {"Person": [{"slug": "a", "active": True}]})
    edge = {"id": "e", "src": "a", "dst": "a", "role": "boss"}
    found = validate(catalog, [delta_of(catalog.edge_types["Knows"], [edge])], committed)
    assert [one.code for one in found.violations] == [Code.ENUM_VIOLATION]
    assert found.violations[0].to_dict()["kind"] == "edge"


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (pa.array([float("nan")]), "nan"),
        (pa.array([True]), True),
        (pa.array([b"x"]), None),
        (pa.array([[1]]), None),
        (pa.array([1], pa.timestamp("ns")), 1),
    ],
    ids=str,
)
def test_the_twin_of_an_unfit_value_is_json(catalog: Catalog, given: Column, value: object) -> None:
    table = pa.table({"slug": ["p"], "height": given})
    (violation,) = fit_rows(catalog.node_types["Person"], table).findings.violations
    assert violation.to_dict()["value"] == value
