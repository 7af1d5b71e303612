"""Brings tables of a clone from one state of the source to another.

Rows are read and written as they are, a few at a time, with their ids, ends, vectors and blobs; an
external blob stays an address. They are not validated again: the source holds them to the same
schema. Only the ids of what differs between two states are held.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.graph.changes.row_places import changed_places
from omnigraph.graph.history.snapshot import reclaimed
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.storage.signals import ObjectMissing
from omnigraph.storage.staged_fragments import PieceKind
from omnigraph.storage.transactions import RowCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from omnigraph.graph.changes.row_places import RowPlaces
    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.lang import EdgeType, NodeType
    from omnigraph.storage.handles import StagedWrite, TableHandle
    from omnigraph.storage.table_storage import TableStorage


def types_of(state: Snapshot) -> list[NodeType | EdgeType]:
    """All types of a state, nodes before edges."""
    catalog = state.catalog
    return [*catalog.node_types.values(), *catalog.edge_types.values()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copying:
    """The way from one state of the source to another."""

    source: TableStorage
    before: Snapshot | None
    """What the clone has; `None` if it is empty."""
    after: Snapshot
    tell: Callable[[int], None]
    """Told how many rows were read, batch by batch."""

    def types(self) -> list[NodeType | EdgeType]:
        """The types whose tables have to be written, nodes before edges."""
        return [item for item in types_of(self.after) if self._differs(item)]

    def _differs(self, item: NodeType | EdgeType) -> bool:
        if self.before is None:
            return self.after.pin(item).row_count > 0
        return self.before.handle(item).pin != self.after.handle(item).pin

    def staged(self, txn: WriteTxn, item: NodeType | EdgeType) -> StagedWrite | None:
        """The table of a type as it is after, staged on the captured state; `None` if it is so.

        Raises:
            SnapshotReclaimed: cleanup removed a version of the source meanwhile.
        """
        try:
            return self._staged(txn, item)
        except ObjectMissing as error:
            raise reclaimed(self.after, item.name) from error

    def _staged(self, txn: WriteTxn, item: NodeType | EdgeType) -> StagedWrite | None:
        ref, after = ref_of(item), self.after.handle(item)
        if self.before is None or not self.before.pin(item).row_count:
            return self._written(txn, txn.writable(ref), PieceKind.APPEND, self._counted(after))
        places = changed_places(self.source, self.before.handle(item), after)
        if not len(places):
            return None
        if places.old.exists.sum() == self.before.pin(item).row_count:
            return self._written(txn, txn.writable(ref), PieceKind.OVERWRITE, self._counted(after))
        return self._replace(txn, txn.writable(ref), places, after)

    def _written(
        self, txn: WriteTxn, target: TableHandle, kind: PieceKind, rows: Iterator[pa.RecordBatch]
    ) -> StagedWrite:
        pieces = txn.store.write_pieces(target, rows)
        return txn.store.stage_pieces(target, kind, pieces, txn.stamp)

    def _replace(
        self, txn: WriteTxn, target: TableHandle, places: RowPlaces, after: TableHandle
    ) -> StagedWrite:
        """Rows that were go, rows that are come; the others stay as they lie."""
        was, stays = places.old.exists, places.new.exists
        row_ids = pa.array(places.new.row_ids[stays], pa.uint64())
        pieces = txn.store.write_pieces(target, self._counted(after, row_ids))

        def append(handle: TableHandle) -> StagedWrite:
            return txn.store.stage_pieces(handle, PieceKind.APPEND, pieces, txn.stamp)

        if not was.any():
            return append(target)
        gone = txn.store.stage_delete(target, places.ids.filter(pa.array(was)), txn.stamp)
        if not stays.any():
            return gone
        counts = RowCounts(
            added=int((stays & ~was).sum()),
            changed=int((stays & was).sum()),
            removed=int((was & ~stays).sum()),
        )
        return txn.store.chain(gone, append, counts=counts)

    def _counted(
        self, handle: TableHandle, row_ids: pa.Array[pa.UInt64Scalar] | None = None
    ) -> Iterator[pa.RecordBatch]:
        for batch in self.source.whole_rows(handle, row_ids):
            self.tell(batch.num_rows)
            yield batch
