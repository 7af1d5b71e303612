"""An export on Spark: one snapshot as files in a folder, complete once `_manifest.json` is there.

A table that fits one file is sorted and written by one task. A larger one is sorted in two steps:
runs first, then ranges of ids over them. Which rows a file has follows from the pinned versions
alone, so two exports of one commit are equal byte by byte, whatever the cluster. Nothing of the
graph is written. Whatever ends before the manifest is written leaves no export.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from omnigraph.errors import InternalError, InvalidArgument, OmnigraphError
from omnigraph.graph.access import Action
from omnigraph.graph.gate import UNGUARDED
from omnigraph.graph.history.allowed_states import open_state
from omnigraph.graph.jobs.report import JobReport, TableReport
from omnigraph.graph.jobs.stage_teller import Amount
from omnigraph.graph.lifecycle.coordinator import OpenMode
from omnigraph.graph.manifest.table_refs import key_of
from omnigraph.graph.ndjson.export import select_types
from omnigraph.pipeline.export.format import ExportFormat
from omnigraph.pipeline.export.sorted_runs import BLOCKS, cut_ranges, read_runs
from omnigraph.pipeline.export.tasks import (
    FILES,
    ExportedTable,
    SortTask,
    WriteTask,
    sort_rows,
    write_file,
)
from omnigraph.pipeline.spark.lanes import require_spark
from omnigraph.pipeline.spark.task_storage import TaskTable
from omnigraph.pipeline.staging.key_frames import group_fragments
from omnigraph.storage.output_files import TEMPORARY, OutputFolder, find_output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from omnigraph.graph.gate import Gate
    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.graph.history.targets import ReadTarget
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.lang.catalog import EdgeType, NodeType
    from omnigraph.pipeline.export.sorted_runs import Run
    from omnigraph.pipeline.spark.job import JobContext
    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.settings import Settings
    from omnigraph.storage.location import GraphLocation
    from omnigraph.storage.sizes import FragmentInfo

log = logging.getLogger(__name__)

MANIFEST: Final = "_manifest.json"
MANIFEST_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSizes:
    """How much a task holds. No setting: the files of one commit are always cut alike."""

    whole_rows: int = 1 << 17
    whole_bytes: int = 32 << 20
    """A table up to these, as it is stored, is written by one task."""
    group_rows: int = 1 << 18
    """Rows that one task sorts into runs."""
    run_bytes: int = 128 << 20
    block_bytes: int = 1 << 20
    file_bytes: int = 128 << 20
    """Rows of a file in memory, blobs not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFile:
    """A file of the export, as the manifest tells it."""

    path: str
    table: str
    rows: int
    size_bytes: int
    sha256: str

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "path": self.path,
            "table": self.table,
            "rows": self.rows,
            "bytes": self.size_bytes,
            "sha256": self.sha256,
        }


@dataclass(frozen=True, kw_only=True)
class ExportPlan:
    """What is exported, and where to; nothing of it needs Spark."""

    snapshot: Snapshot
    branch: str
    """Its name, for the report."""
    types: Sequence[NodeType | EdgeType]
    form: ExportFormat
    out: GraphLocation
    sizes: ExportSizes = field(default_factory=ExportSizes)


def plan_export(
    graph: GraphCoordinator,
    settings: Settings,
    out: str | Path,
    *,
    form: str,
    types: Sequence[str] | None,
    branch: str | None,
    snapshot: ReadTarget | None,
    gate: Gate = UNGUARDED,
) -> ExportPlan:
    """Everything that can be refused before Spark starts.

    Raises:
        InvalidArgument: an unknown format or type, a branch and a snapshot, or a target that is a
            file or inside the graph.
        PolicyError: the actor may not export it.
        BranchNotFound, CommitNotFound, SnapshotReclaimed: there is no such state.
        RootNotEmpty: the target holds something.
        StorageDenied: it cannot be looked at.
    """
    known = ExportFormat.parse(form)
    state = open_state(graph, gate, Action.EXPORT, branch=branch, snapshot=snapshot)
    chosen = select_types(state, types)
    target = find_output(out, settings.storage)
    _refuse_inside(target, graph.storage.location)
    OutputFolder(target, settings.storage).require_empty()
    return ExportPlan(
        snapshot=state,
        branch=graph.lines.branch_name(state.branch_id),
        types=chosen,
        form=known,
        out=target,
    )


