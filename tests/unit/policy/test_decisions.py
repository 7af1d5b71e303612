"""What a bundle answers: every action, scope, branch and kind of actor; how it fails closed."""

import itertools
import threading

import pytest
from tests.unit.policy.bundles import HEAD, compiled, rule

from omnigraph.errors import PolicyEvaluationError, PolicyInvalid
from omnigraph.graph.access import EVERYTHING, Action
from omnigraph.lang import compile_schema
from omnigraph.policy.bundle import ACTIONS, BundleKind, Scope, ScopeKey
from omnigraph.policy.bundle_reader import parse_bundle
from omnigraph.policy.cedar import CedarPolicies
from omnigraph.policy.cedar_source import cedar_entities, cedar_policies, cedar_schema
from omnigraph.policy.compiled_policy import CompiledPolicy

BRANCHES = {"none": None, "protected": "release", "unprotected": "wip"}
ACTORS = {"member": "act-bob", "of another group": "act-carol", "stranger": "act-eve", "none": None}


def _holds(scope: Scope | None, branch: str) -> bool:
    return scope in (None, Scope.ANY) or branch == str(scope)


@pytest.mark.parametrize("action", list(Action))
def test_every_scope_branch_and_actor_gets_the_answer_of_the_table(action: Action) -> None:
    facts = ACTIONS[action]
    for scope in (None, *(Scope if facts.scope_key else ())):
        text = "" if scope is None else f"{facts.scope_key}: {scope}"
        policy = compiled(f"rules:\n  {rule(action, text)}", kind=facts.kind)
        for branch, target, kind in itertools.product(BRANCHES, BRANCHES, ACTORS):
            decision = policy.authorize(ACTORS[kind], action, BRANCHES[branch], BRANCHES[target])
            looked_at = branch if facts.scope_key is ScopeKey.BRANCH else target
            wanted = kind == "member" and _holds(scope, looked_at)
            assert decision.allowed is wanted, (scope, branch, target, kind, decision)
            assert decision.rule_id == ("r" if wanted else None)
        others = [other for other in Action if other is not action]
        assert not any(policy.authorize("act-bob", other, "wip", "wip").allowed for other in others)


def test_the_messages_name_action_branches_and_actor() -> None:
    policy = compiled(f"rules:\n  {rule('change', 'branch_scope: unprotected')}")
    cases = {
        ("act-bob", Action.CHANGE, "main", None): (
            "policy denied action 'change' on branch 'main' for actor 'act-bob'"
        ),
        ("act-eve", Action.CHANGE, "wip", None): (
            "policy denied action 'change' on branch 'wip' for actor 'act-eve': unknown actor"
        ),
        (None, Action.CHANGE, "wip", None): (
            "policy denied action 'change' on branch 'wip': no actor is given"
        ),
        ("act-bob", Action.BRANCH_MERGE, "wip", "main"): (
            "policy denied action 'branch_merge' on branch 'wip' with target branch 'main' for"
            " actor 'act-bob'"
        ),
        ("act-bob", Action.SCHEMA_APPLY, None, "main"): (
            "policy denied action 'schema_apply' on target branch 'main' for actor 'act-bob'"
        ),
        ("act-bob", Action.CHANGE, "wip", None): (
            "policy allowed action 'change' on branch 'wip' for actor 'act-bob' by rule 'r'"
        ),
    }
    for asked, message in cases.items():
        assert policy.authorize(*asked).message == message


def test_the_smallest_rule_is_named_when_several_allow_it() -> None:
    rules = "".join(f"  {rule('read', name=name)}" for name in ("zeta", "alpha", "mid:dle"))
    policy = compiled(f"rules:\n{rules}")
    assert policy.authorize("act-bob", Action.READ, "main").rule_id == "alpha"


def test_a_branch_is_protected_by_its_trimmed_exact_name() -> None:
    policy = compiled(f"rules:\n  {rule('change', 'branch_scope: unprotected')}")
    assert not policy.authorize("act-bob", Action.CHANGE, " main ").allowed
    assert not policy.authorize("act-bob", Action.CHANGE, "\tmain\n").allowed
    assert policy.authorize("act-bob", Action.CHANGE, "main2").allowed
    assert policy.authorize("act-bob", Action.CHANGE, "Main").allowed
    assert not policy.authorize("act-bob", Action.CHANGE, "  ").allowed  # none at all


