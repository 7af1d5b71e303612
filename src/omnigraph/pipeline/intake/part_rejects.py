"""Bad rows of one part of the input, kept whole by the task that met them; in a file of the job.

They are those that break a rule by themselves: lines that are no records, and rows that the rules
of single rows refuse. So that memory does not grow with their number, no more are kept than the
load may reject; they are counted all the same.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraph.graph.load.input_place import InputPlace
from omnigraph.graph.load.quarantine import Fault, RejectedRow, rejected_row
from omnigraph.graph.manifest.rows import TableRef
from omnigraph.graph.validation import Code
from omnigraph.pipeline.spark.conform import from_ipc
from omnigraph.pipeline.staging.job_files import keep_batches
from omnigraph.pipeline.staging.part_result import KeptRejects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    RawRow = Callable[[int], bytes]
    """The row of a line, as it was given."""

    from omnigraph.graph.validation import Violation
    from omnigraph.storage.graph_storage import GraphStorage

_RAWS: Final[dict[str, pa.DataType]] = {"line": pa.int64(), "raw": pa.large_binary()}
RAW_ROWS: Final = pa.schema(_RAWS)
"""Rows as they were given, by their lines."""

_FAULTS: Final[dict[str, pa.DataType]] = {
    "table_id": pa.int64(),
    "incarnation": pa.int64(),
    "node_type": pa.string(),
    "node_id": pa.string(),
    "code": pa.string(),
    "message": pa.string(),
    "properties": pa.list_(pa.string()),
}
_KEPT: Final = pa.schema([*RAW_ROWS, *pa.schema(_FAULTS)])


class PartRejects:
    """Collects the bad rows of one part."""

    def __init__(self, most: int | None) -> None:
        """Keep up to `most`; `None` keeps and counts none."""
        self._most = most
        self._rows: list[dict[str, Any]] = []  # Any: one value per column
        self._count = 0

    def add(self, table: TableRef | None, found: Iterable[Violation], raw: RawRow) -> None:
        """What is wrong with rows of a table, or with lines; `raw` gives the row of a line."""
        if self._most is None:
            return
        by_line: defaultdict[int, list[Violation]] = defaultdict(list)
        for each in found:
            by_line[each.subject.input_line or 0].append(each)
        for line, violations in by_line.items():
            self._count += 1
            if self._count <= self._most:
                self._rows.append(_row(rejected_row(line, table, violations), raw(line)))

    def keep(self, storage: GraphStorage, folder: str, ordinal: int) -> KeptRejects:
        """Write the file, if there is anything to write."""
        if not self._rows:
            return KeptRejects(count=self._count)
        rows = sorted(self._rows, key=lambda row: row["line"])
        batch = pa.RecordBatch.from_pylist(rows, schema=_KEPT)
        path = keep_batches(storage, f"{folder}/rejects-{ordinal:06d}", [batch])
        return KeptRejects(count=self._count, path=path)


def read_rejects(storage: GraphStorage, kept: KeptRejects, ordinal: int) -> Iterator[RejectedRow]:
    """The bad rows of a part, with their places in the job."""
    if kept.path is None:
        return
    for batch in from_ipc(storage.objects.get(kept.path)):
        for row in batch.drop_columns(["raw"]).to_pylist():
            yield RejectedRow(
                place=InputPlace(ordinal, row["line"]).packed,
                table=None
                if row["table_id"] is None
                else TableRef(row["table_id"], row["incarnation"]),
                fault=Fault(
                    code=Code(row["code"]),
                    message=row["message"],
                    properties=tuple(row["properties"]),
                ),
                node=None if row["node_id"] is None else (row["node_type"], row["node_id"]),
            )


def read_raws(storage: GraphStorage, path: str) -> dict[int, bytes]:
    """The rows of a file as they were given, by their lines in the part."""
    raws: dict[int, bytes] = {}
    for batch in from_ipc(storage.objects.get(path)):
        raws |= {row["line"]: row["raw"] for row in batch.select(RAW_ROWS.names).to_pylist()}
    return raws


def _row(row: RejectedRow, raw: bytes) -> dict[str, Any]:  # Any: as above
    node_type, node_id = row.node or (None, None)
    return {
        "line": row.place,
        "raw": raw,
        "table_id": None if row.table is None else row.table.table_id,
        "incarnation": None if row.table is None else row.table.incarnation,
        "node_type": node_type,
        "node_id": node_id,
        "code": row.fault.code.value,
        "message": row.fault.message,
        "properties": list(row.fault.properties),
    }
