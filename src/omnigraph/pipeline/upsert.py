"""Merge mode: staged rows that take the place of committed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.pipeline.staged_views import StagedView
    from omnigraph.storage.handles import StagedWrite, WriteStamp
    from omnigraph.storage.tables import TableStorage


def stage_upsert(store: TableStorage, view: StagedView, stamp: WriteStamp) -> StagedWrite:
    """The staged rows upserted by one process, which holds all of them."""
    rows = store.read_staged(view.handle or view.base, view.fragments)
    return store.stage_merge_insert(view.base, rows, stamp)
