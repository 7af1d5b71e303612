"""Compaction: the same rows in fewer, larger fragments, staged like any other write.

Lance never joins fragments that an index covers with others that it does not, so a table that is
half indexed would stay half compacted. Where the caller names the indexes that the table is to
have, fragments are joined regardless: indexes in the way are dropped first, and all of them are
built over the joined fragments before anything is committed, on a view that nobody else sees. The
lease of a branch is then held for metadata alone. Without such names only fragments of equal
coverage are joined, and no index is built.

What was written stays good on a newer version as long as the fragments that were read are in it as
they were. Otherwise `FragmentsChanged` is told, and nothing happened.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from lance import LanceOperation, Transaction
from lance.optimize import RewriteResult

from omnigraph.errors import InternalError, StorageInternalError
from omnigraph.ids import new_link_uuid
from omnigraph.storage import indexes, lance_writes, sizes
from omnigraph.storage.files import written_files
from omnigraph.storage.handles import Link, Pin, StagedWrite, TableHandle
from omnigraph.storage.indexes import IndexKind
from omnigraph.storage.maintenance import IndexAction, build_steps, plan_whole
from omnigraph.storage.shared_work import Asked, RewriteTask, outcomes_of
from omnigraph.storage.signals import FragmentsChanged
from omnigraph.storage.staged_fragments import view_files
from omnigraph.storage.transactions import live_rows, nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from lance import LanceDataset
    from lance.dataset import Index
    from lance.fragment import FragmentMetadata

    from omnigraph.storage.handles import WriteStamp
    from omnigraph.storage.indexes import IndexSpec
    from omnigraph.storage.shared_work import Spread, Steps
    from omnigraph.storage.transactions import Writing

ROWS_PER_FRAGMENT: Final = 1024 * 1024

_DELETED_SHARE: Final = 0.1

_HEADROOM: Final = 4096
"""Numbers left free below joined fragments whose indexes are built already.

Such an index holds the numbers, and others may add fragments before it is committed.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionChoice:
    """What is to be joined, and what holds for the table afterwards."""

    rows_per_fragment: int = ROWS_PER_FRAGMENT
    fragments: frozenset[int] | None = None
    """Only these; all without it. Fragments that are not neighbours are not joined."""

    specs: tuple[IndexSpec, ...] | None = None
    """The indexes that cover every joined row afterwards; without them none is built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Fragments that become others."""

    old: tuple[FragmentMetadata, ...]
    new: tuple[FragmentMetadata, ...]

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(fragment.id for fragment in self.old)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Joined:
    """Files that were written once, and may be committed on any version that they fit."""

    groups: tuple[_Group, ...]
    read: dict[int, sizes.FragmentInfo]
    """The fragments that were read, as they were."""

    first_number: int | None
    """That of the first new fragment, if indexes hold it."""

    built: tuple[Index, ...] = ()
    replaced: frozenset[str] = frozenset()
    """The names of the indexes that are built."""
    unwanted: frozenset[str] = frozenset()
    """The names of indexes that go where they are in the way, and no others come for them.

    Nobody declares them any more, or there is nothing to build them from: no vector is left.
    """


def is_due(fragments: Sequence[sizes.FragmentInfo], rows_per_fragment: int) -> bool:
    """Whether neighbours are small enough to be joined, or a fragment lacks more than a tenth.

    This is how Lance chooses where no index keeps fragments apart.
    """
    is_small = [each.rows + each.deleted_rows < rows_per_fragment for each in fragments]
    return any(
        each.deleted_rows > _DELETED_SHARE * (each.rows + each.deleted_rows) for each in fragments
    ) or any(left and right for left, right in itertools.pairwise(is_small))


def compaction_steps(
    writing: Writing,
    handle: TableHandle,
    stamp: WriteStamp,
    choice: CompactionChoice,
    remove: Callable[[str], None],
    spread: Spread | None = None,
) -> Steps[StagedWrite]:
    """Fewer, larger fragments of the same rows, and what the choice says of indexes.

    Raises:
        StorageInternalError: a vector index has several segments and is not built anew.
    """
    views: list[TableHandle] = []
    try:
        joined = yield from _join(writing, handle, choice, views, spread)
    finally:
        for view in views:
            for path in view_files(writing, view):
                remove(path)
    if joined is None:
        return nothing(writing, handle, None)
    return _staged(writing, handle, stamp, joined)


