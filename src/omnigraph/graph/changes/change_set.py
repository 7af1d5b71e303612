"""The difference of two states as callers get it: read as they go through it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omnigraph.graph.changes.change_pages import DEFAULT_PAGE, DiffPage
from omnigraph.graph.changes.commit_changes import PageRoom, require_page_size
from omnigraph.graph.changes.diff import Difference, place_of
from omnigraph.graph.changes.tokens import (
    ChangeToken,
    TokenKind,
    filter_digest,
    read_token,
    rejected,
    write_token,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.changes.diff import ChangePlace
    from omnigraph.graph.changes.entity_change import ChangeFilter, EntityChange
    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.ids import GraphId


@dataclass(frozen=True, kw_only=True)
class ChangeSet:
    """What differs between two states of a graph.

    Iterating reads the changes in portions; nothing is held. `stats` counts them without images.
    """

    from_commit_id: str
    to_commit_id: str
    _difference: Difference
    _graph_id: GraphId
    _wanted: ChangeFilter

    def __iter__(self) -> Iterator[EntityChange]:
        return self._difference.changes()

    def page(self, *, limit: int = DEFAULT_PAGE, page_token: str | None = None) -> DiffPage:
        """Some of the changes, and the token of the page behind them.

        Raises:
            ChangeCursorRejected: the token is not one of these states and this filter.
            InvalidArgument, ResourceLimit: a bad limit.
        """
        require_page_size(limit)
        room = PageRoom(limit)
        begun = None if page_token is None else self._place(page_token)
        changes = tuple(room.take(self._difference.changes(begun)))
        return DiffPage(
            from_commit_id=self.from_commit_id,
            to_commit_id=self.to_commit_id,
            changes=changes,
            next_page_token=self._token(place_of(changes[-1])) if room.has_more else None,
        )

    def _token(self, place: ChangePlace) -> str:
        token = ChangeToken(
            kind=TokenKind.DIFF_PAGE,
            branch_id="",
            commit_id=self.from_commit_id,
            filter_digest=filter_digest(self._wanted),
            place=place,
            cut=self.to_commit_id,
        )
        return write_token(self._graph_id, token)

    def _place(self, text: str) -> ChangePlace | None:
        token = read_token(self._graph_id, text, TokenKind.DIFF_PAGE, self._wanted)
        if (token.commit_id, token.cut) != (self.from_commit_id, self.to_commit_id):
            raise rejected("it belongs to other states; name them by the commits of the first page")
        return token.place

    @cached_property
    def changes(self) -> tuple[EntityChange, ...]:
        """All changes; holds them."""
        return tuple(self)

    @cached_property
    def stats(self) -> dict[str, dict[str, int]]:
        """How many entities were inserted, updated and deleted, by type as `node:Person`."""
        return self._difference.counts()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; holds all changes."""
        return {
            "from": self.from_commit_id,
            "to": self.to_commit_id,
            "changes": [change.to_dict() for change in self],
            "stats": self.stats,
        }


def compare(
    graph: GraphCoordinator, old: Snapshot, new: Snapshot, wanted: ChangeFilter
) -> ChangeSet:
    """What differs between two states.

    Raises:
        InvalidArgument: no state has a type of the filter.
        ChangeSchemaBoundary: the schemas differ in what a comparison needs.
    """
    return ChangeSet(
        from_commit_id=old.graph_commit_id,
        to_commit_id=new.graph_commit_id,
        _difference=Difference(graph.tables, old, new, wanted),
        _graph_id=graph.graph_id,
        _wanted=wanted,
    )
