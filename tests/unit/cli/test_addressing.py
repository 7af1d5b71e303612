"""Which graph a command finds: addresses on the command line, profiles, defaults."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from omnigraph.cli.addressing import Target, find_target, find_write_target
from omnigraph.cli.session import Session, open_session

Door = Callable[..., CompletedProcess[str]]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / ".omnigraph" / "config.yaml"
    path.parent.mkdir()
    return path


def finds(result: CompletedProcess[str]) -> bool:
    assert result.stderr == ""
    return result.returncode == 0 and '"graph_branch": "main"' in result.stdout


def refused(result: CompletedProcess[str]) -> str:
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    return result.stderr


def test_every_kind_of_address_on_the_command_line_works(call: Door, graph: Path) -> None:
    for words in (
        ["snapshot", graph],
        ["snapshot", graph.as_uri()],
        ["snapshot", "--store", graph],
        [f"--store={graph}", "snapshot"],
    ):
        assert finds(call(*words, "--json"))


def test_two_addresses_are_an_error_that_names_both(call: Door, graph: Path) -> None:
    error = refused(call("snapshot", graph, "--store", "other"))
    assert str(graph) in error
    assert "--store 'other'" in error
    assert "--uri 'a'" in refused(call("branch", "list", "--uri", "a", "--store", "b"))
    assert "--server 'b'" in refused(call("snapshot", "a", "--server", "b"))


def test_no_address_lists_the_ways_to_give_one(call: Door) -> None:
    error = refused(call("snapshot"))
    for way in ("URI", "--store", "--profile", "defaults.store"):
        assert way in error
    assert "--uri" in refused(call("branch", "list"))


@pytest.mark.parametrize("words", [["snapshot", "HTTP://h/x"], ["--store=https://h", "snapshot"]])
def test_a_server_where_storage_belongs_points_at_the_option(call: Door, words: list[str]) -> None:
    assert "--server" in refused(call(*words))


def test_what_this_version_lacks_is_said(call: Door) -> None:
    error = refused(call("lint", "--query", "q.gq", "--cluster", "prod"))
    assert "--cluster is not in this version" in error


def test_a_server_that_nobody_knows_is_refused_by_name(call: Door) -> None:
    error = refused(call("snapshot", "--server", "prod"))
    assert "--server: 'prod' is no http(s):// address and not under servers" in error


def test_a_store_is_one_graph(call: Door, graph: Path) -> None:
    assert "a store is one graph" in refused(call("snapshot", graph, "--graph", "x"))


def test_the_defaults_are_used_when_nothing_is_given(call: Door, graph: Path, config: Path) -> None:
    config.write_text(json.dumps({"defaults": {"store": str(graph)}}), encoding="utf-8")
    assert finds(call("snapshot", "--json"))


def test_a_profile_comes_before_the_defaults_and_after_an_address(
    call: Door, graph: Path, config: Path
) -> None:
    content = {
        "defaults": {"store": "nowhere"},
        "profiles": {"people": {"store": str(graph)}, "gone": {"store": "nowhere"}},
    }
    config.write_text(json.dumps(content), encoding="utf-8")
    assert finds(call("snapshot", "--profile", "people", "--json"))
    assert finds(call("snapshot", "--json", environ={"OMNIGRAPH_PROFILE": "people"}))
    assert finds(
        call("--profile=people", "snapshot", "--json", environ={"OMNIGRAPH_PROFILE": "gone"})
    )
    assert finds(call("snapshot", graph, "--json", environ={"OMNIGRAPH_PROFILE": "gone"}))


def test_a_profile_that_leads_elsewhere_is_explained(call: Door, config: Path) -> None:
    content = {
        "servers": {"prod": {"url": "http://127.0.0.1:9"}},
        "defaults": {"server": "prod"},
        "profiles": {"a": {"server": "prod"}, "b": {"cluster": "c"}, "c": {"store": "http://h"}},
    }
    config.write_text(json.dumps(content), encoding="utf-8")
    assert "no graph of http://127.0.0.1:9 is named; give --graph ID" in refused(call("snapshot"))
    assert "give --graph ID" in refused(call("snapshot", "--profile", "a"))
    assert "the cluster 'c'" in refused(call("snapshot", "--profile", "b"))
    assert "is a server, not storage" in refused(call("snapshot", "--profile", "c"))
    assert "(a, b, c)" in refused(call("snapshot", "--profile", "d"))


def test_the_actor_is_the_option_or_the_operator(call: Door, graph: Path, config: Path) -> None:
    config.write_text("operator: {actor: act-me}", encoding="utf-8")
    made = [
        json.loads(call("branch", "create", name, "--uri", graph, "--json", *words).stdout)
        for name, words in (("a", []), ("b", ["--as", "act-other"]))
    ]
    assert [body["actor_id"] for body in made] == ["act-me", "act-other"]


@pytest.mark.parametrize("actor", ["", "omnigraph:me"])
def test_an_actor_that_nobody_may_be_is_refused(call: Door, graph: Path, actor: str) -> None:
    result = call("branch", "create", "a", "--uri", graph, "--as", actor, "--json")
    assert (result.returncode, json.loads(result.stderr)["reason"]) == (1, "invalid_argument")


def test_a_read_with_an_address_needs_no_config(call: Door, graph: Path, config: Path) -> None:
    config.write_text("defaults: [", encoding="utf-8")
    assert finds(call("snapshot", graph, "--json"))
    result = call("branch", "create", "a", "--uri", graph)
    assert (result.returncode, str(config) in result.stderr) == (2, True)


def test_the_sections_of_spark_and_the_pipeline_count_below_the_variables(
    graph: Path, config: Path
) -> None:
    content = {
        "spark": {"master": "local[3]", "conf": {"spark.ui.enabled": True}, "mastr": "x"},
        "pipeline": {"split_bytes": "1MiB"},
    }
    config.write_text(json.dumps(content), encoding="utf-8")
    home = {"HOME": str(config.parents[1])}
    for find in (find_write_target, find_job_target):
        session = open_session(home, is_json=True)
        settings = find(session, str(graph)).settings
        assert (settings.spark.master, settings.pipeline.split_bytes) == ("local[3]", 1 << 20)
        assert settings.spark.conf == {"spark.ui.enabled": "true"}
        assert "spark.mastr" in str(session.output._held)
    variables = {**home, "OMNIGRAPH_SPARK_MASTER": "local[1]"}
    target = find_write_target(open_session(variables, is_json=True), str(graph))
    assert target.settings.spark.master == "local[1]"


def find_job_target(session: Session, uri: str) -> Target:
    return find_target(session, uri, is_job=True)
