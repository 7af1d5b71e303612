"""Staged indexes: how a segment is finished, what it covers, and what silently goes wrong."""

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance import LanceDataset, LanceOperation
from lance.bitmap import Bitmap
from lance.fragment import FragmentMetadata, RowIdSequence
from lance.indices import IndicesBuilder
from lance.optimize import Compaction
from tests.guards.lance_tables import (
    VECTOR_SCHEMA,
    IndexSpec,
    all_field_ids,
    btree,
    build_segment,
    by_id,
    commit,
    coverage,
    create_table,
    delete_offsets,
    existing_segments,
    finish_segment,
    fragment_ids,
    ids,
    inverted,
    open_head,
    raw_segment,
    rewrite_fragments,
    rows,
    search,
    something,
    stage_append,
    stage_compaction,
    stage_delete,
    stage_index,
    stage_merge_insert,
    stage_pieces_update,
    stage_segments,
    transaction_at,
    unused_fragment_id,
    where,
    write_rows,
)
from tests.guards.vectors import near, vector_rows

VECTOR_TYPE = VECTOR_SCHEMA.field("vector").type
IVF: Mapping[str, Any] = {"metric": "cosine", "num_partitions": 1}
TEXT = inverted("body", "ix_body")


def _two_documents(path: Path) -> LanceDataset:
    """`a` and `b` in a fragment each, both indexed."""
    table = create_table(path, rows("a", body="alpha wolf"))
    table = commit(table, stage_append(table, rows("b", body="beta wolf")))
    return commit(table, stage_index(table, [TEXT, btree("id", "ix_id")]))


# --- building ---------------------------------------------------------------------------------


def test_lance_guard_an_inverted_segment_committed_as_returned_cannot_be_searched(
    tmp_path: Path,
) -> None:
    """Why: it is finished by `merge_existing_index_segments` before it is committed."""
    table = create_table(tmp_path / "t", rows("a", body="wolf"))
    broken = commit(table, stage_segments(table, [raw_segment(table, TEXT)]))
    with pytest.raises(pa.ArrowInvalid, match=r"tokens\.lance"):
        search(broken, "wolf")


def test_lance_guard_finishing_an_inverted_segment_commits_nothing(tmp_path: Path) -> None:
    """Why: no index kind needs an inline commit."""
    table = create_table(tmp_path / "t", rows("a", body="wolf"))
    segment = finish_segment(table, TEXT, raw_segment(table, TEXT))
    assert open_head(tmp_path / "t").version == table.version
    assert search(commit(table, stage_segments(table, [segment])), "wolf") == ["a"]


def test_lance_guard_eight_kinds_of_index_land_in_one_transaction_and_answer(
    tmp_path: Path,
) -> None:
    """Why: one link per table builds all its indexes."""
    table = create_table(tmp_path / "t", vector_rows("a", 150), schema=VECTOR_SCHEMA)
    table = commit(table, stage_append(table, vector_rows("b", 150)))
    specs = [
        btree("id", "ix_id"),
        TEXT,
        IndexSpec("body", "NGRAM", "ix_ngram"),
        IndexSpec("rank", "BITMAP", "ix_bitmap"),
        IndexSpec("rank", "BLOOMFILTER", "ix_bloom"),
        IndexSpec("vector", "IVF_FLAT", "ix_flat", IVF),
        IndexSpec("vector", "IVF_PQ", "ix_pq", {**IVF, "num_sub_vectors": 2}),
        IndexSpec("vector", "IVF_HNSW_SQ", "ix_hnsw", IVF),
    ]
    indexed = commit(table, stage_index(table, specs))
    assert indexed.version == table.version + 1
    assert {spec.name: coverage(indexed, spec.name) for spec in specs} == {
        spec.name: {0, 1} for spec in specs
    }
    assert where(indexed, pc.field("id") == "b7") == ["b7"]
    assert search(indexed, "word7") == ["a7", "b7"]
    assert where(indexed, "contains(body, 'word149')") == ["a149", "b149"]
    assert where(indexed, pc.field("rank") == 9) == ["a9", "b9"]
    assert near(indexed, "b3")[0] == "b3"


