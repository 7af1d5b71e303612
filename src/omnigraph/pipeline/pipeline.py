"""`Pipeline`: the jobs of one open graph on Spark. It delegates; each job has its own module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from omnigraph.errors import InvalidArgument, SourceError
from omnigraph.graph.job_report import LoadMode
from omnigraph.graph.load_options import LoadOptions
from omnigraph.graph.predicate_text import compile_predicate
from omnigraph.graph.snapshot import open_snapshot
from omnigraph.graph.type_names import find_type
from omnigraph.graph.write_txn import checked_key
from omnigraph.ids import MAIN_BRANCH, BranchName
from omnigraph.pipeline.load_job import SparkLoad
from omnigraph.pipeline.session import open_session
from omnigraph.pipeline.spark_types import readable_columns
from omnigraph.pipeline.table_frame import plan_scan, table_frame

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from pyspark.sql import DataFrame, SparkSession

    from omnigraph.graph.coordinator import GraphCoordinator
    from omnigraph.graph.external_blobs import ExternalBlobs
    from omnigraph.graph.job_report import JobReport
    from omnigraph.lang.catalog import EdgeType, NodeType
    from omnigraph.pipeline.progress import Progress
    from omnigraph.pipeline.session import PipelineSession
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
    ) -> None:
        self._graph = graph
        self._settings = settings
        self._actor_id = actor_id
        self._external = external
        self._shared_filesystem = shared_filesystem
        self._session: PipelineSession = open_session(settings, command=command, spark=spark)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop Spark if it was started here; safe twice."""
        self._session.close()

    def load(
        self,
        source: str | Path,
        *,
        mode: Literal["append", "merge", "overwrite"],
        branch: str = MAIN_BRANCH,
        from_: str | None = None,
        format: str | None = None,
        embed: bool = False,
        dry_run: bool = False,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        progress: Progress | None = None,
    ) -> JobReport:
        """Load files of any size as one commit: all of them or nothing.

        Args:
            source: a file, a folder or a pattern of files, local or `s3://`.
            mode: `append` (rows must be new), `merge` (replace rows of the same id) or `overwrite`
                (replace all rows of each type of the input).
            branch: where to write.
            from_: fork the branch from this one if it does not exist.
            format: `ndjson`, the default.
            embed: fill nullable `@embed` vectors too, not only the required ones.
            dry_run: check everything and report; nothing stays.
            if_commit: write only while this commit is the head of the branch.
            idempotency_key: the same key again gives the first receipt and writes nothing.
            progress: told the stage, the tasks that are done and their number.

        Raises:
            SourceError, InputChanged: the input is missing, cannot be read, or changed meanwhile.
            LoadRejected, KeyConflict: records are bad; details have up to 1,000 with their lines.
            SparkUnavailable, PipelineTaskError, ExecutorMismatch: Spark could not do it.
            ReadSetChanged: others changed what the load depends on, again and again.
            PreconditionFailed: the head is not the given `if_commit`.
        """
        self._graph.require_writable()
        if format not in (None, "ndjson"):
            raise SourceError(
                f"the format {format!r} is not in this version; give files of JSON lines",
                format=format,
            )
        job = SparkLoad(
            self._graph,
            self._session,
            self._settings,
            str(source),
            LoadOptions(
                mode=LoadMode.parse(mode),
                branch=BranchName(branch),
                from_=from_,
                actor_id=self._actor_id,
                embed=embed,
                if_commit=if_commit,
                idempotency_key=checked_key(idempotency_key),
            ),
            external=self._external,
            progress=progress,
            shared_filesystem=self._shared_filesystem,
        )
        return job.rehearse() if dry_run else job.report()

    def read(
        self,
        *,
        type: str | None = None,
        edge: str | None = None,
        columns: Sequence[str] | None = None,
        filter: str | None = None,
        branch: str | None = None,
        snapshot: str | None = None,
    ) -> DataFrame:
        """The rows of a type as a Spark frame, from one snapshot.

        Args:
            type: a node type.
            edge: an edge type, instead; its ends are the columns `src` and `dst`.
            columns: which columns; all but blobs without it.
            filter: one predicate of the query language, as `age > 30`.
            branch: whose head to read; `main` by default.
            snapshot: a commit id or `resolved_snapshot` to read instead.

        Raises:
            InvalidArgument: unknown type or column, or not exactly one type.
            BranchNotFound, CommitNotFound, SnapshotReclaimed: there is no such state.
        """
        if (type is None) is (edge is None):
            raise InvalidArgument("give a type or an edge, one of them", argument="type")
        if branch is not None and snapshot is not None:
            raise InvalidArgument(
                "give a branch or a snapshot, not both: a snapshot names its branch",
                argument="snapshot",
            )
        found = open_snapshot(self._graph, snapshot, branch or MAIN_BRANCH)
        item = find_type(found.catalog, f"node:{type}" if edge is None else f"edge:{edge}")
        _require_columns(item, columns)
        self._session.require_access(
            self._graph.storage.location, shared_filesystem=self._shared_filesystem
        )
        predicate = None if filter is None else compile_predicate(found.catalog, item, filter)
        scans = plan_scan(
            str(self._graph.storage.location),
            self._graph.tables,
            found,
            item,
            columns=columns,
            predicate=predicate,
        )
        return table_frame(self._session, scans, item, columns)


def _require_columns(item: NodeType | EdgeType, columns: Sequence[str] | None) -> None:
    known = readable_columns(item)
    for name in columns or ():
        if name not in known:
            raise InvalidArgument(
                f"{item.name} has no column `{name}` that can be read; it has {', '.join(known)}",
                type=item.name,
                property=name,
            )
