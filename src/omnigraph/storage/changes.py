"""What changed in a table between two versions of its line, by comparing where their rows lie.

A version is a list of fragments: data files, and marks of the rows in them that are deleted. A
fragment that both versions have with the same files and marks holds no row that came or went. One
with other marks lost the rows that were marked since. Only what is left over is read, so the cost
is that of what was written and deleted since, not of what is stored.

Both versions were published: between them no row goes back to an older form. A restore shows the
version again that is published, so it changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.layout import logical_schema, to_logical
from omnigraph.storage.moved_lines import is_view
from omnigraph.storage.reading import FILTERED_ROWS, ROW_ID, present_columns, rows_with_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lance import LanceDataset
    from lance.fragment import LanceFragment

    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.reading import Ids, Reads

RowIds: TypeAlias = npt.NDArray[np.uint64]

_CREATED: Final = "_row_created_at_version"
_WRITTEN: Final = "_row_last_updated_at_version"

_TAKEN_ROWS: Final = 4_096
"""Up to so many rows are fetched one by one; more are picked out of whole fragments."""


@dataclass(frozen=True, kw_only=True)
class ChangedRows:
    """How a table differs from an older version of its line, in rows with `id` and some columns."""

    before: pa.Table
    """Rows of the older version that were written since, or are gone."""

    after: pa.Table
    """Rows that were added or written since, as they are now; those with equal values too."""

    @cached_property
    def changed(self) -> Ids:
        """Ids of rows that were added or written since."""
        return _ids(self.after)

    @cached_property
    def removed(self) -> Ids:
        """Ids that were there then and are gone now."""
        return _without(_ids(self.before), self.changed)

    @cached_property
    def added(self) -> Ids:
        """Ids that are there now and were not then."""
        return _without(self.changed, _ids(self.before))


def changed_since(
    reads: Reads,
    handle: TableHandle,
    old: TableHandle,
    columns: Sequence[str],
    *,
    with_row_ids: bool = False,
) -> ChangedRows:
    """The rows that differ between an older version of the line and this one, in both forms."""
    names = list(dict.fromkeys(["id", *columns]))
    with reads.calls.making("changed_since", handle.layout.table_key):
        return _Comparison(handle, old, names, with_row_ids=with_row_ids).changed()


def rows_between(reads: Reads, handle: TableHandle, old: TableHandle) -> int:
    """How many rows `changed_since` would look at, at most; reads no file."""
    with reads.calls.making("rows_between", handle.layout.table_key):
        return _Comparison(handle, old, ["id"], with_row_ids=False).rows()


class _Comparison:
    """Two versions of a table, and the fragments that they do not share as they are."""

    def __init__(
        self, new: TableHandle, old: TableHandle, names: Sequence[str], *, with_row_ids: bool
    ) -> None:
        self._new, self._old, self._names = new, old, names
        self._with_row_ids = with_row_ids
        before, after = _by_files(old.dataset), _by_files(new.dataset)
        shared = [(before[key], fragment) for key, fragment in after.items() if key in before]
        marked = [(older, newer) for older, newer in shared if _marks(older) != _marks(newer)]
        self._gone = [fragment for key, fragment in before.items() if key not in after]
        self._came = [fragment for key, fragment in after.items() if key not in before]
        self._marked = [older for older, _ in marked]
        self._marked_now = [newer for _, newer in marked]

    def rows(self) -> int:
        """Rows of fragments that came or went, and rows that were marked since."""
        marked = _live(self._marked) - _live(self._marked_now)
        return _live(self._came) + _live(self._gone) + marked

    def changed(self) -> ChangedRows:
        after = self._written()
        before = pa.concat_tables([gone := self._left_files(after), self._left_marked(after, gone)])
        return ChangedRows(
            before=self._logical(self._old, before),
            after=self._logical(self._new, after),
        )

    def _logical(self, handle: TableHandle, rows: pa.Table) -> pa.Table:
        logical = _logical(handle, self._names, rows)
        return logical.append_column(ROW_ID, rows[ROW_ID]) if self._with_row_ids else logical

    def _written(self) -> pa.Table:
        """Rows that were written after the older version."""
        columns = [*present_columns(self._new, self._names), ROW_ID, _CREATED]
        # Version columns are reached by filter text only; this one is made here of an integer.
        since = f"{_WRITTEN} > {self._old.pin.version:d}"
        return _scanned(self._new, self._came, columns, since)

    def _left_files(self, written: pa.Table) -> pa.Table:
        """Rows of fragments that are gone, without those that a compaction only moved."""
        if _live(self._came) == written.num_rows:
            return _rows(self._old, self._gone, self._names)
        unwritten = f"{_WRITTEN} <= {self._old.pin.version:d}"
        moved = _numbers(_scanned(self._new, self._came, [ROW_ID], unwritten)[ROW_ID])
        left = _difference(_row_ids(self._old, self._gone), moved)
        return _picked(self._old, self._gone, left, self._names)

    def _left_marked(self, written: pa.Table, gone: pa.Table) -> pa.Table:
        """Rows that left fragments which both versions have."""
        is_known = _numbers(written[_CREATED]) <= self._old.pin.version
        left = np.union1d(self._deleted(), _numbers(written[ROW_ID])[is_known])
        left = _difference(left, _numbers(gone[ROW_ID]))
        return _picked(self._old, self._marked, left, self._names)

    def _deleted(self) -> RowIds:
        """Row ids of the older version that the newer one has not."""
        if not self._marked:
            return np.zeros(0, np.uint64)
        if self._new.pin.branch == self._old.pin.branch and not is_view(self._new.dataset):
            delta = self._new.dataset.delta(
                begin_version=self._old.pin.version, end_version=self._new.pin.version
            )
            return _numbers(delta.get_deleted_row_ids().read_all()[ROW_ID])
        # Lance compares versions of one line only, and a view has none but its own.
        there, here = _row_ids(self._old, self._marked), _row_ids(self._new, self._marked_now)
        return _difference(there, here)


def _by_files(dataset: LanceDataset) -> dict[tuple[object, ...], LanceFragment]:
    # Lines name the same file by different bases, so a base is no part of the identity; a column
    # that was added later is, which only costs a comparison of row ids.
    return {
        (fragment.fragment_id, *sorted(file.path for file in fragment.metadata.files)): fragment
        for fragment in dataset.get_fragments()
    }


def _marks(fragment: LanceFragment) -> tuple[int, int] | None:
    deleted = fragment.metadata.deletion_file
    return None if deleted is None else (deleted.read_version, deleted.id)


def _live(fragments: Iterable[LanceFragment]) -> int:
    return sum(fragment.metadata.num_rows for fragment in fragments)


def _rows(handle: TableHandle, fragments: list[LanceFragment], names: Sequence[str]) -> pa.Table:
    return _scanned(handle, fragments, [*present_columns(handle, names), ROW_ID])


def _row_ids(handle: TableHandle, fragments: list[LanceFragment]) -> RowIds:
    return _numbers(_scanned(handle, fragments, [ROW_ID])[ROW_ID])


def _picked(
    handle: TableHandle, fragments: list[LanceFragment], row_ids: RowIds, names: Sequence[str]
) -> pa.Table:
    """The rows of some fragments with these row ids; those that are not there are left out."""
    if len(row_ids) > _TAKEN_ROWS:
        rows = _rows(handle, fragments, names)
        return rows.filter(pa.array(np.isin(_numbers(rows[ROW_ID]), row_ids)))
    columns = [*present_columns(handle, names), ROW_ID]
    if len(row_ids) > FILTERED_ROWS:
        return handle.dataset._take_rows(pa.array(row_ids), columns=columns)  # noqa: SLF001
    if not len(row_ids) or not fragments:
        return _nothing(handle, columns)
    return rows_with_ids(handle, pa.array(row_ids, pa.uint64()), columns, fragments)


def _scanned(
    handle: TableHandle,
    fragments: list[LanceFragment],
    columns: list[str],
    condition: str | None = None,
) -> pa.Table:
    if not fragments:
        return _nothing(handle, columns)
    dataset = handle.dataset
    return dataset.scanner(columns=columns, filter=condition, fragments=fragments).to_table()


def _nothing(handle: TableHandle, columns: Sequence[str]) -> pa.Table:
    stored = handle.dataset.schema
    numbers = {name: pa.field(name, pa.uint64()) for name in (ROW_ID, _CREATED, _WRITTEN)}
    return pa.schema([numbers.get(name) or stored.field(name) for name in columns]).empty_table()


def _logical(handle: TableHandle, names: Sequence[str], rows: pa.Table) -> pa.Table:
    batches = (to_logical(handle.layout, names, batch) for batch in rows.to_batches())
    return pa.Table.from_batches(batches, logical_schema(handle.layout, names))


def _numbers(row_ids: pa.ChunkedArray[pa.UInt64Scalar]) -> RowIds:
    return row_ids.to_numpy().astype(np.uint64, copy=False)


def _difference(row_ids: RowIds, others: RowIds) -> RowIds:
    return np.setdiff1d(row_ids, others, assume_unique=True)


def _ids(rows: pa.Table) -> Ids:
    return pa.array(rows["id"].combine_chunks(), pa.string())


def _without(ids: Ids, others: Ids) -> Ids:
    return ids.filter(pc.invert(pc.is_in(ids, value_set=others)))
