"""Cases: a file of questions and answers, read strictly and run against a bundle."""

from pathlib import Path

import pytest
from tests.unit.policy.bundles import compiled, rule

from omnigraph.errors import PolicyInvalid
from omnigraph.graph.access import Action
from omnigraph.policy import load_policy
from omnigraph.policy.cases import Case, Expectation, find_mismatches, read_cases

PAPERS = Path(__file__).parents[3] / "examples" / "papers"


def _file(folder: Path, *cases: str) -> Path:
    path = folder / "cases.yaml"
    path.write_text("version: 1\ncases:\n" + "".join(f"  - {each}\n" for each in cases))
    return path


def _reasons(path: Path) -> list[tuple[str, int, object]]:
    with pytest.raises(PolicyInvalid) as caught:
        read_cases(path)
    diagnostics = caught.value.details["diagnostics"]
    assert isinstance(diagnostics, list)
    return [(each["reason"], each["span"]["line"], each["rule"]) for each in diagnostics]


def test_the_cases_of_the_example_hold_for_its_bundle() -> None:
    cases = read_cases(PAPERS / "policy.tests.yaml")
    assert cases[0] == Case(
        id="bob-no-main",
        actor="act-bob",
        action=Action.CHANGE,
        branch="main",
        target_branch=None,
        query=None,
        expect=Expectation.DENY,
    )
    assert list(find_mismatches(load_policy(PAPERS / "policy.yaml"), cases)) == []


def test_every_case_with_another_answer_is_listed_in_order(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        "{ id: b, actor: act-bob, action: read, branch: wip, expect: deny }",
        "{ id: right, actor: act-bob, action: read, branch: wip, expect: allow }",
        "{ id: a, actor: act-eve, action: branch_merge, branch: x, target_branch: main,"
        " expect: allow }",
    )
    found = list(find_mismatches(compiled(f"rules:\n  {rule('read')}"), read_cases(path)))
    assert [each.to_dict() for each in found] == [
        {
            "id": "b",
            "expected": "deny",
            "got": "allow",
            "matched_rule": "r",
            "message": "policy allowed action 'read' on branch 'wip' for actor 'act-bob' by rule"
            " 'r'",
        },
        {
            "id": "a",
            "expected": "allow",
            "got": "deny",
            "matched_rule": None,
            "message": "policy denied action 'branch_merge' on branch 'x' with target branch"
            " 'main' for actor 'act-eve': unknown actor",
        },
    ]


def test_what_is_wrong_with_cases_is_told_with_line_and_case(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        "{ id: a, actor: x, action: reed, expect: maybe }",
        "{ id: a, actor: x, action: read, expect: deny }",
        "{ id: a, actor: x, action: read, expect: deny }",
        "{ actor: x, action: read, expect: deny }",
        "{ id: s, actor: x, sees: { type: Person }, expect: deny, branches: [main] }",
        "text",
    )
    assert _reasons(path) == [
        ("unknown_action", 3, "a"),
        ("unknown_expect", 3, "a"),
        ("repeated_case", 5, "a"),
        ("missing_key", 6, None),
        ("missing_key", 7, "s"),
        ("unknown_key", 7, "s"),
        ("unknown_key", 7, "s"),
        ("type", 8, None),
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cases: []\n", "missing_key"),
        ("version: 1\n", "missing_key"),
        ("version: 2\ncases: []\n", "version"),
        ("version: 1\ncases: {}\n", "type"),
        ("", "empty"),
    ],
)
def test_a_file_that_holds_no_cases_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "cases.yaml"
    path.write_text(text)
    assert [each[0] for each in _reasons(path)] == [reason]
