"""What executors do for an upsert: read ids and places, write rows, mark the old ones as deleted.

Bodies of tasks give the same rows when they are repeated; whatever an attempt wrote that is not
told of is left to cleanup. They import Lance when they are called, never before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import InternalError
from omnigraph.pipeline.spark.errors import describe_failure, is_failure
from omnigraph.pipeline.spark.task_storage import TaskTable, open_task_storage, open_task_table
from omnigraph.pipeline.staging.job_files import keep_object
from omnigraph.pipeline.staging.result_row import result_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.sizes import FragmentInfo
    from omnigraph.storage.staged_fragments import Pieces

OFFSET: Final = np.dtype("<u4")

_STAGED_COLUMNS: Final[Mapping[str, pa.DataType]] = {
    "part": pa.int32(),
    "position": pa.int64(),
    "id": pa.string(),
}
_COMMITTED_COLUMNS: Final[Mapping[str, pa.DataType]] = {
    "id": pa.string(),
    "address": pa.int64(),
    "row_id": pa.int64(),
}
STAGED_IDS: Final = pa.schema(_STAGED_COLUMNS)
COMMITTED_IDS: Final = pa.schema(_COMMITTED_COLUMNS)
PLACES: Final = ("part", "position", "address", "row_id")
"""What a part is told of each of its rows; the last two are null for a new one."""

_OFFSET_BITS: Final = 32
_NOWHERE: Final = -1

_Numbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """What is the same for all tasks of one table."""

    root: str
    base: TaskTable
    view: TaskTable
    offsets_folder: str | None
    """Where offsets of replaced rows are written; `None` when they are returned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePart:
    """Staged fragments whose rows one task writes."""

    number: int
    fragments: tuple[FragmentInfo, ...]
    """As the view numbers them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOffsets:
    """Offsets of replaced rows of one fragment, in a range of an object."""

    path: str
    start: int
    end: int


Offsets: TypeAlias = "bytes | StoredOffsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartResult:
    """What became of the rows of one part."""

    number: int
    pieces: Pieces
    kept: tuple[int, ...]
    """Staged fragments of new rows only, which are taken as they are."""
    replaced: Mapping[int, Offsets]
    """By fragment of the table."""
    unchanged: int = 0
    """Rows that are in the table as they are, and were left out."""
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IdScan:
    """Fragments whose ids are read."""

    root: str
    table: TaskTable
    fragments: tuple[int, ...]
    part: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """Fragments of a table, each with the offsets of its replaced rows."""

    root: str
    table: TaskTable
    replaced: Mapping[int, tuple[Offsets, ...]]


def scan_staged(task: IdScan) -> Iterator[pa.RecordBatch]:
    """The ids of a part, with their positions in it."""
    storage = open_task_storage(task.root)
    view = open_task_table(storage, task.table)
    start = 0
    for batch in storage.tables.scan(view, columns=["id"], fragments=task.fragments):
        end = start + batch.num_rows
        yield pa.record_batch(
            {
                "part": pa.array(np.full(batch.num_rows, task.part, np.int32)),
                "position": pa.array(np.arange(start, end, dtype=np.int64)),
                "id": batch.column("id"),
            }
        )
        start = end


def scan_committed(task: IdScan) -> Iterator[pa.RecordBatch]:
    """The ids of committed rows, with where they lie and by which row ids they are known."""
    from omnigraph.storage.reading import ROW_ADDRESS, ROW_ID

    storage = open_task_storage(task.root)
    for batch in storage.tables.scan(
        open_task_table(storage, task.table),
        columns=["id"],
        fragments=task.fragments,
        with_row_ids=True,
        with_row_addresses=True,
    ):
        yield pa.record_batch(
            {
                "id": batch.column("id"),
                "address": batch.column(ROW_ADDRESS),
                "row_id": batch.column(ROW_ID),
            }
        )


@dataclass(frozen=True, kw_only=True)
class PartBody:
    """The body of a partition that holds the places of the rows of one part."""

    plan: MergePlan
    parts: tuple[MergePart, ...]
    write: Callable[[MergePlan, MergePart, pa.Table], PartResult]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row with the pickled `PartResult`."""
        from pyspark import TaskContext

        filled_batches = [batch for batch in batches if batch.num_rows]
        if not filled_batches:
            return
        places = pa.Table.from_batches(filled_batches)
        part = self.parts[places["part"][0].as_py()]
        context = TaskContext.get()
        attempt = 1 if context is None else context.attemptNumber() + 1
        try:
            result = self.write(self.plan, part, places)
        except BaseException as error:
            if not is_failure(error):
                raise
            failure = describe_failure(error, partition=part.number, attempt=attempt)
            raise failure.to_exception() from error
        yield result_row(replace(result, attempt=attempt))


def write_part(plan: MergePlan, part: MergePart, places: pa.Table) -> PartResult:
    """Write the rows of a part: new forms under the row ids of the old ones, and new rows.

    Raises:
        InternalError: a row of the part has no place, or more than one.
    """
    from omnigraph.storage.staged_fragments import Pieces

    placed = places.sort_by("position")
    row_ids, addresses = _numbers(placed, "row_id"), _numbers(placed, "address")
    count = sum(each.rows for each in part.fragments)
    if not np.array_equal(_numbers(placed, "position"), np.arange(count)):
        raise InternalError(
            f"{plan.base.layout.table_key}: {count} staged rows of an upsert have"
            f" {places.num_rows} places, so some id is in the table twice; please report this"
        )
    kept, mixed, is_mixed = _divided(part, row_ids)
    storage = open_task_storage(plan.root)
    pieces, is_equal = Pieces(), np.zeros(len(row_ids), np.bool_)
    if mixed:
        pieces, is_equal[is_mixed] = _write_rows(storage, plan, mixed, row_ids[is_mixed])
    return PartResult(
        number=part.number,
        pieces=pieces,
        kept=kept,
        replaced=_replaced(storage, plan, part, addresses[(addresses != _NOWHERE) & ~is_equal]),
        unchanged=int(is_equal.sum()),
    )


