"""A tag, as callers see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A live tag, as callers see it."""

    name: str
    graph_commit_id: str
    graph_branch: str
    """The branch that holds the data of the commit."""

    graph_manifest_version: int
    """The number of the commit on that branch."""

    created_at: int
    actor_id: str | None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {name: getattr(self, name) for name in self.__slots__}
