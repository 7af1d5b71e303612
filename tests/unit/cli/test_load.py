"""`omnigraph load`: what it prints and records, its conditions, every way to be refused."""

import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.unit.cli.test_progress import read_terminal

from omnigraph import Graph
from omnigraph.errors import StorageDenied
from omnigraph.failpoints import armed

Door = Callable[..., CompletedProcess[str]]
PROGRAM = Path(sys.executable).with_name("omnigraph")

SCHEMA = """
node Person { name: String @key  age: I32?  @range(age, 0..150) }
node Doc { slug: String @key  title: String  vec: Vector(2)? @embed(title, model="mock") }
edge Knows: Person -> Person { since: I32? }
"""
ALL = "query all() { match { $p: Person } return { $p.name } order { $p.name } }"
MOST = 33_554_432


def node(name: str, **data: object) -> str:
    return json.dumps({"type": "Person", "data": {"name": name, **data}})


def edge(source: str, target: str, **data: object) -> str:
    return json.dumps({"edge": "Knows", "from": source, "to": target, "data": data})


@pytest.fixture(scope="module")
def _ada(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graphs") / "people.omni"
    with Graph.init(path, schema=SCHEMA) as graph:
        graph.load(f"{node('Ada', age=36)}\n".encode(), mode="append")
    return path


@pytest.fixture
def people(tmp_path: Path, _ada: Path) -> Path:
    """A graph of one person, at `people.omni` in the folder of the test."""
    return Path(shutil.copytree(_ada, tmp_path / "people.omni"))


@pytest.fixture
def load(call: Door, people: Path, tmp_path: Path) -> Door:
    """`omnigraph load` of some lines into that graph."""

    def run(*words: str, lines: list[str], mode: str = "append") -> CompletedProcess[str]:
        file = tmp_path / "data.ndjson"
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return call("load", people, "--data", file, "--mode", mode, *words)

    return run


def echo(people: Path, command: str = "load") -> str:
    return f"omnigraph {command} → {people} (direct, local)\n"


def engine(size_bytes: int) -> str:
    why = f"one input of {size_bytes:,} bytes; up to {MOST:,} are loaded in this process"
    return f"engine local: {why}\n"


def names(people: Path, branch: str = "main") -> list[str]:
    with Graph.open(people, mode="read_only") as graph:
        return [str(row["p.name"]) for row in graph.query(ALL, branch=branch)]


def head(people: Path, branch: str = "main") -> str:
    with Graph.open(people, mode="read_only") as graph:
        return graph.snapshot(branch=branch).graph_commit_id


def test_a_line_for_each_table_is_followed_by_the_commit(load: Door, people: Path) -> None:
    lines = [node("Bob"), node("Cy"), edge("Ada", "Bob")]
    result = load(lines=lines)
    assert (result.returncode, result.stdout.splitlines()) == (
        0,
        [
            "node:Person  2 read  2 added  0 changed  0 removed",
            "edge:Knows   1 read  1 added  0 changed  0 removed",
            f"3 rows on branch main, mode append: commit {head(people)}",
        ],
    )
    assert result.stderr == echo(people) + engine(sum(len(line) + 1 for line in lines))
    assert names(people) == ["Ada", "Bob", "Cy"]


def test_merge_and_overwrite_tell_what_they_replace(load: Door, people: Path) -> None:
    merged = load(lines=[node("Ada", age=37), node("Bob")], mode="merge")
    assert merged.stdout.startswith("node:Person  2 read  1 added  1 changed  0 removed\n2 rows on")
    twice = [edge("Ada", "Bob", id="k", since=1), edge("Ada", "Bob", id="k", since=2)]
    superseded = load(lines=twice, mode="merge")
    assert superseded.stdout.startswith(
        "edge:Knows  2 read  1 added  0 changed  0 removed  1 superseded\n"
    )
    assert load(lines=[edge("Bob", "Ada")], mode="overwrite").stdout.startswith(
        "edge:Knows  1 read  1 added  0 changed  1 removed\n1 row on branch main, mode overwrite: "
    )
    assert names(people) == ["Ada", "Bob"]


def test_an_input_without_records_makes_no_commit(load: Door, people: Path) -> None:
    before = head(people)
    result = load(lines=["", "  "])
    assert (result.returncode, result.stdout) == (
        0,
        "0 rows on branch main, mode append: no commit\n",
    )
    assert head(people) == before


def test_json_is_the_body_of_the_contract_and_the_report(load: Door, people: Path) -> None:
    before = head(people)
    result = load("--json", "--as", "act-me", lines=[node("Bob"), edge("Ada", "Bob")])
    assert result.returncode == 0
    body = json.loads(result.stdout)
    commit, report = body.pop("commit"), body.pop("report")
    assert body == {
        "branch": "main",
        "base_branch": None,
        "branch_created": False,
        "mode": "append",
        "nodes": [{"name": "Person", "entities_loaded": 1}],
        "edges": [{"name": "Knows", "entities_loaded": 1}],
        "total_entities": 2,
        "actor_id": "act-me",
    }
    assert (commit["graph_commit_id"], commit["parent_commit_id"]) == (head(people), before)
    assert (commit["actor_id"], commit["kind"]) == ("act-me", "load")
    assert (report["commit"], report["engine"]) == (commit, "local")
    assert [stage["name"] for stage in report["stages"]] == ["intake", "check", "stage", "commit"]
    assert report["tables"][0] == {
        "table": "node:Person",
        "read": 1,
        "added": 1,
        "changed": 0,
        "unchanged": 0,
        "removed": 0,
        "rejected": 0,
        "superseded": 0,
    }


def test_quiet_hides_the_target_and_the_engine(load: Door) -> None:
    assert load("--quiet", lines=[node("Bob")]).stderr == ""


def test_a_dry_run_tells_what_would_happen_and_writes_nothing(load: Door, people: Path) -> None:
    before = head(people)
    words = ("--dry-run", "--branch", "draft", "--from", "main")
    result = load(*words, lines=[node("Ada"), node("Bob")], mode="merge")
    assert (result.returncode, result.stdout.splitlines()) == (
        0,
        [
            "node:Person  2 read  1 added  1 changed  0 removed",
            "2 rows for branch draft, mode merge: dry run, nothing is written",
        ],
    )
    body = json.loads(load(*words, "--json", lines=[node("Bob")]).stdout)
    assert (body["commit"], body["report"]["dry_run"], body["total_entities"]) == (None, True, 1)
    refused = load("--dry-run", lines=[node("Ada"), node("Bob", age=200)])
    assert refused.returncode == 6
    with Graph.open(people, mode="read_only") as graph:
        assert [each.name for each in graph.branches.list()] == ["main"]
    assert head(people) == before


def test_a_missing_branch_is_made_from_another_only_if_one_is_named(
    load: Door, people: Path
) -> None:
    missing = load("--branch", "draft", lines=[node("Bob")])
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "there is no branch 'draft'" in missing.stderr
    made = load("--branch", "draft", "--from", "main", lines=[node("Bob")])
    assert (
        f"1 row on branch draft, made from main, mode append: commit {head(people, 'draft')}"
        in (made.stdout)
    )
    again = load("--branch", "draft", "--from", "main", "--json", lines=[node("Cy")])
    body = json.loads(again.stdout)
    assert (body["base_branch"], body["branch_created"]) == ("main", False)
    assert (names(people), names(people, "draft")) == (["Ada"], ["Ada", "Bob", "Cy"])


def test_standard_input_is_read_as_bytes(call: Door, people: Path) -> None:
    words = ("load", people, "--data", "-", "--mode", "append", "--quiet")
    lines = f"{node('Zoë')}\n{node('漢')}\n".encode()
    done = subprocess.run(
        [PROGRAM, *words], input=lines, capture_output=True, env=latin_environ(), check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert names(people) == ["Ada", "Zoë", "漢"]
    bad = call(*words, stdin=b"\xff\n")
    assert bad.returncode == 6
    assert "line 1: invalid UTF-8 at byte 1 of the line" in bad.stderr


def latin_environ() -> dict[str, str]:
    return {**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}


def test_a_closed_standard_input_is_refused_by_name(people: Path) -> None:
    line = f"exec {PROGRAM} load {people} --data - --mode append --quiet <&-"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "error: --data -: standard input is closed; name a file\n",
    )


def test_every_bad_line_is_told_with_its_number_and_nothing_is_written(
    load: Door, people: Path
) -> None:
    before = head(people)
    lines = [
        node("Bob"),
        '{"type": "Persn", "data": {}}',
        node("Cy", age=200),
        "",
        edge("Ada", "Nobody"),
        "{",
    ]
    text = load(lines=lines)
    assert (text.returncode, text.stdout) == (6, "")
    assert text.stderr.removeprefix(echo(people)).splitlines() == [
        "error: load refused: 4 violations, the first: line 2: unknown node type `Persn`; did you "
        "mean `Person`?",
        "  line 6: malformed JSON at column 2: Expecting property name enclosed in double quotes",
        "  line 3: @range violation on Person.age: value 200 > max 150",
        "  line 5, edge Knows: dst 'Nobody' not found in Person",
        "  in all: json_error 1, orphan_edge 1, range_violation 1, unknown_type 1",
    ]
    envelope = load("--json", lines=lines)
    assert (envelope.returncode, envelope.stdout, envelope.stderr.count("\n")) == (6, "", 1)
    body = json.loads(envelope.stderr)
    assert (body["code"], body["reason"]) == ("bad_request", "load_rejected")
    assert body["violations"]["total"] == 4
    assert [item["input_line"] for item in body["violations"]["items"]] == [2, 6, 3, 5]
    assert head(people) == before


def test_twenty_violations_are_shown_and_the_others_counted(load: Door, people: Path) -> None:
    result = load(lines=[node(f"P{number:02}", age=-1) for number in range(25)])
    assert result.returncode == 6
    error, *shown = result.stderr.removeprefix(echo(people)).splitlines()
    assert "25 violations, the first: line 1: @range violation" in error
    assert [line.split(":")[0] for line in shown] == [
        *(f"  line {number}" for number in range(2, 21)),
        "  and 5 more",
        "  in all",
    ]


def test_every_kind_of_violation_is_among_those_that_are_shown(load: Door, people: Path) -> None:
    bad = [node(f"P{number:02}", age=-1) for number in range(25)]
    result = load(lines=[*bad, edge("Ada", "nobody")])
    shown = result.stderr.removeprefix(echo(people)).splitlines()[1:]
    assert [line.split(":")[0] for line in shown] == [
        *(f"  line {number}" for number in range(2, 20)),
        "  line 26, edge Knows",
        "  and 6 more",
        "  in all",
    ]


def test_append_of_a_row_that_exists_ends_with_1(load: Door, people: Path) -> None:
    result = load("--json", lines=[node("Ada"), node("Bob")])
    assert (result.returncode, result.stdout) == (1, "")
    body = json.loads(result.stderr)
    assert (body["code"], body["reason"]) == ("conflict", "key_conflict")
    assert body["key_conflict"] == {
        "entity_kind": "node",
        "type_name": "Person",
        "entity_id": "Ada",
    }
    assert [item["input_line"] for item in body["violations"]["items"]] == [1]
    assert names(people) == ["Ada"]


def test_a_lost_condition_ends_with_4_and_writes_nothing(load: Door, people: Path) -> None:
    seen = head(people)
    assert load("--if-commit", seen, lines=[node("Bob")]).returncode == 0
    lost = load("--if-commit", seen, "--json", lines=[node("Cy")])
    assert (lost.returncode, lost.stdout) == (4, "")
    body = json.loads(lost.stderr)
    assert body["precondition_failure"] == {"expected": seen, "actual": head(people)}
    assert names(people) == ["Ada", "Bob"]


def test_the_same_key_again_prints_the_first_receipt(load: Door, people: Path) -> None:
    words = ("--idempotency-key", "k-1")
    first = load(*words, lines=[node("Bob")])
    moved = head(people)
    again = load(*words, lines=[node("Bob")])
    said, receipt = again.stdout.split("\n", 1)
    assert said == f"already loaded, nothing is written; commit {moved} was:"
    assert receipt == f"{first.stdout.rstrip()} of an earlier load with this key\n"
    assert again.stderr == f"{echo(people)}engine local: nothing was loaded again\n"
    assert head(people) == moved
    other = load(*words, "--json", lines=[node("Cy")])
    assert (other.returncode, json.loads(other.stderr)["reason"]) == (1, "idempotency_key_reused")
    assert names(people) == ["Ada", "Bob"]


def lose_lease(people: Path) -> None:
    """A higher epoch, as a process makes it that saw the lease expire."""
    newest = max((people / "__leases" / "branch-main").glob("*.json"))
    body = json.loads(newest.read_bytes()) | {"owner": "other", "released": True}
    newest.with_name(f"{int(newest.stem) + 1:012d}.json").write_text(json.dumps(body))


@pytest.mark.parametrize(("words", "code"), [((), 7), (("--idempotency-key", "k"), 75)])
def test_an_unknown_outcome_ends_with_7_and_with_a_key_with_75(
    load: Door, people: Path, words: tuple[str, ...], code: int
) -> None:
    with armed("load.post_table_commit", lambda: lose_lease(people)):
        unknown = load(*words, "--json", lines=[node("Bob")])
    assert (unknown.returncode, unknown.stdout) == (code, "")
    operation = json.loads(unknown.stderr)["recovery_required"]["operation_id"]
    with Graph.open(people) as graph:
        (found,) = graph.commits.list(operation=operation)
    assert found.recovered


def test_embed_fills_vectors_that_may_be_null(call: Door, people: Path, tmp_path: Path) -> None:
    file = tmp_path / "docs.ndjson"
    mock = {"OMNIGRAPH_EMBED_PROVIDER": "mock"}
    for slug, words in (("a", ()), ("b", ("--embed",))):
        record = {"type": "Doc", "data": {"slug": slug, "title": "one"}}
        file.write_text(json.dumps(record), encoding="utf-8")
        given = ("load", people, "--data", file, "--mode", "append", *words)
        assert call(*given, environ=mock).returncode == 0
    with Graph.open(people, mode="read_only") as graph:
        rows = graph.snapshot().scan("Doc", columns=["slug", "vec"]).read_all().to_pylist()
    assert {row["slug"]: row["vec"] is None for row in rows} == {"a": True, "b": False}


def test_it_says_why_the_engine_was_taken(load: Door, call: Door, people: Path) -> None:
    asked = load("--engine", "local", lines=[node("Bob")])
    assert asked.stderr == f"{echo(people)}engine local: --engine local\n"
    file = people.parent / "data.ndjson"
    words = ("load", people, "--data", file, "--mode", "merge")
    told = call(*words, environ={"OMNIGRAPH_ENGINE": "local"})
    assert told.stderr == f"{echo(people)}engine local: OMNIGRAPH_ENGINE is local\n"
    auto = call(*words, "--engine", "auto", environ={"OMNIGRAPH_ENGINE": "local"})
    assert auto.returncode == 0
    assert call(*words, "--engine", "local", environ={"OMNIGRAPH_ENGINE": "spark"}).returncode == 0


def test_ingest_merges_and_makes_the_branch_and_warns(
    call: Door, people: Path, tmp_path: Path
) -> None:
    file = tmp_path / "data.ndjson"
    file.write_text(f"{node('Ada', age=1)}\n{node('Bob')}\n", encoding="utf-8")
    result = call("ingest", people, "--data", file, "--branch", "draft")
    assert (result.returncode, result.stdout.splitlines()) == (
        0,
        [
            "node:Person  2 read  1 added  1 changed  0 removed",
            f"2 rows on branch draft, made from main, mode merge: commit {head(people, 'draft')}",
        ],
    )
    warning = "warning: 'omnigraph ingest' is deprecated; use 'omnigraph load'\n"
    assert result.stderr.startswith(warning + echo(people, "ingest"))
    strict = call("ingest", people, "--data", file, "--mode", "append", "--json")
    assert (strict.returncode, json.loads(strict.stderr)["reason"]) == (1, "key_conflict")


def test_overwrite_on_a_remote_target_needs_consent(call: Door, tmp_path: Path) -> None:
    file = tmp_path / "data.ndjson"
    file.write_text(node("Bob"), encoding="utf-8")
    remote = "s3://no-such-bucket.invalid/g"
    result = call("load", remote, "--data", file, "--mode", "overwrite")
    assert (result.returncode, result.stdout) == (1, "")
    target, error = result.stderr.splitlines()
    assert target == f"omnigraph load → {remote} (direct, remote)"
    assert error.startswith(f"error: replacing all rows of each type in the file on {remote}")
    assert error.endswith("pass --yes")


def test_a_terminal_sees_the_target_and_the_engine_and_no_progress_if_told_so(
    people: Path, tmp_path: Path
) -> None:
    file = tmp_path / "data.ndjson"
    file.write_text(node("Bob"), encoding="utf-8")
    ours, theirs = pty.openpty()
    words = ("load", people, "--data", file, "--mode", "append", "--no-progress")
    done = subprocess.run(
        [PROGRAM, *words], stdout=subprocess.PIPE, stderr=theirs, text=True, check=False
    )
    os.close(theirs)
    # On a busy machine the last lines come later than the end of the program.
    seen = b"".join(iter(lambda: read_terminal(ours), b"")).decode()
    os.close(ours)
    assert (done.returncode, done.stdout.count("\n")) == (0, 2)
    target, engine_line = seen.splitlines()
    assert target.startswith("omnigraph load → ")
    assert engine_line.startswith("engine local: one input of")


class Case:
    """Words that are refused, with the exit code, the reason and a part of the message."""

    def __init__(self, code: int, reason: str, message: str, *words: str) -> None:
        self.code, self.reason, self.message, self.words = code, reason, message, words

    def __repr__(self) -> str:
        return f"{self.reason} {self.message}"


DATA = ("--data", "data.ndjson")
APPEND = ("--mode", "append")
CSV = ("--data", "people.csv", *APPEND)
PEOPLE = (*CSV, "--type", "Person")
ORC = ("--data", "people.orc", *APPEND, "--type", "Person")
CASES = [
    Case(2, "usage", "missing option '--data'", *APPEND),
    Case(2, "usage", "missing option '--mode'", *DATA),
    Case(2, "usage", "'replace' is not one of 'append', 'merge'", *DATA, "--mode", "replace"),
    Case(2, "usage", "--if-commit is empty", *DATA, *APPEND, "--if-commit", ""),
    Case(1, "source_error", "nothing.ndjson", "--data", "nothing.ndjson", *APPEND),
    Case(1, "invalid_argument", "needs Spark", "--data", ".", *APPEND, "--engine", "local"),
    Case(2, "usage", "people.csv is read as csv", "--data", "people.csv", *APPEND),
    Case(2, "usage", "give --type or --edge", *DATA, *APPEND, "--format", "csv"),
    Case(2, "usage", "give --type or --edge", *CSV, "--type", "Person", "--edge", "Knows"),
    Case(2, "usage", "is read as ndjson", *DATA, *APPEND, "--type", "Person"),
    Case(2, "usage", "--map is for tabular", *DATA, *APPEND, "--map", "a=b"),
    Case(2, "usage", "--option is for tabular", *DATA, *APPEND, "--option", "sep=;"),
    Case(2, "usage", "'name': expected COLUMN=PROPERTY", *PEOPLE, "--map", "name"),
    Case(2, "usage", "'=name': expected COLUMN=PROPERTY", *PEOPLE, "--map", "=name"),
    Case(2, "usage", "`name` is given already", *PEOPLE, "--map", "a=name", "--map", "b=name"),
    Case(2, "usage", "`id` is given already", *PEOPLE, "--map", "a=id", "--id-column", "b"),
    Case(2, "usage", "--option 'sep': expected KEY=VALUE", *PEOPLE, "--option", "sep"),
    Case(2, "usage", "--from-column is of edges", *PEOPLE, "--from-column", "a"),
    Case(1, "invalid_argument", "the format orc needs Spark", *ORC, "--engine", "local"),
    Case(1, "source_error", "people.csv", *PEOPLE),
    Case(2, "usage", "needs --rejects", *DATA, *APPEND, "--on-error", "quarantine"),
    Case(2, "usage", "is not one of 'fail'", *DATA, *APPEND, "--on-error", "skip"),
    Case(2, "usage", "--max-rejects", *DATA, *APPEND, "--max-rejects", "-1"),
    Case(2, "usage", "--max-reject-ratio", *DATA, *APPEND, "--max-reject-ratio", "2"),
    Case(2, "usage", "--shared-filesystem is about Spark", *DATA, *APPEND, "--shared-filesystem"),
    Case(2, "usage", "--spark-conf is about Spark", *DATA, *APPEND, "--spark-conf", "a.b=c"),
    Case(2, "usage", "--spark-master is about Spark", *DATA, *APPEND, "--spark-master", "yarn"),
    Case(2, "usage", "KEY=VALUE", *DATA, *APPEND, "--spark-conf", "spark.ui.enabled"),
    Case(
        *(2, "usage", "--spark-master sets up Spark", *DATA, *APPEND),
        *("--engine", "local", "--spark-master", "local[1]"),
    ),
    Case(
        *(2, "usage", "not both", *DATA, *APPEND),
        *("--spark-master", "local[1]", "--spark-remote", "sc://127.0.0.1:1"),
    ),
    Case(1, "source_error", "there is no format 'yaml'", *DATA, *APPEND, "--format", "yaml"),
    Case(1, "invalid_argument", "idempotency key", *DATA, *APPEND, "--idempotency-key", ""),
    Case(1, "branch_not_found", "'mian'", *DATA, *APPEND, "--branch", "x", "--from", "mian"),
]


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_what_cannot_run_is_one_line_with_its_exit_code_and_writes_nothing(
    call: Door, people: Path, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    before = head(people)
    monkeypatch.chdir(people.parent)
    Path("data.ndjson").write_text(node("Bob"), encoding="utf-8")
    text = call("load", people, *case.words)
    envelope = call("load", people, *case.words, "--json")
    for result in (text, envelope):
        assert (result.returncode, result.stdout) == (case.code, "")
    assert envelope.stderr.count("\n") == 1
    body = json.loads(envelope.stderr)
    assert body["reason"] == case.reason
    assert case.message in body["error"]
    told = [line for line in text.stderr.splitlines() if not line.startswith("engine spark: ")]
    assert "\n".join(told).removeprefix(echo(people)) == f"error: {body['error']}"
    assert head(people) == before


def test_bad_rows_are_set_aside_and_the_others_loaded(
    load: Door, people: Path, tmp_path: Path
) -> None:
    rejects = tmp_path / "rejects"
    lines = [node("Bob"), node("Cy", age=200), node("Dee")]
    words = ("--on-error", "quarantine", "--rejects", str(rejects), "--max-reject-ratio", "0.5")
    result = load(*words, lines=lines)
    assert result.returncode == 0, result.stderr
    table, aside, receipt = result.stdout.splitlines()
    assert table == "node:Person  3 read  2 added  0 changed  0 removed  1 rejected"
    (folder,) = rejects.iterdir()
    assert aside == f"bad rows are set aside in {folder} (range_violation 1)"
    assert receipt == f"3 rows on branch main, mode append: commit {head(people)}"
    assert names(people) == ["Ada", "Bob", "Dee"]


def test_a_refused_load_tells_where_all_bad_rows_are_instead_of_the_first(
    load: Door, people: Path, tmp_path: Path
) -> None:
    rejects = tmp_path / "rejects"
    lines = [node("Bob", age=200), node("Cy", age=200)]
    result = load("--rejects", str(rejects), lines=lines)
    assert (result.returncode, result.stdout) == (6, "")
    (folder,) = rejects.iterdir()
    error, counts = result.stderr.removeprefix(echo(people)).splitlines()
    assert error.endswith(f"all bad rows are in {folder}")
    assert counts == "  in all: range_violation 2"
    body = json.loads(load("--rejects", str(rejects), "--json", lines=lines).stderr)
    assert Path(body["rejects_uri"]).parent == rejects


def test_the_indexes_of_the_loaded_types_are_a_commit_of_their_own(
    load: Door, people: Path
) -> None:
    result = load("--index", lines=[node("Bob")])
    assert (result.returncode, result.stdout.splitlines()[-1]) == (
        0,
        f"3 indexes built: commit {head(people)}",
    )
    again = json.loads(load("--index", "--json", "--dry-run", lines=[node("Cy")]).stdout)
    assert again["indexes"] is None
    body = json.loads(load("--index", "--json", lines=[edge("Ada", "Bob")]).stdout)
    assert [table["table_key"] for table in body["indexes"]["tables"]] == ["edge:Knows"]
    assert body["indexes"]["commit"]["parent_commit_id"] == body["commit"]["graph_commit_id"]
    assert load("--index", lines=[""]).stdout.splitlines()[-1] == "indexes: nothing to build"


def test_rows_stay_committed_when_their_indexes_cannot_be_built(load: Door, people: Path) -> None:
    with armed("ensure_indices.post_capture", refuse):
        result = load("--index", lines=[node("Bob")])
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.endswith(
        f"error: the rows are committed ({head(people)}), their indexes were not built: no space\n"
    )
    assert names(people) == ["Ada", "Bob"]


def refuse() -> None:
    raise StorageDenied("no space")
