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
    assert (lines[0][6:], lines[-1][6:]) == (["+1", "-"], ["-", "-"])


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
        "committed_at",
        "kind",
        "operation_id",
    }
    assert [each["graph_commit_id"] for each in body["commits"]] == ids
    assert body["commits"][0]["parent_commit_id"] == ids[1]


def test_the_time_that_a_list_shows_names_the_commit(
    call: Door, graph: Path, ids: list[str]
) -> None:
    for line in call("commit", "list", graph).stdout.splitlines():
        words = line.split()
        shown = call("snapshot", graph, "--at", words[5])
        assert f"commit   {words[0]}\n" in shown.stdout
    assert words[0] == ids[-1]
    facts = call("commit", "show", words[0], "--uri", graph).stdout
    assert f"committed at  {words[5]}\n" in facts
    before = call("query", "--store", graph, "--snapshot", "1999-12-31", "-e", "query q() {}")
    assert before.returncode == 1
    assert f"its commits go from {words[5]} to" in before.stderr


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
    assert r"act\n\x1b[2J" in line


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
    assert shown[0].pop("stats")["tables"] == {
        "node:Person": {"added": 1, "changed": 0, "removed": 0}
    }
    assert [{k: v for k, v in each.items() if k != "stats"} for each in shown] == listed


# --- changes ----------------------------------------------------------------------------------


@pytest.fixture
def many(graph: Path) -> str:
    """A commit with three changes."""
    with Graph.open(graph, actor="act-ada") as opened, opened.write() as writer:
        writer.append("Person", pa.table({"name": ["Ada", "Bob", "Cid"]}))
        commit = writer.commit()
    assert commit is not None
    return commit.graph_commit_id


def test_the_changes_of_a_commit_are_lines(start: Door, graph: Path, many: str) -> None:
    result = start("commit", "changes", many, "--uri", graph.name)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        f"+  node:Person  {each}" for each in ("Ada", "Bob", "Cid")
    ]


def test_json_of_changes_is_a_page_on_a_line(call: Door, graph: Path, many: str) -> None:
    result = call("commit", "changes", many, "--uri", graph, "--json")
    (line,) = result.stdout.splitlines()
    with Graph.open(graph, mode="read_only") as opened:
        assert json.loads(line) == opened.commits.changes(many).to_dict()


def test_without_a_limit_every_page_is_printed(
    call: Door, graph: Path, many: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.graph.changes.commit_changes._PAGE_BYTES", 1)
    result = call("commit", "changes", many, "--uri", graph, "--json")
    pages = [json.loads(line) for line in result.stdout.splitlines()]
    assert [[each["id"] for each in page["changes"]] for page in pages] == [
        ["Ada"],
        ["Bob"],
        ["Cid"],
    ]
    assert ["next_page_token" in page for page in pages] == [True, True, False]
    lines = call("commit", "changes", many, "--uri", graph)
    assert (len(lines.stdout.splitlines()), lines.stderr) == (3, "")


def test_pages_of_changes_follow_each_other_to_the_end(call: Door, graph: Path, many: str) -> None:
    words: list[str] = []
    found: list[str] = []
    for _ in range(3):
        result = call("commit", "changes", many, "--uri", graph, "--limit", "1", *words)
        found += result.stdout.splitlines()
        words = result.stderr.split()[1:]
    assert found == [f"+  node:Person  {each}" for each in ("Ada", "Bob", "Cid")]
    assert words == []


def test_quiet_pages_tell_their_tokens(call: Door, graph: Path, many: str) -> None:
    for words in (("commit", "changes", many, "--uri", graph), ("commit", "list", graph)):
        result = call(*words, "--limit", "1", "--quiet")
        assert result.stderr.startswith("more: --page-token ")


def test_a_page_token_alone_goes_on_with_one_page(call: Door, graph: Path, many: str) -> None:
    first = json.loads(
        call("commit", "changes", many, "--uri", graph, "--limit", "1", "--json").stdout
    )
    token = first["next_page_token"]
    rest = call("commit", "changes", many, "--uri", graph, "--page-token", token)
    assert (len(rest.stdout.splitlines()), rest.stderr) == (2, "")


def test_options_choose_among_the_changes_of_a_commit(call: Door, graph: Path, many: str) -> None:
    for words in (["--op", "delete"], ["--kind", "edge"]):
        result = call("commit", "changes", many, "--uri", graph, *words)
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--page-token", "x"], 1, "change cursor rejected: "),
        (["--limit", "8193"], 1, "at most 8,192 changes"),
        (["--limit", "0"], 2, "--limit"),
        (["--type", "Cat"], 1, "there is no type 'Cat'"),
    ],
)
def test_a_page_that_does_not_exist_is_an_error(
    call: Door, graph: Path, many: str, words: list[str], code: int, text: str
) -> None:
    result = call("commit", "changes", many, "--uri", graph, *words)
    assert (result.returncode, result.stdout) == (code, "")
    assert text in result.stderr


