"""Bundles: what they may say, and that every mistake in them is told with file, line and rule."""

from pathlib import Path

import pytest
from tests.unit.policy.bundles import HEAD, rule

from omnigraph.errors import PolicyInvalid
from omnigraph.graph.access import Action
from omnigraph.policy import load_policy, load_server_policy
from omnigraph.policy.bundle import BundleKind, Rule, Scope
from omnigraph.policy.bundle_reader import parse_bundle, read_bundle

ROOT = Path(__file__).parents[3]


def problems(text: str | bytes, kind: BundleKind | None = None) -> list[tuple[str, int, object]]:
    """Reason, line and rule of everything that is wrong."""
    with pytest.raises(PolicyInvalid) as caught:
        parse_bundle(text, "b.yaml", kind)
    diagnostics = caught.value.details["diagnostics"]
    assert isinstance(diagnostics, list)
    assert caught.value.details["total"] == len(diagnostics)
    assert len(caught.value.message.splitlines()) == len(diagnostics)
    for line, each in zip(caught.value.message.splitlines(), diagnostics, strict=True):
        span = each["span"]
        assert line.startswith(f"b.yaml:{span['line']}:{span['column']}: ")
        assert each["rule"] is None or repr(each["rule"]) in line
    return [(each["reason"], each["span"]["line"], each["rule"]) for each in diagnostics]


def test_the_bundle_of_the_example_says_this() -> None:
    bundle = read_bundle(ROOT / "examples" / "papers" / "policy.yaml")
    assert bundle.kind is BundleKind.GRAPH
    assert bundle.groups == {"team": ("act-alice", "act-bob"), "admins": ("act-carol",)}
    assert bundle.actors == {
        "act-alice": ("team",),
        "act-bob": ("team",),
        "act-carol": ("admins",),
    }
    assert bundle.protected_branches == {"main", "release"}
    assert bundle.rules[1] == Rule(
        id="team-writes-drafts",
        group="team",
        actions=(Action.CHANGE,),
        scope=Scope.UNPROTECTED,
        line=10,
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", [("empty", 1, None)]),
        ("- a\n", [("type", 1, None)]),
        ("groups: {}\n", [("missing_key", 1, None)]),
        ("version: 3\n", [("version", 1, None)]),
        ("version: 2\nattributes: {}\n", [("unknown_key", 2, None)]),
        ("version: 2\ngroups: { g: [a b] }\n", [("name", 2, None)]),
        ("version: 2\ngroups: { 'a b': [a] }\n", [("name", 2, None)]),
        ("version: '1'\n", [("version", 1, None)]),
        ("version: 1.0\n", [("version", 1, None)]),
        ("version: 1\nversion: 1\n", [("duplicate_key", 2, None)]),
        ("version: 1\nrule: []\n", [("unknown_key", 2, None)]),
        (
            "version: 1\nattributes: {}\ndata: {}\n",
            [("unknown_key", 2, None), ("unknown_key", 3, None)],
        ),
        ("version: 1\ngroups: { '': [a] }\n", [("blank", 2, None)]),
        ("version: 1\ngroups: { g: [' '] }\n", [("blank", 2, None)]),
        ("version: 1\ngroups: { g: [] }\n", [("empty_group", 2, None)]),
        ("version: 1\ngroups: { g: }\n", [("type", 2, None)]),
        ("version: 1\ngroups: { g: [1, no, null, [a]] }\n", [("type", 2, None)] * 4),
        ("version: 1\ngroups: { g: ['omnigraph:recovery'] }\n", [("reserved_actor", 2, None)]),
        ("version: 1\nprotected_branches: [main, '  ']\n", [("blank", 2, None)]),
        ("version: 1\nprotected_branches: main\n", [("type", 2, None)]),
        ("version: 1\nrules: {}\n", [("type", 2, None)]),
        ("version: 1\nrules:\n", [("type", 2, None)]),
        ("version: 1\ngroups: &a { g: [x] }\nrules: *a\n", [("alias", 2, None)]),
        ("version: 1\ngroups: !!python/object:os.system { g: [x] }\n", None),
        ("version: 1\n---\nversion: 1\n", [("syntax", 2, None)]),
        ("version: [1\n", None),
        (b"\xff\xfe", [("syntax", 1, None)]),
        ("a: " + "[" * 200 + "]" * 200 + "\n", None),
    ],
)
def test_a_bundle_that_is_wrong_is_refused_at_its_place(
    text: str | bytes, wanted: list[tuple[str, int, object]] | None
) -> None:
    found = problems(text)
    if wanted is not None:
        assert found == wanted


RULES = {
    "no id": ("- { allow: { actors: { group: team }, actions: [read] } }", "missing_key", None),
    "blank id": (rule("read", name="' '"), "blank", " "),
    "no allow": ("- { id: r }", "missing_key", "r"),
    "unknown key": ("- { id: r, deny: {}, " + rule("read")[10:], "unknown_key", "r"),
    "unknown key of allow": (rule("read", "scope: any"), "unknown_key", "r"),
    "key of version 2": (rule("invoke_query", "queries: [a]"), "unknown_key", "r"),
    "repeated key": (rule("read", "branch_scope: any, branch_scope: any"), "duplicate_key", "r"),
    "no actions": (rule(""), "no_actions", "r"),
    "unknown action": (rule("reed"), "unknown_action", "r"),
    "action of another case": (rule("READ"), "unknown_action", "r"),
    "unknown group": (rule("read", group="teams"), "unknown_group", "r"),
    "unknown scope": (rule("read", "branch_scope: all"), "unknown_scope", "r"),
    "scope that is no text": (rule("read", "branch_scope: [any]"), "type", "r"),
    "both scopes": (
        rule("read", "branch_scope: any, target_branch_scope: any"),
        "two_scopes",
        "r",
    ),
    "server and graph": (rule("read, graph_list"), "mixed_actions", "r"),
    **{
        f"scope of {action}": (rule(action, f"{scope}: any"), "scope_not_taken", "r")
        for action, scope in [
            ("read", "target_branch_scope"),
            ("export", "target_branch_scope"),
            ("change", "target_branch_scope"),
            ("schema_apply", "branch_scope"),
            ("branch_create", "branch_scope"),
            ("branch_delete", "branch_scope"),
            ("branch_merge", "branch_scope"),
            ("invoke_query", "branch_scope"),
            ("admin", "target_branch_scope"),
            ("read, branch_merge", "branch_scope"),
        ]
    },
}


