"""Every kind of manifest row has one form, and what is not in that form is refused."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.graph.graphs import Opened, merge_raw

from omnigraph.errors import ManifestCorrupt
from omnigraph.graph.manifest.manifest_line import read_line
from omnigraph.graph.manifest.rows import (
    BranchRow,
    BranchState,
    CommitRow,
    HeadRow,
    PinRow,
    RawRow,
    RecoveryRow,
    Row,
    SchemaRow,
    TableRef,
    TableRow,
    TagRow,
    TombstoneRow,
    decode_branch,
    decode_commit,
    decode_head,
    decode_pin,
    decode_recovery,
    decode_schema,
    decode_tag,
    encode_rows,
)
from omnigraph.ids import (
    MAIN_BRANCH,
    MAIN_BRANCH_ID,
    BranchId,
    BranchName,
    CommitId,
    Incarnation,
    OperationId,
    TableId,
)
from omnigraph.storage.manifest import MANIFEST_SCHEMA

REF = TableRef(TableId(7), Incarnation(2))
TAG = TagRow(
    name="v/1",
    tag_id="01T",
    commit_id=CommitId("01C"),
    branch_id=BranchId("01j"),
    seq=4,
    created_at=1_794_765_848_000_001,
    actor_id="ann",
)
COMMIT = CommitRow(
    commit_id=CommitId("01C"),
    seq=4,
    parent=CommitId("01B"),
    merged_parent=CommitId("01A"),
    kind="merge",
    schema_hash="ab" * 32,
    operation_id=OperationId("01O"),
    authored_at=1_794_765_848_000_000,
    authored_branch=BranchName("rev/1"),
    actor_id='Zoë "z"',
    read_set={"7-2": 3},
    idempotency_key="key 1",
    request_digest="cd" * 32,
    stats={"tables": {"node:Person": {"added": 1}}},
)
PIN = PinRow(
    ref=REF,
    seq=4,
    table_key="node:Person",
    location="nodes/7-2",
    branch="b-01j",
    version=(1 << 63) + 1,
    row_count=12,
    transaction="uuid",
)
HEAD = HeadRow(commit_id=CommitId("01C"), seq=4, branch_id=MAIN_BRANCH_ID)
SCHEMA_ROW = SchemaRow(schema_hash="ab" * 32, next_type_id=8, next_property_id=31)
BRANCH = BranchRow(
    name=BranchName("rev/1"),
    branch_id=BranchId("01j"),
    parent_branch_id=MAIN_BRANCH_ID,
    forked_at=CommitId("01B"),
    created_at=5,
    actor_id=None,
    state=BranchState.DELETED,
)
RECOVERY = RecoveryRow(
    operation_id=OperationId("01O"),
    recovery_kind="rolled_back",
    writer_kind="mutation",
    recovery_for_actor="alice",
    recovered_by={"host": "h", "pid": 3},
    recovered_at=6,
    tables=({"table_key": "node:Person", "class": "NoMovement"},),
    graph_commit_id=CommitId("01D"),
)
DECODERS = (
    (COMMIT, decode_commit),
    (PIN, decode_pin),
    (HEAD, decode_head),
    (SCHEMA_ROW, decode_schema),
    (BRANCH, decode_branch),
    (TAG, decode_tag),
    (RECOVERY, decode_recovery),
)


def raw(row: Row) -> RawRow:
    table = encode_rows([row])
    assert table.schema == MANIFEST_SCHEMA
    return table.to_pylist()[0]


@pytest.mark.parametrize(("row", "decode"), DECODERS, ids=lambda each: type(each).__name__)
def test_what_a_row_says_is_read_back(row: Row, decode: Any) -> None:  # noqa: ANN401 - six kinds
    assert decode(raw(row)) == row


def test_rows_without_content_of_their_own_carry_their_coordinates() -> None:
    table = raw(TableRow(ref=REF, table_key="edge:Knows", location="edges/7-2"))
    ended = raw(TombstoneRow(ref=REF, seq=9, table_key="edge:Knows"))
    assert (table["object_id"], table["object_type"]) == ("table:7-2", "table")
    assert (table["table_id"], table["incarnation"], table["location"]) == (7, 2, "edges/7-2")
    assert table["metadata"] == '{"kind":"edge"}'
    assert (ended["object_id"], ended["seq"]) == ("tombstone:7-2:9", 9)


def test_a_commit_from_before_its_time_was_kept_has_that_of_its_author() -> None:
    stored = raw(replace(COMMIT, committed_at=COMMIT.authored_at + 5))
    assert decode_commit(stored).committed_at == COMMIT.authored_at + 5
    metadata = json.loads(stored["metadata"])
    del metadata["committed_at"]
    assert decode_commit(stored | {"metadata": json.dumps(metadata)}) == COMMIT
    assert COMMIT.committed_at == COMMIT.authored_at


def test_a_copied_commit_has_no_number_on_this_line_and_keeps_its_own() -> None:
    copied = CommitRow(
        commit_id=CommitId("01C"),
        seq=17,
        parent=None,
        kind="mutation",
        schema_hash="x",
        operation_id=OperationId("01O"),
        authored_at=1,
        authored_branch=MAIN_BRANCH,
        copied_from=BranchId("01j"),
    )
    assert raw(copied)["seq"] is None
    assert decode_commit(raw(copied)) == copied


@pytest.mark.parametrize("metadata", [None, "", "{", "[]", "3", '"text"', "null"])
@pytest.mark.parametrize(("row", "decode"), DECODERS, ids=lambda each: type(each).__name__)
def test_a_row_without_readable_metadata_is_damage(
    row: Row,
    decode: Any,  # noqa: ANN401 - six kinds
    metadata: str | None,
) -> None:
    with pytest.raises(ManifestCorrupt, match="metadata") as caught:
        decode(raw(row) | {"metadata": metadata})
    assert caught.value.details["object_id"] == raw(row)["object_id"]


@pytest.mark.parametrize(
    ("row", "decode"),
    [each for each in DECODERS if each[0] is not PIN],
    ids=lambda each: type(each).__name__,
)
def test_a_row_without_its_fields_is_damage(row: Row, decode: Any) -> None:  # noqa: ANN401
    with pytest.raises(ManifestCorrupt):
        decode(raw(row) | {"metadata": "{}"})


@pytest.mark.parametrize("metadata", ['{"state":"asleep"}', '{"state":"live","extra":1}'])
def test_a_branch_row_with_an_unknown_word_is_damage(metadata: str) -> None:
    with pytest.raises(ManifestCorrupt):
        decode_branch(raw(BRANCH) | {"metadata": metadata})
    with pytest.raises(ManifestCorrupt):
        decode_tag(raw(TAG) | {"metadata": metadata})


@pytest.mark.parametrize(
    "column", ["seq", "table_id", "incarnation", "table_key", "location", "table_version"]
)
def test_a_pin_without_one_of_its_columns_is_damage(column: str) -> None:
    with pytest.raises(ManifestCorrupt, match=column):
        decode_pin(raw(PIN) | {column: None})


def test_a_head_without_a_number_is_damage() -> None:
    with pytest.raises(ManifestCorrupt, match="seq"):
        decode_head(raw(HEAD) | {"seq": None})


@pytest.mark.parametrize("column", ["table_id", "incarnation"])
def test_a_stored_pin_without_its_table_is_damage(graphs: Opened, column: str) -> None:
    graphs.init()
    storage = graphs.storage()
    merge_raw(storage, raw(PIN) | {"seq": 0, column: None})
    handle = storage.manifest.open_line(MAIN_BRANCH_ID)
    with pytest.raises(ManifestCorrupt):
        _ = read_line(storage.manifest, handle).pins
