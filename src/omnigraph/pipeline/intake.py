"""Intake: one split of the input to typed rows, judged by the rules of single rows, and staged.

Runs on an executor and must give the same when it is repeated. Rows that break no rule are written
as data files of their tables, uncommitted. Of the others only the keys are kept, so that the checks
across rows see them too. Where the lines of staged rows do not simply follow each other, their
numbers lie in a file beside.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.clock import SystemClock
from omnigraph.embedding import open_embedder
from omnigraph.errors import InternalError
from omnigraph.graph.arrays import one_array
from omnigraph.graph.blob_values import BlobBudget, joined
from omnigraph.graph.graph_lines import GraphLineReader
from omnigraph.graph.load_rows import filled_vectors, json_blobs
from omnigraph.graph.tables import ref_of
from omnigraph.graph.validation import (
    Findings,
    check_rows,
    fit_json_rows,
    follow_respelled,
    gather,
)
from omnigraph.graph.vector_filling import VectorFiller, without_missing_vectors
from omnigraph.ids import UlidSource
from omnigraph.lang.catalog import NodeType
from omnigraph.pipeline.derived_ids import DerivedIds
from omnigraph.pipeline.key_columns import PLACE, stored_names
from omnigraph.pipeline.splits import Split, read_blocks
from omnigraph.pipeline.task_storage import TaskTable, open_task_storage, open_task_table
from omnigraph.settings import load_process_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.graph.external_blobs import ExternalBlobs
    from omnigraph.graph.rows import TableRef
    from omnigraph.graph.validation import FittedRows
    from omnigraph.lang.catalog import Catalog, EdgeType
    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.pieces import Pieces

INTAKE_RESULT: Final = pa.schema([pa.field("result", pa.binary(), nullable=False)])
Numbers: TypeAlias = npt.NDArray[np.int64]

_ALL: Final = 1 << 62
_FLUSH_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakePlan:
    """What is the same for all splits of a job."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeTask:
    """One split, and what is known about it when it is read again."""

    plan: IntakePlan
    ordinal: int
    """Which split of the job, counted from 0."""
    split: Split
    dropped: Mapping[TableRef, frozenset[int]] = field(default_factory=dict)
    """Lines that are left out, by table."""
    respelled: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Ids of nodes that were rewritten, by node type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableIntake:
    """What a split brought to one table."""

    pieces: Pieces
    read: int
    """Records of this type, good and bad."""
    staged: int
    has_given_ids: bool
    """Ids came with the input or follow from its keys: they may repeat or exist already."""
    first_line: int | None = None
    """Line of the first staged row, when all the others follow it one by one."""
    lines_file: str | None = None
    """Else: where the lines are."""
    bad_file: str | None = None
    """Keys of the rows that break a rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeResult:
    """What became of one split."""

    ordinal: int
    lines: int
    size_bytes: int
    tables: Mapping[TableRef, TableIntake]
    findings: Findings
    """With lines of the split, not of the file."""
    respelled: Mapping[str, Mapping[str, str]]


def take_in(task: IntakeTask) -> Iterator[pa.RecordBatch]:
    """The body of a task: one row with the pickled `IntakeResult`."""
    result = _Intake(task).run()
    yield pa.record_batch([pa.array([pickle.dumps(result)], pa.binary())], schema=INTAKE_RESULT)


def read_intake(batch: pa.RecordBatch) -> IntakeResult:
    """What `take_in` gave."""
    result = pickle.loads(batch.column(0)[0].as_py())  # noqa: S301 - our own task pickled it
    if not isinstance(result, IntakeResult):
        raise InternalError(f"an intake gave a {type(result).__name__}")
    return result


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


class _Intake:
    def __init__(self, task: IntakeTask) -> None:
        from omnigraph.storage.input_files import InputFiles

        self._task = task
        self._plan = task.plan
        self._storage: GraphStorage = open_task_storage(task.plan.root)
        self._files = InputFiles(load_process_settings().storage)
        self._reader = GraphLineReader(task.plan.catalog, limit=task.plan.sample)
        self._ids = DerivedIds(
            task.plan.operation_id,
            task.plan.authored_ms,
            source=task.split.source,
            start=task.split.start,
        )
        self._filler = VectorFiller(
            open_embedder=partial(open_embedder, load_process_settings().embedding, SystemClock()),
            fills_nullable=task.plan.embeds_nullable,
        )
        self._held: dict[TableRef, _Held] = {}
        self._findings: list[Findings] = []
        self._respelled: defaultdict[str, dict[str, str]] = defaultdict(dict)

    def run(self) -> IntakeResult:
        lines = size_bytes = 0
        for block in read_blocks(self._files, self._task.split, self._plan.block_bytes):
            rows = block.split(b"\n")
            self._reader.read(rows, first=lines + 1)
            lines += len(rows)
            size_bytes += len(block)
            for records in self._reader.take():
                self._take(records.item, records.rows, np.array(records.lines, np.int64))
        tables = {ref: self._finish(ref, held) for ref, held in self._held.items()}
        return IntakeResult(
            ordinal=self._task.ordinal,
            lines=lines,
            size_bytes=size_bytes,
            tables=tables,
            findings=gather((self._reader.findings, *self._findings), limit=self._plan.sample),
            respelled=dict(self._respelled),
        )

    def _take(
        self, item: NodeType | EdgeType, records: list[dict[str, object]], lines: Numbers
    ) -> None:
        ref = ref_of(item)
        held = self._held.setdefault(ref, _Held(item))
        blobs = BlobBudget(self._plan.external)
        fitted = fit_json_rows(
            item,
            records,
            ids=self._ids,
            lines=pa.array(lines),
            fit_blobs=json_blobs(blobs),
            filled_later=filled_vectors(item),
            limit=_ALL,
        )
        blobs.probe()
        held.read += fitted.table.num_rows
        is_keyed = isinstance(item, NodeType) and item.key is not None
        held.has_given_ids |= is_keyed or any("id" in each for each in records)
        fitted = self._followed(fitted)
        found = check_rows(fitted, limit=_ALL)
        self._findings = [gather((*self._findings, found), limit=self._plan.sample)]
        is_bad = np.zeros(fitted.table.num_rows, np.bool_)
        is_bad[[each.subject.row for each in found.violations if each.subject.row is not None]] = (
            True
        )
        is_kept = ~is_bad
        dropped = self._task.dropped.get(ref)
        if dropped is not None:
            is_kept &= ~np.isin(lines, list(dropped))
        elif is_bad.any():
            held.bad.append(_keys_of(item, fitted.table, lines, is_bad))
        good = fitted.table if is_kept.all() else fitted.table.filter(pa.array(is_kept))
        if self._plan.is_rehearsal:
            good = without_missing_vectors(item, good)
        else:
            good = self._filler.filled(item, good)
        held.tables.append(good)
        held.lines.append(lines[is_kept])
        held.held_bytes += good.nbytes
        if held.held_bytes > _FLUSH_BYTES:
            self._write(ref, held)

    def _followed(self, fitted: FittedRows) -> FittedRows:
        item = fitted.item
        if isinstance(item, NodeType):
            self._respelled[item.name].update(fitted.respelled)
            return fitted
        known = self._task.respelled
        if not known:
            return fitted
        return follow_respelled(fitted, known.get(item.from_type, {}), known.get(item.to_type, {}))

    def _write(self, ref: TableRef, held: _Held) -> None:
        rows = joined(held.item.arrow_schema, held.tables)
        held.tables, held.held_bytes = [], 0
        handle = open_task_table(self._storage, self._plan.tables[ref])
        held.pieces.append(self._storage.tables.write_pieces(handle, rows))

    def _finish(self, ref: TableRef, held: _Held) -> TableIntake:
        from omnigraph.storage.pieces import join_pieces

        if held.tables:
            self._write(ref, held)
        lines = np.concatenate([np.zeros(0, np.int64), *held.lines])
        follows = len(lines) == 0 or bool((np.diff(lines) == 1).all())
        return TableIntake(
            pieces=join_pieces(held.pieces),
            read=held.read,
            staged=len(lines),
            has_given_ids=held.has_given_ids,
            first_line=int(lines[0]) if follows and len(lines) else None,
            lines_file=None
            if follows
            else self._keep(ref, "lines", [pa.record_batch({"line": pa.array(lines)})]),
            bad_file=self._keep(ref, "bad", held.bad) if held.bad else None,
        )

    def _keep(self, ref: TableRef, what: str, batches: list[pa.RecordBatch]) -> str:
        from omnigraph.pipeline.arrow_batches import to_ipc

        # A task that runs twice must not write over what the other run told of.
        run = UlidSource(SystemClock()).next_ulid()
        name = f"{what}-{self._task.ordinal:06d}-{ref.table_id}-{run}"
        path = f"{staging_folder(self._plan.operation_id)}/{name}.arrow"
        self._storage.objects.put(path, to_ipc(batches, batches[0].schema))
        return path


def _keys_of(
    item: NodeType | EdgeType, rows: pa.Table, lines: Numbers, chosen: npt.NDArray[np.bool_]
) -> pa.RecordBatch:
    """What checks across rows look at, of the chosen rows; places are lines of the split."""
    kept = rows.select(stored_names(item)).filter(pa.array(chosen))
    kept = kept.append_column(PLACE, pa.array(lines[chosen], pa.int64())).combine_chunks()
    # A broken row may lack what the table requires.
    fields = [each.with_nullable(nullable=True) for each in kept.schema]
    return pa.RecordBatch.from_arrays(
        [one_array(each) for each in kept.columns], schema=pa.schema(fields)
    )


def staging_folder(operation_id: str) -> str:
    """Where a job keeps what belongs to no table; nothing there is ever part of the graph."""
    return f"__staging/{operation_id}"
