"""Sorting a table that no process can hold: runs, each sorted by id, then ranges of ids over them.

A task sorts what fits, writes it as a run of blocks, and tells where each block begins. From the
beginnings the driver cuts ranges of about equal size; whoever gets a range reads of every run only
the blocks that can hold its ids. So rows are written and read once more than in a plain copy, and
never compared with all others. Runs and ranges follow from the fragments of the pinned version
alone: they are the same on every cluster.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.pipeline.spark.conform import to_ipc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from omnigraph.storage.output_files import OutputFile, OutputFolder

_CHUNK_ROWS: Final = 8_192
_COLUMNS: Final[Mapping[str, pa.DataType]] = {
    "path": pa.string(),
    "first_id": pa.string(),
    "last_id": pa.string(),
    "start": pa.int64(),
    "end": pa.int64(),
}
BLOCKS: Final = pa.schema(_COLUMNS)
"""The blocks of runs as the result of a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Rows of a run that are read together."""

    first_id: str
    last_id: str
    start: int
    """Where its bytes begin in the file of the run."""
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Sorted rows in one file."""

    path: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSlice:
    """The bytes of a run that can hold ids of a range."""

    path: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IdRange:
    """The ids from `low` on and below `high`; `None` is no bound."""

    low: str | None
    high: str | None
    slices: tuple[RunSlice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bounds:
    """A run with the ids at which its blocks begin and end, to be searched."""

    path: str
    blocks: tuple[Block, ...]
    firsts: tuple[str, ...]
    lasts: tuple[str, ...]

    @classmethod
    def of(cls, run: Run) -> _Bounds:
        return cls(
            path=run.path,
            blocks=run.blocks,
            firsts=tuple(each.first_id for each in run.blocks),
            lasts=tuple(each.last_id for each in run.blocks),
        )


def sorted_by_id(rows: pa.Table) -> pa.Table:
    """The rows in the order of their ids, in one piece."""
    ids = rows["id"]
    if len(ids) < 2 or pc.all(pc.less(ids.slice(0, len(ids) - 1), ids.slice(1))).as_py():
        return rows.combine_chunks()
    return rows.take(pc.sort_indices(ids)).combine_chunks()


def gather(batches: Iterable[pa.RecordBatch], run_bytes: int) -> Iterator[pa.Table]:
    """The rows in portions of about so many bytes, wherever their batches begin and end."""
    held: list[pa.Table] = []
    size_bytes = 0
    for chunk in _chunks(batches):
        held.append(chunk)
        size_bytes += chunk.nbytes
        if size_bytes >= run_bytes:
            yield pa.concat_tables(held)
            held, size_bytes = [], 0
    if held:
        yield pa.concat_tables(held)


def write_run(file: OutputFile, rows: pa.Table, block_bytes: int) -> Run:
    """Write sorted rows as blocks of about so many bytes."""
    path = file.written.path
    blocks: list[Block] = []
    start = 0
    for portion in portions(rows, block_bytes):
        end = start + file.write(to_ipc(portion.to_batches(), portion.schema))
        first, last = (str(portion["id"][at].as_py()) for at in (0, -1))
        blocks.append(Block(first_id=first, last_id=last, start=start, end=end))
        start = end
    return Run(path=path, blocks=tuple(blocks))


def portions(rows: pa.Table, size_bytes: int) -> Iterator[pa.Table]:
    """The rows in portions of about so many bytes, at most 8,192 rows each."""
    if not rows.num_rows:
        return
    row_bytes = max(rows.nbytes // rows.num_rows, 1)
    count = max(min(size_bytes // row_bytes, _CHUNK_ROWS), 1)
    for start in range(0, rows.num_rows, count):
        yield rows.slice(start, count)


def cut_ranges(runs: Sequence[Run], range_bytes: int) -> list[IdRange]:
    """Ranges of about so many bytes that together hold every id once; at least one."""
    blocks = sorted((each for run in runs for each in run.blocks), key=lambda each: each.first_id)
    total = sum(each.end - each.start for each in blocks)
    target = total / max(-(-total // range_bytes), 1)
    bounds: list[str] = []
    passed = 0
    for each in blocks:
        if passed >= target * (len(bounds) + 1):
            bounds.append(each.first_id)
        passed += each.end - each.start
    lows, highs = [None, *bounds], [*bounds, None]
    run_bounds = [_Bounds.of(run) for run in runs]
    return [
        IdRange(low=low, high=high, slices=tuple(_slices(run_bounds, low, high)))
        for low, high in zip(lows, highs, strict=True)
    ]


def read_range(folder: OutputFolder, wanted: IdRange) -> Iterator[pa.RecordBatch]:
    """The rows of a range, sorted within each run only."""
    for each in wanted.slices:
        data = pa.BufferReader(folder.read(each.path, each.start, each.end))
        while data.tell() < data.size():
            with pa.ipc.open_stream(data) as stream:
                for batch in stream:
                    yield _within(batch, wanted)


def describe_runs(runs: Iterable[Run]) -> pa.RecordBatch:
    """Runs as the result of a task."""
    rows = [
        {
            "path": run.path,
            "first_id": each.first_id,
            "last_id": each.last_id,
            "start": each.start,
            "end": each.end,
        }
        for run in runs
        for each in run.blocks
    ]
    return pa.RecordBatch.from_pylist(rows, BLOCKS)


def read_runs(batches: Iterable[pa.RecordBatch]) -> list[Run]:
    """The runs of `describe_runs`, in order."""
    by_path: dict[str, list[Block]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            by_path.setdefault(row.pop("path"), []).append(Block(**row))
    return [Run(path=path, blocks=tuple(blocks)) for path, blocks in by_path.items()]


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows in pieces of 8,192 rows: where a scan cuts its batches is not promised."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            piece = batch.slice(start, _CHUNK_ROWS - count)
            held.append(piece)
            count += piece.num_rows
            start += piece.num_rows
            if count == _CHUNK_ROWS:
                yield pa.Table.from_batches(held)
                held, count = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _slices(runs: Iterable[_Bounds], low: str | None, high: str | None) -> Iterator[RunSlice]:
    for run in runs:
        begin = 0 if low is None else bisect_left(run.lasts, low)
        end = len(run.firsts) if high is None else bisect_left(run.firsts, high)
        if begin < end:
            yield RunSlice(
                path=run.path, start=run.blocks[begin].start, end=run.blocks[end - 1].end
            )


def _within(batch: pa.RecordBatch, wanted: IdRange) -> pa.RecordBatch:
    ids = batch.column("id")
    start, end = 0, batch.num_rows
    if wanted.low is not None:
        start = pc.less(ids, pa.scalar(wanted.low)).true_count
    if wanted.high is not None:
        end = pc.less(ids, pa.scalar(wanted.high)).true_count
    return batch.slice(start, max(end - start, 0))
