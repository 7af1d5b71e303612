"""Warnings about bundles that are right and still look like a mistake."""

from textwrap import dedent

import pytest
from tests.unit.policy.bundles import HEAD, rule

from omnigraph.policy.bundle_reader import parse_bundle
from omnigraph.policy.review import review

BOTH = rule("read") + "  " + rule("read", name="a", group="admins")
SCHEMA_OF_TEAM = (
    "the group 'team' can read branches, but not the schema, the list of branches or a commit by"
    " its id: these have no branch, and only the scope `any` covers them"
)


@pytest.mark.parametrize(
    ("rules", "warnings"),
    [
        (BOTH, []),
        (
            rule("read"),
            [
                "no rule uses the group 'admins'",
                "the actor 'act-carol' has no rights: no rule uses a group of it",
            ],
        ),
        (
            f"{BOTH}  {rule('read', 'branch_scope: protected', name='narrow')}",
            ["the rule 'narrow' adds nothing: 'r' allows all of it"],
        ),
        (
            f"{BOTH}  {rule('read', name='same')}",
            ["the rule 'same' adds nothing: 'r' allows all of it"],
        ),
        (
            f"{BOTH}  {rule('admin', name='x')}",
            ["the rule 'x' allows `admin`, which no operation asks for yet"],
        ),
        (
            rule("read", "branch_scope: protected")
            + f"  {rule('export', name='a', group='admins')}",
            [SCHEMA_OF_TEAM],
        ),
    ],
)
def test_a_warning_says_what_looks_wrong(rules: str, warnings: list[str]) -> None:
    assert review(parse_bundle(f"{HEAD}rules:\n  {dedent(rules)}", "b.yaml")) == warnings


def test_who_has_a_token_and_is_in_no_group_is_told() -> None:
    bundle = parse_bundle(f"{HEAD}rules:\n  {BOTH}", "b.yaml")
    assert review(bundle, ["act-zoe", "act-bob", "act-eve"]) == [
        f"the actor '{actor}' has a token and is in no group: everything is denied to it"
        for actor in ("act-eve", "act-zoe")
    ]


def test_a_group_of_a_wider_one_is_shadowed_and_of_another_one_is_not() -> None:
    head = "version: 1\ngroups: { all: [a, b], one: [a], other: [c] }\n"
    rules = "".join(f"  {rule('read', name=name, group=name)}" for name in ("all", "one", "other"))
    assert review(parse_bundle(f"{head}rules:\n{rules}", "b.yaml")) == [
        "the rule 'one' adds nothing: 'all' allows all of it"
    ]


def test_a_rule_for_some_queries_shadows_no_rule_for_others() -> None:
    head = HEAD.replace("version: 1", "version: 2")
    rules = "".join(
        f"  {rule('invoke_query', f'queries: {names}', name=name)}"
        for name, names in (("some", "[a, b]"), ("one", "[a]"), ("other", "[c]"))
    )
    rest = rule("invoke_query", name="all", group="admins")
    assert review(parse_bundle(f"{head}rules:\n{rules}  {rest}", "b.yaml")) == [
        "the rule 'one' adds nothing: 'some' allows all of it"
    ]
