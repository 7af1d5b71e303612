import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pyarrow as pa
import pytest
from tests.extended import thinned

from omnigraph import Graph

Door = Callable[..., CompletedProcess[str]]


def upsert(path: Path, branch: str, ages: dict[str, int]) -> str:
    with Graph.open(path) as opened, opened.write(branch) as writer:
        rows = {"name": list(ages), "age": pa.array(ages.values(), pa.int32())}
        writer.upsert("Person", pa.table(rows))
        commit = writer.commit()
    assert commit is not None
    return commit.graph_commit_id


def ages_of(path: Path, branch: str = "main") -> dict[str, int]:
    with Graph.open(path, mode="read_only") as opened:
        rows = opened.snapshot(branch=branch).scan("Person").read_all().to_pylist()
    return {row["name"]: row["age"] for row in rows}


def head_of(path: Path, branch: str = "main") -> str:
    with Graph.open(path, mode="read_only") as opened:
        return opened.branches.get(branch).head


@pytest.fixture
def drafted(graph: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two people on main; `draft` changes one of them and has a third."""
    monkeypatch.chdir(graph.parent)
    path = Path(graph.name)
    upsert(path, "main", {"Ada": 1, "Bob": 1})
    with Graph.open(path) as opened:
        opened.branches.create("draft")
    upsert(path, "draft", {"Ada": 2, "Cid": 2})
    return path


@pytest.fixture
def contested(drafted: Path) -> Path:
    """The same; main has another age for the one that `draft` changes."""
    upsert(drafted, "main", {"Ada": 3})
    return drafted


# --- without conflicts ------------------------------------------------------------------------


def test_a_merge_tells_its_outcome_its_commit_and_the_rows(call: Door, drafted: Path) -> None:
    result = call("branch", "merge", "draft", "--uri", drafted)
    assert result.returncode == 0
    assert result.stderr == "omnigraph branch merge → people.omni (direct, local)\n"
    assert result.stdout.splitlines() == [
        f"merged draft into main (fast forward): commit {head_of(drafted)}",
        "  node:Person  1 added, 1 changed",
    ]
    assert ages_of(drafted) == {"Ada": 2, "Bob": 1, "Cid": 2}


def test_json_of_a_merge_is_the_body_of_the_contract(call: Door, drafted: Path) -> None:
    source, target = head_of(drafted, "draft"), head_of(drafted)
    words = ("branch", "merge", "draft", "--uri", drafted, "--as", "act-me", "--json", "--quiet")
    result = call(*words)
    assert (result.returncode, result.stderr) == (0, "")
    body = json.loads(result.stdout)
    commit = body.pop("commit")
    assert body == {
        "source": "draft",
        "target": "main",
        "outcome": "fast_forward",
        "actor_id": "act-me",
    }
    assert (commit["kind"], commit["actor_id"]) == ("merge", "act-me")
    assert (commit["parent_commit_id"], commit["merged_parent_commit_id"]) == (target, source)
    shown = call("commit", "show", commit["graph_commit_id"], "--uri", drafted, "--json")
    body = json.loads(shown.stdout)
    assert body.pop("stats")["merge"]["source_commit"] == source
    assert body == commit


def test_a_second_merge_has_nothing_to_do(call: Door, drafted: Path) -> None:
    call("branch", "merge", "draft", "--uri", drafted)
    head = head_of(drafted)
    again = call("branch", "merge", "draft", "--uri", drafted, "--quiet")
    assert (again.returncode, again.stdout) == (0, "main has everything of draft already\n")
    body = json.loads(call("branch", "merge", "draft", "--uri", drafted, "--json").stdout)
    assert (body["outcome"], body["commit"]) == ("already_up_to_date", None)
    assert head_of(drafted) == head


def test_a_branch_is_merged_into_another_than_main(call: Door, drafted: Path) -> None:
    call("branch", "create", "release", "--uri", drafted)
    result = call("branch", "merge", "draft", "--into", "release", "--uri", drafted)
    assert result.stdout.startswith("merged draft into release (fast forward): commit ")
    assert ages_of(drafted, "release") == {"Ada": 2, "Bob": 1, "Cid": 2}
    assert ages_of(drafted) == {"Ada": 1, "Bob": 1}


def test_the_source_is_deleted_after_the_merge(call: Door, drafted: Path) -> None:
    result = call("branch", "merge", "draft", "--delete-branch", "--uri", drafted)
    assert result.returncode == 0
    assert result.stdout.splitlines()[-1] == "deleted branch draft"
    assert json.loads(call("branch", "list", "--uri", drafted, "--json").stdout) == {
        "branches": ["main"]
    }
    assert ages_of(drafted) == {"Ada": 2, "Bob": 1, "Cid": 2}


def test_a_source_that_cannot_be_deleted_is_a_warning(call: Door, drafted: Path) -> None:
    call("branch", "create", "child", "--from", "draft", "--uri", drafted)
    words = ("branch", "merge", "draft", "--delete-branch", "--uri", drafted)
    result = call(*words)
    assert result.returncode == 0
    assert "deleted branch" not in result.stdout
    assert "warning: draft was merged, and not deleted: " in result.stderr
    assert "child" in result.stderr
    body = json.loads(call(*words, "--json").stdout)
    assert body["outcome"] == "already_up_to_date"
    assert body["branch_deleted"] is False
    assert "child" in body["branch_delete_error"]


def test_a_merge_with_a_key_is_made_once(call: Door, drafted: Path) -> None:
    words = ("branch", "merge", "draft", "--uri", drafted, "--idempotency-key", "k", "--json")
    first, again = (json.loads(call(*words).stdout)["commit"] for _ in range(2))
    assert first == again
    assert first["graph_commit_id"] == head_of(drafted)


def test_a_merge_into_another_head_than_expected_ends_with_4(call: Door, drafted: Path) -> None:
    head = head_of(drafted)
    words = ("branch", "merge", "draft", "--uri", drafted, "--if-commit")
    lost = call(*words, head_of(drafted, "draft"), "--json")
    assert (lost.returncode, lost.stdout) == (4, "")
    assert json.loads(lost.stderr)["reason"] == "precondition_failure"
    assert head_of(drafted) == head
    assert call(*words, head).returncode == 0


# --- dry run ----------------------------------------------------------------------------------


def test_a_dry_run_tells_the_outcome_and_the_rows_and_writes_nothing(
    call: Door, drafted: Path
) -> None:
    head = head_of(drafted)
    result = call("branch", "merge", "draft", "--dry-run", "--uri", drafted)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "draft into main: fast forward",
        "  node:Person  1 inserted, 1 updated",
    ]
    assert head_of(drafted) == head


def test_json_of_a_dry_run_is_the_plan(call: Door, contested: Path) -> None:
    result = call("branch", "merge", "draft", "--dry-run", "--uri", contested, "--json")
    assert (result.returncode, result.stderr) == (1, "")
    with Graph.open(contested, mode="read_only") as opened:
        assert json.loads(result.stdout) == opened.branches.merge_plan("draft").to_dict()


def test_a_dry_run_of_conflicts_has_a_line_for_each_contested_value(
    call: Door, contested: Path
) -> None:
    result = call("branch", "merge", "draft", "--dry-run", "--uri", contested)
    assert (result.returncode, result.stderr) == (1, "")
    title, *lines = result.stdout.splitlines()
    assert title == "draft into main: 1 conflict, nothing would be merged"
    assert [line.split() for line in lines] == [
        ["Person", "Ada", "divergent_update", "age", "1", "3", "2"]
    ]


def test_a_dry_run_shows_of_long_values_where_they_differ(
    call: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    alike = "x" * 5_000
    with Graph.init("p.omni", schema="node P { name: String @key text: String }") as graph:
        graph.branches.create("draft")
        for branch, end in (("draft", "theirs"), ("main", "ours" + alike)):
            rows = {"name": ["a"], "text": [alike + end]}
            with graph.write(branch) as writer:
                writer.upsert("P", pa.table(rows))
                writer.commit()
    _, line = call("branch", "merge", "draft", "--dry-run", "--uri", "p.omni").stdout.splitlines()
    *_, ours, theirs = line.split()
    assert line.split()[:5] == ["P", "a", "divergent_insert", "text", "-"]
    assert ours == f"…{'x' * 20}ours{'x' * 34}…"
    assert theirs == f'…{"x" * 20}theirs"'


def test_a_dry_run_counts_conflicts(call: Door, contested: Path) -> None:
    upsert(contested, "main", {"Cid": 3})
    result = call("branch", "merge", "draft", "--dry-run", "--uri", contested)
    assert result.stdout.startswith("draft into main: 2 conflicts, nothing would be merged\n")


def test_a_dry_run_tells_what_breaks_a_rule_and_a_way_out_that_works(
    call: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node is kept whose edges the other side removed, and it needs one."""
    monkeypatch.chdir(tmp_path)
    schema = "node P { name: String @key n: I32? } edge L: P -> P @card(1..)"
    with Graph.init("p.omni", schema=schema) as graph:
        lines = (
            '{"type": "P", "data": {"name": "a"}}\n{"type": "P", "data": {"name": "b"}}\n'
            '{"edge": "L", "from": "a", "to": "b", "data": {"id": "l1"}}\n'
        )
        graph.load(lines.encode(), mode="append", engine="local")
        graph.branches.create("draft")
        graph.mutate('query q() { delete P where name = "a" }', branch="draft")
        graph.mutate('query q() { update P set { n: 1 } where name = "a" }')
    merge = ("branch", "merge", "draft", "--strategy", "ours", "--uri", "p.omni")
    result = call(*merge, "--dry-run")
    advice = '{"type": "L", "id": "l1", "take": "ours"}'
    assert result.stdout.splitlines() == [
        "draft into main: 1 conflict, nothing would be merged",
        "L  a  cardinality_violation  -  -  -  -",
        "L a: @card violation on edge L: source 'a' has 0 edges (min 1); a resolution decides it,"
        f" as {advice}",
    ]
    assert advice in call(*merge).stderr
    assert call(*merge, "--resolutions", "-", stdin=advice.encode()).returncode == 0
    with Graph.open("p.omni", mode="read_only") as graph:
        assert (graph.snapshot().count("P"), graph.snapshot().count("L")) == (2, 1)


def test_a_dry_run_decides_conflicts_as_the_merge_would(call: Door, contested: Path) -> None:
    words = ("branch", "merge", "draft", "--dry-run", "--uri", contested, "--strategy", "theirs")
    result = call(*words)
    assert result.returncode == 0
    assert result.stdout.splitlines() == [
        "draft into main: merged",
        "  node:Person  1 inserted, 1 updated",
    ]
    assert ages_of(contested) == {"Ada": 3, "Bob": 1}


@pytest.mark.parametrize(
    "words",
    [["--delete-branch"], ["--if-commit", "0" * 26], ["--idempotency-key", "k"]],
)
def test_a_dry_run_takes_no_option_of_a_write(call: Door, words: list[str]) -> None:
    result = call("branch", "merge", "draft", "--dry-run", *words, "--uri", "nothing.omni")
    assert (result.returncode, result.stdout) == (2, "")
    assert "--dry-run writes nothing: --delete-branch, --if-commit" in result.stderr


# --- conflicts --------------------------------------------------------------------------------


def test_conflicts_end_with_1_and_change_nothing(call: Door, contested: Path) -> None:
    head = head_of(contested)
    result = call("branch", "merge", "draft", "--delete-branch", "--uri", contested, "--quiet")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "error: 'draft' cannot be merged into 'main', nothing was changed:"
        " Person 'Ada' was changed on both sides with different values of age\n"
    )
    assert (head_of(contested), ages_of(contested)) == (head, {"Ada": 3, "Bob": 1})
    assert ages_of(contested, "draft")["Ada"] == 2