@pytest.mark.parametrize("kind", ["BTREE", "INVERTED", "IVF_FLAT"])
def test_lance_guard_fragment_ids_are_mandatory(tmp_path: Path, kind: str) -> None:
    """Why: staging always says what it covers."""
    table = create_table(tmp_path / "t", vector_rows("a", 3), schema=VECTOR_SCHEMA)
    column = {"BTREE": "id", "INVERTED": "body"}.get(kind, "vector")
    with pytest.raises(ValueError, match="requires fragment_ids"):
        table.create_index_uncommitted(column, kind, name="ix")


@pytest.mark.parametrize("kind", ["BTREE", "INVERTED", "NGRAM", "BLOOMFILTER", "IVF_FLAT"])
def test_lance_guard_an_untrained_index_can_be_staged_on_an_empty_table(
    tmp_path: Path, kind: str
) -> None:
    """Why: a new type has its indexes from its first version on."""
    column = {"BTREE": "id", "BLOOMFILTER": "rank", "IVF_FLAT": "vector"}.get(kind, "body")
    options = IVF if kind == "IVF_FLAT" else {}
    table = create_table(tmp_path / "t", schema=VECTOR_SCHEMA)
    spec = IndexSpec(column, kind, "ix", options, train=False)
    table = commit(table, stage_index(table, [spec]))
    table = commit(table, stage_append(table, vector_rows("a", 3)))
    assert coverage(table, "ix") == set()
    assert where(table, pc.field("id") == "a1") == ["a1"]
    assert near(table, "a1")[0] == "a1"


def test_lance_guard_a_bitmap_index_cannot_be_untrained(tmp_path: Path) -> None:
    """Why: a BITMAP waits for rows; it cannot be registered when its table is created."""
    table = create_table(tmp_path / "t")
    with pytest.raises(ValueError, match="requires train=true"):
        build_segment(table, IndexSpec("rank", "BITMAP", "ix", train=False))


def test_lance_guard_two_segments_of_one_btree_land_together(tmp_path: Path) -> None:
    """Why: executors build one segment per group of fragments."""
    table = create_table(tmp_path / "t", rows("a"))
    table = commit(table, stage_append(table, rows("b")))
    segments = [build_segment(table, btree("id", "ix_id", [number])) for number in (0, 1)]
    table = commit(table, stage_segments(table, segments))
    assert coverage(table, "ix_id") == {0, 1}
    assert where(table, pc.field("id").isin(["a", "b"])) == ["a", "b"]


def test_lance_guard_parts_of_an_index_and_of_a_compaction_pickle(tmp_path: Path) -> None:
    """Why: executors are sent tasks and give back what they made."""
    table = create_table(tmp_path / "t", rows("a"))
    table = commit(table, stage_append(table, rows("b")))
    (task,) = (pickle.loads(pickle.dumps(each)) for each in Compaction.plan(table, {}).tasks)  # noqa: S301 - made here
    result = pickle.loads(pickle.dumps(task.execute(open_head(tmp_path / "t"))))  # noqa: S301 - as above
    assert [each.num_rows for each in result.new_fragments] == [2]
    segment = build_segment(table, btree("id", "ix_id"))
    assert pickle.loads(pickle.dumps(segment)) == segment  # noqa: S301 - as above
    assert open_head(tmp_path / "t").version == table.version


def test_lance_guard_raw_text_parts_are_finished_by_merging_them(tmp_path: Path) -> None:
    """Why: parts of a text index are merged by one task, and become one segment."""
    table = create_table(tmp_path / "t", rows("a", body="wolf"))
    for row_id, body in (("b", "wolf"), ("c", "")):
        table = commit(table, stage_append(table, rows(row_id, body=body)))
    parts = [raw_segment(table, inverted("body", "ix_body", [number])) for number in range(3)]
    merged = table.merge_existing_index_segments(parts)
    table = commit(table, stage_segments(table, [merged]))
    assert len(existing_segments(table, "ix_body")) == 1
    assert coverage(table, "ix_body") == {0, 1, 2}
    assert search(table, "wolf") == ["a", "b"]


