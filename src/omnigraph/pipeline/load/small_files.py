"""Tables that consist of many small files once a load is committed, told from metadata alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from omnigraph.storage.handles import StagedWrite
    from omnigraph.storage.table_store import TableStorage

MANY_FILES: Final = 64
"""So many files of a table are no reason to act, however small they are."""
_SMALL_PARTS: Final = 16
"""A file is small below this part of the rows that one may have."""


def small_files(
    store: TableStorage, staged: Iterable[StagedWrite], *, rows_per_file: int
) -> Iterator[str]:
    """A warning for each written table that should be compacted after the commit."""
    for write in staged:
        if write.is_noop:
            continue
        files = store.files_after(write)
        if files > MANY_FILES and write.rows_after * _SMALL_PARTS < files * rows_per_file:
            mean = write.rows_after // files
            counted = "1 row" if mean == 1 else f"{mean:,} rows"
            yield (
                f"{write.base.layout.table_key} has {files:,} files of {counted} on average;"
                " compaction is due: omnigraph optimize does it"
            )
