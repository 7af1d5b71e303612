"""Accepted schemas: written once, named by their hash, refused when they are damaged."""

from pathlib import Path

import pytest
from tests.unit.graph.graphs import SCHEMA, Opened, names, upsert

from omnigraph.errors import CommitNotFound, ManifestCorrupt
from omnigraph.graph.manifest.schemas import Schemas
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.lang import accept_schema, compile_schema


def _folder(graphs: Opened) -> Path:
    (found,) = (graphs.root / "__schema").iterdir()
    return found


def test_the_accepted_source_and_catalog_are_read_back(graphs: Opened) -> None:
    graph = graphs.init()
    genesis = graph.snapshot().graph_commit_id
    assert graph.schema.source == graph.schema.show() == graph.schema.show(at=genesis) == SCHEMA
    assert graph.schema.hash == _folder(graphs).name
    again = graphs.read_only()
    assert again.schema.catalog == graph.schema.catalog
    assert again.snapshot().catalog is again.schema.catalog
    with pytest.raises(CommitNotFound):
        graph.schema.show(at="nobody")


def test_a_schema_is_written_once(graphs: Opened) -> None:
    graphs.init()
    folder = _folder(graphs)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(before) == {"schema.pg", "ir.json"}
    schemas = Schemas(graphs.storage().objects)
    schemas.store(accept_schema(compile_schema(SCHEMA)), SCHEMA + "\n// another text")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("name", ["schema.pg", "ir.json"])
@pytest.mark.parametrize("damage", [None, b"", b"{}", b"\xff", b"[]", b"null"])
def test_a_damaged_schema_is_refused_and_nothing_is_guessed(
    graphs: Opened, name: str, damage: bytes | None
) -> None:
    graphs.init()
    path = _folder(graphs) / name
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    reader = graphs.read_only()
    with pytest.raises(ManifestCorrupt, match="accepted schema"):
        _ = reader.snapshot().catalog
    with pytest.raises(ManifestCorrupt, match="accepted schema"):
        upsert(graphs.open(), "a")


def test_a_schema_of_another_meaning_is_refused(graphs: Opened) -> None:
    graphs.init()
    path = _folder(graphs) / "schema.pg"
    path.write_text(SCHEMA.replace("age: I32?", "age: I64?"))
    with pytest.raises(ManifestCorrupt, match="accepted schema"):
        _ = graphs.read_only().schema.catalog


def test_a_handle_reads_a_schema_once(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    for path in _folder(graphs).iterdir():
        path.unlink()
    assert names(graph) == ["a"]


def test_a_type_that_was_not_accepted_has_no_table() -> None:
    node = compile_schema(SCHEMA).node_types["Person"]
    with pytest.raises(ValueError, match="accept the schema"):
        ref_of(node)
