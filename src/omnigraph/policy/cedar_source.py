"""A bundle as Cedar: schema, entities and policies, as the JSON forms of Cedar.

Pure. Nothing is ever formatted into policy text: names come from people, and in JSON they stay
values whatever they contain. There is one policy for each rule and action; its id tells both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from omnigraph.graph.access import Action
from omnigraph.policy.bundle import ACTIONS, BundleKind, Scope, ScopeKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.policy.bundle import Bundle, Rule

# Any: JSON as Cedar defines it.
Json: TypeAlias = dict[str, Any]

_NAMESPACE: Final = "Omnigraph"
_RESOURCE_TYPES: Final[Mapping[BundleKind, str]] = {
    BundleKind.GRAPH: "Graph",
    BundleKind.SERVER: "Server",
}
_SERVER_ROOT: Final = "root"
_CONTEXT: Final[Mapping[str, str]] = {
    "has_branch": "Boolean",
    "branch": "String",
    "has_target_branch": "Boolean",
    "target_branch": "String",
    "branch_is_protected": "Boolean",
    "target_branch_is_protected": "Boolean",
}
QUERY_NAME: Final = "query_name"
"""What the context of `invoke_query` has beside the rest."""
_TESTS: Final[Mapping[ScopeKey, tuple[str, str]]] = {
    ScopeKey.BRANCH: ("has_branch", "branch_is_protected"),
    ScopeKey.TARGET: ("has_target_branch", "target_branch_is_protected"),
}


def actor_id(actor: str) -> Json:
    """The entity of an actor."""
    return _entity("Actor", actor)


def action_id(action: Action) -> Json:
    """The entity of an action."""
    return _entity("Action", action)


def resource_id(kind: BundleKind, graph_id: str) -> Json:
    """What a bundle guards: its graph, or the server."""
    return _entity(_RESOURCE_TYPES[kind], graph_id if kind is BundleKind.GRAPH else _SERVER_ROOT)


def rule_of(policy_id: str) -> str:
    """The rule that a policy was made from."""
    return policy_id.rpartition(":")[0]


def cedar_schema() -> Json:
    """The types of every bundle: actors in groups, graphs, the server, and the actions."""
    return {
        _NAMESPACE: {
            "entityTypes": {
                "Group": {},
                "Actor": {"memberOfTypes": ["Group"]},
                "Graph": {},
                "Server": {},
            },
            "actions": {
                action.value: {
                    "appliesTo": {
                        "principalTypes": ["Actor"],
                        "resourceTypes": [_RESOURCE_TYPES[facts.kind]],
                        "context": _context_type(action),
                    }
                }
                for action, facts in ACTIONS.items()
            },
        }
    }


def _context_type(action: Action) -> Json:
    types = dict(_CONTEXT)
    if action is Action.INVOKE_QUERY:
        types[QUERY_NAME] = "String"
    attributes = {name: {"type": kind, "required": True} for name, kind in types.items()}
    return {"type": "Record", "attributes": attributes}


def cedar_entities(bundle: Bundle, graph_id: str) -> list[Json]:
    """Groups, actors with the groups they are in, the graph and the server."""
    groups = [_declared("Group", group) for group in sorted(bundle.groups)]
    actors = [
        _declared("Actor", actor, parents=[_entity("Group", group) for group in in_groups])
        for actor, in_groups in bundle.actors.items()
    ]
    return [*groups, *actors, _declared("Graph", graph_id), _declared("Server", _SERVER_ROOT)]


def cedar_policies(bundle: Bundle, graph_id: str) -> Json:
    """The policy set of a bundle."""
    resource = resource_id(bundle.kind, graph_id)
    policies = {
        f"{rule.id}:{action}": _policy(rule, action, resource)
        for rule in bundle.rules
        for action in rule.actions
    }
    return {"staticPolicies": policies, "templates": {}, "templateLinks": []}


def _policy(rule: Rule, action: Action, resource: Json) -> Json:
    return {
        "effect": "permit",
        "principal": {"op": "in", "entity": _entity("Group", rule.group)},
        "action": {"op": "==", "entity": action_id(action)},
        "resource": {"op": "==", "entity": resource},
        "conditions": [
            *_conditions(rule.scope, ACTIONS[action].scope_key),
            *_query_conditions(rule.queries),
        ],
        # Validation takes text, which knows no ids; the annotation brings them back.
        "annotations": {"id": f"{rule.id}:{action}"},
    }


def _conditions(scope: Scope, key: ScopeKey | None) -> list[Json]:
    if key is None or scope is Scope.ANY:
        return []
    there, protected = _TESTS[key]
    test = {
        "==": {"left": _context(protected), "right": {"Value": scope is Scope.PROTECTED}},
    }
    return [{"kind": "when", "body": {"&&": {"left": _context(there), "right": test}}}]


def _query_conditions(queries: tuple[str, ...] | None) -> list[Json]:
    if queries is None:
        return []
    tests = [_query_test(name) for name in queries]
    body = tests[0]
    for test in tests[1:]:
        body = {"||": {"left": body, "right": test}}
    return [{"kind": "when", "body": body}]


def _query_test(name: str) -> Json:
    if not name.endswith("*"):
        return {"==": {"left": _context(QUERY_NAME), "right": {"Value": name}}}
    pattern = [{"Literal": name[:-1]}, "Wildcard"]
    return {"like": {"left": _context(QUERY_NAME), "pattern": pattern}}


def _context(name: str) -> Json:
    return {".": {"left": {"Var": "context"}, "attr": name}}


def _entity(kind: str, name: str) -> Json:
    return {"type": f"{_NAMESPACE}::{kind}", "id": name}


def _declared(kind: str, name: str, parents: list[Json] | None = None) -> Json:
    return {"uid": _entity(kind, name), "attrs": {}, "parents": parents or []}
