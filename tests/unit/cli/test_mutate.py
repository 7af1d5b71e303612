"""`omnigraph mutate`: what it prints and records, its conditions, every way to be refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from omnigraph import Graph
from omnigraph.failpoints import armed

Door = Callable[..., CompletedProcess[str]]

SCHEMA = """
node Person { name: String @key  age: I32?  picture: Blob?  @range(age, 0..150) }
node Doc { slug: String @key  title: String  vec: Vector(2)? @embed(title) }
edge Knows: Person -> Person { since: I32? }
"""
ADD = "query add($n: String, $a: I32?) { insert Person { name: $n, age: $a } }"
MEET = """query meet($a: String, $b: String) {
  insert Person { name: $a } insert Person { name: $b } insert Knows { from: $a, to: $b }
}"""
REMOVE = "query remove($n: String) { delete Person where name = $n }"
SET = "query set_age($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
ALL = "query all() { match { $p: Person } return { $p.name } order { $p.name } }"
# Far beyond a millisecond, far below the limit of rows.
SLOW = "query slow() {{ {} }}".format(
    " ".join(f'insert Person {{ name: "{number}" }}' for number in range(2_000))
)
TITLE = 'query title() { update Doc set { title: "new" } where slug = "d" }'
LONELY = 'query lonely() { insert Knows { from: "Ada", to: "Nobody" } }'
DENIED = 'query denied() { insert Person { name: "x", picture: "s3://bucket/x.png" } }'


@pytest.fixture(scope="module")
def _ada(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graphs") / "people.omni"
    with Graph.init(path, schema=SCHEMA) as graph:
        graph.mutate(ADD, params={"n": "Ada", "a": 36})
        graph.mutate('query add() { insert Doc { slug: "d", title: "old" } }')
    return path


@pytest.fixture
def people(tmp_path: Path, _ada: Path) -> Path:
    """A graph of one person and one document, at `people.omni` in the folder of the test."""
    return Path(shutil.copytree(_ada, tmp_path / "people.omni"))


@pytest.fixture
def change(call: Door, people: Path) -> Door:
    """`omnigraph mutate` on that graph, with the parameters as keywords."""

    def run(*words: str | Path, **params: object) -> CompletedProcess[str]:
        given = ["--params", json.dumps(params)] if params else []
        return call("mutate", "--store", people, *words, *given)

    return run


def echo(people: Path, command: str = "mutate") -> str:
    return f"omnigraph {command} → {people} (direct, local)\n"


def names(people: Path, branch: str = "main") -> list[str]:
    with Graph.open(people, mode="read_only") as graph:
        return [str(row["p.name"]) for row in graph.query(ALL, branch=branch)]


def head(people: Path) -> str:
    with Graph.open(people, mode="read_only") as graph:
        return graph.snapshot().graph_commit_id


def test_one_line_tells_the_counts_and_the_commit(change: Door, people: Path) -> None:
    result = change("-e", MEET, a="Bob", b="Cy")
    line = f"2 nodes, 1 edge on branch main via meet: commit {head(people)}\n"
    assert (result.returncode, result.stdout, result.stderr) == (0, line, echo(people))
    assert names(people) == ["Ada", "Bob", "Cy"]
    result = change("-e", REMOVE, n="Bob")
    assert result.stdout == f"1 node, 1 edge on branch main via remove: commit {head(people)}\n"
    assert names(people) == ["Ada", "Cy"]


def test_the_option_of_the_text_has_a_long_form(change: Door, people: Path) -> None:
    assert change("--query-string", ADD, n="Bob").returncode == 0
    assert names(people) == ["Ada", "Bob"]


def test_a_query_that_matches_nothing_makes_no_commit(change: Door, people: Path) -> None:
    before = head(people)
    result = change("-e", REMOVE, n="Nobody")
    line = "0 nodes, 0 edges on branch main via remove: no commit\n"
    assert (result.returncode, result.stdout) == (0, line)
    assert json.loads(change("-e", REMOVE, "--json", n="Nobody").stdout)["commit"] is None
    assert head(people) == before


def test_json_is_the_body_of_the_contract(change: Door, people: Path) -> None:
    before = head(people)
    result = change("-e", ADD, "--json", "--as", "act-me", n="Bob")
    assert (result.returncode, result.stderr) == (0, echo(people))
    body = json.loads(result.stdout)
    commit = body.pop("commit")
    assert body == {
        "branch": "main",
        "query_name": "add",
        "affected_nodes": 1,
        "affected_edges": 0,
        "actor_id": "act-me",
    }
    assert commit.keys() == {
        "graph_commit_id",
        "graph_branch",
        "graph_manifest_version",
        "parent_commit_id",
        "merged_parent_commit_id",
        "actor_id",
        "created_at",
        "committed_at",
        "kind",
        "operation_id",
    }
    assert (commit["graph_commit_id"], commit["parent_commit_id"]) == (head(people), before)
    assert (commit["actor_id"], commit["kind"]) == ("act-me", "mutation")


def test_a_warning_is_on_standard_error_or_in_the_body(change: Door, people: Path) -> None:
    result = change("-e", TITLE)
    assert (result.returncode, result.stdout.count("\n")) == (0, 1)
    target, warning = result.stderr.splitlines(keepends=True)
    assert target == echo(people)
    assert warning.startswith("warning: Doc.title changed and Doc.vec")
    result = change("-e", TITLE, "--json")
    assert result.stderr == echo(people)
    assert json.loads(result.stdout)["warnings"] == [warning.removeprefix("warning: ").rstrip()]


def test_quiet_hides_the_target(change: Door) -> None:
    assert change("-e", ADD, "--quiet", n="Bob").stderr == ""


def test_only_the_named_branch_is_written(change: Door, people: Path) -> None:
    with Graph.open(people) as graph:
        graph.branches.create("draft")
    result = change("-e", ADD, "--branch", "draft", n="Bob")
    assert "1 node, 0 edges on branch draft via add: commit " in result.stdout
    assert (names(people), names(people, "draft")) == (["Ada"], ["Ada", "Bob"])


def test_the_source_and_the_parameters_come_from_where_those_of_query_do(
    call: Door, change: Door, people: Path, tmp_path: Path
) -> None:
    source, params = tmp_path / "people.gq", tmp_path / "params.json"
    source.write_text(f"{ALL}\n{ADD}\n{REMOVE}\n", encoding="utf-8")
    params.write_text('{"n": "Bob"}', encoding="utf-8")
    assert change("add", "--query", source, "--params-file", params).returncode == 0
    assert names(people) == ["Ada", "Bob"]
    words = ("mutate", "remove", "--store", people, "--query", "-", "--params-file", params)
    piped = call(*words, stdin=source.read_bytes())
    assert piped.returncode == 0
    assert names(people) == ["Ada"]


def test_the_actor_and_the_graph_may_be_those_of_the_operator_config(
    call: Door, people: Path, tmp_path: Path
) -> None:
    config = tmp_path / ".omnigraph" / "config.yaml"
    config.parent.mkdir()
    config.write_text(
        f"operator: {{actor: act-op}}\ndefaults: {{store: {people}}}\n", encoding="utf-8"
    )
    result = call("mutate", "-e", ADD, "--params", '{"n": "Bob"}', "--json")
    assert json.loads(result.stdout)["actor_id"] == "act-op"
    assert names(people) == ["Ada", "Bob"]


def test_the_deprecated_name_works_and_warns_once(call: Door, people: Path) -> None:
    warning = "warning: 'omnigraph change' is deprecated; use 'omnigraph mutate'\n"
    result = call("change", "--store", people, "-e", ADD, "--params", '{"n": "Bob"}')
    assert (result.returncode, result.stderr) == (0, warning + echo(people, "change"))
    assert names(people) == ["Ada", "Bob"]


def test_a_lost_condition_ends_with_4_and_writes_nothing(change: Door, people: Path) -> None:
    seen = head(people)
    assert change("-e", ADD, "--if-commit", seen, n="Bob").returncode == 0
    moved = head(people)
    lost = change("-e", ADD, "--if-commit", seen, n="Cy")
    assert (lost.returncode, lost.stdout) == (4, "")
    assert lost.stderr.startswith(f"{echo(people)}error: the head is {moved}, not {seen};")
    lost = change("-e", ADD, "--if-commit", seen, "--json", n="Cy")
    assert (lost.returncode, lost.stdout, lost.stderr.count("\n")) == (4, "", 1)
    body = json.loads(lost.stderr)
    assert body["reason"] == "precondition_failure"
    assert body["precondition_failure"] == {"expected": seen, "actual": moved}
    assert "code" not in body
    assert names(people) == ["Ada", "Bob"]


def test_the_same_key_again_prints_the_first_receipt(change: Door, people: Path) -> None:
    words = ("-e", ADD, "--idempotency-key", "k-1", "--json")
    first = change(*words, n="Bob")
    moved = head(people)
    assert change(*words, n="Bob").stdout == first.stdout
    assert head(people) == moved
    other = change(*words, n="Cy")
    assert (other.returncode, other.stdout) == (1, "")
    body = json.loads(other.stderr)
    assert (body["code"], body["reason"]) == ("conflict", "idempotency_key_reused")
    assert body["idempotency_key_reused"] == {"key": "k-1", "graph_commit_id": moved}
    assert names(people) == ["Ada", "Bob"]


def lose_lease(people: Path) -> None:
    """A higher epoch, as a process makes it that saw the lease expire."""
    newest = max((people / "__leases" / "branch-main").glob("*.json"))
    body = json.loads(newest.read_bytes()) | {"owner": "other", "released": True}
    newest.with_name(f"{int(newest.stem) + 1:012d}.json").write_text(json.dumps(body))


def test_an_unknown_outcome_ends_with_7_and_names_the_operation(change: Door, people: Path) -> None:
    with armed("mutation.post_table_commit", lambda: lose_lease(people)):
        unknown = change("-e", ADD, "--json", n="Bob")
    assert (unknown.returncode, unknown.stdout) == (7, "")
    operation = json.loads(unknown.stderr)["recovery_required"]["operation_id"]
    with Graph.open(people) as graph:
        (found,) = graph.commits.list(operation=operation)
    assert found.recovered


def test_with_a_key_an_unknown_outcome_ends_with_75_and_the_same_again_writes_once(
    change: Door, people: Path
) -> None:
    words = ("-e", ADD, "--json", "--idempotency-key", "k")
    with armed("mutation.post_table_commit", lambda: lose_lease(people)):
        unknown = change(*words, n="Bob")
    assert (unknown.returncode, json.loads(unknown.stderr)["reason"]) == (75, "recovery_required")
    again = change(*words, n="Bob")
    assert again.returncode == 0
    assert json.loads(again.stdout)["commit"]["graph_commit_id"] == head(people)
    with Graph.open(people) as graph:
        assert len(graph.commits.list(kind="mutation")) == 3


def test_a_broken_rule_ends_with_1_and_its_violations_are_in_the_envelope(
    change: Door, people: Path
) -> None:
    before = head(people)
    text = change("-e", SET, n="Ada", a=200)
    assert (text.returncode, text.stdout) == (1, "")
    assert text.stderr == (
        f"{echo(people)}error: @range violation on Person.age: value 200 > max 150\n"
    )
    result = change("-e", SET, "--json", n="Ada", a=200)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    body = json.loads(result.stderr)
    assert (body["code"], body["reason"]) == ("bad_request", "constraint_violation")
    assert body["violations"]["total"] == 1
    (item,) = body["violations"]["items"]
    assert (item["code"], item["type"], item["entity_id"]) == ("range_violation", "Person", "Ada")
    assert head(people) == before


class Case:
    """Words that are refused, with the exit code, the reason and a part of the message."""

    def __init__(self, code: int, reason: str, message: str, *words: str) -> None:
        self.code, self.reason, self.message, self.words = code, reason, message, words

    def __repr__(self) -> str:
        return f"{self.reason} {self.message}"


BOB = ("--params", '{"n": "Bob"}')
CASES = [
    Case(1, "branch_not_found", "'mian'", "-e", ADD, *BOB, "--branch", "mian"),
    Case(1, "query_selection", "`all` is a read query; run it with `query`", "-e", ALL),
    Case(1, "query_selection", "name the query", "-e", f"{ADD} {REMOVE}"),
    Case(1, "parameter_error", "`$n` of type String is missing", "-e", ADD),
    Case(1, "constraint_violation", "dst 'Nobody' not found in Person", "-e", LONELY),
    Case(1, "external_blob_denied", "Person.picture", "-e", DENIED),
    Case(1, "invalid_argument", "idempotency key", "-e", ADD, *BOB, "--idempotency-key", ""),
    Case(75, "deadline_exceeded", "longer than 1 ms", "-e", SLOW, "--timeout", "0.001"),
    Case(2, "usage", "--if-commit is empty", "-e", ADD, *BOB, "--if-commit", ""),
    Case(2, "usage", "stored queries live on a server", "add"),
    Case(2, "usage", "--query FILE or -e GQ"),
    Case(2, "usage", "both --query and -e", "--query", "q.gq", "-e", ADD),
    Case(2, "usage", "--timeout -1 is no time", "-e", ADD, "--timeout", "-1"),
    Case(2, "usage", "no such option: --snapshot", "-e", ADD, "--snapshot", "x"),
    Case(2, "usage", "no such option: --engine", "-e", ADD, "--engine", "local"),
]


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_what_cannot_run_is_one_line_with_its_exit_code_and_writes_nothing(
    change: Door, people: Path, case: Case
) -> None:
    before = head(people)
    text = change(*case.words)
    envelope = change(*case.words, "--json")
    for result in (text, envelope):
        assert (result.returncode, result.stdout) == (case.code, "")
    assert envelope.stderr.count("\n") == 1
    body = json.loads(envelope.stderr)
    assert body["reason"] == case.reason
    assert case.message in body["error"]
    assert text.stderr.removeprefix(echo(people)) == f"error: {body['error']}\n"
    assert head(people) == before


def test_no_graph_is_said_without_a_uri_that_the_command_does_not_take(call: Door) -> None:
    result = call("mutate", "-e", ADD)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: no graph is addressed; give --store URI, --server")


def test_a_query_that_does_not_compile_shows_its_line_in_its_file(
    change: Door, tmp_path: Path
) -> None:
    file = tmp_path / "q.gq"
    file.write_text('query q() {\n  insert Persn { name: "x" }\n}\n', encoding="utf-8")
    result = change("--query", file)
    assert (result.returncode, result.stdout) == (1, "")
    assert f"--> {file}:2:" in result.stderr
    assert "did you mean `Person`?" in result.stderr
