"""`omnigraph run`: which graph it writes, what it prints, every way to be refused."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from omnigraph import Graph
from omnigraph.pipeline.spark.session import PipelineSession

Door = Callable[..., CompletedProcess[str]]

ON_SPARK = (
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(300),
)
SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n"
PIPELINE = """
version: 1
name: people
mode: merge
sources:
  people: {format: csv, path: people.csv, schema: {name: string, age: int, seen: bigint},
           cursor: {column: seen, type: integer}}
  friends: {format: json, path: friends.json}
nodes:
  - {type: Person, from: people, columns: {name: name, age: age}}
edges:
  - {type: Knows, from: friends, id: key, src: a, dst: b}
"""


def on_spark(test: Callable[..., None]) -> Callable[..., None]:
    for mark in ON_SPARK:
        test = mark(test)
    return test


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A graph of nobody beside a pipeline with its files, in the working folder."""
    monkeypatch.chdir(tmp_path)
    Graph.init(tmp_path / "people.omni", schema=SCHEMA).close()
    Path("pipeline.yaml").write_text(PIPELINE)
    Path("people.csv").write_text("name,age,seen\nAda,36,1\nBob,,2\n")
    Path("friends.json").write_text('{"key": "k", "a": "Ada", "b": "Bob"}\n')
    return Path("people.omni")


def head(people: Path) -> str:
    with Graph.open(people, mode="read_only") as graph:
        return graph.snapshot().graph_commit_id


@on_spark
def test_all_sources_are_one_commit_and_the_same_run_again_is_none(
    call: Door, people: Path, session: PipelineSession
) -> None:
    assert session.is_owned
    tried = call("run", "pipeline.yaml", "--store", people, "--dry-run")
    assert tried.stdout.endswith(
        "3 rows for branch main, mode merge: dry run, nothing is written\n"
    )
    first = call("run", "pipeline.yaml", "--store", people, "--as", "act-me")
    assert (first.returncode, first.stdout.splitlines()) == (
        0,
        [
            "node:Person  2 read  2 added  0 changed  0 removed",
            "edge:Knows   1 read  1 added  0 changed  0 removed",
            "cursor people: 2",
            f"3 rows on branch main, mode merge: commit {head(people)}",
        ],
    ), first.stderr
    announced, operation = first.stderr.splitlines()
    assert announced == "omnigraph run → people.omni (direct, local)"
    assert operation.startswith("operation ")
    commit = head(people)
    again = call("run", "pipeline.yaml", "--store", people, "--only", "friends", "--json")
    assert again.returncode == 0, again.stderr
    body = json.loads(again.stdout)
    assert (body["actor_id"], body["report"]["cursors"]) == (None, {"people": 2})
    assert body["commit"]["parent_commit_id"] == commit
    only = call("run", "pipeline.yaml", "--store", people, "--only", "friends")
    assert only.stdout.endswith(f"commit {head(people)} of an earlier run\n")
    forced = call("run", "pipeline.yaml", "--store", people, "--only", "friends", "--force")
    assert not forced.stdout.endswith("of an earlier run\n")


@on_spark
def test_a_cursor_goes_on_until_it_is_told_otherwise(
    call: Door, people: Path, session: PipelineSession
) -> None:
    assert session.is_owned
    run = ("run", "pipeline.yaml", "--store", people, "--only", "people")
    assert call(*run).returncode == 0
    Path("people.csv").write_text("name,age,seen\nAda,36,1\nBob,,2\nCy,7,3\n")
    assert call(*run).stdout.startswith("node:Person  1 read  1 added")
    refreshed = call(*run, "--full-refresh", "--force")
    assert refreshed.stdout.startswith("node:Person  3 read  0 added  3 changed"), refreshed.stderr
    Path("pipeline.yaml").write_text(PIPELINE.replace("age: age", "age: {expr: age + 1}"))
    refused = call(*run)
    assert (refused.returncode, "--keep-cursor" in refused.stderr) == (1, True)
    kept = call(*run, "--keep-cursor")
    assert (kept.returncode, kept.stdout.splitlines()[-2]) == (0, "cursor people: 3"), kept.stderr


@on_spark
@pytest.mark.usefixtures("people")
def test_the_graph_is_the_one_of_the_file_unless_another_is_addressed(
    call: Door, tmp_path: Path, session: PipelineSession
) -> None:
    assert session.is_owned
    Graph.init(tmp_path / "other.omni", schema=SCHEMA).close()
    folder = tmp_path / "jobs"
    folder.mkdir()
    for name in ("people.csv", "friends.json"):
        (folder / name).write_bytes(Path(name).read_bytes())
    (folder / "pipeline.yaml").write_text(f"graph: ../people.omni\n{PIPELINE.lstrip()}")
    home = tmp_path / ".omnigraph"
    home.mkdir()
    config = {"profiles": {"other": {"store": "other.omni"}}}
    (home / "config.yaml").write_text(json.dumps(config))
    file = folder / "pipeline.yaml"
    named = call("run", file, environ={"OMNIGRAPH_PROFILE": "other"})
    assert named.stderr.startswith(f"omnigraph run → {folder / '../people.omni'} (direct, local)\n")
    assert named.returncode == 0
    for words in (("--profile", "other"), ("--store", "other.omni")):
        result = call("run", file, *words)
        assert result.stderr.startswith("omnigraph run → other.omni (direct, local)\n")
        assert result.returncode == 0, result.stderr


@pytest.mark.usefixtures("people")
def test_a_file_that_names_no_graph_needs_one(call: Door) -> None:
    result = call("run", "pipeline.yaml")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "error: no graph is addressed; give its `graph`, --store URI, --profile NAME, or set "
        "defaults.store in the operator config\n"
    )
    Path("pipeline.yaml").write_text(f"graph: http://127.0.0.1:1\n{PIPELINE.lstrip()}")
    served = call("run", "pipeline.yaml")
    assert (served.returncode, "is a server, not storage" in served.stderr) == (2, True)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (None, "'pipeline.yaml' cannot be read"),
        ("version: 1\nname: x\nmode: mrge\nsources: {}\n", "mode"),
        ("a: [", "pipeline.yaml"),
    ],
)
def test_a_wrong_file_is_told_before_anything_starts(
    call: Door, people: Path, content: str | None, found: str
) -> None:
    file = Path("pipeline.yaml")
    file.unlink()
    if content is not None:
        file.write_text(content)
    result = call("run", file, "--store", people)
    assert (result.returncode, result.stdout) == (2, "")
    assert found in result.stderr
    body = json.loads(call("run", file, "--store", people, "--json").stderr)
    assert body["reason"] == "setting_invalid"


@pytest.mark.usefixtures("people")
def test_replacing_everything_on_a_remote_target_needs_consent(call: Door) -> None:
    text = PIPELINE.replace("mode: merge", "mode: overwrite")
    # What is new cannot take the place of everything.
    text = text.replace(",\n           cursor: {column: seen, type: integer}", "")
    Path("pipeline.yaml").write_text(text)
    remote = "s3://no-such-bucket.invalid/g"
    result = call("run", "pipeline.yaml", "--store", remote, "--json")
    assert (result.returncode, result.stdout) == (1, "")
    assert "pass --yes" in json.loads(result.stderr)["error"]


@pytest.mark.usefixtures("people")
def test_a_graph_that_is_not_there_is_told_before_spark_starts(call: Door) -> None:
    result = call("run", "pipeline.yaml", "--store", "nothing.omni")
    assert result.returncode == 1
    assert "nothing.omni" in result.stderr
