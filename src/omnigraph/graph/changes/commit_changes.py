"""What one commit changed: the difference to its first parent, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from omnigraph.errors import CommitHasNoParent, InvalidArgument, ResourceLimit
from omnigraph.graph.changes.change_pages import Cause, CommitChanges
from omnigraph.graph.changes.diff import Difference, place_of
from omnigraph.graph.changes.tokens import (
    ChangeToken,
    TokenKind,
    filter_digest,
    read_token,
    rejected,
    write_token,
)
from omnigraph.graph.history.snapshot import open_snapshot
from omnigraph.ids import MAIN_BRANCH
from omnigraph.limits import MAX_CHANGES_PER_PAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.graph.changes.entity_change import ChangeFilter, EntityChange
    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator

_PAGE_BYTES: Final = 4 << 20
_ENCODER: Final = msgspec.json.Encoder()


def cause_of(commit: Commit) -> Cause:
    """A commit as the cause of changes."""
    return Cause(
        graph_commit_id=commit.graph_commit_id,
        authored_branch=commit.graph_branch,
        authored_at=commit.created_at,
        parent_commit_id=commit.parent_commit_id,
        merged_parent_commit_id=commit.merged_parent_commit_id,
        actor_id=commit.actor_id,
    )


def commit_changes(
    graph: GraphCoordinator,
    commit: Commit,
    wanted: ChangeFilter,
    *,
    limit: int,
    page_token: str | None,
) -> CommitChanges:
    """A page of what a commit changed.

    Raises:
        CommitHasNoParent: it is the first commit.
        ChangeCursorRejected: the token is not one of this commit and filter.
        ChangeSchemaBoundary: the commit changed the schema so that no comparison is possible.
        SnapshotReclaimed: cleanup removed the commit or its parent.
        InvalidArgument, ResourceLimit: a bad limit.
    """
    require_page_size(limit)
    if commit.parent_commit_id is None:
        raise CommitHasNoParent(
            f"commit {commit.graph_commit_id} is the first: there is nothing to compare it with",
            graph_commit_id=commit.graph_commit_id,
        )
    begun = None
    if page_token is not None:
        begun = read_token(graph.graph_id, page_token, TokenKind.COMMIT_PAGE, wanted)
        if begun.commit_id != commit.graph_commit_id:
            raise rejected("it belongs to another commit")
    new = open_snapshot(graph, commit.graph_commit_id, MAIN_BRANCH)
    old = open_snapshot(graph, commit.parent_commit_id, MAIN_BRANCH)
    difference = Difference(graph.tables, old, new, wanted)
    room = PageRoom(limit)
    page = list(room.take(difference.changes(begun.place if begun else None)))
    token = None
    if room.has_more:
        token = write_token(
            graph.graph_id,
            ChangeToken(
                kind=TokenKind.COMMIT_PAGE,
                branch_id=new.branch_id,
                commit_id=commit.graph_commit_id,
                filter_digest=filter_digest(wanted),
                place=place_of(page[-1]),
            ),
        )
    return CommitChanges(cause=cause_of(commit), changes=tuple(page), next_page_token=token)


class PageRoom:
    """What still fits into a page: up to a number of changes, and about 4 MiB.

    A change that is larger comes alone in its page.
    """

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._taken_bytes = 0
        self.has_more = False
        """Whether a change was left out."""

    @property
    def is_full(self) -> bool:
        """Whether no change fits any more."""
        return not self._left or self._taken_bytes > _PAGE_BYTES

    def take(self, changes: Iterable[EntityChange]) -> Iterator[EntityChange]:
        """The changes that fit."""
        for change in changes:
            size = len(_ENCODER.encode(change.to_dict()))
            does_fit = not self._taken_bytes or self._taken_bytes + size <= _PAGE_BYTES
            if not self._left or not does_fit:
                self.has_more = True
                return
            self._left -= 1
            self._taken_bytes += size
            yield change


def require_page_size(limit: int) -> None:
    """Refuse a page size that is none, or too large.

    Raises:
        InvalidArgument: it is no number from 1 on.
        ResourceLimit: it is above the largest page.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidArgument(
            f"limit must be a number of at least 1, not {limit!r}", argument="limit"
        )
    if limit > MAX_CHANGES_PER_PAGE:
        raise ResourceLimit(
            f"a page has at most {MAX_CHANGES_PER_PAGE:,} changes, not {limit:,}; read several",
            resource="commit_changes_page_changes",
            limit=MAX_CHANGES_PER_PAGE,
            actual=limit,
        )
