"""What the audit log tells of one request: every question that was asked of a policy, with its end.

A question is noted when it is answered and told when the request is, because only then its status
and the commit that it made are known; and before a byte of the answer is sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from omnigraph.graph.access import Action
from omnigraph.policy.audit import AuditEvent

if TYPE_CHECKING:
    from omnigraph.errors import PolicyError
    from omnigraph.policy.audit import AuditLog

CHANGING: Final = frozenset(
    {
        Action.CHANGE,
        Action.SCHEMA_APPLY,
        Action.BRANCH_CREATE,
        Action.BRANCH_DELETE,
        Action.BRANCH_MERGE,
    }
)
"""What nobody may do while a strict audit log cannot be written."""

_LONGEST_NAME: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedQuestion:
    """One question, and its answer."""

    action: Action
    branch: str | None
    target_branch: str | None
    query: str | None
    allowed: bool
    rule: str | None


@dataclass(slots=True, kw_only=True)
class AuditTrail:
    """The questions of one request, in order."""

    questions: list[AuditedQuestion] = field(default_factory=list)
    commit: str | None = None
    """What the request made."""
    query: str | None = None
    """The query that the request runs, as far as it is known."""

    def runs(self, name: str | None) -> None:
        """The request runs the query of this name; what can be none is not kept."""
        if name is not None and name.isidentifier() and len(name) <= _LONGEST_NAME:
            self.query = name

    def refused(self, error: PolicyError) -> None:
        """The engine refused what the server had let through."""
        action = error.details.get("action")
        if action is None or any(not question.allowed for question in self.questions):
            return
        self.questions.append(
            AuditedQuestion(
                action=Action(str(action)),
                branch=_text(error.details.get("branch")),
                target_branch=_text(error.details.get("target_branch")),
                query=None,
                allowed=False,
                rule=None,
            )
        )

    def tell(
        self,
        log: AuditLog,
        *,
        request_id: str,
        graph_id: str | None,
        actor: str | None,
        status: int,
    ) -> None:
        """Write a line for each question that has none yet."""
        questions, self.questions = self.questions, []
        for question in questions:
            log.record(
                AuditEvent(
                    request_id=request_id,
                    graph=graph_id,
                    actor=actor,
                    action=question.action,
                    branch=question.branch,
                    target_branch=question.target_branch,
                    allowed=question.allowed,
                    rule=question.rule,
                    query=question.query or self.query,
                    commit=self.commit,
                    status=status,
                )
            )


def _text(value: object) -> str | None:
    return None if value is None else str(value)
