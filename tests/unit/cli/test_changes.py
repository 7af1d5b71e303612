import json
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.graph.graphs import quick

from omnigraph import Graph
from omnigraph.api import parts
from omnigraph.graph.changes import feed as feed_module
from omnigraph.graph.ndjson.baseline import BaselineStream

Door = Callable[..., CompletedProcess[str]]
SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""


@pytest.fixture(scope="module")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("teams") / "team.omni"
    with Graph.init(path, schema=SCHEMA, settings=quick()) as graph:
        with graph.write() as writer:
            writer.append("Person", pa.table({"name": ["Ada", "Bob", "Cid"], "age": AGES}))
            writer.append("Knows", pa.table({"id": ["k1"], "src": ["Ada"], "dst": ["Bob"]}))
            writer.commit()
        with graph.as_actor("act-ada").write() as writer:
            writer.upsert("Person", pa.table({"name": ["Ada"], "age": AGES[1:2]}))
            writer.delete("Person", ["Cid"])
            writer.commit()
        graph.branches.create("draft")
    return path


@pytest.fixture
def team(tmp_path: Path, _made: Path) -> Path:
    """A graph with three commits, and a branch without any of its own."""
    return Path(shutil.copytree(_made, tmp_path / "team.omni"))


AGES = pa.array([1, 2, None], pa.int32())
TEXT = """\
commit {0} on main
commit {1} on main
  +  node:Person  Ada
  +  node:Person  Bob
  +  node:Person  Cid
  +  edge:Knows  k1  Ada -> Bob
commit {2} on main by act-ada
  ~  node:Person  Ada  age: 1 -> 2
  -  node:Person  Cid
"""


def commits(team: Path) -> list[str]:
    with Graph.open(team, mode="read_only") as graph:
        return [each.graph_commit_id for each in graph.commits][::-1]


def text_of(team: Path) -> str:
    return TEXT.format(*commits(team))


def now(team: Path, branch: str = "main") -> str:
    with Graph.open(team, mode="read_only") as graph:
        cursor = graph.changes.poll(branch=branch).cursor
    assert cursor is not None
    return cursor


# --- poll -------------------------------------------------------------------------------------


def test_commits_are_printed_with_their_changes_and_the_cursor_beside_them(
    start: Door, team: Path
) -> None:
    result = start("changes", "poll", "--uri", team, "--start", "beginning")
    assert (result.returncode, result.stdout) == (0, text_of(team))
    assert result.stderr == f"cursor: {now(team)}\n"


def test_a_quiet_poll_tells_its_cursor_and_its_page_token(call: Door, team: Path) -> None:
    words = ("changes", "poll", "--uri", team, "--start", "beginning", "--quiet")
    result = call(*words)
    assert (result.stdout, result.stderr) == (text_of(team), f"cursor: {now(team)}\n")
    assert call(*words, "--limit", "1").stderr.startswith("more: --page-token ")


def test_without_a_place_only_the_cursor_of_now_is_told(call: Door, team: Path) -> None:
    result = call("changes", "poll", "--store", team)
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr == f"cursor: {now(team)}\n"


def test_the_next_poll_starts_at_the_cursor(call: Door, team: Path) -> None:
    cursor = now(team)
    with Graph.open(team) as graph, graph.write() as writer:
        writer.append("Person", pa.table({"name": ["Dan"]}))
        writer.commit()
    result = call("changes", "poll", "--uri", team, "--cursor", cursor)
    assert result.stdout == f"commit {commits(team)[-1]} on main\n  +  node:Person  Dan\n"
    again = call("changes", "poll", "--uri", team, "--cursor", result.stderr.split()[-1])
    assert (again.stdout, again.stderr) == ("", result.stderr)


def test_a_start_behind_a_commit_of_a_branch(call: Door, team: Path) -> None:
    after = f"after:{commits(team)[1]}"
    result = call("changes", "poll", "--uri", team, "--branch", "draft", "--start", after)
    assert result.stdout.splitlines() == text_of(team).splitlines()[6:]
    assert result.stderr == f"cursor: {now(team, 'draft')}\n"


