"""An update that tasks wrote, and the same update of a newer version of its table.

New forms of rows, and new rows, depend on no version. What does is which rows of a fragment are
marked as deleted: where others marked rows of the same fragment meanwhile, the marks are made
again, on top of theirs. A fragment that was rewritten has its rows elsewhere, and nothing helps but
to write anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from omnigraph.pipeline.upsert.tasks import read_addresses

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from omnigraph.pipeline.upsert.tasks import Offsets
    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.sizes import FragmentInfo
    from omnigraph.storage.staged_fragments import Pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenUpdate:
    """The pieces of an update of one version of a table."""

    pieces: Pieces
    fragments: Mapping[int, FragmentInfo] = field(default_factory=dict)
    """Those of the version, by number; at least the ones that rows are replaced in."""
    replaced: Mapping[int, Sequence[Offsets]] = field(default_factory=dict)
    """By fragment of the version, which of its rows have a new form."""

    def moved_to(self, storage: GraphStorage, newer: TableHandle) -> WrittenUpdate | None:
        """The update of a newer version, in which none of its rows is another.

        Returns:
            `None` when a fragment in which rows are replaced was rewritten or is gone.
        """
        now = {each.fragment_id: each for each in storage.tables.fragments(newer)}
        for number in self.replaced:
            if number not in now or now[number].files != self.fragments[number].files:
                return None
        touched = [each for each in self.replaced if now[each] != self.fragments[each]]
        pieces = self.pieces
        if touched:
            addresses = [
                address
                for number in touched
                for offsets in self.replaced[number]
                for address in read_addresses(storage, number, offsets).tolist()
            ]
            again = storage.tables.delete_addresses(newer, addresses)
            pieces = _with_marks(pieces, touched, again)
        return replace(self, pieces=pieces, fragments=now)


def _with_marks(pieces: Pieces, touched: Collection[int], again: Pieces) -> Pieces:
    """The pieces with other marks of deleted rows in some fragments."""
    return replace(
        pieces,
        updated=(*(each for each in pieces.updated if each.id not in touched), *again.updated),
        emptied=(*(each for each in pieces.emptied if each not in touched), *again.emptied),
    )
