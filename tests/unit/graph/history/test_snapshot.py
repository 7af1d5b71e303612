"""A snapshot shows one commit for good, however it was named and whatever happens after."""

from typing import Any

import pyarrow as pa
import pytest
from tests.unit.graph.graphs import (
    Opened,
    State,
    committed,
    delete,
    merge_rows,
    names,
    people,
    rows,
    state,
    upsert,
)

from omnigraph import Graph
from omnigraph.errors import (
    BranchNotFound,
    CommitNotFound,
    InvalidArgument,
    ManifestCorrupt,
    QueryInvalid,
    SnapshotReclaimed,
)
from omnigraph.graph.history.commit_graph import Commit
from omnigraph.graph.manifest.rows import TombstoneRow
from omnigraph.ids import MAIN_BRANCH_ID


def _history(graph: Graph) -> list[tuple[str, Commit, State]]:
    """A history on two branches, with the state of each branch when each commit was its head."""
    seen: list[tuple[str, Commit, State]] = []

    def note(branch: str, commit: Commit) -> None:
        seen.append((branch, commit, state(graph.snapshot(branch=branch))))

    note("main", upsert(graph, "a", "b", age=1))
    note("main", upsert(graph, "a", age=2))
    with graph.write() as writer:
        writer.append("Knows", rows({"id": "e", "src": "a", "dst": "b"}))
        writer.append("Doc", rows({"title": "t", "body": "x"}))
        note("main", committed(writer.commit()))
    graph.branches.create("rev")
    note("rev", upsert(graph, "c", branch="rev"))
    note("main", upsert(graph, "d"))
    with graph.write("rev") as writer:
        writer.delete("Knows", ["e"])
        writer.delete("Person", ["b"])
        note("rev", committed(writer.commit()))
    with graph.write() as writer:
        writer.overwrite("Doc", rows({"title": "u"}))
        note("main", committed(writer.commit()))
    note("main", delete(graph, "d"))
    return seen


def test_every_past_commit_shows_what_it_showed_when_it_was_head(graphs: Opened) -> None:
    graph = graphs.init()
    seen = _history(graph)
    for reader in (graph, graphs.read_only()):
        for branch, commit, expected in seen:
            by_id = reader.snapshot(commit.graph_commit_id)
            by_number = reader.snapshot(commit.graph_manifest_version, branch=branch)
            by_name = reader.snapshot(by_number.resolved_snapshot)
            for found in (by_id, by_number, by_name):
                assert found.graph_commit_id == commit.graph_commit_id
                assert found.seq == commit.graph_manifest_version
                assert state(found) == expected
        assert state(reader.snapshot(0)) == {"Person": {}, "Doc": {}, "Knows": {}}


