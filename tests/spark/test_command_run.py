"""`omnigraph run`: which graph it writes, what it prints, every way to be refused."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.unit.cli.pipeline_files import PIPELINE, SCHEMA, lay_out_pipeline

from omnigraph import Graph
from omnigraph.pipeline.spark.session import PipelineSession

Door = Callable[..., CompletedProcess[str]]


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A graph of nobody beside a pipeline with its files, in the working folder."""
    monkeypatch.chdir(tmp_path)
    return lay_out_pipeline(tmp_path)


def head(people: Path) -> str:
    with Graph.open(people, mode="read_only") as graph:
        return graph.snapshot().graph_commit_id


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
    same = call("run", "pipeline.yaml", "--store", people, "--only", "friends", "--json")
    assert (json.loads(same.stdout)["commit"], head(people)) == (None, commit)
    Path("friends.json").write_text('{"key": "k", "a": "Bob", "b": "Ada"}\n')
    again = call("run", "pipeline.yaml", "--store", people, "--only", "friends", "--json")
    assert again.returncode == 0, again.stderr
    body = json.loads(again.stdout)
    assert (body["actor_id"], body["report"]["cursors"]) == (None, {"people": 2})
    assert body["commit"]["parent_commit_id"] == commit
    only = call("run", "pipeline.yaml", "--store", people, "--only", "friends")
    assert only.stdout.endswith(f"commit {head(people)} of an earlier run\n")
    forced = call("run", "pipeline.yaml", "--store", people, "--only", "friends", "--force")
    assert forced.stdout.endswith("no commit\n")


@pytest.mark.extended
def test_a_cursor_goes_on_until_it_is_told_otherwise(
    call: Door, people: Path, session: PipelineSession
) -> None:
    assert session.is_owned
    run = ("run", "pipeline.yaml", "--store", people, "--only", "people")
    assert call(*run).returncode == 0
    Path("people.csv").write_text("name,age,seen\nAda,36,1\nBob,,2\nCy,7,3\n")
    assert call(*run).stdout.startswith("node:Person  1 read  1 added")
    refreshed = call(*run, "--full-refresh", "--force")
    unchanged = "node:Person  3 read  0 added  0 changed  0 removed  3 unchanged\n"
    assert refreshed.stdout.startswith(unchanged), refreshed.stderr
    Path("pipeline.yaml").write_text(PIPELINE.replace("age: age", "age: {expr: age + 1}"))
    refused = call(*run)
    assert (refused.returncode, "--keep-cursor" in refused.stderr) == (1, True)
    kept = call(*run, "--keep-cursor")
    assert (kept.returncode, kept.stdout.splitlines()[-2]) == (0, "cursor people: 3"), kept.stderr


@pytest.mark.extended
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
