"""The receipt of a job that a commit holds already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.graph.jobs.report import JobReport
from omnigraph.graph.load.load_stats import committed_rejects, committed_tables, made_branch

if TYPE_CHECKING:
    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.graph.load.request import LoadRequest


def repeat_receipt(done: Commit, job_key: str | None, request: LoadRequest) -> JobReport:
    """The receipt of a job that a commit holds already."""
    rejects = committed_rejects(done.stats)
    return JobReport(
        operation_id=done.operation_id,
        job_key=job_key,
        commit=done,
        branch=request.branch,
        base_branch=request.from_,
        branch_created=made_branch(done.stats),
        mode=request.mode.value,
        engine="spark",
        already_loaded=True,
        actor_id=request.actor_id,
        tables=tuple(committed_tables(done.stats)),
        violations=rejects.violations,
        rejects_uri=rejects.uri,
    )
