"""The seam of access: what the facade and the executors ask of a policy, and what it answers.

A policy is asked twice: at the head of an operation whether an actor may do it (`authorize`), and
while a query is planned which rows and properties the actor sees (`visibility`). Nothing below the
policy layer knows how an answer comes about. A policy never allows by failing: it raises.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.lang import Catalog
    from omnigraph.storage.predicates import Predicate


class Action(StrEnum):
    """What an actor may be allowed to do; the last two concern a server, the others one graph."""

    READ = "read"
    EXPORT = "export"
    CHANGE = "change"
    SCHEMA_APPLY = "schema_apply"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"
    BRANCH_MERGE = "branch_merge"
    INVOKE_QUERY = "invoke_query"
    ADMIN = "admin"
    GRAPH_LIST = "graph_list"
    METRICS = "metrics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer to one question."""

    allowed: bool
    rule_id: str | None
    """The rule that allows it; `None` if none does."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """What of a graph an actor sees. What is not named here is not restricted."""

    rows: Mapping[str, Predicate] = field(default_factory=dict)
    """By type, `node:Person` or `edge:Knows`: the rows that are visible."""
    hidden_properties: frozenset[str] = frozenset()
    """`Person.salary`: properties that may not be read."""

    @property
    def is_everything(self) -> bool:
        """Nothing is hidden."""
        return not self.rows and not self.hidden_properties


EVERYTHING: Final = Visibility()
"""Nothing is hidden."""


class AccessPolicy(Protocol):
    """Who may do what on one graph; safe to ask from many threads."""

    @property
    def names_queries(self) -> bool:
        """Some rule is about single stored queries: a list has those that the actor may call."""

    def bind(self, catalog: Catalog) -> None:
        """Check the policy against the schema of the graph that it is to guard.

        Called when the graph is opened, before anything is answered, and within every migration
        with the schema that is about to be accepted: what refuses it refuses the migration.

        Raises:
            PolicyInvalid: it names what the schema does not have.
        """

    def authorize(
        self,
        actor: str | None,
        action: Action,
        branch: str | None = None,
        target_branch: str | None = None,
        query_name: str | None = None,
    ) -> Decision:
        """Whether the actor may do this.

        Args:
            actor: who asks; without one nothing is allowed.
            action: what is to be done.
            branch: what is read or written, if it is a branch.
            target_branch: what the operation creates, changes or removes.
            query_name: the stored query that is to be called.

        Raises:
            PolicyEvaluationError: there is no answer; nothing may be done.
        """

    def visibility(self, actor: str | None) -> Visibility:
        """What the actor sees."""
