"""The task body that fills vectors: rows of some fragments, written anew under their row ids.

A task has its fragments to itself and reads where each row lies, so this is the upsert of
`upsert_tasks` without its join: the new forms of rows are written, their old forms are marked as
deleted. A row gets the vector of the text that it holds in the version that is read. Nothing is
committed, and a task that runs again gives the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.embedding.text_keys import text_keys
from omnigraph.graph.arrays import is_given, one_array, text_array
from omnigraph.graph.load.vector_filling import with_vectors
from omnigraph.pipeline.embed.targets import EmbedMode, EmbedTarget, any_wanted
from omnigraph.pipeline.spark.task_storage import TaskTable, open_task_storage, open_task_table
from omnigraph.pipeline.staging.result_row import result_row
from omnigraph.pipeline.staging.vector_cache import StoredPlaces, VectorFiles
from omnigraph.pipeline.upsert.tasks import StoredOffsets, keep_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.staged_fragments import Pieces

_FLUSH_BYTES: Final = 64 << 20
"""Rows that are held before they are written; their blobs are read meanwhile, some at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FillTarget:
    """One vector property, and where its vectors are."""

    target: EmbedTarget
    places: str
    """The object of `StoredPlaces`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FillTask:
    """Fragments of a table whose rows one task fills."""

    root: str
    table: TaskTable
    fragments: tuple[int, ...]
    targets: tuple[FillTarget, ...]
    mode: EmbedMode
    folder: str
    """Where it is told which rows were replaced."""
    number: int
    batch_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What became of the rows of one task."""

    pieces: Pieces
    read: int
    """Rows that want a vector."""
    changed: int
    """Those that got one."""
    replaced: Mapping[int, StoredOffsets]
    """By fragment, which of its rows have a new form."""


def fill(task: FillTask) -> Iterator[pa.RecordBatch]:
    """Write the rows that get a vector; one row with the pickled `Filled`."""
    yield result_row(_Filling(task).run())


class _Filling:
    def __init__(self, task: FillTask) -> None:
        self._task = task
        self._storage: GraphStorage = open_task_storage(task.root)
        self._handle: TableHandle = open_task_table(self._storage, task.table)
        self._vectors = VectorFiles(self._storage.objects)
        self._places = {
            each.target.name: StoredPlaces(self._storage.objects, each.places)
            for each in task.targets
        }
        self._held: list[pa.RecordBatch] = []
        self._addresses: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
        self._written: list[Pieces] = []

    def run(self) -> Filled:
        from omnigraph.storage.staged_fragments import join_pieces

        task, layout, store = self._task, self._handle.layout, self._storage.tables
        read = held_bytes = 0
        for batch in store.scan(
            self._handle,
            columns=[name for name in layout.schema.names if name not in layout.blobs],
            predicate=any_wanted([each.target for each in task.targets], task.mode),
            fragments=task.fragments,
            with_row_ids=True,
            with_row_addresses=True,
            batch_bytes=task.batch_bytes,
        ):
            read += batch.num_rows
            rows = self._with_vectors(batch)
            if rows.num_rows:
                self._held.append(rows)
                held_bytes += rows.nbytes
            if held_bytes > _FLUSH_BYTES:
                self._write()
                held_bytes = 0
        self._write()
        addresses = np.concatenate(self._addresses)
        if len(addresses):
            self._written.append(store.delete_addresses(self._handle, addresses.tolist()))
        return Filled(
            pieces=join_pieces(self._written),
            read=read,
            changed=len(addresses),
            replaced=self._replaced(addresses),
        )

    def _replaced(self, addresses: npt.NDArray[np.int64]) -> dict[int, StoredOffsets]:
        if not len(addresses):
            return {}
        return keep_offsets(self._storage, self._task.folder, f"{self._task.number:06d}", addresses)

    def _write(self) -> None:
        """Write the rows that are held, in the order of their row ids."""
        from omnigraph.storage.reading import ROW_ADDRESS, ROW_ID

        if not self._held:
            return
        rows = pa.Table.from_batches(self._held)
        self._held = []
        row_ids = rows[ROW_ID].to_numpy()
        self._addresses.append(rows[ROW_ADDRESS].to_numpy().astype(np.int64))
        rows = rows.drop_columns([ROW_ID, ROW_ADDRESS])
        if (np.diff(row_ids.astype(np.int64)) < 0).any():
            order = np.argsort(row_ids)
            rows, row_ids = rows.take(order), row_ids[order]
        self._written.append(
            self._storage.tables.write_changed(self._handle, rows, row_ids.tolist())
        )

    def _with_vectors(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that get a vector, with it."""
        rows = batch
        is_filled = np.zeros(batch.num_rows, np.bool_)
        for each in self._task.targets:
            at, vectors = self._found(batch, each.target)
            if not len(at):
                continue
            is_filled[at] = True
            position = rows.schema.get_field_index(each.target.name)
            column = with_vectors(one_array(rows.column(position)), at, np.stack(vectors))
            rows = rows.set_column(position, rows.schema.field(position), column)
        return rows if is_filled.all() else rows.filter(pa.array(is_filled))

    def _found(
        self, batch: pa.RecordBatch, target: EmbedTarget
    ) -> tuple[npt.NDArray[np.int64], list[Any]]:  # Any: vectors
        """Which rows get a vector, and the vectors."""
        texts = text_array(batch.column(target.source))
        wanted = is_given(one_array(batch.column(target.source)))
        if self._task.mode is EmbedMode.MISSING:
            wanted = wanted & ~is_given(one_array(batch.column(target.name)))
        at = np.flatnonzero(wanted)
        held = [str(each) for each in texts.take(at).to_pylist()]
        keys = text_keys(target.model.name, target.model.dimension, held)
        vectors = self._vectors.find_all(keys, self._places[target.name].files_of(keys))
        kept = [place for place, vector in enumerate(vectors) if vector is not None]
        return at[kept], [vectors[place] for place in kept]
