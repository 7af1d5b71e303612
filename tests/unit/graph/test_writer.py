"""The transactional writer: all changes of a write or none, checked against what it saw."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.extended import thinned
from tests.unit.graph.graphs import (
    SCHEMA,
    Opened,
    committed,
    delete,
    listing,
    made_once,
    names,
    once,
    people,
    require_settled,
    rows,
    sidecars,
    state,
    table_files,
    upsert,
)

from omnigraph import Graph
from omnigraph.errors import (
    BranchNotFound,
    ConstraintViolation,
    IdempotencyKeyReused,
    InternalError,
    InvalidArgument,
    KeyConflict,
    OmnigraphError,
    PreconditionFailed,
    ReadOnlyGraph,
    ReadSetChanged,
    ResourceLimit,
    SnapshotReclaimed,
)
from omnigraph.failpoints import armed
from omnigraph.graph.commit.read_set import AllRows
from omnigraph.graph.commit.txn import PreparedWrite, WriteRequest, WriteTxn
from omnigraph.graph.history.commit_graph import Commit
from omnigraph.graph.manifest.intent import ParentRule, SidecarKind
from omnigraph.graph.manifest.rows import CommitRow
from omnigraph.graph.writer import Writer
from omnigraph.ids import MAIN_BRANCH, MAIN_BRANCH_ID

PREPARED = "mutation.post_stage_pre_lease"


def counts(commit: Commit, key: str = "node:Person") -> tuple[int, int, int]:
    """Rows that a commit added, changed and removed."""
    found = commit.stats["tables"][key]
    return found["added"], found["changed"], found["removed"]


def ages(graph: Graph, branch: str = "main") -> dict[str, int | None]:
    return {key: row["age"] for key, row in state(graph.snapshot(branch=branch))["Person"].items()}


def write(graph: Graph, act: Callable[[Writer], None], branch: str = "main") -> Commit:
    with graph.write(branch) as writer:
        act(writer)
        return committed(writer.commit())


def both(*acts: Callable[[Writer], None]) -> Callable[[Writer], None]:
    """The acts one after the other."""

    def act(writer: Writer) -> None:
        for each in acts:
            each(writer)

    return act


def disk(root: Path) -> tuple[set[str], set[str], list[Path]]:
    """Table versions, manifest versions, sidecars."""
    manifest = {str(path) for path in (root / "__manifest").rglob("_versions/*")}
    return table_files(root), manifest, sidecars(root)


@pytest.fixture(params=thinned(["main", "rev"]))
def branch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


on_both = pytest.mark.parametrize("branch", ["main", "rev"])
"""For the tests that the default suite runs on a branch too."""


@pytest.fixture(scope="module")
def three_persons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = rows(*({"name": name, "age": at} for at, name in enumerate("abc", start=1)))

    def fill(graph: Graph) -> None:
        write(graph, lambda writer: writer.append("Person", given))

    return made_once(tmp_path_factory.mktemp("three"), SCHEMA, fill)


@pytest.fixture
def graph(graphs: Opened, three_persons: Path, branch: str) -> Graph:
    """Persons a (1), b (2), c (3) on the branch."""
    made = graphs.copied(three_persons)
    if branch != "main":
        made.branches.create(branch)
    return made


@on_both
def test_an_append_adds_rows(graph: Graph, branch: str) -> None:
    made = write(graph, lambda writer: writer.append("Person", people("d", "e")), branch)
    assert counts(made) == (2, 0, 0)
    assert ages(graph, branch) == {"a": 1, "b": 2, "c": 3, "d": None, "e": None}
    require_settled(graph, branch)


def test_an_upsert_replaces_whole_rows(graph: Graph, branch: str) -> None:
    upsert(graph, "a", age=1, email="a@x", branch=branch)
    made = write(graph, lambda writer: writer.upsert("Person", people("a", "d", age=11)), branch)
    assert counts(made) == (1, 1, 0)
    assert ages(graph, branch) == {"a": 11, "b": 2, "c": 3, "d": 11}
    assert graph.snapshot(branch=branch).entity("Person", "a")["email"] is None  # type: ignore[index]


def test_of_several_upserts_of_one_edge_the_last_wins(graph: Graph, branch: str) -> None:
    def act(writer: Writer) -> None:
        for since in (1, 2, 3):
            writer.upsert("Knows", rows({"id": "e", "src": "a", "dst": "b", "since": since}))

    made = write(graph, act, branch)
    assert counts(made, "edge:Knows") == (1, 0, 0)
    found = graph.snapshot(branch=branch).entity("Knows", "e")
    assert found == {"id": "e", "src": "a", "dst": "b", "since": 3}


def test_of_several_upserts_of_one_key_the_last_wins(graph: Graph, branch: str) -> None:
    def act(writer: Writer) -> None:
        writer.append("Person", people("n", age=9))
        writer.upsert("Person", people("a", "b", age=10))
        writer.upsert("Person", people("a", "n", age=11))

    made = write(graph, act, branch)
    assert counts(made) == (1, 2, 0)
    assert ages(graph, branch) == {"a": 11, "b": 10, "c": 3, "n": 11}


@pytest.mark.parametrize("first", ["append", "upsert"])
def test_an_insert_does_not_replace_what_the_same_write_has(graph: Graph, first: str) -> None:
    with graph.write() as writer:
        getattr(writer, first)("Person", people("n", age=1))
        writer.append("Person", people("n", age=2))
        with pytest.raises(ConstraintViolation):
            writer.commit()


def test_a_delete_removes_rows_and_ignores_ids_that_do_not_exist(graph: Graph, branch: str) -> None:
    made = write(graph, lambda writer: writer.delete("Person", ["a", "nobody", "c", "a"]), branch)
    assert counts(made) == (0, 0, 2)
    assert ages(graph, branch) == {"b": 2}


@on_both
def test_an_overwrite_replaces_every_row(graph: Graph, branch: str) -> None:
    made = write(graph, lambda writer: writer.overwrite("Person", people("z", age=9)), branch)
    assert counts(made) == (1, 0, 3)
    assert ages(graph, branch) == {"z": 9}
    emptied = write(graph, lambda writer: writer.overwrite("Person", people()), branch)
    assert counts(emptied) == (0, 0, 1)
    assert ages(graph, branch) == {}
    require_settled(graph, branch)


MIXED: dict[str, tuple[Callable[[Writer], None], tuple[int, int, int], dict[str, int]]] = {
    "delete and insert": (
        both(
            lambda writer: writer.delete("Person", ["a"]),
            lambda writer: writer.append("Person", people("d", age=4)),
        ),
        (1, 0, 1),
        {"b": 2, "c": 3, "d": 4},
    ),
    "delete and change": (
        both(
            lambda writer: writer.delete("Person", ["a", "b"]),
            lambda writer: writer.upsert("Person", people("c", age=30)),
        ),
        (0, 1, 2),
        {"c": 30},
    ),
    "delete, change and insert": (
        both(
            lambda writer: writer.upsert("Person", people("c", "d", age=7)),
            lambda writer: writer.delete("Person", ["a", "nobody"]),
            lambda writer: writer.append("Person", people("e", age=8)),
        ),
        (2, 1, 1),
        {"b": 2, "c": 7, "d": 7, "e": 8},
    ),
    "delete what is written too": (
        both(
            lambda writer: writer.delete("Person", ["a", "b"]),
            lambda writer: writer.upsert("Person", people("a", age=5)),
        ),
        (0, 1, 1),
        {"a": 5, "c": 3},
    ),
    "delete nothing and insert": (
        both(
            lambda writer: writer.delete("Person", ["nobody"]),
            lambda writer: writer.upsert("Person", people("d", age=4)),
        ),
        (1, 0, 0),
        {"a": 1, "b": 2, "c": 3, "d": 4},
    ),
}


@pytest.mark.parametrize("case", MIXED)
def test_changes_of_several_kinds_to_one_table_are_one_commit_with_exact_counts(
    graph: Graph, branch: str, case: str
) -> None:
    act, expected, after = MIXED[case]
    made = write(graph, act, branch)
    assert counts(made) == expected
    assert ages(graph, branch) == after
    require_settled(graph, branch)


@pytest.mark.parametrize("case", MIXED)
def test_counts_stay_exact_when_the_write_moves_to_a_newer_base(
    graphs: Opened, graph: Graph, branch: str, case: str
) -> None:
    act, expected, after = MIXED[case]
    other = graphs.open()
    with armed(PREPARED, once(lambda: upsert(other, "x", "y", age=0, branch=branch))):
        made = write(graph, act, branch)
    assert counts(made) == expected
    assert ages(graph, branch) == after | {"x": 0, "y": 0}
    require_settled(graph, branch)


@on_both
def test_a_write_of_several_tables_is_one_commit(graph: Graph, branch: str) -> None:
    def act(writer: Writer) -> None:
        writer.append("Person", people("d"))
        writer.append("Knows", rows({"src": "d", "dst": "a"}))
        writer.upsert("Doc", rows({"title": "t"}))

    before = len(graph.commits.list(branch=branch))
    made = write(graph, act, branch)
    assert len(graph.commits.list(branch=branch)) == before + 1
    assert set(made.stats["tables"]) == {"node:Person", "edge:Knows", "node:Doc"}
    snapshot = graph.snapshot(branch=branch)
    assert [snapshot.count(name) for name in ("Person", "Knows", "Doc")] == [4, 1, 1]


NOTHING: dict[str, Callable[[Writer], None]] = {
    "no change": lambda _: None,
    "no rows": lambda writer: writer.append("Person", people()),
    "no upserts": lambda writer: writer.upsert("Person", people()),
    "no ids": lambda writer: writer.delete("Person", []),
    "ids of nobody": lambda writer: writer.delete("Person", ["x", "y"]),
}


@pytest.mark.parametrize("case", NOTHING)
def test_a_write_that_changes_nothing_makes_no_commit_and_no_version(
    graphs: Opened, graph: Graph, branch: str, case: str
) -> None:
    before = disk(graphs.root)
    with graph.write(branch) as writer:
        NOTHING[case](writer)
        assert writer.commit() is None
    assert disk(graphs.root) == before


def test_a_table_that_a_write_leaves_alone_is_not_part_of_its_commit(graph: Graph) -> None:
    def act(writer: Writer) -> None:
        writer.upsert("Person", people("d"))
        writer.delete("Doc", ["nothing"])
        writer.append("Knows", rows())

    before = {each.table_key: each for each in graph.snapshot().tables}
    made = write(graph, act)
    after = {each.table_key: each for each in graph.snapshot().tables}
    assert set(made.stats["tables"]) == {"node:Person"}
    assert after["node:Doc"] == before["node:Doc"]
    assert after["edge:Knows"] == before["edge:Knows"]


def test_a_block_without_commit_writes_nothing(graphs: Opened, graph: Graph, branch: str) -> None:
    before = listing(graphs.root)
    with graph.write(branch) as writer:
        writer.upsert("Person", people("d"))
    writer = graph.write(branch)
    writer.upsert("Person", people("d"))
    with pytest.raises(KeyError), writer:
        raise KeyError
    assert listing(graphs.root) == before


def test_a_writer_is_over_after_its_commit_and_after_its_block(graph: Graph) -> None:
    with graph.write() as writer:
        writer.upsert("Person", people("d"))
        writer.commit()
        with pytest.raises(InvalidArgument, match="over"):
            writer.commit()
        with pytest.raises(InvalidArgument, match="over"):
            writer.upsert("Person", people("e"))
    for act in (
        lambda: writer.append("Person", people("e")),
        lambda: writer.delete("Person", ["a"]),
        lambda: writer.overwrite("Person", people("e")),
        writer.commit,
    ):
        with pytest.raises(InvalidArgument, match="over"):
            act()


def test_an_overwrite_does_not_mix_with_other_changes_of_its_type(graph: Graph) -> None:
    for first, second in (
        ("overwrite", "append"),
        ("overwrite", "upsert"),
        ("overwrite", "overwrite"),
        ("overwrite", "delete"),
        ("append", "overwrite"),
        ("upsert", "overwrite"),
        ("delete", "overwrite"),
    ):
        with graph.write() as writer:
            given: dict[str, Any] = {"delete": ["a"]}
            getattr(writer, first)("Person", given.get(first, people("x")))
            with pytest.raises(InvalidArgument, match="overwrite"):
                getattr(writer, second)("Person", given.get(second, people("y")))


def test_unknown_types_and_columns_are_refused_when_they_are_given(graph: Graph) -> None:
    with graph.write() as writer:
        with pytest.raises(InvalidArgument, match="did you mean Person"):
            writer.append("Persn", people("x"))
        with pytest.raises(InvalidArgument, match="agee"):
            writer.upsert("Person", rows({"name": "x", "agee": 1}))
        assert writer.commit() is None


BROKEN: dict[str, tuple[type[OmnigraphError], Callable[[Writer], None]]] = {
    "insert of an id that exists": (
        KeyConflict,
        lambda writer: writer.append("Person", people("d", "a")),
    ),
    "the same key twice": (
        ConstraintViolation,
        lambda writer: writer.append("Person", people("d", "d")),
    ),
    "the same key twice in one upsert": (
        ConstraintViolation,
        lambda writer: writer.upsert("Person", people("d", "d")),
    ),
    "a missing key": (
        ConstraintViolation,
        lambda writer: writer.append("Person", pa.table({"age": pa.array([1], pa.int32())})),
    ),
    "an edge to nobody": (
        ConstraintViolation,
        lambda writer: writer.append("Knows", rows({"src": "a", "dst": "nobody"})),
    ),
    "a node with an edge": (
        ConstraintViolation,
        lambda writer: writer.delete("Person", ["b"]),
    ),
    "a unique value of another": (
        ConstraintViolation,
        lambda writer: writer.upsert("Person", people("d", email="c@x")),
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_write_that_breaks_a_rule_leaves_nothing(
    graphs: Opened, graph: Graph, branch: str, case: str
) -> None:
    def start(writer: Writer) -> None:
        writer.upsert("Person", people("c", email="c@x"))
        writer.append("Knows", rows({"id": "e", "src": "a", "dst": "b"}))

    write(graph, start, branch)
    before = disk(graphs.root)
    error, act = BROKEN[case]
    with graph.write(branch) as writer:
        writer.append("Doc", rows({"title": "good"}))
        act(writer)
        with pytest.raises(error):
            writer.commit()
    assert disk(graphs.root) == before
    assert graph.snapshot(branch=branch).count("Doc") == 0


def test_a_node_goes_with_its_edges_in_one_write(graph: Graph, branch: str) -> None:
    edge = rows({"id": "e", "src": "a", "dst": "b"})
    write(graph, lambda writer: writer.append("Knows", edge), branch)

    def act(writer: Writer) -> None:
        writer.delete("Person", ["b"])
        writer.delete("Knows", ["e"])

    write(graph, act, branch)
    assert graph.snapshot(branch=branch).count("Knows") == 0
    assert names(graph, branch) == ["a", "c"]


def test_a_read_only_handle_does_not_write(graphs: Opened, graph: Graph, branch: str) -> None:
    assert names(graph, branch) == ["a", "b", "c"]
    with pytest.raises(ReadOnlyGraph):
        graphs.read_only().write(branch)


def test_a_write_to_an_unknown_branch_does_not_begin(graph: Graph) -> None:
    with pytest.raises(BranchNotFound):
        graph.write("nobody")


def test_a_conditional_write_lands_only_on_the_commit_it_names(
    graphs: Opened, graph: Graph, branch: str
) -> None:
    head = graph.snapshot(branch=branch).graph_commit_id
    with graph.write(branch, if_commit=head) as writer:
        writer.upsert("Person", people("d"))
        made = committed(writer.commit())
    before = disk(graphs.root)
    for act in (NOTHING["no change"], lambda writer: writer.upsert("Person", people("e"))):
        with graph.write(branch, if_commit=head) as writer:
            act(writer)
            with pytest.raises(PreconditionFailed) as caught:
                writer.commit()
        assert caught.value.details == {"expected": head, "actual": made.graph_commit_id}
    assert disk(graphs.root) == before


@pytest.mark.parametrize(
    ("point", "changes"),
    [
        (PREPARED, "something"),
        ("mutation.post_capture", "something"),
        ("mutation.post_capture", "nothing"),
    ],
)
def test_a_condition_is_checked_again_before_anything_moves(
    graphs: Opened, graph: Graph, branch: str, point: str, changes: str
) -> None:
    other = graphs.open()
    head = graph.snapshot(branch=branch).graph_commit_id
    with (
        armed(point, once(lambda: upsert(other, "x", branch=branch))),
        graph.write(branch, if_commit=head) as writer,
    ):
        writer.upsert("Person", people("d") if changes == "something" else people())
        with pytest.raises(PreconditionFailed):
            writer.commit()
    assert names(graph, branch) == ["a", "b", "c", "x"]


@on_both
def test_disjoint_upserts_of_one_state_both_land(graphs: Opened, graph: Graph, branch: str) -> None:
    other = graphs.open()
    theirs: list[Commit] = []
    overtake = once(lambda: theirs.append(upsert(other, "a", "d", age=8, branch=branch)))
    with armed(PREPARED, overtake):
        ours = upsert(graph, "b", "e", age=9, branch=branch)
    assert ours.parent_commit_id == theirs[0].graph_commit_id
    assert counts(ours) == (1, 1, 0)
    assert ages(graph, branch) == {"a": 8, "b": 9, "c": 3, "d": 8, "e": 9}
    require_settled(graph, branch)


def test_upserts_of_one_row_both_land_and_the_later_stays(
    graphs: Opened, graph: Graph, branch: str
) -> None:
    other = graphs.open()
    with armed(PREPARED, once(lambda: upsert(other, "a", "n", age=8, branch=branch))):
        made = upsert(graph, "a", "n", age=9, branch=branch)
    assert counts(made) == (0, 2, 0)
    assert ages(graph, branch) == {"a": 9, "b": 2, "c": 3, "n": 9}


def test_writes_to_different_tables_do_not_disturb_each_other(
    graphs: Opened, graph: Graph, branch: str
) -> None:
    other = graphs.open()
    document = rows({"title": "t"})

    def theirs() -> None:
        write(other, lambda writer: writer.append("Doc", document), branch)

    with armed(PREPARED, once(theirs)):
        delete(graph, "a", branch=branch)
    assert names(graph, branch) == ["b", "c"]
    assert graph.snapshot(branch=branch).count("Doc") == 1


def test_of_two_inserts_of_one_key_the_second_is_a_conflict_and_leaves_no_row(
    graphs: Opened, graph: Graph, branch: str
) -> None:
    other = graphs.open()

    def insert(target: Graph, age: int) -> Commit:
        given = people("n", age=age)
        return write(target, lambda writer: writer.append("Person", given), branch)

    with armed(PREPARED, once(lambda: insert(other, 8))), pytest.raises(KeyConflict) as caught:
        insert(graph, 9)
    assert caught.value.details["entity_id"] == "n"
    assert ages(graph, branch) == {"a": 1, "b": 2, "c": 3, "n": 8}
    require_settled(graph, branch)


STRICT: dict[str, tuple[Callable[[Writer], None], Callable[[Writer], None]]] = {
    "delete of a changed row": (
        lambda writer: writer.delete("Person", ["a"]),
        lambda writer: writer.upsert("Person", people("a", age=8)),
    ),
    "delete of a deleted row": (
        lambda writer: writer.delete("Person", ["a"]),
        lambda writer: writer.delete("Person", ["a"]),
    ),
    "delete of a node that got an edge": (
        lambda writer: writer.delete("Person", ["a"]),
        lambda writer: writer.append("Knows", rows({"src": "b", "dst": "a"})),
    ),
    "overwrite of a changed table": (
        lambda writer: writer.overwrite("Person", people("z")),
        lambda writer: writer.upsert("Person", people("a", age=8)),
    ),
    "mixed write of a changed row": (
        both(
            lambda writer: writer.delete("Person", ["a"]),
            lambda writer: writer.upsert("Person", people("b")),
        ),
        lambda writer: writer.upsert("Person", people("b", age=8)),
    ),
}


@pytest.mark.parametrize("case", STRICT)
def test_a_strict_write_of_what_others_changed_is_refused_and_changes_nothing(
    graphs: Opened, graph: Graph, branch: str, case: str
) -> None:
    ours, theirs = STRICT[case]
    other = graphs.open()
    with (
        armed(PREPARED, once(lambda: write(other, theirs, branch))),
        pytest.raises(ReadSetChanged) as caught,
    ):
        write(graph, ours, branch)
    assert caught.value.details["member"] in ("node:Person", "edge:Knows")
    assert state(graph.snapshot(branch=branch)) == state(other.snapshot(branch=branch))
    assert len(graph.commits.list(branch=branch)) == 3
    require_settled(graph, branch)
    if case not in ("delete of a deleted row", "delete of a node that got an edge"):
        write(graph, ours, branch)


@on_both
def test_an_edge_to_a_node_that_was_deleted_meanwhile_is_refused(
    graphs: Opened, graph: Graph, branch: str
) -> None:
    other = graphs.open()
    edge = rows({"src": "a", "dst": "b"})
    with (
        armed(PREPARED, once(lambda: delete(other, "b", branch=branch))),
        pytest.raises(ConstraintViolation),
    ):
        write(graph, lambda writer: writer.append("Knows", edge), branch)
    assert graph.snapshot(branch=branch).count("Knows") == 0


def test_a_unique_value_that_was_taken_meanwhile_is_refused(
    graphs: Opened, graph: Graph, branch: str
) -> None:
    other = graphs.open()
    with (
        armed(PREPARED, once(lambda: upsert(other, "x", email="e@x", branch=branch))),
        pytest.raises(ConstraintViolation),
    ):
        upsert(graph, "y", email="e@x", branch=branch)
    assert names(graph, branch) == ["a", "b", "c", "x"]


def test_a_write_that_always_loses_gives_up_with_the_conflict(
    graphs: Opened, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.graph.commit.protocol.MAX_REPREPARE_ATTEMPTS", 3)
    other = graphs.open()
    turns: list[int] = []
    inside: list[int] = []

    def overtake() -> None:
        if inside:
            return  # The other write passes the same point.
        inside.append(1)
        turns.append(1)
        upsert(other, "u", age=len(turns))
        inside.clear()

    def prepare(txn: WriteTxn) -> PreparedWrite:
        (ref,) = [each for each, pin in txn.line.pins.items() if pin.table_key == "node:Person"]
        txn.read_set.ask(ref, AllRows())
        given = pa.Table.from_pylist(
            [{"id": "y", "name": "y"}], schema=txn.tables.layouts[ref].schema
        )
        return PreparedWrite(staged=(txn.store.stage_append(txn.writable(ref), given, txn.stamp),))

    with armed(PREPARED, overtake), pytest.raises(ReadSetChanged):
        graph._graph.protocol.run(_request(), prepare)
    assert len(turns) == 3
    assert names(graph) == ["a", "b", "c", "u"]


def _request(**changes: Any) -> WriteRequest:  # noqa: ANN401 - fields of a request
    return WriteRequest(**{"kind": SidecarKind.MUTATION, "branch": MAIN_BRANCH, **changes})


def _send(graph: Graph, name: str, request: WriteRequest) -> CommitRow:
    """A write of one person through the protocol, as mutation and load will send it."""
    coordinator = graph._graph
    writer = Writer(
        coordinator.protocol, coordinator.ids, request, graph.snapshot(branch=request.branch)
    )
    writer.upsert("Person", people(name))
    found = coordinator.protocol.run(writer._request, writer._prepare)
    assert found is not None
    return found


def test_the_same_request_with_one_key_is_one_commit(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    request = _request(idempotency_key="k1", request_digest="d1")
    first = _send(graph, "a", request)
    upsert(graph, "between")
    for each in (graph, other):
        assert _send(each, "a", request) == first
    assert len(graph.commits.list(kind="mutation")) == 2
    assert _send(graph, "b", _request(idempotency_key="k2", request_digest="d1")) != first


def test_a_key_counts_on_the_branch_that_it_was_sent_to(graphs: Opened) -> None:
    graph = graphs.init()
    first = _send(graph, "a", _request(idempotency_key="k1", request_digest="d1"))
    graph.branches.create("rev")
    for digest in ("d1", "d2"):
        request = _request(branch="rev", idempotency_key="k1", request_digest=digest)
        assert _send(graph, "b", request) != first
        graph.branches.delete("rev")
        graph.branches.create("rev")


def test_another_request_with_a_used_key_is_refused(graphs: Opened) -> None:
    graph = graphs.init()
    first = _send(graph, "a", _request(idempotency_key="k1", request_digest="d1"))
    with pytest.raises(IdempotencyKeyReused) as caught:
        _send(graph, "b", _request(idempotency_key="k1", request_digest="d2"))
    assert caught.value.details["graph_commit_id"] == first.commit_id
    assert names(graph) == ["a"]


def test_two_sends_of_one_request_at_once_are_one_commit(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    request = _request(idempotency_key="k1", request_digest="d1")
    theirs: list[CommitRow] = []
    with armed(PREPARED, once(lambda: theirs.append(_send(other, "a", request)))):
        ours = _send(graph, "a", request)
    assert [ours] == theirs
    assert len(graph.commits.list(kind="mutation")) == 1
    assert sidecars(graphs.root) == []


def test_an_exact_write_is_refused_when_the_branch_moved(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    with (
        armed(PREPARED, once(lambda: upsert(other, "x"))),
        pytest.raises(ReadSetChanged) as caught,
    ):
        _send(graph, "a", _request(parent_rule=ParentRule.EXACT))
    assert caught.value.details["member"] == "graph_head"
    assert names(graph) == ["x"]


def test_a_write_may_not_touch_too_many_tables(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = graphs.init()
    monkeypatch.setattr("omnigraph.graph.commit.protocol.MAX_OPERATION_TABLES", 1)
    with graph.write() as writer:
        writer.append("Person", people("a"))
        writer.append("Doc", rows({"title": "t"}))
        with pytest.raises(OmnigraphError) as caught:
            writer.commit()
    assert caught.value.code == "resource_limit"
    assert caught.value.details["resource"] == "operation_tables"


def test_a_change_that_nobody_can_prepare_again_is_refused_when_the_table_moved(
    graphs: Opened,
) -> None:
    """A staged write that cannot move to another base is prepared again as a whole."""
    graph, other = graphs.init(), graphs.open()
    attempts: list[int] = []

    def prepare(txn: WriteTxn) -> PreparedWrite:
        attempts.append(1)
        (ref,) = [each for each, pin in txn.line.pins.items() if pin.table_key == "node:Person"]
        given = pa.Table.from_pylist(
            [{"id": "a", "name": "a"}], schema=txn.tables.layouts[ref].schema
        )
        staged = txn.store.stage_merge_insert(txn.writable(ref), given, txn.stamp)
        return PreparedWrite(staged=(replace(staged, rebase=None),))

    with armed(PREPARED, once(lambda: upsert(other, "x"))):
        graph._graph.protocol.run(_request(), prepare)
    assert len(attempts) == 2
    assert names(graph) == ["a", "x"]


def test_a_commit_names_the_versions_it_was_prepared_on(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    pins = graph._graph.lines.read(MAIN_BRANCH_ID).pins
    made = write(graph, lambda writer: writer.append("Knows", rows({"src": "a", "dst": "a"})))
    row = graph._graph.lines.read(MAIN_BRANCH_ID).commit(made.graph_commit_id)
    assert row is not None
    expected = {str(ref): pin.version for ref, pin in pins.items() if pin.table_key != "node:Doc"}
    assert dict(row.read_set) == expected


def test_a_write_that_describes_itself_too_long_is_refused_before_any_effect(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = graphs.init()
    monkeypatch.setattr("omnigraph.graph.recovery.sidecars.MAX_SIDECAR_BYTES", 100)
    before = table_files(graphs.root)
    with pytest.raises(ResourceLimit) as caught:
        upsert(graph, "a")
    assert caught.value.details["resource"] == "sidecar_bytes"
    assert (sidecars(graphs.root), names(graph)) == ([], [])
    assert {each for each in table_files(graphs.root) - before if "_versions" in each} == set()


def test_more_transactions_of_a_table_than_planned_for_are_refused(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = graphs.init()
    monkeypatch.setattr("omnigraph.graph.commit.protocol.MAX_LINKS_PER_TABLE", 0)
    with pytest.raises(InternalError, match="node:Person"):
        upsert(graph, "a")
    assert names(graph) == []


@pytest.mark.parametrize("removed", [["a"], ["b", "a"]])
def test_an_id_that_is_removed_and_added_again_is_there_once(
    graphs: Opened, removed: list[str]
) -> None:
    graph = graphs.init()
    upsert(graph, "a", "b")
    with graph.write() as writer:
        writer.delete("Person", removed)
        writer.append("Person", people("a"))
        commit = committed(writer.commit())
    left = sorted({"a", "b"} - set(removed) | {"a"})
    assert names(graph) == left
    assert graph.snapshot().count("Person") == len(left)
    assert commit.stats["tables"]["node:Person"] == {
        "added": 0,
        "changed": 1,
        "removed": 2 - len(left),
    }


def test_an_id_that_is_deleted_many_times_is_counted_once(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a", "b")
    with graph.write() as writer:
        writer.delete("Person", ["a"] * 9_001)
        writer.upsert("Person", people("c"))
        committed(writer.commit())
    assert graph.snapshot().count("Person") == len(names(graph)) == 2


@pytest.mark.parametrize("ids", ["abc", b"abc", [5], ["\ud800"], 7])
def test_ids_that_are_no_list_of_texts_are_refused(graphs: Opened, ids: Any) -> None:  # noqa: ANN401 - anything
    graph = graphs.init()
    with graph.write() as writer, pytest.raises(InvalidArgument, match="ids are a list of texts"):
        writer.delete("Person", ids)


def test_a_snapshot_whose_branch_was_deleted_says_so(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    graph.branches.create("rev")
    upsert(other, "a", branch="rev")
    held = other.snapshot(branch="rev")
    graph.branches.delete("rev")
    graph.close()  # The files are gone.
    with pytest.raises(SnapshotReclaimed, match="deleted"):
        held.scan("Person").read_all()
    with pytest.raises(SnapshotReclaimed, match="deleted"):
        held.entity("Person", "a")
    with pytest.raises(InvalidArgument):
        held.entity("Person", 5)  # type: ignore[arg-type]


def test_the_row_labels_of_a_filtered_frame_are_no_column(graphs: Opened) -> None:
    pandas = pytest.importorskip("pandas")
    graph = graphs.init()
    frame = pandas.DataFrame({"name": ["a", "b", "c"]})
    with graph.write() as writer:
        writer.append("Person", frame[frame["name"] != "a"])
        writer.commit()
    assert names(graph) == ["b", "c"]
