import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pyarrow as pa

from omnigraph import Graph

Door = Callable[..., CompletedProcess[str]]


def add_person(path: Path, name: str, *, branch: str = "main") -> str:
    with Graph.open(path, actor="act-writer") as graph, graph.write(branch) as writer:
        writer.append("Person", pa.table({"name": [name], "age": pa.array([36], pa.int32())}))
        commit = writer.commit()
    assert commit is not None
    return commit.graph_commit_id


def test_the_text_names_the_commit_and_counts_the_entities(call: Door, graph: Path) -> None:
    commit = add_person(graph, "Ada")
    result = call("snapshot", graph)
    assert (result.returncode, result.stderr) == (0, "")
    assert f"commit   {commit}\n" in result.stdout
    assert "node  Person  1  " in result.stdout


def test_json_is_the_body_of_the_contract(call: Door, graph: Path) -> None:
    add_person(graph, "Ada")
    result = call("snapshot", graph, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    body = json.loads(result.stdout)
    [dataset] = body.pop("datasets")
    assert body == {
        "graph_branch": "main",
        "graph_manifest_version": 1,
        "internal_schema_version": 1,
    }
    assert dataset.pop("dataset_path").startswith("nodes/")
    assert dataset.pop("published_dataset_version") > 1
    assert dataset == {
        "entity_kind": "node",
        "type_name": "Person",
        "native_dataset_branch": None,
        "entity_count": 1,
    }


def test_what_maintenance_is_due_is_told_until_it_is_done(call: Door, graph: Path) -> None:
    with Graph.open(graph) as opened:
        with opened.write() as writer:
            writer.append("Person", pa.table({"name": [f"p{number}" for number in range(1_024)]}))
            writer.commit()
        due = "1,024 of 1,024 rows without an index"
        told = call("snapshot", graph)
        assert (told.returncode, told.stderr) == (0, f"maintenance is due: node:Person: {due}\n")
        assert "due" not in told.stdout
        assert call("snapshot", graph, "--at", "0").stderr == ""
        examined = [check for check in maintenance(call, graph) if check["status"] == "warning"]
        assert due in examined[0]["found"]
        assert "omnigraph optimize" in examined[0]["remedy"]
        opened.maintenance.run_due()
    assert call("snapshot", graph).stderr == ""
    assert [check["found"] for check in maintenance(call, graph)] == ["nothing is due"]


def maintenance(call: Door, graph: Path) -> list[dict[str, str]]:
    """What `doctor` says of it."""
    checks = json.loads(call("doctor", graph, "--json").stdout)["checks"]
    return [check for check in checks if check["name"].startswith("Maintenance")]


def test_a_branch_shows_what_it_holds_itself(call: Door, graph: Path) -> None:
    call("branch", "create", "draft", "--uri", graph)
    add_person(graph, "Ada", branch="draft")
    main, draft = (
        json.loads(call("snapshot", graph, "--branch", name, "--json").stdout)
        for name in ("main", "draft")
    )
    assert [body["datasets"][0]["entity_count"] for body in (main, draft)] == [0, 1]
    assert draft["datasets"][0]["native_dataset_branch"] is not None


def test_a_read_leaves_no_trace(call: Door, graph: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in graph.rglob("*")}
    for words in (["snapshot"], ["commit", "list"], ["recovery", "list"], ["schema", "show"]):
        assert call(*words, graph).returncode == 0
    assert call("branch", "list", "--uri", graph).returncode == 0
    source = "query all() { match { $p: Person } return { $p.name } }"
    for words in (["query"], ["explain"], ["explain", "--analyze"]):
        assert call(*words, "--store", graph, "-e", source).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in graph.rglob("*")} == before
