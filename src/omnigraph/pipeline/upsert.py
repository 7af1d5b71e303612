"""Merge mode: staged rows that take the place of committed ones, in one process or on executors.

Both ways give the same rows, row ids of changed rows and counts. One process is cheaper, so it is
taken for what it can hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc

from omnigraph.settings import MergeStrategy
from omnigraph.storage.pieces import PieceKind

if TYPE_CHECKING:
    from omnigraph.pipeline.distributed_upsert import DistributedUpsert
    from omnigraph.pipeline.staged_views import StagedView
    from omnigraph.settings import PipelineSettings
    from omnigraph.storage.handles import StagedWrite, WriteStamp
    from omnigraph.storage.pieces import Pieces
    from omnigraph.storage.tables import TableStorage

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
            source = view.handle or view.base
            staged = self.store.stage_merge_staged(view.base, source, view.fragments, stamp)
            self.written += staged.files
            return staged

        def wrote(made: Pieces) -> None:
            self.written += self.store.piece_files(view.base, made)

        pieces = self.distributed.write(self.store, view, wrote)
        return self.store.stage_pieces(view.base, PieceKind.UPDATE, pieces, stamp)

    def choose(self, view: StagedView) -> MergeStrategy:
        """How a view is upserted, by the settings and by what one process would have to hold."""
        chosen = MergeStrategy.DRIVER if self.distributed is None else self.settings.merge
        if chosen is MergeStrategy.AUTO:
            fits = driver_bytes(self.store, view) < self.settings.merge_driver_bytes
            chosen = MergeStrategy.DRIVER if fits else MergeStrategy.DISTRIBUTED
        self._chosen.add(chosen)
        return chosen


def driver_bytes(store: TableStorage, view: StagedView) -> int:
    """The estimate of what one process holds: the staged rows, and the ids of the table."""
    if view.handle is None:
        return 0
    rows = sum(each.rows for each in store.fragments(view.base))
    ids = store.scan(view.base, columns=["id"], limit=_SAMPLED_IDS).read_all()["id"]
    length = pc.mean(pc.binary_length(ids)).as_py() or 0
    staged = store.staged_bytes(view.handle, view.fragments)
    return staged + int(rows * (length + _OFFSET_BYTES))
