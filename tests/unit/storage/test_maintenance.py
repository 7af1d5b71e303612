"""Indexes, compaction and columns: staged like any write, right on every line, harmless to rows."""

from collections.abc import Callable
from dataclasses import replace

import lance
import numpy as np
import pyarrow as pa
import pytest
from tests.extended import thinned
from tests.unit.storage.workbench import SCHEMA, SECOND, STAMP, Workbench, id_array, layout, rows_of

from omnigraph.errors import InternalError, StorageInternalError
from omnigraph.lang import Scalar, accept_schema, compile_schema
from omnigraph.lang.types import PropType
from omnigraph.storage.capabilities import Capabilities, Pushdown, wanted_indexes
from omnigraph.storage.compaction import CompactionChoice
from omnigraph.storage.handles import StagedWrite, TableHandle
from omnigraph.storage.indexes import IndexKind, IndexSpec
from omnigraph.storage.maintenance import MAX_SEGMENTS, NEW_SEGMENTS, IndexAction
from omnigraph.storage.predicates import Compare, CompareOp
from omnigraph.storage.shared_work import Spread
from omnigraph.storage.signals import CommitRefused, FragmentsChanged
from omnigraph.storage.sizes import FragmentInfo
from omnigraph.storage.staged_fragments import PieceKind, Pieces, join_pieces

BTREE = IndexSpec(property_name="id", kind=IndexKind.BTREE)
TEXT = IndexSpec(property_name="body", kind=IndexKind.INVERTED)
WITH_INDEXES = CompactionChoice(specs=(BTREE, TEXT))
WIDER = layout("Doc", SCHEMA.replace("data: Blob?", "data: Blob?\n  extra: String? @index"))
LINES = ("main", pytest.param("branch", marks=pytest.mark.extended), "branch of a branch")


def _line(bench: Workbench, line: str) -> TableHandle:
    handle = bench.doc_table({"id": "a", "body": "alpha wolf"}, {"id": "b", "body": "beta wolf"})
    if line == "main":
        return bench.append(handle, {"id": "c", "body": "gamma"})
    branch = bench.append(bench.forked(handle), {"id": "c", "body": "gamma"})
    return branch if line == "branch" else bench.forked(branch, SECOND)


def _indexed(bench: Workbench, handle: TableHandle, *specs: IndexSpec) -> TableHandle:
    return bench.land(bench.store.stage_index(handle, specs or (BTREE, TEXT), STAMP))


def _search(bench: Workbench, handle: TableHandle, query: str) -> list[str]:
    found = bench.store.search_text(handle, "body", query)
    return sorted(str(each) for each in found["id"].to_pylist())


def _action(bench: Workbench, handle: TableHandle, spec: IndexSpec) -> IndexAction:
    (work,) = bench.store.plan_indexes(handle, [spec])
    return work.action


