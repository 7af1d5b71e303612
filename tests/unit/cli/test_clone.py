import json
import signal
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from omnigraph import Graph

Door = Callable[..., CompletedProcess[str]]


@pytest.fixture
def drafted(graph: Path) -> Path:
    """Two people, a third on a branch."""
    with Graph.open(graph) as opened:
        rows = b'{"type":"Person","data":{"name":"a"}}\n{"type":"Person","data":{"name":"b"}}'
        opened.load(rows, mode="append")
        opened.branches.create("draft")
        opened.mutate('query q() { insert Person { name: "c" } }', branch="draft")
    return graph


def test_a_clone_is_made_and_told(
    call: Door, drafted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(drafted.parent)
    result = call("clone", drafted.name, "copy.omni")
    assert (result.returncode, result.stderr) == (
        0,
        "omnigraph clone → copy.omni (direct, local)\n",
    )
    told, *rows = result.stdout.splitlines()
    assert told == f"cloned {drafted.name} to copy.omni"
    assert [(row.split()[0], *row.split()[2:]) for row in rows] == [
        ("main", "2", "0"),
        ("draft", "3", "0"),
    ]


def test_json_has_both_addresses_and_the_branches(
    call: Door, drafted: Path, tmp_path: Path
) -> None:
    words = ("clone", drafted, tmp_path / "copy.omni", "--as", "act-me", "--json", "--quiet")
    result = call(*words)
    assert (result.returncode, result.stderr) == (0, "")
    body = json.loads(result.stdout)
    assert (body["source"], body["uri"]) == (str(drafted), str(tmp_path / "copy.omni"))
    with Graph.open(tmp_path / "copy.omni", mode="read_only") as copy:
        assert body["branches"] == [
            {
                "name": name,
                "parent": parent,
                "head": copy.snapshot(branch=name).graph_commit_id,
                "nodes": nodes,
                "edges": 0,
            }
            for name, parent, nodes in (("main", None, 2), ("draft", "main", 3))
        ]
        assert copy.commits.list().commits[0].actor_id == "act-me"


def test_one_state_or_some_branches_can_be_asked_for(
    call: Door, drafted: Path, tmp_path: Path
) -> None:
    with Graph.open(drafted, mode="read_only") as opened:
        first = opened.commits.list().commits[-1].graph_commit_id
    for number, (words, names) in enumerate(
        [(("--at", first), ["main"]), (("--branch", "main"), ["main"])]
    ):
        result = call("clone", drafted, tmp_path / f"{number}.omni", *words, "--json")
        assert [each["name"] for each in json.loads(result.stdout)["branches"]] == names
    refused = call("clone", drafted, tmp_path / "new", "--at", first, "--branch", "main", "--json")
    assert json.loads(refused.stderr.splitlines()[-1])["reason"] == "invalid_argument"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("nothing.omni", "new.omni"), "graph_not_found"),
        (("people.omni", "people.omni"), "invalid_argument"),
        (("people.omni", "new.omni", "--branch", "none"), "branch_not_found"),
        (("http://host/people", "new.omni"), "usage"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_made(
    call: Door, graph: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], reason: str
) -> None:
    monkeypatch.chdir(graph.parent)
    result = call("clone", *words, "--json", "--quiet")
    assert result.returncode != 0
    assert json.loads(result.stderr)["reason"] == reason
    assert not Path("new.omni").exists()


@pytest.mark.extended
def test_force_clears_what_a_killed_clone_left(start: Door, call: Door, drafted: Path) -> None:
    copy = drafted.parent / "copy.omni"
    killed = start(
        *("clone", drafted, copy),
        environ={"OMNIGRAPH_TESTING": "1", "OMNIGRAPH_FAILPOINTS": "clone.post_fill=kill"},
    )
    assert killed.returncode == -signal.SIGKILL
    assert "clone --force" in call("snapshot", copy).stderr
    assert "clone --force" in call("clone", drafted, copy).stderr
    assert call("clone", drafted, copy, "--force").returncode == 0
    assert "Person" in call("snapshot", copy).stdout
