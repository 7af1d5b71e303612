"""What a handle shows: scans, lookups by id, blobs, searches; all by property name."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from datafusion import SessionContext, col, lit
from tests.unit.storage.workbench import STAMP, Workbench, id_array, layout, rows_of

from omnigraph.errors import InternalError, StorageUnavailable
from omnigraph.storage.calls import StoreCall
from omnigraph.storage.handles import TableHandle
from omnigraph.storage.indexes import IndexKind, IndexSpec
from omnigraph.storage.predicates import Compare, CompareOp, IsNull, Not, Predicate
from omnigraph.storage.reading import IDS_PER_LOOKUP, Ordering
from omnigraph.storage.signals import ObjectMissing


def _ranked(bench: Workbench) -> TableHandle:
    return bench.doc_table(
        {"id": "a", "rank": 3, "big": 1},
        {"id": "b", "rank": None, "big": 2**63},
        {"id": "c", "rank": 1, "big": 2**64 - 1},
    )


@pytest.mark.parametrize("through", ["scanner", "provider"])
def test_a_scan_orders_nulls_as_the_smallest_and_stops_at_its_limit(
    bench: Workbench, through: str
) -> None:
    handle = _ranked(bench)
    everything = None if through == "scanner" else Not(IsNull("big"))

    def order(limit: int | None, *, is_descending: bool) -> list[object]:
        keys = [Ordering(column="rank", is_descending=is_descending), Ordering(column="id")]
        found = bench.store.scan(
            handle, columns=["id"], predicate=everything, order=keys, limit=limit
        )
        return found.read_all()["id"].to_pylist()

    assert order(None, is_descending=False) == ["b", "c", "a"]
    assert order(None, is_descending=True) == ["a", "c", "b"]
    assert order(2, is_descending=False) == ["b", "c"]
    assert order(0, is_descending=False) == []


@pytest.mark.parametrize("is_once", [True, False])
def test_rows_are_taken_by_row_id_in_the_order_asked_for(
    bench: Workbench,
    is_once: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    handle = bench.delete(bench.upsert(_ranked(bench), {"id": "d", "rank": 9}), "b")
    everything = bench.store.scan(handle, columns=["id"], with_row_ids=True).read_all()
    places = dict(zip(*everything.select(["id", "_rowid"]).to_pydict().values(), strict=True))

    def taken(*row_ids: int) -> pa.Table:
        wanted = pa.array(row_ids, pa.uint64())
        return bench.store.take_rows(handle, wanted, ["rank", "id"], is_once=is_once)

    found = taken(places["d"], places["a"], places["c"], places["a"])
    assert found.to_pydict() == {"rank": [9, 3, 1, 3], "id": ["d", "a", "c", "a"]}
    with pytest.raises(InternalError):
        taken(places["a"], 10_000)


def test_a_scan_has_the_schema_of_the_catalog_without_blobs(bench: Workbench) -> None:
    handle = bench.store.open(bench.doc, bench.store.create_table(bench.doc))
    schema = bench.doc.schema
    expected = pa.schema([field for field in schema if field.name != "data"])
    assert bench.store.scan(handle).read_all().schema == expected


@pytest.mark.parametrize("name", ["data", "zed"])
def test_a_scan_reads_no_blob_and_nothing_unknown(bench: Workbench, name: str) -> None:
    handle = _ranked(bench)
    with pytest.raises(InternalError, match=name):
        bench.store.scan(handle, columns=[name])


def test_a_scan_that_breaks_off_raises_the_typed_error(bench: Workbench) -> None:
    handle = _ranked(bench)

    def down(call: StoreCall) -> None:
        if call.operation == "read":
            raise OSError("connection reset")

    reader = bench.store.scan(handle)
    bench.seen.fault = down
    with pytest.raises(StorageUnavailable):
        reader.read_all()


def test_rows_are_taken_by_id_in_the_order_asked(bench: Workbench) -> None:
    handle = _ranked(bench)
    found = bench.store.take_ids(handle, id_array(["c", "zed", "a"]), ["rank"])
    assert found.to_pylist() == [{"rank": 1}, {"rank": 3}]
    assert bench.store.take_ids(handle, id_array([])).num_rows == 0


@pytest.mark.parametrize("indexed", [False, True])
def test_ids_are_looked_up_in_chunks(bench: Workbench, *, indexed: bool) -> None:
    count = IDS_PER_LOOKUP + 10
    handle = bench.filled(bench.plain, *({"id": f"r{number}"} for number in range(count)))
    if indexed:
        spec = IndexSpec(property_name="id", kind=IndexKind.BTREE)
        handle = bench.land(bench.store.stage_index(handle, [spec], STAMP))
    asked = id_array([f"r{number}" for number in range(5, count + 5)])
    assert bench.store.existing_ids(handle, asked).to_pylist() == asked.to_pylist()[:-5]


def test_a_lookup_by_id_uses_the_index(bench: Workbench) -> None:
    handle = _ranked(bench)
    spec = IndexSpec(property_name="id", kind=IndexKind.BTREE)
    handle = bench.land(bench.store.stage_index(handle, [spec], STAMP))
    plan = handle.dataset.scanner(columns=["id"], filter="id = 'a'").explain_plan()
    assert "ScalarIndexQuery" in plan


def test_pending_rows_hide_the_committed_rows_of_their_ids(bench: Workbench) -> None:
    handle = _ranked(bench)
    pending = rows_of(bench.doc, [{"id": "a", "rank": 0, "big": 1}, {"id": "n", "rank": 9}])
    over_one = Compare("rank", CompareOp.GT, pa.scalar(1, pa.int64()))

    def ids(predicate: Compare | IsNull | None) -> list[object]:
        found = bench.store.scan_with_pending(handle, pending, columns=["id"], predicate=predicate)
        return found.read_all()["id"].to_pylist()

    assert ids(None) == ["b", "c", "a", "n"]
    assert ids(over_one) == ["n"]
    assert ids(IsNull("big")) == ["n"]


def test_a_renamed_property_reads_and_writes_its_old_column(bench: Workbench) -> None:
    handle = _ranked(bench)
    names = ["score" if name == "rank" else name for name in bench.doc.schema.names]
    renamed = replace(
        bench.doc,
        schema=pa.schema(
            [field.with_name(name) for field, name in zip(bench.doc.schema, names, strict=True)]
        ),
        columns={"score": "rank"},
    )
    handle = bench.store.open(renamed, handle.pin)
    assert bench.column(handle, "score") == {"a": 3, "b": None, "c": 1}
    handle = bench.upsert(handle, {"id": "b", "score": 8})
    assert bench.column(handle, "score")["b"] == 8
    assert "rank" in handle.dataset.schema.names
    session = SessionContext()
    frame = bench.store.frame(handle, session, ["id", "score"])
    assert frame.filter(col("score") == lit(8)).count() == 1


def test_the_provider_shows_the_pinned_version(bench: Workbench) -> None:
    handle = _ranked(bench)
    bench.append(handle, {"id": "d"})
    session = SessionContext()
    provider = bench.store.provider(handle)
    assert session.read_table(provider).count() == 3


def test_sizes_count_fragments_rows_and_versions(bench: Workbench) -> None:
    handle = bench.delete(bench.append(_ranked(bench), {"id": "d"}, {"id": "e"}), "a")
    assert [(each.rows, each.deleted_rows) for each in bench.store.fragments(handle)] == [
        (2, 1),
        (2, 0),
    ]
    stats = bench.store.stats(handle)
    assert (stats.rows, stats.deleted_rows, stats.fragments, stats.versions) == (4, 1, 2, 5)
    assert stats.size_bytes > 0


# --- search -----------------------------------------------------------------------------------

DOCUMENTS = (
    {"id": "a", "body": "The Running Wolf"},
    {"id": "b", "body": "wolf-like runs"},
    {"id": "c", "body": "Big Bad Wolf"},
    {"id": "n"},
)


def _found(table: pa.Table) -> list[str]:
    return sorted(str(each) for each in table["id"].to_pylist())


@pytest.mark.parametrize("trained", [False, True])
def test_text_is_found_whatever_the_index_covers(bench: Workbench, *, trained: bool) -> None:
    handle = bench.doc_table(*DOCUMENTS)
    if trained:
        spec = IndexSpec(property_name="body", kind=IndexKind.INVERTED)
        handle = bench.land(bench.store.stage_index(handle, [spec], STAMP))
    assert _found(bench.store.search_text(handle, "body", "run WOLF")) == ["a", "b", "c"]
    assert _found(bench.store.search_text(handle, "body", "bad wolf", is_phrase=True)) == ["c"]
    for query in ("", "the"):
        assert _found(bench.store.search_text(handle, "body", query)) == []
        assert _found(bench.store.search_text(handle, "body", query, is_phrase=True)) == []


def test_a_property_without_a_text_index_is_searched_in_memory(bench: Workbench) -> None:
    handle = bench.doc_table(*DOCUMENTS)
    with pytest.raises(InternalError, match="no text index"):
        bench.store.search_text(handle, "level", "x")
    texts = bench.store.scan(handle, columns=["id", "body"]).read_all()
    memory = bench.store.ephemeral_text(
        id_array(map(str, texts["id"].to_pylist())),
        pa.array(texts["body"].combine_chunks(), pa.string()),
    )
    before = sorted(bench.root.rglob("*"))
    assert _found(memory.search("WOLF")) == ["a", "b", "c"]
    assert _found(memory.search("bad wolf", is_phrase=True)) == ["c"]
    assert sorted(bench.root.rglob("*")) == before


VECTORS = layout("V", "node V {\n  vec: Vector(2)? @index\n  big: U64?\n}")


@pytest.mark.parametrize("is_exact", [False, True])
def test_vectors_are_found_by_cosine_with_a_filter_of_any_type(
    bench: Workbench, *, is_exact: bool
) -> None:
    handle = bench.filled(
        VECTORS,
        {"id": "same", "vec": [2.0, 0.0], "big": 1},
        {"id": "near", "vec": [1.0, 1.0], "big": 2},
        {"id": "far", "vec": [-1.0, 0.0], "big": 3},
        {"id": "zero", "vec": [0.0, 0.0], "big": 4},
        {"id": "null", "big": 5},
    )
    spec = IndexSpec(property_name="vec", kind=IndexKind.IVF_FLAT)
    handle = bench.land(bench.store.stage_index(handle, [spec], STAMP))
    found = bench.store.search_vector(handle, "vec", [1.0, 0.0], 9, is_exact=is_exact)
    assert found["id"].to_pylist() == ["same", "near", "far"]
    assert found["distance"].to_pylist() == pytest.approx([0.0, 1 - 2**-0.5, 2.0], abs=1e-6)
    for predicate, expected in (
        (Compare("big", CompareOp.GT, pa.scalar(1, pa.uint64())), ["near", "far"]),
        (Compare("big", CompareOp.GT, pa.scalar(9, pa.uint64())), []),
        (Compare("id", CompareOp.NE, pa.scalar("same")), ["near", "far"]),
    ):
        found = bench.store.search_vector(
            handle, "vec", [1.0, 0.0], 2, predicate=predicate, is_exact=is_exact
        )
        assert found["id"].to_pylist() == expected


# --- blobs ------------------------------------------------------------------------------------

LARGE = bytes(range(256)) * 20_000


def test_blobs_are_read_in_ranges_and_keep_null_and_empty_apart(bench: Workbench) -> None:
    handle = bench.doc_table(
        {"id": "large", "data": LARGE}, {"id": "empty", "data": b""}, {"id": "null"}
    )
    blob = bench.store.blob(handle, "large", "data")
    assert blob is not None
    assert (blob.length, blob.uri) == (len(LARGE), None)
    assert blob.read(250, 260) == LARGE[250:260]
    assert blob.read(len(LARGE) - 1, len(LARGE) + 9) == LARGE[-1:]
    empty = bench.store.blob(handle, "empty", "data")
    assert empty is not None
    assert (empty.length, empty.read(0, 9)) == (0, b"")
    assert bench.store.blob(handle, "null", "data") is None
    with pytest.raises(ObjectMissing):
        bench.store.blob(handle, "zed", "data")


def _data(bench: Workbench, handle: TableHandle, entity_id: str) -> bytes | None:
    blob = bench.store.blob(handle, entity_id, "data")
    return None if blob is None else blob.read(0, blob.length)


def test_the_files_of_large_blobs_are_synced(bench: Workbench) -> None:
    handle = bench.doc_table({"id": "a"})
    before = {path for path in bench.root.rglob("*") if path.is_file()}
    staged = bench.store.stage_append(
        handle, rows_of(bench.doc, [{"id": "b", "data": LARGE}]), STAMP
    )
    written = {path for path in bench.root.rglob("*") if path.is_file()} - before
    bench.seen.calls.clear()
    bench.store.sync_staged(staged)
    assert len(written) == 2
    assert {path.relative_to(bench.root).as_posix() for path in written} <= set(
        bench.seen.targets("sync")
    )


def test_an_update_keeps_the_blobs_that_it_leaves_out(bench: Workbench, tmp_path: Path) -> None:
    outside = tmp_path / "outside.bin"
    outside.write_bytes(b"outside")
    rows = rows_of(bench.doc, [{"id": "in", "data": LARGE}, {"id": "null"}])
    handle = bench.filled(bench.doc, {"id": "other"})
    handle = bench.land(bench.store.stage_append(handle, rows, STAMP))
    external = _external(bench, [{"id": "out"}], [outside.as_uri()])
    handle = bench.land(bench.store.stage_merge_insert(handle, external, STAMP))

    kept = rows_of(bench.doc, [{"id": each, "rank": 7} for each in ("in", "null", "out")])
    staged = bench.store.stage_update(handle, kept.drop_columns(["data"]), STAMP)
    assert staged.rows_changed == 3
    handle = bench.land(staged)
    assert _data(bench, handle, "in") == LARGE
    assert _data(bench, handle, "null") is None
    found = bench.store.blob(handle, "out", "data")
    assert found is not None
    assert found.uri == outside.as_uri()
    assert bench.column(handle, "rank") == {"other": None, "in": 7, "null": 7, "out": 7}


def test_a_row_with_an_external_blob_is_upserted_under_its_row_id(
    bench: Workbench, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.bin"
    outside.write_bytes(b"outside")
    handle = bench.doc_table({"id": "a", "body": "alpha"}, {"id": "b", "body": "beta"})
    spec = IndexSpec(property_name="body", kind=IndexKind.INVERTED)
    handle = bench.land(bench.store.stage_index(handle, [spec], STAMP))
    before = handle.dataset.to_table(columns=["id", "_rowid"]).to_pylist()
    rows = _external(bench, [{"id": "new"}, {"id": "a", "body": "gamma"}], [outside.as_uri()] * 2)
    staged = bench.store.stage_merge_insert(handle, rows, STAMP)
    assert (staged.rows_added, staged.rows_changed, staged.rows_after) == (1, 1, 3)
    handle = bench.land(staged)
    found = bench.store.blob(handle, "a", "data")
    assert found is not None
    assert found.uri == outside.as_uri()
    assert _found(bench.store.search_text(handle, "body", "alpha")) == []
    assert _found(bench.store.search_text(handle, "body", "gamma")) == ["a"]
    after = handle.dataset.to_table(columns=["id", "_rowid"]).to_pylist()
    assert {row["id"]: row["_rowid"] for row in before}.items() <= {
        row["id"]: row["_rowid"] for row in after
    }.items()


def _external(bench: Workbench, rows: list[dict[str, str]], uris: list[str]) -> pa.Table:
    found = rows_of(bench.doc, rows).drop_columns(["data"])
    values = [{"data": None, "uri": uri} for uri in uris]
    kind = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
    return found.append_column(pa.field("data", kind), pa.array(values, kind))


@pytest.mark.parametrize("predicate", [None, Not(IsNull("rank")), Not(IsNull("big"))])
def test_a_scan_of_no_property_has_the_places_of_its_rows(
    bench: Workbench, predicate: Predicate | None
) -> None:
    rows = bench.store.scan(
        _ranked(bench), columns=[], predicate=predicate, with_row_ids=True
    ).read_all()
    assert rows.column_names == ["_rowid"]
    assert rows.num_rows == (2 if predicate == Not(IsNull("rank")) else 3)
