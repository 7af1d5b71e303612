"""Whole commits out of the pages of a feed, which may cut one in two."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from omnigraph.graph.changes.change_pages import FollowedBlock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.changes.change_pages import ChangePage
    from omnigraph.graph.changes.entity_change import EntityChange


class PagePlace(TypedDict, total=False):
    """Where a page of a feed begins, as a poll takes it."""

    cursor: str | None
    start: str | None
    page_token: str | None


class FollowedPages:
    """Puts the parts of a commit together, and says where to ask next; holds one commit."""

    def __init__(self, cursor: str | None, start: str | None) -> None:
        self.asking: PagePlace | None = {"cursor": cursor, "start": start}
        """Where the next page begins; `None` once everything is told."""
        self._begun: list[EntityChange] = []

    def blocks(self, page: ChangePage) -> Iterator[FollowedBlock]:
        """The commits that a page ends."""
        for block in page.blocks:
            self._begun += block.changes
            if block.cursor is not None:
                changes, self._begun = tuple(self._begun), []
                yield FollowedBlock(cause=block.cause, changes=changes, cursor=block.cursor)
        if page.next_page_token is not None:
            self.asking = {"page_token": page.next_page_token}
        else:
            self.asking = None if page.caught_up else {"cursor": page.cursor}
