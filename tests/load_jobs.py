"""Loads of the Spark lane, made as its callers make them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omnigraph.graph.blobs.addresses import DENY_ALL
from omnigraph.pipeline.load.job import SparkLoad
from omnigraph.pipeline.spark.job import open_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph import Graph
    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.graph.load.request import LoadRequest
    from omnigraph.pipeline.sources.sources import LoadSource
    from omnigraph.pipeline.spark.session import PipelineSession
    from omnigraph.settings import Settings


def spark_load(
    graph: Graph,
    session: PipelineSession | None,
    settings: Settings,
    sources: Sequence[LoadSource],
    request: LoadRequest,
    *,
    resume: str | None = None,
    operation_id: str | None = None,
    progress: Progress | None = None,
    **options: Any,  # noqa: ANN401 - as the load takes them
) -> SparkLoad:
    """A load; without a session its tasks run in this process."""
    job = open_job(
        graph._graph,
        session,
        settings,
        kind="load",
        progress=progress,
        operation_id=resume or operation_id,
    )
    asked = replace(request, resume=resume)
    return SparkLoad(job, sources, asked, **{"external": DENY_ALL, **options})