class SparkExport:
    """One run of one export."""

    def __init__(
        self,
        job: JobContext,
        plan: ExportPlan,
    ) -> None:
        if not job.shared_filesystem:
            _require_reachable(plan.out, require_spark(job.lane).session)
        self._job = job
        self._stages = job.stages
        self._plan = plan
        self._folder = OutputFolder(plan.out, job.settings.storage)
        self._operation_id = job.operation_id
        self._fragments: dict[str, Sequence[FragmentInfo]] = {}
        self._moved: list[str] = []

    def report(self) -> JobReport:
        """Run it and tell what it wrote.

        Raises:
            RootNotEmpty, InvalidArgument, StorageDenied: the target cannot be used.
            SnapshotReclaimed: cleanup removed the version meanwhile.
            SparkUnavailable, PipelineTaskError, ExecutorMismatch: Spark could not do it.
        """
        with self._job.running():
            self._stages.enter("list")
            if self._job.graph.mode is OpenMode.READ_WRITE:
                self._job.pin.hold(self._plan.snapshot.handle(item) for item in self._plan.types)
            self._folder.claim(self._operation_id)
            try:
                files = self._run()
            except BaseException as error:
                if self._try_to_remove():
                    error.add_note(f"what was written to {self._folder.location} was removed")
                raise
            self._stages.end()
        counts = _rows_by_table(files)
        return JobReport(
            operation_id=self._operation_id,
            commit=None,
            branch=self._plan.branch,
            mode="export",
            engine="spark",
            tables=tuple(
                TableReport(table=table, read=rows, unchanged=rows)
                for table, rows in counts.items()
            ),
            stages=self._stages.reports(),
        )

    def _run(self) -> list[ExportedFile]:
        self._job.require_executors()
        tables = [self._table(item) for item in self._plan.types]
        runs = self._sort([each for each in tables if not self._is_whole(each)])
        files = self._write(tables, runs)
        self._stages.enter("publish", Amount(rows=sum(each.rows for each in files)))
        _require_all_rows(tables, files)
        self._moved = [each.path for each in files]
        self._folder.move([(self._temporary(name), name) for name in self._moved])
        self._folder.create(MANIFEST, self._manifest(files))
        self._release()
        return files

    def _table(self, item: NodeType | EdgeType) -> ExportedTable:
        handle = self._plan.snapshot.handle(item)
        fragments = self._job.graph.tables.fragments(handle)
        self._fragments[key_of(item)] = fragments
        return ExportedTable(
            root=self._job.root,
            out=str(self._folder.location),
            commit_id=self._plan.snapshot.graph_commit_id,
            item=item,
            table=TaskTable(layout=handle.layout, pin=handle.pin),
            rows=sum(each.rows for each in fragments),
        )

    def _is_whole(self, table: ExportedTable) -> bool:
        size_bytes = sum(each.size_bytes for each in self._fragments[table.key])
        sizes = self._plan.sizes
        return table.rows <= sizes.whole_rows and size_bytes <= sizes.whole_bytes

    def _sort(self, tables: Sequence[ExportedTable]) -> Mapping[str, list[Run]]:
        """The runs of tables that do not fit one file, by table."""
        sizes = self._plan.sizes
        tasks = [
            SortTask(
                table=table,
                fragments=group,
                path=self._temporary(f"run-{table.file_stem}-{number:05d}"),
                run_bytes=sizes.run_bytes,
                block_bytes=sizes.block_bytes,
            )
            for table in tables
            for number, group in enumerate(
                group_fragments(self._fragments[table.key], sizes.group_rows)
            )
        ]
        runs: dict[str, list[Run]] = {}
        if not tasks:
            return runs
        work = _rows_of(tables)
        self._stages.enter("sort", work)
        results = self._job.run("sort", tasks, sort_rows, BLOCKS, work=work)
        for task, result in zip(tasks, results, strict=True):
            runs.setdefault(task.table.key, []).extend(read_runs(result.batches))
        return runs

    def _write(
        self, tables: Sequence[ExportedTable], runs: Mapping[str, list[Run]]
    ) -> list[ExportedFile]:
        """Every file, below the temporary folder, in the order of the manifest."""
        work = _rows_of(tables)
        self._stages.enter("write", work)
        form, names, tasks = self._plan.form, list[str](), list[WriteTask]()
        for table in tables:
            table_runs = runs.get(table.key)
            ranges = (
                [None]
                if table_runs is None
                else cut_ranges(table_runs, self._plan.sizes.file_bytes)
            )
            for number, ids in enumerate(ranges):
                name = f"{table.file_stem}-{number:05d}.{form.value}"
                names.append(name)
                tasks.append(WriteTask(table=table, form=form, path=self._temporary(name), ids=ids))
        results = self._job.run("write", tasks, write_file, FILES, work=work)
        files = []
        for name, task, result in zip(names, tasks, results, strict=True):
            (row,) = result.batches[0].to_pylist()
            files.append(ExportedFile(path=name, table=task.table.key, **row))
        self._stages.count(
            rows=sum(each.rows for each in files),
            size_bytes=sum(each.size_bytes for each in files),
        )
        return files

    def _manifest(self, files: Sequence[ExportedFile]) -> bytes:
        snapshot = self._plan.snapshot
        content = {
            "version": MANIFEST_VERSION,
            "graph_commit_id": snapshot.graph_commit_id,
            "resolved_snapshot": snapshot.resolved_snapshot,
            "schema_hash": snapshot.schema_hash,
            "format": self._plan.form.value,
            "rows": sum(each.rows for each in files),
            "tables": [
                {"table": table, "rows": rows} for table, rows in _rows_by_table(files).items()
            ],
            "files": [each.to_dict() for each in files],
        }
        return json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n"

    def _temporary(self, name: str) -> str:
        return f"{TEMPORARY}/{self._operation_id}/{name}"

    def _release(self) -> None:
        try:
            self._folder.release()
        except OmnigraphError as error:
            # The export is complete: what is left beside it is no part of it.
            log.warning("temporary files stay", extra={"why": error.message})

    def _try_to_remove(self) -> bool:
        try:
            # The manifest first: without it nothing of the rest is an export.
            self._folder.remove([MANIFEST, *self._moved])
            self._folder.release()
        except OmnigraphError as error:
            # The error under way says more.
            log.warning("files of an export stay", extra={"why": error.message})
            return False
        return True


