"""Pages of changes, their causes and baselines, as callers see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.changes.entity_change import EntityChange

DEFAULT_PAGE: Final = 1_000
"""How many changes a page has at most, unless a caller says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The commit behind some changes."""

    graph_commit_id: str
    authored_branch: str
    authored_at: int
    """Microseconds since the epoch."""

    parent_commit_id: str | None = None
    merged_parent_commit_id: str | None = None
    actor_id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; what is not there is left out."""
        body = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in body.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitChanges:
    """A page of the changes of a commit."""

    cause: Cause
    changes: tuple[EntityChange, ...]
    next_page_token: str | None = None

    def __iter__(self) -> Iterator[EntityChange]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        body: dict[str, Any] = {
            "cause": self.cause.to_dict(),
            "changes": [change.to_dict() for change in self.changes],
        }
        return body | ({"next_page_token": self.next_page_token} if self.next_page_token else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffPage:
    """A page of what differs between two states."""

    from_commit_id: str
    to_commit_id: str
    changes: tuple[EntityChange, ...]
    next_page_token: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        body: dict[str, Any] = {
            "from": self.from_commit_id,
            "to": self.to_commit_id,
            "changes": [change.to_dict() for change in self.changes],
        }
        return body | ({"next_page_token": self.next_page_token} if self.next_page_token else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBlock:
    """Changes of one commit: all of them, or those that fit into a page."""

    cause: Cause
    changes: tuple[EntityChange, ...]
    cursor: str | None = None
    """Behind the commit, if this is the end of it."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "cause": self.cause.to_dict(),
            "changes": [change.to_dict() for change in self.changes],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePage:
    """A page of a poll. Exactly one of `next_page_token` and `cursor` is there."""

    blocks: tuple[ChangeBlock, ...]
    next_page_token: str | None = None
    """The poll goes on with this one; its last commit may be cut in two."""
    cursor: str | None = None
    """The poll is over; the next one starts here."""
    caught_up: bool | None = None
    """Whether the branch had no commit behind the cursor when the page was made."""

    def __iter__(self) -> Iterator[ChangeBlock]:
        return iter(self.blocks)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; what is not there is left out."""
        body: dict[str, Any] = {"blocks": [block.to_dict() for block in self.blocks]}
        for name in ("next_page_token", "cursor", "caught_up"):
            if getattr(self, name) is not None:
                body[name] = getattr(self, name)
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedBlock:
    """All changes of one commit, and the cursor behind it."""

    cause: Cause
    changes: tuple[EntityChange, ...]
    cursor: str

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "cause": self.cause.to_dict(),
            "changes": [change.to_dict() for change in self.changes],
            "cursor": self.cursor,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The commit that a baseline shows, and where its change feed goes on."""

    snapshot_commit_id: str
    resume_cursor: str

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {name: getattr(self, name) for name in self.__slots__}
