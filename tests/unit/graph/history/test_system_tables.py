"""History and audit as tables."""

import json
from datetime import UTC, datetime

import pytest
from tests.unit.graph.graphs import Killed, Opened, killed_at, names, upsert

from omnigraph.errors import BranchNotFound, InvalidArgument


def test_the_commits_of_all_live_branches_are_listed_once_newest_first(graphs: Opened) -> None:
    graph = graphs.init(actor="alice")
    upsert(graph, "a")
    graph.branches.create("rev")
    theirs = upsert(graph, "b", branch="rev")
    ours = upsert(graph, "c")
    table = graph.system("graph_commits")
    ids = table["graph_commit_id"].to_pylist()
    assert len(ids) == 4
    assert ids[:2] == [ours.graph_commit_id, theirs.graph_commit_id]
    first = table.to_pylist()[0]
    assert first["created_at"] == datetime.fromtimestamp(ours.created_at / 1_000_000, UTC)
    assert json.loads(first["stats"]) == ours.stats
    assert {
        name: first[name]
        for name in ("graph_branch", "graph_manifest_version", "actor_id", "kind", "operation_id")
    } == {
        "graph_branch": "main",
        "graph_manifest_version": 2,
        "actor_id": "alice",
        "kind": "mutation",
        "operation_id": ours.operation_id,
    }


def test_recoveries_are_listed_and_joined_to_their_commits(graphs: Opened) -> None:
    graph = graphs.init(actor="alice")
    points = ("mutation.pre_table_commit", "mutation.post_phase_b_pre_manifest_commit")
    for name, point in zip("ab", points, strict=True):
        with killed_at(point), pytest.raises(Killed):
            upsert(graph, name)
    again = graphs.open()
    assert names(again) == ["b"]
    rows = again.system("graph_commit_recoveries").to_pylist()
    assert [each["recovery_kind"] for each in rows] == ["rolled_forward", "rolled_back"]
    commits = again.system("graph_commits")["graph_commit_id"].to_pylist()
    assert {each["graph_commit_id"] for each in rows} <= set(commits)
    assert {each["recovery_for_actor"] for each in rows} == {"alice"}
    assert json.loads(rows[0]["tables"])[0]["table_key"] == "node:Person"
    records = again.maintenance.recoveries()
    assert [each.operation_id for each in records] == [each["operation_id"] for each in rows]
    assert again.maintenance.recoveries(limit=1) == records[:1]
    with pytest.raises(InvalidArgument):
        again.maintenance.recoveries(limit=0)
    with pytest.raises(BranchNotFound):
        again.maintenance.recoveries(branch="nobody")


def test_the_manifest_is_shown_as_it_is(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    table = graph.system("manifest")
    ids = table["object_id"].to_pylist()
    assert ids == table.sort_by("object_id")["object_id"].to_pylist()
    assert {"graph_head", "schema"} <= set(ids)
    kinds = table["object_type"].to_pylist()
    assert {name: kinds.count(name) for name in set(kinds)} == {
        "table": 3,
        "table_version": 4,
        "graph_commit": 2,
        "graph_head": 1,
        "schema": 1,
    }


def test_there_is_no_other_system_table(graphs: Opened) -> None:
    with pytest.raises(InvalidArgument, match="graph_commits, graph_commit_recoveries, manifest"):
        graphs.init().system("nodes")
