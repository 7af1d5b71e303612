"""The difference of two states as callers get it: read as they go through it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omnigraph.graph.changes.diff import Difference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.changes.entity_change import ChangeFilter, EntityChange
    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.storage.table_storage import TableStorage


@dataclass(frozen=True, kw_only=True)
class ChangeSet:
    """What differs between two states of a graph.

    Iterating reads the changes in portions; nothing is held. `stats` counts them without images.
    """

    from_commit_id: str
    to_commit_id: str
    _difference: Difference

    def __iter__(self) -> Iterator[EntityChange]:
        return self._difference.changes()

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


def compare(store: TableStorage, old: Snapshot, new: Snapshot, wanted: ChangeFilter) -> ChangeSet:
    """What differs between two states.

    Raises:
        InvalidArgument: no state has a type of the filter.
        ChangeSchemaBoundary: the schemas differ in what a comparison needs.
    """
    return ChangeSet(
        from_commit_id=old.graph_commit_id,
        to_commit_id=new.graph_commit_id,
        _difference=Difference(store, old, new, wanted),
    )