def _join(
    writing: Writing,
    handle: TableHandle,
    choice: CompactionChoice,
    views: list[TableHandle],
    spread: Spread | None,
) -> Steps[_Joined | None]:
    """Write the joined fragments and their indexes; `views` gets what is to be removed then."""
    bare = handle
    if choice.specs is None:
        _require_one_vector_segment(writing, handle)
    else:
        bare = _without_indexes(writing, handle, views)
    groups = yield from _rewritten(writing, handle, bare, choice)
    if not groups:
        return None
    read = {info.fragment_id: info for info in sizes.fragments(writing.calls, handle)}
    numbers = {number for group in groups for number in group.numbers}
    joined = _Joined(
        groups=groups,
        read={number: read[number] for number in numbers},
        first_number=None,
    )
    if choice.specs is None:
        return joined
    with writing.calls.making("compact", handle.layout.table_key):
        first = indexes.unused_fragment_id(handle.dataset) + _HEADROOM
    joined = replace(joined, first_number=first)
    view = _view(writing, bare, _rewrite(joined, handle), views)
    return (yield from _indexed(writing, handle, view, joined, choice.specs, spread))


def _without_indexes(
    writing: Writing, handle: TableHandle, views: list[TableHandle]
) -> TableHandle:
    """The version as it would be without any index, so that nothing keeps fragments apart."""
    with writing.calls.making("compact", handle.layout.table_key):
        every = [
            segment
            for name in _names(handle.dataset)
            for segment in indexes.segments_of(handle.dataset, name)
        ]
    if not any(segment.fragment_ids for segment in every):
        return handle
    return _view(writing, handle, LanceOperation.CreateIndex([], every), views)


def _view(
    writing: Writing,
    base: TableHandle,
    operation: LanceOperation.BaseOperation,
    views: list[TableHandle],
) -> TableHandle:
    """What an operation would make of a version, as a version that belongs to no line."""
    transaction = Transaction(base.pin.version, operation, new_link_uuid(writing.ids))
    with writing.calls.making("open_staged", base.layout.table_key):
        dataset = lance_writes.commit_detached(base.dataset, transaction)
    pin = Pin(location=base.pin.location, branch=base.pin.branch, version=dataset.version)
    view = TableHandle(layout=base.layout, pin=pin, dataset=dataset)
    views.append(view)
    return view


def _rewritten(
    writing: Writing, handle: TableHandle, bare: TableHandle, choice: CompactionChoice
) -> Steps[tuple[_Group, ...]]:
    with writing.calls.making("compact", handle.layout.table_key):
        live = indexes.fragment_ids(handle.dataset)
        left = [] if choice.fragments is None else [*set(live) - choice.fragments]
        planned = lance_writes.plan_rewrites(
            bare.dataset,
            {
                "target_rows_per_fragment": choice.rows_per_fragment,
                "excluded_fragment_ids": sorted(left),
            },
        )
    if not planned:
        return ()
    tasks = tuple(RewriteTask(group=group) for group in planned)
    results = outcomes_of((yield Asked(handle=handle, tasks=tasks)), RewriteResult)
    return tuple(
        _Group(old=tuple(old), new=tuple(new))
        for old, new in map(lance_writes.replaced_by, results)
    )


def _indexed(
    writing: Writing,
    handle: TableHandle,
    view: TableHandle,
    joined: _Joined,
    specs: Sequence[IndexSpec],
    spread: Spread | None,
) -> Steps[_Joined]:
    """The same, with the segments of every index that would not cover everything afterwards.

    `view` shows the joined fragments.
    """
    layout = handle.layout
    named = {indexes.index_name(layout, spec): spec for spec in specs}
    for spec in indexes.text_specs(layout):
        # Dropped without being wanted, a text index would take the rules of its analyzer along.
        named.setdefault(indexes.index_name(layout, spec), spec)
    dropped = _in_the_way(writing, handle, joined.groups)
    with writing.calls.making("index_coverage", layout.table_key):
        found_names = frozenset(_names(handle.dataset))
    found = _covering(writing, handle)
    kept = {name: found[name] for name in found.keys() - dropped}
    unfit = [
        spec
        for name, spec in named.items()
        # An untrained one is there for its analyzer alone.
        if name not in kept or (spec.is_trained and not kept[name])
    ]
    planned = plan_whole(writing, view, unfit)
    works = [work for work in planned if work.action is not IndexAction.PENDING]
    pending = {indexes.index_name(layout, work.spec) for work in planned if work not in works}
    built = yield from build_steps(writing, view, works, spread)
    return replace(
        joined,
        built=tuple(built),
        replaced=frozenset(index.name for index in built),
        unwanted=(found_names - named.keys()) | pending,
    )


def _names(dataset: LanceDataset) -> list[str]:
    return [description.name for description in dataset.describe_indices()]


