"""The gate of one handle: whoever acts on it, asked about at the head of every operation.

The only place that turns an answer of a policy into a refusal. With a policy and without an actor
everything is refused: to forget the actor must never mean that it is allowed. Without a policy
nothing is asked; a handle is opened with one or without, and stays so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from omnigraph.errors import OmnigraphError, PolicyError, PolicyEvaluationError, PolicyInvalid
from omnigraph.graph.access import Action

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.graph.access import AccessPolicy, Decision
    from omnigraph.lang import Catalog


class Gate:
    """What one actor may do with one open graph."""

    __slots__ = ("_policy", "actor")

    def __init__(self, policy: AccessPolicy | None, actor: str | None) -> None:
        self._policy = policy
        self.actor: Final = actor

    @property
    def is_guarded(self) -> bool:
        """There is a policy."""
        return self._policy is not None

    def for_actor(self, actor: str | None) -> Gate:
        """The gate of the same policy for somebody else."""
        return Gate(self._policy, actor)

    def require_actor(self) -> None:
        """Refuse who is nobody; for the head of what has to be resolved before it can be asked.

        Raises:
            PolicyError: there is a policy and no actor.
        """
        if self._policy is not None and self.actor is None:
            raise PolicyError(
                "the graph has a policy, and no actor is given; open it with actor=… or use"
                " as_actor(…)",
                actor=None,
            )

    def require(
        self,
        action: Action,
        branch: str | None = None,
        *,
        target: str | None = None,
        query_name: str | None = None,
    ) -> None:
        """Go on only if the actor may do this.

        Raises:
            PolicyError: it is denied, or there is no actor.
            PolicyEvaluationError: the policy has no answer.
        """
        self.require_actor()
        if self._policy is None:
            return
        decision = self._decision(self._policy, action, branch, target, query_name)
        if decision.allowed is not True:
            raise denied(decision, self.actor, action, branch, target)
        self._require_whole_view(self._policy)

    def allows(
        self,
        action: Action,
        branch: str | None = None,
        *,
        target: str | None = None,
        query_name: str | None = None,
    ) -> bool:
        """Whether the actor may do this, for who has another answer than a refusal.

        Raises:
            PolicyError: there is no actor.
            PolicyEvaluationError: the policy has no answer.
        """
        return self.denial(action, branch, target=target, query_name=query_name) is None

    def denial(
        self,
        action: Action,
        branch: str | None = None,
        *,
        target: str | None = None,
        query_name: str | None = None,
    ) -> str | None:
        """Why the actor may not do this, for who tells it beside a result; `None` if it may.

        Raises:
            PolicyError: there is no actor.
            PolicyEvaluationError: the policy has no answer.
        """
        self.require_actor()
        if self._policy is None:
            return None
        decision = self._decision(self._policy, action, branch, target, query_name)
        return None if decision.allowed is True else decision.message

    def callable_queries(self, names: Iterable[str]) -> list[str]:
        """Those of the stored queries that a list shows to the actor.

        Raises:
            PolicyEvaluationError: the policy has no answer.
        """
        # A policy is the code of others: one that does not say so gets the narrow list.
        if self._policy is None or getattr(self._policy, "names_queries", True) is False:
            return list(names)
        return [name for name in names if self.allows(Action.INVOKE_QUERY, query_name=name)]

    def errors_with(self, catalog: Catalog) -> OmnigraphError | None:
        """What would be wrong with the policy under another schema; for who changes the schema."""
        if self._policy is None:
            return None
        try:
            self._policy.bind(catalog)
        except OmnigraphError as error:
            return error
        except Exception as error:  # noqa: BLE001 - a policy is the code of others
            return PolicyInvalid(f"the policy cannot be held against the schema: {error!r:.200}")
        return None

    def _decision(
        self,
        policy: AccessPolicy,
        action: Action,
        branch: str | None,
        target: str | None,
        query_name: str | None,
    ) -> Decision:
        try:
            return policy.authorize(self.actor, action, branch, target, query_name)
        except OmnigraphError:
            raise
        except Exception as error:
            raise self._no_answer(error) from error

    def _no_answer(self, error: Exception) -> PolicyEvaluationError:
        # A policy is the code of others; whatever it raises, nothing is done.
        return PolicyEvaluationError(
            f"the policy gave no answer: {type(error).__name__}", actor=self.actor
        )

    def _require_whole_view(self, policy: AccessPolicy) -> None:
        # No executor applies predicates of a policy yet; to show everything would be a leak.
        try:
            is_everything = policy.visibility(self.actor).is_everything
        except OmnigraphError:
            raise
        except Exception as error:
            raise self._no_answer(error) from error
        if is_everything is not True:
            raise PolicyError(
                f"the policy hides rows or properties from actor {self.actor!r}, which this"
                " release cannot do; nothing is shown instead",
                actor=self.actor,
            )


def denied(
    decision: Decision,
    actor: str | None,
    action: Action,
    branch: str | None,
    target_branch: str | None,
) -> PolicyError:
    """The refusal of what a policy does not allow, the same wherever it was asked."""
    return PolicyError(
        decision.message or f"{action} is not allowed",
        action=str(action),
        actor=actor,
        branch=branch,
        target_branch=target_branch,
    )


UNGUARDED: Final = Gate(None, None)
"""Storage access without a policy and without a name."""
