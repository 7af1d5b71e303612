"""An update that tasks wrote, and the same update of a newer version of its table.

New forms of rows, and new rows, depend on no version. What does is which rows of a fragment are
marked as deleted: where others marked rows of the same fragment meanwhile, the marks are made
again, on top of theirs. A fragment that was joined with others has its rows elsewhere, under the
row ids that they had, by which they are found.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph.pipeline.upsert.tasks import read_addresses
from omnigraph.storage.reading import ROW_ADDRESS, ROW_ID

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from omnigraph.pipeline.upsert.tasks import Offsets
    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.sizes import FragmentInfo
    from omnigraph.storage.staged_fragments import Pieces
    from omnigraph.storage.table_storage import TableStorage

_Numbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenUpdate:
    """The pieces of an update of one version of a table."""

    pieces: Pieces
    fragments: Mapping[int, FragmentInfo] = field(default_factory=dict)
    """Those of the version, by number; at least the ones that rows are replaced in."""
    replaced: Mapping[int, Sequence[Offsets]] = field(default_factory=dict)
    """By fragment of the version, which of its rows have a new form."""

    unchanged: int = 0
    """Rows that are in the version as they are, and were left out."""

    def moved_to(
        self, storage: GraphStorage, base: TableHandle, newer: TableHandle
    ) -> Pieces | None:
        """The pieces of the same update of a newer version, in which none of its rows is another.

        Args:
            storage: where the tables are.
            base: the version that the update was written for.
            newer: the newer one, which grew from it.

        Returns:
            `None` when a row that is replaced is gone.
        """
        now = {each.fragment_id: each for each in storage.tables.fragments(newer)}
        touched = [each for each in self.replaced if now.get(each) != self.fragments[each]]
        if not touched:
            return self.pieces
        here = [each for each in touched if _has_files(now.get(each), self.fragments[each])]
        addresses = self._addresses(storage, here)
        gone = sorted(set(touched) - set(here))
        if gone:
            old = self._addresses(storage, gone)
            row_ids = _numbers_of(storage.tables, base, gone, ROW_ADDRESS, old, ROW_ID)
            known = {each.fragment_id: each for each in storage.tables.fragments(base)}
            new = [
                number for number, each in now.items() if not _has_files(known.get(number), each)
            ]
            found = _numbers_of(storage.tables, newer, new, ROW_ID, row_ids, ROW_ADDRESS)
            if len(found) != len(old):
                return None
            addresses = np.concatenate([addresses, found])
        again = storage.tables.delete_addresses(newer, addresses.tolist())
        return _with_marks(self.pieces, touched, again)

    def _addresses(self, storage: GraphStorage, numbers: Iterable[int]) -> _Numbers:
        """Where the replaced rows of some fragments lie in the version."""
        none = np.array([], np.int64)
        parts = ((number, part) for number in numbers for part in self.replaced[number])
        return np.concatenate([none, *(read_addresses(storage, *each) for each in parts)])


def _has_files(fragment: FragmentInfo | None, other: FragmentInfo) -> bool:
    """Whether both are one fragment, of which more rows may be deleted in one version."""
    return fragment is not None and fragment.files == other.files


def _numbers_of(
    store: TableStorage,
    handle: TableHandle,
    fragments: Sequence[int],
    known_by: str,
    known: _Numbers,
    wanted: str,
) -> _Numbers:
    """By the one number of some rows, their row ids or their addresses, the other one."""
    found = [np.array([], np.int64)]
    for batch in store.scan(
        handle, columns=["id"], fragments=fragments, with_row_ids=True, with_row_addresses=True
    ):
        is_known = np.isin(batch.column(known_by).to_numpy(zero_copy_only=False), known)
        numbers = batch.column(wanted).to_numpy(zero_copy_only=False)[is_known]
        found.append(numbers.astype(np.int64))
    return np.concatenate(found)


def _with_marks(pieces: Pieces, touched: Collection[int], again: Pieces) -> Pieces:
    """The pieces with other marks of deleted rows in some fragments."""
    return replace(
        pieces,
        updated=(*(each for each in pieces.updated if each.id not in touched), *again.updated),
        emptied=(*(each for each in pieces.emptied if each not in touched), *again.emptied),
    )