def _in_the_way(
    writing: Writing, handle: TableHandle, groups: Collection[_Group]
) -> frozenset[str]:
    """The indexes that cover a part of some group, and vector indexes of several segments."""
    found = set()
    with writing.calls.making("index_coverage", handle.layout.table_key):
        for name in _names(handle.dataset):
            segments = indexes.segments_of(handle.dataset, name)
            covered = [frozenset(segment.fragment_ids) for segment in segments]
            if any(
                part & group.numbers and not group.numbers <= part
                for part in covered
                for group in groups
            ):
                found.add(name)
            if len(segments) > 1 and name.endswith(f"_{IndexKind.IVF_FLAT.lower()}"):
                found.add(name)
    return frozenset(found)


def _covering(writing: Writing, handle: TableHandle) -> dict[str, bool]:
    """The indexes that a rewrite leaves as they are, and whether they cover everything.

    Those by address lose what is rewritten, so they are none of them.
    """
    with writing.calls.making("index_coverage", handle.layout.table_key):
        live = frozenset(indexes.fragment_ids(handle.dataset))
        return {
            index.name: index.fragments == live
            for index in indexes.coverage(handle.dataset, handle.layout)
            if index.kind != "BTree"
        }


def _require_one_vector_segment(writing: Writing, handle: TableHandle) -> None:
    with writing.calls.making("index_coverage", handle.layout.table_key):
        covered = indexes.coverage(handle.dataset, handle.layout)
    for index in covered:
        if index.kind.startswith("IVF") and index.segments > 1:
            raise StorageInternalError(
                f"{handle.layout.table_key}: the vector index {index.name} has {index.segments}"
                " segments and cannot be compacted; rebuild it first"
            )


def _rewrite(joined: _Joined, handle: TableHandle) -> LanceOperation.Rewrite:
    first = joined.first_number
    if first is None:
        first = indexes.unused_fragment_id(handle.dataset)
    return lance_writes.rewrite([(group.old, group.new) for group in joined.groups], first)


def _staged(writing: Writing, base: TableHandle, stamp: WriteStamp, joined: _Joined) -> StagedWrite:
    """The transactions of what was written, on this version."""
    _require_fitting(writing, base, joined)
    dropped = _in_the_way(writing, base, joined.groups)
    if not dropped <= joined.replaced | joined.unwanted:
        raise FragmentsChanged(f"{base.layout.table_key}: its indexes cover other fragments now")
    with writing.calls.making("index_coverage", base.layout.table_key):
        in_the_way = indexes.removed_by(base.dataset, sorted(dropped))
        outdated = indexes.removed_by(base.dataset, sorted(joined.replaced - dropped))
        rewrite = _rewrite(joined, base)
    operations: list[LanceOperation.BaseOperation] = []
    if in_the_way:
        operations.append(LanceOperation.CreateIndex([], in_the_way))
    operations.append(rewrite)
    if joined.built:
        operations.append(LanceOperation.CreateIndex(list(joined.built), outdated))

    def rebase(newer: TableHandle) -> StagedWrite:
        return _staged(writing, newer, stamp, joined)

    return StagedWrite(
        base=base,
        links=tuple(
            _link(writing, base, base.pin.version + at, operation, stamp)
            for at, operation in enumerate(operations)
        ),
        rows_after=live_rows(writing, base),
        files=tuple(
            path
            for operation in operations
            for path in written_files(writing.location, base.pin, operation)
        ),
        rebase=rebase,
        fragments_removed=sum(len(group.old) for group in joined.groups),
        fragments_added=sum(len(group.new) for group in joined.groups),
    )


def _require_fitting(writing: Writing, base: TableHandle, joined: _Joined) -> None:
    """Refuse a version in which a fragment that was read is gone, or has other rows."""
    now = {info.fragment_id: info for info in sizes.fragments(writing.calls, base)}
    changed = sorted(number for number, info in joined.read.items() if now.get(number) != info)
    if changed:
        raise FragmentsChanged(
            f"{base.layout.table_key}: others changed fragments {changed} while they were joined"
        )
    if joined.first_number is not None and max(now) >= joined.first_number:
        raise FragmentsChanged(f"{base.layout.table_key}: others added too many fragments")


def _link(
    writing: Writing,
    base: TableHandle,
    version: int,
    operation: LanceOperation.BaseOperation,
    stamp: WriteStamp,
) -> Link:
    """A transaction that is complete before the one below it is committed."""
    uuid = new_link_uuid(writing.ids)

    def stage(handle: TableHandle) -> Transaction:
        expected = replace(base.pin, version=version)
        if handle.pin != expected:
            raise InternalError(f"staged for {expected}, committed on {handle.pin}")
        made = operation
        if isinstance(operation, LanceOperation.CreateIndex):
            # Built on a version of no line, an index tells the number of that one.
            new = [replace(index, dataset_version=version) for index in operation.new_indices]
            made = LanceOperation.CreateIndex(new, operation.removed_indices)
        return Transaction(version, made, uuid, stamp.properties)

    return Link(uuid=uuid, operation=type(operation).__name__, stage=stage)
