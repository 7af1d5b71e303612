"""`omnigraph explain`: the plan as text and as JSON, and what it shares with `query`."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pyarrow as pa
import pytest

from omnigraph import Graph

Door = Callable[..., CompletedProcess[str]]

FIND = "query find($n: String) { match { $p: Person { name: $n } } return { $p.age } limit 5 }"


@pytest.fixture
def people(graph: Path) -> Path:
    with Graph.open(graph) as opened, opened.write() as writer:
        ages = pa.array([36, 17], pa.int32())
        writer.append("Person", pa.table({"name": ["Ada", "Bob"], "age": ages}))
        writer.commit()
    return graph


def test_the_text_is_the_plan_of_the_python_api_and_needs_no_parameters(
    call: Door, people: Path
) -> None:
    result = call("explain", "--store", people, "-e", FIND)
    with Graph.open(people, mode="read_only") as graph:
        expected = f"{graph.explain(FIND)}\n"
    assert (result.returncode, result.stdout, result.stderr) == (0, expected, "")
    assert "Person" in result.stdout
    assert call("explain", "--store", people, "--query-string", FIND).stdout == expected


def test_json_is_the_body_of_the_contract(call: Door, people: Path) -> None:
    result = call("explain", "--store", people, "-e", FIND, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    with Graph.open(people, mode="read_only") as graph:
        plan = graph.explain(FIND)
    assert json.loads(result.stdout) == {
        "query_name": "find",
        "target": {"branch": "main", "snapshot": None},
        "plan": plan.to_dict(),
        "graph_commit_id": plan.graph_commit_id,
    }
    assert [op["op"] for op in plan.to_dict()["ops"]] == ["NodeScan"]


def test_the_target_is_the_branch_or_the_commit_that_was_asked_for(
    call: Door, people: Path
) -> None:
    with Graph.open(people) as graph:
        graph.branches.create("draft")
        commit = graph.snapshot().graph_commit_id
    for words, target in (
        (["--branch", "draft"], {"branch": "draft", "snapshot": None}),
        (["--snapshot", commit], {"branch": None, "snapshot": commit}),
    ):
        body = json.loads(call("explain", "--store", people, "-e", FIND, *words, "--json").stdout)
        assert body["target"] == target


def test_analyze_runs_the_query_and_so_needs_its_parameters(call: Door, people: Path) -> None:
    words = ("explain", "--store", people, "-e", FIND, "--analyze", "--json")
    refused = call(*words)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert json.loads(refused.stderr)["reason"] == "parameter_error"
    plan = json.loads(call(*words, "--params", '{"n": "Ada"}').stdout)["plan"]
    assert plan["rows"] == 1
    assert plan["elapsed_ms"] > 0


def test_a_timeout_ends_an_analysis_with_75(call: Door, people: Path) -> None:
    pairs = " ".join(f"${var}: Person" for var in "abcdefghijklmno")  # 2^15 rows
    source = f"query slow() {{ match {{ {pairs} }} return {{ $a.name }} }}"
    words = ("explain", "--store", people, "-e", source, "--timeout", "0.001")
    assert call(*words).returncode == 0
    result = call(*words, "--analyze")
    assert (result.returncode, result.stdout) == (75, "")


def test_no_text_of_a_query_reaches_the_terminal_as_a_command(call: Door, people: Path) -> None:
    source = (
        'query q() { match { $p: Person $p.name = "\x1b[2J" } return { $p.name as n } order { n } }'
    )
    result = call("explain", "--store", people, "-e", source)
    assert result.returncode == 0
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["-e", "query q() { match { $p: Persn } return { $p.name } }"], 1, "query_invalid"),
        (["-e", 'query q() { insert Person { name: "x" } }'], 1, "query_selection"),
        (["-e", FIND, "--branch", "mian"], 1, "branch_not_found"),
        (["-e", FIND, "--engine", "spark", "--analyze"], 1, "invalid_argument"),
        (["--query", "nope.gq"], 1, "invalid_argument"),
        (["find"], 2, "usage"),
        (["-e", FIND, "--branch", "a", "--snapshot", "b"], 2, "usage"),
        (["-e", FIND, "--params", "[]"], 2, "usage"),
        (["-e", FIND, "--format", "csv"], 2, "usage"),
    ],
)
def test_what_cannot_be_explained_is_refused_as_query_refuses_it(
    call: Door, people: Path, words: list[str], code: int, reason: str
) -> None:
    result = call("explain", "--store", people, *words, "--json")
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (code, "", 1)
    assert json.loads(result.stderr)["reason"] == reason


def test_an_error_names_the_file(call: Door, people: Path, tmp_path: Path) -> None:
    file = tmp_path / "q.gq"
    file.write_text("query q() { match { $p: Persn } return { $p.name } }", encoding="utf-8")
    assert f"\n --> {file}:1:25\n" in call("explain", "--store", people, "--query", file).stderr