def test_options_choose_among_the_changes(call: Door, team: Path) -> None:
    words = ("--start", "beginning", "--kind", "node", "--type", "Person")
    result = call("changes", "poll", "--uri", team, *words, "--op", "delete", "--op", "update")
    lines = text_of(team).splitlines()
    assert result.stdout.splitlines() == [lines[0], lines[1], *lines[6:]]


def test_a_limit_prints_one_page_and_how_to_go_on(call: Door, team: Path) -> None:
    printed: list[str] = []
    words = ["--start", "beginning", "--limit", "2"]
    while True:
        result = call("changes", "poll", "--uri", team, *words)
        printed += result.stdout.splitlines()
        if not result.stderr.startswith("more: --page-token "):
            break
        words = [*result.stderr.split()[1:], "--limit", "2"]
    assert result.stderr == f"cursor: {now(team)}\n"
    lines = text_of(team).splitlines()
    # The second commit is in two pages.
    assert printed == [*lines[:4], lines[1], *lines[4:]]


def test_a_page_token_prints_exactly_one_page(call: Door, team: Path) -> None:
    with Graph.open(team, mode="read_only") as graph:
        token = graph.changes.poll(start="beginning", limit=1).next_page_token
    assert token is not None
    result = call("changes", "poll", "--uri", team, "--page-token", token)
    lines = text_of(team).splitlines()
    assert result.stdout.splitlines() == [lines[1], *lines[3:]]
    assert result.stderr == f"cursor: {now(team)}\n"


def test_all_pages_are_printed_and_a_commit_in_two_pages_has_one_line(
    call: Door, team: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = {**(parts.GraphChanges.poll.__kwdefaults__ or {}), "limit": 1}
    monkeypatch.setattr(parts.GraphChanges.poll, "__kwdefaults__", defaults)
    result = call("changes", "poll", "--uri", team, "--start", "beginning")
    assert result.stdout == text_of(team)
    assert result.stderr == f"cursor: {now(team)}\n"
    pages = call("changes", "poll", "--uri", team, "--start", "beginning", "--json").stdout
    assert [list(json.loads(line)) for line in pages.splitlines()] == [
        *[["blocks", "next_page_token"]] * 5,
        ["blocks", "cursor", "caught_up"],
    ]


def test_a_poll_that_does_not_come_to_the_head_says_so(
    call: Door, team: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "MOST_COMMITS_PER_POLL", 2)
    result = call("changes", "poll", "--uri", team, "--start", "beginning")
    assert result.stdout.splitlines() == text_of(team).splitlines()[:6]
    more, cursor = result.stderr.splitlines()
    assert more == "more commits are there: poll again from this cursor"
    rest = call("changes", "poll", "--uri", team, "--cursor", cursor.split()[-1])
    assert rest.stdout.splitlines() == text_of(team).splitlines()[6:]
    assert rest.stderr == f"cursor: {now(team)}\n"


def test_json_is_the_page(call: Door, team: Path) -> None:
    result = call("changes", "poll", "--uri", team, "--start", "beginning", "--json")
    with Graph.open(team, mode="read_only") as graph:
        assert json.loads(result.stdout) == graph.changes.poll(start="beginning").to_dict()
    assert result.stderr == ""
    (line,) = result.stdout.splitlines()
    assert json.loads(line)["caught_up"] is True


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--cursor", "nonsense"], 1, "error: change cursor rejected: "),
        (["--page-token", "AAAA"], 1, "error: change cursor rejected: "),
        (["--start", "yesterday"], 1, "'now', 'beginning' or 'after:'"),
        (["--start", "now", "--cursor", "x"], 1, "give one of cursor, start and page_token"),
        (["--branch", "nope"], 1, "there is no branch 'nope'"),
        (["--type", "Cat"], 1, "there is no type 'Cat'"),
        (["--limit", "0"], 2, "--limit"),
        (["--limit", "8193"], 1, "8,192"),
    ],
)
def test_what_cannot_be_told_is_an_error(
    call: Door, team: Path, words: list[str], code: int, text: str
) -> None:
    result = call("changes", "poll", "--uri", team, *words)
    assert (result.returncode, result.stdout) == (code, "")
    assert text in result.stderr


