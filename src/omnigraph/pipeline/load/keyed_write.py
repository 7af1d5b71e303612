"""Writing a frame under a key: the same key again is a no-op, as a stream needs it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.errors import IdempotencyKeyReused
from omnigraph.graph.history.pipeline_history import read_history
from omnigraph.graph.load.receipts import repeat_receipt
from omnigraph.pipeline.load.job import SparkLoad
from omnigraph.pipeline.spec.pipeline_spec import text_digest

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.graph.blobs.addresses import ExternalBlobs
    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.load.request import LoadRequest
    from omnigraph.pipeline.sources.sources import LoadSource
    from omnigraph.pipeline.spark.job import JobContext


def write_frame(
    graph: GraphCoordinator,
    open_job: Callable[[], JobContext],
    source: LoadSource,
    request: LoadRequest,
    *,
    job_key: str | None,
    external: ExternalBlobs,
) -> JobReport:
    """Load a frame; a key that a commit of the branch has makes it a no-op.

    Raises:
        IdempotencyKeyReused: the commit with this key is of another type, mode or mapping.
    """
    what = text_digest(f"{request.digested}{source.definition}")
    if job_key is not None:
        line = graph.lines.read(graph.branch_id(request.branch))
        done = read_history(line, None).by_job_key.get(job_key)
        if done is not None:
            _require_same(done, job_key, what)
            return repeat_receipt(done, job_key, request)
        request = replace(request, idempotency_key=f"job:{job_key}")
    load = SparkLoad(
        open_job(),
        [source],
        request,
        external=external,
        stats={} if job_key is None else {"pipeline": {"job_key": job_key, "write": what}},
        digest=None if job_key is None else what,
    )
    return replace(load.report(), job_key=job_key)


def _require_same(done: Commit, job_key: str, what: str) -> None:
    if done.stats["pipeline"].get("write") != what:
        raise IdempotencyKeyReused(
            f"the job key {job_key!r} belongs to another write (commit {done.graph_commit_id}), of"
            " another type, mode or mapping; use one key for each write",
            job_key=job_key,
            graph_commit_id=done.graph_commit_id,
        )
