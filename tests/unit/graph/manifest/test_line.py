"""One version of a line: which tables live at which commit, and how fresh a reader is."""

import subprocess
import sys
from collections.abc import Iterable

import pytest
from tests.unit.graph.graphs import (
    Opened,
    Watcher,
    delete,
    merge_raw,
    merge_rows,
    names,
    state,
    upsert,
)

from omnigraph.errors import BranchNotFound, GraphNotFound, ManifestCorrupt
from omnigraph.graph.manifest import manifest_line as lines
from omnigraph.graph.manifest.manifest_line import ManifestLine, read_line
from omnigraph.graph.manifest.rows import (
    BranchRow,
    CommitRow,
    HeadRow,
    PinRow,
    Row,
    SchemaRow,
    TableRef,
    TableRow,
    TombstoneRow,
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

FIRST = TableRef(TableId(1), Incarnation(1))
AGAIN = TableRef(TableId(1), Incarnation(2))
OTHER = TableRef(TableId(2), Incarnation(1))


def pin(ref: TableRef, seq: int, *, key: str = "node:A", version: int | None = None) -> PinRow:
    return PinRow(
        ref=ref,
        seq=seq,
        table_key=key,
        location=f"nodes/{ref}",
        branch=None,
        version=version or seq + 1,
        row_count=0,
    )


def end(ref: TableRef, seq: int) -> TombstoneRow:
    return TombstoneRow(ref=ref, seq=seq, table_key="node:A")


def commit(seq: int, *, key: str | None = None, copied: bool = False) -> CommitRow:
    return CommitRow(
        commit_id=CommitId(f"C{seq:05}{'c' if copied else ''}"),
        seq=seq,
        parent=CommitId(f"C{seq - 1:05}") if seq else None,
        kind="mutation",
        schema_hash="h",
        operation_id=OperationId(f"O{seq:05}"),
        authored_at=seq,
        authored_branch=MAIN_BRANCH,
        idempotency_key=key,
        copied_from=BranchId("01j") if copied else None,
    )


def line_of(
    graphs: Opened,
    given: Iterable[Row],
    head: int,
    *,
    head_commit: str | None = None,
    without: str | None = None,
) -> ManifestLine:
    """A manifest of exactly these rows, stored and read back."""
    every: list[Row] = [
        *given,
        HeadRow(
            commit_id=CommitId(head_commit or f"C{head:05}"), seq=head, branch_id=MAIN_BRANCH_ID
        ),
        SchemaRow(schema_hash="h", next_type_id=9, next_property_id=9),
    ]
    graphs.root.mkdir(exist_ok=True)
    storage = graphs.storage()
    kept = [each for each in every if each.encode()["object_id"] != without]
    storage.manifest.create(encode_rows(kept), {})
    handle = storage.manifest.open_line(MAIN_BRANCH_ID)
    return read_line(storage.manifest, handle)


def versions(line: ManifestLine, seq: int) -> dict[TableRef, int]:
    return {ref: found.version for ref, found in line.pins_at(seq).items()}


def test_the_pin_of_a_moment_is_the_newest_not_after_it(graphs: Opened) -> None:
    pins = [pin(FIRST, 0), pin(FIRST, 3), pin(FIRST, 5), pin(OTHER, 4, key="node:B")]
    line = line_of(graphs, [*pins, *map(commit, range(7))], head=6)
    expected = [1, 1, 1, 4, 4, 6, 6]
    assert [versions(line, seq)[FIRST] for seq in range(7)] == expected
    assert [OTHER in versions(line, seq) for seq in range(7)] == [seq >= 4 for seq in range(7)]
    assert line.pins == line.pins_at(6)


def test_a_tombstone_ends_its_own_lifetime_and_no_other(graphs: Opened) -> None:
    history: list[Row] = [
        TableRow(ref=FIRST, table_key="node:A", location="nodes/1-1"),
        TableRow(ref=AGAIN, table_key="node:A", location="nodes/1-2"),
        pin(FIRST, 0),
        pin(FIRST, 2),
        end(FIRST, 3),
        pin(AGAIN, 5),
        pin(AGAIN, 6),
        end(AGAIN, 8),
    ]
    line = line_of(graphs, [*history, *map(commit, range(10))], head=9)
    living = [list(versions(line, seq).items()) for seq in range(10)]
    assert living == [
        [(FIRST, 1)],
        [(FIRST, 1)],
        [(FIRST, 3)],
        [],
        [],
        [(AGAIN, 6)],
        [(AGAIN, 7)],
        [(AGAIN, 7)],
        [],
        [],
    ]
    assert line.is_ended(FIRST)
    assert line.has_table(FIRST)
    assert not line.has_table(OTHER)


def test_two_living_tables_of_one_name_are_damage_and_a_dropped_one_is_not(graphs: Opened) -> None:
    history: list[Row] = [pin(FIRST, 0), end(FIRST, 2), pin(AGAIN, 2), pin(OTHER, 4)]
    line = line_of(graphs, [*history, *map(commit, range(5))], head=4)
    assert list(line.pins_at(3)) == [AGAIN]
    with pytest.raises(ManifestCorrupt, match="node:A"):
        line.pins_at(4)


def test_a_line_with_two_rows_of_one_id_is_damage(graphs: Opened) -> None:
    with pytest.raises(ManifestCorrupt, match="2 rows 'C00001'"):
        line_of(graphs, [commit(0), commit(1), commit(1)], head=1)


def test_a_row_of_the_history_that_is_there_twice_is_damage(graphs: Opened) -> None:
    line = line_of(graphs, [commit(0), commit(0), commit(1)], head=1)
    with pytest.raises(ManifestCorrupt, match="2 rows 'C00000'"):
        line.commit("C00000")


def test_the_head_of_a_long_line_is_the_same_read_alone(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    history: list[Row] = [
        pin(FIRST, 0),
        pin(FIRST, 2),
        end(FIRST, 3),
        pin(AGAIN, 5),
        pin(OTHER, 1, key="node:B"),
        BranchRow(
            name=BranchName("rev"),
            branch_id=BranchId("01j"),
            parent_branch_id=MAIN_BRANCH_ID,
            forked_at=CommitId("C00001"),
            created_at=1,
        ),
    ]
    whole = line_of(graphs, [*history, *map(commit, range(9)), commit(8, copied=True)], head=8)
    monkeypatch.setattr("omnigraph.graph.manifest.manifest_line.READ_WHOLE_UP_TO_ROWS", 0)
    line = read_line(graphs.storage().manifest, whole.handle)
    assert line.tip == whole.tip
    assert line.pins == {AGAIN: pin(AGAIN, 5), OTHER: pin(OTHER, 1, key="node:B")}
    assert list(line.branches()) == ["rev"]
    assert line.pins_at(2) == whole.pins_at(2)
    assert line.commit("C00003") == whole.commit("C00003")


def test_a_long_line_is_read_by_its_head_first(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    graph.branches.create("rev")
    delete(graph, "a")
    whole = graphs.read_only().snapshot()
    monkeypatch.setattr("omnigraph.graph.manifest.manifest_line.READ_WHOLE_UP_TO_ROWS", 0)
    watcher = Watcher()
    short = graphs.coordinated(observer=watcher)
    assert state(short.snapshot()) == state(whole)
    made = [each.operation for each in watcher.calls if each.target == "__manifest"]
    assert made.count("scan") == made.count("take") == 1
    assert [each.name for each in short.branches.list()] == ["main", "rev"]
    upsert(short, "b")
    assert names(short) == ["b"]


@pytest.mark.parametrize("missing", ["graph_head", "schema", "commit"])
def test_a_line_without_head_schema_or_head_commit_is_damage(graphs: Opened, missing: str) -> None:
    gone = "C00000" if missing == "commit" else missing
    with pytest.raises(ManifestCorrupt, match=gone):
        line_of(graphs, [commit(0)], head=0, without=gone)


def test_a_commit_is_found_by_id_and_by_number_and_a_copied_one_only_by_id(graphs: Opened) -> None:
    line = line_of(graphs, [commit(0), commit(1), commit(7, copied=True)], head=1)
    found = line.commit_at(1)
    assert found is not None
    assert line.commit("C00001") == found
    assert line.commit_at(7) is None
    copied = line.commit("C00007c")
    assert copied is not None
    assert copied.seq == 7
    assert line.commit("graph_head") is None
    assert line.commit("nobody") is None


@pytest.mark.parametrize("seq", [-1, 2, 1 << 70, -(1 << 70)])
def test_a_number_outside_the_line_is_no_commit(graphs: Opened, seq: int) -> None:
    assert line_of(graphs, [commit(0), commit(1)], head=1).commit_at(seq) is None


def test_an_idempotency_key_is_found_exactly_and_the_newest_counts(graphs: Opened) -> None:
    key = 'a"b\\c'
    history = [commit(0), commit(1, key=key), commit(2, key="other"), commit(3, key=key)]
    line = line_of(graphs, [*history, commit(9, key=key, copied=True)], head=3)
    found = line.commit_of_key(key, "main")
    assert found is not None
    assert found.seq == 3
    assert line.commit_of_key('a"b', "main") is None
    assert line.commit_of_key("", "main") is None


def test_a_key_of_a_later_version_of_the_line_is_not_on_an_earlier_one(graphs: Opened) -> None:
    coordinator = graphs.init()._graph
    upsert(graphs.open(), "a")
    earlier = coordinator.lines.read(MAIN_BRANCH_ID)
    assert earlier.commit_of_key("k", "main") is None
    row = b'{"type": "Person", "data": {"name": "b"}}'
    sent = graphs.open().load(row, mode="append", idempotency_key="k").commit
    found = coordinator.lines.read(MAIN_BRANCH_ID).commit_of_key("k", "main")
    assert found is not None
    assert sent is not None
    assert found.commit_id == sent.graph_commit_id
    assert earlier.commit_of_key("k", "main") is None


def test_an_idempotency_key_is_forgotten_after_ten_thousand_commits(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lines.IDEMPOTENCY_WINDOW == 10_000
    monkeypatch.setattr(lines, "IDEMPOTENCY_WINDOW", 3)
    line = line_of(graphs, [commit(each, key=f"k{each}") for each in range(6)], head=5)
    assert [line.commit_of_key(f"k{each}", "main") is not None for each in range(6)] == [
        False,
        False,
        False,
        True,
        True,
        True,
    ]


def by_id(line: ManifestLine) -> list[dict[str, object]]:
    return line.rows.sort_by("object_id").to_pylist()


def test_a_line_carried_over_a_merge_equals_a_fresh_read(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    delete(graph, "a")
    graph.branches.create("rev")
    upsert(graph, "b", branch="rev")
    graph.branches.delete("rev")
    cached = graph._graph.lines.read(MAIN_BRANCH_ID)
    fresh = graphs.open()._graph.lines.read_again(MAIN_BRANCH_ID)
    assert cached.handle.version == fresh.handle.version
    assert by_id(cached) == by_id(fresh)
    assert cached.tip == fresh.tip


def test_a_reader_sees_what_another_handle_has_just_committed(graphs: Opened) -> None:
    writer, reader = graphs.init(), graphs.read_only()
    for number in range(4):
        made = upsert(writer, f"p{number}")
        assert reader.snapshot().graph_commit_id == made.graph_commit_id
        assert names(reader) == [f"p{each}" for each in range(number + 1)]


def test_an_unchanged_line_is_not_read_again(graphs: Opened) -> None:
    graph = graphs.init()
    first = graph._graph.lines.read(MAIN_BRANCH_ID)
    assert graph._graph.lines.read(MAIN_BRANCH_ID) is first
    upsert(graphs.open(), "a")
    assert graph._graph.lines.read(MAIN_BRANCH_ID) is not first


@pytest.mark.extended
def test_a_reader_sees_what_another_process_has_just_committed(graphs: Opened) -> None:
    graph = graphs.init()
    assert names(graph) == []
    code = (
        "import sys, omnigraph, pyarrow as pa\n"
        "with omnigraph.Graph.open(sys.argv[1]) as g, g.write() as w:\n"
        "    w.append('Person', pa.table({'name': ['theirs']}))\n"
        "    print(w.commit().graph_commit_id)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(graphs.root)], capture_output=True, text=True, check=True
    )
    assert graph.snapshot().graph_commit_id == done.stdout.strip()
    assert names(graph) == ["theirs"]


def test_a_line_that_is_gone_is_a_branch_that_is_gone(graphs: Opened) -> None:
    graph = graphs.init()
    with pytest.raises(BranchNotFound):
        graph._graph.lines.read(BranchId("01j00000000000000000000000"))


def test_a_manifest_that_is_gone_is_a_graph_that_is_gone(graphs: Opened) -> None:
    graph = graphs.init()
    (graphs.root / "__manifest").rename(graphs.root.parent / "elsewhere")
    with pytest.raises(GraphNotFound):
        graph.snapshot()


def test_a_damaged_row_is_an_error_for_readers_and_writers(graphs: Opened) -> None:
    graph = graphs.init()
    storage = graphs.storage()
    head = graph._graph.lines.read(MAIN_BRANCH_ID).head
    merge_raw(storage, head.encode() | {"metadata": "{}"})
    with pytest.raises(ManifestCorrupt):
        graph.snapshot()
    merge_rows(storage, [head])
    assert graph.snapshot().graph_commit_id == head.commit_id
