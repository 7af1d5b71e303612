"""What a mutation did, as callers see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph.graph.history.commit_graph import Commit


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationResult:
    """The receipt of a mutation; without a commit nothing changed."""

    branch: str
    query_name: str
    affected_nodes: int
    affected_edges: int
    actor_id: str | None
    commit: Commit | None
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; warnings are left out where there are none."""
        out: dict[str, Any] = {
            "branch": self.branch,
            "query_name": self.query_name,
            "affected_nodes": self.affected_nodes,
            "affected_edges": self.affected_edges,
            "actor_id": self.actor_id,
            "commit": None if self.commit is None else self.commit.to_dict(),
        }
        return out | ({"warnings": list(self.warnings)} if self.warnings else {})