def test_json_of_a_refused_merge_has_every_conflict(call: Door, contested: Path) -> None:
    result = call("branch", "merge", "draft", "--uri", contested, "--json")
    assert (result.returncode, result.stdout) == (1, "")
    envelope = json.loads(result.stderr)
    assert (envelope["code"], envelope["reason"]) == ("conflict", "merge_conflicts")
    (conflict,) = envelope["merge_conflicts"]
    assert conflict == {
        "entity_kind": "node",
        "type_name": "Person",
        "entity_id": "Ada",
        "kind": "divergent_update",
        "message": "Person 'Ada' was changed on both sides with different values of age",
        "base": {"properties": {"name": "Ada", "age": 1}},
        "ours": {"properties": {"name": "Ada", "age": 3}},
        "theirs": {"properties": {"name": "Ada", "age": 2}},
    }


@pytest.mark.parametrize(("strategy", "age"), [("ours", 3), ("theirs", 2)])
def test_a_strategy_decides_every_conflict(
    call: Door, contested: Path, strategy: str, age: int
) -> None:
    result = call("branch", "merge", "draft", "--strategy", strategy, "--uri", contested)
    assert result.returncode == 0
    assert result.stdout.startswith("merged draft into main (merged): commit ")
    assert ages_of(contested) == {"Ada": age, "Bob": 1, "Cid": 2}


