import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.graph.maintenance import ensure_indices

Door = Callable[..., CompletedProcess[str]]


def add_person(path: Path, name: str, *, branch: str = "main") -> None:
    with Graph.open(path) as graph, graph.write(branch) as writer:
        writer.append("Person", pa.table({"name": [name]}))
        assert writer.commit() is not None


def newest(call: Door, graph: Path, branch: str = "main") -> dict[str, object]:
    listed = call("commit", "list", graph, "--all", "--branch", branch, "--json")
    found: dict[str, object] = json.loads(listed.stdout)["commits"][0]
    return found


def test_the_text_has_a_line_for_each_table_and_names_the_commit(
    call: Door, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_person(graph, "Ada")
    monkeypatch.chdir(graph.parent)
    result = call("ensure-indices", graph.name)
    assert (result.returncode, result.stderr) == (
        0,
        "omnigraph ensure-indices → people.omni (direct, local)\n"
        "engine local: no table has more than 64 fragments or 10,000,000 rows to work on\n",
    )
    branch, engine, commit, table = result.stdout.splitlines()
    assert (branch, engine) == ("branch  main", "engine  local")
    assert table.split("  ") == [
        "node:Person",
        "id BTREE, name BTREE, name INVERTED",
        "3 of 3",
        "-",
        "4",
    ]
    shown = call("commit", "show", commit.split()[1], "--uri", graph.name, "--json")
    assert json.loads(shown.stdout)["kind"] == "index"


def test_a_second_run_builds_nothing_and_makes_no_commit(call: Door, graph: Path) -> None:
    add_person(graph, "Ada")
    call("ensure-indices", graph, "--quiet")
    before = newest(call, graph)
    result = call("ensure-indices", graph, "--quiet")
    assert (result.returncode, result.stderr) == (0, "")
    assert "commit  none, nothing was built\n" in result.stdout
    assert "node:Person  -  3 of 3" in result.stdout
    assert newest(call, graph) == before


def test_an_index_that_waits_is_no_failure(call: Door, graph: Path) -> None:
    result = call("ensure-indices", graph)
    assert result.returncode == 0
    assert "id (no rows yet), name (no rows yet)" in result.stdout


def test_json_is_the_report_with_the_commit_as_the_contract_has_it(call: Door, graph: Path) -> None:
    add_person(graph, "Ada")
    result = call("ensure-indices", graph, "--json", "--quiet")
    assert (result.returncode, result.stderr) == (0, "")
    body = json.loads(result.stdout)
    assert body.pop("commit") == newest(call, graph)
    [table] = body.pop("tables")
    assert body == {"branch": "main", "engine": "local"}
    assert set(table) == {
        "table_key",
        "committed",
        "skipped",
        "published_dataset_version",
        "built",
        "coverage",
        "pending_indexes",
    }
    assert [each["rows_covered"] for each in table["coverage"]] == [1, 1, 1]
    again = json.loads(call("ensure-indices", graph, "--json").stdout)
    assert again["commit"] is None


def test_a_branch_is_indexed_by_itself(call: Door, graph: Path) -> None:
    call("branch", "create", "draft", "--uri", graph)
    add_person(graph, "Ada", branch="draft")
    main = newest(call, graph)
    result = call("ensure-indices", graph, "--branch", "draft", "--json")
    assert json.loads(result.stdout)["branch"] == "draft"
    assert newest(call, graph, "draft")["kind"] == "index"
    assert newest(call, graph) == main


def test_only_the_named_types_are_indexed(call: Door, graph: Path) -> None:
    add_person(graph, "Ada")
    result = call("ensure-indices", graph, "--type", "Person", "--type", "node:Person", "--json")
    assert [each["table_key"] for each in json.loads(result.stdout)["tables"]] == ["node:Person"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--type", "Persn"), "did you mean Person?"),
        (("--branch", "nope"), "there is no branch 'nope'"),
    ],
)
def test_what_does_not_exist_is_an_error(
    call: Door, graph: Path, words: tuple[str, ...], told: str
) -> None:
    result = call("ensure-indices", graph, "--quiet", *words)
    assert (result.returncode, result.stdout) == (1, "")
    assert told in result.stderr


def test_the_actor_is_that_of_the_operator_config(call: Door, graph: Path, tmp_path: Path) -> None:
    add_person(graph, "Ada")
    (tmp_path / ".omnigraph").mkdir()
    config = tmp_path / ".omnigraph" / "config.yaml"
    config.write_text("operator: { actor: act-tender }\n", encoding="utf-8")
    assert call("ensure-indices", graph).returncode == 0
    assert newest(call, graph)["actor_id"] == "act-tender"
    refused = call("ensure-indices", graph, "--as", "act-me")
    assert refused.returncode == 2
    assert "operator.actor" in refused.stderr


def test_a_table_that_others_write_to_all_the_time_is_shown_as_such(
    call: Door, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_person(graph, "Ada")
    monkeypatch.setattr(ensure_indices, "STAGINGS", 0)
    monkeypatch.setattr(ensure_indices, "QUICK_US", -1)
    result = call("ensure-indices", graph)
    assert result.returncode == 0
    assert "node:Person  -  0 of 3  others write to it too often: run this again" in result.stdout
