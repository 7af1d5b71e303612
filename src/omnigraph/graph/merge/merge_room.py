"""How much one merge or revert may change: it is held in memory until it is staged."""

from __future__ import annotations

from omnigraph import limits
from omnigraph.errors import ResourceLimit


class MergeRoom:
    """Counts the rows of all tables that a merge changes or that are contested, and their bytes."""

    def __init__(self) -> None:
        self._rows = 0
        self._size_bytes = 0

    def take_rows(self, count: int) -> None:
        """Count rows that change or are contested.

        Raises:
            ResourceLimit: there are too many.
        """
        self._rows += count
        _require("rows", self._rows, limits.MAX_MERGE_ROWS)

    def take_bytes(self, size_bytes: int) -> None:
        """Count what is held of them.

        Raises:
            ResourceLimit: it is too much.
        """
        self._size_bytes += size_bytes
        _require("bytes", self._size_bytes, limits.MAX_MERGE_ARROW_BYTES)


def _require(what: str, actual: int, limit: int) -> None:
    if actual > limit:
        raise ResourceLimit(
            f"this would change more than {limit:,} {what} in one commit; bring the rows first by a"
            " load: export the source and load it into the target by `merge`. What both have alike"
            " then costs nothing here, and the deletions and the history come with the merge",
            resource=f"branch-merge changed {what}",
            limit=limit,
            actual=actual,
        )