@pytest.mark.parametrize(
    ("decision", "ages"),
    thinned(
        [
            ({"take": "base"}, {"Ada": 1, "Bob": 1, "Cid": 2}),
            ({"row": {"name": "Ada", "age": 7}}, {"Ada": 7, "Bob": 1, "Cid": 2}),
            ({"take": "ours"}, {"Ada": 3, "Bob": 1, "Cid": 2}),
            ({"take": "theirs"}, {"Ada": 2, "Bob": 1, "Cid": 2}),
            ({"take": "delete"}, {"Bob": 1, "Cid": 2}),
        ],
        keep=2,
    ),
)
def test_a_file_decides_entity_by_entity(
    call: Door, contested: Path, decision: dict[str, object], ages: dict[str, int]
) -> None:
    line = json.dumps({"type": "Person", "id": "Ada", **decision})
    Path("decided.ndjson").write_text(f"{line}\n\n", encoding="utf-8")
    words = ("branch", "merge", "draft", "--resolutions", "decided.ndjson", "--uri", contested)
    result = call(*words)
    assert (result.returncode, ages_of(contested)) == (0, ages)


def test_decisions_come_from_standard_input_and_win_over_the_strategy(
    call: Door, contested: Path
) -> None:
    upsert(contested, "main", {"Cid": 3})
    words = ("branch", "merge", "draft", "--resolutions", "-", "--strategy", "ours")
    decision = b'{"type": "Person", "id": "Ada", "take": "theirs"}'
    assert call(*words, "--uri", contested, stdin=decision).returncode == 0
    assert ages_of(contested) == {"Ada": 2, "Bob": 1, "Cid": 3}


