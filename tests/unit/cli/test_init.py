import json
import signal
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from omnigraph import Graph

Door = Callable[..., CompletedProcess[str]]


def test_a_graph_is_created_and_its_address_is_printed(
    call: Door, schema: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(schema.parent)
    result = call("init", "new.omni", "--schema", schema.name)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "created new.omni: node types 1, edge types 0\n"
    with Graph.open(schema.parent / "new.omni", mode="read_only") as graph:
        assert graph.schema.source == schema.read_text(encoding="utf-8")


def test_json_has_the_address_and_the_first_commit(
    call: Door, schema: Path, tmp_path: Path
) -> None:
    result = call("init", tmp_path / "new.omni", "--schema", schema, "--json")
    body = json.loads(result.stdout)
    assert (result.returncode, result.stderr) == (0, "")
    assert body["uri"] == str(tmp_path / "new.omni")
    assert (body["commit"]["kind"], body["commit"]["actor_id"]) == ("genesis", None)


def test_the_operator_is_the_actor_of_the_first_commit(
    call: Door, schema: Path, tmp_path: Path
) -> None:
    (tmp_path / ".omnigraph").mkdir()
    (tmp_path / ".omnigraph/config.yaml").write_text("operator: {actor: act-me}", encoding="utf-8")
    result = call("init", tmp_path / "new.omni", "--schema", schema, "--json")
    assert json.loads(result.stdout)["commit"]["actor_id"] == "act-me"


@pytest.mark.parametrize("wrong", ["name: Strin", "name: String @indx"])
def test_a_schema_that_does_not_compile_is_named_and_nothing_is_created(
    wrong: str, call: Door, schema: Path, tmp_path: Path
) -> None:
    schema.write_text(f"node Person {{ {wrong} }}\n", encoding="utf-8")
    result = call("init", tmp_path / "new.omni", "--schema", schema)
    assert (result.returncode, result.stdout) == (1, "")
    assert f"{schema}:1:" in result.stderr
    assert not (tmp_path / "new.omni").exists()


@pytest.mark.parametrize("extra", [[], ["--force"]])
def test_a_graph_is_never_replaced(call: Door, schema: Path, graph: Path, extra: list[str]) -> None:
    result = call("init", graph, "--schema", schema, "--json", *extra)
    assert (result.returncode, result.stdout) == (1, "")
    envelope = json.loads(result.stderr)
    assert (envelope["code"], envelope["reason"]) == ("conflict", "graph_exists")


@pytest.mark.extended
def test_force_clears_what_a_killed_init_left(start: Door, call: Door, schema: Path) -> None:
    killed = start(
        *("init", "new.omni", "--schema", schema.name),
        environ={"OMNIGRAPH_TESTING": "1", "OMNIGRAPH_FAILPOINTS": "init.post_schema=kill"},
    )
    assert killed.returncode == -signal.SIGKILL
    words = ("init", schema.parent / "new.omni", "--schema", schema)
    assert "--force" in call(*words).stderr
    assert call(*words, "--force").returncode == 0


def test_the_schema_is_required(call: Door, tmp_path: Path) -> None:
    result = call("init", tmp_path / "new.omni")
    assert (result.returncode, "'--schema'" in result.stderr) == (2, True)
