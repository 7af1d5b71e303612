import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from omnigraph import Graph

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


@pytest.fixture
def filled(graph: Path) -> Path:
    """The graph with a person."""
    with Graph.open(graph) as opened:
        opened.mutate('query q() { insert Person { name: "ada" } }')
    return graph


@pytest.mark.parametrize("where", ["argument", "--store"])
def test_a_plan_for_a_graph_knows_its_rows_and_writes_nothing(
    call: Door, filled: Path, desired: Path, where: str
) -> None:
    desired.write_text("node Person { name: String @key  level: I64 }\n", encoding="utf-8")
    address = [filled] if where == "argument" else ["--store", filled]
    before = sorted(filled.rglob("*"))
    result = call("schema", "plan", "--schema", desired, *address)
    assert (result.returncode, result.stderr) == (1, "")
    assert "[OG-MF-103] property `Person.level` is required" in result.stdout
    assert "taken as empty" not in result.stdout
    assert sorted(filled.rglob("*")) == before


def test_a_plan_needs_a_graph_or_a_file(call: Door, schema: Path) -> None:
    result = call("schema", "plan", "--schema", schema)
    assert (result.returncode, result.stdout) == (2, "")
    assert "no graph is addressed" in result.stderr


def test_an_apply_shows_its_steps_and_makes_one_commit(
    call: Door, graph: Path, desired: Path
) -> None:
    desired.write_text(
        'node Human @rename_from("Person") { name: String @key  level: I64 @default(7) }\n',
        encoding="utf-8",
    )
    result = call("schema", "apply", "--schema", desired, graph, "--as", "ada")
    assert result.returncode == 0, result.stderr
    assert f"omnigraph schema apply → {graph} (direct, local)" in result.stderr
    assert "rename_type node Human (from Person)" in result.stderr
    assert result.stdout.startswith("applied  yes\n")
    assert call("schema", "show", graph).stdout == desired.read_text(encoding="utf-8")
    first = call("commit", "list", graph).stdout.splitlines()[0].split()
    assert (first[2], first[4]) == ("schema_apply", "ada")
    again = call("schema", "apply", "--schema", desired, graph, "--quiet")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == "applied  no, the graph has this schema already\nsteps    0\n"


def test_an_apply_in_json_is_the_body_of_the_contract(
    call: Door, graph: Path, schema: Path, desired: Path
) -> None:
    desired.write_text(schema.read_text(encoding="utf-8") + "node City {}\n", encoding="utf-8")
    result = call("schema", "apply", "--schema", desired, graph, "--json")
    body = json.loads(result.stdout)
    assert result.returncode == 0, result.stderr
    assert (body["supported"], body["applied"], body["step_count"]) == (True, True, 1)
    assert body["steps"] == [{"kind": "add_type", "type_kind": "node", "type_name": "City"}]
    assert body["uri"] == str(graph)
    assert body["graph_manifest_version"] == body["commit"]["graph_manifest_version"]


def test_a_refused_apply_tells_every_reason_and_the_rows(
    call: Door, filled: Path, desired: Path
) -> None:
    desired.write_text("node Person { name: String @key  level: I64 }\n", encoding="utf-8")
    result = call("schema", "apply", "--schema", desired, filled)
    assert (result.returncode, result.stdout) == (1, "")
    assert "error: the schema cannot be applied, nothing was changed: [OG-MF-103]" in result.stderr
    desired.write_text('node Person { name: String @key  @check(name, "^z") }\n', encoding="utf-8")
    result = call("schema", "apply", "--schema", desired, filled)
    assert (result.returncode, result.stdout) == (1, "")
    assert "[OG-MF-107]" in result.stderr
    told = json.loads(call("schema", "apply", "--schema", desired, filled, "--json").stderr)
    assert told["reason"] == "schema_refused"
    assert told["diagnostics"][0]["count"] == len(told["diagnostics"][0]["examples"]) > 0


def test_other_branches_block_an_apply_and_are_named(
    call: Door, graph: Path, schema: Path, desired: Path
) -> None:
    desired.write_text(schema.read_text(encoding="utf-8") + "node City {}\n", encoding="utf-8")
    assert call("branch", "create", "rev", "--uri", graph).returncode == 0
    result = call("schema", "apply", "--schema", desired, graph, "--json")
    assert result.returncode == 1
    assert json.loads(result.stderr)["schema_apply_blocked"] == {"branches": ["rev"]}


def test_data_is_removed_elsewhere_only_with_consent(call: Door, schema: Path) -> None:
    call_it = ("schema", "apply", "--schema", schema, "s3://bucket/graph", "--allow-data-loss")
    result = call(*call_it)
    assert (result.returncode, result.stdout) == (1, "")
    assert "pass --yes" in result.stderr


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
