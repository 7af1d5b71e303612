import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.unit.cli.test_ensure_indices import add_person, newest

Door = Callable[..., CompletedProcess[str]]


def test_the_text_tells_what_became_of_each_table(
    call: Door, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("Ada", "Bob"):
        add_person(graph, name)
    monkeypatch.chdir(graph.parent)
    result = call("optimize", graph.name)
    assert (result.returncode, result.stderr) == (
        0,
        "omnigraph optimize → people.omni (direct, local)\n"
        "engine local: no table has more than 64 fragments or 10,000,000 rows to work on\n",
    )
    branch, engine, commit, table = result.stdout.splitlines()
    assert (branch, engine) == ("branch  main", "engine  local")
    assert table.split("  ") == [
        "node:Person",
        "2",
        "1",
        "id BTREE, name BTREE, name INVERTED",
        "-",
        "6",
    ]
    assert newest(call, graph)["graph_commit_id"] == commit.split()[1]
    again = call("optimize", graph.name, "--quiet")
    assert "commit  none, nothing to do\n" in again.stdout


def test_json_is_the_report_with_the_commit_as_the_contract_has_it(call: Door, graph: Path) -> None:
    for name in ("Ada", "Bob"):
        add_person(graph, name)
    result = call("optimize", graph, "--json", "--quiet", "--target-rows", "100")
    assert (result.returncode, result.stderr) == (0, "")
    body = json.loads(result.stdout)
    assert body.pop("commit") == newest(call, graph)
    assert newest(call, graph)["kind"] == "optimize"
    [table] = body.pop("tables")
    assert set(body) == {"branch", "engine", "manifest_fragments_removed"}
    assert set(table) == {
        "table_key",
        "fragments_removed",
        "fragments_added",
        "committed",
        "skipped",
        "published_dataset_version",
        "lance_head_version",
        "built",
        "pending_indexes",
    }
    assert call("optimize", graph, "--target-rows", "0").returncode == 2
