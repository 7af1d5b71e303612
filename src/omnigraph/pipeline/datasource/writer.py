"""`frame.write.format("omnigraph")`: the rows of a frame become rows of one type, in one commit.

Spark makes the writer in one Python process, calls `write` in those of the tasks, and `commit` or
`abort` in others again; after a commit that failed it calls `abort` too. Tasks stage rows as a load
does. The commit is a load whose input is staged already, in that one process: the checks across
rows hold the keys of the frame, and a merge its rows. A task that runs twice leaves files that
nothing names.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from omnigraph.errors import InternalError, OmnigraphError, SourceError
from omnigraph.pipeline.datasource.errors import told_to_spark
from omnigraph.pipeline.datasource.graph import open_source_graph
from omnigraph.pipeline.datasource.options import storage_settings
from omnigraph.pipeline.spark.errors import can_be_retried
from omnigraph.settings import load_process_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.pipeline.datasource.options import WriteOptions
    from omnigraph.pipeline.intake.row_stager import IntakePlan
    from omnigraph.pipeline.spec.column_map import RowMapping
    from omnigraph.pipeline.staging.part_result import IntakeResult

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class StagedPart(WriterCommitMessage):
    """What a task tells the commit of its partition."""

    result: IntakeResult | None = None
    failure: OmnigraphError | None = None
    """Why the task staged nothing, where trying again would not help."""


class TableWriter(DataSourceArrowWriter):
    """Writes one frame; made before the tasks run, and copied into them."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        with self._open() as graph:
            self._plan, self._mapping = _planned(graph, options, schema)
        # A relative path may mean another folder in another process.
        self._options = replace(options, graph=self._plan.root)

    # The Arrow writer of PySpark narrows the same argument.
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedPart:  # type: ignore[override]
        """Stage a partition; runs on an executor."""
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise InternalError("a task ran outside of Spark; please report this")
        with told_to_spark():
            return self.stage(context.partitionId(), iterator)

    def stage(self, partition: int, batches: Iterable[pa.RecordBatch]) -> StagedPart:
        """Stage the rows of the partition of this number.

        Raises:
            OmnigraphError: trying again may help.
        """
        from omnigraph.pipeline.intake.batches import stage_batches
        from omnigraph.pipeline.spark.task_storage import storing_with

        names = list(self._mapping.values)
        rows = (batch.select(names) for batch in batches if batch.num_rows)
        try:
            with storing_with(storage_settings(self._options.storage)):
                result = stage_batches(
                    self._plan, self._mapping, rows, ordinal=partition, source=0, start=partition
                )
        except OmnigraphError as error:
            if can_be_retried(error):
                raise
            return StagedPart(failure=error)
        return StagedPart(result=result)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Check everything that was staged, and commit it; nothing for a frame without rows."""
        from omnigraph.graph.load.request import LoadRequest
        from omnigraph.pipeline.datasource.staged_frame import StagedFiles, StagedFrame
        from omnigraph.pipeline.load.job import SparkLoad
        from omnigraph.pipeline.spark.job import open_job

        options = self._options
        with told_to_spark(), self._open() as graph:
            settings = replace(load_process_settings(), storage=storage_settings(options.storage))
            files = StagedFiles(graph=graph, plan=self._plan, results=_finished(messages))
            job = open_job(graph, None, settings, kind="load", operation_id=self._plan.operation_id)
            request = LoadRequest(
                mode=options.mode, branch=options.branch, idempotency_key=self._commit_key
            )
            frame = StagedFrame(files=files)
            SparkLoad(job, [frame], request, external=self._plan.external).report()
            # After a failure the claim stays for the abort that follows, and vectors for the next
            # write of such rows.
            try:
                files.end_claim()
                files.forget_paid()
            except OmnigraphError as error:
                # The write has landed: this is only untidy.
                log.warning("a claim or paid vectors stay", extra={"why": error.message})

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete what the tasks staged, unless a commit has taken it."""
        from omnigraph.pipeline.datasource.staged_frame import StagedFiles

        told = [each for each in messages if isinstance(each, StagedPart)]
        results = [each.result for each in told if each.result is not None]
        with told_to_spark(), self._open() as graph:
            files = StagedFiles(graph=graph, plan=self._plan, results=results)
            is_free = files.claim()
            try:
                if is_free and not self._is_committed(graph):
                    files.delete()
            finally:
                # Also that of a commit: this is the last call of the write.
                files.end_claim()

    @property
    def _commit_key(self) -> str:
        """The idempotency key by which the commit of this write is known."""
        return f"datasource:{self._plan.operation_id}"

    def _is_committed(self, graph: GraphCoordinator) -> bool:
        """Whether a commit landed and only its answer was lost."""
        branch = self._options.branch
        line = graph.lines.read(graph.branch_id(branch))
        return line.commit_of_key(self._commit_key, branch) is not None

    def _open(self) -> AbstractContextManager[GraphCoordinator]:
        options = self._options
        return open_source_graph(options.graph, options.storage, is_writable=True)


