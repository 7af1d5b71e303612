"""Embedding on Spark: the `@embed` vectors of one type, filled and committed once.

Tasks look at the texts of one snapshot, and each distinct text is embedded once. Then the rows that
still hold such a text get its vector, in one commit of one process. When others were faster, rows
are looked at again but no text is embedded: those that were written meanwhile are skipped and
counted. Nothing is committed when there is nothing to fill.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.embedding import checked, open_embedder
from omnigraph.embedding.text_keys import text_keys
from omnigraph.errors import OmnigraphError
from omnigraph.graph.arrays import is_given, one_array, text_array
from omnigraph.graph.commit_graph import commit_of
from omnigraph.graph.intent import SidecarKind
from omnigraph.graph.job_pins import JobPin, living_pin
from omnigraph.graph.job_report import JobReport, TableReport
from omnigraph.graph.snapshot import open_snapshot
from omnigraph.graph.stage_times import StageTimes
from omnigraph.graph.tables import key_of, ref_of
from omnigraph.graph.vector_filling import with_vectors
from omnigraph.graph.write_txn import PreparedWrite, WriteRequest
from omnigraph.ids import BranchName, new_operation_id
from omnigraph.pipeline.embed_room import DriverRoom
from omnigraph.pipeline.embed_targets import (
    EmbedMode,
    EmbedTarget,
    FragmentTexts,
    digest_of,
    find_embedded,
    find_targets,
)
from omnigraph.pipeline.handshake import require_matching_executors
from omnigraph.pipeline.paid_vectors import PAID_FOLDER
from omnigraph.pipeline.progress import StageRunner
from omnigraph.pipeline.staged_tables import group_fragments
from omnigraph.pipeline.task_lanes import SparkLane
from omnigraph.pipeline.task_storage import TaskTable, open_task_storage
from omnigraph.pipeline.text_embedding import EMBED, EmbedPlace, Survey, TextEmbedding
from omnigraph.storage.predicates import Or

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.embedding import CheckedEmbedder, Embedder
    from omnigraph.graph.coordinator import GraphCoordinator
    from omnigraph.graph.rows import CommitRow
    from omnigraph.graph.write_txn import WriteTxn
    from omnigraph.pipeline.paid_vectors import VectorReader
    from omnigraph.pipeline.progress import Progress
    from omnigraph.pipeline.session import PipelineSession
    from omnigraph.settings import Settings
    from omnigraph.storage.handles import TableHandle

log = logging.getLogger(__name__)

_ATTEMPTS: Final = 4
"""The first preparation, and three more when others were faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedOptions:
    """What is asked of the job."""

    type: str
    property: str | None
    """One vector; without it every `@embed` vector of the type."""
    mode: EmbedMode
    branch: BranchName
    actor_id: str | None = None


def require_embeddable(
    graph: GraphCoordinator, settings: Settings, options: EmbedOptions, embedder: Embedder | None
) -> None:
    """Refuse what cannot be embedded; starts nothing.

    Raises:
        InvalidArgument: there is no such type, or it has no such vector.
        EmbeddingModelMismatch: the vector belongs to another model.
        BranchNotFound: there is no such branch.
    """
    branch_id = graph.branch_id(options.branch)
    catalog = open_snapshot(graph, None, options.branch).catalog
    item = find_embedded(catalog, options.type)
    with ExitStack() as leaving:
        used = embedder or leaving.enter_context(open_embedder(settings.embedding, graph.clock))
        find_targets(item, options.property, used, branch_id)


