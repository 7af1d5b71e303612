"""`CompiledPolicy`: a bundle that answers. What is not allowed by a rule of it is denied.

An answer depends on the actor, the action, and which of the branches are there and protected, never
on their names, so answers are kept; the bundle never changes, so they stay true. A failure is
raised and not kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from omnigraph.graph.access import EVERYTHING, Action, Decision, Visibility
from omnigraph.policy.bundle import ACTIONS
from omnigraph.policy.cedar import CedarPolicies
from omnigraph.policy.cedar_source import (
    QUERY_NAME,
    action_id,
    actor_id,
    cedar_entities,
    cedar_policies,
    cedar_schema,
    resource_id,
    rule_of,
)

if TYPE_CHECKING:
    from omnigraph.lang import Catalog
    from omnigraph.policy.bundle import Bundle

KEPT_ANSWERS: Final = 10_000
"""Least recently used ones go first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked; two questions with the same answer are equal, whatever their branches."""

    actor: str
    action: Action
    has_branch: bool
    branch_is_protected: bool
    has_target_branch: bool
    target_branch_is_protected: bool
    query_name: str | None
    """Of `invoke_query` alone; empty if no query is named."""
    branch: str = field(compare=False)
    target_branch: str = field(compare=False)

    @property
    def context(self) -> dict[str, object]:
        """What rules may look at."""
        named = {} if self.query_name is None else {QUERY_NAME: self.query_name}
        return named | {
            "has_branch": self.has_branch,
            "branch": self.branch,
            "has_target_branch": self.has_target_branch,
            "target_branch": self.target_branch,
            "branch_is_protected": self.branch_is_protected,
            "target_branch_is_protected": self.target_branch_is_protected,
        }


class CompiledPolicy:
    """An `AccessPolicy` made from a bundle, for one graph or for the server."""

    def __init__(self, bundle: Bundle, graph_id: str = "default") -> None:
        """Compile a bundle.

        Raises:
            PolicyInvalid: Cedar does not accept it.
        """
        self.bundle = bundle
        self.graph_id = graph_id
        self._actors = bundle.actors
        self._resource = resource_id(bundle.kind, graph_id)
        self._cedar = CedarPolicies(
            cedar_schema(),
            cedar_entities(bundle, graph_id),
            cedar_policies(bundle, graph_id),
            name=bundle.name,
        )
        self._answer = lru_cache(maxsize=KEPT_ANSWERS)(self._ask)

    @property
    def cedar_text(self) -> str:
        """The compiled policies as people read them."""
        return self._cedar.text

    @property
    def names_queries(self) -> bool:
        """Whether a rule is about single stored queries."""
        return any(rule.queries is not None for rule in self.bundle.rules)

    def bind(self, catalog: Catalog) -> None:
        """Accept any schema: rules on actions and branches name nothing of it."""

    def authorize(
        self,
        actor: str | None,
        action: Action,
        branch: str | None = None,
        target_branch: str | None = None,
        query_name: str | None = None,
    ) -> Decision:
        """Whether the actor may do this, as `AccessPolicy` says.

        Raises:
            PolicyEvaluationError: there is no answer; nothing may be done.
        """
        branch, target_branch = _trimmed(branch), _trimmed(target_branch)
        what = _described(action, branch, target_branch, query_name)
        if actor is None:
            return _denied(f"policy denied {what}: no actor is given")
        if actor not in self._actors:
            return _denied(f"policy denied {what} for actor {actor!r}: unknown actor")
        if ACTIONS[action].kind is not self.bundle.kind:
            return _denied(
                f"policy denied {what} for actor {actor!r}: the bundle is that of a"
                f" {self.bundle.kind}"
            )
        rule_id = self._answer(
            Question(
                actor=actor,
                action=action,
                has_branch=branch is not None,
                branch_is_protected=branch in self.bundle.protected_branches,
                has_target_branch=target_branch is not None,
                target_branch_is_protected=target_branch in self.bundle.protected_branches,
                query_name=(query_name or "") if action is Action.INVOKE_QUERY else None,
                branch=branch or "",
                target_branch=target_branch or "",
            )
        )
        if rule_id is None:
            return _denied(f"policy denied {what} for actor {actor!r}")
        return Decision(
            allowed=True,
            rule_id=rule_id,
            message=f"policy allowed {what} for actor {actor!r} by rule {rule_id!r}",
        )

    def visibility(self, actor: str | None) -> Visibility:  # noqa: ARG002 - of the protocol
        """Everything: a bundle of version 1 has no rules on rows or properties."""
        return EVERYTHING

    def _ask(self, question: Question) -> str | None:
        """The smallest rule that allows it, or `None`."""
        allowed, policies = self._cedar.decide(
            actor_id(question.actor), action_id(question.action), self._resource, question.context
        )
        return min(map(rule_of, policies)) if allowed else None


def _trimmed(branch: str | None) -> str | None:
    """The name as the graph knows it; a blank one is none."""
    return (branch or "").strip() or None


def _denied(message: str) -> Decision:
    return Decision(allowed=False, rule_id=None, message=message)


def _described(
    action: Action, branch: str | None, target_branch: str | None, query_name: str | None
) -> str:
    parts = [f"action '{action}'"]
    if query_name is not None:
        parts.append(f"of query {query_name!r}")
    if branch is not None:
        parts.append(f"on branch {branch!r}")
    if target_branch is not None:
        parts.append(
            f"with target branch {target_branch!r}"
            if branch
            else f"on target branch {target_branch!r}"
        )
    return " ".join(parts)