def test_lance_guard_parts_of_a_vector_index_with_shared_centroids_become_one_segment(
    tmp_path: Path,
) -> None:
    """Why: centroids are trained once and shipped; a part without any vector is fine, too."""
    table = create_table(tmp_path / "t", vector_rows("a", 40), schema=VECTOR_SCHEMA)
    table = commit(table, stage_append(table, vector_rows("b", 40)))
    without = vector_rows("c", 5).set_column(3, VECTOR_SCHEMA.field(3), pa.nulls(5, VECTOR_TYPE))
    table = commit(table, stage_append(table, without))
    exact = near(table, "b3", k=20)
    model = IndicesBuilder(table, "vector").train_ivf(2, distance_type="cosine", sample_rate=20)
    options = {"metric": "cosine", "num_partitions": 2, "ivf_centroids": model.centroids}
    parts = [
        build_segment(table, IndexSpec("vector", "IVF_FLAT", "ix_v", options, [number]))
        for number in range(3)
    ]
    merged = table.merge_existing_index_segments(parts)
    table = commit(table, stage_segments(table, [merged]))
    assert len(existing_segments(table, "ix_v")) == 1
    assert coverage(table, "ix_v") == {0, 1, 2}
    found = table.to_table(columns=["vector"], filter=pc.field("id") == "b3")["vector"][0]
    query = {"column": "vector", "q": found.as_py(), "k": 20, "metric": "cosine", "nprobes": 2}
    assert table.to_table(columns=["id"], nearest=query)["id"].to_pylist() == exact


# --- coverage and stale entries ---------------------------------------------------------------


def test_lance_guard_uncovered_fragments_are_answered_correctly(tmp_path: Path) -> None:
    """Why: lagging is safe, so indexes are maintained after the write, not in it."""
    table = _two_documents(tmp_path / "t")
    table = commit(table, stage_merge_insert(table, rows("a", body="gamma fox")).transaction)
    assert coverage(table, "ix_body") == {1}
    assert (search(table, "alpha"), search(table, "gamma")) == ([], ["a"])
    assert search(table, "wolf") == ["b"]
    assert where(table, pc.field("id") == "a") == ["a"]


def test_lance_guard_a_deleted_row_leaves_the_answers_of_its_index(tmp_path: Path) -> None:
    """Why: a delete needs no re-index."""
    table = _two_documents(tmp_path / "t")
    table = commit(table, something(stage_delete(table, pc.field("id") == "a")))
    assert search(table, "wolf") == ["b"]


def test_lance_guard_a_second_text_segment_over_an_updated_row_revives_its_old_words(
    tmp_path: Path,
) -> None:
    """Why: a segment is added only for fragments whose rows were never updated."""
    table = _two_documents(tmp_path / "t")
    table = commit(table, stage_merge_insert(table, rows("a", body="gamma fox")).transaction)
    (uncovered,) = set(fragment_ids(table)) - coverage(table, "ix_body")
    second = build_segment(table, inverted("body", "ix_body", [uncovered]))
    wrong = commit(table, stage_segments(table, [second]))
    assert search(wrong, "alpha") == ["a"], "no longer a word of `a`"


def test_lance_guard_a_second_text_segment_over_a_compacted_fragment_returns_rows_twice(
    tmp_path: Path,
) -> None:
    """Why: a fragment that came from a rewrite never gets a second segment."""
    table = _two_documents(tmp_path / "t")
    table = commit(table, something(stage_compaction(table, numbered=False)))
    second = build_segment(table, TEXT)
    wrong = commit(table, stage_segments(table, [second]))
    assert search(wrong, "wolf") == ["a", "a", "b", "b"]


def test_lance_guard_a_second_text_segment_over_appended_rows_is_right(tmp_path: Path) -> None:
    """Why: this is the cheap way to follow appends."""
    table = _two_documents(tmp_path / "t")
    table = commit(table, stage_append(table, rows("c", body="gamma wolf")))
    second = build_segment(table, inverted("body", "ix_body", [2]))
    table = commit(table, stage_segments(table, [second]))
    assert coverage(table, "ix_body") == {0, 1, 2}
    assert search(table, "wolf") == ["a", "b", "c"]
    assert search(table, "gamma") == ["c"]


def test_lance_guard_one_segment_over_everything_that_removes_the_others_is_right(
    tmp_path: Path,
) -> None:
    """Why: this is the way back from every other state of an index."""
    table = _two_documents(tmp_path / "t")
    table = commit(table, stage_merge_insert(table, rows("a", body="gamma fox")).transaction)
    second = build_segment(table, inverted("body", "ix_body", [2]))
    table = commit(table, stage_segments(table, [second]))
    assert len(existing_segments(table, "ix_body")) == 2

    table = commit(table, stage_index(table, [TEXT]))
    assert len(existing_segments(table, "ix_body")) == 1
    assert (search(table, "alpha"), search(table, "gamma")) == ([], ["a"])


