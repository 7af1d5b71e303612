"""Intake: typed rows, judged by the rules of single rows, and staged.

Runs on an executor and must give the same when it is repeated. Rows that break no rule are written
as data files of their tables, uncommitted. Of the others only the keys are kept, so that the checks
across rows see them too. Where the lines of staged rows do not simply follow each other, their
numbers lie in a file beside.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.clock import SystemClock
from omnigraph.embedding import open_embedder
from omnigraph.graph.arrays import one_array
from omnigraph.graph.blobs.blob_values import joined
from omnigraph.graph.blobs.unseen_blobs import with_unseen_blobs
from omnigraph.graph.load.partial_rows import CommittedValues
from omnigraph.graph.load.vector_filling import VectorFiller, without_missing_vectors
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.graph.validation import ALL_ROWS, Findings, check_rows, gather
from omnigraph.graph.validation.relation_rules import compared_columns
from omnigraph.lang.catalog import NodeType
from omnigraph.pipeline.intake.part_findings import keep_findings
from omnigraph.pipeline.intake.part_rejects import PartRejects
from omnigraph.pipeline.spark.task_storage import TaskTable, open_task_storage, open_task_table
from omnigraph.pipeline.staging.job_files import keep_batches, staging_folder, write_noted
from omnigraph.pipeline.staging.key_columns import PLACE
from omnigraph.pipeline.staging.part_result import (
    IntakeResult,
    TableIntake,
)
from omnigraph.pipeline.staging.vector_cache import PaidVectors
from omnigraph.settings import load_process_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from omnigraph.graph.blobs.addresses import ExternalBlobs
    from omnigraph.graph.blobs.blob_values import BlobBudget
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import FittedRows, Violation
    from omnigraph.lang.catalog import Catalog, EdgeType
    from omnigraph.pipeline.intake.part_rejects import RawRow
    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.staged_fragments import Pieces

Numbers: TypeAlias = npt.NDArray[np.int64]

_FLUSH_BYTES: Final = 64 << 20
"""Rows of one table that wait to be written."""
_HELD_BYTES: Final = 256 << 20
"""Rows of all tables: a part may hold rows of any number of types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakePlan:
    """What is the same for all parts of a job."""

    root: str
    operation_id: str
    authored_ms: int
    catalog: Catalog
    tables: Mapping[TableRef, TaskTable]
    """Where rows of each type are written."""
    external: ExternalBlobs
    embeds_nullable: bool
    """Vectors that may be null are filled too, not only the required ones."""
    is_rehearsal: bool
    """Nothing will be committed: no embedder is asked, and vectors to be filled are zero."""
    block_bytes: int
    sample: int
    """How many violations a task reports."""
    rows_per_file: int
    """How many rows a data file may have."""
    paid_folder: str | None = None
    """Where vectors are kept that an embedder gave, so that nothing is paid for twice."""
    keeps_values: bool = False
    """What a row does not mention is taken from the committed row of its id, in `tables`."""
    must_exist: bool = False
    """A row whose id is not committed breaks a rule."""
    keeps_rejects: int | None = None
    """How many bad rows a task keeps whole; `None`: nobody asks for them."""


def stored_rows(plan: IntakePlan) -> CommittedValues | None:
    """Where rows take what they do not mention."""
    if not plan.keeps_values:
        return None
    storage = open_task_storage(plan.root)
    return CommittedValues(
        store=storage.tables,
        table=lambda item: open_task_table(storage, plan.tables[ref_of(item)]),
        must_exist=plan.must_exist,
    )


def look_for_blobs(plan: IntakePlan, rows: FittedRows, blobs: BlobBudget) -> FittedRows:
    """The rows, after their blobs outside the graph were looked for.

    Raises:
        ExternalBlobSource: one could not be looked at, and nobody asks for bad rows.
    """
    if plan.keeps_rejects is not None:
        return with_unseen_blobs(rows, blobs, limit=ALL_ROWS)
    blobs.probe()
    return rows


def _of_part(findings: Findings) -> Findings:
    """The same, in the order of the part: rows are counted within what is taken at once."""
    violations = tuple(
        replace(each, subject=replace(each.subject, row=each.subject.input_line))
        for each in findings.violations
    )
    return replace(findings, violations=violations)


@dataclass
class _Held:
    """Rows of one table that wait to be written, and what was written."""

    item: NodeType | EdgeType
    tables: list[pa.Table] = field(default_factory=list)
    held_bytes: int = 0
    lines: list[Numbers] = field(default_factory=list)
    bad: list[pa.RecordBatch] = field(default_factory=list)
    pieces: list[Pieces] = field(default_factory=list)
    read: int = 0
    has_given_ids: bool = False


