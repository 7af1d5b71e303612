"""A commit and a page of the history, as callers see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit of the graph, as callers see it."""

    graph_commit_id: str
    graph_branch: str
    graph_manifest_version: int
    parent_commit_id: str | None
    merged_parent_commit_id: str | None
    actor_id: str | None
    created_at: int
    """When it was sent, in microseconds since the epoch."""

    committed_at: int
    """When it became visible; later for every commit of a branch."""

    kind: str
    operation_id: str
    schema_hash: str
    stats: dict[str, Any]
    recovered: bool = False
    """A recovery published it for its writer."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPage:
    """Some commits, newest first, and where the next page begins."""

    commits: tuple[Commit, ...]
    next_cursor: str | None = None

    def __iter__(self) -> Iterator[Commit]:
        return iter(self.commits)

    def __len__(self) -> int:
        return len(self.commits)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        body: dict[str, Any] = {"commits": [commit.to_dict() for commit in self.commits]}
        return body | ({"next_cursor": self.next_cursor} if self.next_cursor else {})
