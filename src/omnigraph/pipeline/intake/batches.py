"""Intake of tabular rows: batches of mapped columns, of a Spark frame or of a Parquet file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph.graph.blobs.blob_values import BlobBudget
from omnigraph.graph.ndjson.rejected_lines import given_line
from omnigraph.pipeline.files.row_flags import RowFlags, take_flags, with_failures
from omnigraph.pipeline.files.row_origin import RunCounter
from omnigraph.pipeline.files.source_errors import described
from omnigraph.pipeline.intake.derived_ids import DerivedIds
from omnigraph.pipeline.intake.row_stager import RowStager, look_for_blobs, stored_rows
from omnigraph.pipeline.spec.column_map import RowMapping, rows_of
from omnigraph.pipeline.spec.pipeline_spec import Column
from omnigraph.pipeline.staging.result_row import result_row
from omnigraph.settings import load_process_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from omnigraph.pipeline.intake.row_stager import IntakePlan
    from omnigraph.pipeline.staging.part_result import IntakeResult
    from omnigraph.storage.input_files import InputFile

_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameIntake:
    """Rows of a frame that become rows of one type; called once for each partition."""

    plan: IntakePlan
    mapping: RowMapping
    source: int
    """Which source of the job, counted from 0."""
    first: int
    """The ordinal of the frame's first partition."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Texts that no error may show."""

    def __call__(
        self, partition: int, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Stage a partition; one row with its result."""
        counter = RunCounter()
        result = stage_batches(
            self.plan,
            self.mapping,
            counter.without_origin(batches),
            ordinal=self.first + partition,
            source=self.source,
            start=partition,
            secrets=self.secrets,
        )
        yield result_row(replace(result, runs=counter.runs))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroupTask:
    """One row group of a Parquet file."""

    plan: IntakePlan
    mapping: RowMapping
    ordinal: int
    source: int
    file: InputFile
    row_group: int


def take_row_group(task: RowGroupTask) -> Iterator[pa.RecordBatch]:
    """The body of a task: one row with the result of the row group."""
    yield result_row(
        stage_batches(
            task.plan,
            task.mapping,
            _row_group(task),
            ordinal=task.ordinal,
            source=task.source,
            start=task.row_group,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTask:
    """Rows that are in memory."""

    plan: IntakePlan
    mapping: RowMapping
    ordinal: int
    source: int
    rows: pa.Table


def take_table(task: TableTask) -> Iterator[pa.RecordBatch]:
    """The body of a task: one row with the result of all rows."""
    names = _column_names(task.mapping)
    taken = pa.table([task.rows[name] for name in names.values()], names=list(names))
    yield result_row(
        stage_batches(
            task.plan,
            task.mapping,
            taken.to_batches(max_chunksize=_BATCH_ROWS),
            ordinal=task.ordinal,
            source=task.source,
            start=0,
        )
    )


def stage_batches(
    plan: IntakePlan,
    mapping: RowMapping,
    batches: Iterable[pa.RecordBatch],
    *,
    ordinal: int,
    source: int,
    start: int,
    secrets: Sequence[str] = (),
) -> IntakeResult:
    """Stage batches whose columns are the values of the mapping; rows count from 1."""
    stager = RowStager(plan, ordinal)
    ids = DerivedIds(plan.operation_id, plan.authored_ms, source=source, start=start)
    stored = stored_rows(plan)
    count = size_bytes = 0
    lost: Counter[str] = Counter()
    for given in batches:
        batch, flags = take_flags(given)
        lost.update({described(mapping, name, secrets): n for name, n in flags.lost.items() if n})
        numbers = np.arange(count + 1, count + 1 + batch.num_rows, dtype=np.int64)
        blobs = BlobBudget(plan.external)
        fitted = rows_of(
            mapping,
            pa.Table.from_batches([batch]),
            ids=ids,
            lines=pa.array(numbers),
            blobs=blobs,
            stored=stored,
        )
        fitted = look_for_blobs(plan, fitted, blobs)
        fitted = with_failures(fitted, flags, lambda name: described(mapping, name, secrets))
        raw = BatchRows(mapping, batch, fitted.table, first=count + 1, flags=flags)
        stager.take(fitted, numbers, raw, has_given_ids="id" in mapping.values)
        count += batch.num_rows
        size_bytes += batch.nbytes
    result = stager.finish(lines=count, size_bytes=size_bytes)
    return replace(result, lost=dict(lost))


@dataclass(frozen=True, slots=True)
class BatchRows:
    """The rows of a batch by their numbers, as records of the graph format."""

    mapping: RowMapping
    given: pa.RecordBatch
    fitted: pa.Table
    first: int
    flags: RowFlags = field(default_factory=RowFlags)

    def __call__(self, line: int) -> bytes:
        """The row as it was given; only an end that is given by its key is an id already."""
        (values,) = self.given.slice(line - self.first, 1).to_pylist()
        for end, parts in self.mapping.key_parts.items():
            for name in parts.values():
                values.pop(name)
            values[end] = self.fitted[end][line - self.first].as_py()
        for name in self.flags.failed:
            text = self.flags.source_value(name, line - self.first)
            if text is not None and name in values:
                values[name] = text
        return given_line(self.mapping.item, values)


def _row_group(task: RowGroupTask) -> Iterator[pa.RecordBatch]:
    from omnigraph.pipeline.files.parquet import open_parquet
    from omnigraph.storage.input_files import InputFiles

    files = InputFiles(load_process_settings().storage)
    names = _column_names(task.mapping)
    with open_parquet(files, task.file) as opened:
        wanted = sorted(set(names.values()))
        for batch in opened.iter_batches(
            batch_size=_BATCH_ROWS, row_groups=[task.row_group], columns=wanted, use_threads=False
        ):
            columns = [batch.column(name) for name in names.values()]
            yield pa.RecordBatch.from_arrays(columns, names=list(names))


def _column_names(mapping: RowMapping) -> dict[str, str]:
    """The columns that are taken as they are, by the values that they become."""
    return {name: value.name for name, value in mapping.values.items() if isinstance(value, Column)}
