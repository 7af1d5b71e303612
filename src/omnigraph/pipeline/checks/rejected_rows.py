"""The bad rows of a load on Spark: found, fetched as they were given, and written by the driver.

Rows that are bad by themselves were kept by the tasks that met them. Of the others the tasks read
the lines again, from the same files, or what was staged of a frame. All of it stays in files of the
job; the driver holds one part of the input at a time.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from omnigraph.graph.load.input_place import InputPlace
from omnigraph.graph.load.quarantine import Rejections, set_aside
from omnigraph.graph.load.reject_files import Reject, RejectCause
from omnigraph.graph.ndjson.rejected_lines import stored_lines
from omnigraph.pipeline.files.splits import read_blocks
from omnigraph.pipeline.intake.part_rejects import RAW_ROWS, read_raws, read_rejects
from omnigraph.pipeline.spark.task_storage import open_task_storage, open_task_table
from omnigraph.pipeline.staging.job_files import keep_batches, staging_folder
from omnigraph.pipeline.staging.key_frames import lines_of
from omnigraph.settings import load_process_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.graph.load.quarantine import RejectedRow, RelationRules
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.pipeline.files.splits import Split
    from omnigraph.pipeline.intake.driver import InputIntake
    from omnigraph.pipeline.intake.row_stager import IntakePlan
    from omnigraph.pipeline.staging.key_frames import StagedPart, StagedTable
    from omnigraph.storage.graph_storage import GraphStorage

_PATH: Final = pa.schema({"path": pa.string()})


@dataclass(frozen=True, kw_only=True)
class SparkRejects:
    """The rows of a load that has bad ones, over one captured state."""

    storage: GraphStorage
    intake: InputIntake
    plan: IntakePlan
    tables: Mapping[TableRef, StagedTable]
    most: int
    cascade: bool = False

    def found(self, rules: RelationRules) -> Rejections:
        """All that are to be rejected."""
        if sum(each.rejects.count for each in self.intake.results) > self.most:
            rows = {row.place: row for row in self._bad}
            return Rejections(rows=dict(sorted(rows.items())), is_complete=False)
        return set_aside(rules, self._bad, most=self.most, cascade=self.cascade)

    @property
    def read(self) -> int:
        """Records, and lines that are none."""
        return sum(
            result.no_records + sum(table.read for table in result.tables.values())
            for result in self.intake.results
        )

    def staged(self, found: Rejections) -> dict[TableRef, list[int]]:
        """Places of rejected rows that were staged: those that are bad only beside others."""
        return found.places(but=self._bad)

    def written(self, found: Rejections) -> Iterator[Reject]:
        """The rejected rows for their file, in the order of the input."""
        fetched = self._fetch_staged(found)
        by_part = groupby(found.rows.values(), key=lambda row: _place(row).ordinal)
        for ordinal, rows in by_part:
            raws: dict[int, bytes] = {}
            for path in (self.intake.results[ordinal].rejects.path, fetched.get(ordinal)):
                if path is not None:
                    raws |= read_raws(self.storage, path)
            for row in rows:
                yield self._reject(row, raws[_place(row).line], found)

    @cached_property
    def _bad(self) -> list[RejectedRow]:
        """Rows that are bad by themselves; of too many, one more than may be rejected."""
        rows = (
            row
            for result in self.intake.results
            for row in read_rejects(self.storage, result.rejects, result.ordinal)
        )
        return list(islice(rows, self.most + 1))

    def _reject(self, row: RejectedRow, raw: bytes, found: Rejections) -> Reject:
        position = self.intake.position(_place(row))
        # Of too many rows the cause of one may be left out.
        cause = None if row.caused_by is None else found.rows.get(row.caused_by)
        return Reject(
            source=position.source,
            line=position.line,
            code=row.fault.code,
            message=row.fault.message,
            properties=row.fault.properties,
            raw=raw,
            caused_by=None if cause is None else self._cause(cause),
        )

    def _cause(self, row: RejectedRow) -> RejectCause:
        position = self.intake.position(_place(row))
        return RejectCause(source=position.source, line=position.line, code=row.fault.code)

    def _fetch_staged(self, found: Rejections) -> dict[int, str]:
        """Files with the rows that were staged, by part."""
        lines: defaultdict[int, defaultdict[TableRef, list[int]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for ref, places in self.staged(found).items():
            for place in map(InputPlace.unpacked, places):
                lines[place.ordinal][ref].append(place.line)
        tasks = [self._raw_task(ordinal, by_table) for ordinal, by_table in sorted(lines.items())]
        results = self.intake.job.lane.run("rejects", tasks, fetch_rows, _PATH)
        return {
            task.ordinal: result.batches[0].column(0)[0].as_py()
            for task, result in zip(tasks, results, strict=True)
        }

    def _raw_task(self, ordinal: int, lines: Mapping[TableRef, Sequence[int]]) -> RawTask:
        split = self.intake.split_of(ordinal)
        return RawTask(
            plan=self.plan,
            ordinal=ordinal,
            lines=frozenset(line for each in lines.values() for line in each),
            split=split,
            staged=()
            if split is not None
            else tuple(self._staged_rows(ref, ordinal) for ref in sorted(lines)),
        )

    def _staged_rows(self, ref: TableRef, ordinal: int) -> StagedRows:
        table = self.tables[ref]
        (part,) = [each for each in table.parts if each.ordinal == ordinal]
        return StagedRows(
            table=replace(table, parts=(), committed_fragments=()),
            part=part,
            count=self.intake.results[ordinal].tables[ref].staged,
        )


def _place(row: RejectedRow) -> InputPlace:
    return InputPlace.unpacked(row.place)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRows:
    """The rows of one table in one part."""

    table: StagedTable
    part: StagedPart
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTask:
    """Rows of one part, to be fetched as they were given."""

    plan: IntakePlan
    ordinal: int
    lines: frozenset[int]
    split: Split | None
    """The lines themselves, or else what was staged of them."""
    staged: tuple[StagedRows, ...] = ()


def fetch_rows(task: RawTask) -> Iterator[pa.RecordBatch]:
    """The body of a task: one row with the path of the file that it wrote."""
    storage = open_task_storage(task.plan.root)
    raws = dict(_split_lines(task, task.split) if task.split else _staged_lines(storage, task))
    batch = pa.RecordBatch.from_arrays(
        [pa.array(list(raws), pa.int64()), pa.array(list(raws.values()), pa.large_binary())],
        schema=RAW_ROWS,
    )
    name = f"{staging_folder(task.plan.operation_id)}/raws-{task.ordinal:06d}"
    path = keep_batches(storage, name, [batch])
    yield pa.RecordBatch.from_arrays([pa.array([path])], schema=_PATH)


def _split_lines(task: RawTask, split: Split) -> Iterator[tuple[int, bytes]]:
    from omnigraph.storage.input_files import InputFiles

    files = InputFiles(load_process_settings().storage)
    left = len(task.lines)
    count = 0
    for block in read_blocks(files, split, task.plan.block_bytes):
        lines = block.split(b"\n")
        for number, line in enumerate(lines, count + 1):
            if number in task.lines:
                left -= 1
                yield number, line
        count += len(lines)
        if not left:
            return


def _staged_lines(storage: GraphStorage, task: RawTask) -> Iterator[tuple[int, bytes]]:
    wanted = np.fromiter(task.lines, np.int64, len(task.lines))
    for each in task.staged:
        if each.table.view is None:
            continue
        view = open_task_table(storage, each.table.view)
        lines = lines_of(storage, each.part, each.count)
        start = 0
        for fragment in each.part.fragments:
            rows = storage.tables.read_staged(view, [fragment])
            numbers = lines[start : start + rows.num_rows]
            start += rows.num_rows
            chosen = np.isin(numbers, wanted)
            if chosen.any():
                texts = stored_lines(each.table.item, rows.filter(pa.array(chosen)))
                yield from zip(numbers[chosen].tolist(), texts, strict=True)
