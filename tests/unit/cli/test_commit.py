import json
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.cli.commands.commit import parse_filters
from omnigraph.errors import UsageError

Door = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="module")
def _written(
    tmp_path_factory: pytest.TempPathFactory, _empty_graph: Path
) -> tuple[Path, list[str]]:
    path = tmp_path_factory.mktemp("graphs") / "people.omni"
    shutil.copytree(_empty_graph, path)
    for name in ("Ada", "Bob", "Cid"):
        with Graph.open(path, actor=f"act-{name}") as opened, opened.write() as writer:
            writer.append("Person", pa.table({"name": [name]}))
            assert writer.commit() is not None
    with Graph.open(path, mode="read_only") as opened:
        return path, [each.graph_commit_id for each in opened.commits]


@pytest.fixture
def ids(graph: Path, _written: tuple[Path, list[str]]) -> list[str]:
    """The commits of a graph that two actors wrote to, newest first."""
    path, found = _written
    shutil.rmtree(graph)
    shutil.copytree(path, graph)
    return found


def test_the_text_has_one_line_for_each_commit_newest_first(
    call: Door, graph: Path, ids: list[str]
) -> None:
    result = call("commit", "list", graph)
    assert (result.returncode, result.stderr) == (0, "")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [line[0] for line in lines] == ids
    assert lines[0][1:5] == ["3", "mutation", "main", "act-Cid"]
    assert lines[-1][1:5] == ["0", "genesis", "main", "act-maker"]


def test_json_is_the_body_of_the_contract(call: Door, graph: Path, ids: list[str]) -> None:
    result = call("commit", "list", graph, "--json")
    body = json.loads(result.stdout)
    assert set(body) == {"commits"}
    assert set(body["commits"][0]) == {
        "graph_commit_id",
        "graph_branch",
        "graph_manifest_version",
        "parent_commit_id",
        "merged_parent_commit_id",
        "actor_id",
        "created_at",
        "kind",
        "operation_id",
    }
    assert [each["graph_commit_id"] for each in body["commits"]] == ids
    assert body["commits"][0]["parent_commit_id"] == ids[1]


def test_pages_follow_each_other_to_the_end(call: Door, graph: Path, ids: list[str]) -> None:
    found: list[str] = []
    token: list[str] = []
    while True:
        words = ("commit", "list", graph, "--limit", "3", "--json", *token)
        page = json.loads(call(*words).stdout)
        found += [each["graph_commit_id"] for each in page["commits"]]
        if "next_cursor" not in page:
            break
        token = ["--page-token", page["next_cursor"]]
    assert found == ids


def test_the_text_tells_how_to_go_on(call: Door, graph: Path, ids: list[str]) -> None:
    first = call("commit", "list", graph, "--limit", "3")
    words = first.stderr.split()
    assert words[:2] == ["more:", "--page-token"]
    rest = call("commit", "list", graph, *words[1:])
    assert (rest.stdout.split()[0], rest.stderr) == (ids[3], "")


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (["actor=act-Bob"], [1]),
        (["kind=mutation"], [0, 1, 2]),
        (["kind=mutation", "actor=act-maker"], []),
        (["operation=nope"], []),
    ],
)
def test_filters_narrow_the_list(
    call: Door, graph: Path, ids: list[str], filters: list[str], found: list[int]
) -> None:
    words = [word for each in filters for word in ("--filter", each)]
    body = json.loads(call("commit", "list", graph, "--json", *words).stdout)
    assert [each["graph_commit_id"] for each in body["commits"]] == [ids[each] for each in found]


def test_an_empty_list_says_so(call: Door, graph: Path) -> None:
    assert call("commit", "list", graph, "--filter", "kind=load").stdout == "(no rows)\n"


@pytest.mark.parametrize(
    ("filters", "named"),
    [
        (["author=me"], "'author=me'"),
        (["actor"], "'actor'"),
        (["actor="], "'actor='"),
        (["kind=a", "kind=b"], "twice"),
    ],
)
def test_a_filter_that_means_nothing_is_wrong_usage(filters: list[str], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        parse_filters(filters)


def test_an_actor_cannot_write_to_the_terminal(call: Door, graph: Path) -> None:
    evil = "act\n\x1b[2J"
    call("branch", "create", "draft", "--uri", graph, "--as", evil)
    line = call("branch", "list", "--uri", graph).stdout.splitlines()[1]
    assert line.endswith(r"act\n\x1b[2J")


def test_a_commit_is_shown_by_its_id(call: Door, graph: Path, ids: list[str]) -> None:
    result = call("commit", "show", ids[0], "--uri", graph)
    assert (result.returncode, result.stderr) == (0, "")
    shown = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert (shown["commit"], shown["parent"], shown["actor"]) == (ids[0], ids[1], "act-Cid")


def test_json_of_one_commit_is_that_of_the_list(call: Door, graph: Path, ids: list[str]) -> None:
    listed = json.loads(call("commit", "list", graph, "--json").stdout)["commits"]
    shown = [
        json.loads(call("commit", "show", each, "--uri", graph, "--json").stdout) for each in ids
    ]
    assert shown == listed