def _planned(
    graph: GraphCoordinator, options: WriteOptions, schema: StructType
) -> tuple[IntakePlan, RowMapping]:
    """What tasks need, for the branch as it is now.

    Raises:
        SourceError: a column is missing, or its type does not fit.
        InvalidArgument, BranchNotFound: there is no such type or branch.
    """
    from omnigraph.graph.commit.txn import PreparedWrite, WriteRequest
    from omnigraph.graph.manifest.intent import SidecarKind
    from omnigraph.pipeline.spec.column_map import TargetSpec, plan_mapping, require_types

    types = _types(schema)
    plans: list[tuple[IntakePlan, RowMapping]] = []

    def capture(txn: WriteTxn) -> PreparedWrite:
        mapping = plan_mapping(txn.catalog, TargetSpec(type=options.table), list(types))
        require_types(mapping, types)
        plans[:] = [(_intake_plan(graph, txn, mapping), mapping)]
        # Nothing is committed here: the protocol only captures again when others were faster.
        return PreparedWrite()

    graph.protocol.run(WriteRequest(kind=SidecarKind.LOAD, branch=options.branch), capture)
    return plans[0]


def _intake_plan(graph: GraphCoordinator, txn: WriteTxn, mapping: RowMapping) -> IntakePlan:
    from omnigraph.graph.blobs.addresses import DENY_ALL
    from omnigraph.graph.manifest.table_refs import ref_of
    from omnigraph.ids import new_operation_id
    from omnigraph.pipeline.intake.row_stager import IntakePlan
    from omnigraph.pipeline.spark.task_storage import TaskTable
    from omnigraph.pipeline.spec.pipeline_spec import list_digest
    from omnigraph.pipeline.staging.vector_cache import PAID_FOLDER

    ref = ref_of(mapping.item)
    base = txn.writable(ref)
    settings = load_process_settings().pipeline
    return IntakePlan(
        root=str(graph.storage.location),
        operation_id=new_operation_id(graph.ids),
        authored_ms=txn.authored_at // 1_000,
        catalog=txn.catalog,
        tables={ref: TaskTable(layout=base.layout, pin=base.pin)},
        external=DENY_ALL,
        embeds_nullable=False,
        is_rehearsal=False,
        block_bytes=settings.batch_bytes,
        sample=settings.max_violations,
        # Nothing tells one frame from another: all writes to a table find what was paid for, and
        # each removes only what it has committed.
        paid_folder=f"{PAID_FOLDER}/frame-{list_digest(txn.branch_id, str(ref))}",
        rows_per_file=settings.rows_per_file,
    )


def _types(schema: StructType) -> dict[str, pa.DataType]:
    """The Arrow types in which the columns of a frame come.

    Raises:
        SourceError: two columns have one name, or Arrow has no such type.
    """
    from pyspark.sql.pandas.types import to_arrow_type

    from omnigraph.pipeline.files.source_errors import source_errors

    types: dict[str, pa.DataType] = {}
    for each in schema.fields:
        if each.name in types:
            raise SourceError(
                f"the frame has two columns `{each.name}`; rename or drop one", column=each.name
            )
        with source_errors("the frame"):
            types[each.name] = to_arrow_type(each.dataType, timezone="UTC")
    return types


def _finished(messages: Sequence[WriterCommitMessage | None]) -> list[IntakeResult]:
    """The results of all partitions, in their order."""
    results: list[IntakeResult] = []
    for partition, each in enumerate(messages):
        if isinstance(each, StagedPart) and each.failure is not None:
            raise each.failure
        if not isinstance(each, StagedPart) or each.result is None:
            raise InternalError(f"task {partition} told nothing; please report this")
        results.append(each.result)
    return results
