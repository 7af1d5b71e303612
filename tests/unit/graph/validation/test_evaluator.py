"""The order of reporting, the limits, and what the whole evaluator promises."""

import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.property.strategies import CATALOG
from tests.unit.graph.validation.memory_rows import MemoryRows, Record, delta_of, rows_of
from tests.unit.graph.validation.reference import of_every_kind

from omnigraph.errors import (
    ConstraintViolation,
    InternalError,
    KeyConflict,
    LoadRejected,
    OmnigraphError,
)
from omnigraph.graph.validation import (
    ROW_RULES,
    Code,
    EntityKind,
    Findings,
    Subject,
    TableDelta,
    Violation,
    fit_rows,
    gather,
    refuse_load,
    refuse_mutation,
    validate,
)
from omnigraph.graph.validation.findings import select
from omnigraph.lang import Catalog


def _person(slug: str, **members: object) -> Record:
    return {"slug": slug, "active": True, **members}


@pytest.fixture
def broken(catalog: Catalog) -> Findings:
    """A write that breaks every check, its deltas in no order."""
    committed = MemoryRows(
        catalog, {"Person": [_person("old")], "Team": [{"id": "t", "name": "t"}]}
    )
    people = fit_rows(
        catalog.node_types["Person"],
        pa.table(
            {
                "id": ["y", "zz", "b", "Z", "é", "old"],
                "slug": ["y", "z", "b", "Z", "é", "old"],
                "active": [True, True, None, True, True, True],
                "age": [200, 200, 1, 1, 1, 1],
                "email": ["x", None, "s@", "s@", None, None],
                "level": [None, None, None, None, "boss", None],
            }
        ),
        lines=pa.array([10, 11, 12, 13, 14, 15]),
    )
    teams = rows_of(catalog.node_types["Team"], [{"id": "n", "name": None}])
    edges = [{"id": "k", "src": "y", "dst": "nobody", "role": "boss"}]
    members = [{"id": "m", "src": "y", "dst": "t"}, {"id": "n", "src": "y", "dst": "t"}]
    deltas = [
        delta_of(catalog.edge_types["MemberOf"], members),
        delta_of(catalog.edge_types["Knows"], edges),
        TableDelta(rows=teams),
        TableDelta(rows=people, strict_ids=pa.array(["old"])),
    ]
    return validate(catalog, deltas, committed)


def test_violations_come_by_check_then_table_then_id(broken: Findings) -> None:
    assert [
        (one.code.value, one.type, one.subject.entity_id, one.subject.input_line)
        for one in broken.violations
    ] == [
        ("id_mismatch", "Person", "z", 11),
        ("required_missing", "Person", "b", 12),
        ("required_missing", "Team", "n", None),
        ("range_violation", "Person", "y", 10),
        ("range_violation", "Person", "z", 11),
        ("check_violation", "Person", "y", 10),
        ("enum_violation", "Person", "é", 14),
        ("enum_violation", "Knows", "k", None),
        ("key_conflict", "Person", "old", 15),
        ("unique_violation", "Person", "b", 12),
        ("orphan_edge", "Knows", "k", None),
        ("cardinality_violation", "MemberOf", "y", None),
    ]
    assert broken.total == len(broken.violations)
    assert sum(broken.counts[code] for code in ROW_RULES if code in broken.counts) == 7


def test_ids_are_ordered_by_code_point(catalog: Catalog) -> None:
    slugs = ["é", "a", "\U0001f600", "Z", "\uffff", "", "\0", "aa"]
    people = [_person(slug, age=200) for slug in slugs]
    delta = delta_of(catalog.node_types["Person"], people)
    for limit in (3, 100):
        found = validate(catalog, [delta], MemoryRows(catalog), limit=limit)
        assert [one.subject.entity_id for one in found.violations] == sorted(slugs)[:limit]


def test_inside_a_row_properties_come_as_declared(catalog: Catalog) -> None:
    row = _person("p", age=200, height=0.1)
    found = validate(catalog, [delta_of(catalog.node_types["Person"], [row])], MemoryRows(catalog))
    assert [one.properties for one in found.violations] == [("age",), ("height",)]


@pytest.mark.parametrize("limit", [1, 2, 4, 5, 999])
def test_what_is_reported_does_not_depend_on_how_much_is_made(catalog: Catalog, limit: int) -> None:
    people = [_person(f"p{at:04}", age=200, email=f"{at % 7}@") for at in range(2_000, 0, -1)]
    delta = delta_of(catalog.node_types["Person"], people)
    whole = validate(catalog, [delta], MemoryRows(catalog), limit=10_000)
    some = validate(catalog, [delta], MemoryRows(catalog), limit=limit)
    assert whole.total == some.total == len(whole.violations) == 2_000 + 1_993
    chosen = of_every_kind([one.code for one in whole.violations], limit)
    assert list(some.violations) == [whole.violations[number] for number in chosen]
    assert len(validate(catalog, [delta], MemoryRows(catalog)).violations) == 1_000


def _mixed(seed: int) -> list[Violation]:
    """Few of some kinds among many of others, in no order."""
    draw = np.random.default_rng(seed)
    codes = (
        [Code.TYPE_ERROR] * 40 + [Code.RANGE_VIOLATION] * 9 + [Code.ORPHAN_EDGE, Code.JSON_ERROR]
    )
    return [
        Violation(
            code=codes[draw.integers(len(codes))],
            message="",
            kind=EntityKind.NODE,
            type="AAAB"[draw.integers(4)],
            subject=Subject(entity_id=f"p{number:03}", row=number, input_line=number),
        )
        for number in draw.permutation(120).tolist()
    ]


