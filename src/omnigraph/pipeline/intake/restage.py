"""Staged rows written again: without some of them, or with the ends of edges spelled anew.

A fragment with deleted rows cannot be committed before it belongs to a version, so the rows that
stay are read back from the files of the part and written to new ones. The input is not read again:
it may be a query, and what embedding was paid for is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph.graph.validation import FittedRows, follow_respelled
from omnigraph.lang.catalog import EdgeType
from omnigraph.pipeline.intake.row_stager import keep_lines, part_object
from omnigraph.pipeline.spark.conform import from_ipc
from omnigraph.pipeline.spark.task_storage import TaskTable, open_task_storage, open_task_table
from omnigraph.pipeline.staging.job_files import keep_batches, write_noted
from omnigraph.pipeline.staging.key_frames import lines_of
from omnigraph.pipeline.staging.result_row import result_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.lang.catalog import NodeType
    from omnigraph.pipeline.staging.key_frames import StagedPart
    from omnigraph.pipeline.staging.part_result import TableIntake
    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.staged_fragments import Pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class RestageTask:
    """The rows of one table in one part."""

    root: str
    operation_id: str
    ref: TableRef
    item: NodeType | EdgeType
    before: TableIntake
    part: StagedPart
    view: TaskTable | None
    """Where the staged rows can be read; `None` when there are none."""
    target: TaskTable
    """Where rows are written."""
    dropped: frozenset[int] = frozenset()
    """Lines of the part that are left out, of good and of bad rows."""
    respelled: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Ids of nodes that were rewritten, by node type."""


def restage(task: RestageTask) -> Iterator[pa.RecordBatch]:
    """The body of a task: one row with the pickled `TableIntake` that takes the old one's place."""
    result = _Restaging(task).run()
    yield result_row(result)


class _Restaging:
    def __init__(self, task: RestageTask) -> None:
        self._task = task
        self._storage: GraphStorage = open_task_storage(task.root)

    def run(self) -> TableIntake:
        from omnigraph.storage.staged_fragments import join_pieces

        task = self._task
        pieces: list[Pieces] = []
        kept: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = [np.zeros(0, np.int64)]
        if task.part.fragments and task.view is not None:
            view = open_task_table(self._storage, task.view)
            target = open_task_table(self._storage, task.target)
            lines = lines_of(self._storage, task.part, task.before.staged)
            start = 0
            for fragment in task.part.fragments:
                rows = self._storage.tables.read_staged(view, [fragment])
                numbers = lines[start : start + rows.num_rows]
                start += rows.num_rows
                stays = ~np.isin(numbers, list(task.dropped))
                rows = self._followed(rows if stays.all() else rows.filter(pa.array(stays)))
                kept.append(numbers[stays])
                if rows.num_rows:
                    pieces.append(write_noted(self._storage, task.operation_id, target, rows))
        staged = np.concatenate(kept)
        where = keep_lines(self._storage, task.operation_id, task.part.ordinal, task.ref, staged)
        return replace(
            task.before,
            pieces=join_pieces(pieces),
            staged=len(staged),
            first_line=where.first_line,
            lines_file=where.lines_file,
            bad_file=self._bad(),
        )

    def _bad(self) -> str | None:
        task = self._task
        if task.before.bad_file is None:
            return None
        batches = []
        for batch in from_ipc(self._storage.objects.get(task.before.bad_file)):
            lines = batch.column(batch.num_columns - 1).to_numpy()
            stays = pa.array(~np.isin(lines, list(task.dropped)))
            rows = self._followed(pa.Table.from_batches([batch.filter(stays)]))
            batches += rows.combine_chunks().to_batches()
        if not batches:
            return None
        name = part_object(task.operation_id, "bad", task.part.ordinal, task.ref)
        return keep_batches(self._storage, name, batches)

    def _followed(self, rows: pa.Table) -> pa.Table:
        item, known = self._task.item, self._task.respelled
        if not known or not isinstance(item, EdgeType):
            return rows
        return follow_respelled(
            FittedRows(item=item, table=rows),
            known.get(item.from_type, {}),
            known.get(item.to_type, {}),
        ).table
