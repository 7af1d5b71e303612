"""The Cedar engine: policies that were validated once, asked many times. All of `cedarpy` is here.

Cedar skips a policy whose evaluation fails and decides with the rest, so an answer with an error in
its diagnostics is no answer: it raises, whatever the decision says. So does a request that Cedar
could not build.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cedarpy import (
    Decision,
    Entities,
    PolicySet,
    Schema,
    is_authorized,
    policies_from_json_str,
    validate_policies,
)

from omnigraph.errors import PolicyEvaluationError, PolicyInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.policy.cedar_source import Json


class CedarPolicies:
    """A policy set with its schema and entities, parsed and strictly validated."""

    def __init__(self, schema: Json, entities: list[Json], policies: Json, *, name: str) -> None:
        """Build the handles.

        Raises:
            PolicyInvalid: Cedar refuses something of it; `name` says of what bundle.
        """
        try:
            text = json.dumps(policies)
            self._schema = Schema.from_json_str(json.dumps(schema))
            self._entities = Entities.from_json_str(json.dumps(entities), self._schema)
            self._policies = PolicySet.from_json_str(text)
            self.text = policies_from_json_str(text)
            """The policies as people read them."""
            found = validate_policies(self.text, self._schema)
        except ValueError as error:
            raise PolicyInvalid(f"{name} does not compile: {error}", path=name) from error
        if found.errors or not found.validation_passed:
            ids = found.id_annotations_by_policy_id
            reasons = [
                f"{ids.get(each.policy_id, each.policy_id)}: {each.error}" for each in found.errors
            ]
            raise PolicyInvalid(
                f"{name} does not compile: {'; '.join(reasons) or 'Cedar does not accept it'}",
                path=name,
            )

    def decide(
        self, principal: Json, action: Json, resource: Json, context: Mapping[str, object]
    ) -> tuple[bool, list[str]]:
        """Whether it is allowed, and the ids of the policies that say so.

        Raises:
            PolicyEvaluationError: Cedar failed, or gave no decision.
        """
        request = {
            "principal": principal,
            "action": action,
            "resource": resource,
            "context": dict(context),
        }
        try:
            answer = is_authorized(request, self._policies, self._entities, self._schema)
        except (ValueError, TypeError, KeyError) as error:
            raise PolicyEvaluationError(f"the policy gave no answer: {error}") from error
        errors = answer.diagnostics.errors
        if errors or answer.decision not in (Decision.Allow, Decision.Deny):
            raise PolicyEvaluationError(
                "the policy gave no answer: " + ("; ".join(errors) or "there is no decision"),
                action=action["id"],
                actor=principal["id"],
            )
        return answer.decision is Decision.Allow, sorted(answer.diagnostics.reasons)
