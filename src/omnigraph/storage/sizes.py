"""How large a table is, by its metadata alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance import LanceOperation

from omnigraph.errors import InternalError

if TYPE_CHECKING:
    from lance.fragment import FragmentMetadata

    from omnigraph.storage.calls import StoreCalls
    from omnigraph.storage.handles import StagedWrite, TableHandle


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentInfo:
    """One fragment of a table."""

    fragment_id: int
    rows: int
    """Live rows."""

    deleted_rows: int
    size_bytes: int
    files: tuple[str, ...] = ()
    """The names of its data files. They never change; which of its rows are deleted may."""

    deletion_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStats:
    """How large a table is at a version."""

    rows: int
    deleted_rows: int
    size_bytes: int
    """Of its data files; blobs beside them, indexes and older versions are not counted."""

    fragments: int
    versions: int
    """Versions of this line that are still stored."""


def fragments(calls: StoreCalls, handle: TableHandle) -> list[FragmentInfo]:
    """The fragments of a version, by number."""
    with calls.making("fragments", handle.layout.table_key):
        return [_info(fragment.metadata) for fragment in handle.dataset.get_fragments()]


def _info(fragment: FragmentMetadata) -> FragmentInfo:
    deleted = fragment.deletion_file
    return FragmentInfo(
        fragment_id=fragment.id,
        rows=fragment.num_rows,
        deleted_rows=fragment.num_deletions,
        size_bytes=sum(file.file_size_bytes or 0 for file in fragment.files),
        files=tuple(sorted(file.path for file in fragment.files)),
        deletion_file=None if deleted is None else deleted.path(fragment.id),
    )


def files_after(calls: StoreCalls, staged: StagedWrite) -> int:
    """How many data files the table has once rows that were staged are committed.

    Raises:
        InternalError: it is no write of rows.
    """
    table_key = staged.base.layout.table_key
    with calls.making("fragments", table_key):
        before = len(staged.base.dataset.get_fragments())
    if staged.is_noop:
        return before
    operation = staged.links[0].stage(staged.base).operation
    match operation:
        case LanceOperation.Append():
            return before + len(list(operation.fragments))
        case LanceOperation.Overwrite():
            return len(list(operation.fragments))
        case LanceOperation.Update():
            gone = len(operation.removed_fragment_ids)
            return before - gone + len(operation.new_fragments)
        case _:
            raise InternalError(f"{table_key}: {staged.links[0].operation} writes no rows")


def stats(calls: StoreCalls, handle: TableHandle) -> TableStats:
    """The sizes of a version."""
    infos = fragments(calls, handle)
    with calls.making("versions", handle.layout.table_key):
        versions = len(handle.dataset.versions())
    return TableStats(
        rows=sum(fragment.rows for fragment in infos),
        deleted_rows=sum(fragment.deleted_rows for fragment in infos),
        size_bytes=sum(fragment.size_bytes for fragment in infos),
        fragments=len(infos),
        versions=versions,
    )