def test_lance_guard_re_registering_a_btree_with_more_fragments_loses_rows(tmp_path: Path) -> None:
    """Why: coverage after a compaction is rebuilt, never asserted."""
    table = _two_documents(tmp_path / "t")
    created = transaction_at(table, table.version).operation
    assert isinstance(created, LanceOperation.CreateIndex)
    (old,) = [index for index in created.new_indices if index.name == "ix_id"]
    table = commit(table, something(stage_compaction(table)))
    wider = replace(old, fragment_ids=Bitmap(fragment_ids(table)))
    wrong = commit(table, stage_segments(table, [wider], [old]))
    assert ids(wrong) == ["a", "b"]
    assert where(wrong, pc.field("id") == "a") == []


def test_lance_guard_an_index_still_lists_fragments_that_are_gone(tmp_path: Path) -> None:
    """Why: coverage is what is listed and alive, and a listed number must not be given again."""
    table = _two_documents(tmp_path / "t")
    table = commit(table, something(stage_delete(table, pc.field("id") == "b")))
    assert fragment_ids(table) == [0]
    (segment,) = existing_segments(table, "ix_body")
    assert set(segment.fragment_ids) == {0, 1}
    assert unused_fragment_id(table) == 2


def test_lance_guard_statistics_tell_what_an_index_covers(tmp_path: Path) -> None:
    """Why: `explain` and `optimize` read coverage from here."""
    table = _two_documents(tmp_path / "t")
    table = commit(table, stage_append(table, rows("c", "d", body="wolf")))
    found = table.stats.index_stats("ix_body")
    assert (found["num_indexed_rows"], found["num_unindexed_rows"]) == (2, 2)
    assert {index.name: index.num_rows_indexed for index in table.describe_indices()} == {
        "ix_body": 2,
        "ix_id": 2,
    }


