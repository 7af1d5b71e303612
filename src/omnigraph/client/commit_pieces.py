"""A page of commits of any size, asked for in pieces of what one request is worth; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypedDict

from omnigraph.graph.history.commit import CommitPage

if TYPE_CHECKING:
    from omnigraph.graph.history.commit import Commit

PIECE: Final = 1_000
"""How many commits one request asks for."""


class PiecePlace(TypedDict):
    """Where a piece begins and how large it is, as a list of commits takes it."""

    limit: int
    cursor: str | None


class CommitPieces:
    """Puts the pieces of a page together, and says what to ask for next."""

    def __init__(self, limit: int, cursor: str | None) -> None:
        self.asking: PiecePlace | None = {"limit": min(limit, PIECE), "cursor": cursor}
        """The next piece; `None` once the page is whole."""
        self.page = CommitPage(commits=(), next_cursor=cursor)
        """What came so far."""
        self._limit = limit

    def take(self, piece: CommitPage) -> None:
        """A piece came."""
        commits: tuple[Commit, ...] = (*self.page.commits, *piece.commits)
        self.page = CommitPage(commits=commits, next_cursor=piece.next_cursor)
        missing = self._limit - len(commits)
        is_whole = piece.next_cursor is None or missing <= 0 or not piece.commits
        place: PiecePlace = {"limit": min(missing, PIECE), "cursor": piece.next_cursor}
        self.asking = None if is_whole else place
