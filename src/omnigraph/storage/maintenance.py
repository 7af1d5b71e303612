"""Staged writes that change no row: indexes, and Lance's own settings.

Like every staged write they move no head. Compaction is in `compaction`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceOperation
from lance.dataset import Index

from omnigraph.storage import indexes, lance_writes, sizes
from omnigraph.storage.indexes import IndexKind, IndexSpec
from omnigraph.storage.layout import column_of
from omnigraph.storage.shared_work import (
    MOST_PARTS,
    Asked,
    MergeTask,
    SegmentTask,
    TrainingTask,
    finish,
    outcomes_of,
)
from omnigraph.storage.signals import ObjectMissing
from omnigraph.storage.transactions import live_rows, nothing, staged

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from lance.fragment import LanceFragment

    from omnigraph.storage.handles import StagedWrite, TableHandle, WriteStamp
    from omnigraph.storage.indexes import Centroids
    from omnigraph.storage.shared_work import Spread, Steps
    from omnigraph.storage.table_versions import Lines
    from omnigraph.storage.transactions import Writing

MAX_SEGMENTS = 8
"""An index with more segments is built anew: every lookup asks all of them."""

NEW_SEGMENTS = MAX_SEGMENTS // 2
"""As many an index that is built anew may have; room is left for rows that are added later."""

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
    most_segments: int = 1
    """How many it may be committed as, where they are not merged."""


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
        room = min(work.most_segments, MAX_SEGMENTS - len(segments))
        return replace(work, action=IndexAction.EXTEND, fragments=uncovered, most_segments=room)
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
    return IndexWork(
        spec=spec, action=IndexAction.BUILD, fragments=live, most_segments=NEW_SEGMENTS
    )


def _plan_vectors(
    writing: Writing, handle: TableHandle, spec: IndexSpec, live: frozenset[int]
) -> IndexWork:
    """One segment over everything: two that were trained apart cannot be compacted."""
    rows = live_rows(writing, handle)
    wanted = max(1, min(rows // ROWS_PER_PARTITION, MAX_PARTITIONS))
    usable = _usable_vectors(writing, handle, spec, wanted)
    if not usable:
        return IndexWork(spec=spec, action=IndexAction.PENDING)
    return IndexWork(
        spec=spec, action=IndexAction.BUILD, fragments=live, partitions=min(wanted, usable)
    )


def _usable_vectors(writing: Writing, handle: TableHandle, spec: IndexSpec, enough: int) -> int:
    """How many vectors are neither null nor zero: training needs one for each partition.

    Once there are enough the others are not read.
    """
    usable = 0
    with writing.calls.making("scan", handle.layout.table_key):
        for count in _usable_by_batch(handle, spec):
            usable += count
            if usable >= enough:
                break
    return usable


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


def index_steps(
    writing: Writing,
    lines: Lines,
    handle: TableHandle,
    specs: Sequence[IndexSpec],
    stamp: WriteStamp,
    *,
    unwanted: Collection[str] = (),
    spread: Spread | None = None,
) -> Steps[StagedWrite]:
    """Brings these indexes up to date, and removes those of these names, in one transaction."""

    def rebase(newer: TableHandle) -> StagedWrite:
        again = index_steps(writing, lines, newer, specs, stamp, unwanted=unwanted)
        return finish(writing.calls, again)

    idle = (IndexAction.NONE, IndexAction.PENDING)
    works = [
        work for work in plan_indexes(writing, lines, handle, specs) if work.action not in idle
    ]
    with writing.calls.making("index_coverage", handle.layout.table_key):
        gone = indexes.removed_by(handle.dataset, sorted(unwanted))
    if not works and not gone:
        return nothing(writing, handle, rebase)
    new = yield from build_steps(writing, handle, works, spread)
    with writing.calls.making("index_coverage", handle.layout.table_key):
        replaced = [
            indexes.index_name(handle.layout, work.spec)
            for work in works
            if work.action is IndexAction.BUILD
        ]
        old = indexes.removed_by(handle.dataset, replaced)
    operation = LanceOperation.CreateIndex(new, [*old, *gone])
    return staged(writing, handle, operation, stamp, rebase=rebase)


def build_steps(
    writing: Writing, handle: TableHandle, works: Sequence[IndexWork], spread: Spread | None
) -> Steps[list[Index]]:
    """The segments of this work: files that nothing names yet.

    Spread over tasks, parts of text and vector indexes become one segment; those of vectors share
    the centroids, which are trained once. Other indexes are committed in their parts.
    """
    parts = [_parts(writing, handle, work, spread) for work in works]
    centroids = yield from _trained(handle, works, parts)
    tasks = [
        (at, replace(part, centroids=centroids.get(at)))
        for at, its_parts in enumerate(parts)
        for part in its_parts
    ]
    if not tasks:
        return []
    made = yield Asked(handle=handle, tasks=tuple(task for _, task in tasks))
    built: list[list[Index]] = [[] for _ in works]
    for (at, _), segment in zip(tasks, outcomes_of(made, Index), strict=True):
        built[at].append(segment)
    unmerged = [at for at, its_parts in enumerate(parts) if its_parts[0].is_part]
    if unmerged:
        merges = tuple(MergeTask(segments=tuple(built[at])) for at in unmerged)
        merged = outcomes_of((yield Asked(handle=handle, tasks=merges)), Index)
        for at, segment in zip(unmerged, merged, strict=True):
            built[at] = [segment]
    return [segment for segments in built for segment in segments]


def _trained(
    handle: TableHandle, works: Sequence[IndexWork], parts: Sequence[Sequence[SegmentTask]]
) -> Steps[dict[int, Centroids]]:
    """The centroids of vector indexes that are built in parts, by the place of their work."""
    untrained = [
        at
        for at, work in enumerate(works)
        if work.spec.kind is IndexKind.IVF_FLAT and parts[at][0].is_part
    ]
    if not untrained:
        return {}
    tasks = tuple(
        TrainingTask(spec=works[at].spec, partitions=works[at].partitions) for at in untrained
    )
    trained = outcomes_of((yield Asked(handle=handle, tasks=tasks)), pa.FixedSizeListArray)
    return dict(zip(untrained, trained, strict=True))


def _parts(
    writing: Writing, handle: TableHandle, work: IndexWork, spread: Spread | None
) -> list[SegmentTask]:
    """The segments that one index is built as, before any of them are merged."""
    spec = work.spec
    if work.action is IndexAction.REGISTER:
        spec = IndexSpec(property_name=spec.property_name, kind=spec.kind, is_trained=False)
    is_merged = spec.kind in (IndexKind.INVERTED, IndexKind.IVF_FLAT)
    groups = [tuple(sorted(work.fragments))]
    if spread is not None and spec.is_trained:
        most = MOST_PARTS if is_merged else work.most_segments
        infos = sizes.fragments(writing.calls, handle)
        groups = spread.groups([each for each in infos if each.fragment_id in work.fragments], most)
    return [
        SegmentTask(
            spec=spec,
            fragments=group,
            partitions=work.partitions,
            is_part=is_merged and len(groups) > 1,
        )
        for group in groups
    ]


def stage_without_cleanup(writing: Writing, handle: TableHandle, stamp: WriteStamp) -> StagedWrite:
    """Removes the settings by which Lance would delete versions that the graph still names."""

    def rebase(newer: TableHandle) -> StagedWrite:
        return stage_without_cleanup(writing, newer, stamp)

    with writing.calls.making("read_config", handle.layout.table_key):
        operation = lance_writes.without_cleanup(handle.dataset)
    if operation is None:
        return nothing(writing, handle, rebase)
    return staged(writing, handle, operation, stamp, rebase=rebase)
