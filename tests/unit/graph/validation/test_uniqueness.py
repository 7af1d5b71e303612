"""Check 5: strict inserts, keys and unique tuples on the final image."""

import pyarrow as pa
import pytest
from tests.unit.graph.validation.memory_rows import MemoryRows, Record, delta_of

from omnigraph.graph.validation import Code, Findings, validate
from omnigraph.lang import Catalog, compile_schema


def _person(slug: str, **members: object) -> Record:
    return {"slug": slug, "active": True, **members}


def _messages(found: Findings) -> list[str]:
    assert found.total == len(found.violations)
    return [one.message for one in found.violations]


def test_a_strict_insert_of_a_committed_id_conflicts(catalog: Catalog) -> None:
    committed = MemoryRows(catalog, {"Person": [_person("x")]})
    person = catalog.node_types["Person"]
    delta = delta_of(person, [_person("x"), _person("y")], strict=["x", "y"])
    found = validate(catalog, [delta], committed)
    assert found.counts == {Code.KEY_CONFLICT: 1}
    assert found.violations[0].to_dict() == {
        "code": "key_conflict",
        "message": "Person 'x' exists already",
        "type": "Person",
        "kind": "node",
        "property": "id",
        "entity_id": "x",
        "value": "x",
        "limit": None,
    }


@pytest.mark.parametrize("how", ["upsert", "overwrite", "removed"])
def test_an_id_may_come_again_when_its_row_does_not_stay(catalog: Catalog, how: str) -> None:
    committed = MemoryRows(catalog, {"Person": [_person("x", email="a@b")]})
    delta = delta_of(
        catalog.node_types["Person"],
        [_person("x", email="a@b")],
        strict=[] if how == "upsert" else ["x"],
        replaces_all=how == "overwrite",
        removed=["x"] if how == "removed" else [],
    )
    assert not validate(catalog, [delta], committed).total


def test_two_rows_of_the_delta_may_not_share_a_tuple(catalog: Catalog) -> None:
    rows = [_person("id2", a=1, b="2"), _person("id1", a=1, b="2"), _person("id3", a=1, b="3")]
    found = validate(catalog, [delta_of(catalog.node_types["Person"], rows)], MemoryRows(catalog))
    assert _messages(found) == [
        "@unique violation on Person.(a, b): value '(1, 2)' held by 'id1' and 'id2'"
    ]
    twin = found.violations[0].to_dict()
    assert twin["properties"] == ["a", "b"]
    assert twin["value"] == [1, "2"]
    assert found.violations[0].held_by == "id1"
    assert "held_by" not in twin


def test_a_committed_row_that_survives_holds_its_tuple(catalog: Catalog) -> None:
    committed = MemoryRows(catalog, {"Person": [_person("z", email="a@b")]})
    rows = [_person("y", email="a@b"), _person("x", email="a@b")]
    found = validate(catalog, [delta_of(catalog.node_types["Person"], rows)], committed)
    assert _messages(found) == [
        "@unique violation on Person.email: value 'a@b' held by 'z' and 'x'",
        "@unique violation on Person.email: value 'a@b' held by 'x' and 'y'",
    ]


def test_a_value_freed_in_the_same_write_may_be_used_again(catalog: Catalog) -> None:
    committed = MemoryRows(
        catalog,
        {"Person": [_person("x", email="1@"), _person("y", email="2@"), _person("z", email="3@")]},
    )
    swapped = [_person("x", email="2@"), _person("y", email="1@"), _person("n", email="3@")]
    delta = delta_of(catalog.node_types["Person"], swapped, removed=["z"])
    assert not validate(catalog, [delta], committed).total


def test_the_replaced_table_holds_nothing(catalog: Catalog) -> None:
    committed = MemoryRows(catalog, {"Person": [_person("x", email="1@")]})
    delta = delta_of(catalog.node_types["Person"], [_person("y", email="1@")], replaces_all=True)
    assert not validate(catalog, [delta], committed).total


@pytest.mark.parametrize(("a", "b"), [(None, "x"), (1, None), (None, None)])
def test_any_null_exempts_a_tuple(catalog: Catalog, a: int | None, b: str | None) -> None:
    committed = MemoryRows(catalog, {"Person": [_person("z", a=a, b=b)]})
    rows = [_person("x", a=a, b=b), _person("y", a=a, b=b)]
    delta = delta_of(catalog.node_types["Person"], rows)
    assert not validate(catalog, [delta], committed).total


def test_tuples_are_not_joined_texts(catalog: Catalog) -> None:
    rows = [_person("x", a=1, b="1, 1"), _person("y", a=11, b=" 1"), _person("z", a=1, b="1")]
    delta = delta_of(catalog.node_types["Person"], rows)
    assert not validate(catalog, [delta], MemoryRows(catalog)).total