def test_a_cursor_goes_with_its_branch_and_filters(call: Door, team: Path) -> None:
    for words in (["--branch", "draft"], ["--kind", "node"]):
        result = call("changes", "poll", "--uri", team, "--cursor", now(team), *words)
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith("error: change cursor rejected: ")


# --- baseline ---------------------------------------------------------------------------------


def test_a_baseline_is_written_and_its_cursor_told(start: Door, team: Path, tmp_path: Path) -> None:
    result = start("changes", "baseline", "--uri", team, "--out", "base.ndjson")
    assert (result.returncode, result.stderr) == (0, "")
    cursor = now(team)
    assert result.stdout == f"commit  {commits(team)[-1]}\ncursor  {cursor}\n"
    with Graph.open(team, mode="read_only") as graph:
        assert (tmp_path / "base.ndjson").read_bytes() == b"".join(graph.changes.baseline())


def test_the_json_of_a_baseline_is_its_last_record(call: Door, team: Path, tmp_path: Path) -> None:
    out = tmp_path / "base.ndjson"
    result = call("changes", "baseline", "--uri", team, "--out", out, "--json")
    *records, last = map(json.loads, out.read_text().splitlines())
    assert json.loads(result.stdout) == last["baseline"]
    assert [each["data"]["id"] for each in records] == ["Ada", "Bob", "k1"]


def test_a_poll_goes_on_from_a_baseline_with_its_filters(
    call: Door, team: Path, tmp_path: Path
) -> None:
    filters = ("--branch", "draft", "--type", "Person")
    out = tmp_path / "base.ndjson"
    told = call("changes", "baseline", "--uri", team, "--out", out, "--json", *filters)
    cursor = json.loads(told.stdout)["resume_cursor"]
    assert "Knows" not in out.read_text()
    result = call("changes", "poll", "--uri", team, "--cursor", cursor, *filters)
    assert (result.stdout, result.stderr) == ("", f"cursor: {cursor}\n")


def test_a_baseline_takes_the_place_of_another(call: Door, team: Path, tmp_path: Path) -> None:
    out = tmp_path / "base.ndjson"
    out.write_text("old\n" * 10_000)
    assert call("changes", "baseline", "--uri", team, "--out", out).returncode == 0
    assert "baseline" in json.loads(out.read_text().splitlines()[-1])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base.ndjson", "team.omni"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_on_the_way_leaves_the_file_as_it_was_and_tells_no_cursor(
    call: Door,
    team: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    out = tmp_path / "base.ndjson"
    out.write_text("old\n")
    whole = BaselineStream.__iter__

    def broken(stream: BaselineStream) -> Any:  # noqa: ANN401 - chunks
        yield next(iter(whole(stream)))
        raise error

    monkeypatch.setattr(BaselineStream, "__iter__", broken)
    result = call("changes", "baseline", "--uri", team, "--out", out)
    assert result.returncode not in (0, 2)
    assert (result.stdout, out.read_text()) == ("", "old\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base.ndjson", "team.omni"]


@pytest.mark.parametrize("name", ["folder", "missing/base.ndjson"])
def test_a_place_that_cannot_be_written_is_told(
    call: Door, team: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "folder").mkdir()
    result = call("changes", "baseline", "--uri", team, "--out", tmp_path / name)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: --out '{tmp_path / name}'")
    assert list((tmp_path / "folder").iterdir()) == []


@pytest.mark.parametrize("words", [["--branch", "nope"], ["--type", "Cat"]])
def test_a_baseline_that_is_refused_writes_nothing(
    call: Door, team: Path, tmp_path: Path, words: list[str]
) -> None:
    result = call("changes", "baseline", "--uri", team, "--out", tmp_path / "f", *words)
    assert (result.returncode, result.stdout) == (1, "")
    assert [path.name for path in tmp_path.iterdir()] == ["team.omni"]


def test_a_baseline_needs_a_file(call: Door, team: Path) -> None:
    result = call("changes", "baseline", "--uri", team)
    assert (result.returncode, result.stdout) == (2, "")
    assert "--out" in result.stderr
