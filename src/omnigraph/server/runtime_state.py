"""Which of the three states a server or a graph is in: a pure function of what was configured.

The states are access policies like any other, so that the server and the engine cannot disagree.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from omnigraph.errors import SettingInvalid
from omnigraph.graph.access import EVERYTHING, AccessPolicy, Action, Decision, Visibility

if TYPE_CHECKING:
    from omnigraph.lang import Catalog

_NO_ACCESS: Final = (
    "no token and no policy: anybody could read and write. Start with --unauthenticated if that is"
    " meant, or set OMNIGRAPH_SERVER_BEARER_TOKENS_FILE, OMNIGRAPH_SERVER_BEARER_TOKENS_JSON,"
    " OMNIGRAPH_SERVER_BEARER_TOKEN or OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET"
)
_NO_ACTORS: Final = (
    "a policy and no token: every request would be refused as unauthenticated. Set one of the"
    " variables OMNIGRAPH_SERVER_BEARER_TOKEN*, or leave the policy out"
)


class RuntimeState(StrEnum):
    """What decides about a request."""

    OPEN = "open"
    """Nothing: every action on a graph is allowed, and there is no actor."""
    DEFAULT_DENY = "default_deny"
    """A valid token may read, and nothing else."""
    POLICY_ENABLED = "policy_enabled"
    """The policy."""


def classify(*, has_tokens: bool, has_policy: bool, allow_unauthenticated: bool) -> RuntimeState:
    """The state of a server.

    Raises:
        SettingInvalid: it may not start like this.
    """
    match has_tokens, has_policy:
        case True, True:
            return RuntimeState.POLICY_ENABLED
        case True, False:
            return RuntimeState.DEFAULT_DENY
        case False, True:
            raise SettingInvalid(_NO_ACTORS, name="OMNIGRAPH_SERVER_BEARER_TOKEN")
        case _:
            if not allow_unauthenticated:
                raise SettingInvalid(_NO_ACCESS, name="OMNIGRAPH_UNAUTHENTICATED")
            return RuntimeState.OPEN


class ReadOnlyAccess:
    """The policy of a graph that has none on a server with tokens: whoever is known may read."""

    names_queries: Final = False

    def bind(self, catalog: Catalog) -> None:
        """Nothing of the schema matters."""

    def authorize(
        self,
        actor: str | None,
        action: Action,
        branch: str | None = None,  # noqa: ARG002 - the protocol of every policy
        target_branch: str | None = None,  # noqa: ARG002
        query_name: str | None = None,  # noqa: ARG002
    ) -> Decision:
        """Reading, by anybody with a token."""
        allowed = actor is not None and action is Action.READ
        return Decision(
            allowed=allowed,
            rule_id=None,
            message=""
            if allowed
            else f"{action} is not allowed: this graph has no policy, and without one only"
            " reading is; start the server with --policy",
        )

    def visibility(self, actor: str | None) -> Visibility:  # noqa: ARG002 - as above
        """All rows."""
        return EVERYTHING


def policy_in_force(state: RuntimeState, policy: AccessPolicy | None) -> AccessPolicy | None:
    """The policy of one graph: its own, or what the state of the server means without one."""
    if state is RuntimeState.OPEN:
        return None
    return policy or ReadOnlyAccess()