@pytest.mark.parametrize(
    ("line", "text"),
    thinned(
        [
            ('{"type": "Person", "id": "Ada", "take": "mine"}', "resolution 1: take is 'mine'"),
            ('{"type": "Person", "id": "Ada"}', "resolution 1: it has either take or row"),
            ('\n{"type": "Person"', "resolution 2: malformed JSON"),
            (
                '{"type": "Person", "id": "Ada", "take": "ours"}\n'
                '{"type": "Person", "id": "Bob", "take": "ours"}',
                "the resolution of Person 'Bob' is for an entity without a conflict",
            ),
            ('{"type": "Person", "id": "Ada", "row": {"size": 1}}', "no property 'size'"),
        ],
        keep=2,
    ),
)
def test_a_decision_that_means_nothing_is_refused(
    call: Door, contested: Path, line: str, text: str
) -> None:
    words = ("branch", "merge", "draft", "--resolutions", "-", "--uri", contested, "--json")
    result = call(*words, stdin=line.encode())
    assert (result.returncode, result.stdout) == (1, "")
    envelope = json.loads(result.stderr)
    assert envelope["reason"] == "invalid_argument"
    assert text in envelope["error"]
    assert ages_of(contested) == {"Ada": 3, "Bob": 1}


def test_a_file_of_decisions_that_does_not_exist_is_refused(call: Door, drafted: Path) -> None:
    result = call("branch", "merge", "draft", "--resolutions", "no.ndjson", "--uri", drafted)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "error: --resolutions 'no.ndjson': no such file; check the path\n"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["draft", "--strategy", "mine"], 1, "strategy is one of fail, ours, theirs"),
        (["draft", "--if-commit", ""], 2, "--if-commit is empty"),
        (["draft", "--into", "draft"], 1, "'draft' cannot be merged into itself"),
        (["draft", "--into", "nowhere"], 1, "there is no branch 'nowhere'"),
        (["nowhere"], 1, "there is no branch 'nowhere'"),
        ([], 2, "missing argument 'SOURCE'"),
    ],
)
def test_a_merge_that_means_nothing_is_refused(
    call: Door, drafted: Path, words: list[str], code: int, text: str
) -> None:
    result = call("branch", "merge", *words, "--uri", drafted)
    assert (result.returncode, result.stdout) == (code, "")
    assert text in result.stderr
