"""`omnigraph policy`: what it prints, as text and as JSON, and how it ends."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Door = Callable[..., CompletedProcess[str]]

PAPERS = Path(__file__).parents[3] / "examples" / "papers"
BUNDLE = PAPERS / "policy.yaml"
CASES = PAPERS / "policy.tests.yaml"


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "broken.yaml"
    path.write_text(
        BUNDLE.read_text().replace("[read, export]", "[reed]").replace("admins", "adm", 1)
    )
    return path


def test_validate_prints_rules_groups_and_protected_branches(call: Door) -> None:
    result = call("policy", "validate", "--file", BUNDLE)
    assert (result.returncode, result.stderr) == (0, "")
    assert f"{BUNDLE}: a graph bundle, 6 rules, 2 groups, 3 actors" in result.stdout
    assert "team-writes-drafts" in result.stdout
    assert "group team: act-alice, act-bob" in result.stdout
    assert "protected branches: main, release" in result.stdout
    assert "warning" not in result.stdout


def test_validate_names_the_queries_of_a_rule(call: Door, tmp_path: Path) -> None:
    bundle = tmp_path / "policy.yaml"
    bundle.write_text(
        "version: 2\ngroups: { bots: [bot] }\nrules:\n  - id: tools\n    allow: { actors:"
        " { group: bots }, actions: [invoke_query], queries: [find, weekly_*] }\n"
    )
    result = call("policy", "validate", "--file", bundle)
    assert "tools  bots  invoke_query (find, weekly_*)  any" in result.stdout


def test_validate_in_json_has_these_fields(call: Door, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.write_text('{"act-bob": "s3cret-one", "act-zoe": "s3cret-two"}')
    result = call("policy", "validate", "--file", BUNDLE, "--tokens", tokens, "--json")
    body = json.loads(result.stdout)
    assert result.returncode == 0
    assert list(body) == [
        *("file", "kind", "rules", "groups", "actors", "protected_branches", "warnings")
    ]
    assert body["rules"][1] == {
        "id": "team-writes-drafts",
        "group": "team",
        "actions": ["change"],
        "scope": "unprotected",
        "line": 10,
    }
    assert body["actors"]["act-carol"] == ["admins"]
    assert len(body["warnings"]) == 1
    assert "act-zoe" in body["warnings"][0]
    assert "s3cret" not in result.stdout + result.stderr


def test_tokens_that_cannot_be_read_are_told_without_what_is_in_them(
    call: Door, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens.json"
    for content in ('["s3cret"]', "{s3cret"):
        tokens.write_text(content)
        result = call("policy", "validate", "--file", BUNDLE, "--tokens", tokens)
        assert result.returncode == 1
        assert "no JSON object" in result.stderr
        assert "s3cret" not in result.stderr


def test_a_bundle_that_is_wrong_ends_with_1_and_every_mistake(call: Door, broken: Path) -> None:
    result = call("policy", "validate", "--file", broken, "--json")
    assert (result.returncode, result.stdout) == (1, "")
    body = json.loads(result.stderr)
    assert (body["code"], body["reason"]) == ("bad_request", "policy_invalid")
    assert body["error"].startswith(f"{broken}:9:")
    assert [(each["reason"], each["rule"]) for each in body["diagnostics"]] == [
        ("unknown_action", "team-reads"),
        ("unknown_group", "admins-read"),
        ("unknown_group", "admins-merge"),
    ]


def test_cases_that_hold_end_with_0(call: Door) -> None:
    result = call("policy", "test", "--file", BUNDLE, "--tests", CASES)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "5 cases, 0 mismatches\n"


def test_a_mismatch_is_listed_and_ends_with_1(call: Door, tmp_path: Path) -> None:
    cases = tmp_path / "cases.yaml"
    cases.write_text(CASES.read_text().replace("branch: main, expect: deny", "expect: allow", 1))
    words = ("policy", "test", "--file", BUNDLE, "--tests", cases)
    result = call(*words)
    assert result.returncode == 1
    assert result.stdout.splitlines() == [
        "bob-no-main: expected allow, got deny: policy denied action 'change' for actor 'act-bob'",
        "5 cases, 1 mismatches",
    ]
    result = call(*words, "--json")
    assert (result.returncode, result.stderr) == (1, "")
    assert json.loads(result.stdout) == {
        "file": str(BUNDLE),
        "tests": str(cases),
        "total": 5,
        "passed": 4,
        "mismatches": [
            {
                "id": "bob-no-main",
                "expected": "allow",
                "got": "deny",
                "matched_rule": None,
                "message": "policy denied action 'change' for actor 'act-bob'",
            }
        ],
    }


def test_explain_says_the_decision_and_the_rule_and_ends_with_0_either_way(call: Door) -> None:
    words = ("policy", "explain", "--file", BUNDLE, "--actor", "act-bob", "--action", "change")
    allowed = call(*words, "--branch", "wip", "--json")
    assert (allowed.returncode, allowed.stderr) == (0, "")
    assert json.loads(allowed.stdout) == {
        "decision": "allow",
        "actor": "act-bob",
        "action": "change",
        "branch": "wip",
        "target_branch": None,
        "matched_rule": "team-writes-drafts",
        "message": "policy allowed action 'change' on branch 'wip' for actor 'act-bob' by rule"
        " 'team-writes-drafts'",
    }
    denied = call(*words, "--branch", "main")
    assert denied.returncode == 0
    assert "decision  deny\n" in denied.stdout
    assert "matched_rule" not in denied.stdout


def test_explain_shows_the_compiled_policies_and_the_name_of_the_graph(call: Door) -> None:
    words = ("policy", "explain", "--file", BUNDLE, "--actor", "act-bob", "--action", "read")
    result = call(*words, "--cedar", "--graph", "knowledge")
    assert 'Omnigraph::Graph::"knowledge"' in result.stdout
    assert "permit" in json.loads(call(*words, "--cedar", "--json").stdout)["cedar"]


def test_a_schema_that_does_not_compile_is_told(call: Door, tmp_path: Path) -> None:
    schema = tmp_path / "schema.pg"
    schema.write_text("node Person { name: Strin }\n")
    words = ("policy", "validate", "--file", BUNDLE, "--schema")
    assert call(*words, PAPERS / "schema.pg").returncode == 0
    assert call(*words, schema).stderr.startswith("error: S")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["validate"], "--file"),
        (["validate", "--file", "x", "--cluster", "prod"], "not in this version"),
        (["explain", "--file", str(BUNDLE), "--actor", "a", "--action", "reed"], "'reed'"),
        (["explain", "--file", str(BUNDLE), "--actor", "a"], "--action"),
        (["test", "--file", str(BUNDLE)], "--tests"),
        (["validate", "--file", str(BUNDLE), "--store", "g.omni"], "--store"),
        (["validate", "--file", str(BUNDLE), "--as", "act-bob"], "--as"),
    ],
)
def test_wrong_usage_ends_with_2(call: Door, words: list[str], named: str) -> None:
    result = call("policy", *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert named in result.stderr


def test_a_file_that_is_missing_ends_with_1(call: Door, tmp_path: Path) -> None:
    missing = tmp_path / "missing.yaml"
    assert "cannot read the bundle" in call("policy", "validate", "--file", missing).stderr
    result = call("policy", "test", "--file", BUNDLE, "--tests", missing)
    assert result.returncode == 1
    assert "cannot read the cases" in result.stderr