def test_one_key_twice_in_a_batch_is_refused_even_with_equal_rows(catalog: Catalog) -> None:
    delta = delta_of(catalog.node_types["Person"], [_person("x"), _person("x")])
    found = validate(catalog, [delta], MemoryRows(catalog))
    assert _messages(found) == ["@unique violation on Person.slug: value 'x' held by 'x' and 'x'"]
    assert found.violations[0].subject.row == 1


def test_one_id_twice_in_a_batch_is_refused_where_there_is_no_key(catalog: Catalog) -> None:
    teams = [{"id": "t", "name": "a"}, {"id": "t", "name": "b"}]
    delta = delta_of(catalog.node_types["Team"], teams, repeats_edge_ids=True)
    found = validate(catalog, [delta], MemoryRows(catalog))
    assert _messages(found) == ["@unique violation on Team.id: value 't' held by 't' and 't'"]


def test_a_merge_load_may_repeat_an_edge_id_and_the_last_wins(catalog: Catalog) -> None:
    committed = MemoryRows(
        catalog,
        {"Team": [{"id": "t", "name": "a"}, {"id": "u", "name": "b"}], "Person": [_person("p")]},
    )
    owns = catalog.edge_types["Owns"]
    edges = [
        {"id": "e", "src": "nobody", "dst": "p"},
        {"id": "f", "src": "u", "dst": "p"},
        {"id": "e", "src": "t", "dst": "p"},
    ]
    merged = validate(catalog, [delta_of(owns, edges, repeats_edge_ids=True)], committed)
    assert not merged.total
    appended = validate(catalog, [delta_of(owns, edges)], committed)
    assert _messages(appended) == ["@unique violation on Owns.id: value 'e' held by 'e' and 'e'"]


def test_edges_are_unique_by_their_ends(catalog: Catalog) -> None:
    committed = MemoryRows(
        catalog,
        {
            "Team": [{"id": "t", "name": "a"}],
            "Person": [_person("p")],
            "Owns": [{"id": "old", "src": "t", "dst": "p"}],
        },
    )
    edge = {"id": "new", "src": "t", "dst": "p"}
    found = validate(catalog, [delta_of(catalog.edge_types["Owns"], [edge])], committed)
    assert _messages(found) == [
        "@unique violation on Owns.(src, dst): value '(t, p)' held by 'old' and 'new'"
    ]


def test_committed_rows_are_asked_in_chunks(catalog: Catalog) -> None:
    committed = MemoryRows(catalog)
    rows = [_person(f"p{at}", email=f"{at}@") for at in range(20_000)]
    strict = [f"p{at}" for at in range(20_000)]
    validate(catalog, [delta_of(catalog.node_types["Person"], rows, strict=strict)], committed)
    assert sorted(committed.questions) == [3_616, 3_616, 8_192, 8_192, 8_192, 8_192]


@pytest.mark.parametrize(
    ("kind", "value", "text", "json_value"),
    [
        ("Date", 1, "1", "1970-01-02"),
        ("DateTime", 1500, "1500", "1970-01-01T00:00:01.500Z"),
        ("Bool", True, "true", True),
        ("U64", 2**64 - 1, "18446744073709551615", 2**64 - 1),
        ("F32", 0.5, "0.5", 0.5),
        ("F64", 1e21, "1000000000000000000000", 1e21),
        ("String", "x" * 300, "x" * 59 + "…", "x" * 255 + "…"),
    ],
)
def test_the_message_has_the_canonical_spelling_and_the_twin_the_json_form(
    kind: str, value: object, text: str, json_value: object
) -> None:
    catalog = compile_schema(f"node N {{ v: {kind} @unique }}")
    rows = [{"id": one, "v": value} for one in "ab"]
    found = validate(catalog, [delta_of(catalog.node_types["N"], rows)], MemoryRows(catalog))
    assert _messages(found) == [f"@unique violation on N.v: value '{text}' held by 'a' and 'b'"]
    assert found.violations[0].to_dict()["value"] == json_value


def test_negative_zero_is_zero() -> None:
    catalog = compile_schema("node N { v: F64 @unique }")
    item = catalog.node_types["N"]
    committed = MemoryRows(catalog)
    committed.put(item, pa.table({"id": ["old"], "v": [-0.0]}))
    rows = [{"id": "a", "v": 0.0}, {"id": "b", "v": -0.0}]
    found = validate(catalog, [delta_of(item, rows)], committed)
    assert _messages(found) == [
        "@unique violation on N.v: value '0' held by 'old' and 'a'",
        "@unique violation on N.v: value '0' held by 'a' and 'b'",
    ]


def test_a_unique_constraint_on_the_key_reports_nothing_twice() -> None:
    catalog = compile_schema("node N { k: String @key @unique }")
    rows = [{"k": "x"}, {"k": "x"}]
    found = validate(catalog, [delta_of(catalog.node_types["N"], rows)], MemoryRows(catalog))
    assert found.total == 1
