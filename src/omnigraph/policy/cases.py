"""Cases: what a bundle is expected to answer, in a file beside it, and whether it does."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from omnigraph.graph.access import Action
from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.yaml_tree import YamlList, YamlMap, YamlScalar
from omnigraph.policy.policy_file import read_policy_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from omnigraph.graph.access import AccessPolicy
    from omnigraph.lang.yaml_tree import YamlNode
    from omnigraph.policy.policy_file import PolicyFile

_VERSION: Final = 1
_REQUIRED: Final = ("id", "actor", "action", "expect")
_KEYS: Final = (*_REQUIRED, "branch", "target_branch", "query")
_UNREAD: Final = "; this release knows no rules on data"
_LATER_KEYS: Final = {"sees": _UNREAD, "sees_property": _UNREAD}


class Expectation(StrEnum):
    """What a case expects."""

    ALLOW = "allow"
    DENY = "deny"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question, and the answer that it should get."""

    id: str
    actor: str
    action: Action
    branch: str | None
    target_branch: str | None
    query: str | None
    expect: Expectation


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A case whose answer was another one."""

    case: Case
    got: Expectation
    matched_rule: str | None
    message: str

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return {
            "id": self.case.id,
            "expected": str(self.case.expect),
            "got": str(self.got),
            "matched_rule": self.matched_rule,
            "message": self.message,
        }


def read_cases(path: str | Path) -> list[Case]:
    """The cases of a file.

    Raises:
        PolicyInvalid: it cannot be read, or something in it is wrong; details `diagnostics`.
    """
    file = read_policy_yaml(path, "the cases")
    return file.checked(lambda root: _cases(file, root))


def find_mismatches(policy: AccessPolicy, cases: Sequence[Case]) -> Iterator[Mismatch]:
    """Every case that a policy answers otherwise, in order.

    Raises:
        PolicyEvaluationError: the policy has no answer.
    """
    for case in cases:
        decision = policy.authorize(
            case.actor, case.action, case.branch, case.target_branch, case.query
        )
        got = Expectation.ALLOW if decision.allowed else Expectation.DENY
        if got is not case.expect:
            yield Mismatch(
                case=case, got=got, matched_rule=decision.rule_id, message=decision.message
            )


def _cases(file: PolicyFile, root: YamlNode) -> list[Case]:
    entries = file.section(root, "", ("version", "cases"), required=("version", "cases"))
    file.version(entries.get("version"), _VERSION)
    node = entries.get("cases")
    if node is not None and not isinstance(node, YamlList):
        file.refuse_shape(node, "cases", "a list of cases")
    if not isinstance(node, YamlList):
        return []
    cases: dict[str, Case] = {}
    for number, each in enumerate(node.items):
        case = _case(file, each, f"cases[{number}]")
        if case is None:
            continue
        if case.id in cases:
            message = f"a case above has the id {case.id!r}"
            file.refuse(each.extent, f"cases[{number}].id", "repeated_case", message)
        cases[case.id] = case
    return list(cases.values())


def _case(file: PolicyFile, node: YamlNode, key: str) -> Case | None:
    name = node.values.get("id") if isinstance(node, YamlMap) else None
    file.name_rule(node, name.text if isinstance(name, YamlScalar) else None)
    entries = file.section(node, key, _KEYS, later=_LATER_KEYS, required=_REQUIRED)
    texts = {word: file.text(entries.get(word), f"{key}.{word}") for word in _KEYS}
    for word, known in (("action", Action), ("expect", Expectation)):
        text = texts[word]
        if text is not None and text not in set(known):
            hint = did_you_mean(text, known, otherwise="there are")
            place = entries[word].extent
            file.refuse(place, f"{key}.{word}", f"unknown_{word}", f"unknown {word}{hint}")
            texts[word] = None
    if any(texts[word] is None for word in _REQUIRED):
        return None
    return Case(
        id=texts["id"] or "",
        actor=texts["actor"] or "",
        action=Action(texts["action"] or ""),
        branch=texts["branch"],
        target_branch=texts["target_branch"],
        query=texts["query"],
        expect=Expectation(texts["expect"] or ""),
    )