def _rows_of(tables: Sequence[ExportedTable]) -> Amount:
    return Amount(rows=sum(each.rows for each in tables))


def _rows_by_table(files: Sequence[ExportedFile]) -> dict[str, int]:
    rows: dict[str, int] = {}
    for each in files:
        rows[each.table] = rows.get(each.table, 0) + each.rows
    return rows


def _require_all_rows(tables: Sequence[ExportedTable], files: Sequence[ExportedFile]) -> None:
    written = _rows_by_table(files)
    for table in tables:
        if written[table.key] != table.rows:
            raise InternalError(
                f"{table.key} has {table.rows:,} rows and {written[table.key]:,} were written;"
                " nothing is exported: please report it with the log",
                table=table.key,
            )


def _refuse_inside(out: GraphLocation, graph: GraphLocation) -> None:
    if f"{out}/".startswith(f"{graph}/"):
        raise InvalidArgument(
            f"{out} is inside the graph {graph}, whose folder holds nothing else; name a place"
            " outside of it",
            argument="out",
        )


def _require_reachable(out: GraphLocation, session: PipelineSession) -> None:
    if out.is_local and not session.is_here:
        raise InvalidArgument(
            f"the target {out} is a local path, and Spark runs on {session.cluster}: if every"
            " executor sees that path, say so with shared_filesystem=True, otherwise export to an"
            " s3:// address",
            location=str(out),
            cluster=session.cluster,
        )
