"""Sorting in runs and ranges: every row once, in order, cut alike each time."""

from __future__ import annotations

import itertools
import random  # noqa: TID251 - seeded
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from omnigraph.pipeline.export.sorted_runs import (
    IdRange,
    Run,
    cut_ranges,
    describe_runs,
    gather,
    portions,
    read_range,
    read_runs,
    sorted_by_id,
    write_run,
)
from omnigraph.settings import StorageSettings
from omnigraph.storage.output_files import OutputFolder, find_output

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> OutputFolder:
    settings = StorageSettings()
    return OutputFolder(find_output(tmp_path / "out", settings), settings)


def rows(ids: list[str]) -> pa.Table:
    return pa.table({"id": ids, "length": [len(each) for each in ids]})


def in_runs(folder: OutputFolder, parts: list[list[str]], block_bytes: int) -> list[Run]:
    runs = []
    for number, part in enumerate(parts):
        with folder.writing(f"run-{number}") as file:
            runs.append(write_run(file, sorted_by_id(rows(part)), block_bytes))
    return read_runs([describe_runs(runs)])


def ids_of(folder: OutputFolder, ranges: list[IdRange]) -> list[list[str]]:
    return [
        [
            str(each)
            for each in sorted_by_id(pa.Table.from_batches(read_range(folder, wanted)))[
                "id"
            ].to_pylist()
        ]
        for wanted in ranges
    ]


@pytest.mark.parametrize("seed", range(12))
def test_ranges_hold_every_row_once_and_ascend(seed: int, folder: OutputFolder) -> None:
    order = random.Random(seed)  # noqa: S311 - as above
    names = ["", "é", "\U0001f600", "\uffff", *(str(order.random()) for _ in range(300))]
    order.shuffle(names)
    if seed % 3 == 0:
        names.sort()  # Runs that do not overlap.
    cuts = sorted(order.sample(range(1, len(names)), order.randint(1, 5)))
    parts = [names[start:end] for start, end in itertools.pairwise([0, *cuts, len(names)])]
    runs = in_runs(folder, parts, block_bytes=order.choice([1, 200, 1 << 20]))
    ranges = cut_ranges(runs, range_bytes=order.choice([1, 5_000, 1 << 30]))
    found = ids_of(folder, ranges)
    assert list(itertools.chain.from_iterable(found)) == sorted(names)
    assert all(found)
    assert cut_ranges(list(runs), 5_000) == cut_ranges(runs, 5_000)


def test_a_range_reads_only_the_blocks_that_can_hold_its_ids(folder: OutputFolder) -> None:
    names = [f"{number:04}" for number in range(1_000)]
    runs = in_runs(folder, [names[:500], names[500:]], block_bytes=300)
    total = sum(run.blocks[-1].end for run in runs)
    ranges = cut_ranges(runs, range_bytes=total // 10)
    assert 8 <= len(ranges) <= 12
    read = [sum(each.end - each.start for each in wanted.slices) for wanted in ranges]
    assert sum(read) == total
    assert max(read) < total // 5


def test_one_run_of_one_block_is_one_range(folder: OutputFolder) -> None:
    runs = in_runs(folder, [["b", "a"]], block_bytes=1 << 20)
    (only,) = cut_ranges(runs, 1)
    assert (only.low, only.high) == (None, None)
    assert ids_of(folder, [only]) == [["a", "b"]]


@pytest.mark.parametrize("size", [1, 100, 8_191, 8_192, 8_193, 30_000])
def test_runs_begin_at_the_same_rows_however_a_scan_cuts_its_batches(size: int) -> None:
    table = rows([f"{number:06}" for number in range(30_000)])
    reference = [each.num_rows for each in gather(table.to_batches(), 200_000)]
    found = list(gather(table.to_batches(max_chunksize=size), 200_000))
    assert [each.num_rows for each in found] == reference
    assert len(reference) > 1
    assert pa.concat_tables(found).equals(table)


def test_portions_are_bounded_by_bytes_and_rows() -> None:
    table = rows([f"{number:06}" for number in range(20_000)])
    assert [each.num_rows for each in portions(table, 1 << 30)] == [8_192, 8_192, 3_616]
    assert {each.num_rows for each in portions(table.slice(0, 5), 1)} == {1}
    assert list(portions(table.slice(0, 0), 1)) == []