def test_lance_guard_statistics_leave_centroids_out_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why: every process sets this, for centroids make statistics of vectors huge."""
    table = create_table(tmp_path / "t", vector_rows("a", 20), schema=VECTOR_SCHEMA)
    table = commit(table, stage_index(table, [IndexSpec("vector", "IVF_FLAT", "ix_v", IVF)]))
    monkeypatch.setenv("LANCE_INCLUDE_VECTOR_CENTROIDS", "true")
    assert "centroids" in json.dumps(table.stats.index_stats("ix_v"))
    monkeypatch.setenv("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")
    assert "centroids" not in json.dumps(open_head(tmp_path / "t").stats.index_stats("ix_v"))


# --- compaction -------------------------------------------------------------------------------

BY_ROW_ID = ("INVERTED", "NGRAM", "BITMAP", "LABEL_LIST", "IVF_FLAT", "IVF_HNSW_SQ")
BY_ADDRESS = ("BTREE", "BLOOMFILTER", "ZONEMAP")
TAGGED_SCHEMA = VECTOR_SCHEMA.append(pa.field("tags", pa.list_(pa.string())))


def _spec(kind: str, fragments: Sequence[int] | None = None) -> IndexSpec:
    column = {"INVERTED": "body", "NGRAM": "body", "LABEL_LIST": "tags"}.get(kind, "rank")
    column = "vector" if kind.startswith("IVF") else column
    options = IVF if kind.startswith("IVF") else TEXT.options if kind == "INVERTED" else {}
    return IndexSpec(column, kind, "ix", options, fragments)


def _tagged(prefix: str, count: int) -> pa.Table:
    tags = pa.array([["wolf", prefix]] * count, TAGGED_SCHEMA.field("tags").type)
    return vector_rows(prefix, count).append_column(TAGGED_SCHEMA.field("tags"), tags)


def _one_large_two_small(path: Path, kind: str) -> LanceDataset:
    """Fragment 0 is large and not covered; 1 and 2 are small, covered, and would be compacted."""
    table = create_table(path, _tagged("large", 20), schema=TAGGED_SCHEMA)
    table = commit(table, stage_append(table, _tagged("b", 5)))
    table = commit(table, stage_append(table, _tagged("c", 5)))
    return commit(table, stage_index(table, [_spec(kind, [1, 2])]))


def _answers(table: LanceDataset, kind: str) -> int:
    """How many rows the index finds when it is asked for all thirty."""
    if kind == "INVERTED":
        return len(search(table, "wolf"))
    if kind.startswith("IVF"):
        return len(near(table, "b1", k=30))
    question = {"NGRAM": "contains(body, 'wolf')", "LABEL_LIST": "array_has_any(tags, ['wolf'])"}
    return len(where(table, question.get(kind, "rank in (0, 1, 2, 3, 4)")))


def _expected(kind: str) -> int:
    return 30 if kind in BY_ROW_ID and kind != "BITMAP" else 15


@pytest.mark.parametrize("kind", BY_ROW_ID)
def test_lance_guard_an_unnumbered_rewrite_makes_an_index_claim_fragment_zero_and_lose_its_rows(
    tmp_path: Path, kind: str
) -> None:
    """Why: tasks return new fragments as number 0, and indexes take that number literally."""
    table = _one_large_two_small(tmp_path / "t", kind)
    assert _answers(table, kind) == _expected(kind)
    results = rewrite_fragments(table, target_rows_per_fragment=20)
    wrong = commit(table, something(stage_compaction(table, results, numbered=False)))
    assert coverage(wrong, "ix") == {0}
    assert _answers(wrong, kind) < _expected(kind)
    right = commit(wrong, stage_index(wrong, [_spec(kind)]))
    assert _answers(right, kind) == _expected(kind)


@pytest.mark.parametrize("kind", BY_ROW_ID)
def test_lance_guard_a_numbered_rewrite_keeps_the_coverage_of_an_index_by_row_id(
    tmp_path: Path, kind: str
) -> None:
    """Why: row ids outlive the rewrite, so these indexes stay right and complete without work."""
    table = _one_large_two_small(tmp_path / "t", kind)
    table = commit(table, something(stage_delete(table, pc.field("id") == "b0")))
    results = rewrite_fragments(table, target_rows_per_fragment=20)
    compacted = commit(table, something(stage_compaction(table, results)))
    assert fragment_ids(compacted) == [0, 3]
    assert coverage(compacted, "ix") == {3}
    assert _answers(compacted, kind) == _expected(kind) - 1


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("kind", BY_ADDRESS)
def test_lance_guard_a_rewrite_drops_the_coverage_of_an_index_by_address(
    tmp_path: Path, kind: str, *, numbered: bool
) -> None:
    """Why: these are right but idle after a compaction until the second link re-indexes."""
    table = _one_large_two_small(tmp_path / "t", kind)
    results = rewrite_fragments(table, target_rows_per_fragment=20)
    compacted = commit(table, something(stage_compaction(table, results, numbered=numbered)))
    assert coverage(compacted, "ix") == set()
    assert _answers(compacted, kind) == _expected(kind)


def test_lance_guard_a_compaction_plan_does_not_mix_fragments_of_different_coverage(
    tmp_path: Path,
) -> None:
    """Why: a table that is half indexed is half compacted; indexing first compacts it whole."""
    table = create_table(tmp_path / "t", rows("a"))
    for row_id in ("b", "c", "d"):
        table = commit(table, stage_append(table, rows(row_id)))
    (together,) = Compaction.plan(table, {}).tasks
    assert [fragment.id for fragment in together.fragments] == [0, 1, 2, 3]
    table = commit(table, stage_index(table, [btree("id", "ix_id", [0, 1])]))
    plan = Compaction.plan(table, {}).tasks
    assert [[fragment.id for fragment in task.fragments] for task in plan] == [[0, 1], [2, 3]]


def test_lance_guard_compaction_commit_makes_two_versions_without_our_stamp(tmp_path: Path) -> None:
    """Why: it cannot be proven ours, so the rewrite is built by hand."""
    table = create_table(tmp_path / "t", rows("a"))
    table = commit(table, stage_append(table, rows("b")))
    before = table.version
    Compaction.commit(table, rewrite_fragments(table))
    head = open_head(tmp_path / "t")
    assert head.version == before + 2
    for version in (head.version - 1, head.version):
        assert transaction_at(head, version).transaction_properties == {}


def test_lance_guard_a_transaction_that_remapped_an_index_cannot_be_read(tmp_path: Path) -> None:
    """Why: code that walks transactions takes any exception for a foreign version."""
    table = _two_documents(tmp_path / "t")
    Compaction.commit(table, rewrite_fragments(table))
    head = open_head(tmp_path / "t")
    assert coverage(head, "ix_id") == set(fragment_ids(head))
    with pytest.raises(TypeError, match="RewrittenIndex"):
        head.read_transaction(head.version)


def _two_segments(path: Path, kind: str) -> LanceDataset:
    table = create_table(path, vector_rows("a", 20), schema=VECTOR_SCHEMA)
    for prefix in "bcd":
        table = commit(table, stage_append(table, vector_rows(prefix, 20)))
    segments = [build_segment(table, _spec(kind, pair)) for pair in ([0, 1], [2, 3])]
    return commit(table, stage_segments(table, segments))


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_HNSW_SQ", "INVERTED"])
def test_lance_guard_an_unnumbered_rewrite_under_two_segments_panics(
    tmp_path: Path, kind: str
) -> None:
    """Why: a native panic is no `Exception`; both segments then claim fragment 0."""
    table = _two_segments(tmp_path / "t", kind)
    staged = something(stage_compaction(table, numbered=False))
    with pytest.raises(BaseException, match="not implemented") as panic:
        commit(table, staged)
    assert type(panic.value).__name__ == "PanicException"
    assert not isinstance(panic.value, Exception)
    assert open_head(tmp_path / "t").version == table.version


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_HNSW_SQ", "INVERTED"])
def test_lance_guard_a_numbered_rewrite_under_two_segments_lands_and_answers(
    tmp_path: Path, kind: str
) -> None:
    """Why: the panic comes from the number 0 alone."""
    table = _two_segments(tmp_path / "t", kind)
    compacted = commit(table, something(stage_compaction(table)))
    assert fragment_ids(compacted) == [4, 5]
    assert coverage(compacted, "ix") == {4, 5}
    assert search(compacted, "word3") == ["a3", "b3", "c3", "d3"]
    assert near(compacted, "c3")[0] == "c3"


def test_lance_guard_vector_segments_with_shared_centroids_merge_into_one(tmp_path: Path) -> None:
    """Why: groups of fragments are built apart and committed as one segment."""
    table = create_table(tmp_path / "t", vector_rows("a", 20), schema=VECTOR_SCHEMA)
    table = commit(table, stage_append(table, vector_rows("b", 20)))
    sample = vector_rows("a", 2)["vector"].combine_chunks()
    options = {"metric": "cosine", "num_partitions": 2, "ivf_centroids": sample}
    specs = [IndexSpec("vector", "IVF_FLAT", "ix_v", options, [number]) for number in (0, 1)]
    merged = finish_segment(table, specs[0], *(raw_segment(table, spec) for spec in specs))
    table = commit(table, stage_segments(table, [merged]))
    assert len(existing_segments(table, "ix_v")) == 1
    table = commit(table, something(stage_compaction(table)))
    assert near(table, "b3")[0] == "b3"


# --- vectors ----------------------------------------------------------------------------------


def _null_zero_and_one_vector(path: Path) -> LanceDataset:
    vectors = [None, [0.0] * 8, [1.0] * 8]
    found = pa.table(
        {"id": ["n", "z", "v"], "body": [None] * 3, "rank": [None] * 3, "vector": vectors},
        schema=VECTOR_SCHEMA,
    )
    return create_table(path, found, schema=VECTOR_SCHEMA)


def test_lance_guard_training_needs_as_many_usable_vectors_as_partitions(tmp_path: Path) -> None:
    """Why: nulls and zeros do not count, so partitions are clamped to the others."""
    table = _null_zero_and_one_vector(tmp_path / "t")
    with pytest.raises(RuntimeError, match="cannot train"):
        raw_segment(table, IndexSpec("vector", "IVF_FLAT", "ix", {**IVF, "num_partitions": 2}))
    raw_segment(table, IndexSpec("vector", "IVF_FLAT", "ix", IVF))


def test_lance_guard_partitions_are_clamped_to_the_rows_of_the_table(tmp_path: Path) -> None:
    """Why: Lance clamps by itself, but to rows and not to usable vectors (see above)."""
    table = create_table(tmp_path / "t", vector_rows("a", 2), schema=VECTOR_SCHEMA)
    many = IndexSpec("vector", "IVF_FLAT", "ix", {**IVF, "num_partitions": 9})
    table = commit(table, stage_index(table, [many]))
    assert coverage(table, "ix") == {0}
    assert near(table, "a1") == ["a1", "a0"]


PQ = IndexSpec("vector", "IVF_PQ", "ix", {**IVF, "num_sub_vectors": 2})


def test_lance_guard_product_quantisation_of_a_small_table_is_untrained(tmp_path: Path) -> None:
    """Why: no error says so; only coverage tells that a table is below 256 rows."""
    table = create_table(tmp_path / "t", vector_rows("a", 255), schema=VECTOR_SCHEMA)
    table = commit(table, stage_index(table, [PQ]))
    assert coverage(table, "ix") == set()
    assert near(table, "a1")[0] == "a1"


def test_lance_guard_product_quantisation_of_few_rows_of_a_large_table_fails(
    tmp_path: Path,
) -> None:
    """Why: below 256 rows in the fragments to cover, a flat index or none is built."""
    table = create_table(tmp_path / "t", vector_rows("a", 255), schema=VECTOR_SCHEMA)
    table = commit(table, stage_append(table, vector_rows("b", 1)))
    with pytest.raises(RuntimeError, match="Requires 256 rows"):
        raw_segment(table, replace(PQ, fragments=[0]))


@pytest.mark.parametrize("indexed", [False, True])
def test_lance_guard_null_and_zero_vectors_have_no_cosine_neighbours(
    tmp_path: Path, *, indexed: bool
) -> None:
    """Why: `nearest` drops rows without a distance, with or without an index."""
    table = _null_zero_and_one_vector(tmp_path / "t")
    if indexed:
        table = commit(table, stage_index(table, [IndexSpec("vector", "IVF_FLAT", "ix", IVF)]))
    assert near(table, "v") == ["v"]


# --- updates built by hand --------------------------------------------------------------------


def _hand_built(table: LanceDataset) -> tuple[list[int], list[FragmentMetadata], list[Any]]:
    """Replaces `a`, alone in fragment 0, and `b`, first of fragment 1, and adds `z`."""
    (changed,) = write_rows(table, rows("a", "b", body="gamma", rank=5))
    changed = replace(changed, row_id_meta=RowIdSequence([0, 1]).to_inline_metadata())
    kept = delete_offsets(table, 1, [0])
    assert delete_offsets(table, 0, [0]) is None
    assert kept is not None
    return [0], [kept], [changed, *write_rows(table, rows("z", body="gamma", rank=5))]


def _indexed_pieces(path: Path) -> LanceDataset:
    table = create_table(path, rows("a", body="alpha"))
    table = commit(table, stage_append(table, rows("b", "c", body="beta")))
    return commit(table, stage_index(table, [TEXT, btree("rank", "ix_rank")]))


def test_lance_guard_a_hand_built_update_that_lists_all_fields_equals_an_upsert(
    tmp_path: Path,
) -> None:
    """Why: distributed upserts are built from pieces and must be indistinguishable."""
    table = _indexed_pieces(tmp_path / "t")
    removed, updated, new = _hand_built(table)
    table = commit(table, stage_pieces_update(table, removed=removed, updated=updated, new=new))
    assert (search(table, "alpha"), search(table, "beta")) == ([], ["c"])
    assert search(table, "gamma") == ["a", "b", "z"]
    assert where(table, pc.field("rank") == 5) == ["a", "b", "z"]
    columns = ("_rowid", "_row_created_at_version", "_row_last_updated_at_version")
    assert by_id(table, *columns) == {
        "a": (0, 1, 4),
        "b": (1, 2, 4),
        "c": (2, 2, 2),
        "z": (3, 4, 4),
    }


def test_lance_guard_a_hand_built_update_that_lists_no_field_leaves_text_search_stale(
    tmp_path: Path,
) -> None:
    """Why: filters look right while search is wrong, so the field list is never left out."""
    table = _indexed_pieces(tmp_path / "t")
    removed, updated, new = _hand_built(table)
    staged = stage_pieces_update(table, removed=removed, updated=updated, new=new, preserve_for=[])
    wrong = commit(table, staged)
    assert (search(wrong, "alpha"), search(wrong, "gamma")) == (["a"], [])
    assert where(wrong, pc.field("rank") == 5) == ["a", "b", "z"]


def test_lance_guard_an_upsert_by_lance_lists_all_fields(tmp_path: Path) -> None:
    """Why: the hand-built form copies what Lance itself does."""
    table = create_table(tmp_path / "t", vector_rows("a", 3), schema=VECTOR_SCHEMA)
    staged = stage_merge_insert(table, vector_rows("a", 1)).transaction.operation
    assert isinstance(staged, LanceOperation.Update)
    listed = staged.fields_for_preserving_frag_bitmap
    assert sorted(listed) == sorted(all_field_ids(table.lance_schema))
    assert staged.update_mode == "rewrite_rows"
