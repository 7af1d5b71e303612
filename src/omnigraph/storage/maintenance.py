"""Staged writes that change no row: indexes, and Lance's own settings.

Like every staged write they move no head. Compaction is in `compaction`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceOperation

from omnigraph.storage import indexes, lance_writes
from omnigraph.storage.indexes import IndexKind, IndexSpec
from omnigraph.storage.layout import column_of
from omnigraph.storage.signals import ObjectMissing
from omnigraph.storage.transactions import live_rows, nothing, staged

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from lance.dataset import Index
    from lance.fragment import LanceFragment

    from omnigraph.storage.handles import StagedWrite, TableHandle, WriteStamp
    from omnigraph.storage.table_versions import Lines
    from omnigraph.storage.transactions import Writing

MAX_SEGMENTS = 8
"""An index with more segments is built anew: every lookup asks all of them."""

ROWS_PER_PARTITION = 4096
MAX_PARTITIONS = 4096
_VERSIONS = ("_row_created_at_version", "_row_last_updated_at_version")


class IndexAction(StrEnum):
    """What an index needs."""

    NONE = "none"
    """It is there and covers every row."""

    REGISTER = "register"
    """It is made known without covering anything."""

    EXTEND = "extend"
    """A segment over the fragments that are not covered yet."""

    BUILD = "build"
    """One segment over everything, which replaces all others."""

    PENDING = "pending"
    """It cannot be built yet: there is nothing to build it of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexWork:
    """What has to be done for one index."""

    spec: IndexSpec
    action: IndexAction
    fragments: frozenset[int] = frozenset()
    partitions: int = 0
    """Of a vector index."""


def plan_indexes(
    writing: Writing, lines: Lines, handle: TableHandle, specs: Iterable[IndexSpec]
) -> list[IndexWork]:
    """What each index needs at this version; reads, and writes nothing."""
    with writing.calls.making("plan_indexes", handle.layout.table_key):
        live = frozenset(indexes.fragment_ids(handle.dataset))
    return [_plan(writing, lines, handle, spec, live) for spec in specs]


def _plan(
    writing: Writing, lines: Lines, handle: TableHandle, spec: IndexSpec, live: frozenset[int]
) -> IndexWork:
    with writing.calls.making("plan_indexes", handle.layout.table_key):
        name = indexes.index_name(handle.layout, spec)
        segments = indexes.segments_of(handle.dataset, name)
    covered = {fragment_id for segment in segments for fragment_id in segment.fragment_ids} & live
    uncovered = live - covered
    if segments and (not spec.is_trained or not uncovered):
        return IndexWork(spec=spec, action=IndexAction.NONE)
    work = _plan_whole(writing, handle, spec, live)
    if (
        work.action is IndexAction.BUILD
        and spec.kind is not IndexKind.IVF_FLAT
        and covered
        and len(segments) < MAX_SEGMENTS
        and _only_added(writing, lines, handle, uncovered)
    ):
        return replace(work, action=IndexAction.EXTEND, fragments=uncovered)
    return work


def plan_whole(
    writing: Writing, handle: TableHandle, specs: Iterable[IndexSpec]
) -> list[IndexWork]:
    """What it takes to build each index anew, over everything."""
    with writing.calls.making("plan_indexes", handle.layout.table_key):
        live = frozenset(indexes.fragment_ids(handle.dataset))
    return [_plan_whole(writing, handle, spec, live) for spec in specs]


def _plan_whole(
    writing: Writing, handle: TableHandle, spec: IndexSpec, live: frozenset[int]
) -> IndexWork:
    if not spec.is_trained or (not live and spec.kind is IndexKind.INVERTED):
        return IndexWork(spec=spec, action=IndexAction.REGISTER)
    if not live:
        return IndexWork(spec=spec, action=IndexAction.PENDING)
    if spec.kind is IndexKind.IVF_FLAT:
        return _plan_vectors(writing, handle, spec, live)
    return IndexWork(spec=spec, action=IndexAction.BUILD, fragments=live)


def _plan_vectors(
    writing: Writing, handle: TableHandle, spec: IndexSpec, live: frozenset[int]
) -> IndexWork:
    """One segment over everything: two that were trained apart cannot be compacted."""
    usable = _usable_vectors(writing, handle, spec)
    if not usable:
        return IndexWork(spec=spec, action=IndexAction.PENDING)
    wanted = live_rows(writing, handle) // ROWS_PER_PARTITION
    return IndexWork(
        spec=spec,
        action=IndexAction.BUILD,
        fragments=live,
        partitions=max(1, min(wanted, MAX_PARTITIONS, usable)),
    )


def _usable_vectors(writing: Writing, handle: TableHandle, spec: IndexSpec) -> int:
    """How many vectors are neither null nor zero: training needs one for each partition."""
    with writing.calls.making("scan", handle.layout.table_key):
        return sum(_usable_by_batch(handle, spec))