class EmbedJob:
    """One run of the job."""

    def __init__(
        self,
        graph: GraphCoordinator,
        session: PipelineSession,
        settings: Settings,
        options: EmbedOptions,
        *,
        embedder: Embedder | None = None,
        progress: Progress | None = None,
        shared_filesystem: bool = False,
    ) -> None:
        session.require_access(graph.storage.location, shared_filesystem=shared_filesystem)
        self._graph = graph
        self._session = session
        self._settings = settings
        self._options = options
        self._progress = progress
        self._runner = StageRunner(session, progress)
        self._times = StageTimes(graph.clock)
        self._run = new_operation_id(graph.ids)
        self._pin = JobPin(
            graph.storage.objects,
            graph.clock,
            operation_id=self._run,
            kind="embed",
            owner=options.actor_id,
            ttl_ms=settings.storage.lease_ttl_ms,
        )
        self._given: CheckedEmbedder | None = None
        if embedder is not None:
            self._given = checked(embedder, batch_texts=settings.embedding.batch_texts)
        self._targets: tuple[EmbedTarget, ...] = ()
        self._embeddings: dict[str, TextEmbedding] = {}
        self._embedded_for: str | None = None
        self._table = TableReport(table="", read=0)

    def report(self) -> JobReport:
        """Run it and tell what it did."""
        options = self._options
        request = WriteRequest(
            kind=SidecarKind.EMBED,
            branch=options.branch,
            branch_id=self._graph.branch_id(options.branch),
            actor_id=options.actor_id,
            attempts=_ATTEMPTS,
        )
        with self._pin, self._session.configured():
            row = self._graph.protocol.run(request, self._prepare)
            self._times.enter(None)
            if row is not None:
                self._clear()
        return self._receipt(row)

    def rehearse(self) -> JobReport:
        """Tell what a run would do; no embedder is asked and nothing stays.

        The stage `embed` has the number of texts that a run would pay for.
        """
        request = WriteRequest(kind=SidecarKind.EMBED, branch=self._options.branch)
        with self._pin, self._session.configured():
            txn = self._graph.protocol.capture(request, self._graph.clock.now_us())
            unpaid = sum(
                self._embeddings[target.name].unpaid(found) for target, found in self._survey(txn)
            )
            self._times.enter(EMBED)
            self._times.count(rows=unpaid)
            item = find_embedded(txn.catalog, self._options.type)
            rows = txn.store.count(txn.readable(ref_of(item)), self._wanted())
            self._table = TableReport(table=key_of(item), read=rows, changed=rows)
            self._times.enter(None)
        return self._receipt(None, dry_run=True)

    def _prepare(self, txn: WriteTxn) -> PreparedWrite:
        if self._embedded_for != txn.line.schema.schema_hash:
            for target, found in self._survey(txn):
                self._embeddings[target.name].pay(found)
            self._embedded_for = txn.line.schema.schema_hash
        self._enter("resolve")
        item = find_embedded(txn.catalog, self._options.type)
        ref = ref_of(item)
        self._pin.hold([txn.readable(ref)])
        rows, read = self._filled(txn)
        changed = sum(each.num_rows for each in rows)
        self._table = TableReport(
            table=key_of(item), read=read, changed=changed, unchanged=read - changed
        )
        self._times.count(rows=changed)
        if not rows:
            return PreparedWrite()
        txn.read_set.ask_ids(ref, pa.chunked_array([each.column("id") for each in rows]))
        staged = txn.store.stage_update(txn.writable(ref), rows, txn.stamp)
        self._enter("commit")
        return PreparedWrite(staged=(staged,), stats={"embed": self._stats()})

    def _survey(self, txn: WriteTxn) -> Iterator[tuple[EmbedTarget, Survey]]:
        """The texts of each target, at the captured pin."""
        self._enter("list")
        item = find_embedded(txn.catalog, self._options.type)
        with ExitStack() as leaving:
            embedder = self._given or leaving.enter_context(
                open_embedder(self._settings.embedding, self._graph.clock)
            )
            self._targets = find_targets(item, self._options.property, embedder, txn.branch_id)
        root = str(self._graph.storage.location)
        handle = txn.readable(ref_of(item))
        self._pin.hold([handle])
        self._room(txn, handle).require(self._wanted())
        groups = group_fragments(txn.store.fragments(handle))
        if groups:
            probe = partial(open_task_storage, root)
            require_matching_executors(self._session, probe, runner=self._runner)
        self._embeddings = {each.name: self._embedding(each) for each in self._targets}
        for target in self._targets:
            parts = [
                FragmentTexts(
                    root=root,
                    table=TaskTable(layout=handle.layout, pin=handle.pin),
                    type_name=item.name,
                    source=target.source,
                    predicate=target.wanted(self._options.mode),
                    fragments=group,
                )
                for group in groups
            ]
            yield target, self._embeddings[target.name].survey(parts)

    def _embedding(self, target: EmbedTarget) -> TextEmbedding:
        return TextEmbedding(
            SparkLane(session=self._session, runner=self._runner),
            self._graph.storage.objects,
            EmbedPlace(
                root=str(self._graph.storage.location),
                folder=f"{PAID_FOLDER}/{target.key}",
                run=self._run,
            ),
            target.model,
            self._settings.embedding,
            times=self._times,
            given=self._given,
        )

    def _filled(self, txn: WriteTxn) -> tuple[list[pa.RecordBatch], int]:
        """Rows with the vectors of the texts that they hold now, and how many were looked at.

        The rows are whole but for blobs, which stay as they are stored. All of them are held.

        Raises:
            ResourceLimit: they are too large for that, with their blobs.
        """
        item = find_embedded(txn.catalog, self._options.type)
        handle = txn.readable(ref_of(item))
        room = self._room(txn, handle)
        readers = {name: each.reader for name, each in self._embeddings.items()}
        filled: list[pa.RecordBatch] = []
        read = 0
        for batch in txn.store.scan(handle, columns=room.columns, predicate=self._wanted()):
            read += batch.num_rows
            rows = self._with_vectors(batch, readers)
            if rows.num_rows:
                room.take(rows)
                filled.append(rows)
        return filled, read

    def _with_vectors(
        self, batch: pa.RecordBatch, readers: dict[str, VectorReader]
    ) -> pa.RecordBatch:
        """The rows of a batch that get a vector, with it."""
        rows = batch
        is_filled = np.zeros(batch.num_rows, np.bool_)
        for target in self._targets:
            at, vectors = self._found(batch, target, readers[target.name])
            if not len(at):
                continue
            is_filled[at] = True
            position = rows.schema.get_field_index(target.name)
            column = with_vectors(one_array(rows.column(position)), at, np.stack(vectors))
            rows = rows.set_column(position, rows.schema.field(position), column)
        return rows.filter(pa.array(is_filled))

    # Any: numbers of rows, and vectors
    def _found(
        self, batch: pa.RecordBatch, target: EmbedTarget, reader: VectorReader
    ) -> tuple[np.ndarray[Any, Any], list[Any]]:
        texts = text_array(batch.column(target.source))
        wanted = is_given(one_array(batch.column(target.source)))
        if self._options.mode is EmbedMode.MISSING:
            wanted = wanted & ~is_given(one_array(batch.column(target.name)))
        at = np.flatnonzero(wanted)
        held = [str(each) for each in texts.take(at).to_pylist()]
        found = [
            reader.find(key) for key in text_keys(target.model.name, target.model.dimension, held)
        ]
        kept = [place for place, vector in enumerate(found) if vector is not None]
        return at[kept], [found[place] for place in kept]

    def _room(self, txn: WriteTxn, handle: TableHandle) -> DriverRoom:
        return DriverRoom(txn.store, handle, self._settings.pipeline.merge_driver_bytes)

    def _wanted(self) -> Or:
        return Or(tuple(each.wanted(self._options.mode) for each in self._targets))

    def _stats(self) -> dict[str, Any]:
        return {
            "mode": self._options.mode.value,
            "models": {each.name: each.model.name for each in self._targets},
            "skipped": self._table.unchanged,
        }

    def _receipt(self, row: CommitRow | None, *, dry_run: bool = False) -> JobReport:
        skipped = self._table.unchanged
        warnings = []
        if skipped:
            what = "1 row was" if skipped == 1 else f"{skipped:,} rows were"
            warnings.append(
                f"{what} written while texts were embedded and skipped; run embed again"
            )
        return JobReport(
            operation_id=None if row is None else row.operation_id,
            job_key=digest_of(*(each.key for each in self._targets)),
            commit=None if row is None else commit_of(row),
            branch=self._options.branch,
            mode=self._options.mode.value,
            engine="spark",
            merge_strategy="driver",
            dry_run=dry_run,
            actor_id=self._options.actor_id,
            tables=(self._table,),
            stages=self._times.reports(),
            warnings=tuple(warnings),
        )

    def _enter(self, stage: str) -> None:
        self._times.enter(stage)
        if self._progress is not None:
            self._progress(stage, 0, 0)

    def _clear(self) -> None:
        living = partial(living_pin, self._graph.storage.objects, self._graph.clock)
        for each in self._embeddings.values():
            try:
                each.remove(living)
            except OmnigraphError as error:
                # The job is decided already: its success may not be hidden.
                log.warning("paid vectors stay", extra={"why": error.message})
