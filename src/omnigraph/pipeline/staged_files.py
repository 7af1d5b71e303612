"""The files that the tasks of a job wrote, noted at once, so that a job that fails removes them.

What a task gives back is lost when Spark gives up on its stage, and with it the names of its files.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from omnigraph.clock import SystemClock
from omnigraph.ids import UlidSource

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.pieces import Pieces


def staging_folder(operation_id: str) -> str:
    """Where a job keeps what belongs to no table; nothing there is ever part of the graph."""
    return f"__staging/{operation_id}"


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
    files = storage.tables.piece_files(handle, pieces)
    # A task that runs twice must not write over what the other run told of.
    run = UlidSource(SystemClock()).next_ulid()
    storage.objects.put(f"{_notes(operation_id)}-{run}.json", json.dumps(files).encode())
    return pieces


def noted_files(storage: GraphStorage, operation_id: str) -> list[str]:
    """Every file below the root that a task of the job has noted."""
    begin = _notes(operation_id)
    return [
        path
        for each in storage.objects.list(staging_folder(operation_id))
        if each.path.startswith(begin)
        for path in json.loads(storage.objects.get(each.path))
    ]


def _notes(operation_id: str) -> str:
    return f"{staging_folder(operation_id)}/files"
