"""Merge mode: staged rows that take the place of committed ones, in one process or on executors.

Both ways give the same rows, row ids of changed rows and counts. One process is cheaper, so it is
taken for what it can hold. When others were faster, one process upserts again; what executors wrote
is kept, unless others wrote a row of the same id.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ReadSetChanged
from omnigraph.graph.arrays import text_array
from omnigraph.graph.commit.protocol import Stale
from omnigraph.graph.load.equal_rows import (
    NOWHERE,
    ExistingRows,
    equal_to_stored,
    row_ids_by_id,
)
from omnigraph.pipeline.staging.detached_views import holds_any
from omnigraph.settings import MergeStrategy
from omnigraph.storage.staged_fragments import PieceKind

if TYPE_CHECKING:
    from omnigraph.graph.arrays import Mask, Numbers
    from omnigraph.pipeline.staging.detached_views import StagedView
    from omnigraph.pipeline.upsert.distributed import DistributedUpsert
    from omnigraph.pipeline.upsert.written_update import WrittenUpdate
    from omnigraph.settings import PipelineSettings
    from omnigraph.storage.handles import StagedWrite, TableHandle, WriteStamp
    from omnigraph.storage.staged_fragments import Pieces
    from omnigraph.storage.table_store import TableStorage

_SAMPLED_IDS: Final = 1_000
_OFFSET_BYTES: Final = 4


@dataclass(kw_only=True)
class Upserts:
    """The upserts of one job."""

    store: TableStorage
    settings: PipelineSettings
    distributed: DistributedUpsert | None
    """`None` without Spark: one process does it all."""
    written: list[str] = field(default_factory=list)
    """Every file below the root that was made, also by a stage of an upsert that then failed."""
    _chosen: set[MergeStrategy] = field(default_factory=set)

    @property
    def strategy(self) -> MergeStrategy:
        """Where keys were compared: on executors if they were for any table."""
        is_distributed = MergeStrategy.DISTRIBUTED in self._chosen
        return MergeStrategy.DISTRIBUTED if is_distributed else MergeStrategy.DRIVER

    def stage(self, view: StagedView, stamp: WriteStamp) -> StagedWrite:
        """The rows of a view upserted into its base; their ids are unique."""
        if self.choose(view) is MergeStrategy.DRIVER or self.distributed is None:
            source, equal = view.handle or view.base, unchanged_in(self.store, view)
            staged = self.store.stage_merge_staged(
                view.base, source, view.fragments, stamp, equal if equal.any() else None
            )
            self.written += staged.files
            return replace(staged, rows_unchanged=int(equal.sum()))

        def wrote(made: Pieces) -> None:
            self.written += self.store.piece_files(view.base, made)

        update = self.distributed.write(view, wrote)
        staged = self._staged(view, update, view.base, update.pieces, stamp)
        return replace(staged, rows_unchanged=update.unchanged)

    def _staged(
        self,
        view: StagedView,
        update: WrittenUpdate,
        base: TableHandle,
        pieces: Pieces,
        stamp: WriteStamp,
    ) -> StagedWrite:
        """The update on the base of the view, or its pieces on a newer version."""
        staged = self.store.stage_pieces(base, PieceKind.UPDATE, pieces, stamp)

        def rebase(newer: TableHandle) -> StagedWrite:
            moved = self._moved(view, update, newer)
            self.written += self.store.piece_files(newer, moved)
            return self._staged(view, update, newer, moved, stamp)

        # It looks through the ids of all staged rows, and marks replaced ones again.
        rows = staged.rows_added + staged.rows_changed
        return replace(staged, rebase=rebase, restaged_rows=rows)

    def _moved(self, view: StagedView, update: WrittenUpdate, newer: TableHandle) -> Pieces:
        """The update of a newer version, without another stage on Spark.

        Raises:
            Stale: others wrote or removed a row of the same id.
        """
        base = view.base
        changes = self.store.changed_since(newer, base)
        touched = pa.chunked_array([changes.changed, changes.removed])
        moved: Pieces | None = None
        if self.distributed is not None and not (
            len(touched) and holds_any(self.store, view, "id", touched)
        ):
            moved = update.moved_to(self.distributed.storage, base, newer)
        if moved is None:
            raise Stale(_overtaken(base, newer))
        return moved

    def choose(self, view: StagedView) -> MergeStrategy:
        """How a view is upserted, by the settings and by what one process would have to hold."""
        chosen = MergeStrategy.DRIVER if self.distributed is None else self.settings.merge
        if chosen is MergeStrategy.AUTO:
            fits = driver_bytes(self.store, view) < self.settings.merge_driver_bytes
            chosen = MergeStrategy.DRIVER if fits else MergeStrategy.DISTRIBUTED
        self._chosen.add(chosen)
        return chosen


def unchanged_in(store: TableStorage, view: StagedView) -> Mask:
    """Which rows of a view are in its base as they are, in the order of its fragments."""
    return equal_in(store, view, _row_ids(store, view))


def existing_in(store: TableStorage, view: StagedView) -> ExistingRows:
    """How many rows of a view have the id of a row of its base."""
    row_ids = _row_ids(store, view)
    equal = int(equal_in(store, view, row_ids).sum())
    return ExistingRows(changed=int((row_ids != NOWHERE).sum()) - equal, unchanged=equal)


def equal_in(store: TableStorage, view: StagedView, row_ids: Numbers) -> Mask:
    """Which rows of a view are as the rows of its base with these row ids."""
    if view.handle is None:
        return np.zeros(0, np.bool_)
    if view.base.layout.blobs:
        rows = store.read_staged(view.handle, view.fragments)
        return equal_to_stored(store, view.base, rows, row_ids)
    reader = store.scan(view.handle, fragments=view.fragments)
    return equal_to_stored(store, view.base, reader, row_ids)


def _row_ids(store: TableStorage, view: StagedView) -> Numbers:
    if view.handle is None:
        return np.zeros(0, np.int64)
    reader = store.scan(view.handle, columns=["id"], fragments=view.fragments)
    return row_ids_by_id(store, view.base, text_array(reader.read_all()["id"]))


def driver_bytes(store: TableStorage, view: StagedView) -> int:
    """The estimate of what one process holds: the staged rows, and the ids of the table."""
    if view.handle is None:
        return 0
    rows = sum(each.rows for each in store.fragments(view.base))
    ids = store.scan(view.base, columns=["id"], limit=_SAMPLED_IDS).read_all()["id"]
    length = pc.mean(pc.binary_length(ids)).as_py() or 0
    staged = store.staged_bytes(view.handle, view.fragments)
    return staged + int(rows * (length + _OFFSET_BYTES))


def _overtaken(base: TableHandle, newer: TableHandle) -> ReadSetChanged:
    return ReadSetChanged(
        f"{base.layout.table_key} changed while rows were merged into it; load again",
        member=base.layout.table_key,
        expected=str(base.pin.version),
        actual=str(newer.pin.version),
    )