Stage = Callable[[Workbench, TableHandle], StagedWrite]
PRIMITIVES: dict[str, Stage] = {
    "index": lambda bench, base: bench.store.stage_index(base, [BTREE, TEXT], STAMP),
    "compaction": lambda bench, base: bench.store.stage_compaction(base, STAMP),
    "add columns": lambda bench, base: bench.store.stage_columns(
        bench.store.open(WIDER, base.pin), STAMP
    ),
    "drop columns": lambda bench, base: bench.store.stage_columns(base, STAMP, dropped=["rank"]),
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("primitive", PRIMITIVES)
def test_staging_moves_no_head_and_changes_no_row(
    bench: Workbench, primitive: str, line: str
) -> None:
    base = _line(bench, line)
    before = bench.heads(base)
    staged = PRIMITIVES[primitive](bench, base)
    assert bench.heads(base) == before
    after = bench.land(staged)
    assert after.pin.version == base.pin.version + len(staged.links)
    assert bench.ids(after) == ["a", "b", "c"]
    assert staged.rows_after == 3
    assert _search(bench, after, "wolf") == ["a", "b"]
    (trace,) = bench.store.traces(
        base.layout, base.pin.branch, base.pin.version, base.pin.version + 1
    )
    assert (trace.uuid, trace.kind) == (staged.links[0].uuid, STAMP.kind)
    assert bench.ids(bench.append(after, {"id": "d"})) == ["a", "b", "c", "d"]
    if line != "main":
        assert bench.store.head_version(base.layout, None) == before[0]


@pytest.mark.parametrize("primitive", PRIMITIVES)
def test_staging_again_on_a_newer_base_gives_the_same(bench: Workbench, primitive: str) -> None:
    base = _line(bench, "main")
    staged = PRIMITIVES[primitive](bench, base)
    bench.append(base, {"id": "d"})
    moved = bench.store.open(staged.base.layout, bench.pin(base, base.pin.version + 1))
    assert staged.rebase is not None
    assert bench.ids(bench.land(staged.rebase(moved))) == ["a", "b", "c", "d"]


def test_the_files_of_an_index_are_synced(bench: Workbench) -> None:
    base = _line(bench, "main")
    before = {path for path in bench.root.rglob("*") if path.is_file()}
    staged = bench.store.stage_index(base, [BTREE, TEXT], STAMP)
    written = {path for path in bench.root.rglob("*") if path.is_file()} - before
    bench.seen.calls.clear()
    bench.store.sync_staged(staged)
    assert {path.relative_to(bench.root).as_posix() for path in written} <= set(
        bench.seen.targets("sync")
    )


# --- indexes ----------------------------------------------------------------------------------


def test_an_index_that_covers_everything_needs_nothing(bench: Workbench) -> None:
    handle = _indexed(bench, _line(bench, "main"))
    assert _action(bench, handle, BTREE) is IndexAction.NONE
    assert bench.store.stage_index(handle, [BTREE, TEXT], STAMP).is_noop
    assert all(
        index.is_complete
        for index in bench.store.index_coverage(handle)
        if index.property_name in ("id", "body")
    )


@pytest.mark.parametrize("line", LINES)
def test_appended_rows_get_a_segment_of_their_own(bench: Workbench, line: str) -> None:
    handle = _indexed(bench, _line(bench, line))
    handle = bench.append(handle, {"id": "d", "body": "wolf"})
    assert _action(bench, handle, TEXT) is IndexAction.EXTEND
    handle = _indexed(bench, handle)
    assert {index.name: index.segments for index in bench.store.index_coverage(handle)} == {
        "ix_1_inverted": 1,
        "ix_2_inverted": 2,
        "ix_id": 2,
    }
    assert _search(bench, handle, "wolf") == ["a", "b", "d"]
    assert bench.store.existing_ids(handle, id_array("abcd")).to_pylist() == list("abcd")


def test_updated_rows_are_never_patched_into_an_index(bench: Workbench) -> None:
    handle = _indexed(bench, _line(bench, "main"))
    handle = bench.upsert(handle, {"id": "a", "body": "fox"})
    assert _action(bench, handle, TEXT) is IndexAction.BUILD
    handle = _indexed(bench, handle)
    assert (_search(bench, handle, "alpha"), _search(bench, handle, "fox")) == ([], ["a"])
    assert {index.segments for index in bench.store.index_coverage(handle)} == {1}


def test_moved_rows_are_never_patched_into_an_index(bench: Workbench) -> None:
    handle = _indexed(bench, _line(bench, "main"), BTREE)
    rewritten = bench.store.stage_compaction(handle, STAMP, CompactionChoice(specs=(BTREE,)))
    moved = bench.store.commit_staged(handle, rewritten.links[0])
    assert _action(bench, moved, BTREE) is IndexAction.BUILD
    after = bench.store.commit_staged(moved, rewritten.links[1])
    assert _action(bench, after, BTREE) is IndexAction.NONE


def test_an_index_of_many_segments_is_built_anew(bench: Workbench) -> None:
    handle = _indexed(bench, _line(bench, "main"), BTREE)
    for number in range(MAX_SEGMENTS - 1):
        handle = _indexed(bench, bench.append(handle, {"id": f"r{number}"}), BTREE)
    handle = bench.append(handle, {"id": "last"})
    assert _action(bench, handle, BTREE) is IndexAction.BUILD


def test_an_empty_table_registers_text_and_waits_with_the_rest(bench: Workbench) -> None:
    plain = replace(bench.doc, text_indexes=())
    handle = bench.store.open(plain, bench.store.create_table(plain))
    assert _action(bench, handle, TEXT) is IndexAction.REGISTER
    assert _action(bench, handle, BTREE) is IndexAction.PENDING
    handle = _indexed(bench, handle)
    assert [index.name for index in bench.store.index_coverage(handle)] == ["ix_2_inverted"]
    assert _search(bench, bench.append(handle, {"id": "a", "body": "Wolf"}), "wolf") == ["a"]


def test_a_new_wish_for_text_is_registered_without_training(bench: Workbench) -> None:
    plain = replace(bench.doc, text_indexes=())
    handle = bench.filled(plain, {"id": "a", "body": "Wolf"})
    handle = bench.store.open(bench.doc, handle.pin)
    handle = bench.land(bench.store.stage_text_indexes(handle, STAMP))
    assert _search(bench, handle, "wolf") == ["a"]
    assert bench.store.stage_text_indexes(handle, STAMP).is_noop


VECTORS = layout("V", "node V {\n  vec: Vector(2)? @index\n}")
IVF = IndexSpec(property_name="vec", kind=IndexKind.IVF_FLAT)


def test_a_vector_index_waits_for_a_vector_and_always_has_one_segment(bench: Workbench) -> None:
    handle = bench.filled(VECTORS, {"id": "null"}, {"id": "zero", "vec": [0.0, 0.0]})
    assert _action(bench, handle, IVF) is IndexAction.PENDING
    handle = bench.append(handle, {"id": "one", "vec": [1.0, 0.0]})
    handle = _indexed(bench, handle, IVF)
    handle = _indexed(bench, bench.append(handle, {"id": "two", "vec": [0.0, 1.0]}), IVF)
    (index,) = bench.store.index_coverage(handle)
    assert (index.name, index.segments, index.is_complete) == ("ix_1_ivf_flat", 1, True)


def test_an_index_keeps_its_name_when_its_property_is_renamed(bench: Workbench) -> None:
    handle = _indexed(bench, _line(bench, "main"))
    names = ["text" if name == "body" else name for name in bench.doc.schema.names]
    renamed = replace(
        bench.doc,
        schema=pa.schema(
            [field.with_name(name) for field, name in zip(bench.doc.schema, names, strict=True)]
        ),
        columns={"text": "body"},
        property_ids={
            "text" if name == "body" else name: number
            for name, number in bench.doc.property_ids.items()
        },
    )
    handle = bench.store.open(renamed, handle.pin)
    assert _action(bench, handle, replace(TEXT, property_name="text")) is IndexAction.NONE


def test_a_type_wants_the_indexes_that_fit_its_properties() -> None:
    catalog = accept_schema(
        compile_schema(
            "node N {\n  slug: String @key\n  level: enum(a, b)? @index\n  mail: String? @unique\n"
            "  tags: [String]?\n  vec: Vector(3)? @index\n}\nedge E: N -> N\n"
        )
    ).catalog
    node = [(spec.property_name, spec.kind) for spec in wanted_indexes(catalog.node_types["N"])]
    assert node == [
        ("id", IndexKind.BTREE),
        ("slug", IndexKind.BTREE),
        ("slug", IndexKind.INVERTED),
        ("level", IndexKind.BTREE),
        ("mail", IndexKind.BTREE),
        ("vec", IndexKind.IVF_FLAT),
    ]
    edge = [spec.property_name for spec in wanted_indexes(catalog.edge_types["E"])]
    assert edge == ["id", "src", "dst"]


def test_capabilities_tell_who_evaluates_and_what_fits() -> None:
    able = Capabilities()
    assert able.pushdown(PropType(scalar=Scalar.I64)) is Pushdown.SCANNER
    assert able.pushdown(PropType(scalar=Scalar.U64)) is Pushdown.PROVIDER
    assert able.pushdown(PropType(scalar=Scalar.STRING, is_list=True)) is Pushdown.PROVIDER
    assert able.pushdown(PropType(scalar=Scalar.BLOB)) is Pushdown.NULL_TEST
    assert able.index_kinds(PropType(scalar=Scalar.BLOB)) == ()


def test_an_index_that_is_spread_has_few_segments_and_the_same_answers(bench: Workbench) -> None:
    handle = _line(bench, "main")
    for each in "defghi":
        handle = bench.append(handle, {"id": each, "body": f"wolf {each}"})
    steps = bench.store.index_steps(handle, [BTREE, TEXT], STAMP, spread=Spread(rows=1))
    after = bench.land(bench.store.finish(steps))
    covered = {index.name: index for index in bench.store.index_coverage(after)}
    # Nine rows in eight fragments, of which at most four parts are made where nobody merges them.
    assert (covered["ix_id"].segments, covered["ix_id"].is_complete) == (3, True)
    assert (covered["ix_2_inverted"].segments, covered["ix_2_inverted"].is_complete) == (1, True)
    assert _search(bench, after, "wolf") == list("abdefghi")
    assert bench.store.existing_ids(after, id_array("aix")).to_pylist() == ["a", "i"]
    for number in range(NEW_SEGMENTS + 1):
        after = bench.append(after, {"id": f"j{number}"})
    (extended,) = bench.store.plan_indexes(after, [BTREE])
    assert (extended.action, extended.most_segments) == (IndexAction.EXTEND, NEW_SEGMENTS)


def test_parts_are_of_about_one_size_and_as_many_as_are_allowed() -> None:
    def groups(rows: int, most: int, *sizes: int) -> list[tuple[int, ...]]:
        infos = [
            FragmentInfo(fragment_id=number, rows=size, deleted_rows=0, size_bytes=0, files=())
            for number, size in enumerate(sizes)
        ]
        return Spread(rows=rows).groups(infos, most)

    assert groups(10, 4) == []
    assert groups(10, 4, 1, 2, 3) == [(0, 1, 2)]
    assert groups(1, 4, 5, 5, 5, 5, 5) == [(0, 1), (2, 3), (4,)]
    assert groups(1, 2, 9, 1, 1, 1) == [(0,), (1, 2, 3)]
    assert groups(10, 64, 10, 10, 3) == [(0,), (1,), (2,)]
    for most in range(1, 9):
        assert len(groups(1, most, *range(1, 30))) <= most


def test_steps_that_are_not_ended_leave_no_version_of_no_line(bench: Workbench) -> None:
    handle = _indexed(bench, _line(bench, "main"))
    handle = bench.append(handle, {"id": "d", "body": "wolf"})
    steps = bench.store.compaction_steps(handle, STAMP, WITH_INDEXES)
    asked = next(steps)
    assert [*bench.root.rglob("d*.manifest")] != []
    steps.send(bench.store.perform(asked))
    steps.close()
    assert [*bench.root.rglob("d*.manifest")] == []
    assert bench.ids(bench.land(bench.store.stage_compaction(handle, STAMP))) == list("abcd")


# --- compaction -------------------------------------------------------------------------------


def test_a_compaction_joins_fragments_and_covers_them_again(bench: Workbench) -> None:
    handle = _indexed(bench, _line(bench, "main"))
    staged = bench.store.stage_compaction(handle, STAMP, WITH_INDEXES)
    assert [link.operation for link in staged.links] == ["Rewrite", "CreateIndex"]
    assert (staged.fragments_removed, staged.fragments_added) == (2, 1)
    after = bench.land(staged)
    assert len(bench.store.fragments(after)) == 1
    assert {
        index.name: index.is_complete
        for index in bench.store.index_coverage(after)
        if index.property_name != "slug"
    } == {"ix_2_inverted": True, "ix_id": True}
    assert _search(bench, after, "wolf") == ["a", "b"]
    assert bench.store.stage_compaction(after, STAMP, WITH_INDEXES).is_noop
    assert [*bench.root.rglob("d*.manifest")] == []


@pytest.mark.parametrize("line", LINES)
def test_fragments_of_different_coverage_are_joined_when_their_indexes_are_named(
    bench: Workbench, line: str
) -> None:
    handle = bench.append(_indexed(bench, _line(bench, line)), {"id": "d", "body": "wolf"})
    after = bench.land(bench.store.stage_compaction(handle, STAMP, WITH_INDEXES))
    assert len(bench.store.fragments(after)) == 1
    named = [each for each in bench.store.index_coverage(after) if each.property_name != "slug"]
    assert [(each.name, each.segments, each.is_complete) for each in named] == [
        ("ix_2_inverted", 1, True),
        ("ix_id", 1, True),
    ]
    assert _search(bench, after, "wolf") == ["a", "b", "d"]
    assert bench.store.existing_ids(after, id_array("abcdx")).to_pylist() == list("abcd")
    apart = bench.store.stage_compaction(handle, STAMP)
    assert (apart.fragments_removed, len(apart.links)) == (2, 1)


def test_only_the_chosen_fragments_are_joined(bench: Workbench) -> None:
    handle = _line(bench, "main")
    for each in "defg":
        handle = bench.append(handle, {"id": each})
    numbers = [each.fragment_id for each in bench.store.fragments(handle)]
    tail = CompactionChoice(fragments=frozenset(numbers[-3:]), rows_per_fragment=100)
    after = bench.land(bench.store.stage_compaction(handle, STAMP, tail))
    assert [each.rows for each in bench.store.fragments(after)] == [2, 1, 1, 3]
    assert bench.ids(after) == list("abcdefg")


def test_a_compaction_moves_over_what_others_appended_as_it_is(bench: Workbench) -> None:
    base = _indexed(bench, _line(bench, "main"))
    staged = bench.store.stage_compaction(base, STAMP, WITH_INDEXES)
    newer = bench.append(base, {"id": "d", "body": "wolf"})
    before = {path for path in bench.root.rglob("*") if path.is_file()}
    assert staged.rebase is not None
    moved = staged.rebase(newer)
    assert {path for path in bench.root.rglob("*") if path.is_file()} == before
    after = bench.land(moved)
    assert [each.rows for each in bench.store.fragments(after)] == [1, 3]
    assert _search(bench, after, "wolf") == ["a", "b", "d"]
    for each in "abcd":
        assert bench.store.existing_ids(after, id_array(each)).to_pylist() == [each]
    covered = {index.name: index.rows_covered for index in bench.store.index_coverage(after)}
    assert (covered["ix_id"], covered["ix_2_inverted"]) == (3, 3)


@pytest.mark.parametrize("change", ["delete", "upsert", "compact"])
def test_a_compaction_does_not_move_over_what_it_read(bench: Workbench, change: str) -> None:
    base = _line(bench, "main")
    staged = bench.store.stage_compaction(base, STAMP, WITH_INDEXES)
    match change:
        case "delete":
            newer = bench.land(bench.store.stage_delete(base, id_array("a"), STAMP))
        case "upsert":
            newer = bench.upsert(base, {"id": "a", "body": "fox"})
        case _:
            newer = bench.land(bench.store.stage_compaction(base, STAMP))
    assert staged.rebase is not None
    with pytest.raises(FragmentsChanged):
        staged.rebase(newer)


def test_rows_that_are_gone_leave_their_fragment_at_a_tenth(bench: Workbench) -> None:
    handle = bench.doc_table(*({"id": f"r{number}"} for number in range(20)))
    few = bench.land(bench.store.stage_delete(handle, id_array(["r0", "r1"]), STAMP))
    assert bench.store.stage_compaction(few, STAMP, WITH_INDEXES).is_noop
    more = bench.land(bench.store.stage_delete(few, id_array(["r2"]), STAMP))
    after = bench.land(bench.store.stage_compaction(more, STAMP, WITH_INDEXES))
    assert [(each.rows, each.deleted_rows) for each in bench.store.fragments(after)] == [(17, 0)]


def test_a_compaction_is_no_change(bench: Workbench) -> None:
    base = _line(bench, "main")
    after = bench.land(bench.store.stage_compaction(base, STAMP))
    changed = bench.store.changed_since(after, base)
    assert (len(changed.changed), len(changed.removed)) == (0, 0)


def test_a_compaction_that_was_overtaken_is_refused(bench: Workbench) -> None:
    base = _line(bench, "main")
    staged = bench.store.stage_compaction(base, STAMP)
    moved = bench.append(base, {"id": "d"})
    with pytest.raises(CommitRefused) as told:
        bench.store.commit_staged(base, staged.links[0])
    assert not told.value.is_final
    assert bench.store.head_version(bench.doc, None) == moved.pin.version


def test_a_vector_index_of_two_segments_stops_a_compaction(bench: Workbench) -> None:
    handle = bench.filled(VECTORS, {"id": "a", "vec": [1.0, 0.0]})
    handle = _indexed(bench, handle, IVF)
    dataset = bench.append(handle, {"id": "b", "vec": [0.0, 1.0]}).dataset
    segment = dataset.create_index_uncommitted(
        "vec",
        "IVF_FLAT",
        name="ix_1_ivf_flat",
        replace=True,
        fragment_ids=[1],
        metric="cosine",
        num_partitions=1,
    )
    operation = lance.LanceOperation.CreateIndex([segment], [])
    made = lance.LanceDataset.commit(dataset, lance.Transaction(dataset.version, operation))
    broken = bench.store.open(VECTORS, bench.pin(handle, made.version))
    with pytest.raises(StorageInternalError, match="2 segments"):
        bench.store.stage_compaction(broken, STAMP)
    after = bench.land(bench.store.stage_compaction(broken, STAMP, CompactionChoice(specs=(IVF,))))
    (index,) = bench.store.index_coverage(after)
    assert (index.segments, index.is_complete) == (1, True)


# --- columns ----------------------------------------------------------------------------------


def test_an_added_column_reads_null_before_and_after_it_lands(bench: Workbench) -> None:
    base = bench.store.open(WIDER, _line(bench, "main").pin)
    assert bench.column(base, "extra") == {"a": None, "b": None, "c": None}
    staged = bench.store.chain(
        bench.store.stage_columns(base, STAMP),
        lambda handle: bench.store.stage_text_indexes(handle, STAMP),
    )
    after = bench.land(staged)
    after = bench.upsert(after, {"id": "a", "extra": "New Words"})
    assert bench.column(after, "extra") == {"a": "New Words", "b": None, "c": None}
    found = bench.store.search_text(after, "extra", "word")
    assert found["id"].to_pylist() == ["a"]
    assert bench.store.stage_columns(after, STAMP).is_noop


def test_a_softly_dropped_column_stays_and_is_not_written(bench: Workbench) -> None:
    base = bench.doc_table({"id": "a", "rank": 3})
    names = [name for name in bench.doc.schema.names if name != "rank"]
    narrow = replace(bench.doc, schema=pa.schema([bench.doc.schema.field(n) for n in names]))
    handle = bench.append(bench.store.open(narrow, base.pin), {"id": "b"})
    assert "rank" not in bench.store.scan(handle).read_all().schema.names
    assert bench.column(bench.store.open(bench.doc, handle.pin), "rank") == {"a": 3, "b": None}


def test_a_column_that_is_not_there_need_not_be_dropped(bench: Workbench) -> None:
    handle = _line(bench, "main")
    assert bench.store.stage_columns(handle, STAMP, dropped=["zed"]).is_noop


def test_staging_a_column_leaves_no_branch_behind(bench: Workbench) -> None:
    base = bench.store.open(WIDER, _line(bench, "main").pin)
    bench.store.stage_columns(base, STAMP)
    assert base.dataset.branches.list() == {}


def test_automatic_cleanup_is_removed_by_a_stamped_version(bench: Workbench) -> None:
    handle = _line(bench, "main")
    assert bench.store.stage_without_cleanup(handle, STAMP).is_noop
    dataset = handle.dataset
    dataset.update_config({"lance.auto_cleanup.interval": "1", "other": "kept"})
    head = bench.store.head_version(bench.doc, None)
    handle = bench.store.open(bench.doc, bench.pin(handle, head))
    after = bench.land(bench.store.stage_without_cleanup(handle, STAMP))
    assert after.dataset.config() == {"other": "kept"}


# --- pieces -----------------------------------------------------------------------------------


def test_pieces_of_new_rows_are_read_before_they_land(bench: Workbench) -> None:
    base = _line(bench, "branch")
    parts = join_pieces(
        bench.store.write_pieces(base, rows_of(bench.doc, [{"id": each}])) for each in "xy"
    )
    head = bench.heads(base)
    before = set(bench.root.rglob("*"))
    view = bench.store.open_staged(base, parts)
    assert bench.ids(view) == ["a", "b", "c", "x", "y"]
    assert bench.heads(base) == head
    files = [bench.root / each for each in bench.store.view_files(view)]
    assert set(bench.root.rglob("*")) - before == set(files)
    for each in files:
        each.unlink()
    staged = bench.store.stage_pieces(base, PieceKind.APPEND, parts, STAMP)
    assert bench.ids(bench.land(staged)) == ["a", "b", "c", "x", "y"]


def test_pieces_overwrite_a_table_and_its_text_indexes_come_back(bench: Workbench) -> None:
    base = _line(bench, "main")
    parts = bench.store.write_pieces(base, rows_of(bench.doc, [{"id": "x", "body": "Wolf"}]))
    after = bench.land(bench.store.stage_pieces(base, PieceKind.OVERWRITE, parts, STAMP))
    assert bench.ids(after) == ["x"]
    assert _search(bench, after, "wolf") == ["x"]


@pytest.mark.parametrize("held_bytes", [0, 30, 1 << 20], ids=["streamed", "begun", "held"])
def test_an_upsert_of_pieces_is_the_same_from_memory_and_as_a_stream(
    bench: Workbench, held_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.storage.writes._HELD_BYTES", held_bytes)
    base = bench.filled(bench.plain, {"id": "a", "rank": 1}, {"id": "b", "rank": 2})
    rows = [{"id": "b", "rank": 3}, {"id": "c", "rank": 4}, {"id": "d", "rank": 5}]
    parts = join_pieces(
        bench.store.write_pieces(base, rows_of(bench.plain, [each])) for each in rows
    )
    view = bench.store.open_staged(base, parts)
    fragments = [each.fragment_id for each in bench.store.fragments(view)][1:]
    staged = bench.store.stage_merge_staged(base, view, fragments, STAMP)
    assert (staged.rows_added, staged.rows_changed, staged.rows_after) == (2, 1, 4)
    after = bench.column(bench.land(staged), "rank")
    assert after == {"a": 1, "b": 3, "c": 4, "d": 5}


def test_pieces_of_an_update_equal_an_upsert(bench: Workbench) -> None:
    base = _indexed(bench, _line(bench, "main"))
    where = base.dataset.to_table(
        columns=["_rowid", "_rowaddr"], filter="id in ('a', 'c')"
    ).to_pylist()
    changed = rows_of(bench.doc, [{"id": "a", "body": "fox"}, {"id": "c", "body": "owl"}])
    parts = join_pieces(
        [
            bench.store.write_changed(base, changed, [row["_rowid"] for row in where]),
            bench.store.write_pieces(base, rows_of(bench.doc, [{"id": "n", "body": "fox"}])),
            bench.store.delete_addresses(base, [row["_rowaddr"] for row in where]),
        ]
    )
    staged = bench.store.stage_pieces(base, PieceKind.UPDATE, parts, STAMP)
    assert (staged.rows_added, staged.rows_changed, staged.rows_removed) == (1, 2, 0)
    after = bench.land(staged)
    assert bench.ids(after) == ["a", "b", "c", "n"]
    assert (_search(bench, after, "alpha"), _search(bench, after, "fox")) == ([], ["a", "n"])


def test_no_pieces_are_nothing_to_do(bench: Workbench) -> None:
    base = _line(bench, "main")
    for kind in (PieceKind.APPEND, PieceKind.UPDATE):
        assert bench.store.stage_pieces(base, kind, Pieces(), STAMP).is_noop


def test_pieces_that_do_not_fit_are_refused(bench: Workbench) -> None:
    base = _line(bench, "main")
    deleted = bench.store.delete_addresses(base, [0])
    with pytest.raises(InternalError, match="staged as append"):
        bench.store.stage_pieces(base, PieceKind.APPEND, deleted, STAMP)
    marked = Pieces(added=deleted.updated)
    with pytest.raises(InternalError, match="deleted rows"):
        bench.store.stage_pieces(base, PieceKind.APPEND, marked, STAMP)


# --- everything together ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", thinned(range(4)))
def test_answers_never_depend_on_indexes(bench: Workbench, seed: int) -> None:
    dice = np.random.default_rng(seed)
    words = ("wolf", "fox", "owl", "bear")
    model: dict[str, str] = {}
    handle = bench.store.open(bench.doc, bench.store.create_table(bench.doc))
    for step in range(14):
        ids = {f"r{dice.integers(12)}" for _ in range(3)}
        match str(dice.choice(["upsert", "upsert", "delete", "index", "compact", "fork"])):
            case "upsert":
                rows = {each: str(dice.choice(words)) for each in ids}
                model |= rows
                handle = bench.upsert(
                    handle, *({"id": each, "body": word} for each, word in rows.items())
                )
            case "delete":
                model = {each: word for each, word in model.items() if each not in ids}
                handle = bench.delete(handle, *ids)
            case "index":
                handle = _indexed(bench, handle)
            case "compact":
                handle = bench.land(bench.store.stage_compaction(handle, STAMP))
            case _:
                branch = f"01j000000000000000000000{step:02}"
                handle = bench.forked(handle, type(SECOND)(branch))
        assert bench.ids(handle) == sorted(model)
        for word in words:
            expected = sorted(each for each, held in model.items() if held == word)
            assert _search(bench, handle, word) == expected
        known = Compare("id", CompareOp.GE, pa.scalar("r5"))
        assert bench.ids(handle, known) == sorted(each for each in model if each >= "r5")
