import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.unit.cli.test_snapshot import add_person

Door = Callable[..., CompletedProcess[str]]


def test_a_tag_is_created_listed_read_and_deleted(
    call: Door, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(graph.parent)
    commit = add_person(graph, "Ada")
    made = call("tag", "create", "v/1", "--uri", graph.name, "--as", "act-me")
    assert made.returncode == 0
    assert made.stdout == f"created tag v/1 at commit {commit}, version 1 of main\n"
    assert made.stderr == f"omnigraph tag create → {graph.name} (direct, local)\n"
    add_person(graph, "Bob")

    listed = call("tag", "list", "--uri", graph.name)
    assert (listed.returncode, listed.stderr) == (0, "")
    [words] = (line.split() for line in listed.stdout.splitlines())
    assert (words[:4], words[5:]) == (["v/1", commit, "1", "main"], ["act-me"])

    shown = call("snapshot", graph.name, "--at", "v/1")
    assert f"commit   {commit}\n" in shown.stdout
    assert call("commit", "show", "v/1", "--uri", graph.name).stdout.split()[1] == commit
    exported = call("export", graph.name, "--snapshot", "v/1")
    assert exported.stdout.count("\n") == call("export", graph.name).stdout.count("\n") - 1

    gone = call("tag", "delete", "v/1", "--uri", graph.name)
    assert (gone.returncode, gone.stdout) == (0, "deleted tag v/1\n")
    assert gone.stderr == f"omnigraph tag delete → {graph.name} (direct, local)\n"


def test_json_has_what_a_tag_tells(call: Door, graph: Path) -> None:
    commit = add_person(graph, "Ada")
    words = ("--uri", graph, "--json", "--quiet")
    call("branch", "create", "draft", *words)
    made = json.loads(
        call("tag", "create", "v1", "--branch", "draft", "--at", "1", *words, "--as", "me").stdout
    )
    assert made.pop("uri") == str(graph)
    assert made == {
        "name": "v1",
        "graph_commit_id": commit,
        "graph_branch": "main",
        "graph_manifest_version": 1,
        "created_at": made["created_at"],
        "actor_id": "me",
    }
    assert json.loads(call("tag", "list", *words).stdout) == {"tags": [made]}
    body = json.loads(call("snapshot", graph, "--at", "v1", "--branch", "draft", "--json").stdout)
    assert (body["graph_branch"], body["graph_manifest_version"]) == ("main", 1)
    undone = json.loads(call("commit", "revert", "v1", *words).stdout)
    assert undone["reverted"] == commit
    gone = call("tag", "delete", "v1", *words)
    assert json.loads(gone.stdout) == {"uri": str(graph), "name": "v1", "actor_id": None}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["create", "17"], "invalid_branch_name"),
        (["create", "draft"], "branch_exists"),
        (["create", "v1"], "tag_exists"),
        (["create", "v2", "--at", "nothing"], "commit_not_found"),
        (["delete", "v2"], "tag_not_found"),
    ],
)
def test_what_is_refused_is_told_by_its_reason(
    call: Door, graph: Path, words: list[str], reason: str
) -> None:
    call("branch", "create", "draft", "--uri", graph)
    call("tag", "create", "v1", "--uri", graph)
    result = call("tag", *words, "--uri", graph, "--json", "--quiet")
    assert (result.returncode, result.stdout) == (1, "")
    assert json.loads(result.stderr)["reason"] == reason
