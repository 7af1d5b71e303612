"""Which rows of a frame are of which file, where Spark reads files.

A frame carries a number for the file and the start of the block with each row: two integers, so
that they cost little on their way to the tasks. A task keeps only where they change. Blocks of a
file are read whole and in order, so the driver can say at which row of its file a row stands. Where
an expression moved rows between partitions it cannot, and says so.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from omnigraph.storage.input_files import InputFile

_FILE: Final = "omnigraph:file"
_BLOCK: Final = "omnigraph:block"
ORIGIN: Final = (_FILE, _BLOCK)
"""Columns that say where a row comes from; no property and no part of a key is named so."""

_MOST_RUNS: Final = 10_000
_UNESCAPED: Final = "/_-!.~'()*,;:$&+=@"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRun:
    """Rows of one block of one file that follow each other in a partition."""

    file: int
    block: int
    rows: int


def with_origin(frame: DataFrame) -> DataFrame:
    """The frame of files with the columns of `ORIGIN`."""
    from pyspark.sql import functions as f

    known = frame.metadataColumn("_metadata")
    return frame.select(
        "*",
        f.crc32(known.getField("file_path").cast("binary")).alias(_FILE),
        known.getField("file_block_start").alias(_BLOCK),
    )


class RunCounter:
    """Takes the columns of `ORIGIN` off the batches of a partition, and keeps what they say."""

    def __init__(self) -> None:
        self._runs: list[RowRun] = []
        self._is_complete = True

    @property
    def runs(self) -> tuple[RowRun, ...]:
        """Of all batches that were taken; none if nothing can be told."""
        return tuple(self._runs) if self._is_complete else ()

    def without_origin(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, with the columns of values only."""
        for batch in batches:
            if _FILE not in batch.schema.names:
                yield batch
                continue
            self._count(*(batch.column(name).to_numpy(zero_copy_only=False) for name in ORIGIN))
            yield batch.drop_columns(list(ORIGIN))

    def _count(
        self,
        files: npt.NDArray[np.int64],
        blocks: npt.NDArray[np.int64],
    ) -> None:
        changes = np.flatnonzero((np.diff(files) != 0) | (np.diff(blocks) != 0)) + 1
        if not len(files) or not self._is_complete:
            return
        if len(self._runs) + len(changes) > _MOST_RUNS:
            self._is_complete = False
            return
        starts = [0, *changes.tolist()]
        for start, end in zip(starts, [*starts[1:], len(files)], strict=True):
            self._add(RowRun(file=int(files[start]), block=int(blocks[start]), rows=end - start))

    def _add(self, run: RowRun) -> None:
        last = self._runs[-1] if self._runs else None
        if last is not None and (last.file, last.block) == (run.file, run.block):
            self._runs[-1] = RowRun(file=run.file, block=run.block, rows=last.rows + run.rows)
        else:
            self._runs.append(run)


def find_row(
    parts: Sequence[Sequence[RowRun]], part: int, line: int, files: Mapping[int, InputFile | None]
) -> tuple[InputFile, int] | None:
    """The file of a row of a part, and its number there; `None` if it is not known."""
    run, within = _run_at(parts[part], line)
    file = None if run is None else files.get(run.file)
    if run is None or file is None:
        return None
    of_file = [each for runs in parts for each in runs if each.file == run.file]
    if len({each.block for each in of_file}) < len(of_file):
        # A block was cut up: rows were moved.
        return None
    return file, sum(each.rows for each in of_file if each.block < run.block) + within


def file_numbers(files: Sequence[InputFile]) -> dict[int, InputFile | None]:
    """Files by the numbers that frames give them; `None` where two files have the same."""
    by_number: dict[int, InputFile | None] = {}
    for each in files:
        number = zlib.crc32(_spelled(each.uri).encode())
        by_number[number] = None if number in by_number else each
    return by_number


def _run_at(runs: Sequence[RowRun], line: int) -> tuple[RowRun | None, int]:
    for run in runs:
        if line <= run.rows:
            return run, line
        line -= run.rows
    return None, 0


def _spelled(uri: str) -> str:
    """An address as Spark shows it."""
    scheme, path = ("s3a:", uri[3:]) if uri.startswith("s3://") else ("file:", uri)
    return scheme + "".join(
        each if ord(each) > 127 else quote(each, safe=_UNESCAPED) for each in path
    )
