import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Door = Callable[..., CompletedProcess[str]]


@pytest.fixture
def desired(tmp_path: Path) -> Path:
    return tmp_path / "desired.pg"


def test_a_supported_plan_lists_its_steps_and_ends_with_0(
    start: Door, schema: Path, desired: Path
) -> None:
    desired.write_text("node Person { name: String @key }\nnode City {}\n", encoding="utf-8")
    result = start("schema", "plan", "--from-schema", schema.name, "--schema", desired.name)
    assert (result.returncode, result.stderr) == (0, "")
    assert "add_type" in result.stdout
    assert "City" in result.stdout
    assert "drop_property" in result.stdout


def test_an_unsupported_plan_is_printed_with_its_codes_and_ends_with_1(
    start: Door, schema: Path, desired: Path
) -> None:
    desired.write_text("node Person {\n  name: String @key\n  age: String?\n}\n", encoding="utf-8")
    result = start("schema", "plan", "--from-schema", schema.name, "--schema", desired.name)
    assert (result.returncode, result.stderr) == (1, "")
    assert "OG-MF-106" in result.stdout


@pytest.mark.parametrize(("age", "supported"), [("I32?", True), ("String?", False)])
def test_json_is_the_plan(
    call: Door, schema: Path, desired: Path, age: str, *, supported: bool
) -> None:
    desired.write_text(f"node Person {{\n  name: String @key\n  age: {age}\n}}\n", encoding="utf-8")
    result = call("schema", "plan", "--from-schema", schema, "--schema", desired, "--json")
    plan = json.loads(result.stdout)
    assert (result.returncode, result.stderr) == (0 if supported else 1, "")
    assert plan["supported"] is supported
    assert {"supported", "steps", "diagnostics"} <= set(plan)


def test_data_loss_is_planned_only_when_allowed(call: Door, schema: Path, desired: Path) -> None:
    desired.write_text("node Person { name: String @key }\n", encoding="utf-8")
    files = ("schema", "plan", "--from-schema", schema, "--schema", desired)
    assert call(*files).stdout != call(*files, "--allow-data-loss").stdout


def test_without_an_accepted_schema_the_command_says_that_it_needs_a_graph(
    call: Door, schema: Path
) -> None:
    result = call("schema", "plan", "--schema", schema)
    assert (result.returncode, result.stdout) == (2, "")
    assert "needs a graph" in result.stderr
    assert "--from-schema" in result.stderr


@pytest.mark.parametrize("broken", ["--from-schema", "--schema"])
def test_either_schema_may_be_the_one_that_does_not_compile(
    call: Door, schema: Path, desired: Path, broken: str
) -> None:
    desired.write_text("node {", encoding="utf-8")
    files = {"--from-schema": schema, "--schema": schema} | {broken: desired}
    result = call("schema", "plan", *[word for pair in files.items() for word in pair])
    assert (result.returncode, result.stdout) == (1, "")
    assert f"{desired}:1:" in result.stderr
