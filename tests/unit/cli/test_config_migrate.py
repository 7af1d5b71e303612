"""A project's file as the two files that it grew into; nothing is written unless that is wanted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from omnigraph.cli.operator_config import read_operator_config
from omnigraph.cli.project_config import read_project_config
from omnigraph.cli.project_split import merged, split_project

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.cli.conftest import Result

PROJECT = """
project: { name: demo }
graphs:
  local: { uri: ./repo.omni }
  my_own: { uri: ./own.omni }
  dev:   { uri: http://127.0.0.1:8080, bearer_token_env: DEV_TOKEN }
server: { graph: local, bind: 127.0.0.1:8080 }
cli:    { graph: dev, actor: act-me, output_format: kv }
query:  { roots: [queries, .] }
auth:   { env_file: ./.env.omni }
aliases:
  people: { query: people.gq, name: list_people, args: [since], graph: dev, branch: main,
            format: kv }
  here:   { query: people.gq, name: list_people, graph: local }
queries: { list_people: { file: people.gq } }
policy: { file: ./policy.yaml }
"""
CLUSTER = {
    "version": 1,
    "metadata": {"name": "demo"},
    "graphs": {"local": {"schema": "local.pg", "queries": "people.gq"}},
    "policies": {"policy": {"file": "./policy.yaml", "applies_to": ["local"]}},
}
OPERATOR = {
    "operator": {"actor": "act-me"},
    "servers": {"dev": {"url": "http://127.0.0.1:8080"}},
    "defaults": {"server": "dev", "default_graph": "default", "output": "kv"},
    "aliases": {
        "people": {
            "server": "dev",
            "graph": "default",
            "query": "list_people",
            "args": ["since"],
            "format": "kv",
        }
    },
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "omnigraph.yaml").write_text(PROJECT)
    (tmp_path / "project" / ".env.omni").write_text("")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def read(path: Path) -> Any:  # noqa: ANN401 - what a YAML file holds
    return msgspec.yaml.decode(path.read_bytes())


def test_both_parts_are_printed_and_nothing_is_written(
    call: Callable[..., Result], folder: Path, tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    told = call("config", "migrate", "--json")
    body = json.loads(told.stdout)
    assert (told.returncode, body["cluster"], body["operator"]) == (0, CLUSTER, OPERATOR)
    assert body["written"] == []
    parts = [note.split(":")[0].split(" ")[0] for note in body["notes"]]
    assert parts == [
        *("graphs.my_own", "graphs.local", "aliases.people", "aliases.here"),
        *("graphs.dev.bearer_token_env", "query.roots", "auth.env_file", "server"),
    ]
    shown = call("config", "migrate").stdout
    cluster, operator = shown.removeprefix("# cluster.yaml\n").split("# config.yaml\n")
    assert (msgspec.yaml.decode(cluster), msgspec.yaml.decode(operator)) == (CLUSTER, OPERATOR)
    assert sorted(tmp_path.rglob("*")) == before
    assert folder.is_dir()


def test_what_is_written_is_read_by_the_next_command_and_keeps_what_the_operator_has(
    call: Callable[..., Result], folder: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    text = "# mine\noperator: { actor: act-other }\nservers: { prod: { url: https://p.example } }\n"
    (home / "config.yaml").write_text(text)
    environ = {"OMNIGRAPH_HOME": str(home)}
    told = call("config", "migrate", "--write", "--json", environ=environ)
    assert told.returncode == 0, told.stderr
    assert read(folder / "cluster.yaml") == CLUSTER
    config = read_operator_config(home)
    assert (config.actor, sorted(config.servers), config.warnings) == (
        "act-other",
        ["dev", "prod"],
        (),
    )
    assert config.defaults.server == "dev"
    assert config.aliases["people"].query == "list_people"
    assert (home / "config.yaml.before-migrate").read_text() == text
    assert json.loads(told.stdout)["written"] == [
        str(folder / "cluster.yaml"),
        str(home / "config.yaml.before-migrate"),
        str(home / "config.yaml"),
    ]
    again = call("config", "migrate", "--write", environ=environ)
    assert (again.returncode, "is there already" in again.stderr) == (1, True)


def test_a_graph_in_a_store_is_the_default_store_by_its_whole_path(folder: Path) -> None:
    (folder / "omnigraph.yaml").write_text("graphs: { g: { uri: g.omni } }\ncli: { graph: g }\n")
    project = read_project_config(None, is_ignored=False)
    assert project is not None
    assert split_project(project).operator == {"defaults": {"store": str(folder / "g.omni")}}


def test_two_policies_have_two_names(folder: Path) -> None:
    (folder / "omnigraph.yaml").write_text(
        "graphs:\n  a: { uri: a, policy: { file: x/p.yaml } }\n  b: { uri: b, policy: y/p.yaml }\n"
        "  c: { uri: c, policy: x/p.yaml }\n"
    )
    project = read_project_config(None, is_ignored=False)
    assert project is not None
    assert split_project(project).cluster["policies"] == {
        "p": {"file": "x/p.yaml", "applies_to": ["a", "c"]},
        "p-1": {"file": "y/p.yaml", "applies_to": ["b"]},
    }


def test_what_both_files_have_stays_as_it_is() -> None:
    assert merged({"a": {"b": 1}, "c": None}, {"a": {"b": 2, "d": 3}, "c": 4}) == {
        "a": {"b": 1, "d": 3},
        "c": 4,
    }


def test_without_a_project_there_is_nothing_to_split(
    call: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = call("config", "migrate")
    assert (told.returncode, "omnigraph.yaml" in told.stderr) == (2, True)