class RowStager:
    """Takes the rows of one part of the input and writes those that break no rule."""

    def __init__(self, plan: IntakePlan, ordinal: int) -> None:
        self._plan = plan
        self._ordinal = ordinal
        self._storage: GraphStorage = open_task_storage(plan.root)
        self._paid = (
            None
            if plan.paid_folder is None
            else PaidVectors(self._storage.objects, f"{plan.paid_folder}/{ordinal:06d}")
        )
        self._filler = VectorFiller(
            open_embedder=partial(open_embedder, load_process_settings().embedding, SystemClock()),
            fills_nullable=plan.embeds_nullable,
            memory=self._paid,
        )
        self._held: dict[TableRef, _Held] = {}
        self._findings = Findings()
        self._respelled: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self._rejects = PartRejects(plan.keeps_rejects)

    def refuse(self, found: Iterable[Violation], raw: RawRow) -> None:
        """Lines that are no records; `raw` gives the text of a line."""
        self._rejects.add(None, found, raw)

    def take(self, fitted: FittedRows, lines: Numbers, raw: RawRow, *, has_given_ids: bool) -> None:
        """Rows of one type, with their lines in the part, which ascend over all calls."""
        item = fitted.item
        ref = ref_of(item)
        held = self._held.setdefault(ref, _Held(item))
        held.read += fitted.table.num_rows
        if isinstance(item, NodeType):
            self._respelled[item.name].update(fitted.respelled)
            has_given_ids |= item.key is not None
        held.has_given_ids |= has_given_ids
        findings = check_rows(fitted, limit=ALL_ROWS)
        self._findings = gather((self._findings, _of_part(findings)), limit=self._plan.sample)
        is_bad = np.zeros(fitted.table.num_rows, np.bool_)
        is_bad[
            [each.subject.row for each in findings.violations if each.subject.row is not None]
        ] = True
        good = fitted.table
        if is_bad.any():
            self._rejects.add(ref, findings.violations, raw)
            held.bad.append(_keys_of(item, fitted.table, lines, is_bad))
            good = good.filter(pa.array(~is_bad))
        if self._plan.is_rehearsal:
            good = without_missing_vectors(item, good)
        else:
            good = self._filler.filled(item, good)
        held.tables.append(good)
        held.lines.append(lines[~is_bad])
        held.held_bytes += good.nbytes
        if held.held_bytes > _FLUSH_BYTES:
            self._write(ref, held)
        elif sum(each.held_bytes for each in self._held.values()) > _HELD_BYTES:
            self._write(*max(self._held.items(), key=lambda each: each[1].held_bytes))

    def finish(
        self, *, lines: int, size_bytes: int, findings: Findings | None = None
    ) -> IntakeResult:
        """Write what is left; the result of the part, with findings from before `take`."""
        self._filler.close()
        tables = {ref: self._finish(ref, held) for ref, held in self._held.items()}
        folder, sample = staging_folder(self._plan.operation_id), self._plan.sample
        all_findings = gather((findings or Findings(), self._findings), limit=sample)
        return IntakeResult(
            ordinal=self._ordinal,
            lines=lines,
            size_bytes=size_bytes,
            tables=tables,
            findings=keep_findings(
                self._storage, folder, self._ordinal, all_findings, sample=sample
            ),
            respelled=dict(self._respelled),
            no_records=0 if findings is None else findings.total,
            rejects=self._rejects.keep(self._storage, folder, self._ordinal),
            spent_files=() if self._paid is None else self._paid.spent(),
        )

    def _write(self, ref: TableRef, held: _Held) -> None:
        rows = joined(held.item.arrow_schema, held.tables)
        held.tables, held.held_bytes = [], 0
        handle = open_task_table(self._storage, self._plan.tables[ref])
        held.pieces.append(
            write_noted(
                self._storage,
                self._plan.operation_id,
                handle,
                rows,
                rows_per_file=self._plan.rows_per_file,
            )
        )

    def _finish(self, ref: TableRef, held: _Held) -> TableIntake:
        from omnigraph.storage.staged_fragments import join_pieces

        if held.tables:
            self._write(ref, held)
        lines = np.concatenate([np.zeros(0, np.int64), *held.lines])
        kept = keep_lines(self._storage, self._plan.operation_id, self._ordinal, ref, lines)
        return TableIntake(
            pieces=join_pieces(held.pieces),
            read=held.read,
            staged=len(lines),
            has_given_ids=held.has_given_ids,
            first_line=kept.first_line,
            lines_file=kept.lines_file,
            bad_file=None
            if not held.bad
            else keep_batches(
                self._storage,
                part_object(self._plan.operation_id, "bad", self._ordinal, ref),
                held.bad,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLines:
    """Where the lines of staged rows are told."""

    first_line: int | None
    lines_file: str | None


def keep_lines(
    storage: GraphStorage, operation_id: str, ordinal: int, ref: TableRef, lines: Numbers
) -> KeptLines:
    """The lines of staged rows: the first of them, or a file with all."""
    follows = len(lines) == 0 or bool((np.diff(lines) == 1).all())
    if follows:
        return KeptLines(first_line=int(lines[0]) if len(lines) else None, lines_file=None)
    name = part_object(operation_id, "lines", ordinal, ref)
    batch = pa.record_batch({"line": pa.array(lines)})
    return KeptLines(first_line=None, lines_file=keep_batches(storage, name, [batch]))


def part_object(operation_id: str, what: str, ordinal: int, ref: TableRef) -> str:
    """The name of what a job keeps of the rows of one table in one part."""
    return f"{staging_folder(operation_id)}/{what}-{ordinal:06d}-{ref.table_id}"


def _keys_of(
    item: NodeType | EdgeType, rows: pa.Table, lines: Numbers, chosen: npt.NDArray[np.bool_]
) -> pa.RecordBatch:
    """What checks across rows look at, of the chosen rows; places are lines of the part."""
    kept = rows.select(compared_columns(item)).filter(pa.array(chosen))
    kept = kept.append_column(PLACE, pa.array(lines[chosen], pa.int64())).combine_chunks()
    # A broken row may lack what the table requires.
    fields = [each.with_nullable(nullable=True) for each in kept.schema]
    return pa.RecordBatch.from_arrays(
        [one_array(each) for each in kept.columns], schema=pa.schema(fields)
    )