def _usable_by_batch(handle: TableHandle, spec: IndexSpec) -> Iterator[int]:
    column = column_of(handle.layout, spec.property_name)
    for batch in handle.dataset.to_batches(columns=[column]):
        vectors = batch.column(column).drop_null()
        if isinstance(vectors, pa.FixedSizeListArray) and len(vectors):
            values = vectors.flatten().to_numpy(zero_copy_only=False)
            yield int(np.any(values.reshape(len(vectors), -1) != 0, axis=1).sum())


def is_buildable(writing: Writing, handle: TableHandle, spec: IndexSpec) -> bool:
    """Whether there is something to build an index of; reads up to the first usable vector."""
    with writing.calls.making("scan", handle.layout.table_key):
        if spec.kind is IndexKind.IVF_FLAT:
            return any(_usable_by_batch(handle, spec))
        return bool(indexes.fragment_ids(handle.dataset))


def _only_added(
    writing: Writing, lines: Lines, handle: TableHandle, fragments: Iterable[int]
) -> bool:
    """Every row of the fragments was written once, and the fragment with it.

    A second segment over a row that an older segment knows, because it was updated or moved, would
    revive its old words or return it twice.
    """
    for number in fragments:
        with writing.calls.making("scan", handle.layout.table_key):
            fragment = handle.dataset.get_fragment(number)
            rows = handle.dataset.scanner(
                columns=list(_VERSIONS), fragments=[] if fragment is None else [fragment]
            ).to_table()
        created, updated = rows[_VERSIONS[0]], rows[_VERSIONS[1]]
        if fragment is None or created != updated or len(pc.unique(created)) != 1:
            return False
        if not _was_there(writing, lines, handle, fragment, int(created[0].as_py() or 0)):
            return False
    return True


def _was_there(
    writing: Writing, lines: Lines, handle: TableHandle, fragment: LanceFragment, version: int
) -> bool:
    try:
        then = lines.open_ancestor(handle, version)
        with writing.calls.making("fragments", handle.layout.table_key):
            earlier = then.dataset.get_fragment(fragment.fragment_id)
    except ObjectMissing:
        return False
    return earlier is not None and _files(earlier) == _files(fragment)


def _files(fragment: LanceFragment) -> list[str]:
    return [file.path for file in fragment.metadata.files]


def stage_index(
    writing: Writing,
    lines: Lines,
    handle: TableHandle,
    specs: Sequence[IndexSpec],
    stamp: WriteStamp,
    *,
    unwanted: Collection[str] = (),
) -> StagedWrite:
    """Brings these indexes up to date, and removes those of these names, in one transaction."""

    def rebase(newer: TableHandle) -> StagedWrite:
        return stage_index(writing, lines, newer, specs, stamp, unwanted=unwanted)

    idle = (IndexAction.NONE, IndexAction.PENDING)
    works = [
        work for work in plan_indexes(writing, lines, handle, specs) if work.action not in idle
    ]
    with writing.calls.making("index_coverage", handle.layout.table_key):
        gone = indexes.removed_by(handle.dataset, sorted(unwanted))
    if not works and not gone:
        return nothing(writing, handle, rebase)
    new = build(writing, handle, works)
    with writing.calls.making("index_coverage", handle.layout.table_key):
        replaced = [
            indexes.index_name(handle.layout, work.spec)
            for work in works
            if work.action is IndexAction.BUILD
        ]
        old = indexes.removed_by(handle.dataset, replaced)
    operation = LanceOperation.CreateIndex(new, [*old, *gone])
    return staged(writing, handle, operation, stamp, rebase=rebase)


def build(writing: Writing, handle: TableHandle, works: Iterable[IndexWork]) -> list[Index]:
    """The segments of this work: files that nothing names yet."""
    with writing.calls.making("build_index", handle.layout.table_key):
        return [
            indexes.build_segment(
                handle.dataset, handle.layout, _spec(work), work.fragments, _options(work)
            )
            for work in works
        ]


def _spec(work: IndexWork) -> IndexSpec:
    if work.action is not IndexAction.REGISTER:
        return work.spec
    return IndexSpec(property_name=work.spec.property_name, kind=work.spec.kind, is_trained=False)


# Any: what Lance takes for the kind of index.
def _options(work: IndexWork) -> Mapping[str, Any]:
    if work.spec.kind is IndexKind.IVF_FLAT:
        return {"metric": "cosine", "num_partitions": work.partitions}
    return {}


def stage_without_cleanup(writing: Writing, handle: TableHandle, stamp: WriteStamp) -> StagedWrite:
    """Removes the settings by which Lance would delete versions that the graph still names."""

    def rebase(newer: TableHandle) -> StagedWrite:
        return stage_without_cleanup(writing, newer, stamp)

    with writing.calls.making("read_config", handle.layout.table_key):
        operation = lance_writes.without_cleanup(handle.dataset)
    if operation is None:
        return nothing(writing, handle, rebase)
    return staged(writing, handle, operation, stamp, rebase=rebase)
