"""The difference of two states: what it lists, in which order, and what it leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.engine.graphs import compact
from tests.unit.graph.graphs import (
    Killed,
    Opened,
    delete,
    killed_at,
    rows,
    upsert,
)

from omnigraph.errors import (
    BranchNotFound,
    CommitNotFound,
    InvalidArgument,
    SnapshotReclaimed,
)
from omnigraph.graph.changes import diff as diff_module
from omnigraph.graph.changes import row_pairs, row_places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph import Graph
    from omnigraph.graph.changes.change_set import ChangeSet
    from omnigraph.graph.history.snapshot import Snapshot

TYPES = """
node Zebra { name: String @key  age: I32? }
node Link { name: String @key }
edge Link: Zebra -> Link { weight: F64? }
edge Bites: Zebra -> Zebra
"""
ODD_IDS = ["é", "z", "a", "Z", "", "\U0001f600", "\uffff", "日本", "a\u0000b", "10", "9"]


def told(changes: ChangeSet) -> list[tuple[str, str, str]]:
    """Sign, type and id of each change."""
    signs = {"insert": "+", "update": "~", "delete": "-"}
    return [(signs[each.op], f"{each.kind}:{each.type_name}", each.id) for each in changes]


def people(changes: ChangeSet) -> list[str]:
    """Changes of persons alone, as `+a`."""
    return [sign + each for sign, name, each in told(changes) if name == "node:Person"]


# --- one graph for all questions --------------------------------------------------------------


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    graphs = Opened(tmp_path_factory.mktemp("zoo"))
    yield graphs
    graphs.close()


@pytest.fixture(scope="module")
def zoo(opened: Opened) -> Graph:
    """A first commit, then one with every operation on every type."""
    graph = opened.init(TYPES)
    with graph.write() as writer:
        writer.append("Zebra", rows(*({"name": name, "age": 1} for name in "abcd")))
        writer.append("node:Link", rows({"name": "l"}, {"name": "m"}))
        writer.append("edge:Link", rows(*({"id": f"e{n}", "src": "a", "dst": "l"} for n in "123")))
        writer.append("Bites", rows({"id": "b1", "src": "a", "dst": "b"}))
        writer.commit()
    with graph.write() as writer:
        writer.upsert("Zebra", rows(*({"name": name, "age": age} for name, age in NEWER)))
        writer.delete("Zebra", ["d"])
        writer.upsert("node:Link", rows({"name": "k"}))
        writer.upsert("edge:Link", rows({"id": "e1", "src": "b", "dst": "m", "weight": 0.5}))
        writer.upsert("edge:Link", rows({"id": "e2", "src": "a", "dst": "l"}))
        writer.delete("edge:Link", ["e3"])
        writer.append("Bites", rows({"id": "b0", "src": "c", "dst": "c"}))
        writer.commit()
    return graph


NEWER = [("a", 1), ("b", 2), ("new", 3)]
ALL = [
    ("~", "node:Zebra", "b"),
    ("-", "node:Zebra", "d"),
    ("+", "node:Zebra", "new"),
    ("+", "node:Link", "k"),
    ("~", "edge:Link", "e1"),
    ("-", "edge:Link", "e3"),
    ("+", "edge:Bites", "b0"),
]


def last_two(graph: Graph) -> tuple[str, str]:
    new, old, _ = graph.commits
    return old.graph_commit_id, new.graph_commit_id


def test_nodes_come_before_edges_then_types_by_identity_then_ids(zoo: Graph) -> None:
    changes = zoo.diff(*last_two(zoo))
    assert told(changes) == ALL
    places = [(each.kind == "edge", each.type_id, each.id) for each in changes]
    assert places == sorted(places)
    assert (changes.from_commit_id, changes.to_commit_id) == last_two(zoo)


def test_the_way_back_undoes_the_way_there(zoo: Graph) -> None:
    there, back = (zoo.diff(*ends) for ends in (last_two(zoo), last_two(zoo)[::-1]))
    undone = {"insert": "delete", "update": "update", "delete": "insert"}
    assert [(each.id, undone[each.op], each.after, each.before) for each in there] == [
        (each.id, each.op, each.before, each.after) for each in back
    ]


def test_a_change_set_can_be_read_again_and_counted_without_reading(zoo: Graph) -> None:
    changes = zoo.diff(*last_two(zoo))
    expected = {
        "node:Zebra": {"insert": 1, "update": 1, "delete": 1},
        "node:Link": {"insert": 1},
        "edge:Link": {"update": 1, "delete": 1},
        "edge:Bites": {"insert": 1},
    }
    assert changes.stats == expected
    assert list(changes) == list(changes) == list(changes.changes)
    body = changes.to_dict()
    assert (body["from"], body["to"]) == last_two(zoo)
    assert body["changes"] == [each.to_dict() for each in changes]
    assert (list(body), body["stats"]) == (["from", "to", "changes", "stats"], expected)


def test_the_body_of_a_change_is_that_of_the_contract(zoo: Graph) -> None:
    by_id = {each.id: each.to_dict() for each in zoo.diff(*last_two(zoo))}
    assert by_id["new"] == {
        "kind": "node",
        "type": {"id": 1, "name": "Zebra"},
        "id": "new",
        "op": "insert",
        "after": {"properties": {"name": "new", "age": 3}},
    }
    assert by_id["d"] == {
        "kind": "node",
        "type": {"id": 1, "name": "Zebra"},
        "id": "d",
        "op": "delete",
        "before": {"properties": {"name": "d", "age": 1}},
    }
    assert by_id["e1"]["before"] == {
        "properties": {"weight": None},
        "endpoints": {"from": "a", "to": "l"},
    }
    assert by_id["e1"]["after"] == {
        "properties": {"weight": 0.5},
        "endpoints": {"from": "b", "to": "m"},
    }
    assert by_id["b0"]["after"] == {"properties": {}, "endpoints": {"from": "c", "to": "c"}}


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        ({"kinds": ["node"]}, ALL[:4]),
        ({"kinds": ["edge"]}, ALL[4:]),
        ({"kinds": ["edge", "node"]}, ALL),
        ({"types": ["Zebra"]}, ALL[:3]),
        ({"types": ["Link"]}, ALL[3:6]),
        ({"types": ["edge:Link"]}, ALL[4:6]),
        ({"types": {"node:Link", "Bites"}}, [ALL[3], ALL[6]]),
        ({"kinds": ["node"], "types": ["Link"]}, [ALL[3]]),
        ({"kinds": ["node"], "types": ["Bites"]}, []),
        ({"ops": ["delete"]}, [ALL[1], ALL[5]]),
        ({"ops": iter(("insert", "update")), "types": ("Zebra",)}, [ALL[0], ALL[2]]),
        ({"kinds": [], "types": [], "ops": []}, ALL),
    ],
)
def test_filters_choose_and_leave_the_order(
    zoo: Graph, wishes: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    changes = zoo.diff(*last_two(zoo), **wishes)
    assert told(changes) == expected
    assert sum(sum(ops.values()) for ops in changes.stats.values()) == len(expected)


@pytest.mark.parametrize(
    ("wishes", "argument", "text"),
    [
        ({"kinds": ["nodes"]}, "kinds", "'nodes', which is none of node, edge"),
        ({"ops": ["insert", "merge"]}, "ops", "'merge', which is none of insert, update, delete"),
        ({"types": ["Zebra", "Ant"]}, "types", "no type 'Ant'; there are Bites, Link, Zebra"),
        ({"types": ["edge:Zebra"]}, "types", "no type 'edge:Zebra'"),
        ({"types": "Zebra"}, "types", "list of texts"),
        ({"types": 7}, "types", "list of texts"),
        ({"ops": [7]}, "ops", "list of texts"),
        ({"kinds": [["node"]]}, "kinds", "list of texts"),
    ],
)
def test_a_filter_that_means_nothing_is_refused_before_anything_is_read(
    zoo: Graph, wishes: dict[str, Any], argument: str, text: str
) -> None:
    with pytest.raises(InvalidArgument, match=text) as caught:
        zoo.diff(*last_two(zoo), **wishes)
    assert caught.value.details["argument"] == argument


def test_a_state_is_named_by_a_branch_a_commit_or_a_resolved_snapshot(zoo: Graph) -> None:
    old, new = last_two(zoo)
    for target in ("main", new, zoo.snapshot().resolved_snapshot):
        assert told(zoo.diff(old, target)) == ALL
    same = zoo.diff("main", new)
    assert (same.from_commit_id, list(same), same.stats) == (new, [], {})


@pytest.mark.parametrize("target", ["nobody", "", "01J0000000000000000000GRAPH", "MAIN"])
def test_a_target_that_is_neither_branch_nor_commit_is_not_found(zoo: Graph, target: str) -> None:
    for ends in (("main", target), (target, "main")):
        with pytest.raises(CommitNotFound, match="no branch, no commit and no tag") as caught:
            zoo.diff(*ends)
        assert caught.value.details["graph_commit_id"] == target


def test_a_commit_of_a_line_that_is_gone_is_not_found(zoo: Graph) -> None:
    with pytest.raises(BranchNotFound):
        zoo.diff("main", f"01j@{zoo.snapshot().graph_commit_id}")


@pytest.mark.parametrize("target", [None, 1.5, b"main", ["main"]])
def test_what_names_no_state_is_an_invalid_argument(zoo: Graph, target: Any) -> None:  # noqa: ANN401
    with pytest.raises(InvalidArgument, match="commit id, a tag"):
        zoo.diff("main", target)


def test_a_read_only_graph_tells_the_same(zoo: Graph, opened: Opened) -> None:
    found = opened.read_only().diff(*last_two(zoo))
    assert found.to_dict() == zoo.diff(*last_two(zoo)).to_dict()


def test_a_diff_from_the_first_commit_inserts_everything_in_portions(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_pairs, "_PORTION", 3)
    graph = graphs.init()
    head = upsert(graph, *ODD_IDS, age=1)
    changes = graph.diff(graph.snapshot(0).graph_commit_id, "main")
    assert people(changes) == [f"+{each}" for each in sorted(ODD_IDS)]
    upsert(graph, *ODD_IDS[::2], age=2)
    upsert(graph, *ODD_IDS[::3], age=1)
    since = graph.diff(head.graph_commit_id, "main")
    differ = [each for at, each in enumerate(ODD_IDS) if at % 2 == 0 and at % 3]
    assert people(since) == [f"~{each}" for each in sorted(differ)]


# --- what is no difference --------------------------------------------------------------------


def test_an_upsert_of_equal_values_is_silent(graphs: Opened) -> None:
    graph = graphs.init()
    first = upsert(graph, "a", "b", age=1)
    again = upsert(graph, "b", "a", age=1)
    assert again.graph_commit_id != first.graph_commit_id
    assert told(graph.diff(first.graph_commit_id, "main")) == []
    assert graph.commits.changes(again.graph_commit_id).changes == ()


def test_a_value_that_came_back_is_silent_and_each_step_is_told(graphs: Opened) -> None:
    graph = graphs.init()
    first = upsert(graph, "a", "b", age=1).graph_commit_id
    away = upsert(graph, "a", age=2).graph_commit_id
    gone = delete(graph, "b").graph_commit_id
    upsert(graph, "a", "b", age=1)
    assert people(graph.diff(first, "main")) == []
    assert people(graph.diff(first, away)) == ["~a"]
    assert people(graph.diff(first, gone)) == ["~a", "-b"]
    assert people(graph.diff(gone, "main")) == ["~a", "+b"]


def test_a_compaction_is_silent_and_hides_no_change_around_it(graphs: Opened) -> None:
    graph = graphs.init()
    first = upsert(graph, "a", "b", "c", age=1).graph_commit_id
    before = upsert(graph, "b", "d", age=2).graph_commit_id
    compact(graph, "Person")
    head = graph.snapshot().graph_commit_id
    assert head != before
    assert people(graph.diff(before, head)) == []
    assert graph.commits.changes(head).changes == ()
    assert people(graph.diff(first, head)) == ["~b", "+d"]
    delete(graph, "a")
    assert people(graph.diff(first, "main")) == ["-a", "~b", "+d"]


def test_an_overwrite_with_the_same_rows_is_silent(graphs: Opened) -> None:
    graph = graphs.init()
    first = upsert(graph, "a", "b", age=1).graph_commit_id
    with graph.write() as writer:
        writer.overwrite("Person", rows({"name": "b", "age": 1}, {"name": "c", "age": 1}))
        writer.commit()
    assert people(graph.diff(first, "main")) == ["-a", "+c"]


def test_a_write_that_was_rolled_back_is_silent(graphs: Opened) -> None:
    graph = graphs.init()
    first = upsert(graph, "a", "b", age=1).graph_commit_id
    with graph.write() as writer, killed_at("mutation.post_table_commit"):
        writer.upsert("Person", rows({"name": "a", "age": 5}))
        writer.delete("Person", ["b"])
        writer.append("Doc", rows({"title": "t"}))
        with pytest.raises(Killed):
            writer.commit()
    graph.close()
    again = graphs.open()
    assert [each.recovery_kind for each in again.maintenance.recoveries()] == ["rolled_back"]
    assert told(again.diff(first, "main")) == []
    upsert(again, "a", age=2)
    assert people(again.diff(first, "main")) == ["~a"]


def test_creating_a_branch_and_building_indexes_is_silent(graphs: Opened) -> None:
    graph = graphs.init("node Person { name: String @key  age: I32? @index }")
    upsert(graph, "a", "b", age=1)
    graph.branches.create("rev")
    graph.maintenance.ensure_indices(branch="rev")
    assert graph.snapshot(branch="rev").graph_commit_id != graph.snapshot().graph_commit_id
    assert told(graph.diff("main", "rev")) == []


# --- branches ---------------------------------------------------------------------------------


def test_two_branches_are_compared_from_either_side(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a", "b", "c", "d", age=1)
    graph.branches.create("one")
    graph.branches.create("two")
    upsert(graph, "a", "new", branch="one", age=2)
    delete(graph, "d", branch="one")
    upsert(graph, "a", branch="two", age=2)
    upsert(graph, "b", branch="two", age=3)
    delete(graph, "c", branch="two")
    assert people(graph.diff("one", "two")) == ["~b", "-c", "+d", "-new"]
    assert people(graph.diff("two", "one")) == ["~b", "+c", "-d", "+new"]
    assert people(graph.diff("main", "two")) == ["~a", "~b", "-c"]


def test_branches_from_different_commits_are_compared_from_the_older_one(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a", "b", age=1)
    graph.branches.create("early")
    upsert(graph, "early", branch="early")
    upsert(graph, "b", "c", age=2)
    graph.branches.create("late")
    upsert(graph, "late", branch="late")
    upsert(graph, "d", age=2)
    assert people(graph.diff("early", "late")) == ["~b", "+c", "-early", "+late"]
    assert people(graph.diff("late", "main")) == ["+d", "-late"]
    assert people(graph.diff("main", "early")) == ["~b", "-c", "-d", "+early"]


def test_a_branch_of_a_branch_is_compared_with_all_above_it(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a", "b", age=1)
    graph.branches.create("one")
    upsert(graph, "b", branch="one", age=2)
    graph.branches.create("two", from_="one")
    graph.branches.create("sister", from_="one")
    upsert(graph, "c", branch="two", age=3)
    delete(graph, "a", branch="sister")
    delete(graph, "a")
    assert people(graph.diff("main", "two")) == ["+a", "~b", "+c"]
    assert people(graph.diff("one", "two")) == ["+c"]
    assert people(graph.diff("sister", "two")) == ["+a", "+c"]
    assert people(graph.diff("main", "sister")) == ["~b"]
    assert people(graph.diff("two", "main")) == ["-a", "~b", "-c"]


def test_the_same_rows_written_on_two_branches_are_no_difference(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a", age=1)
    graph.branches.create("rev")
    for branch in ("main", "rev"):
        upsert(graph, "a", "b", branch=branch, age=2)
        compact(graph, "Person", branch)
    assert told(graph.diff("main", "rev")) == []


def test_only_tables_that_were_written_are_opened(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = graphs.init()
    upsert(graph, "a", age=1)
    with graph.write() as writer:
        writer.append("Doc", rows({"title": "t"}))
        writer.commit()
    compared: list[str] = []
    real = row_places.changed_places

    def watched(store: Any, old: Any, new: Any) -> Any:  # noqa: ANN401 - passed on
        compared.append(new.layout.table_key)
        return real(store, old, new)

    monkeypatch.setattr(diff_module, "changed_places", watched)
    new, old, _ = graph.commits
    assert told(graph.diff(old.graph_commit_id, new.graph_commit_id)) == [("+", "node:Doc", "t")]
    assert compared == ["node:Doc"]


# --- what is gone -----------------------------------------------------------------------------


def remove_version(graphs: Opened, snapshot: Snapshot) -> None:
    """The version of persons that a snapshot shows, as cleanup removes it."""
    (table,) = [each for each in snapshot.tables if each.table_key == "node:Person"]
    gone = (1 << 64) - 1 - table.published_dataset_version
    (graphs.root / table.dataset_path / "_versions" / f"{gone:020d}.manifest").unlink()


def test_a_state_whose_version_is_gone_is_reclaimed_and_never_another_one(graphs: Opened) -> None:
    graph = graphs.init()
    old = upsert(graph, "a", age=1).graph_commit_id
    between = upsert(graph, "b").graph_commit_id
    upsert(graph, "c")
    remove_version(graphs, graph.snapshot(between))
    reader = graphs.read_only()
    for ends in ((between, "main"), (old, between)):
        with pytest.raises(SnapshotReclaimed) as caught:
            list(reader.diff(*ends))
        assert caught.value.details == {"graph_commit_id": between, "type": "Person"}
        with pytest.raises(SnapshotReclaimed):
            assert reader.diff(*ends).stats
    assert list(reader.diff(old, between, types=["Doc"])) == []
    assert people(reader.diff(old, "main")) == ["+b", "+c"]
    with pytest.raises(SnapshotReclaimed):
        reader.commits.changes(between)


def test_branches_are_compared_row_by_row_when_their_common_version_is_gone(
    graphs: Opened,
) -> None:
    graph = graphs.init()
    fork = upsert(graph, "a", "b", "c", age=1).graph_commit_id
    graph.branches.create("one")
    upsert(graph, "b", branch="one", age=2)
    delete(graph, "c")
    expected = people(graph.diff("main", "one"))
    assert expected == ["~b", "+c"]
    remove_version(graphs, graph.snapshot(fork))
    assert people(graphs.read_only().diff("main", "one")) == expected


def test_a_deleted_branch_is_no_state_any_more(graphs: Opened) -> None:
    graph = graphs.init()
    graph.branches.create("rev")
    own = upsert(graph, "a", branch="rev").graph_commit_id
    graph.branches.delete("rev")
    for target in ("rev", own):
        with pytest.raises(CommitNotFound):
            graph.diff("main", target)