def test_a_snapshot_does_not_move(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a", age=1)
    held, lazy = graph.snapshot(), graph.snapshot()
    before = state(held)
    upsert(graph, "a", age=2)
    with graph.write() as writer:
        writer.overwrite("Person", people("z"))
        writer.commit()
    assert state(held) == before
    assert state(lazy) == before
    assert lazy.graph_commit_id == held.graph_commit_id


def test_a_branch_shows_the_commits_before_its_fork_by_number_and_by_id(graphs: Opened) -> None:
    graph = graphs.init()
    shared = upsert(graph, "a")
    rev = graph.branches.create("rev")
    own = upsert(graph, "b", branch="rev")
    upsert(graph, "c")
    assert graph.snapshot(1, branch="rev").graph_commit_id == shared.graph_commit_id
    assert graph.snapshot(2, branch="rev").graph_commit_id == own.graph_commit_id
    assert graph.snapshot(2).graph_commit_id != own.graph_commit_id
    found = graph.snapshot(shared.graph_commit_id, branch="rev")
    assert found.resolved_snapshot == f"{rev.branch_id}@{shared.graph_commit_id}"
    assert graph.snapshot(own.graph_commit_id).branch_id == rev.branch_id
    with pytest.raises(CommitNotFound):
        graph.snapshot(f"main@{own.graph_commit_id}")


@pytest.mark.parametrize("at", ["nobody", "", "main@nobody", "main@", "graph_head", -1, 1, 1 << 70])
def test_an_unknown_commit_or_number_is_not_found(graphs: Opened, at: str | int) -> None:
    with pytest.raises(CommitNotFound):
        graphs.init().snapshot(at)


def test_an_unknown_branch_is_not_found(graphs: Opened) -> None:
    graph = graphs.init()
    for at in (None, 0, graph.snapshot().graph_commit_id):
        with pytest.raises(BranchNotFound):
            graph.snapshot(at, branch="nobody")
    with pytest.raises(BranchNotFound):
        graph.snapshot(f"01j@{graph.snapshot().graph_commit_id}")


@pytest.mark.parametrize("at", [True, 1.5, b"x", object()])
def test_what_names_no_snapshot_is_an_invalid_argument(graphs: Opened, at: Any) -> None:  # noqa: ANN401
    with pytest.raises(InvalidArgument, match="commit id, a tag"):
        graphs.init().snapshot(at)


def test_a_snapshot_of_a_deleted_branch_never_shows_something_else(graphs: Opened) -> None:
    graph = graphs.init()
    graph.branches.create("rev")
    upsert(graph, "a", branch="rev")
    held = graphs.read_only().snapshot(branch="rev")
    graph.branches.delete("rev")
    graph.branches.create("rev")
    upsert(graph, "b", branch="rev")
    graph.close()  # The files of the deleted branch are gone.
    with pytest.raises(SnapshotReclaimed) as caught:
        held.scan("Person").read_all()
    assert caught.value.details == {"graph_commit_id": held.graph_commit_id, "type": "Person"}


def test_a_version_that_was_removed_is_reclaimed_and_not_replaced_by_another(
    graphs: Opened,
) -> None:
    graph = graphs.init()
    old = upsert(graph, "a")
    upsert(graph, "b")
    table = next(
        each
        for each in graph.snapshot(old.graph_commit_id).tables
        if each.table_key == "node:Person"
    )
    gone = (1 << 64) - 1 - table.published_dataset_version
    (graphs.root / table.dataset_path / "_versions" / f"{gone:020d}.manifest").unlink()
    reader = graphs.read_only()
    snapshot = reader.snapshot(old.graph_commit_id)
    assert snapshot.count("Person") == 1
    with pytest.raises(SnapshotReclaimed):
        snapshot.entity("Person", "a")
    assert names(reader) == ["a", "b"]
    assert snapshot.scan("Doc").read_all().num_rows == 0


def test_an_entity_is_a_dict_or_nothing(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a", age=3)
    with graph.write() as writer:
        writer.append("Knows", rows({"id": "e", "src": "a", "dst": "a", "since": 9}))
        writer.commit()
    snapshot = graph.snapshot()
    assert snapshot.entity("Person", "a") == {"id": "a", "name": "a", "age": 3, "email": None}
    assert snapshot.entity("edge:Knows", "e") == {"id": "e", "src": "a", "dst": "a", "since": 9}
    for missing in ("b", "", "a' OR 1=1 --", "A"):
        assert snapshot.entity("Person", missing) is None


def test_a_scan_gives_the_columns_asked_for_in_that_order(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a", "b", "c", age=3)
    snapshot = graph.snapshot()
    table = snapshot.scan("Person", columns=["age", "id"]).read_all()
    assert table.column_names == ["age", "id"]
    assert snapshot.scan("Person", limit=2).read_all().num_rows == 2
    assert snapshot.scan("Person", limit=0).read_all().num_rows == 0
    assert snapshot.scan("Doc").read_all().schema.names == ["id", "title", "body"]
    with pytest.raises(InvalidArgument, match="no column 'agee'"):
        snapshot.scan("Person", columns=["agee"])
    with pytest.raises(InvalidArgument, match="limit"):
        snapshot.scan("Person", limit=-1)


def test_a_name_of_a_node_and_an_edge_type_must_say_which(graphs: Opened) -> None:
    graph = graphs.init("node Link { url: String @key }\nedge Link: Link -> Link")
    with graph.write() as writer:
        writer.append("node:Link", rows({"url": "u"}))
        writer.append("edge:Link", rows({"src": "u", "dst": "u"}, {"src": "u", "dst": "u"}))
        writer.commit()
    snapshot = graph.snapshot()
    assert (snapshot.count("node:Link"), snapshot.count("edge:Link")) == (1, 2)
    with pytest.raises(InvalidArgument, match="node:Link or edge:Link"):
        snapshot.count("Link")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Persn", "did you mean Person"),
        ("node:Persn", "did you mean Person"),
        ("edge:Person", "is a node type"),
        ("node:Knows", "is an edge type"),
        ("table:Person", "names no type"),
        (":Person", "names no type"),
        ("node:", "no type"),
        ("", "no type"),
        ("a:node:Person", "names no type"),
    ],
)
def test_an_unknown_type_is_an_error_with_the_nearest_name(
    graphs: Opened, name: str, said: str
) -> None:
    snapshot = graphs.init().snapshot()
    for call in (snapshot.count, snapshot.scan, lambda given: snapshot.entity(given, "x")):
        with pytest.raises(InvalidArgument, match=said):
            call(name)


def test_tables_come_nodes_first_and_say_where_they_are(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    tables = graph.snapshot().tables
    assert [each.table_key for each in tables] == ["node:Doc", "node:Person", "edge:Knows"]
    for each in tables:
        assert (graphs.root / each.dataset_path / "_versions").is_dir()
    assert tables[1].to_dict() == {
        "table_key": "node:Person",
        "dataset_path": tables[1].dataset_path,
        "native_dataset_branch": None,
        "published_dataset_version": tables[1].published_dataset_version,
        "entity_count": 1,
    }


def test_a_type_without_a_table_is_damage(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    line = graph._graph.lines.read(MAIN_BRANCH_ID)
    ref = next(ref for ref, pin in line.pins.items() if pin.table_key == "node:Doc")
    merge_rows(graphs.storage(), [TombstoneRow(ref=ref, seq=1, table_key="node:Doc")])
    assert graph.snapshot().count("Person") == 1
    with pytest.raises(ManifestCorrupt, match="Doc"):
        graph.snapshot().count("Doc")
    assert graph.snapshot(0).count("Doc") == 0


@pytest.mark.parametrize(
    ("type_name", "text", "expected"),
    [
        ("Person", "age > 30", ["c"]),
        ("Person", "age <= 30.5", ["a", "b"]),
        ("Person", "age != 20", ["b", "c"]),
        ("Person", "age < 99999999999", ["a", "b", "c"]),
        ("Person", "age > 99999999999", []),
        ("Person", 'name = "b"', ["b"]),
        ("Knows", 'from = "a"', ["e1", "e2"]),
        ("Knows", 'to = "c"', ["e2"]),
        ("Person", 'age > 35 or age is null or not (name in ["a", "c", "d"])', ["b", "c", "d"]),
    ],
)
def test_a_scan_is_filtered_by_a_predicate_of_the_query_language(
    graphs: Opened, type_name: str, text: str, expected: list[str]
) -> None:
    graph = graphs.init()
    with graph.write() as write:
        ages = pa.array([20, 30, 40, None], pa.int32())
        write.append("Person", pa.table({"name": ["a", "b", "c", "d"], "age": ages}))
        write.append("Knows", pa.table({"id": ["e1", "e2"], "src": ["a", "a"], "dst": ["b", "c"]}))
        write.commit()
    found = graph.snapshot().scan(type_name, columns=["id"], filter=text).read_all()
    assert sorted(str(each) for each in found["id"]) == expected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("age >", QueryInvalid),
        ("nobody = 1", QueryInvalid),
        ('age = "x"', QueryInvalid),
        ("age > 1 delete Person where age > 2", InvalidArgument),
        ("age > 1 } query more() { delete Person where age > 2", InvalidArgument),
    ],
)
def test_a_filter_of_a_scan_is_exactly_one_predicate(
    graphs: Opened, text: str, error: type[Exception]
) -> None:
    snapshot = graphs.init().snapshot()
    with pytest.raises(error, match="filter") as refused:
        snapshot.scan("Person", filter=text)
    if error is QueryInvalid:
        assert "delete" not in str(refused.value)
