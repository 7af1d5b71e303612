"""How a merge ended, as callers see it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph.graph.history.commit import Commit


class Outcome(StrEnum):
    """How a merge went."""

    ALREADY_UP_TO_DATE = "already_up_to_date"
    FAST_FORWARD = "fast_forward"
    MERGED = "merged"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """How a merge ended."""

    source: str
    target: str
    outcome: Outcome
    commit: Commit | None
    actor_id: str | None = None
    branch_deleted: bool | None = None
    """Whether the source is deleted; `None` if that was not asked for."""
    branch_delete_error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        body: dict[str, Any] = {
            "source": self.source,
            "target": self.target,
            "outcome": self.outcome.value,
            "actor_id": self.actor_id,
            "commit": None if self.commit is None else self.commit.to_dict(),
        }
        if self.branch_deleted is not None:
            body["branch_deleted"] = self.branch_deleted
        if self.branch_delete_error is not None:
            body["branch_delete_error"] = self.branch_delete_error
        return body
