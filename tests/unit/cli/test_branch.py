import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Door = Callable[..., CompletedProcess[str]]


def test_a_branch_is_created_listed_and_deleted(
    call: Door, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(graph.parent)
    made = call("branch", "create", "draft/1", "--uri", graph.name, "--as", "act-me")
    assert (made.returncode, made.stdout) == (0, "created branch draft/1 from main\n")
    assert made.stderr == f"omnigraph branch create → {graph.name} (direct, local)\n"

    listed = call("branch", "list", "--uri", graph.name)
    assert (listed.returncode, listed.stderr) == (0, "")
    main, draft = (line.split() for line in listed.stdout.splitlines())
    assert (main[0], main[2:6], main[7]) == ("main", ["-", "-", "-", "0"], "-")
    assert (draft[0], draft[1], draft[2], draft[4]) == ("draft/1", main[1], "main", "act-me")

    gone = call("branch", "delete", "draft/1", "--uri", graph.name)
    assert (gone.returncode, gone.stdout) == (0, "deleted branch draft/1\n")
    assert gone.stderr == f"omnigraph branch delete → {graph.name} (direct, local)\n"


def test_json_is_the_body_of_the_contract(call: Door, graph: Path) -> None:
    uri = str(graph)
    made = call("branch", "create", "draft", "--uri", uri, "--as", "act-me", "--json", "--quiet")
    assert (made.returncode, made.stderr) == (0, "")
    assert json.loads(made.stdout) == {
        "uri": uri,
        "from": "main",
        "name": "draft",
        "actor_id": "act-me",
    }
    listed = call("branch", "list", "--uri", uri, "--json")
    assert json.loads(listed.stdout) == {"branches": ["main", "draft"]}
    gone = call("branch", "delete", "draft", "--uri", uri, "--json", "--quiet")
    assert json.loads(gone.stdout) == {"uri": uri, "name": "draft", "actor_id": None}


def test_a_branch_may_start_from_another(call: Door, graph: Path) -> None:
    call("branch", "create", "a", "--uri", graph)
    made = call("branch", "create", "b", "--from", "a", "--uri", graph)
    assert made.stdout == "created branch b from a\n"
    assert "b     " in call("branch", "list", "--uri", graph).stdout


def test_a_branch_with_branches_is_not_deleted_and_they_are_named(call: Door, graph: Path) -> None:
    call("branch", "create", "a", "--uri", graph)
    call("branch", "create", "b", "--from", "a", "--uri", graph)
    result = call("branch", "delete", "a", "--uri", graph, "--json")
    assert (result.returncode, result.stdout) == (1, "")
    envelope = json.loads(result.stderr)
    assert envelope["reason"] == "branch_has_descendants"
    assert envelope["branch_descendants"] == {"names": ["b"]}


def test_a_branch_whose_head_is_another_commit_is_not_deleted(call: Door, graph: Path) -> None:
    call("branch", "create", "a", "--uri", graph)
    refused = call("branch", "delete", "a", "--if-commit", "0" * 26, "--uri", graph, "--json")
    assert refused.returncode == 4
    assert json.loads(refused.stderr)["reason"] == "precondition_failure"
    assert call("branch", "delete", "a", "--if-commit", "", "--uri", graph).returncode == 2
    head = json.loads(call("commit", "list", graph, "--branch", "a", "--json").stdout)["commits"][0]
    condition = ("--if-commit", head["graph_commit_id"])
    assert call("branch", "delete", "a", *condition, "--uri", graph).returncode == 0


def test_quiet_hides_the_target(call: Door, graph: Path) -> None:
    assert call("--quiet", "branch", "create", "a", "--uri", graph).stderr == ""


def test_with_json_the_target_waits_for_success(call: Door, graph: Path) -> None:
    words = ("branch", "create", "a", "--uri", graph, "--json")
    assert call(*words).stderr == f"omnigraph branch create → {graph} (direct, local)\n"
    again = call(*words)
    assert json.loads(again.stderr)["reason"] == "branch_exists"