@pytest.mark.parametrize(
    "name", ['a"b', "a\\b", "a\nb", "a::b", "ä", "' || true", 'x" in Omnigraph::Group::"admins']
)
def test_names_stay_values_whatever_they_contain(name: str) -> None:
    quoted = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    bundle = parse_bundle(
        f'version: 1\ngroups: {{ "{quoted}": ["{quoted}"], other: [act-bob] }}\n'
        f'rules: [{{ id: "{quoted}", allow: {{ actors: {{ group: "{quoted}" }},'
        " actions: [read] } }]\n",
        "odd.yaml",
    )
    policy = CompiledPolicy(bundle, graph_id=name)
    assert policy.authorize(name, Action.READ, name).rule_id == name
    assert not policy.authorize("act-bob", Action.READ, name).allowed


def test_an_answer_is_kept_by_what_it_depends_on_not_by_the_name_of_the_branch() -> None:
    policy = compiled(f"rules:\n  {rule('change', 'branch_scope: unprotected')}")
    for branch in ("a", "b", "c"):
        assert policy.authorize("act-bob", Action.CHANGE, branch).allowed
    assert policy._answer.cache_info().currsize == 1
    assert not policy.authorize("act-bob", Action.CHANGE, "main").allowed
    assert not policy.authorize("act-bob", Action.CHANGE, "release").allowed
    assert policy._answer.cache_info().currsize == 2
    assert policy._answer.cache_info().maxsize == 10_000
    policy.authorize("act-eve", Action.CHANGE, "a")  # Cedar is not asked about strangers.
    assert policy._answer.cache_info().currsize == 2


def test_the_name_of_a_query_is_part_of_what_is_kept_for_invocations_alone() -> None:
    policy = compiled(f"rules:\n  {rule('invoke_query, read')}")
    for name in ("a", "b"):
        policy.authorize("act-bob", Action.INVOKE_QUERY, query_name=name)
        policy.authorize("act-bob", Action.READ, "wip", query_name=name)
    assert policy._answer.cache_info().currsize == 3


def test_many_threads_get_the_same_answers() -> None:
    policy = compiled(f"rules:\n  {rule('change', 'branch_scope: unprotected')}")
    wrong: list[object] = []

    def ask() -> None:
        for number in range(200):
            branch, wanted = ("main", False) if number % 2 else (f"b{number}", True)
            if policy.authorize("act-bob", Action.CHANGE, branch).allowed is not wanted:
                wrong.append(branch)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_bundle_of_version_1_fits_every_schema_and_hides_nothing() -> None:
    policy = compiled(f"rules:\n  {rule('read')}")
    policy.bind(compile_schema("node Person { name: String @key }"))
    assert policy.visibility("act-bob") is EVERYTHING
    assert policy.visibility(None) is EVERYTHING


def test_without_rules_everything_is_denied() -> None:
    policy = CompiledPolicy(parse_bundle("version: 1\n", "empty.yaml"))
    for action in Action:
        assert not policy.authorize("act-bob", action, "wip", "wip").allowed


def test_a_server_action_is_denied_without_a_server_bundle() -> None:
    policy = compiled(f"rules:\n  {rule('read')}")
    assert not policy.authorize("act-bob", Action.GRAPH_LIST).allowed
    server = compiled(f"rules:\n  {rule('graph_list')}", kind=BundleKind.SERVER)
    assert server.authorize("act-bob", Action.GRAPH_LIST).allowed
    assert not server.authorize("act-bob", Action.READ, "main").allowed


FORBID = {
    "effect": "forbid",
    "principal": {"op": "All"},
    "action": {"op": "All"},
    "resource": {"op": "All"},
    "conditions": [
        {"kind": "when", "body": {".": {"left": {"Var": "principal"}, "attr": "suspended"}}}
    ],
}


def _cedar(*, with_forbid: bool) -> CedarPolicies:
    """Policies over a schema in which an actor may have an attribute that this one lacks."""
    bundle = parse_bundle(f"{HEAD}rules:\n  {rule('read')}", "b.yaml")
    schema = cedar_schema()
    schema["Omnigraph"]["entityTypes"]["Actor"]["shape"] = {
        "type": "Record",
        "attributes": {"suspended": {"type": "Boolean", "required": True}},
    }
    policies = cedar_policies(bundle, "g")
    if with_forbid:
        policies["staticPolicies"]["f"] = FORBID
    entities = cedar_entities(bundle, "g")
    for entity in entities:
        if entity["uid"]["type"].endswith("::Actor"):
            entity["attrs"] = {"suspended": False}
    return CedarPolicies(schema, entities, policies, name="b.yaml")


