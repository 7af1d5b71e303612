"""What a bundle says: groups of actors, protected branches, and rules that allow.

Values only. What no rule allows is denied; there is no rule that denies. A bundle guards one kind
of thing, graphs or a server, and every action belongs to one of the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from omnigraph.graph.access import Action

if TYPE_CHECKING:
    from collections.abc import Mapping


class BundleKind(StrEnum):
    """What a bundle guards."""

    GRAPH = "graph"
    SERVER = "server"


class Scope(StrEnum):
    """Which branches a rule is about."""

    ANY = "any"
    PROTECTED = "protected"
    UNPROTECTED = "unprotected"


class ScopeKey(StrEnum):
    """Which branch of a request a scope looks at: what is read or written, or what becomes."""

    BRANCH = "branch_scope"
    TARGET = "target_branch_scope"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFacts:
    """Where an action belongs, and the key that narrows it; `None` if none does."""

    kind: BundleKind = BundleKind.GRAPH
    scope_key: ScopeKey | None = None


ACTIONS: Final[Mapping[Action, ActionFacts]] = {
    Action.READ: ActionFacts(scope_key=ScopeKey.BRANCH),
    Action.EXPORT: ActionFacts(scope_key=ScopeKey.BRANCH),
    Action.CHANGE: ActionFacts(scope_key=ScopeKey.BRANCH),
    Action.SCHEMA_APPLY: ActionFacts(scope_key=ScopeKey.TARGET),
    Action.BRANCH_CREATE: ActionFacts(scope_key=ScopeKey.TARGET),
    Action.BRANCH_DELETE: ActionFacts(scope_key=ScopeKey.TARGET),
    Action.BRANCH_MERGE: ActionFacts(scope_key=ScopeKey.TARGET),
    Action.INVOKE_QUERY: ActionFacts(),
    Action.ADMIN: ActionFacts(),
    Action.GRAPH_LIST: ActionFacts(kind=BundleKind.SERVER),
    Action.METRICS: ActionFacts(kind=BundleKind.SERVER),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One permission: a group may do these actions where the scope holds."""

    id: str
    group: str
    actions: tuple[Action, ...]
    scope: Scope = Scope.ANY
    queries: tuple[str, ...] | None = None
    """Stored queries that it is about, a `*` at the end for any rest; `None` for all."""
    line: int = 0
    """Where it stands in its file, from 1; 0 if it is of no file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A whole bundle, checked."""

    kind: BundleKind
    name: str
    """The file that it was read from, for messages."""
    groups: Mapping[str, tuple[str, ...]]
    protected_branches: frozenset[str]
    rules: tuple[Rule, ...]

    @property
    def actors(self) -> dict[str, tuple[str, ...]]:
        """Every actor with its groups, both in order of their names."""
        groups_of: dict[str, list[str]] = {}
        for group in sorted(self.groups):
            for actor in self.groups[group]:
                groups_of.setdefault(actor, []).append(group)
        return {actor: tuple(groups_of[actor]) for actor in sorted(groups_of)}
