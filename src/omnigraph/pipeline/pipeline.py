"""`Pipeline`: the jobs of one open graph on Spark. It delegates; each job has its own module."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from omnigraph.errors import InvalidArgument
from omnigraph.graph.access import Action
from omnigraph.graph.commit.txn import checked_key
from omnigraph.graph.gate import UNGUARDED
from omnigraph.graph.history.allowed_states import open_state
from omnigraph.graph.history.snapshot import open_snapshot
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.load.load_branch import readable_branch, require_load
from omnigraph.graph.load.reject_files import RejectFiles
from omnigraph.graph.load.request import (
    LoadRequest,
    checked_operation,
    checked_partial,
    parse_load_request,
)
from omnigraph.graph.maintenance.lane import find_items
from omnigraph.graph.maintenance.optimize import require_target
from omnigraph.graph.maintenance.table_work import list_of_names
from omnigraph.graph.query.predicate_text import compile_predicate
from omnigraph.graph.type_names import find_type
from omnigraph.ids import MAIN_BRANCH, BranchName
from omnigraph.pipeline.datasource.snapshot_frame import plan_scan, table_frame
from omnigraph.pipeline.embed.job import EmbedJob, EmbedOptions, require_embeddable
from omnigraph.pipeline.embed.targets import EmbedMode
from omnigraph.pipeline.export.job import SparkExport, plan_export
from omnigraph.pipeline.load.job import SparkLoad
from omnigraph.pipeline.load.keyed_write import write_frame
from omnigraph.pipeline.load.pipeline_run import PipelineRun, RunOptions
from omnigraph.pipeline.maintenance.job import MaintenanceJob, MaintenanceOptions
from omnigraph.pipeline.query.prepared import prepare
from omnigraph.pipeline.sources.local_source import plan_local_source
from omnigraph.pipeline.sources.precheck import precheck
from omnigraph.pipeline.sources.request import SourceRequest, plan_source
from omnigraph.pipeline.spark.arrow_types import readable_columns
from omnigraph.pipeline.spark.job import open_job
from omnigraph.pipeline.spark.session import open_reachable_session, open_session
from omnigraph.pipeline.spec.pipeline_file import read_pipeline
from omnigraph.pipeline.spec.pipeline_spec import with_paths_from
from omnigraph.settings import Engine, process_environment

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.embedding import Embedder
    from omnigraph.graph.blobs.addresses import ExternalBlobs
    from omnigraph.graph.gate import Gate
    from omnigraph.graph.history.targets import ReadTarget
    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.lang.catalog import EdgeType, NodeType
    from omnigraph.pipeline.analytics.analytics import Analytics
    from omnigraph.pipeline.spark.job import JobContext
    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.settings import Settings


Spark: TypeAlias = "SparkSession"
"""A session of Spark, of either client."""


class Pipeline:
    """Jobs of one graph on Spark; a context manager that stops what it started."""

    def __init__(
        self,
        graph: GraphCoordinator,
        settings: Settings,
        *,
        actor_id: str | None,
        external: ExternalBlobs,
        spark: Spark | None = None,
        command: str = "pipeline",
        shared_filesystem: bool = False,
        embedder: Embedder | None = None,
        gate: Gate = UNGUARDED,
    ) -> None:
        self._graph = graph
        self._gate = gate
        self._settings = settings
        self._actor_id = actor_id
        self._external = external
        self._shared_filesystem = shared_filesystem
        self._embedder = embedder
        self._command = command
        self._opened: PipelineSession | None = None
        if spark is not None:
            self._opened = open_session(settings, command=command, spark=spark)

    @property
    def analytics(self) -> Analytics:
        """Measures of whole graphs; those that fit this process need no Spark."""
        from omnigraph.pipeline.analytics.analytics import Analytics
        from omnigraph.pipeline.analytics.scores import Workplace

        return Analytics(
            Workplace(
                graph=self._graph,
                gate=self._gate,
                settings=self._settings,
                actor_id=self._actor_id,
                external=self._external,
                session=lambda: self._session,
                open_job=self._analytics_job,
            )
        )

    @property
    def _session(self) -> PipelineSession:
        """Spark, started when it is first needed: a mistake in the input is told before."""
        if self._opened is None:
            self._opened = open_reachable_session(
                self._graph.storage.location,
                self._settings,
                command=self._command,
                shared_filesystem=self._shared_filesystem,
            )
        return self._opened

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: builtins.type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop Spark if it was started here; safe twice."""
        if self._opened is not None:
            self._opened.close()

    def load(
        self,
        source: str | Path | DataFrame,
        *,
        mode: Literal["append", "merge", "update", "overwrite"],
        branch: str = MAIN_BRANCH,
        from_: str | None = None,
        format: str | None = None,
        type: str | None = None,
        edge: str | None = None,
        columns: Mapping[str, str | Mapping[str, str]] | None = None,
        takes_same_names: bool = False,
        options: Mapping[str, str] | None = None,
        on_error: Literal["fail", "quarantine"] = "fail",
        rejects: str | None = None,
        max_rejects: int | None = None,
        max_reject_ratio: float | None = None,
        cascade: bool = False,
        partial: bool = False,
        embed: bool = False,
        dry_run: bool = False,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        resume: str | None = None,
        engine: Literal["local", "spark"] = "spark",
        progress: Progress | None = None,
        started: Callable[[str], None] | None = None,
    ) -> JobReport:
        """Load files of any size, a table or a frame as one commit: all of it or nothing.

        Bad rows refuse it, unless they are set aside.

        Args:
            source: a file, a folder or a pattern of files, local or `s3://`; the name of a table;
                or a Spark frame.
            mode: `append` (rows must be new), `merge` (replace rows of the same id), `update`
                (change what is given of rows that exist) or `overwrite` (replace all rows of each
                type of the input).
            branch: where to write.
            from_: fork the branch from this one if it does not exist.
            format: `ndjson` (the graph format, whose lines name their types), `json`, `csv`,
                `parquet`, `orc` or `table`; without it the ending of the name tells.
            type: the node type that the rows of a tabular source become.
            edge: or the edge type; its ends are the columns `src` and `dst`.
            columns: by property, the column that gives it or `{"expr": "…"}` in Spark SQL; without
                it every column is the property of its name.
            takes_same_names: properties that `columns` leaves out take the column of their name.
            options: of Spark's reader.
            on_error: what bad rows do: `fail` refuses the load, `quarantine` sets them aside in
                `rejects` and commits the rest.
            rejects: the folder, local or `s3://`, that gets a folder with the bad rows of this
                load, also where it fails.
            max_rejects: more bad rows than this fail the load; the setting by default.
            max_reject_ratio: so does a larger part of what was read; the setting by default.
            cascade: `quarantine` sets nodes aside too that are left without a required edge.
            partial: a `merge` keeps the values that a row does not give, as `update` always does.
            embed: fill nullable `@embed` vectors too, not only the required ones.
            dry_run: check everything and report; nothing stays.
            if_commit: write only while this commit is the head of the branch.
            idempotency_key: the same key again gives the first receipt and writes nothing.
            resume: the operation of a load that was cut off: what it staged is used, if the input,
                the schema and the tables are the same; else the load starts over and says so.
            engine: `local` loads one CSV or Parquet file of moderate size in this process, without
                Java; columns are taken as they are.
            progress: told a `StageProgress` (`omnigraph.graph.jobs.stage_progress`) whenever more
                is known: the stage, its tasks, its rows and bytes.
            started: told the operation of the load, which `resume` takes.

        Raises:
            SourceError, InputChanged: the input is missing, cannot be read, or changed meanwhile.
            LoadRejected, KeyConflict: records are bad; details have up to 1,000 with their lines.
            SparkUnavailable, PipelineTaskError, ExecutorMismatch: Spark could not do it.
            ReadSetChanged: others changed what the load depends on, again and again.
            PreconditionFailed: the head is not the given `if_commit`.
        """
        self._graph.require_writable()
        request = parse_load_request(
            self._settings,
            self._actor_id,
            mode=mode,
            branch=branch,
            from_=from_,
            on_error=on_error,
            rejects=rejects,
            max_rejects=max_rejects,
            max_reject_ratio=max_reject_ratio,
            cascade=cascade,
            partial=partial,
            embed=embed,
            dry_run=dry_run,
            if_commit=if_commit,
            idempotency_key=idempotency_key,
            resume=resume,
        )
        rows = SourceRequest(
            source=source,
            format=format,
            type=type,
            edge=edge,
            columns=columns,
            takes_same_names=takes_same_names,
            options=options or {},
        )
        return self.load_rows(rows, request, engine=engine, progress=progress, started=started)

    def load_rows(
        self,
        rows: SourceRequest,
        request: LoadRequest,
        *,
        engine: Literal["local", "spark"] = "spark",
        progress: Progress | None = None,
        started: Callable[[str], None] | None = None,
    ) -> JobReport:
        """Load as `load` does, for a caller who has the request already."""
        base = require_load(self._graph, self._gate, request.branch, request.from_)
        request = replace(request, from_=base)
        self._graph.require_writable()
        rows = replace(rows, keeps_values=request.keeps_values)
        is_local = engine == "local"
        planned = plan_local_source if is_local else plan_source
        source = planned(rows, self._settings)
        # What can be told at once is: Spark takes seconds to start.
        RejectFiles(request.rejects, self._graph.storage.location)
        branch = readable_branch(self._graph, request.branch, request.from_)
        precheck(open_snapshot(self._graph, None, branch).catalog, source)
        job = self._job("load", progress=progress, operation_id=request.resume, is_local=is_local)
        return SparkLoad(job, [source], request, external=self._external, started=started).report()

    def _job(
        self,
        kind: str,
        *,
        progress: Progress | None = None,
        operation_id: str | None = None,
        is_local: bool = False,
    ) -> JobContext:
        return open_job(
            self._graph,
            None if is_local else self._session,
            self._settings,
            kind=kind,
            actor_id=self._actor_id,
            progress=progress,
            operation_id=operation_id,
            shared_filesystem=self._shared_filesystem,
        )

    def _analytics_job(self, kind: str, progress: Progress | None, engine: Engine) -> JobContext:
        return self._job(kind, progress=progress, is_local=engine is Engine.LOCAL)

    def run(
        self,
        file: str | Path,
        *,
        only: Sequence[str] | None = None,
        full_refresh: bool = False,
        keep_cursor: bool = False,
        force: bool = False,
        resume: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
        started: Callable[[str], None] | None = None,
    ) -> JobReport:
        """Run a `pipeline.yaml` on this graph: all its sources as one commit.

        The graph that the file names is not looked at: this one was opened. Relative paths are
        taken from the folder of the file.

        Args:
            file: the pipeline.
            only: names of sources; the others are left alone.
            full_refresh: read every source from its beginning, whatever its cursor says.
            keep_cursor: go on from a cursor although the source or its mapping changed.
            force: load although the same run was committed before.
            resume: the operation of a run that was cut off, as for `load`.
            dry_run: check everything and report; nothing stays.
            progress: told a `StageProgress` (`omnigraph.graph.jobs.stage_progress`) whenever more
                is known: the stage, its tasks, its rows and bytes.
            started: told the operation of the run, which `resume` takes.

        Raises:
            SettingInvalid: the file is wrong; details `diagnostics` with lines.
            InvalidArgument: `only` names no source, or a cursor no longer fits its source.
            ReadSetChanged: another run of the pipeline was committed meanwhile.
            LoadRejected, KeyConflict, SourceError: as for `load`.
        """
        self._gate.require_actor()
        path = Path(file)
        spec = with_paths_from(read_pipeline(path, process_environment()), path.absolute().parent)
        self._gate.require(Action.CHANGE, spec.branch)
        self._graph.require_writable()
        options = RunOptions(
            only=only,
            full_refresh=full_refresh,
            keep_cursor=keep_cursor,
            force=force,
            dry_run=dry_run,
            resume=checked_operation(resume, dry_run=dry_run),
        )
        return PipelineRun(
            self._graph,
            self._settings,
            lambda: self._job("load", progress=progress, operation_id=options.resume),
            spec,
            options,
            external=self._external,
            actor_id=self._actor_id,
            started=started,
        ).report()

    def write(
        self,
        df: DataFrame,
        *,
        type: str | None = None,
        edge: str | None = None,
        mode: Literal["append", "merge", "update", "overwrite"] = "merge",
        branch: str = MAIN_BRANCH,
        columns: Mapping[str, str | Mapping[str, str]] | None = None,
        partial: bool = False,
        job_key: str | None = None,
    ) -> JobReport:
        """Write the rows of a frame to one type, as one commit.

        Args:
            df: the frame; `foreachBatch` of a stream gives one for each batch.
            type: the node type.
            edge: or the edge type.
            mode: as for `load`.
            branch: where to write.
            columns: as for `load`.
            partial: as for `load`.
            job_key: a write whose key a commit of the branch has is done already and does nothing;
                for a stream, the query's id and the number of the batch.

        Raises:
            LoadRejected, KeyConflict, SourceError: as for `load`.
        """
        self._gate.require(Action.CHANGE, branch)
        self._graph.require_writable()
        load_mode = LoadMode.parse(mode)
        request = LoadRequest(
            mode=load_mode,
            branch=BranchName(branch),
            partial=checked_partial(load_mode, is_partial=partial),
            actor_id=self._actor_id,
        )
        rows = SourceRequest(
            source=df,
            type=type,
            edge=edge,
            columns=columns,
            keeps_values=request.keeps_values,
        )
        source = plan_source(rows, self._settings)
        key = checked_key(job_key)
        return write_frame(
            self._graph,
            lambda: self._job("load"),
            source,
            request,
            job_key=key,
            external=self._external,
        )

    def read(
        self,
        *,
        type: str | None = None,
        edge: str | None = None,
        columns: Sequence[str] | None = None,
        filter: str | None = None,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
    ) -> DataFrame:
        """The rows of a type as a Spark frame, from one snapshot.

        Args:
            type: a node type.
            edge: an edge type, instead; its ends are the columns `src` and `dst`.
            columns: which columns; all but blobs without it.
            filter: a condition of the query language on properties and values, as `age > 30` or
                `age is null or name in ["Ada", "Alan"]`.
            branch: whose head to read; `main` by default.
            snapshot: a commit id, a tag, a `resolved_snapshot`, a number or a time of `main` to
                read instead.

        Raises:
            InvalidArgument: unknown type or column, or not exactly one type.
            BranchNotFound, CommitNotFound, SnapshotReclaimed: there is no such state.
        """
        if (type is None) is (edge is None):
            raise InvalidArgument("give a type or an edge, one of them", argument="type")
        state = open_state(self._graph, self._gate, Action.READ, branch=branch, snapshot=snapshot)
        item = find_type(state.catalog, f"node:{type}" if edge is None else f"edge:{edge}")
        _require_columns(item, columns)
        self._session.require_access(
            self._graph.storage.location, shared_filesystem=self._shared_filesystem
        )
        predicate = None if filter is None else compile_predicate(state.catalog, item, filter)
        scans = plan_scan(
            str(self._graph.storage.location),
            self._graph.tables,
            state,
            item,
            columns=columns,
            predicate=predicate,
        )
        return table_frame(self._session, scans, item, columns)

    def query(
        self,
        source: str,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
    ) -> DataFrame:
        """The rows of a read query as a lazy Spark frame, in the order of the result.

        A walk of several hops, and a text search, run when the frame is made; all else when Spark
        runs it. Values have the types of `read`.

        Args:
            source: `.gq` text.
            name: which query of the source; may be left out when there is one.
            params: values of the declared parameters.
            branch: whose head to read; `main` by default.
            snapshot: a commit id, a tag, a `resolved_snapshot`, a number or a time of `main` to
                read instead.

        Raises:
            QueryInvalid, QuerySelectionError, ParameterError: what was asked is wrong.
            BranchNotFound, CommitNotFound, SnapshotReclaimed: there is no such state.
        """
        state = open_state(self._graph, self._gate, Action.READ, branch=branch, snapshot=snapshot)
        query = prepare(state, source, name, params, now_ms=self._graph.clock.now_ms())
        from omnigraph.pipeline.query.executor import open_executor

        with open_executor(
            self._graph,
            self._session,
            self._settings.embedding,
            self._embedder,
            shared_filesystem=self._shared_filesystem,
        ) as executor:
            return executor.frame(query)

    def export(
        self,
        out: str | Path,
        *,
        format: Literal["ndjson", "parquet", "csv"] = "ndjson",
        types: Sequence[str] | None = None,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
        progress: Progress | None = None,
    ) -> JobReport:
        """Write one snapshot as files; the same commit gives the same bytes.

        The folder is an export once it has `_manifest.json`, which names the commit and every file
        with its rows, bytes and checksum. The graph is not changed: the report has no commit.

        Args:
            out: an empty or new folder, local or `s3://`.
            format: `ndjson` (what a load reads), `parquet` or `csv` (the columns of each type).
            types: which types, as `Person`, `node:Link` or `edge:Link`; all by default.
            branch: whose head to write; `main` by default.
            snapshot: a commit id, a tag, a `resolved_snapshot`, a number or a time of `main` to
                write instead.
            progress: told a `StageProgress` (`omnigraph.graph.jobs.stage_progress`) whenever more
                is known: the stage, its tasks, its rows and bytes.

        Raises:
            InvalidArgument: an unknown type or format, or a target that cannot be used.
            RootNotEmpty: the target holds something already.
            StorageDenied: the target cannot be written.
            BranchNotFound, CommitNotFound, SnapshotReclaimed: there is no such state.
            SparkUnavailable, PipelineTaskError, ExecutorMismatch: Spark could not do it.
        """
        plan = plan_export(
            self._graph,
            self._settings,
            out,
            form=format,
            types=types,
            branch=branch,
            snapshot=snapshot,
            gate=self._gate,
        )
        return SparkExport(self._job("export", progress=progress), plan).report()

    def embed(
        self,
        *,
        type: str,
        property: str | None = None,
        mode: Literal["missing", "all"] = "missing",
        branch: str = MAIN_BRANCH,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> JobReport:
        """Fill the `@embed` vectors of a type, as one commit; none if there is nothing to fill.

        Every distinct text is paid for once, also when tasks or the whole job run again.

        Args:
            type: a node type.
            property: one vector of it; all its `@embed` vectors without it.
            mode: `missing` (rows with a text and no vector) or `all` (every row with a text).
            branch: where to read and write.
            dry_run: count the rows and the texts that would be paid for; nothing is embedded.
            progress: told a `StageProgress` (`omnigraph.graph.jobs.stage_progress`) whenever more
                is known: the stage, its tasks, its rows and bytes.

        Raises:
            InvalidArgument: there is no such type, or it has no such vector.
            EmbeddingUnavailable, EmbeddingInvalid, EmbeddingModelMismatch: no usable vectors.
            SparkUnavailable, PipelineTaskError, ExecutorMismatch: Spark could not do it, or the
                provider gave no answer.
            ReadSetChanged: others changed the rows again and again.
        """
        self._gate.require(Action.CHANGE, branch)
        self._graph.require_writable()
        options = EmbedOptions(
            type=type,
            property=property,
            mode=EmbedMode.parse(mode),
            branch=BranchName(branch),
            actor_id=self._actor_id,
        )
        require_embeddable(self._graph, self._settings, options, self._embedder)
        job = EmbedJob(self._job("embed", progress=progress), options, embedder=self._embedder)
        return job.rehearse() if dry_run else job.report()

    def optimize(
        self,
        *,
        types: Iterable[str] | None = None,
        branch: str = MAIN_BRANCH,
        target_rows: int | None = None,
        progress: Progress | None = None,
    ) -> JobReport:
        """Join small fragments and bring indexes up to date, as one commit; none if none is due.

        No row changes, and no version is removed. `graph.maintenance.optimize` does the same and
        tells of fragments and indexes.

        Args:
            types: only of these types, `Person` or `node:Person`; all without it.
            branch: whose tables.
            target_rows: how many rows a fragment is to have; 1,048,576 without it.
            progress: told a `StageProgress` (`omnigraph.graph.jobs.stage_progress`) whenever more
                is known: the stage and its tasks.

        Raises:
            InvalidArgument: there is no such type, or the target is not positive.
            BranchNotFound: there is no such branch.
            RecoveryBlocked: an interrupted write of the branch cannot be settled.
            SparkUnavailable, PipelineTaskError, ExecutorMismatch: Spark could not do it.
        """
        self._graph.require_writable()
        require_target(target_rows)
        job = self._maintenance("optimize", types, branch, progress)
        return job.receipt(job.optimize(target_rows=target_rows), "optimize")

    def ensure_indices(
        self,
        *,
        types: Iterable[str] | None = None,
        branch: str = MAIN_BRANCH,
        progress: Progress | None = None,
    ) -> JobReport:
        """Build the declared indexes that are missing or stale, as one commit; none if none is.

        `graph.maintenance.ensure_indices` does the same and tells what every index covers.

        Args:
            types: only of these types, `Person` or `node:Person`; all without it.
            branch: where to build them.
            progress: told a `StageProgress` (`omnigraph.graph.jobs.stage_progress`) whenever more
                is known: the stage and its tasks.

        Raises:
            InvalidArgument: there is no such type.
            BranchNotFound: there is no such branch.
            RecoveryBlocked: an interrupted write of the branch cannot be settled.
            SparkUnavailable, PipelineTaskError, ExecutorMismatch: Spark could not do it.
        """
        self._graph.require_writable()
        job = self._maintenance("ensure_indices", types, branch, progress)
        return job.receipt(job.ensure_indices(), "ensure_indices")

    def _maintenance(
        self,
        kind: str,
        types: Iterable[str] | None,
        branch: str,
        progress: Progress | None,
    ) -> MaintenanceJob:
        names = list_of_names(types)
        # A mistake is told before Spark is started, which takes seconds.
        find_items(self._graph, branch, names)
        options = MaintenanceOptions(branch=branch, types=names, actor_id=self._actor_id)
        return MaintenanceJob(self._job(kind, progress=progress), options, progress=progress)


def _require_columns(item: NodeType | EdgeType, columns: Sequence[str] | None) -> None:
    known = readable_columns(item)
    for name in columns or ():
        if name not in known:
            raise InvalidArgument(
                f"{item.name} has no column `{name}` that can be read; it has {', '.join(known)}",
                type=item.name,
                property=name,
            )