@pytest.mark.parametrize("limit", [1, 3, 10, 30, 200])
@pytest.mark.parametrize("seed", range(3))
def test_some_of_every_kind_are_kept_the_same_however_the_input_is_cut(
    seed: int, limit: int
) -> None:
    given = _mixed(seed)
    ordered = sorted(given, key=lambda one: one.order)
    chosen = of_every_kind([(one.code, one.type) for one in ordered], limit)
    expected = [ordered[number] for number in chosen]
    parts = [gather([Findings(violations=tuple(given[at::7]))], limit=limit) for at in range(7)]
    pair = gather(parts[:2], limit=limit)
    assert list(gather([pair, *parts[2:]], limit=limit).violations) == expected
    half = limit // 2 or 1
    halved = [
        replace(part, violations=tuple(select(part.violations, half)), halved_to=half)
        for part in parts
    ]
    chosen = of_every_kind([(one.code, one.type) for one in ordered], half)
    cut = gather(halved, limit=limit)
    assert list(cut.violations) == [ordered[number] for number in chosen]


def test_rows_without_an_id_come_first(catalog: Catalog) -> None:
    people = [_person("", age=200), {"slug": None, "active": True, "age": 200}]
    delta = delta_of(catalog.node_types["Person"], people)
    found = validate(catalog, [delta], MemoryRows(catalog))
    assert [(one.code, one.subject.entity_id) for one in found.violations] == [
        (Code.REQUIRED_MISSING, None),
        (Code.RANGE_VIOLATION, None),
        (Code.RANGE_VIOLATION, ""),
    ]


def test_a_table_has_one_delta(catalog: Catalog) -> None:
    delta = delta_of(catalog.node_types["Team"])
    with pytest.raises(InternalError, match="two deltas for the table node:Team"):
        validate(catalog, [delta, delta], MemoryRows(catalog))


def test_node_and_edge_of_one_name_are_two_tables() -> None:
    deltas = [delta_of(CATALOG.edge_types["Link"]), delta_of(CATALOG.node_types["Link"])]
    assert not validate(CATALOG, deltas, MemoryRows(CATALOG)).total


def test_no_delta_breaks_nothing(catalog: Catalog) -> None:
    found = validate(catalog, [], MemoryRows(catalog))
    assert (found.total, found.first) == (0, None)
    refuse_mutation(found)
    refuse_load(found)


def test_findings_of_several_parts_are_one_report(broken: Findings) -> None:
    line = Violation(
        code=Code.JSON_ERROR,
        message="line 3: no JSON",
        subject=Subject(input_line=3),
    )
    late = Violation(
        code=Code.UNKNOWN_TYPE, message="x", kind=EntityKind.NODE, subject=Subject(input_line=99)
    )
    counts = {Code.JSON_ERROR: 1, Code.UNKNOWN_TYPE: 1}
    found = gather((broken, Findings(violations=(late, line), counts=counts)), limit=4)
    assert [one.code for one in found.violations] == [
        Code.JSON_ERROR,
        Code.ID_MISMATCH,
        Code.UNKNOWN_TYPE,
        Code.REQUIRED_MISSING,
    ]
    assert found.total == broken.total + 2
    assert line.to_dict() == {
        "code": "json_error",
        "message": "line 3: no JSON",
        "type": None,
        "kind": None,
        "entity_id": None,
        "value": None,
        "limit": None,
        "input_line": 3,
    }


def _raised(refuse: object, found: Findings) -> OmnigraphError:
    with pytest.raises(OmnigraphError) as caught:
        refuse(found)  # type: ignore[operator]  # one of the two functions
    error = caught.value
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own error
    assert (type(again), again.details) == (type(error), error.details)
    return error


def test_a_mutation_reports_the_first_violation_and_the_total(broken: Findings) -> None:
    error = _raised(refuse_mutation, broken)
    assert type(error) is ConstraintViolation
    assert error.message.endswith("leave the id out or correct it (and 11 more)")
    assert error.details == {"total": 12, "violations": [broken.violations[0].to_dict()]}


def test_a_load_reports_all_violations_and_counts(broken: Findings) -> None:
    error = _raised(refuse_load, broken)
    assert type(error) is LoadRejected
    assert error.message.startswith("load refused: 12 violations, the first: line 11: Person.id")
    assert error.details["total"] == 12
    counts, violations = error.details["counts"], error.details["violations"]
    assert isinstance(counts, dict)
    assert counts["range_violation"] == 2
    assert violations == [one.to_dict() for one in broken.violations]


@pytest.mark.parametrize("refuse", [refuse_mutation, refuse_load])
def test_a_strict_insert_that_comes_first_is_a_key_conflict(
    catalog: Catalog, refuse: object
) -> None:
    committed = MemoryRows(catalog, {"Person": [_person("x")]})
    delta = delta_of(catalog.node_types["Person"], [_person("x")], strict=["x"])
    error = _raised(refuse, validate(catalog, [delta], committed))
    assert type(error) is KeyConflict
    assert "Person 'x' exists already" in error.message
    named = {name: error.details[name] for name in ("kind", "type", "entity_id", "total")}
    assert named == {"kind": "node", "type": "Person", "entity_id": "x", "total": 1}
    assert ("counts" in error.details) is (refuse is refuse_load)
