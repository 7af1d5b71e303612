"""Key columns of staged and committed rows as Spark frames: read by tasks, nothing is copied.

The rows of a job are read back from its own uncommitted files, through a version of the table that
belongs to no line. The frames are lazy; every action reads again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.graph.load.input_place import packed_places
from omnigraph.graph.validation.relation_rules import compared_columns
from omnigraph.pipeline.spark.conform import from_ipc
from omnigraph.pipeline.spark.task_storage import TaskTable, open_task_storage, open_task_table
from omnigraph.pipeline.spark.tasks import frame_of_tasks
from omnigraph.pipeline.staging.key_columns import (
    NO_PLACE,
    PLACE,
    key_batch,
    key_schema,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.lang.catalog import EdgeType, NodeType
    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.pipeline.staging.part_result import IntakeResult
    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.sizes import FragmentInfo

_GROUP_ROWS: Final = 1 << 19


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedTable:
    """The rows that a job brings to one table, and the rows that are there."""

    item: NodeType | EdgeType
    committed: TaskTable
    committed_fragments: tuple[FragmentInfo, ...]
    view: TaskTable | None
    """Where the staged rows can be read; `None` when there are none."""
    parts: tuple[StagedPart, ...]

    @property
    def is_empty(self) -> bool:
        """The committed table has no rows."""
        return not self.committed_fragments


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPart:
    """The rows of one split."""

    ordinal: int
    fragments: tuple[int, ...]
    """Numbers in the view."""
    first_line: int | None
    lines_file: str | None
    bad_file: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _StagedScan:
    root: str
    table: StagedTable
    part: StagedPart


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommittedScan:
    root: str
    item: NodeType | EdgeType
    table: TaskTable
    fragments: tuple[int, ...]


def staged_parts(
    ref: TableRef, results: Sequence[IntakeResult], first_fragment: int
) -> tuple[StagedPart, ...]:
    """The parts of a table; the view numbers its fragments from `first_fragment` on."""
    parts: list[StagedPart] = []
    number = first_fragment
    for result in results:
        table = result.tables.get(ref)
        if table is None:
            continue
        count = len(table.pieces.added)
        parts.append(
            StagedPart(
                ordinal=result.ordinal,
                fragments=tuple(range(number, number + count)),
                first_line=table.first_line,
                lines_file=table.lines_file,
                bad_file=table.bad_file,
            )
        )
        number += count
    return tuple(parts)


class KeyFrames:
    """The frames of one job."""

    def __init__(
        self, session: PipelineSession, root: str, tables: Mapping[TableRef, StagedTable]
    ) -> None:
        self._session = session
        self._root = root
        self._tables = tables

    def staged(self, ref: TableRef) -> DataFrame:
        """Key columns of the rows of the input; those without an id are left out."""
        table = self._tables[ref]
        tasks = [
            _StagedScan(root=self._root, table=replace(table, parts=()), part=part)
            for part in table.parts
        ]
        frame = frame_of_tasks(self._session, tasks, _scan_staged, key_schema(table.item))
        return frame.filter("id is not null")

    def has_committed(self, ref: TableRef) -> bool:
        """Whether there are rows."""
        return not self._tables[ref].is_empty

    def committed(self, ref: TableRef) -> DataFrame:
        """Key columns of the rows that are there."""
        table = self._tables[ref]
        tasks = [
            _CommittedScan(root=self._root, item=table.item, table=table.committed, fragments=group)
            for group in group_fragments(table.committed_fragments)
        ]
        return frame_of_tasks(self._session, tasks, _scan_committed, key_schema(table.item))


def group_fragments(
    fragments: Sequence[FragmentInfo], rows: int = _GROUP_ROWS
) -> list[tuple[int, ...]]:
    """Fragments in groups of about so many rows; none for none."""
    groups: list[tuple[int, ...]] = []
    held: list[int] = []
    count = 0
    for each in fragments:
        held.append(each.fragment_id)
        count += each.rows
        if count >= rows:
            groups.append(tuple(held))
            held, count = [], 0
    if held:
        groups.append(tuple(held))
    return groups


def read_part(storage: GraphStorage, table: StagedTable, part: StagedPart) -> Iterator[pa.Table]:
    """What checks look at, of the rows of one split, each with its place."""
    if part.fragments and table.view is not None:
        lines = None if part.lines_file is None else _kept_lines(storage, part.lines_file)
        handle = open_task_table(storage, table.view)
        start = 0
        for batch in storage.tables.scan(
            handle, columns=compared_columns(table.item), fragments=part.fragments
        ):
            end = start + batch.num_rows
            if lines is not None:
                numbers = lines[start:end]
            else:
                numbers = np.arange(start, end, dtype=np.int64) + (part.first_line or 0)
            yield _placed(batch, packed_places(part.ordinal, numbers))
            start = end
    if part.bad_file is not None:
        for batch in from_ipc(storage.objects.get(part.bad_file)):
            places = packed_places(part.ordinal, batch.column(PLACE).to_numpy())
            yield _placed(batch.select(compared_columns(table.item)), places)


def lines_of(storage: GraphStorage, part: StagedPart, rows: int) -> npt.NDArray[np.int64]:
    """The lines of the staged rows of a part, in their order."""
    if part.lines_file is not None:
        return _kept_lines(storage, part.lines_file)
    return np.arange(rows, dtype=np.int64) + (part.first_line or 0)


def _kept_lines(storage: GraphStorage, path: str) -> npt.NDArray[np.int64]:
    (kept,) = from_ipc(storage.objects.get(path))
    return kept.column(0).to_numpy()


def _placed(batch: pa.RecordBatch, places: npt.NDArray[np.int64]) -> pa.Table:
    fields = [each.with_nullable(nullable=True) for each in batch.schema]
    rows = pa.Table.from_arrays(batch.columns, schema=pa.schema(fields))
    return rows.append_column(PLACE, pa.array(places, pa.int64()))


def _scan_staged(task: _StagedScan) -> Iterator[pa.RecordBatch]:
    storage = open_task_storage(task.root)
    for rows in read_part(storage, task.table, task.part):
        yield key_batch(task.table.item, rows)


def _scan_committed(task: _CommittedScan) -> Iterator[pa.RecordBatch]:
    storage = open_task_storage(task.root)
    handle = open_task_table(storage, task.table)
    for batch in storage.tables.scan(
        handle, columns=compared_columns(task.item), fragments=task.fragments
    ):
        places = np.full(batch.num_rows, NO_PLACE, np.int64)
        yield key_batch(task.item, _placed(batch, places))