def _numbers(places: pa.Table, name: str) -> _Numbers:
    return places[name].fill_null(pa.scalar(_NOWHERE, pa.int64())).to_numpy()


def _divided(
    part: MergePart, row_ids: _Numbers
) -> tuple[tuple[int, ...], tuple[int, ...], npt.NDArray[np.bool_]]:
    """Fragments of new rows only, the other fragments, and which rows are in these."""
    kept: list[int] = []
    mixed: list[int] = []
    is_mixed = np.zeros(len(row_ids), np.bool_)
    start = 0
    for each in part.fragments:
        end = start + each.rows
        if (row_ids[start:end] == _NOWHERE).all():
            kept.append(each.fragment_id)
        else:
            mixed.append(each.fragment_id)
            is_mixed[start:end] = True
        start = end
    return tuple(kept), tuple(mixed), is_mixed


def _write_rows(
    storage: GraphStorage, plan: MergePlan, fragments: tuple[int, ...], row_ids: _Numbers
) -> tuple[Pieces, npt.NDArray[np.bool_]]:
    """What was written, and which rows are in the table as they are."""
    from omnigraph.graph.load.equal_rows import equal_to_stored
    from omnigraph.storage.staged_fragments import join_pieces

    store = storage.tables
    base = open_task_table(storage, plan.base)
    rows = store.read_staged(open_task_table(storage, plan.view), fragments)
    if rows.num_rows != len(row_ids):
        raise InternalError(
            f"{plan.base.layout.table_key}: {rows.num_rows} staged rows were read for"
            f" {len(row_ids)} places; please report this"
        )
    is_equal = equal_to_stored(store, base, rows, row_ids)
    known = np.flatnonzero((row_ids != _NOWHERE) & ~is_equal)
    new = np.flatnonzero(row_ids == _NOWHERE)
    known = known[np.argsort(row_ids[known])]
    pieces = join_pieces(
        [
            store.write_changed(base, rows.take(known), row_ids[known].tolist()),
            store.write_pieces(base, rows.take(new)),
        ]
    )
    return pieces, is_equal


def _replaced(
    storage: GraphStorage, plan: MergePlan, part: MergePart, addresses: _Numbers
) -> dict[int, Offsets]:
    """The offsets of replaced rows by fragment, or where they were written."""
    if not len(addresses):
        return {}
    if plan.offsets_folder is not None:
        name = f"{part.number:06d}-{plan.base.layout.table_id}"
        return dict(keep_offsets(storage, plan.offsets_folder, name, addresses))
    offsets, spans = _by_fragment(addresses)
    return {number: offsets[start:end].tobytes() for number, (start, end) in spans.items()}


def keep_offsets(
    storage: GraphStorage, folder: str, name: str, addresses: _Numbers
) -> dict[int, StoredOffsets]:
    """Write the offsets of rows at these addresses; where those of each fragment are."""
    offsets, spans = _by_fragment(addresses)
    path = keep_object(storage, f"{folder}/offsets-{name}", offsets.tobytes())
    size = OFFSET.itemsize
    return {
        number: StoredOffsets(path=path, start=start * size, end=end * size)
        for number, (start, end) in spans.items()
    }


def _by_fragment(
    addresses: _Numbers,
) -> tuple[npt.NDArray[np.uint32], dict[int, tuple[int, int]]]:
    """The offsets of rows, and by fragment which of them are its own."""
    ordered = np.sort(addresses)
    offsets = (ordered & ((1 << _OFFSET_BITS) - 1)).astype(OFFSET)
    numbers, starts = np.unique(ordered >> _OFFSET_BITS, return_index=True)
    ends = [*starts[1:].tolist(), len(ordered)]
    spans = zip(starts.tolist(), ends, strict=True)
    return offsets, dict(zip(numbers.tolist(), spans, strict=True))


def delete_replaced(task: Deletion) -> Iterator[pa.RecordBatch]:
    """Mark the old forms of replaced rows as deleted; one row with the pickled `Pieces`.

    Raises:
        InternalError: a row is replaced twice.
    """
    from omnigraph.storage.staged_fragments import join_pieces

    storage = open_task_storage(task.root)
    base = open_task_table(storage, task.table)
    pieces: list[Pieces] = []
    for fragment, parts in task.replaced.items():
        addresses = np.concatenate([read_addresses(storage, fragment, each) for each in parts])
        if len(np.unique(addresses)) != len(addresses):
            raise InternalError(
                f"{task.table.layout.table_key}: an upsert replaces a row of fragment {fragment}"
                " twice, so some id is in its input twice; please report this"
            )
        pieces.append(storage.tables.delete_addresses(base, addresses.tolist()))
    yield result_row(join_pieces(pieces))


def read_addresses(storage: GraphStorage, fragment: int, offsets: Offsets) -> _Numbers:
    """The addresses of rows of a fragment whose offsets were returned or kept."""
    if isinstance(offsets, StoredOffsets):
        offsets = storage.objects.get_range(offsets.path, offsets.start, offsets.end)
    return np.frombuffer(offsets, OFFSET).astype(np.int64) | (fragment << _OFFSET_BITS)
