"""Stable ids: what a rename keeps, what a drop retires, what comes back new."""

import json

from omnigraph.lang import AcceptedSchema, accept_schema, compile_schema, restore_schema


def _accept(source: str, previous: AcceptedSchema | None = None) -> AcceptedSchema:
    return accept_schema(compile_schema(source), previous)


def test_ids_follow_the_order_of_first_declaration() -> None:
    catalog = _accept("node B { y: I32 x: I32 } node A {} edge E: A -> B { z: I32 }").catalog
    assert [(name, item.type_id) for name, item in catalog.node_types.items()] == [
        ("B", 1),
        ("A", 2),
    ]
    assert catalog.edge_types["E"].type_id == 3
    properties = catalog.node_types["B"].properties
    assert [(item.name, item.property_id, item.column) for item in properties.values()] == [
        ("y", 1, "y"),
        ("x", 2, "x"),
    ]


def test_a_rename_keeps_ids_and_columns() -> None:
    first = _accept("node Old { was: I32 }")
    second = _accept(
        'node New @rename_from("Old") { now: I32 @rename_from("was") more: I32? }', first
    )
    node = second.catalog.node_types["New"]
    assert node.type_id == first.catalog.node_types["Old"].type_id
    assert (node.properties["now"].property_id, node.properties["now"].column) == (1, "was")
    assert node.properties["more"].property_id == 2


def test_a_dropped_property_that_comes_back_is_a_new_one_beside_its_old_column() -> None:
    first = _accept("node A { x: I32? }")
    second = _accept("node A { }", first)
    assert second.retired_columns == {1: ("x",)}
    third = _accept("node A { x: I32? }", second)
    item = third.catalog.node_types["A"].properties["x"]
    assert (item.property_id, item.column) == (2, "x__2")


def test_a_new_property_does_not_take_the_column_of_a_renamed_one() -> None:
    renamed = _accept('node A { y: I32? @rename_from("x") }', _accept("node A { x: I32? }"))
    properties = _accept("node A { y: I32? x: I32? }", renamed).catalog.node_types["A"].properties
    assert properties["y"].column == "x"
    assert properties["x"].column == "x__2"


def test_a_dropped_type_that_comes_back_is_a_new_table() -> None:
    first = _accept("node A { x: I32? } node B {}")
    third = _accept("node A { x: I32? } node B {}", _accept("node B {}", first))
    node = third.catalog.node_types["A"]
    assert (node.type_id, node.properties["x"].property_id) == (3, 2)
    assert node.properties["x"].column == "x"


def test_key_members_keep_their_order_through_a_rename() -> None:
    first = _accept("node A { b: String a: String @key(a, b) }")
    assert first.catalog.node_types["A"].key == ("b", "a")
    second = _accept('node A { a: String z: String @rename_from("b") @key(a, z) }', first)
    assert second.catalog.node_types["A"].key == ("z", "a")


def test_the_hash_of_an_accepted_schema_covers_its_ids() -> None:
    first = _accept("node A { x: I32? }")
    again = _accept("node A { x: I32? }", _accept("node A { }", first))
    assert again.catalog.schema_hash != first.catalog.schema_hash
    assert _accept("node A { x: I32? }").catalog.schema_hash == first.catalog.schema_hash


def test_ids_are_written_as_canonical_json() -> None:
    first = _accept("node A { x: I32? } edge E: A -> A { y: I32? }")
    assert json.loads(first.ids_json()) == {
        "next_type_id": 3,
        "next_property_id": 3,
        "retired_columns": {},
        "types": {
            "node:A": {
                "type_id": 1,
                "incarnation": 1,
                "properties": {"x": {"property_id": 1, "column": "x"}},
            },
            "edge:E": {
                "type_id": 2,
                "incarnation": 1,
                "properties": {"y": {"property_id": 2, "column": "y"}},
            },
        },
    }


def test_what_is_stored_under_a_hash_is_the_same_in_every_respect() -> None:
    first = _accept("node A { x: I32? }")
    third = _accept("node A { x: I32? }", _accept("node A { x: I32? y: I32? }", first))
    assert third.retired_columns == {1: ("y",)}
    assert third.schema_hash != first.schema_hash
    assert _accept("node A { x: I32? }").schema_hash == first.schema_hash


def test_a_column_is_never_shared_however_properties_are_called() -> None:
    both = "node A { x: String? x__3: String? }"
    third = _accept(both, _accept("node A { x__3: String? }", _accept(both)))
    columns = [item.column for item in third.catalog.node_types["A"].properties.values()]
    assert len({*columns, *third.retired_columns[1]}) == 3


def test_an_accepted_schema_is_read_back_from_its_source_and_its_ids() -> None:
    node = 'node B { b: String a: String z: I32? @rename_from("y") @key(a, b) }'
    source = f"{node} edge E: B -> B {{ w: F32? }}"
    accepted = _accept(
        source, _accept("node B { b: String a: String y: I32? old: I32? @key(a, b) }")
    )
    restored = restore_schema(compile_schema(source), accepted.ids_json())
    assert restored == accepted
    assert restored.schema_hash == accepted.schema_hash
    assert restored.ids_json() == accepted.ids_json()
    assert restored.catalog.node_types["B"].key == ("b", "a")
