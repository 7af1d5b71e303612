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


def test_a_step_in_json_names_its_type_and_its_property(
    call: Door, schema: Path, desired: Path
) -> None:
    schema.write_text("node Person { name: String @key }\n", encoding="utf-8")
    desired.write_text(
        "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n",
        encoding="utf-8",
    )
    files = ("--from-schema", schema, "--schema", desired)
    assert json.loads(call("schema", "plan", *files, "--json").stdout)["steps"] == [
        {"kind": "add_type", "type_kind": "edge", "type_name": "Knows"},
        {
            "kind": "add_property",
            "type_kind": "node",
            "type_name": "Person",
            "property_name": "age",
            "type": "I32?",
        },
    ]


def test_data_loss_is_planned_only_when_allowed(call: Door, schema: Path, desired: Path) -> None:
    desired.write_text("node Person { name: String @key }\n", encoding="utf-8")
    files = ("schema", "plan", "--from-schema", schema, "--schema", desired)
    assert call(*files).stdout != call(*files, "--allow-data-loss").stdout


@pytest.mark.parametrize("extra", [[], ["--store", "g"]])
def test_a_plan_for_a_graph_is_not_in_this_version(
    call: Door, schema: Path, extra: list[str]
) -> None:
    result = call("schema", "plan", "--schema", schema, *extra)
    assert (result.returncode, result.stdout) == (2, "")
    assert "not in this version" in result.stderr
    assert "--from-schema" in result.stderr


def test_a_plan_between_files_takes_no_graph(call: Door, schema: Path) -> None:
    files = ("--schema", schema, "--from-schema", schema)
    result = call("schema", "plan", *files, "--store", "g")
    assert (result.returncode, "leave --store out" in result.stderr) == (2, True)


@pytest.mark.parametrize("name", ["show", "get"])
def test_the_schema_of_a_graph_is_printed_as_it_was_accepted(
    call: Door, graph: Path, schema: Path, name: str
) -> None:
    result = call("schema", name, graph)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == schema.read_text(encoding="utf-8")
    body = json.loads(call("schema", name, graph, "--json").stdout)
    assert body == {"schema_source": result.stdout}


def test_the_schema_at_a_commit_is_the_one_in_force_there(call: Door, graph: Path) -> None:
    commit = call("commit", "list", graph).stdout.split()[0]
    at = call("schema", "show", graph, "--at", commit)
    assert (at.returncode, at.stdout) == (0, call("schema", "show", graph).stdout)


@pytest.mark.parametrize("broken", ["--from-schema", "--schema"])
def test_either_schema_may_be_the_one_that_does_not_compile(
    call: Door, schema: Path, desired: Path, broken: str
) -> None:
    desired.write_text("node {", encoding="utf-8")
    files = {"--from-schema": schema, "--schema": schema} | {broken: desired}
    result = call("schema", "plan", *[word for pair in files.items() for word in pair])
    assert (result.returncode, result.stdout) == (1, "")
    assert f"{desired}:1:" in result.stderr
