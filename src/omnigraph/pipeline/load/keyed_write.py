"""Writing a frame under a key: the same key again is a no-op, as a stream needs it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.errors import IdempotencyKeyReused
from omnigraph.graph.history.pipeline_history import read_history
from omnigraph.pipeline.load.job import SparkLoad
from omnigraph.pipeline.load.receipts import repeat_receipt
from omnigraph.pipeline.spec.pipeline_spec import text_digest

if TYPE_CHECKING:
    from omnigraph.graph.blobs.addresses import ExternalBlobs
    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.load.options import LoadOptions
    from omnigraph.pipeline.sources.sources import LoadSource
    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.settings import Settings


def write_frame(
    graph: GraphCoordinator,
    session: PipelineSession,
    settings: Settings,
    source: LoadSource,
    options: LoadOptions,
    *,
    job_key: str | None,
    external: ExternalBlobs,
    shared_filesystem: bool = False,
) -> JobReport:
    """Load a frame; a key that a commit of the branch has makes it a no-op.

    Raises:
        IdempotencyKeyReused: the commit with this key is of another type, mode or mapping.
    """
    what = text_digest(f"{options.digested}{source.definition}")
    if job_key is not None:
        line = graph.lines.read(graph.branch_id(options.branch))
        done = read_history(line, None).by_job_key.get(job_key)
        if done is not None:
            _require_same(done, job_key, what)
            return repeat_receipt(done, job_key, options)
        options = replace(options, idempotency_key=f"job:{job_key}")
    job = SparkLoad(
        graph,
        session,
        settings,
        [source],
        options,
        external=external,
        stats={} if job_key is None else {"pipeline": {"job_key": job_key, "write": what}},
        digest=None if job_key is None else what,
        shared_filesystem=shared_filesystem,
    )
    return replace(job.report(), job_key=job_key)


def _require_same(done: Commit, job_key: str, what: str) -> None:
    if done.stats["pipeline"].get("write") != what:
        raise IdempotencyKeyReused(
            f"the job key {job_key!r} belongs to another write (commit {done.graph_commit_id}), of"
            " another type, mode or mapping; use one key for each write",
            job_key=job_key,
            graph_commit_id=done.graph_commit_id,
        )
