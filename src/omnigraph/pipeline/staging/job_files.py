"""The files that a job wrote, noted at once, so that what no commit took can be removed.

An object that a task keeps beside its rows has a name of its own for each attempt: a task that runs
twice must not write over what the other run told of.

What a task gives back is lost when Spark gives up on its stage, and with it the names of its files.
What the driver staged is staged again when others were faster, and the first files are of no use.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.clock import SystemClock
from omnigraph.ids import UlidSource
from omnigraph.pipeline.spark.conform import to_ipc
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.handles import StagedWrite, TableHandle
    from omnigraph.storage.staged_fragments import Pieces


def staging_folder(operation_id: str) -> str:
    """Where a job keeps what belongs to no table; nothing there is ever part of the graph."""
    return f"__staging/{operation_id}"


def remove_folder(storage: GraphStorage, folder: str) -> int:
    """Remove everything below a folder of a job, and the folder; how many files there were."""
    removed = storage.objects.delete_prefix(folder)
    storage.objects.remove_empty_folders(folder)
    return removed


class StagedFiles:
    """The files of the writes that a driver staged, and which of them a commit takes.

    A write that moves to a newer version of its table may be staged again: the commit then takes
    the files of the last staging, and those of the first are nobody's.
    """

    def __init__(self) -> None:
        self.written: set[str] = set()
        """Every file of every staging."""
        self._taken: dict[str, tuple[str, ...]] = {}

    @property
    def taken(self) -> frozenset[str]:
        """What a commit of the writes, as they were staged last, takes."""
        return frozenset(path for each in self._taken.values() for path in each)

    def start_over(self) -> None:
        """What was staged so far is not committed: other writes take its place."""
        self._taken.clear()

    def follow(self, staged: StagedWrite) -> StagedWrite:
        """The same write, of which every later staging is known too."""
        self.written.update(staged.files)
        self._taken[staged.base.layout.location] = staged.files
        rebase = staged.rebase
        if rebase is None:
            return staged
        return replace(staged, rebase=lambda newer: self.follow(rebase(newer)))


def write_noted(
    storage: GraphStorage,
    operation_id: str,
    handle: TableHandle,
    rows: pa.Table,
    *,
    rows_per_file: int | None = None,
) -> Pieces:
    """Stage rows for a table, and note the files."""
    pieces = storage.tables.write_pieces(handle, rows, rows_per_file=rows_per_file)
    note_files(storage, operation_id, storage.tables.piece_files(handle, pieces))
    return pieces


def note_files(storage: GraphStorage, operation_id: str, files: Sequence[str]) -> None:
    """Note what a task of the job wrote, below the root of the graph."""
    keep_object(storage, _notes(operation_id), json.dumps(files).encode(), ".json")


def keep_object(storage: GraphStorage, name: str, data: bytes, suffix: str = "") -> str:
    """Write an object of this attempt, whose path begins with a name; the path."""
    path = f"{name}-{UlidSource(SystemClock()).next_ulid()}{suffix}"
    storage.objects.put(path, data)
    return path


def keep_batches(storage: GraphStorage, name: str, batches: Sequence[pa.RecordBatch]) -> str:
    """Write batches that belong to no table, at least one, as such an object; its path."""
    return keep_object(storage, name, to_ipc(batches, batches[0].schema), ".arrow")


def noted_files(storage: GraphStorage, operation_id: str) -> list[str]:
    """Every file below the root that a task of the job has noted."""
    begin, paths = _notes(operation_id), list[str]()
    for each in storage.objects.list(staging_folder(operation_id)):
        if each.path.startswith(begin):
            try:
                paths += json.loads(storage.objects.get(each.path))
            except ObjectMissing:
                # Whoever took it away has seen to its files.
                continue
    return paths


def _notes(operation_id: str) -> str:
    return f"{staging_folder(operation_id)}/files"