def _ask(cedar: CedarPolicies, actor: str, context: dict[str, object]) -> tuple[bool, list[str]]:
    return cedar.decide(
        {"type": "Omnigraph::Actor", "id": actor},
        {"type": "Omnigraph::Action", "id": "read"},
        {"type": "Omnigraph::Graph", "id": "g"},
        context,
    )


CONTEXT: dict[str, object] = {
    "has_branch": True,
    "branch": "wip",
    "has_target_branch": False,
    "target_branch": "",
    "branch_is_protected": False,
    "target_branch_is_protected": False,
}


def test_an_error_while_cedar_evaluates_is_no_answer_whatever_it_decides() -> None:
    cedar = _cedar(with_forbid=True)
    assert _ask(cedar, "act-bob", CONTEXT) == (True, ["r:read"])
    # An actor that no entity tells of lacks the attribute: Cedar skips the policy, with an error.
    with pytest.raises(PolicyEvaluationError, match=r"suspended|act-eve"):
        _ask(cedar, "act-eve", CONTEXT)


def test_a_request_that_cedar_cannot_build_is_no_answer() -> None:
    cedar = _cedar(with_forbid=False)
    with pytest.raises(PolicyEvaluationError, match="branch"):
        _ask(cedar, "act-bob", {"has_branch": True})
    with pytest.raises(PolicyEvaluationError):
        _ask(cedar, "act-\ud800", CONTEXT)


def test_an_error_is_not_kept() -> None:
    policy = compiled(f"rules:\n  {rule('read')}")
    working = policy._cedar
    policy._cedar = CedarPolicies(
        _narrow_schema(), [], {"staticPolicies": {}, "templates": {}, "templateLinks": []}, name="x"
    )
    for _ in range(2):
        with pytest.raises(PolicyEvaluationError):
            policy.authorize("act-bob", Action.READ, "wip")
    assert policy._answer.cache_info().currsize == 0
    policy._cedar = working
    assert policy.authorize("act-bob", Action.READ, "wip").allowed


def _narrow_schema() -> dict[str, object]:
    return {"Omnigraph": {"entityTypes": {"Actor": {}, "Graph": {}}, "actions": {}}}


def test_what_cedar_does_not_validate_is_refused_with_the_rule() -> None:
    bundle = parse_bundle(f"{HEAD}rules:\n  {rule('read', name='mine')}", "b.yaml")
    policies = cedar_policies(bundle, "g")
    policies["staticPolicies"]["mine:read"]["conditions"] = [
        {"kind": "when", "body": {".": {"left": {"Var": "context"}, "attr": "nothing"}}}
    ]
    with pytest.raises(PolicyInvalid, match=r"b\.yaml does not compile: mine:read: .*nothing"):
        CedarPolicies(cedar_schema(), cedar_entities(bundle, "g"), policies, name="b.yaml")
    with pytest.raises(PolicyInvalid, match="does not compile"):
        CedarPolicies({"x": 1}, [], policies, name="b.yaml")


def test_a_rule_that_names_queries_is_about_those_alone() -> None:
    text = (
        HEAD.replace("version: 1", "version: 2")
        + "rules:\n  "
        + rule("invoke_query", "queries: [find, 'weekly_*', 'a\\b?']")
    )
    policy = CompiledPolicy(parse_bundle(text, "b.yaml"))
    names = {
        "find": True,
        "find2": False,
        "Find": False,
        "weekly_": True,
        "weekly_triage": True,
        "xweekly_": False,
        "a\\b?": True,
        "": False,
        None: False,
    }
    for name, wanted in names.items():
        decision = policy.authorize("act-bob", Action.INVOKE_QUERY, query_name=name)
        assert decision.allowed is wanted, name
    assert not policy.authorize("act-carol", Action.INVOKE_QUERY, query_name="find").allowed


def test_a_star_in_a_name_is_a_star() -> None:
    text = (
        HEAD.replace("version: 1", "version: 2")
        + "rules:\n  "
        + rule("invoke_query", "queries: ['*']")
    )
    policy = CompiledPolicy(parse_bundle(text, "b.yaml"))
    assert policy.authorize("act-bob", Action.INVOKE_QUERY, query_name="anything").allowed
