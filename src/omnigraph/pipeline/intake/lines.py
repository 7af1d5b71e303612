"""Intake of the graph format: one split of a file, line by line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.graph.blobs.blob_values import BlobBudget
from omnigraph.graph.load.rows import filled_vectors, json_blobs
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.graph.ndjson.reader import LineColumnReader
from omnigraph.graph.validation import ALL_ROWS, fit_json_rows
from omnigraph.pipeline.files.splits import Split, read_blocks
from omnigraph.pipeline.intake.derived_ids import DerivedIds
from omnigraph.pipeline.intake.row_stager import RowStager, look_for_blobs, stored_rows
from omnigraph.pipeline.staging.result_row import result_row
from omnigraph.settings import load_process_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.pipeline.intake.row_stager import IntakePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class LineTask:
    """One split of a file of lines."""

    plan: IntakePlan
    ordinal: int
    """Which part of the job, counted from 0."""
    source: int
    """How many sources come before the split's input."""
    split: Split


class BlockLines:
    """The lines of a block by their numbers; cut only if one is asked for."""

    def __init__(self, block: bytes, first: int) -> None:
        self._block = block
        self._first = first
        self._lines: list[bytes] = []

    def __call__(self, line: int) -> bytes:
        """The text of a line, without its line feed."""
        if not self._lines:
            self._lines = self._block.split(b"\n")
        return self._lines[line - self._first]


def take_lines(task: LineTask) -> Iterator[pa.RecordBatch]:
    """The body of a task: one row with the result of the split."""
    from omnigraph.storage.input_files import InputFiles

    plan = task.plan
    files = InputFiles(load_process_settings().storage)
    reader = LineColumnReader(plan.catalog, limit=max(plan.sample, (plan.keeps_rejects or 0) + 1))
    stager = RowStager(plan, task.ordinal)
    ids = DerivedIds(
        plan.operation_id,
        plan.authored_ms,
        source=task.source + task.split.source,
        start=task.split.start,
    )
    stored = stored_rows(plan)
    size_bytes = refused = 0
    for block in read_blocks(files, task.split, plan.block_bytes):
        size_bytes += len(block)
        raw = BlockLines(block, reader.lines + 1)
        budgets: dict[TableRef, BlobBudget] = {}
        for records in reader.read(block):
            blobs = budgets.setdefault(ref_of(records.item), BlobBudget(plan.external))
            fitted = fit_json_rows(
                records.item,
                records.rows,
                ids=ids,
                lines=pa.array(records.lines),
                fit_blobs=json_blobs(blobs),
                filled_later=filled_vectors(records.item),
                stored=stored,
                limit=ALL_ROWS,
            )
            fitted = look_for_blobs(plan, fitted, blobs)
            stager.take(fitted, records.lines, raw, has_given_ids=records.rows.mentions("id"))
        violations = reader.findings.violations
        stager.refuse(violations[refused:], raw)
        refused = len(violations)
    result = stager.finish(lines=reader.lines, size_bytes=size_bytes, findings=reader.findings)
    yield result_row(result)
