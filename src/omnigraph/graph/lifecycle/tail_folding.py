"""Keeps the tails of tables short, as part of the writes that make them long.

Every small write adds a fragment, and every read opens all of them. Fragments are folded in tiers:
when a tier is full, it and all smaller ones are joined into a fragment of the next, so that a table
has a number of fragments that grows with the logarithm of its commits, and a row is written again a
handful of times. A fold is one more link of the write that finds a full tier. It changes no row;
where it cannot be done the write goes on without it. What is too much to do while somebody waits is
left to `optimize`.
"""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, Final

from omnigraph.errors import OmnigraphError
from omnigraph.storage.compaction import CompactionChoice
from omnigraph.storage.handles import StagedWrite
from omnigraph.storage.signals import StorageSignal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from omnigraph.storage.handles import TableHandle, WriteStamp
    from omnigraph.storage.sizes import FragmentInfo
    from omnigraph.storage.table_store import TableStorage

log = logging.getLogger(__name__)

TIERS: Final = ((64, 6), (1_024, 4), (16_384, 4))
"""For each tier the rows below which a fragment belongs to it, and how many fill it."""

MOST_BYTES: Final = 16 << 20
"""What a fold may read and write while a caller waits."""

_ADDS_FRAGMENTS: Final = frozenset({"Append", "Update"})
_REMOVAL: Final = "Delete"


def fragments_to_fold(fragments: Sequence[FragmentInfo]) -> Collection[int]:
    """The fragments to join: all below the largest tier that is full; none if none is.

    Only neighbours can be joined, so each run of them between larger fragments is looked at alone.
    """
    bounds = itertools.pairwise(((0, 0), *TIERS))
    for (lower, _), (upper, width) in reversed(list(bounds)):
        chosen: list[int] = []
        left = MOST_BYTES
        for run in _runs_below(fragments, upper):
            size = sum(fragment.size_bytes for fragment in run)
            if sum(lower <= fragment.rows for fragment in run) >= width and size <= left:
                chosen += [fragment.fragment_id for fragment in run]
                left -= size
        if chosen:
            return chosen
    return ()


def _runs_below(fragments: Sequence[FragmentInfo], upper: int) -> Iterator[list[FragmentInfo]]:
    for is_below, run in itertools.groupby(fragments, lambda fragment: fragment.rows < upper):
        if is_below:
            yield list(run)


def is_small(staged: StagedWrite) -> bool:
    """Whether a write is one of those that come often: whoever brings more asks for indexes."""
    return staged.rows_added + staged.rows_changed < TIERS[-1][0]


def with_fold(tables: TableStorage, staged: StagedWrite, stamp: WriteStamp) -> StagedWrite:
    """A write of rows, with a link that folds the tail of its table if that is long."""
    if not _adds_fragments(staged):
        return staged
    try:
        is_due = bool(_chosen(tables, staged.base))
    except (OmnigraphError, StorageSignal) as error:
        _left(staged.base, error)
        return staged
    return tables.chain(staged, lambda handle: _folded(tables, handle, stamp)) if is_due else staged


def _adds_fragments(staged: StagedWrite) -> bool:
    """Whether a write brings rows; what follows a removal in one write always does."""
    first, *later = staged.links
    return first.operation in _ADDS_FRAGMENTS or (first.operation == _REMOVAL and bool(later))


def _chosen(tables: TableStorage, handle: TableHandle) -> frozenset[int]:
    """The fragments of a version to join; none if they hold too much.

    Blobs lie beside the files of their rows and are copied with them. A tail that is longer than
    folds ever leave one was left alone for them before: nobody measures it again.
    """
    chosen = frozenset(fragments_to_fold(tables.fragments(handle)))
    if not chosen or not handle.layout.blobs:
        return chosen
    is_long = len(chosen) > sum(width for _, width in TIERS)
    if is_long or tables.staged_bytes(handle, sorted(chosen)) > MOST_BYTES:
        return frozenset()
    return chosen


def _folded(tables: TableStorage, handle: TableHandle, stamp: WriteStamp) -> StagedWrite:
    """The tail in one fragment; nothing if it cannot be done, so that the write goes on."""
    try:
        chosen = _chosen(tables, handle)
        rows = sum(
            fragment.rows + fragment.deleted_rows
            for fragment in tables.fragments(handle)
            if fragment.fragment_id in chosen
        )
        choice = CompactionChoice(rows_per_fragment=rows + 1, fragments=chosen)
        return tables.stage_compaction(handle, stamp, choice)
    except (OmnigraphError, StorageSignal) as error:
        _left(handle, error)
        return StagedWrite(base=handle)


def _left(handle: TableHandle, error: Exception) -> None:
    log.info("tail not folded", extra={"table": handle.layout.table_key, "cause": str(error)})