def test_the_first_commit_has_no_changes_to_tell(call: Door, graph: Path) -> None:
    with Graph.open(graph, mode="read_only") as opened:
        first = opened.snapshot(0).graph_commit_id
    result = call("commit", "changes", first, "--uri", graph, "--json")
    assert (result.returncode, result.stdout) == (1, "")
    assert json.loads(result.stderr)["reason"] == "parentless_commit"


# --- revert -----------------------------------------------------------------------------------


def names_in(path: Path, branch: str = "main") -> list[str]:
    with Graph.open(path, mode="read_only") as opened:
        rows = opened.snapshot(branch=branch).scan("Person", columns=["name"]).read_all()
    return sorted(map(str, rows["name"].to_pylist()))


def test_a_commit_is_undone_by_a_new_one(call: Door, graph: Path, ids: list[str]) -> None:
    result = call("commit", "revert", ids[1], "--uri", graph, "--as", "act-me")
    assert result.returncode == 0
    assert result.stderr == f"omnigraph commit revert → {graph} (direct, local)\n"
    newest = json.loads(call("commit", "list", graph, "--limit", "1", "--json").stdout)["commits"]
    (made,) = newest
    assert result.stdout == f"reverted {ids[1]} on main: commit {made['graph_commit_id']}\n"
    assert (made["parent_commit_id"], made["actor_id"]) == (ids[0], "act-me")
    assert names_in(graph) == ["Ada", "Cid"]


def test_json_of_a_revert_has_the_new_commit(call: Door, graph: Path, ids: list[str]) -> None:
    words = ("commit", "revert", ids[0], "--uri", graph, "--json", "--quiet")
    result = call(*words)
    assert (result.returncode, result.stderr) == (0, "")
    body = json.loads(result.stdout)
    assert (body["reverted"], body["branch"]) == (ids[0], "main")
    assert body["commit"]["parent_commit_id"] == ids[0]


def test_nothing_is_left_to_undo_of_a_commit_that_was_undone(
    call: Door, graph: Path, ids: list[str]
) -> None:
    call("commit", "revert", ids[0], "--uri", graph)
    again = call("commit", "revert", ids[0], "--uri", graph, "--quiet")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == f"nothing of commit {ids[0]} is left to undo on main\n"
    body = json.loads(call("commit", "revert", ids[0], "--uri", graph, "--json").stdout)
    assert body == {"reverted": ids[0], "branch": "main", "commit": None}


def test_a_commit_is_undone_on_its_branch_only(call: Door, graph: Path) -> None:
    call("branch", "create", "draft", "--uri", graph)
    with Graph.open(graph) as opened, opened.write("draft") as writer:
        writer.append("Person", pa.table({"name": ["Ada"]}))
        commit = writer.commit()
    assert commit is not None
    words = ("commit", "revert", commit.graph_commit_id, "--uri", graph)
    refused = call(*words, "--json")
    assert refused.returncode == 1
    assert json.loads(refused.stderr)["reason"] == "invalid_argument"
    result = call(*words, "--branch", "draft")
    assert result.stdout.startswith(f"reverted {commit.graph_commit_id} on draft: commit ")
    assert names_in(graph, "draft") == []


def test_a_commit_that_later_ones_built_on_is_not_undone(
    call: Door, graph: Path, ids: list[str]
) -> None:
    with Graph.open(graph) as opened, opened.write() as writer:
        writer.upsert("Person", pa.table({"name": ["Bob"], "age": pa.array([7], pa.int32())}))
        writer.commit()
    result = call("commit", "revert", ids[1], "--uri", graph, "--json")
    assert (result.returncode, result.stdout) == (1, "")
    envelope = json.loads(result.stderr)
    assert envelope["reason"] == "merge_conflicts"
    assert [each["entity_id"] for each in envelope["merge_conflicts"]] == ["Bob"]
    assert names_in(graph) == ["Ada", "Bob", "Cid"]


def test_a_revert_on_another_head_than_expected_ends_with_4(
    call: Door, graph: Path, ids: list[str]
) -> None:
    words = ("commit", "revert", ids[0], "--uri", graph, "--if-commit")
    lost = call(*words, ids[1], "--json")
    assert (lost.returncode, lost.stdout) == (4, "")
    assert json.loads(lost.stderr)["reason"] == "precondition_failure"
    assert call(*words, "").returncode == 2
    assert call(*words, ids[0]).returncode == 0


def test_the_first_commit_and_one_that_does_not_exist_are_not_undone(
    call: Door, graph: Path, ids: list[str]
) -> None:
    reasons = {ids[-1]: "parentless_commit", "0" * 26: "commit_not_found"}
    for commit, reason in reasons.items():
        result = call("commit", "revert", commit, "--uri", graph, "--json")
        assert (result.returncode, result.stdout) == (1, "")
        assert json.loads(result.stderr)["reason"] == reason
