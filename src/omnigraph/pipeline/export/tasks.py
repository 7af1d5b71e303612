"""What the tasks of an export do: sort parts of a table into runs, and write files in order of id.

A task gets pinned versions and opens everything itself. It writes below the temporary folder only,
and the same bytes whenever it runs.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from omnigraph.errors import SnapshotReclaimed
from omnigraph.graph.manifest.table_refs import key_of
from omnigraph.pipeline.export.sorted_runs import (
    IdRange,
    describe_runs,
    gather,
    read_range,
    sorted_by_id,
    write_run,
)
from omnigraph.pipeline.spark.task_storage import TaskTable, open_task_storage, open_task_table
from omnigraph.settings import load_process_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.lang.catalog import EdgeType, NodeType
    from omnigraph.pipeline.export.format import ExportFormat
    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.output_files import OutputFolder

_SCAN_BYTES: Final = 8 << 20
_COLUMNS: Final[Mapping[str, pa.DataType]] = {
    "rows": pa.int64(),
    "size_bytes": pa.int64(),
    "sha256": pa.string(),
}
FILES: Final = pa.schema(_COLUMNS)
"""What a task tells of the file that it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedTable:
    """A table of the snapshot, as tasks get it."""

    root: str
    """Of the graph."""
    out: str
    commit_id: str
    item: NodeType | EdgeType
    table: TaskTable
    rows: int

    @property
    def key(self) -> str:
        """`node:Person` or `edge:Knows`."""
        return key_of(self.item)

    @property
    def file_stem(self) -> str:
        """What the names of its files begin with."""
        return f"part-{self.key.replace(':', '-')}"

    @property
    def columns(self) -> list[str]:
        """The columns that are read with the rows; blobs are fetched by row id."""
        return [
            name for name in self.item.arrow_schema.names if name not in self.item.blob_properties
        ]

    @property
    def with_row_ids(self) -> bool:
        """Whether rows must tell who they are to be completed."""
        return bool(self.item.blob_properties)


@dataclass(frozen=True, slots=True, kw_only=True)
class SortTask:
    """Fragments whose rows become runs."""

    table: ExportedTable
    fragments: tuple[int, ...]
    path: str
    """What the paths of the runs begin with."""
    run_bytes: int
    block_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """One file."""

    table: ExportedTable
    form: ExportFormat
    path: str
    ids: IdRange | None
    """Which rows, of which runs; `None` is the whole table, read as it lies."""


def sort_rows(task: SortTask) -> Iterator[pa.RecordBatch]:
    """Write the rows of the fragments as sorted runs; their blocks."""
    storage = open_task_storage(task.table.root)
    folder = open_output(task.table.out)
    handle = _open(storage, task.table)
    runs = []
    batches = _scan(storage, handle, task.table, task.fragments)
    for number, rows in enumerate(gather(batches, task.run_bytes)):
        with folder.writing(f"{task.path}-{number:05d}.arrow") as file:
            runs.append(write_run(file, sorted_by_id(rows), task.block_bytes))
    yield describe_runs(runs)


def write_file(task: WriteTask) -> Iterator[pa.RecordBatch]:
    """Write one file, sorted by id; how long it is and what it hashes to."""
    from omnigraph.pipeline.export.writers import write_rows

    table = task.table
    storage = open_task_storage(table.root)
    folder = open_output(table.out)
    handle = _open(storage, table)
    batches = _scan(storage, handle, table) if task.ids is None else read_range(folder, task.ids)
    rows = sorted_by_id(pa.Table.from_batches(batches, _schema(table)))
    with folder.writing(task.path) as file, _reclaimed(table):
        write_rows(task.form, file, table.item, handle, rows)
    written = file.written
    yield pa.RecordBatch.from_pylist(
        [{"rows": rows.num_rows, "size_bytes": written.size_bytes, "sha256": written.sha256}],
        FILES,
    )


def open_output(out: str) -> OutputFolder:
    """The folder of an export, with the settings of this process."""
    from omnigraph.storage.output_files import OutputFolder, find_output

    settings = load_process_settings().storage
    return OutputFolder(find_output(out, settings), settings)


def _open(storage: GraphStorage, table: ExportedTable) -> TableHandle:
    with _reclaimed(table):
        return open_task_table(storage, table.table)


def _scan(
    storage: GraphStorage,
    handle: TableHandle,
    table: ExportedTable,
    fragments: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    with _reclaimed(table):
        yield from storage.tables.scan(
            handle,
            columns=table.columns,
            with_row_ids=table.with_row_ids,
            fragments=fragments,
            batch_bytes=_SCAN_BYTES,
        )


def _schema(table: ExportedTable) -> pa.Schema:
    from omnigraph.storage.reading import ROW_ID

    stored = table.item.arrow_schema
    fields = [stored.field(name) for name in table.columns]
    return pa.schema([*fields, pa.field(ROW_ID, pa.uint64())] if table.with_row_ids else fields)


@contextmanager
def _reclaimed(table: ExportedTable) -> Iterator[None]:
    """Say of files of the graph that are gone what became of them."""
    from omnigraph.storage.signals import ObjectMissing

    try:
        yield
    except ObjectMissing as error:
        raise SnapshotReclaimed(
            f"the version of {table.item.name} at commit {table.commit_id} is gone: cleanup"
            " removed it, or its branch was deleted; export a newer commit of a live branch",
            graph_commit_id=table.commit_id,
            type=table.item.name,
        ) from error
