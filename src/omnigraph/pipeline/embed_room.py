"""What the process that commits vectors may hold: whole rows, and the blobs that they keep.

An update writes a row as a whole, so the rows of a job and their blobs are in one process at the
same time. Whoever does not fit is refused: before texts are paid for by an estimate, and exactly
before a blob is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ResourceLimit

if TYPE_CHECKING:
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.predicates import Predicate
    from omnigraph.storage.tables import TableStorage

_SAMPLED_ROWS: Final = 1_000


class DriverRoom:
    """The bytes that the rows of one table take, up to a limit."""

    def __init__(self, store: TableStorage, handle: TableHandle, limit_bytes: int) -> None:
        self._store = store
        self._handle = handle
        self._limit_bytes = limit_bytes
        self._taken_bytes = 0

    @property
    def columns(self) -> list[str]:
        """What is read of a row: all but the blobs."""
        layout = self._handle.layout
        return [name for name in layout.schema.names if name not in layout.blobs]

    def require(self, predicate: Predicate) -> None:
        """Refuse rows that will not fit: by the size of some, and by the lengths of all blobs.

        Raises:
            ResourceLimit: they are too large.
        """
        store, handle = self._store, self._handle
        sample = store.scan(
            handle, columns=self.columns, predicate=predicate, limit=_SAMPLED_ROWS
        ).read_all()
        if not sample.num_rows:
            return
        self._take(store.count(handle, predicate) * sample.nbytes // sample.num_rows)
        if handle.layout.blobs:
            for batch in store.scan(handle, columns=["id"], predicate=predicate):
                self._take(self._blob_bytes(batch))

    def take(self, rows: pa.RecordBatch) -> None:
        """Count rows that stay in memory, and the blobs that will be read for them.

        Raises:
            ResourceLimit: they are too large together with those before.
        """
        self._take(rows.nbytes + self._blob_bytes(rows))

    def _blob_bytes(self, rows: pa.RecordBatch) -> int:
        ids = pa.array(rows.column("id"), pa.string())
        return sum(
            pc.sum(self._store.blob_descriptors(self._handle, ids, name)["length"]).as_py() or 0
            for name in self._handle.layout.blobs
        )

    def _take(self, size_bytes: int) -> None:
        self._taken_bytes += size_bytes
        if self._taken_bytes > self._limit_bytes:
            raise ResourceLimit(
                f"{self._handle.layout.table_key}: the rows to fill, with their blobs, take"
                f" about {self._taken_bytes:,} bytes or more in the process that commits them,"
                f" which may hold {self._limit_bytes:,}; they are committed at once, so give it"
                " more memory and raise OMNIGRAPH_PIPELINE_MERGE_DRIVER_BYTES",
                resource="merge_driver_bytes",
                limit=self._limit_bytes,
                actual=self._taken_bytes,
            )
