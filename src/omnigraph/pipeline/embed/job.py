"""Embedding on Spark: the `@embed` vectors of one type, filled and committed once.

Tasks look at the texts of one snapshot, and each distinct text is embedded once. Then tasks write
the rows that still hold such a text, with its vector, and one commit takes them. When others were
faster, what they touched is looked at again but no text is embedded: rows that hold another text by
then are skipped and counted. Nothing is committed when there is nothing to fill.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from omnigraph.embedding import checked, open_embedder
from omnigraph.errors import OmnigraphError
from omnigraph.graph.commit.read_set import RowsRead
from omnigraph.graph.commit.txn import PreparedWrite, WriteRequest
from omnigraph.graph.history.commit_graph import commit_of
from omnigraph.graph.history.snapshot import open_snapshot
from omnigraph.graph.jobs.pins import living_pin
from omnigraph.graph.jobs.report import JobReport, TableReport
from omnigraph.graph.manifest.intent import SidecarKind
from omnigraph.graph.manifest.table_refs import key_of, ref_of
from omnigraph.pipeline.embed.fill import FillTarget
from omnigraph.pipeline.embed.filled_rows import RESOLVE, FilledRows, FillPlan
from omnigraph.pipeline.embed.targets import (
    EmbedMode,
    EmbedTarget,
    FragmentTexts,
    any_wanted,
    find_embedded,
    find_targets,
)
from omnigraph.pipeline.embed.texts import EMBED, EmbedPlace, Survey, TextEmbedding
from omnigraph.pipeline.spark.task_storage import TaskTable
from omnigraph.pipeline.spec.pipeline_spec import list_digest
from omnigraph.pipeline.staging.job_files import remove_folder, staging_folder
from omnigraph.pipeline.staging.key_frames import group_fragments
from omnigraph.pipeline.staging.vector_cache import PAID_FOLDER, StoredPlaces
from omnigraph.settings import Engine, MergeStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.embedding import CheckedEmbedder, Embedder
    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.rows import CommitRow, TableRef
    from omnigraph.ids import BranchName
    from omnigraph.pipeline.spark.job import JobContext
    from omnigraph.settings import Settings
    from omnigraph.storage.handles import StagedWrite, TableHandle
    from omnigraph.storage.predicates import Or, Predicate
    from omnigraph.storage.table_storage import TableStorage

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
        job: JobContext,
        options: EmbedOptions,
        *,
        embedder: Embedder | None = None,
    ) -> None:
        self._job = job
        self._graph = job.graph
        self._settings = settings = job.settings
        self._options = options
        self._stages = job.stages
        self._given: CheckedEmbedder | None = None
        if embedder is not None:
            self._given = checked(embedder, batch_texts=settings.embedding.batch_texts)
        self._targets: tuple[EmbedTarget, ...] = ()
        self._embeddings: dict[str, TextEmbedding] = {}
        self._embedded_for: str | None = None
        self._plan: FillPlan | None = None
        self._rows = FilledRows(job.storage, job.lane, job.stages.times)
        self._is_handed_over = False
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
        with self._running():
            try:
                row = self._graph.protocol.run(request, self._prepare)
            except BaseException:
                # Once they are handed over, a recovery may still commit them.
                if not self._is_handed_over:
                    self._remove_files()
                raise
            self._stages.end()
            if row is None:
                self._remove_files()
            else:
                self._remove_files(but=self._rows.taken)
                self._forget_paid()
        return self._receipt(row)

    def rehearse(self) -> JobReport:
        """Tell what a run would do; no embedder is asked and nothing stays.

        The stage `embed` has the number of texts that a run would pay for.
        """
        request = WriteRequest(kind=SidecarKind.EMBED, branch=self._options.branch)
        with self._running():
            txn = self._graph.protocol.capture(request, self._graph.clock.now_us())
            unpaid = sum(
                self._embeddings[target.name].unpaid(survey) for target, survey in self._survey(txn)
            )
            self._stages.times.enter(EMBED)
            self._stages.count(rows=unpaid)
            item = find_embedded(txn.catalog, self._options.type)
            rows = txn.store.count(txn.readable(ref_of(item)), self._wanted())
            self._table = TableReport(table=key_of(item), read=rows, changed=rows)
            self._stages.end()
        return self._receipt(None, dry_run=True)

    @contextmanager
    def _running(self) -> Iterator[None]:
        with ExitStack() as leaving:
            leaving.callback(self._remove_staging)
            leaving.enter_context(self._job.running())
            if self._job.lane.spark is None:
                self._given = self._given or leaving.enter_context(self._open_embedder())
            yield

    def _prepare(self, txn: WriteTxn) -> PreparedWrite:
        self._is_handed_over = False
        if self._embedded_for != txn.line.schema.schema_hash:
            for target, survey in self._survey(txn):
                self._embeddings[target.name].pay(survey)
            self._plan = None
            self._embedded_for = txn.line.schema.schema_hash
        self._stages.enter(RESOLVE)
        item = find_embedded(txn.catalog, self._options.type)
        staged = self._filled(txn, ref_of(item))
        read = 0 if staged is None else self._rows.read
        changed = 0 if staged is None else self._rows.changed
        self._table = TableReport(
            table=key_of(item), read=read, changed=changed, unchanged=read - changed
        )
        self._stages.count(rows=changed)
        if staged is None or staged.is_noop:
            return PreparedWrite()
        self._stages.enter("commit")
        return PreparedWrite(
            staged=(staged,), stats={"embed": self._stats()}, handing_over=self._hand_over
        )

    def _hand_over(self) -> None:
        self._is_handed_over = True

    def _filled(self, txn: WriteTxn, ref: TableRef) -> StagedWrite | None:
        """The rows with the vectors of the texts that they hold now; `None` if none wants one."""
        captured = txn.readable(ref)
        wanted = self._wanted()
        if not _has_rows(txn.store, captured, wanted):
            return None
        base = txn.writable(ref)
        self._job.pin.hold([captured, base])
        self._plan = self._plan or self._fill_plan()
        self._rows.fill(self._plan, captured.pin, base)
        txn.read_set.ask(ref, RowsRead(wanted, txn.store))
        return self._rows.stage(txn.stamp)

    def _fill_plan(self) -> FillPlan:
        """What tasks need, with the places of all vectors in objects that they read."""
        folder = staging_folder(self._job.operation_id)
        targets = []
        for each in self._targets:
            path = f"{folder}/places-{self._embedded_for}-{each.key}.arrow"
            StoredPlaces.store(
                self._graph.storage.objects, path, self._embeddings[each.name].places
            )
            targets.append(FillTarget(target=each, places=path))
        return FillPlan(
            root=self._job.root,
            folder=folder,
            targets=tuple(targets),
            mode=self._options.mode,
            batch_bytes=self._settings.pipeline.batch_bytes,
        )

    def _survey(self, txn: WriteTxn) -> Iterator[tuple[EmbedTarget, Survey]]:
        """The texts of each target, at the captured pin."""
        self._stages.enter("list")
        item = find_embedded(txn.catalog, self._options.type)
        with ExitStack() as leaving:
            embedder = self._given or leaving.enter_context(self._open_embedder())
            self._targets = find_targets(item, self._options.property, embedder, txn.branch_id)
        handle = txn.readable(ref_of(item))
        self._job.pin.hold([handle])
        groups = group_fragments(txn.store.fragments(handle))
        if groups:
            self._job.require_executors()
        self._embeddings = {each.name: self._embedding(each) for each in self._targets}
        for target in self._targets:
            parts = [
                FragmentTexts(
                    root=self._job.root,
                    table=TaskTable(layout=handle.layout, pin=handle.pin),
                    type_name=item.name,
                    source=target.source,
                    predicate=target.wanted(self._options.mode),
                    fragments=group,
                )
                for group in groups
            ]
            yield target, self._embeddings[target.name].survey(parts)

    def _open_embedder(self) -> CheckedEmbedder:
        return open_embedder(self._settings.embedding, self._graph.clock)

    def _embedding(self, target: EmbedTarget) -> TextEmbedding:
        return TextEmbedding(
            self._job.lane,
            self._graph.storage.objects,
            EmbedPlace(
                root=self._job.root,
                folder=f"{PAID_FOLDER}/{target.key}",
                run=self._job.operation_id,
            ),
            target.model,
            self._settings.embedding,
            times=self._stages.times,
            given=self._given,
        )

    def _wanted(self) -> Or:
        return any_wanted(self._targets, self._options.mode)

    def _stats(self) -> dict[str, Any]:  # Any: as JSON has it
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
        has_executors = self._job.lane.spark is not None
        strategy = MergeStrategy.DISTRIBUTED if has_executors else MergeStrategy.DRIVER
        return JobReport(
            operation_id=None if row is None else row.operation_id,
            job_key=list_digest(*(each.key for each in self._targets)),
            commit=None if row is None else commit_of(row),
            branch=self._options.branch,
            mode=self._options.mode.value,
            engine=(Engine.SPARK if has_executors else Engine.LOCAL).value,
            merge_strategy=strategy.value,
            dry_run=dry_run,
            actor_id=self._options.actor_id,
            tables=(self._table,),
            stages=self._stages.reports(),
            warnings=tuple(warnings),
        )

    def _remove_files(self, but: frozenset[str] = frozenset()) -> None:
        """Delete what tasks told of and no commit took; files of lost tasks are left to cleanup."""
        with _untidy("files of an embedding job stay"):
            for path in self._rows.written:
                if path not in but:
                    self._graph.storage.objects.delete_tree(path)

    def _remove_staging(self) -> None:
        with _untidy("staged files stay"):
            remove_folder(self._graph.storage, staging_folder(self._job.operation_id))

    def _forget_paid(self) -> None:
        living = partial(living_pin, self._graph.storage.objects, self._graph.clock)
        for each in self._embeddings.values():
            with _untidy("paid vectors stay"):
                each.remove(living)


def _has_rows(store: TableStorage, handle: TableHandle, predicate: Predicate) -> bool:
    batches = store.scan(handle, columns=["id"], predicate=predicate, limit=1)
    return any(batch.num_rows for batch in batches)


@contextmanager
def _untidy(what: str) -> Iterator[None]:
    """The job is decided already: neither its success nor its error may be hidden."""
    try:
        yield
    except OmnigraphError as error:
        log.warning(what, extra={"why": error.message})