@pytest.mark.parametrize(("text", "reason", "name"), list(RULES.values()), ids=list(RULES))
def test_a_rule_that_is_wrong_is_told_with_its_id(text: str, reason: str, name: object) -> None:
    good = rule("read", name="fine")
    found = problems(f"{HEAD}rules:\n  {good}  {text.rstrip()}\n")
    assert (reason, 6, name) in found


def test_ids_that_repeat_are_told() -> None:
    assert problems(f"{HEAD}rules:\n  {rule('read')}  {rule('export')}") == [
        ("repeated_rule", 6, "r")
    ]


def test_everything_that_is_wrong_is_told_at_once_and_in_order() -> None:
    text = (
        "version: 3\ngroups: { team: [] }\nrules:\n"
        "  - { id: a, allow: { actors: { group: teem }, actions: [reed] } }\n"
        "  - { id: a, allow: { actors: { group: team }, actions: [] } }\n"
        "extra: 1\n"
    )
    assert problems(text) == [
        ("version", 1, None),
        ("empty_group", 2, None),
        ("unknown_group", 4, "a"),
        ("unknown_action", 4, "a"),
        ("repeated_rule", 5, "a"),
        ("no_actions", 5, "a"),
        ("unknown_key", 6, None),
    ]


def test_a_message_says_what_to_write() -> None:
    with pytest.raises(PolicyInvalid) as caught:
        parse_bundle(f"{HEAD}rules:\n  {rule('reed')}", "b.yaml")
    assert caught.value.message == (
        "b.yaml:5:58: rules[0].allow.actions ('r'): there is no action 'reed'; did you mean `read`?"
    )


def test_there_are_not_more_errors_than_anybody_reads() -> None:
    many = "".join(f"k{number}: 1\n" for number in range(500))
    with pytest.raises(PolicyInvalid, match="more than 100 errors"):
        parse_bundle(f"version: 1\n{many}", "b.yaml")


def test_a_message_moves_no_cursor() -> None:
    with pytest.raises(PolicyInvalid) as caught:
        parse_bundle('version: 1\n"\\e[2J\\nevil": 1\n', "b.yaml")
    assert "\x1b" not in caught.value.message
    assert len(caught.value.message.splitlines()) == 1


def test_a_bundle_guards_one_kind_of_thing(tmp_path: Path) -> None:
    server = f"{HEAD}rules:\n  {rule('graph_list, metrics')}"
    assert parse_bundle(server, "b.yaml").kind is BundleKind.SERVER
    assert problems(server, BundleKind.GRAPH) == [("wrong_kind", 5, "r")] * 2
    graph = f"{HEAD}rules:\n  {rule('read')}"
    assert problems(graph, BundleKind.SERVER) == [("wrong_kind", 5, "r")]
    assert problems(f"{graph}  {rule('graph_list', name='s')}") == [("wrong_kind", 6, "s")]
    file = tmp_path / "b.yaml"
    file.write_text(server, encoding="utf-8")
    assert load_server_policy(file).bundle.kind is BundleKind.SERVER
    with pytest.raises(PolicyInvalid, match="graph_list"):
        load_policy(file)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.yaml", tmp_path, "nul\0byte"):
        with pytest.raises(PolicyInvalid, match="cannot read the bundle"):
            load_policy(path)
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * 2_000_000)
    with pytest.raises(PolicyInvalid, match="bytes"):
        load_policy(large)


def test_repeated_actors_actions_and_branches_count_once() -> None:
    bundle = parse_bundle(
        "version: 1\ngroups: { g: [a, a] }\nprotected_branches: [main, ' main ']\n"
        f"rules:\n  {rule('read, read', group='g')}",
        "b.yaml",
    )
    assert bundle.groups == {"g": ("a",)}
    assert bundle.protected_branches == {"main"}
    assert bundle.rules[0].actions == (Action.READ,)


NARROWED: dict[str, tuple[str, ...] | str] = {
    "[find, weekly_*, '*', find]": ("find", "weekly_*", "*"),
    "[]": "no_queries",
    "[we*ly]": "query_pattern",
    "['**']": "query_pattern",
    "[' ']": "blank",
    "find": "type",
}


@pytest.mark.parametrize(("queries", "wanted"), list(NARROWED.items()))
def test_a_rule_of_version_2_can_name_its_queries(
    queries: str, wanted: tuple[str, ...] | str
) -> None:
    head = HEAD.replace("version: 1", "version: 2")
    text = f"{head}rules:\n  {rule('invoke_query', f'queries: {queries}')}"
    if isinstance(wanted, str):
        assert problems(text) == [(wanted, 5, "r")]
    else:
        assert parse_bundle(text, "b.yaml").rules[0].queries == wanted


def test_queries_narrow_their_own_action_alone() -> None:
    head = HEAD.replace("version: 1", "version: 2")
    for actions in ("read", "read, invoke_query"):
        text = f"{head}rules:\n  {rule(actions, 'queries: [a]')}"
        assert problems(text) == [("queries_not_taken", 5, "r")]
