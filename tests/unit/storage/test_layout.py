"""A type of the catalog becomes a table: its place, its columns, its text indexes."""

import os
import uuid
from dataclasses import replace

import pyarrow as pa
import pytest
from tests.unit.storage.workbench import SCHEMA, layout

from omnigraph.clock import ManualClock
from omnigraph.errors import InternalError, StorageUnsupported
from omnigraph.ids import new_link_uuid, seeded_ids
from omnigraph.lang import accept_schema, compile_schema
from omnigraph.storage.indexes import IndexKind, IndexSpec, index_name
from omnigraph.storage.layout import layout_of, physical_schema, to_physical


def test_a_table_lies_where_its_ids_say() -> None:
    assert layout("Plain").location == "nodes/0000000000000002-0000000000000001"
    edge = layout("Cites")
    assert (edge.location, edge.table_key) == (
        "edges/0000000000000003-0000000000000001",
        "edge:Cites",
    )
    assert edge.schema.names == ["id", "src", "dst", "note"]


def test_a_type_that_was_never_accepted_has_no_table() -> None:
    with pytest.raises(InternalError, match="never accepted"):
        layout_of(compile_schema(SCHEMA).node_types["Doc"])


def test_text_indexes_are_those_of_free_text_with_a_key_or_a_wish() -> None:
    assert layout("Doc").text_indexes == ("slug", "body")


def test_only_system_columns_are_required_in_the_table() -> None:
    found = physical_schema(layout("Doc"))
    assert [field.name for field in found if not field.nullable] == ["id"]
    assert found.field("id").metadata == {b"lance-schema:unenforced-primary-key": b"true"}
    assert physical_schema(layout("Cites")).field("src").nullable is False


def test_properties_of_a_node_named_like_ends_are_properties() -> None:
    source = "node Airport {\n  dst: String? @index\n  src: I32?\n}"
    found = layout_of(accept_schema(compile_schema(source)).catalog.node_types["Airport"])
    assert [field.name for field in physical_schema(found) if not field.nullable] == ["id"]
    names = {index_name(found, IndexSpec(property_name="dst", kind=kind)) for kind in IndexKind}
    assert len(names) == len(IndexKind)


def test_a_null_for_a_column_that_was_made_without_nulls_is_refused_with_the_way_out() -> None:
    source = "node Airport {\n  dst: String?\n}"
    found = layout_of(accept_schema(compile_schema(source)).catalog.node_types["Airport"])
    old = physical_schema(replace(found, system_columns=("id", "src", "dst")))
    full = pa.record_batch({"id": pa.array(["a"]), "dst": pa.array(["N"])})
    assert to_physical(found, old, full).to_pylist() == full.to_pylist()
    empty = pa.record_batch({"id": pa.array(["a"]), "dst": pa.array([None], pa.utf8())})
    with pytest.raises(StorageUnsupported, match=r"'dst'.*omnigraph clone"):
        to_physical(found, old, empty)


def test_a_renamed_property_keeps_its_column_and_its_number() -> None:
    before = accept_schema(compile_schema("node N {\n  old: I64?\n}"))
    source = 'node N {\n  new: I64? @rename_from("old")\n}'
    after = accept_schema(compile_schema(source), before)
    found = layout_of(after.catalog.node_types["N"])
    assert found.columns == {"new": "old"}
    assert found.property_ids == {"new": 1}
    assert physical_schema(found).names == ["id", "old"]


def test_a_column_of_a_dropped_property_is_written_as_null() -> None:
    table = layout("Plain")
    target = physical_schema(table).append(pa.field("gone", pa.int64()))
    batch = pa.record_batch({"id": pa.array(["a"]), "rank": pa.array([1], pa.int64())})
    assert to_physical(table, target, batch).to_pylist() == [{"id": "a", "rank": 1, "gone": None}]


def test_the_uuid_of_a_link_is_a_minted_one_and_grows() -> None:
    ids = seeded_ids(1, ManualClock())
    first, second = new_link_uuid(ids), new_link_uuid(ids)
    assert uuid.UUID(first) < uuid.UUID(second)


def test_storage_leaves_centroids_out_of_statistics() -> None:
    assert os.environ["LANCE_INCLUDE_VECTOR_CENTROIDS"] == "false"
